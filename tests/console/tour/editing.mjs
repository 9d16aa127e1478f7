// Making links and changing them.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { api } from '../browser.mjs';
import { DOMAIN, link, withPeople } from '../person.mjs';

// What the API says of a link that can be true or false; all but `botsUseVisits` are in the form.
const DOCUMENT = JSON.parse(await readFile(new URL('../../../control-plane/openapi.json', import.meta.url)));
const SWITCHES = Object.entries(DOCUMENT.components.schemas.NewLink.properties)
  .filter(([name, { type }]) => [type].flat().includes('boolean') && name !== 'botsUseVisits').map(([name]) => name);
const TICKED = Object.fromEntries(SWITCHES.map((name) => [name, name !== 'forwardQuery']));

const FIELDS = {
  longUrl: 'https://example.com/a?b=1', customSlug: 'spring', domain: DOMAIN, title: 'Spring', tags: 'b c, a', externalId: 'crm-7',
  notes: 'first\nsecond', state: 'disabled', validSince: '2030-01-01T00:00:01', validUntil: '2031-01-01T00:00:02', maxVisits: '12',
  expiredUrl: 'https://example.com/over', password: 'open sesame', redirectStatus: '307', utmSource: 'mail',
  utmMedium: 'm', utmCampaign: 'c', utmTerm: 't', utmContent: 'd', ...TICKED,
};
const CAMPAIGN = 'utm_source=mail&utm_medium=m&utm_campaign=c&utm_term=t&utm_content=d';
const MADE = {
  longUrl: `https://example.com/a?b=1&${CAMPAIGN}`, shortCode: 'spring', domain: DOMAIN, title: 'Spring', tags: ['a', 'b c'], externalId: 'crm-7',
  notes: 'first\nsecond', state: 'disabled', validSince: '2030-01-01T00:00:01Z', validUntil: '2031-01-01T00:00:02Z', maxVisits: 12,
  expiredUrl: 'https://example.com/over', hasPassword: true, redirectStatus: 307, ...TICKED, findIfExists: undefined,
};

// A link with every field that the form has; the form of its change has what it was made with.
export const every_field = () => withPeople(async (begin) => {
  const person = await (await begin()).logIn();
  await person.go('New link');
  assert.deepEqual((await person.names('main form[data-check="link"]')).sort(), Object.keys(FIELDS).sort());
  await person.fill(FIELDS);
  assert.equal(await person.text('[data-preview]'), `${DOMAIN}/spring → https://example.com/a?b=1`);
  await person.press('New link');
  assert.match(await person.text('[role="status"] >> nth=0'), /Created/);
  assert.equal(await person.heading(), 'Spring');
  const made = (await api('/links/spring')).body;
  for (const [name, value] of Object.entries(MADE)) assert.deepEqual(made[name], value, name);
  await person.go('Edit');
  for (const name of await person.names('main form[data-check="link"]')) {
    if (['password', 'removePassword'].includes(name)) continue;
    const field = person.page.locator(`#${name}`);
    const expected = { ...FIELDS, longUrl: MADE.longUrl, tags: 'a\nb c' }[name];
    const isTick = typeof expected === 'boolean';
    assert.equal(isTick ? await field.isChecked() : await field.inputValue(), expected, name);
  }
  await person.fill({ title: 'Summer', state: 'active', removePassword: true });
  await person.press('Save');
  assert.equal(await person.heading(), 'Summer');
  const changed = (await api('/links/spring')).body;
  assert.deepEqual({ ...changed, updatedAt: 0 }, { ...made, title: 'Summer', state: 'active', hasPassword: false, updatedAt: 0, visits: changed.visits });
  await person.go('History');
  assert.match(await person.text('table'), /link\.update[^]*Summer/);
});

