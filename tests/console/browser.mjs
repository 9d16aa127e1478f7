// Chromium with a page of the control plane's own origin, under the Content-Security-Policy of the console.

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

// Opens a page with that body, lets `work` do what is to be done with it, and checks that nothing was complained of. `answers`
// are those of further addresses.
export async function withPage(body, work, answers = {}) {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    const complaints = [];
    page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complaints.push(message.text()); });
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.route(`${API}/page`, (route) => route.fulfill({
      contentType: 'text/html; charset=utf-8',
      headers: { 'content-security-policy': POLICY },
      body: `<!doctype html><html lang="en"><title>Test</title><link rel="icon" href="data:,">
        <script type="module" src="${ASSETS}/console.js"></script>${body}</html>`,
    }));
    for (const [address, answer] of Object.entries(answers)) await page.route(address, (route) => route.fulfill(answer));
    await page.goto(`${API}/page`);
    await page.waitForSelector('html[data-script="ready"]', { timeout: 30_000 });
    await work(page);
    assert.deepEqual(complaints, []);
  } finally {
    await browser.close();
  }
}

export const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');

// A request of the API.
export async function api(path, body) {
  const answer = await fetch(`${API}/api/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: answer.status, body: await answer.json() };
}
