// Without a mouse, and without script.

import assert from 'node:assert/strict';
import { api } from '../browser.mjs';
import { DOMAIN, link, withPeople } from '../person.mjs';

const MOST_KEYS = 120;

// What has the focus: how to tell it from others, whether it is seen to have it, and whether anything lies over it.
const focused = (page) => page.evaluate(() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return {
    what: element.id || (element.localName === 'input' && element.name) || element.textContent.trim(),
    place: [...document.querySelectorAll('*')].indexOf(element),
    isSeen: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2,
    // Its middle is in view, and nothing lies over that.
    isOnTop: top !== null && (element === top || element.contains(top)),
  };
});

// Goes on by Tab until what has the focus is called so; each stop is behind the one before, seen and not covered.
async function tabTo(person, wanted) {
  let before = await focused(person.page);
  for (let keys = 0; keys < MOST_KEYS; keys += 1) {
    await person.page.keyboard.press('Tab');
    const now = await focused(person.page);
    assert.ok(now, `no focus before ${wanted}`);
    const { what, isSeen, isOnTop } = now;
    assert.deepEqual({ what, isSeen, isOnTop }, { what, isSeen: true, isOnTop: true });
    // A field for a time has several stops.
    assert.ok(!before || now.place >= before.place, `${what} comes before ${before?.what}`);
    if (what === wanted) return;
    before = now;
  }
  throw new Error(`${wanted} is not reached`);
}

const press = (person, key, status) => person.leads(() => person.page.keyboard.press(key), status);

// Logs in, makes a link, finds, selects and disables it, and logs out.
export const keyboard_only = () => withPeople(async (begin) => {
  const person = await begin();
  const { keyboard } = person.page;
  await person.open('/console/login');
  await tabTo(person, 'key');
  await keyboard.type(process.env.API_KEY);
  await press(person, 'Enter');
  await keyboard.press('Tab');
  assert.equal((await focused(person.page)).what, 'Skip to content');
  await keyboard.press('Enter');
  assert.equal((await focused(person.page)).what, 'content');
  await person.open('/console');
  await tabTo(person, 'New link');
  await press(person, 'Enter');
  await tabTo(person, 'longUrl');
  await keyboard.type('https://example.com/');
  await tabTo(person, 'customSlug');
  await keyboard.type('keys');
  await tabTo(person, 'state');
  await keyboard.press('ArrowDown');
  await tabTo(person, 'archived');
  await keyboard.press('Space');
  await tabTo(person, 'New link');
  await press(person, 'Enter');
  const { body } = await api('/links/keys');
  assert.deepEqual([body.state, body.archived], ['disabled', true]);
  await person.open('/console/links');
  await tabTo(person, 'searchTerm');
  await keyboard.type('keys');
  await press(person, 'Enter');
  await tabTo(person, 'link');
  await keyboard.press('Space');
  await tabTo(person, 'Enable');
  await press(person, 'Enter');
  assert.equal((await api('/links/keys')).body.state, 'active');
  await person.open('/console');
  await tabTo(person, 'Log out');
  await press(person, 'Enter');
  assert.equal(await person.heading(), 'Log in');
});

// What single keys do, and that they do nothing while a person types or has turned them off.
export const single_keys = () => withPeople(async (begin) => {
  for (const slug of ['first', 'second']) await link({ customSlug: slug });
  const person = await (await begin()).logIn();
  const { keyboard } = person.page;
  await press(person, '/');
  assert.equal(await person.heading(), 'Links');
  await keyboard.press('/');
  assert.equal((await focused(person.page)).what, 'searchTerm');
  await keyboard.type('cjx?');
  assert.equal(await person.page.locator('#searchTerm').inputValue(), 'cjx?');
  await person.page.locator('h1').click();
  const ticked = () => person.page.locator('tbody [type="checkbox"]').evaluateAll((boxes) => boxes.map((box) => box.checked));
  for (const key of ['j', 'j', 'x']) await keyboard.press(key);
  assert.deepEqual(await ticked(), [false, true]);
  for (const key of ['k', 'x']) await keyboard.press(key);
  assert.deepEqual(await ticked(), [true, true]);
  await keyboard.press('?');
  await person.page.getByLabel('Keys', { exact: false }).last().uncheck();
  await keyboard.press('c');
  assert.equal(await person.heading(), 'Links');
  await person.page.locator('#keyboard-on').check();
  await press(person, 'c');
  assert.equal(await person.heading(), 'New link');
});

// The whole life of a link by forms alone.
export const without_script = () => withPeople(async (begin) => {
  const person = await (await begin({ script: false })).logIn();
  await person.go('New link');
  await person.fill({ longUrl: 'https://example.com/', customSlug: 'login' });
  await person.press('New link', 422);
  assert.match((await person.problems()).customSlug, /reserved/);
  await person.fill({ customSlug: 'plain', tags: 'a, b' });
  await person.press('New link');
  assert.match(await person.text('[role="status"]'), /Created/);
  await person.go('Edit');
  await person.fill({ title: 'By hand' });
  await person.press('Save');
  assert.equal(await person.heading(), 'By hand');
  await person.go('Rules');
  await person.fill({ rules: '[{"longUrl":"https://example.com/de","conditions":[{"type":"language","matchValue":"de"}]}]' });
  await person.press('Save');
  await person.fill({ acceptLanguage: 'de' });
  await person.press('Try');
  assert.match(await person.text('main [role="status"]'), /https:\/\/example\.com\/de/);
  await person.go('History');
  assert.match(await person.text('table'), /By hand/);
  await person.go('Links');
  await person.fill({ searchTerm: 'hand' });
  await person.press('Show');
  await person.page.getByLabel(`Select ${DOMAIN}/plain`).check();
  await person.press('Disable');
  assert.equal((await api('/links/plain')).body.state, 'disabled');
  await person.go('Back to the list');
  await person.go(`${DOMAIN}/plain`);
  await person.press('Delete');
  assert.equal((await api('/links/plain')).status, 404);
  await person.press('Undo the deletion');
  assert.equal((await api('/links/plain')).body.title, 'By hand');
  await person.press('Log out');
  assert.equal(await person.heading(), 'Log in');
});

// Deep links, back and forward, and the next page.
export const addresses = () => withPeople(async (begin) => {
  for (let number = 0; number < 60; number += 1) await link({ customSlug: `n${String(number).padStart(2, '0')}`, tags: [`t${number % 2}`] });
  const person = await (await begin()).logIn();
  await person.open('/console/links');
  assert.equal(await person.page.locator('tbody tr').count(), 50);
  await person.go('Next page');
  assert.equal(await person.page.locator('tbody tr').count(), 10);
  const next = person.path();
  await person.go('First page');
  await person.fill({ tags: 't1', domain: DOMAIN, orderBy: 'shortCode-asc' });
  await person.press('Show');
  assert.equal(await person.page.locator('tbody tr').count(), 30);
  const filtered = person.path();
  for (const [path, rows] of [[next, 10], [filtered, 30]]) {
    await person.open(path);
    assert.equal(await person.page.locator('tbody tr').count(), rows, path);
  }
  assert.equal(await person.page.locator('#orderBy').inputValue(), 'shortCode-asc');
  await person.leads(() => person.page.goBack());
  assert.equal(person.path(), next);
});
