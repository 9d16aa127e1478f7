// Links that are followed through Envoy while people look at them.

import assert from 'node:assert/strict';
import http from 'node:http';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { EDGE, DOMAIN, link, until, visit, withPeople } from '../person.mjs';

// A site that links lead to.
async function withSite(work) {
  const page = '<!doctype html><html lang="en"><title>Site</title><link rel="icon" href="data:,"><h1>Arrived</h1></html>';
  const site = http.createServer((asked, answer) => answer.writeHead(200, { 'content-type': 'text/html' }).end(page));
  site.listen(0, '127.0.0.1');
  await once(site, 'listening');
  try {
    const hosts = { [DOMAIN]: EDGE.replace('http://', ''), 'site.example': `127.0.0.1:${site.address().port}` };
    await withPeople(work, hosts);
  } finally {
    site.close();
    site.closeAllConnections();
  }
}

const RULE = { longUrl: 'http://site.example/app', conditions: [{ type: 'query-param', matchKey: 'app', matchValue: 'yes' }] };

// Rules are judged while they are written, tried out by script and by the server, saved, and followed at the edge.
export const rules_and_dry_run = () => withSite(async (begin) => {
  await link({ customSlug: 'abc', longUrl: 'http://site.example/plain' });
  const person = await (await begin()).logIn();
  await person.open('/console/links/abc');
  await person.go('Rules');
  await person.fill({ rules: '[{' });
  assert.match((await person.problems()).rules, /must be JSON/);
  await person.press('Save', 422);
  assert.match((await person.problems()).rules, /is no JSON/);
  assert.equal(await person.page.locator('#rules').inputValue(), '[{');
  await person.fill({ rules: JSON.stringify([{ ...RULE, conditions: [{ type: 'weight', matchValue: '100' }] }]) });
  assert.match((await person.problems()).rules, /conditions\[0\]\.matchValue/);
  await person.press('Save', 422);
  assert.match((await person.problems()).rules, /conditions\[0\]\.matchValue/);
  await person.fill({ rules: JSON.stringify([RULE]), query: 'app=no' });
  const judged = person.page.locator('[data-dry-run] [role="status"]');
  assert.match(await judged.textContent(), /302 redirect \(no rule\) http:\/\/site\.example\/plain/);
  await person.fill({ query: 'app=yes' });
  assert.match(await judged.textContent(), /302 redirect \(rule 1\) http:\/\/site\.example\/app/);
  await person.press('Save');
  assert.match(await person.text('[role="status"] >> nth=0'), /The rules are saved/);
  await person.fill({ query: 'app=yes' });
  await person.press('Try');
  assert.match(await person.text('main [role="status"] >> nth=0'), /302 redirect[^]*http:\/\/site\.example\/app[^]*1/);
  assert.equal(await person.page.locator('#query').inputValue(), 'app=yes');
  await person.leads(() => person.page.locator('.short a').click());
  assert.equal(person.page.url(), 'http://site.example/plain');
  await person.leads(() => person.page.goto(`http://${DOMAIN}/abc?app=yes`));
  assert.equal(person.page.url(), 'http://site.example/app?app=yes');
});

// A link that was just made leads through Envoy; what is disabled there is gone there.
export const followed_by_envoy = () => withSite(async (begin) => {
  const person = await (await begin()).logIn();
  await person.go('New link');
  await person.fill({ longUrl: 'http://site.example/new', customSlug: 'new' });
  await person.press('New link');
  await person.leads(() => person.page.locator('.short a').click());
  assert.equal(person.page.url(), 'http://site.example/new');
  assert.equal(await person.heading(), 'Arrived');
  await person.open('/console/links');
  await person.page.getByLabel(`Select ${DOMAIN}/new`).check();
  await person.press('Disable');
  await until('410', async () => (await visit(EDGE, '/new')).status === 410);
});

// Clicks at the edge are lines of the page of their link as they come, and its chart moves; the overview has them.
export const clicks_as_they_come = () => withSite(async (begin) => {
  await link({ customSlug: 'abc', title: 'Live' });
  const person = await (await begin()).logIn();
  await person.open('/console/links/abc');
  assert.match(await person.text(), /No clicks yet/);
  assert.equal((await visit(EDGE, '/abc')).status, 302);
  await until('a click is counted', async () => {
    await person.open('/console/links/abc');
    return person.page.locator('figure svg').count();
  });
  const figure = person.page.locator('figure');
  // Both at once, because a click may come between them.
  const look = () => figure.evaluate((shown) => [JSON.parse(shown.dataset.points).at(-1)[1], shown.querySelector('svg').innerHTML]);
  const [points, before] = await look();
  // The stream has begun with the page, before or after this visit.
  const drawn = await until('the chart', async () => {
    await visit(EDGE, '/abc', { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' });
    const [now, chart] = await look();
    return now > points && chart;
  });
  assert.notEqual(drawn, before);
  // There may be a line as well that says that clicks are missing.
  assert.ok(await person.page.locator('[data-live] li', { hasText: 'abc · 302' }).count());
  assert.equal(await figure.locator('table').isVisible(), false);
  await figure.locator('summary').click();
  assert.equal(await figure.locator('table').isVisible(), true);
  await until('the overview', async () => {
    await person.go('Overview');
    return (await person.page.locator('section[aria-labelledby="top"]').count()) && /abc/.test(await person.text('section[aria-labelledby="top"]'));
  });
});

// The overview says how the edge is doing, with script and without.
export const edges_and_how_they_are_doing = () => withPeople(async (begin) => {
  await link({ customSlug: 'abc' });
  for (let number = 0; number < 9; number += 1) assert.equal((await visit(EDGE, '/abc')).status, 302);
  // Envoy's name, or with the native module that of the machine.
  const said = new RegExp(`(edgelink-edge|${hostname()}).* UTC1\\d+\\.\\d\\d s\\d+\\.\\d\\d %1[1-9]`);
  for (const script of [true, false]) {
    const person = await (await begin({ script })).logIn();
    await until('the health of the edge', async () => {
      // It is refused once the worker knows which codes were issued.
      assert.equal((await visit(EDGE, '/zzzzzzz')).status, 404);
      await person.open('/console');
      return said.test(await person.text('section[aria-labelledby="health"]'));
    });
  }
});
