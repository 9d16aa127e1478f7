// Logging in, and what each role is offered and refused.

import assert from 'node:assert/strict';
import { API_KEY, api } from '../browser.mjs';
import { DOMAIN, link, withPeople } from '../person.mjs';

// From a page that needs a login, by a key that is wrong and by one that is right; then by a password of one's own.
export const first_login = () => withPeople(async (begin) => {
  const person = await begin();
  await person.open('/console/links?searchTerm=a%20b');
  assert.equal(person.path(), '/console/login?to=%2Fconsole%2Flinks%3FsearchTerm%3Da%2520b');
  assert.equal(await person.heading(), 'Log in');
  await person.page.locator('#key').press('Enter');
  assert.equal(await person.page.locator('#key').evaluate((field) => field.validity.valueMissing), true);
  await person.logIn({ key: 'wrong' }, 403);
  assert.match(await person.text('.problems'), /That did not match/);
  await person.logIn();
  assert.equal(person.path(), '/console/links?searchTerm=a%20b');
  assert.match(await person.text('header'), /Logged in as/);
  await person.go('Settings');
  await person.fill({ password: 'short' });
  await person.press('Save', 422);
  assert.match((await person.problems()).password, /8/);
  await person.fill({ password: 'a password of my own' });
  await person.press('Save');
  assert.match(await person.text('[role="status"]'), /The password is changed/);
  const user = await person.text('.details dd >> nth=0');
  await person.press('Log out');
  assert.equal(person.path(), '/console/login');
  await person.logIn({ user, password: 'wrong' }, 403);
  assert.equal(await person.page.locator('#user').inputValue(), user);
  assert.equal(await person.page.locator('#password').inputValue(), '');
  await person.logIn({ user, password: 'a password of my own' });
  assert.equal(await person.heading(), 'Overview');
  const [cookie] = await person.page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, 'Strict', '/console']);
  await person.press('Log out');
  await person.open('/console/links');
  assert.equal(await person.heading(), 'Log in');
});

const PAGES = {
  Overview: '/console', Links: '/console/links', 'New link': '/console/create', Tags: '/console/tags', Domains: '/console/domains',
  'API keys': '/console/keys', Users: '/console/users', 'Audit log': '/console/audit', Settings: '/console/settings',
};
const OFFERED = {
  admin: Object.keys(PAGES),
  editor: ['Overview', 'Links', 'New link', 'Domains', 'Settings'],
  reader: ['Overview', 'Links', 'Tags', 'Domains', 'Settings'],
  creator: ['New link', 'Settings'],
};

// Each role is offered its pages in the navigation, which lead there; the others say that they are not allowed.
export const roles = () => withPeople(async (begin) => {
  for (const [role, offered] of Object.entries(OFFERED)) {
    const person = await (await begin()).logInWithRole(role);
    const links = person.page.locator('nav[aria-label="Main"] a');
    const present = await links.allTextContents();
    for (const name of offered) {
      assert.ok(present.includes(name), `${role}: ${name} of ${present}`);
      await person.go(name);
      assert.equal(await person.page.locator('nav [aria-current="page"]').textContent(), name);
    }
    for (const [name, path] of Object.entries(PAGES).filter(([name]) => !offered.includes(name))) {
      assert.ok(!present.includes(name), `${role}: ${name}`);
      // Those who may only create begin with that.
      if (name === 'Overview') continue;
      await person.open(path, 403);
      assert.equal(await person.heading(), 'Not allowed');
    }
  }
});

const FORMS = {
  '/console/links': { link: `${DOMAIN}/abc`, action: 'delete' },
  '/console/create': { longUrl: 'https://example.com/' },
  '/console/create-many': { lines: 'https://example.com/' },
  '/console/restore': { link: `${DOMAIN}/abc` },
  '/console/links/abc/edit': { longUrl: 'https://example.com/changed' },
  '/console/links/abc/rules': { rules: '[]' },
  '/console/links/abc/delete': {},
  '/console/tags/rename': { tag: 't', to: 'u' },
  '/console/tags/delete': { tag: 't' },
  '/console/domains': { name: 'new.example' },
  '/console/keys': { name: 'a key' },
  '/console/users': { name: 'a user' },
};

// One who only reads sees no form but those that ask, and is refused what a form that was made by hand asks for.
export const a_reader = () => withPeople(async (begin) => {
  await link({ customSlug: 'abc', tags: ['t'] });
  const reader = await (await begin()).logInWithRole('reader');
  const page = '/console/links/abc';
  for (const path of ['/console', '/console/links', page, `${page}/rules`, `${page}/history`, '/console/tags', '/console/domains']) {
    await reader.open(path);
    const forms = reader.page.locator('main form[method="post"], main [type="checkbox"][name="link"], main a[href*="/edit"], main a[href*="/console/create"]');
    assert.equal(await forms.count(), 0, path);
  }
  await reader.open(`${page}/edit`, 403);
  for (const [path, fields] of Object.entries(FORMS)) {
    await reader.open('/console/links');
    await reader.leads(() => reader.page.evaluate(([action, values]) => {
      const form = document.querySelector('form.logout').cloneNode(true);
      form.action = action;
      for (const [name, value] of Object.entries(values)) form.append(Object.assign(document.createElement('input'), { name, value }));
      document.body.append(form);
      form.submit();
    }, [path, fields]), 403);
    assert.equal(await reader.heading(), 'Not allowed', path);
  }
  const { body } = await api('/links');
  assert.deepEqual(body.links.map(({ shortCode, longUrl, tags }) => [shortCode, longUrl, tags]), [['abc', 'https://example.com/', ['t']]]);
});

// A login ends with its key, also in the middle of a form, and what is shown then leads back.
export const a_login_that_ends = () => withPeople(async (begin) => {
  const made = await api('/keys', { name: 'short-lived', role: 'editor' });
  const person = await (await begin()).logIn({ key: made.body.key });
  await person.go('New link');
  assert.equal((await api(`/keys/${made.body.id}`, undefined, 'DELETE')).status, 204);
  await person.fill({ longUrl: 'https://example.com/' });
  await person.press('New link');
  assert.equal(await person.heading(), 'Log in');
  await person.logIn({ key: API_KEY });
  assert.equal((await api('/links')).body.links.length, 0);
});
