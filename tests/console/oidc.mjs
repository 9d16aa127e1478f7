// Logs in to the console by a provider of OpenID Connect (npm oidc-provider, which is certified), in Chromium: another site, so that
// cookies are held to what SameSite says. The end-to-end suite runs it (tests/tests/e2e/console.rs).

import assert from 'node:assert/strict';
import Provider from 'oidc-provider';
import { API, api, launch, watch } from './browser.mjs';

const { ISSUER, SECRET } = process.env;

const provider = new Provider(ISSUER, {
  clients: [{ client_id: 'edgelink', client_secret: SECRET, redirect_uris: [`${API}/console/oidc/callback`] }],
  claims: { openid: ['sub'], profile: ['preferred_username'] },
  cookies: { keys: ['of this test'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: id }) }),
});
const server = provider.listen(new URL(ISSUER).port);
const ada = await api('/users', { name: 'ada', role: 'editor' });
assert.equal(ada.status, 201);

const browser = await launch();
try {
  const logIn = async (name, work) => {
    const context = await browser.newContext();
    const page = await context.newPage();
    const complaints = await watch(page, [], () => page.url().startsWith(API));
    await page.goto(`${API}/console/links`);
    await page.click('text=Log in by your organization');
    await page.waitForURL(`${ISSUER}/**`);
    await page.fill('[name="login"]', name);
    await page.fill('[name="password"]', 'any');
    await page.click('button[type="submit"]');
    await page.waitForSelector('text=Continue');
    await page.click('button[type="submit"]');
    await work(page, context);
    return { context, complaints };
  };
  await logIn('ada', (page) => page.waitForSelector('text=Ask an admin to await your login'));
  const awaited = await api(`/users/${ada.body.id}`, { awaitsIdentity: true }, 'PATCH');
  assert.equal(awaited.status, 200);
  const { context, complaints } = await logIn('ada', async (page) => {
    await page.waitForURL(`${API}/console/links`);
    assert.equal(await page.textContent('.user strong'), 'ada');
    await page.click('text=Settings');
    assert.match(await page.textContent('main'), /editor[\s\S]*By your organization/);
  });
  assert.deepEqual(complaints, []);
  const cookies = await context.cookies(`${API}/console/oidc/callback`);
  assert.deepEqual(cookies.map(({ name, sameSite, httpOnly }) => [name, sameSite, httpOnly]), [['edgelink_console', 'Strict', true]]);
  const [page] = context.pages();
  await page.click('text=Log out');
  await page.waitForURL(`${API}/console/login`);
  await page.goto(`${API}/console/links`);
  assert.match(page.url(), /\/console\/login\?to=/);
  await logIn('eve', async (other) => {
    await other.waitForSelector('text=You are no user here yet');
    assert.match(other.url(), /^[^?]*\/console\/oidc\/callback\?/);
  });
} finally {
  await browser.close();
  server.close();
  server.closeAllConnections();
}
