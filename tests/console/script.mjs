// Uses forms, charts, QR codes and live clicks as console.js makes them by data attributes, without a mouse where a key will do.
// The end-to-end suite runs it (tests/tests/e2e/console.rs).

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { API, SETTINGS, escaped, withPage } from './browser.mjs';

const settings = escaped(JSON.stringify(SETTINGS));
const link = { domain: 'go.example', code: 'a', longUrl: 'https://own.example/', forwardPath: true, hasPassword: false };
const points = [['2026-11-21T00:00:00Z', 1], ['2026-11-22T00:00:00Z', 3]];
const field = (name) => `<p><label for="${name}">${name}</label><input id="${name}" name="${name}"><span id="${name}-problem" role="alert"></span></p>`;
const BODY = `<body data-settings="${settings}">
  <form data-check="link">${['longUrl', 'customSlug', 'domain'].map(field).join('')}<p data-preview></p></form>
  <form data-check="rules"><textarea id="rules" name="rules"></textarea><span id="rules-problem" role="alert"></span></form>
  <form data-dry-run data-link="${escaped(JSON.stringify(link))}">${['country', 'path'].map(field).join('')}
    <label for="at">at</label><input type="datetime-local" step="1" id="at" name="at"></form>
  <figure id="clicks" data-chart="series" data-points="${escaped(JSON.stringify(points))}">
    <table><caption>Clicks &lt;b&gt;</caption><tbody><tr><td>1</td></tr><tr><td>3</td></tr></tbody></table></figure>
  <div data-qr="https://go.example/&lt;a&gt;"></div>
  <ol data-live="${API}/live" data-chart-id="clicks"></ol>
</body>`;

async function links(page) {
  const [longUrl, problem, preview] = ['#longUrl', '#longUrl-problem', '[data-preview]'].map((found) => page.locator(found));
  await longUrl.pressSequentially('https://go.example/');
  assert.equal(await problem.textContent(), 'must not point to a domain of this shortener');
  assert.equal(await longUrl.getAttribute('aria-invalid'), 'true');
  assert.equal(await preview.textContent(), '');
  await longUrl.fill('https://example.com/<b>ä');
  assert.equal(await problem.textContent(), '');
  assert.equal(await longUrl.getAttribute('aria-invalid'), null);
  await page.fill('#customSlug', 'login');
  assert.equal(await page.textContent('#customSlug-problem'), 'is a reserved word');
  await page.fill('#customSlug', 'spring');
  await page.fill('#domain', 'other.example');
  assert.equal(await page.textContent('#domain-problem'), 'is not a domain of this shortener');
  await page.fill('#domain', '');
  assert.equal(await preview.textContent(), 'go.example/spring → https://example.com/%3Cb%3E%C3%A4');
}

