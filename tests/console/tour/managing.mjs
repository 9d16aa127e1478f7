// What admins manage besides links.

import assert from 'node:assert/strict';
import { api } from '../browser.mjs';
import { link, withPeople } from '../person.mjs';

export const tags = () => withPeople(async (begin) => {
  for (const slug of ['a', 'b']) await link({ customSlug: `link-${slug}`, tags: ['old', slug] });
  const person = await (await begin()).logIn();
  await person.go('Tags');
  await person.fill({ tag: 'old', to: 'a' });
  await person.press('Rename', 409);
  assert.match(await person.text('.problems'), /./);
  await person.fill({ tag: 'old', to: 'new' });
  await person.press('Rename');
  assert.deepEqual((await api('/tags')).body.tags.map(({ tag, links }) => [tag, links]), [['a', 1], ['b', 1], ['new', 2]]);
  await person.go('Delete b');
  await person.press('Delete');
  assert.deepEqual((await api('/tags')).body.tags.map(({ tag }) => tag), ['a', 'new']);
  await person.go('new');
  assert.equal(await person.page.locator('tbody tr').count(), 2);
});

export const keys_and_users = () => withPeople(async (begin) => {
  const person = await (await begin()).logIn();
  await person.go('Users');
  await person.fill({ name: 'Ada', role: 'reader', password: 'short' });
  await person.press('New user', 422);
  assert.deepEqual(Object.keys(await person.problems()), ['password']);
  assert.equal(await person.page.locator('#role').inputValue(), 'reader');
  await person.fill({ password: 'long enough' });
  await person.press('New user');
  await person.go('Ada');
  await person.fill({ name: 'Ada L.', disabled: true });
  await person.press('Save');
  assert.match(await person.text('table'), /Ada L\. disabled/);
  await person.go('API keys');
  await person.fill({ name: 'A key', role: 'editor', quota: '3', domains: 'nowhere.example' });
  await person.press('New API key', 422);
  assert.deepEqual(Object.keys(await person.problems()), ['domains']);
  await person.fill({ domains: 'go.example' });
  await person.press('New API key', 201);
  const secret = await person.text('.secret');
  const other = await (await begin()).logIn({ key: secret });
  assert.equal(await other.heading(), 'Overview');
  await person.go('API keys');
  assert.equal(await person.page.locator('.secret').count(), 0);
  await person.go('Revoke A key');
  await person.press('Revoke');
  assert.match(await person.text('[role="status"]'), /The key is revoked/);
  await other.open('/console/links');
  assert.equal(await other.heading(), 'Log in');
  await person.open('/console/audit?action=key.revoke');
  assert.equal(await person.page.locator('tbody tr').count(), 1);
});

export const domains = () => withPeople(async (begin) => {
  const person = await (await begin()).logIn();
  await person.go('Domains');
  await person.fill({ name: 'not a name' });
  await person.press('New domain', 422);
  assert.deepEqual(Object.keys(await person.problems()), ['name']);
  await person.fill({ name: 'brand.example', rootUrl: 'https://example.com/root' });
  await person.press('New domain');
  assert.match(await person.text(), /not verified[^]*TXT/);
  await person.fill({ notFoundUrl: 'ftp://example.com/' });
  await person.press('Save', 422);
  assert.deepEqual(Object.keys(await person.problems()), ['notFoundUrl']);
  await person.fill({ notFoundUrl: 'https://example.com/lost' });
  await person.press('Save');
  assert.equal((await api('/domains/brand.example')).body.notFoundUrl, 'https://example.com/lost');
  await person.press('Verify now', 409);
  assert.match(await person.text('.problems'), /./);
  await person.go('Delete');
  await person.press('Delete');
  assert.equal((await api('/domains/brand.example')).status, 404);
});

// A file is tried out, then imported; what is wrong with it is named by its line.
export const imports = () => withPeople(async (begin) => {
  await link({ customSlug: 'taken' });
  const person = await (await begin()).logIn();
  await person.go('Imports');
  await person.fill({ format: 'csv' });
  await person.press('Try it out', 422);
  assert.deepEqual(await person.problems(), { file: 'choose a file, or paste its text' });
  const lines = ['longUrl,shortCode,title', 'https://example.com/a,first,One', 'ftp://example.com/b,second,Two', 'https://example.com/c,taken,Three', 'https://example.com/d,fourth,"Four, and last"'];
  await person.page.setInputFiles('#file', { name: 'links.csv', mimeType: 'text/csv', buffer: Buffer.from(lines.join('\n')) });
  await person.press('Try it out');
  const until = (heading) => person.page.waitForSelector(`h1:text-is("${heading}")`);
  const figures = () => person.page.locator('.figures dd').allTextContents();
  await until('The file was tried out');
  assert.deepEqual(await figures(), ['4', '2', '0', '1', '1', '0']);
  assert.equal((await api('/links/first')).status, 404);
  assert.deepEqual(await person.page.locator('tbody th').allTextContents(), ['3', '4']);
  await person.press('Import');
  await until('The file is imported');
  assert.deepEqual(await figures(), ['4', '2', '0', '1', '1', '0']);
  assert.deepEqual([(await api('/links/first')).body.title, (await api('/links/fourth')).body.title], ['One', 'Four, and last']);
  assert.equal((await api('/links/taken')).body.longUrl, 'https://example.com/');
  const other = await (await begin()).logInWithRole('editor');
  await other.open(person.path(), 404);
  await person.press('Forget this file');
  assert.match(await person.text('[role="status"]'), /Removed/);
});

// A key gets another secret, beside which the old one works for a while.
export const rotation = () => withPeople(async (begin) => {
  const { body } = await api('/keys', { name: 'A key', role: 'editor' });
  const person = await (await begin()).logIn();
  await person.go('API keys');
  await person.go('New secret A key');
  await person.fill({ overlapSeconds: '3600' });
  await person.press('New secret');
  const secret = await person.text('.secret');
  assert.notEqual(secret, body.key);
  for (const key of [body.key, secret]) assert.equal(await (await (await begin()).logIn({ key })).heading(), 'Overview');
});
