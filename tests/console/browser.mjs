// Chromium, and what its pages complain of.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

export const { API, API_KEY } = process.env;
export const SETTINGS = {
  domains: ['go.example', '127.0.0.1:8080'], madeDomains: [], blockedHosts: ['blocked.example', '*.evil.example', '192.0.2.66'],
};
// The files of any version are those of this one.
export const ASSETS = `${API}/console/assets/any`;
const POLICY = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; "
  + "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

export const launch = (args = []) => chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', ...args] });

// Notes all that a page complains of: errors and warnings of the console, errors of scripts, violations of the
// Content-Security-Policy, dialogs, requests without an answer, and refusals whose status is not in `expected`, which takes each once.
// What happens while `isWatched` says no is left out.
export async function watch(page, expected = [], isWatched = () => true) {
  const complaints = [];
  const complain = (text) => { if (isWatched()) complaints.push(text); };
  page.on('console', (message) => {
    const text = message.text();
    // The listener for answers has these.
    const isAnswer = text.startsWith('Failed to load resource: the server responded with a status');
    if (['error', 'warning'].includes(message.type()) && !isAnswer) complain(`${message.type()}: ${text}`);
  });
  page.on('pageerror', (error) => complain(String(error)));
  page.on('dialog', (dialog) => {
    complain(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('requestfailed', (request) => {
    const reason = request.failure()?.errorText;
    // A stream ends with its page, as does what a page still loads when it is left.
    const isOfPage = request.resourceType() === 'eventsource' || request.url().includes('/console/assets/');
    const isEnd = isOfPage && reason === 'net::ERR_ABORTED';
    if (!isEnd) complain(`${request.method()} ${request.url()}: ${reason}`);
  });
  page.on('response', (response) => {
    const place = expected.indexOf(response.status());
    if (response.status() < 400) return;
    if (place >= 0) expected.splice(place, 1);
    else complain(`${response.request().method()} ${response.url()}: ${response.status()}`);
  });
  await page.addInitScript(() => document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
    console.error(`the policy ${violatedDirective} forbids ${blockedURI}`);
  }));
  return complaints;
}

// Opens a page with that body, of the control plane's own origin and under the policy of the console, lets `work` do what is to be
// done with it, and checks that nothing was complained of. `answers` are those of further addresses.
export async function withPage(body, work, answers = {}) {
  const browser = await launch();
  try {
    const page = await browser.newPage();
    const complaints = await watch(page);
    await page.route(`${API}/page`, (route) => route.fulfill({
      contentType: 'text/html; charset=utf-8',
      headers: { 'content-security-policy': POLICY },
      body: `<!doctype html><html lang="en"><title>Test</title><link rel="icon" href="data:,">
        <script type="module" src="${ASSETS}/console.js"></script>${body}</html>`,
    }));
    for (const [address, answer] of Object.entries(answers)) await page.route(address, (route) => route.fulfill(answer));
    await page.goto(`${API}/page`);
    await page.waitForSelector('html[data-script="ready"]', { timeout: 60_000 });
    await work(page);
    assert.deepEqual(complaints, []);
  } finally {
    await browser.close();
  }
}

export const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');

const TRIES = 10;

// A request of the API with the admin key: a POST with a body, or a GET. One that a busy machine has answered with 503 is sent again,
// if that may be done.
export async function api(path, body, method = body ? 'POST' : 'GET', tries = TRIES) {
  const answer = await fetch(`${API}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  if (answer.status === 503 && method !== 'POST' && tries > 1) return api(path, body, method, tries - 1);
  return { status: answer.status, body: text && JSON.parse(text) };
}