async function rules(page) {
  const problem = page.locator('#rules-problem');
  await page.fill('#rules', '[{');
  assert.match(await problem.textContent(), /^redirectRules must be JSON: EOF/);
  const rule = { longUrl: 'https://rule.example/', conditions: [{ type: 'geolocation-country-code', matchValue: 'DEU' }] };
  await page.fill('#rules', JSON.stringify([rule]));
  const path = 'redirectRules[0].conditions[0].matchValue';
  assert.equal(await problem.textContent(), `${path} must be a country code of two letters (ISO 3166-1)`);
  const result = page.locator('[data-dry-run] [role="status"]');
  assert.match(await result.textContent(), /must be a country code/);
  rule.conditions[0].matchValue = 'DE';
  await page.fill('#rules', JSON.stringify([rule]));
  assert.equal(await problem.textContent(), '');
  assert.match(await result.textContent(), /^302 redirect \(no rule\) https:\/\/own\.example\//);
  await page.fill('#country', 'de');
  await page.fill('#path', '/x<b>');
  assert.match(await result.textContent(), /^302 redirect \(rule 1\) https:\/\/rule\.example\/x%3Cb%3E/);
  assert.equal(await result.locator('ol > li > .target').textContent(), 'https://rule.example/');
  assert.equal(await result.locator('li li').textContent(), 'geolocation-country-code DE: holds (saw de)');
  for (const time of ['2026-11-22T10:00', '2026-11-22T10:00:01']) {
    await page.fill('#at', time);
    assert.match(await result.textContent(), /^302 redirect \(rule 1\)/, time);
  }
  await page.fill('#path', 'x');
  assert.equal(await result.textContent(), 'path: must be what follows the code, from its slash on');
}

async function charts(page) {
  const figure = page.locator('figure');
  assert.equal(await figure.locator('svg title').textContent(), 'Clicks <b>');
  assert.equal(await figure.locator('table').isVisible(), false);
  await figure.locator('summary').focus();
  await page.keyboard.press('Enter');
  assert.equal(await figure.locator('table').isVisible(), true);
}

// The clicks of the stream, which the test sends, are lines, and the day of the chart rises. The page listens while it is seen.
async function live(page) {
  const lines = page.locator('[data-live] li');
  await lines.nth(1).waitFor();
  assert.deepEqual(await lines.allTextContents(), ['2 clicks are not listed here', '2026-11-22 01:59:00 UTC · <b> · 302 · DE × 2']);
  assert.deepEqual(JSON.parse(await page.getAttribute('#clicks', 'data-points')), [['2026-11-21T00:00:00Z', 1], ['2026-11-22T00:00:00Z', 5]]);
  assert.deepEqual(await page.locator('#clicks tbody td').allTextContents(), ['1', '5']);
  assert.equal(await page.locator('figure svg').count(), 1);
  const seen = (state) => page.evaluate((value) => {
    Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => value });
    document.dispatchEvent(new Event('visibilitychange'));
  }, state);
  let asked = 0;
  page.on('request', (request) => { asked += request.url().endsWith('/live') ? 1 : 0; });
  await seen('hidden');
  const again = page.waitForRequest(`${API}/live`);
  await seen('visible');
  await again;
  await lines.nth(3).waitFor();
  assert.equal(asked, 1, 'not while it is hidden');
  // A stream that is refused is said to be.
  await page.unroute(`${API}/live`);
  await page.route(`${API}/live`, (route) => route.fulfill({ status: 204 }));
  await seen('hidden');
  await seen('visible');
  assert.match(await waitForText(page.locator('[data-live] + .problem')), /^Clicks cannot be listed/);
}

async function codes(page) {
  const place = page.locator('[data-qr]');
  assert.equal(await place.locator('.qr > svg').getAttribute('aria-label'), 'QR code of https://go.example/<a>');
  await page.getByLabel('Margin').fill('40');
  assert.equal(await place.locator('[role="alert"]').textContent(), 'margin: must be 0 to 16 modules');
  await page.getByLabel('Margin').fill('2');
  assert.equal(await place.locator('[role="alert"]').textContent(), '');
  await page.getByLabel('Colour').fill('#102030');
  await page.getByLabel('Error correction').selectOption('L');
  const size = async () => Number((await place.locator('.qr > svg').getAttribute('viewBox')).split(' ')[2]);
  const small = await size();
  const logo = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
  await page.getByLabel('Logo').setInputFiles({ name: 'logo.png', mimeType: 'image/png', buffer: logo });
  await place.locator('.qr > svg image').waitFor({ state: 'attached' });
  assert.ok(await size() > small, 'a logo raises the level');
  for (const [type, start] of [['SVG', '<svg '], ['PNG', '\x89PNG']]) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByText(`Download ${type}`).press('Enter')]);
    assert.equal(download.suggestedFilename(), `qr.${type.toLowerCase()}`);
    const bytes = await readFile(await download.path());
    assert.ok(bytes.length > 500 && bytes.toString('latin1').startsWith(start), type);
    if (type === 'PNG') assert.equal(bytes.readUInt32BE(16) % await size(), 0, 'whole pixels for each module');
  }
  await page.getByLabel('Logo').setInputFiles({ name: 'logo.txt', mimeType: 'text/html', buffer: Buffer.from('<script>') });
  assert.match(await waitForText(place.locator('[role="alert"]')), /^logo: must be a picture/);
}

const waitForText = async (locator) => {
  await locator.filter({ hasText: /./ }).waitFor();
  return locator.textContent();
};

// As the API sends them: control-plane/clicks/src/live/listener.rs.
const click = JSON.stringify({ at: '2026-11-22T01:59:00Z', count: 2, shortCode: '<b>', domain: 'go.example', tags: [], status: 302, country: 'DE', city: null });
await withPage(BODY, async (page) => {
  for (const part of [links, rules, charts, live, codes]) {
    await part(page);
    console.log(`${part.name}: as it should be`);
  }
}, { [`${API}/live`]: { contentType: 'text/event-stream', body: `retry: 600000\nevent: click\ndata: ${click}\n\nevent: lost\ndata: {"count":2}\n\n` } });
