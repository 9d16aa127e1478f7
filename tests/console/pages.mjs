// All pages of the console, a line each, as tests look at them: accessible.mjs, which fails where a route has no line here.
//
//   name     also that of its screenshot
//   route    as the router has it
//   path     where it is not the route
//   as       who looks at it: admin (or left out), reader, creator, or nobody (who has not logged in)
//   status   where it is not 200
//   needs    'links': only there with links, clicks, users and so on; else it is looked at without them as well
//   then     what is done there before the page is looked at, which leads to it

const send = (form, fields) => async (person, status) => {
  await person.fill(fields);
  await person.leads(() => person.page.locator(`${form} button[type="submit"]`).first().click(), status);
};
const press = (name) => (person, status) => person.press(name, status);

const BY_KEY = 'section[aria-labelledby="by-key"] form';

// Forms that have lost their token, as when they were open for too long.
const expired = async (person, status) => {
  await person.page.locator('form input[name="csrf"]').evaluateAll((fields) => fields.forEach((field) => field.remove()));
  await send(BY_KEY, { key: 'x' })(person, status);
};
const select = (button) => async (person, status) => {
  await person.page.locator('tbody [type="checkbox"]').last().check();
  await person.press(button, status);
};

// A file with a good line and a wrong one.
const tryOut = async (person) => {
  await person.fill({ format: 'csv', text: 'longUrl,shortCode\nhttps://example.com/,imported\nftp://example.com/,\n' });
  await person.press('Try it out');
  await person.page.waitForSelector('h1:text("was tried out")');
  await person.ready();
};

const link = '/console/links/{code}';
const wrong = { longUrl: 'ftp://example.com/', customSlug: 'login', title: 'x'.repeat(600) };
const lines = 'https://example.com/a\nftp://example.com/b';

export const PAGES = [
  { name: 'login', route: '/console/login', as: 'nobody' },
  { name: 'login-refused', route: '/console/login', as: 'nobody', then: send(BY_KEY, { key: 'wrong' }), status: 403 },
  { name: 'form-expired', route: '/console/login', as: 'nobody', then: expired, status: 403 },
  { name: 'overview', route: '/console' },
  { name: 'links', route: '/console/links' },
  { name: 'links-none', route: '/console/links', path: '/console/links?searchTerm=none' },
  { name: 'links-refused', route: '/console/links', path: '/console/links?orderBy=shortCode-asc', status: 422 },
  { name: 'links-of-reader', route: '/console/links', as: 'reader' },
  { name: 'bulk', route: '/console/links', needs: 'links', then: select('Disable') },
  { name: 'bulk-refused', route: '/console/links', needs: 'links', then: press('Archive'), status: 422 },
  { name: 'create', route: '/console/create' },
  { name: 'create-refused', route: '/console/create', then: send('form[data-check="link"]', wrong), status: 422 },
  { name: 'created', route: '/console/create', as: 'creator', needs: 'links', then: send('form[data-check="link"]', { longUrl: 'https://example.com/new' }) },
  { name: 'many', route: '/console/create-many' },
  { name: 'many-made', route: '/console/create-many', needs: 'links', then: send('main form', { lines }) },
  { name: 'link', route: link, path: '/console/links/busy', needs: 'links' },
  { name: 'link-named-new', route: link, path: '/console/links/new', needs: 'links' },
  { name: 'link-without-clicks', route: link, path: '/console/links/quiet', needs: 'links' },
  { name: 'link-of-reader', route: link, path: '/console/links/busy', needs: 'links', as: 'reader' },
  { name: 'edit', route: `${link}/edit`, path: '/console/links/busy/edit', needs: 'links' },
  { name: 'edit-refused', route: `${link}/edit`, path: '/console/links/busy/edit', needs: 'links', then: send('form[data-check="link"]', { longUrl: 'ftp://x' }), status: 422 },
  { name: 'move', route: `${link}/move`, path: '/console/links/busy/move', needs: 'links' },
  { name: 'move-refused', route: `${link}/move`, path: '/console/links/busy/move', needs: 'links', then: send('form[action*="/move"]', { customSlug: 'login' }), status: 422 },
  { name: 'rules', route: `${link}/rules`, path: '/console/links/busy/rules', needs: 'links' },
  { name: 'rules-refused', route: `${link}/rules`, path: '/console/links/busy/rules', needs: 'links', then: send('form[data-check="rules"]', { rules: '[{' }), status: 422 },
  { name: 'rules-of-reader', route: `${link}/rules`, path: '/console/links/busy/rules', needs: 'links', as: 'reader' },
  { name: 'dry-run', route: `${link}/dry-run`, path: '/console/links/busy/dry-run?acceptLanguage=de', needs: 'links' },
  { name: 'history', route: `${link}/history`, path: '/console/links/busy/history', needs: 'links' },
  { name: 'deleted', route: `${link}/deleted`, path: '/console/links/gone/deleted', needs: 'links' },
  { name: 'tags', route: '/console/tags' },
  { name: 'tags-refused', route: '/console/tags', needs: 'links', then: send('section form', { tag: 'spring', to: 'x'.repeat(65) }), status: 422 },
  { name: 'tag-delete', route: '/console/tags/delete', path: '/console/tags/delete?tag=spring', needs: 'links' },
  { name: 'domains', route: '/console/domains' },
  { name: 'domains-refused', route: '/console/domains', then: send('section form', { name: 'not a name' }), status: 422 },
  { name: 'domain', route: '/console/domains/{name}', path: '/console/domains/brand.example', needs: 'links' },
  { name: 'domain-of-reader', route: '/console/domains/{name}', path: '/console/domains/go.example', as: 'reader' },
  { name: 'domain-delete', route: '/console/domains/{name}/delete', path: '/console/domains/brand.example/delete', needs: 'links' },
  { name: 'keys', route: '/console/keys' },
  { name: 'key-made', route: '/console/keys', then: send('section form', { name: 'made' }), status: 201 },
  { name: 'key-revoke', route: '/console/keys/{id}/revoke', path: '/console/keys', needs: 'links', then: (person) => person.go('Revoke Ada’s key') },
  { name: 'key-rotate', route: '/console/keys/{id}/rotate', path: '/console/keys', needs: 'links', then: (person) => person.go('New secret Ada’s key') },
  { name: 'users', route: '/console/users' },
  { name: 'users-refused', route: '/console/users', then: send('section form', { name: 'x', password: 'short' }), status: 422 },
  { name: 'user', route: '/console/users/{id}', path: '/console/users/1' },
  { name: 'reports', route: '/console/reports' },
  { name: 'imports', route: '/console/imports' },
  { name: 'imports-refused', route: '/console/imports', then: press('Try it out'), status: 422 },
  { name: 'import', route: '/console/imports/{id}', path: '/console/imports', then: tryOut },
  { name: 'audit', route: '/console/audit' },
  { name: 'audit-none', route: '/console/audit', path: '/console/audit?action=none' },
  { name: 'settings', route: '/console/settings' },
  { name: 'settings-of-reader', route: '/console/settings', as: 'reader' },
  { name: 'not-allowed', route: '/console/users', as: 'reader', status: 403 },
  { name: 'not-found', route: '/console/{*rest}', path: '/console/nothing', status: 404 },
  { name: 'nothing', route: '/console/', status: 404 },
];
