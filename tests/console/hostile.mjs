// Writes hostile texts wherever people and visitors write: pages show them as text, with the very elements that they have for a plain
// one, and a spreadsheet takes none for a formula. The end-to-end suite runs it (tests/tests/e2e/console.rs).

import assert from 'node:assert/strict';
import { API, API_KEY, api } from './browser.mjs';
import { EDGE, link, until, visit, withPeople } from './person.mjs';

const MARKUP = [
  '<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)", '</textarea></title><svg onload=alert(1)>',
  '<!--', ']]>', '&lt;b&gt; &amp;amp;', 'javascript:alert(1)', '{{7*7}}${7*7}{% raw %}', '"\'`', '\\u003cb\\u003e',
];
const LETTERS = [
  '\u202egnp.exe', '\u2067\u05d0\u05d1\u2069', 'a\u200bb\u200d\ufeffc', '\u{1f469}\u200d\u{1f4bb}', '\u{10ffff}', 'e\u0301\u0301\u0301\u0301\u0301', '\u00ad\u2060', '日本語',
];
const FORMULAS = ["=cmd|' /C calc'!A0", '=HYPERLINK("https://evil.example","x")', '+1+1', '-1+1', '@SUM(1)', '%0a=1'];
const CONTROLS = ['a\r\nset-cookie: b=c', '\t=1+1', '\r=1+1', 'a\u0085b', '\u2028=1'];
const GROUPS = [MARKUP.slice(0, 4), MARKUP.slice(4), LETTERS, FORMULAS];
const LIST = [MARKUP, LETTERS, FORMULAS, CONTROLS].flat();

// What the page is made of without its texts: elements with the names of their attributes, in their order. Whether a field is wrong
// does not count.
const skeleton = ({ page }) => page.evaluate(() => [...document.querySelectorAll('*')]
  .map((element) => `${element.localName}[${element.getAttributeNames().filter((name) => name !== 'aria-invalid').sort()}]`));

const texts = ({ page }, selector) => page.locator(selector).evaluateAll((found) => found.map(({ textContent }) => textContent));

const PAGES = ['/console/links', '/console/links/x', '/console/links/x/edit', '/console/links/x/rules', '/console/links/x/dry-run?query=a', '/console/tags', '/console/keys', '/console/users'];
// They grow with each change.
const LOGS = ['/console/links/x/history', '/console/audit'];

// As much of it as a name may have, as names are kept.
const nameOf = (text) => [...text.normalize('NFC')].slice(0, 100).join('').trim();

// Texts of links, users and keys.
async function stored(person) {
  await link({ customSlug: 'x' });
  const key = (await api('/keys', { name: 'plain', tags: ['plain'] })).body;
  const user = (await api('/users', { name: 'plain', role: 'reader' })).body;
  let plain;
  for (const group of [['plain'], ...GROUPS]) {
    const text = group.join(' ');
    const target = `https://example.com/?q=${encodeURIComponent(text)}`;
    const patch = { longUrl: target, title: text, tags: group.slice(0, 4), notes: text, externalId: text, utmCampaign: text, expiredUrl: target };
    const name = nameOf(text);
    for (const [path, change] of [['/links/x', patch], [`/keys/${key.id}`, { name }], [`/users/${user.id}`, { name }]]) {
      const changed = await api(path, change, 'PATCH');
      assert.equal(changed.status, 200, JSON.stringify(changed.body));
    }
    const made = (await api('/links/x')).body;
    assert.equal(made.title, text);
    const seen = {};
    for (const path of [...PAGES, ...LOGS]) {
      await person.open(path);
      seen[path] = await skeleton(person);
      await SHOWN[path]?.(person, made, text);
    }
    plain ??= seen;
    compare(seen, plain, group);
  }
}