const WRONG = {
  longUrl: 'ftp://example.com/', customSlug: 'login', title: 'x'.repeat(513), tags: 'x'.repeat(65), externalId: 'x'.repeat(256),
  notes: 'x'.repeat(4097), validSince: '1960-01-01T00:00:03', validUntil: '1960-01-01T00:00:04', maxVisits: '0', expiredUrl: 'ftp://example.com/',
  password: 'x'.repeat(256), utmSource: 'x'.repeat(256), utmMedium: 'x'.repeat(256), utmCampaign: 'x'.repeat(256),
  utmTerm: 'x'.repeat(256), utmContent: 'x'.repeat(256),
};
// Those that can only be right.
const SURE = ['domain', 'state', 'redirectStatus', ...SWITCHES];

// What is wrong stands at each field, is led to from the top of the form, and nothing that was filled in is lost.
export const errors_at_every_field = () => withPeople(async (begin) => {
  const person = await (await begin()).logIn();
  await person.go('New link');
  assert.deepEqual((await person.names('main form[data-check="link"]')).sort(), [...Object.keys(WRONG), ...SURE].sort());
  for (const [name, value] of Object.entries(WRONG)) {
    await person.open('/console/create');
    await person.fill({ longUrl: 'https://example.com/', [name]: value });
    await person.press('New link', 422);
    const problems = await person.problems();
    assert.deepEqual(Object.keys(problems), [name], JSON.stringify(problems));
    const field = person.page.locator(`#${name}`);
    assert.equal(await field.getAttribute('aria-invalid'), 'true', name);
    assert.ok((await field.getAttribute('aria-describedby')).split(' ').includes(`${name}-problem`));
    assert.equal(await field.inputValue(), name === 'password' ? '' : value, name);
    await person.page.locator(`.problems a[href="#${name}"]`).click();
    assert.equal(await field.evaluate((element) => element === document.activeElement), true, name);
  }
  // The script says some of it before the form is sent.
  await person.open('/console/create');
  await person.fill({ longUrl: WRONG.longUrl, customSlug: WRONG.customSlug });
  assert.deepEqual(Object.keys(await person.problems()), ['longUrl', 'customSlug']);
  await person.fill({ longUrl: 'https://example.com/', customSlug: 'right' });
  assert.deepEqual(await person.problems(), {});
  assert.equal((await api('/links')).body.links.length, 0);
});

const LINES = 'https://example.com/1\nhttps://example.com/2 second\nftp://example.com/\nhttps://example.com/4 second\n';

// Each line says what became of it.
export const many_at_once = () => withPeople(async (begin) => {
  const person = await (await begin()).logIn();
  await person.go('New link');
  await person.go('Many links at once');
  await person.fill({ lines: LINES, tags: 'batch' });
  await person.press('Many links at once');
  const rows = await person.page.locator('table tbody tr').allTextContents();
  assert.equal(rows.length, 4);
  assert.match(rows[1], /go\.example\/second/);
  assert.match(rows[2], /longUrl/);
  assert.match(rows[3], /second/);
  const { body } = await api('/links?tags=batch');
  assert.deepEqual(body.links.map(({ longUrl }) => longUrl).sort(), ['https://example.com/1', 'https://example.com/2']);
  await person.fill({ lines: '' });
  await person.page.getByRole('button', { name: 'Many links at once' }).click();
  assert.equal(await person.page.locator('#lines').evaluate((field) => field.validity.valueMissing), true);
});

