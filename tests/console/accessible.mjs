// Looks at every page of the console, without and with links, in light and dark, on a phone and a wide screen: axe-core finds
// nothing, nothing is wider than the screen, and no route is left out. UPDATE_SCREENSHOTS=1 draws tests/screenshots.
// The end-to-end suite runs it (tests/tests/e2e/console.rs).

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { API, api } from './browser.mjs';
import { PAGES } from './pages.mjs';
import { link, until, visit, withPeople } from './person.mjs';

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const SOURCES = new URL('../../control-plane/web/src/', import.meta.url);
const SCREENSHOTS = new URL('../screenshots/', import.meta.url);
const MAX_SCREENSHOT_BYTES = 40_000;
const PHONE = { width: 360, height: 740 };
const WIDE = { width: 1440, height: 900 };
// WCAG 2.2, 1.4.10: what needs no second dimension is read without scrolling sideways.
const NARROWEST = { width: 320, height: 640 };

// The routes that answer GET with pages: those of the live stream and of logins by a provider have their paths from elsewhere, and
// some answer with pictures and files.
async function routes() {
  const files = (await readdir(new URL('console/', SOURCES))).filter((name) => name.endsWith('.rs') && name !== 'assets.rs');
  const texts = await Promise.all(['console.rs', ...files.map((name) => `console/${name}`)].map((name) => readFile(new URL(name, SOURCES), 'utf8')));
  const found = texts.flatMap((text) => [...text.matchAll(/\.route\(\s*"([^"]+)",\s*get\(/g)].map(([, route]) => route));
  return found.filter((route) => !/\.svg$|\/report$/.test(route));
}

const known = new Set(PAGES.map(({ route }) => route));
assert.deepEqual([...known].sort(), [...new Set(await routes())].sort(), 'the routes of the console, and those of pages.mjs');

// A few of everything.
async function fill() {
  const made = async (path, body) => {
    const answer = await api(path, body);
    assert.ok([200, 201].includes(answer.status), JSON.stringify(answer.body));
    return answer.body;
  };
  await sayHealth();
  await made('/domains', { name: 'brand.example' });
  await made('/users', { name: 'Ada', role: 'reader' });
  await made('/keys', { name: 'Ada’s key', role: 'editor', domains: ['go.example'], tags: ['spring'], quota: 100 });
  for (let number = 1; number <= 55; number += 1) {
    const states = [{}, { state: 'disabled' }, { validSince: '2040-01-01T00:00:00Z' }, { validUntil: '2020-01-01T00:00:00Z' }, { archived: true }];
    await link({ longUrl: `https://shop.example/catalogue/${number}?from=${'far-away-'.repeat(number % 5)}`, title: `Offer ${number}`, tags: ['spring', `week ${number % 7}`], ...states[number % 5] });
  }
  for (const slug of ['gone', 'new']) await link({ customSlug: slug });
  await link({ customSlug: 'quiet', password: 'open sesame', maxVisits: 5, notes: 'For the staff\nonly' });
  await link({ customSlug: 'busy', title: 'Spring sale, with a title that is rather long and does not end on the first line of a phone', tags: ['spring', 'a tag of many words, nearly as long as tags may be at all'] });
  const rules = [{ longUrl: 'https://shop.example/de', conditions: [{ type: 'language', matchValue: 'de' }] }];
  await made('/links/busy/rules', { redirectRules: rules });
  assert.equal((await api('/links/gone', undefined, 'DELETE')).status, 204);
  for (let number = 0; number < 12; number += 1) await visit(API, '/busy', { referer: `https://site${number % 4}.example/`, 'accept-language': 'de' });
  await until('clicks', async () => (await made('/analytics?groupBy=timeseries&interval=30d')).totals.clicks === 12);
}

// An edge without a feed says how it is doing, in a report without batches.
async function sayHealth() {
  const health = `worker=${'01'.repeat(16)};lru=99;redis=1;admission=7`;
  const headers = { authorization: `Bearer ${process.env.EDGE_TOKEN}`, 'x-edgelink-edge': 'fra-1', 'x-edgelink-health': health };
  const answer = await fetch(`${API}/edge/v1/clicks`, { method: 'POST', headers, body: new Uint8Array([1, 0]) });
  assert.equal(answer.status, 204);
}

// What is wrong with the page that somebody sees, as axe-core says it.
async function violations({ page }) {
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate((values) => globalThis.axe.run(document, {
    runOnly: { type: 'tag', values }, rules: { 'target-size': { enabled: true } }, resultTypes: ['violations'],
  }), TAGS);
  return found.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id} at ${target}: ${failureSummary}`));
}

// What is wider than the screen.
const wide = ({ page }) => page.evaluate(() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const reaching = [...document.querySelectorAll('main *, header *')].filter((element) => element.getBoundingClientRect().right > clientWidth + 1
    && !element.closest('.scroll'));
  return [`${scrollWidth} pixels: ${reaching.map(({ outerHTML }) => outerHTML.slice(0, 100)).slice(0, 5).join('\n  ')}`];
});

// A small picture of what is on the screen: of a wide one three quarters as large.
async function screenshot({ page }, name, { width, height }) {
  const session = await page.context().newCDPSession(page);
  const clip = { x: 0, y: 0, width, height, scale: width === WIDE.width ? 0.75 : 1 };
  let bytes;
  for (let quality = 70; !bytes || bytes.length > MAX_SCREENSHOT_BYTES; quality -= 10) {
    const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality, clip });
    bytes = Buffer.from(data, 'base64');
  }
  await writeFile(new URL(`${name}.webp`, SCREENSHOTS), bytes);
  await session.detach();
}

// Checks the page that somebody sees.
async function look(person, page, state) {
  const found = [];
  const note = (where, list) => found.push(...list.map((text) => `${page.name} (${state}, ${where}): ${text}`));
  for (const [theme, size] of [['light', WIDE], ['dark', WIDE], ['light', PHONE], ['dark', PHONE]]) {
    await person.page.emulateMedia({ colorScheme: theme });
    await person.page.setViewportSize(size);
    note(`${theme}, ${size.width} pixels`, [...await violations(person), ...await wide(person)]);
    const isDrawn = (theme === 'light') === (size === WIDE) && (size === WIDE || !page.status);
    if (process.env.UPDATE_SCREENSHOTS && isDrawn && state === 'with links') {
      await screenshot(person, `${page.name}${size === PHONE ? '-phone' : ''}`, size);
    }
  }
  await person.page.setViewportSize(NARROWEST);
  note(`${NARROWEST.width} pixels`, await wide(person));
  await person.page.setViewportSize(WIDE);
  return found;
}

await withPeople(async (begin) => {
  const people = { nobody: await begin(), admin: await (await begin()).logIn() };
  for (const role of ['reader', 'creator']) people[role] = await (await begin()).logInWithRole(role);
  const wrong = [];
  for (const state of ['without links', 'with links']) {
    if (state === 'with links') await fill();
    for (const page of PAGES.filter(({ needs }) => !needs || state === 'with links')) {
      const { as = 'admin', path = page.route, status = 200, then } = page;
      const person = people[as];
      console.log(`${page.name} ${state}`);
      await person.open(path, then ? 200 : status);
      await then?.(person, status);
      wrong.push(...await look(person, page, state));
    }
  }
  assert.equal(wrong.length, 0, `${wrong.length} violations:\n${wrong.join('\n')}`);
  console.log(`${PAGES.length} pages: as they should be`);
});