function compare(seen, plain, group) {
  const tags = (elements) => elements.filter((element) => !/^(span|a|tr|th|td|form|input|button)\[/.test(element));
  for (const path of PAGES) assert.deepEqual(tags(seen[path]), tags(plain[path]), `${path} with ${group}`);
  for (const path of [...PAGES, ...LOGS]) {
    const known = new Set(plain[path]);
    assert.deepEqual(seen[path].filter((element) => !known.has(element)), [], `${path} with ${group}`);
  }
}

// The texts where pages show them.
const SHOWN = {
  '/console/links': async (person, made, text) => {
    assert.deepEqual(await texts(person, 'tbody .title'), [text]);
    assert.deepEqual(await texts(person, 'tbody .tag'), made.tags);
    assert.deepEqual(await texts(person, 'tbody .target'), [made.longUrl]);
  },
  '/console/links/x': async (person, made, text) => {
    assert.equal(await person.heading(), text);
    assert.deepEqual(await texts(person, 'dd.notes'), [text]);
    assert.equal(await person.page.locator('dd.target a').getAttribute('href'), made.longUrl);
  },
  '/console/links/x/edit': async (person, made, text) => {
    for (const [name, value] of Object.entries({ title: text, notes: text, externalId: text, tags: made.tags.join('\n'), longUrl: made.longUrl })) {
      assert.equal(await person.page.locator(`#${name}`).inputValue(), value, name);
    }
  },
  '/console/tags': async (person, made) => assert.deepEqual((await texts(person, 'tbody th')).sort(), [...made.tags].sort()),
  '/console/keys': async (person, made, text) => assert.ok((await texts(person, 'tbody th')).includes(nameOf(text))),
  '/console/users': async (person, made, text) => assert.ok((await texts(person, 'tbody th')).includes(nameOf(text))),
  '/console/audit': async (person, made, text) => {
    const changes = await texts(person, 'tbody code');
    assert.ok(changes.some((change) => change.includes(JSON.stringify(text).slice(1, -1))), text);
  },
};

const SENT = ['longUrl', 'customSlug', 'title', 'tags', 'externalId', 'notes', 'utmSource', 'utmCampaign', 'expiredUrl'];

// What is refused comes back as it was: each text in a field, and in another one the next time.
async function sentBack(person) {
  await person.open('/console/create');
  const valuesOf = (names) => names.map((name) => document.getElementById(name).value);
  let known;
  const all = [...SENT.map(() => 'plain'), ...LIST];
  for (let first = 0; first < all.length; first += SENT.length) {
    const written = SENT.map((name, place) => `${name === 'longUrl' ? 'ftp://' : ''}${all[(first + place) % all.length]} !`);
    await person.page.locator('form[data-check="link"]').evaluate((form, [names, values]) => {
      form.noValidate = true;
      for (const [place, name] of names.entries()) form.elements[name].value = values[place];
    }, [SENT, written]);
    const sent = await person.page.evaluate(valuesOf, SENT);
    await person.press('New link', 422);
    assert.deepEqual(await person.page.evaluate(valuesOf, SENT), sent);
    const names = await skeleton(person);
    known ??= new Set([...names, 'p[]']);
    assert.deepEqual(names.filter((element) => !known.has(element)), [], `${written}`);
  }
}

// What an address holds.
async function asked(person) {
  for (const path of ['/console/links?searchTerm=', '/console/links?tags=', '/console/tags?prefix=', '/console/audit?subject=', '/console/create?title=', '/console/links/', '/console/domains/', '/console/links/x/deleted?domain=', '/console/login?to=']) {
    const answer = async (text) => {
      const address = path + encodeURIComponent(text);
      await person.open(address, (await person.page.request.get(address)).status());
      return skeleton(person);
    };
    // What says that something is wrong, as on pages of refusals.
    const known = new Set((await answer('plain')).concat(['p[class]', 'div[class,role]', 'div[autofocus,class,role,tabindex]', 'p[]', 'ul[]', 'li[]', 'a[href]']));
    const text = MARKUP[1] + MARKUP[3] + LETTERS[0];
    assert.deepEqual((await answer(text)).filter((element) => !known.has(element)), [], path + text);
  }
}

// A text as a header holds it: its bytes, without those that no header may have.
const header = (text) => Buffer.from(text.replaceAll(/[\r\n\u0000-\u0008]/g, ''), 'utf8').toString('latin1').trim();

// Texts of visitors, who come by Envoy.
async function visited(person) {
  await person.open('/console/links/x');
  const lines = person.page.locator('[data-live] li');
  let clicks = 0;
  await until('the stream', async () => {
    clicks += (await visit(EDGE, '/x')).status === 302;
    return lines.count();
  });
  let orphans = 0;
  for (const text of LIST) {
    const query = `utm_source=${encodeURIComponent(text)}&utm_campaign=${encodeURIComponent(text)}&${encodeURIComponent(text)}=1`;
    const headers = { 'user-agent': header(text), referer: header(`https://${text}.example/${text}`), 'accept-language': header(text), 'x-city': header(text) };
    assert.equal((await visit(EDGE, `/x?${query}`, headers)).status, 302, text);
    clicks += 1;
    // 400 where a slash is escaped, which Envoy refuses.
    const { status } = await visit(EDGE, `/missing${encodeURIComponent(text)}`, headers);
    assert.ok([400, 404].includes(status), text);
    orphans += status === 404;
  }
  await until('all clicks', async () => (await rowsOfFile('/links/x/clicks?')).length >= clicks);
  await until('all orphan visits', async () => (await rowsOfFile('/analytics/orphans/visits?')).length >= orphans);
  await until('a line each', async () => await lines.count() > LIST.length);
  assert.equal(await lines.locator('*').count(), 0);
  await person.open('/console/links/x');
  await texts(person, '.columns tbody th');
  assert.equal(await person.page.locator('.columns tbody *').filter({ hasNot: person.page.locator('td, th') }).count() > 0, true);
}

async function file(path, format) {
  const answer = await fetch(`${API}/api/v1${path}format=${format}`, { headers: { 'x-api-key': API_KEY } });
  assert.equal(answer.status, 200);
  return answer.text();
}

async function rowsOfFile(path) {
  return (await file(path, 'ndjson')).split('\n').filter((line) => line).map((line) => JSON.parse(line));
}

// A table of RFC 4180.
function rowsOf(csv) {
  const cells = /("(?:[^"]|"")*"|[^,\r\n]*)(,|\r\n|$)/gy;
  const rows = [[]];
  for (const [, cell, end] of csv.matchAll(cells)) {
    rows.at(-1).push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    if (end === '\r\n') rows.push([]);
  }
  return rows.filter((row) => row.length > 1);
}