// Changes of the selected links only, each of which the list shows then, and the undoing of a deletion.
export const bulk = () => withPeople(async (begin) => {
  for (const slug of ['one', 'two', 'three']) await link({ customSlug: slug, tags: ['old'] });
  const person = await (await begin()).logIn();
  await person.go('Links');
  await person.press('Disable', 422);
  assert.match(await person.text(), /select at least one link/);
  const select = async (...slugs) => {
    await person.open('/console/links');
    for (const slug of slugs) await person.page.getByLabel(`Select ${DOMAIN}/${slug}`).check();
  };
  const links = async () => Object.fromEntries((await api('/links')).body.links.map((made) => [made.shortCode, made]));
  await select('one', 'two');
  await person.press('Disable');
  assert.match(await person.text('[role="status"]'), /2 of 2/);
  assert.deepEqual(Object.values(await links()).map(({ state }) => state), ['active', 'disabled', 'disabled']);
  await person.go('Back to the list');
  assert.deepEqual(await person.page.locator('tbody .state').allTextContents(), ['active', 'disabled', 'disabled']);
  await select('one');
  await person.press('Enable');
  assert.equal((await links()).one.state, 'active');
  for (const [button, tag, tags] of [['Add tag', 'new', ['new', 'old']], ['Remove tag', 'old', ['new']]]) {
    await select('three');
    await person.page.getByRole('textbox', { name: 'Tag', exact: true }).last().fill(tag);
    await person.press(button);
    assert.deepEqual((await links()).three.tags, tags);
  }
  await select('one', 'three');
  await person.page.getByRole('textbox', { name: 'Tag', exact: true }).last().fill('new');
  await person.press('Add tag');
  assert.deepEqual((await links()).one.tags, ['new', 'old']);
  // Undone of the link alone that did not have the tag before.
  await person.press('Undo');
  assert.deepEqual([(await links()).one.tags, (await links()).three.tags], [['old'], ['new']]);
  await select('three');
  await person.press('Archive');
  assert.equal((await links()).three.archived, true);
  await select('two', 'three');
  await person.press('Delete');
  assert.deepEqual(Object.keys(await links()), ['one']);
  await person.press('Undo');
  assert.deepEqual(Object.keys(await links()).sort(), ['one', 'three', 'two']);
  assert.deepEqual((await links()).three.tags, ['new']);
});

// A link that is deleted is back with all it had.
export const restore = () => withPeople(async (begin) => {
  const before = await link({ customSlug: 'abc', title: 'Kept', tags: ['t'] });
  const person = await (await begin()).logIn();
  await person.go('Links');
  await person.go(`${DOMAIN}/abc`);
  await person.press('Delete');
  assert.equal(await person.heading(), 'Deleted link');
  assert.equal((await api('/links/abc')).status, 404);
  await person.press('Undo the deletion');
  assert.match(await person.text('[role="status"] >> nth=0'), /The link is back/);
  assert.equal(await person.heading(), 'Kept');
  const { body } = await api('/links/abc');
  assert.deepEqual({ ...body, updatedAt: 0 }, { ...before, updatedAt: 0 });
  await person.open('/console/audit?action=link.delete');
  // It is said to be deleted no more.
  await person.page.locator('tbody a').first().click();
  await person.page.getByRole('heading', { name: 'Kept' }).waitFor();
});

// Links whose codes are the names of pages have pages, too: none stands where that of a link would.
export const codes_that_are_names_of_pages = () => withPeople(async (begin) => {
  const router = await readFile(new URL('../../../control-plane/web/src/console.rs', import.meta.url), 'utf8');
  const names = [...router.matchAll(/"\/console\/links\/([a-z-]+)"/g)].map(([, name]) => name);
  assert.deepEqual(names, []);
  const person = await (await begin()).logIn();
  for (const name of ['new', 'restore', 'edit']) {
    await link({ customSlug: name, title: `Called ${name}` });
    await person.open('/console/links');
    await person.go(`${DOMAIN}/${name}`);
    assert.equal(await person.heading(), `Called ${name}`);
    for (const tab of ['Edit', 'Rules', 'History', 'Details']) {
      await person.go(tab);
      assert.equal(await person.heading(), `Called ${name}`);
    }
    await person.press('Delete');
    await person.press('Undo the deletion');
    assert.equal(await person.heading(), `Called ${name}`);
  }
});

// A link goes to another alias, and the old one still leads there if that is asked for.
export const moved = () => withPeople(async (begin) => {
  await link({ customSlug: 'here', title: 'Travels' });
  const person = await (await begin()).logIn();
  await person.open('/console/links/here');
  await person.go('Move');
  await person.fill({ customSlug: 'login' });
  await person.press('Move', 422);
  assert.match((await person.problems()).customSlug, /reserved/);
  await person.fill({ customSlug: 'there', keepOld: true });
  await person.press('Move');
  assert.match(await person.text('[role="status"]'), /The link is here now/);
  assert.deepEqual([await person.heading(), (await api('/links/there')).body.title], ['Travels', 'Travels']);
  assert.equal((await api('/links/here')).status, 200);
});
