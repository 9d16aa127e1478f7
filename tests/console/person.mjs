// People in front of the console: each has a browser window of its own, in which nothing may be complained of.

import assert from 'node:assert/strict';
import http from 'node:http';
import { API, API_KEY, api, launch, watch } from './browser.mjs';

export const { EDGE } = process.env;
export const DOMAIN = 'go.example';
const PASSWORD = 'correct horse';

// Lets `work` begin people, with `await begin(options)`, and checks what their pages complained of. Of host names only those of
// `hosts` lead anywhere, to these addresses.
export async function withPeople(work, hosts = {}) {
  const rules = Object.entries(hosts).map(([name, address]) => `MAP ${name} ${address}`);
  const browser = await launch([`--host-resolver-rules=${[...rules, 'MAP * ~NOTFOUND', 'EXCLUDE 127.0.0.1'].join(', ')}`]);
  const people = [];
  try {
    await work(async (options) => {
      people.push(await Person.begin(browser, options));
      return people.at(-1);
    });
    for (const person of people) assert.deepEqual(person.complaints, []);
  } finally {
    const complaints = people.flatMap((person) => person.complaints);
    if (complaints.length) console.log(complaints.join('\n'));
    await browser.close();
  }
}

class Person {
  static async begin(browser, { script = true, theme = 'light', width = 1440, height = 900 } = {}) {
    const context = await browser.newContext({
      baseURL: API, javaScriptEnabled: script, colorScheme: theme, viewport: { width, height },
    });
    const person = new Person();
    person.hasScript = script;
    person.expected = [];
    person.page = await context.newPage();
    person.page.setDefaultTimeout(60_000);
    person.complaints = await watch(person.page, person.expected);
    return person;
  }

  // Does what leads to another page, which has to have that status.
  async leads(action, status = 200) {
    if (status >= 400) this.expected.push(status);
    const [answer] = await Promise.all([this.page.waitForNavigation(), action()]);
    assert.equal(answer?.status(), status, `${this.page.url()}: ${await this.page.textContent('main').catch(() => '')}`);
    await this.ready();
  }

  async ready() {
    if (this.hasScript && this.page.url().startsWith(API)) await this.page.waitForSelector('html[data-script="ready"]', { state: 'attached' });
  }

  open(path, status) {
    return this.leads(() => this.page.goto(path), status);
  }

  // Presses a button by its name.
  press(name, status) {
    return this.leads(() => this.page.getByRole('button', { name, exact: true }).click(), status);
  }

  // Follows a link by its name, the first one of several.
  go(name) {
    return this.leads(() => this.page.getByRole('link', { name, exact: true }).first().click());
  }

  async fill(fields) {
    for (const [name, value] of Object.entries(fields)) {
      const field = this.page.locator(`main #${name}`);
      const kind = await field.evaluate((element) => (element.type === 'checkbox' ? 'checkbox' : element.localName));
      if (kind === 'checkbox') await field.setChecked(value);
      else if (kind === 'select') await field.selectOption(value);
      else await field.fill(value);
    }
  }

  // Fills in the fields of the login and sends them.
  async logIn(fields = { key: API_KEY }, status = 200) {
    if (!this.page.url().includes('/console/login')) await this.open('/console/login');
    await this.fill(fields);
    await this.leads(() => this.page.locator(`#${Object.keys(fields).at(-1)}`).press('Enter'), status);
    return this;
  }

  // Logs in as a new user with that role.
  async logInWithRole(role) {
    const user = { name: `the ${role}`, role, password: PASSWORD };
    assert.equal((await api('/users', user)).status, 201);
    return this.logIn({ user: user.name, password: PASSWORD });
  }

  path() {
    return this.page.url().slice(API.length);
  }

  heading() {
    return this.page.locator('h1').textContent();
  }

  text(selector = 'main') {
    return this.page.locator(selector).textContent();
  }

  // The names of what can be filled in, in a form or the page.
  names(within = 'main') {
    return this.page.locator(within).evaluate((place) => [...place.querySelectorAll('input, select, textarea')]
      .filter((field) => field.type !== 'hidden').map((field) => field.name));
  }

  // What stands at the fields of the page as a problem, by their names.
  problems() {
    return this.page.locator('main').evaluate((place) => Object.fromEntries([...place.querySelectorAll('[id$="-problem"]')]
      .filter((problem) => problem.textContent).map((problem) => [problem.id.replace(/-problem$/, ''), problem.textContent])));
  }
}

// A link by the API.
export async function link(fields) {
  const made = await api('/links', { longUrl: 'https://example.com/', ...fields });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body;
}

// A visit of a short link at an address, such as that of the edge.
export const visit = (address, path, headers = {}) => new Promise((resolve, reject) => {
  const [hostname, port] = address.replace('http://', '').split(':');
  const asked = http.request({ hostname, port, path, headers: { host: DOMAIN, ...headers }, agent: false }, (answer) => {
    answer.resume();
    answer.on('end', () => resolve({ status: answer.statusCode, location: answer.headers.location }));
  });
  asked.on('error', reject);
  asked.end();
});

// Asks until the answer is something; a test that waits in vain is ended by its runner.
export async function until(what, probe) {
  const end = Date.now() + 60_000;
  while (Date.now() < end) {
    const found = await probe();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`waited in vain: ${what}`);
}