// The files for spreadsheets have what the others have, and a quote in front of what would be a formula.
async function exported(path, least) {
  const [head, ...rows] = rowsOf(await file(path, 'csv'));
  const clicks = await rowsOfFile(path);
  assert.ok(clicks.length >= least && rows.length === clicks.length, `${rows.length} rows, ${clicks.length} lines`);
  let quoted = 0;
  for (const [place, row] of rows.entries()) {
    const shown = Object.fromEntries(head.map((name, column) => [name, row[column]]));
    for (const [name, cell] of Object.entries(shown)) {
      assert.ok(!/^[=+\-@\t\r]/.test(cell), `${name}: ${cell}`);
      const value = clicks[place][name];
      if (typeof value !== 'string') continue;
      const isFormula = /^[=+\-@\t\r]/.test(value);
      quoted += isFormula;
      assert.equal(cell, isFormula ? `'${value}` : value, name);
    }
  }
  return quoted;
}

await withPeople(async (begin) => {
  const person = await (await begin()).logIn();
  for (const part of [stored, sentBack, asked, visited]) {
    await part(person);
    console.log(`${part.name}: as it should be`);
  }
  const quoted = await exported('/links/x/clicks?', LIST.length) + await exported('/analytics/orphans/visits?', FORMULAS.length);
  assert.ok(quoted >= FORMULAS.length, `${quoted} formulas`);
  console.log(`exported: ${quoted} formulas with a quote in front`);
});
