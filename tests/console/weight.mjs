// How heavy the overview is: what a first visit transfers, which is bounded, and when it is seen first, which is only printed.
// The end-to-end suite runs it (tests/tests/e2e/console.rs).

import assert from 'node:assert/strict';
import { API, api } from './browser.mjs';
import { link, until, visit, withPeople } from './person.mjs';

const MAX_BYTES = 250_000;
const ROUNDS = 5;

await withPeople(async (begin) => {
  for (let number = 0; number < 10; number += 1) {
    await link({ customSlug: `link-${number}` });
    for (let click = 0; click <= number; click += 1) await visit(API, `/link-${number}`);
  }
  await until('clicks', async () => (await api('/analytics?groupBy=timeseries&interval=30d')).body.totals.clicks === 55);
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    // Without script the login loads no more than styles, and in a window of its own nothing is cached.
    const { page } = await begin().then((person) => person.logIn());
    const state = await page.context().storageState();
    const fresh = await begin();
    await fresh.page.context().addCookies(state.cookies);
    const session = await fresh.page.context().newCDPSession(fresh.page);
    await session.send('Network.enable');
    let bytes = 0;
    session.on('Network.loadingFinished', ({ encodedDataLength }) => { bytes += encodedDataLength; });
    await fresh.open('/console');
    assert.equal(await fresh.page.locator('figure svg').count(), 1);
    const paint = await fresh.page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
    rounds.push({ bytes, paint });
  }
  const [{ bytes }] = rounds;
  const paints = rounds.map(({ paint }) => paint).sort((one, other) => one - other);
  console.log(`overview: ${(bytes / 1000).toFixed(0)} kB transferred, first contentful paint after ${paints[0].toFixed(0)} to ${paints.at(-1).toFixed(0)} ms, ${paints[(ROUNDS - 1) / 2].toFixed(0)} in the middle`);
  assert.ok(bytes > 1000 && bytes < MAX_BYTES, `${bytes} bytes`);
});
