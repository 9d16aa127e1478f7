// Makes every call of Shlink's SDK, unmodified, to a control plane with an Envoy in front, and checks what comes back.
// The end-to-end suite runs it (tests/tests/e2e/shlink.rs) with API, API_KEY and EDGE; `go.example` and `other.example`
// are the domains.

import assert from 'node:assert/strict';
import * as http from 'node:http';
import { ShlinkApiClient } from '@shlinkio/shlink-js-sdk';
import { ErrorType } from '@shlinkio/shlink-js-sdk/api-contract';
import { FetchHttpClient } from '@shlinkio/shlink-js-sdk/fetch';
import { NodeHttpClient } from '@shlinkio/shlink-js-sdk/node';

const { API, API_KEY, EDGE } = process.env;

// All calls of the SDK 3.2.1.
const CALLS = [
  'listShortUrls', 'createShortUrl', 'getShortUrl', 'deleteShortUrl', 'updateShortUrl',
  'getShortUrlRedirectRules', 'setShortUrlRedirectRules',
  'getVisitsOverview', 'getShortUrlVisits', 'getTagVisits', 'getDomainVisits', 'getOrphanVisits', 'getNonOrphanVisits',
  'deleteShortUrlVisits', 'deleteOrphanVisits',
  'listTags', 'tagsStats', 'deleteTags', 'editTag',
  'listDomains', 'editDomainRedirects',
  'health', 'mercureInfo',
];
const called = new Set();

// A client that remembers what was called.
function client(http, apiKey = API_KEY) {
  return new Proxy(new ShlinkApiClient(http, { baseUrl: API, apiKey }), {
    get(target, name) {
      called.add(name);
      return target[name].bind(target);
    },
  });
}

const shlink = client(new NodeHttpClient());
const byFetch = client(new FetchHttpClient());

// The problem that a call is refused with.
async function refused(call, type, status) {
  const problem = await call.then((answer) => assert.fail(`no error, but ${JSON.stringify(answer)}`), (error) => error);
  assert.equal(problem.type, type, JSON.stringify(problem));
  assert.equal(problem.status, status);
  for (const text of [problem.title, problem.detail]) {
    assert.equal(typeof text, 'string');
  }
  return problem;
}

const invalid = async (call, ...fields) => {
  const { invalidElements } = await refused(call, ErrorType.INVALID_ARGUMENT, 400);
  assert.deepEqual(invalidElements.sort(), fields.sort());
};

// A visitor of the edge; the status of the answer.
const follow = (path, headers = {}) => new Promise((resolve, reject) => {
  const request = http.get(`${EDGE}${path}`, { headers: { host: 'go.example', ...headers }, agent: false }, (answer) => {
    answer.resume();
    answer.on('end', () => resolve(answer.statusCode));
  });
  request.on('error', reject);
});

// Asks until the answer is as it should be.
async function until(what, ask, isRight) {
  for (const end = Date.now() + 20_000; ;) {
    const answer = await ask();
    if (isRight(answer)) return answer;
    assert.ok(Date.now() < end, `never: ${what}: ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const summary = (total, bots = 0) => ({ total, nonBots: total - bots, bots });
const codes = ({ data }) => data.map(({ shortCode }) => shortCode);
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/;

async function aboutTheServer() {
  const health = await shlink.health();
  assert.equal(health.status, 'pass');
  assert.match(health.version, /^5\.1\./);
  const elsewhere = new ShlinkApiClient(new FetchHttpClient(), { baseUrl: 'http://server.invalid', apiKey: 'no key' });
  assert.deepEqual(await elsewhere.health({ domain: new URL(API).host }), health);
  await refused(shlink.mercureInfo(), ErrorType.MERCURE_NOT_CONFIGURED, 501);
  await refused(client(new NodeHttpClient(), 'wrong').listTags(), ErrorType.INVALID_API_KEY, 401);
  const answer = await fetch(`${API}/rest/v3/tags`);
  await refused(answer.json().then((problem) => Promise.reject(problem)), ErrorType.INVALID_AUTHORIZATION, 401);
}

async function creating() {
  const plain = await shlink.createShortUrl({ longUrl: 'https://example.com/plain' });
  const { shortCode, shortUrl, dateCreated, ...rest } = plain;
  assert.match(shortCode, /^[0-9A-Za-z]+$/);
  assert.equal(shortUrl, `http://go.example/${shortCode}`);
  assert.match(dateCreated, ISO);
  assert.deepEqual(rest, {
    longUrl: 'https://example.com/plain',
    visitsSummary: summary(0),
    tags: [],
    meta: { validSince: null, validUntil: null, maxVisits: null },
    domain: null,
    title: null,
    crawlable: false,
    forwardQuery: true,
    hasRedirectRules: false,
  });

  const full = {
    longUrl: 'https://example.com/full',
    customSlug: 'full',
    title: 'A full one',
    tags: ['red', 'blue'],
    crawlable: true,
    validSince: '2020-01-01T00:00:00+01:00',
    validUntil: '2099-01-01T00:00:00+00:00',
  };
  const made = await byFetch.createShortUrl(full);
  assert.equal(made.shortCode, 'full');
  assert.equal(made.title, full.title);
  assert.equal(made.crawlable, true);
  assert.deepEqual(made.tags, ['blue', 'red']);
  assert.deepEqual(made.meta, {
    validSince: '2019-12-31T23:00:00+00:00', validUntil: '2099-01-01T00:00:00+00:00', maxVisits: null,
  });
  assert.deepEqual(await shlink.createShortUrl({ ...full, findIfExists: true }), made);
  const taken = await refused(shlink.createShortUrl({ ...full, tags: [] }), ErrorType.INVALID_SLUG, 400);
  assert.equal(taken.customSlug, 'full');

  const elsewhere = { longUrl: 'https://example.com/', customSlug: 'full', domain: 'other.example' };
  const there = await shlink.createShortUrl(elsewhere);
  assert.equal(there.domain, 'other.example');
  assert.equal(there.shortUrl, 'http://other.example/full');

  const wrong = { longUrl: 'no URL', title: 7, shortCodeLength: 5 };
  await invalid(shlink.createShortUrl(wrong), 'longUrl', 'title', 'shortCodeLength');
  await invalid(shlink.createShortUrl({ longUrl: 'https://example.com/', domain: 'not.ours.example' }), 'domain');
}

async function changing() {
  const id = { shortCode: 'full' };
  const before = await shlink.getShortUrl(id);
  const changes = { longUrl: 'https://example.com/changed', title: null, forwardQuery: false, crawlable: false };
  const after = await byFetch.updateShortUrl(id, { ...changes, validUntil: null, maxVisits: null });
  assert.deepEqual(after, { ...before, ...changes, meta: { ...before.meta, validUntil: null } });
  assert.deepEqual(await shlink.getShortUrl(id), after);
  await invalid(shlink.updateShortUrl(id, { longUrl: 'no URL' }), 'longUrl');

  const absent = { shortCode: 'absent', domain: 'other.example' };
  const problem = await refused(shlink.getShortUrl(absent), ErrorType.INVALID_SHORTCODE, 404);
  assert.equal(problem.shortCode, 'absent');
  assert.equal(problem.domain, 'other.example');
  const foreign = { shortCode: 'full', domain: 'not.ours.example' };
  await refused(shlink.getShortUrl(foreign), ErrorType.INVALID_SHORTCODE, 404);
  await refused(shlink.updateShortUrl(absent, { title: 'x' }), ErrorType.INVALID_SHORTCODE, 404);
}

async function rules() {
  const id = { shortCode: 'full' };
  const defaultLongUrl = 'https://example.com/changed';
  assert.deepEqual(await shlink.getShortUrlRedirectRules(id), { defaultLongUrl, redirectRules: [] });
  const redirectRules = [
    { longUrl: 'https://example.com/android', conditions: [{ type: 'device', matchKey: null, matchValue: 'android' }] },
    {
      longUrl: 'https://example.com/many',
      conditions: [
        { type: 'language', matchKey: null, matchValue: 'es-ES' },
        { type: 'query-param', matchKey: 'a', matchValue: 'b' },
        { type: 'ip-address', matchKey: null, matchValue: '192.168.1.*' },
        { type: 'browser', matchKey: null, matchValue: 'firefox' },
        { type: 'before-date', matchKey: null, matchValue: '2099-01-01T00:00:00+00:00' },
      ],
    },
  ];
  const expected = {
    defaultLongUrl, redirectRules: redirectRules.map((rule, index) => ({ ...rule, priority: index + 1 })),
  };
  assert.deepEqual(await shlink.setShortUrlRedirectRules(id, { redirectRules }), expected);
  assert.deepEqual(await byFetch.getShortUrlRedirectRules(id), expected);
  assert.equal((await shlink.getShortUrl(id)).hasRedirectRules, true);
  const moon = { type: 'moon', matchKey: null, matchValue: 'full' };
  const wrong = [{ longUrl: 'https://example.com/', conditions: [moon] }];
  await invalid(shlink.setShortUrlRedirectRules(id, { redirectRules: wrong }), 'redirectRules[0].conditions[0].type');
  await shlink.setShortUrlRedirectRules(id, { redirectRules: [] });
  assert.equal((await shlink.getShortUrl(id)).hasRedirectRules, false);
  await refused(shlink.getShortUrlRedirectRules({ shortCode: 'absent' }), ErrorType.INVALID_SHORTCODE, 404);
}

async function listing() {
  for (const name of ['b', 'a', 'c']) {
    await shlink.createShortUrl({
      longUrl: `https://${name}.example/`,
      customSlug: `list-${name}`,
      title: `Title ${name}`,
      tags: ['listed', `only-${name}`],
    });
  }
  await shlink.createShortUrl({
    longUrl: 'https://past.example/',
    customSlug: 'list-past',
    tags: ['listed'],
    validUntil: '2021-01-01T00:00:00+00:00',
  });
  const list = async (params) => codes(await shlink.listShortUrls({ tags: ['listed'], ...params }));
  assert.deepEqual(await list(), ['list-past', 'list-c', 'list-a', 'list-b']);
  const [newest] = (await byFetch.listShortUrls({ itemsPerPage: 1 })).data;
  assert.deepEqual(newest, await shlink.getShortUrl({ shortCode: 'list-past' }));

  const second = await shlink.listShortUrls({ tags: ['listed'], page: '2', itemsPerPage: 3 });
  assert.deepEqual(codes(second), ['list-b']);
  assert.deepEqual(second.pagination, {
    currentPage: 2, pagesCount: 2, itemsPerPage: 3, itemsInCurrentPage: 1, totalItems: 4, atLeast: false,
  });
  assert.deepEqual(await list({ page: '3', itemsPerPage: 3 }), []);

  for (const [field, expected] of [
    ['dateCreated', ['list-b', 'list-a', 'list-c', 'list-past']],
    ['shortCode', ['list-a', 'list-b', 'list-c', 'list-past']],
    ['longUrl', ['list-a', 'list-b', 'list-c', 'list-past']],
    ['title', ['list-past', 'list-a', 'list-b', 'list-c']],
  ]) {
    assert.deepEqual(await list({ orderBy: { field, dir: 'ASC' } }), expected, field);
    assert.deepEqual(await list({ orderBy: { field, dir: 'DESC' } }), [...expected].reverse(), field);
    assert.deepEqual(await list({ orderBy: { field, dir: 'ASC' }, domain: 'DEFAULT' }), expected, field);
  }
  const followable = { excludePastValidUntil: true, excludeMaxVisitsReached: true };
  assert.deepEqual(await list(followable), ['list-c', 'list-a', 'list-b']);
  assert.deepEqual(await list({ excludeTags: ['only-a', 'only-b'] }), ['list-past', 'list-c']);
  const notBoth = { excludeTags: ['listed', 'only-b'], excludeTagsMode: 'all' };
  assert.deepEqual(await list(notBoth), ['list-past', 'list-c', 'list-a']);
  assert.deepEqual(await list({ tags: ['listed', 'only-a'], tagsMode: 'all' }), ['list-a']);
  assert.deepEqual(await list({ tags: ['only-a', 'only-c'] }), ['list-c', 'list-a']);
  assert.deepEqual(await list({ searchTerm: 'b.example' }), ['list-b']);
  assert.deepEqual(await list({ domain: 'other.example' }), []);
  assert.deepEqual(await list({ endDate: '2020-01-01T00:00:00+00:00' }), []);
  assert.equal((await list({ startDate: '2020-01-01T00:00:00+00:00' })).length, 4);
  assert.deepEqual(codes(await shlink.listShortUrls({ domain: 'other.example' })), ['full']);

  await invalid(shlink.listShortUrls({ page: '0', itemsPerPage: 0 }), 'page', 'itemsPerPage');
  await invalid(shlink.listShortUrls({ orderBy: { field: 'colour', dir: 'ASC' } }), 'orderBy');
  await invalid(shlink.listShortUrls({ apiKeyName: 'anyone' }), 'apiKeyName');
}

async function visits() {
  const visited = { shortCode: 'list-a' };
  const person = {
    'user-agent': 'Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X)', referer: 'https://news.example/today',
    'x-country': 'de', 'x-city': 'Bonn',
  };
  const bot = { 'user-agent': 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)' };
  for (const [path, headers] of [['/list-a', person], ['/list-a', person], ['/list-a', bot], ['/list-b', person]]) {
    assert.equal(await follow(path, headers), 302);
  }
  const isCounted = ({ nonOrphanVisits }) => nonOrphanVisits.total === 4;
  const overview = await until('visits are counted', () => shlink.getVisitsOverview(), isCounted);
  assert.deepEqual(overview.nonOrphanVisits, summary(4, 1));
  assert.equal(overview.atLeast, false);
  assert.deepEqual((await shlink.getShortUrl(visited)).visitsSummary, summary(3, 1));
  const byVisits = await shlink.listShortUrls({ orderBy: { field: 'visits', dir: 'DESC' }, itemsPerPage: 2 });
  assert.deepEqual(codes(byVisits), ['list-a', 'list-b']);
  assert.deepEqual(byVisits.data.map(({ visitsSummary }) => visitsSummary.total), [3, 1]);

  const { data, pagination } = await shlink.getShortUrlVisits(visited);
  assert.equal(pagination.totalItems, 3);
  assert.equal(data.length, 3);
  const location = {
    countryCode: 'DE', countryName: 'Germany', regionName: '', cityName: 'Bonn', latitude: null, longitude: null, timezone: '',
    isEmpty: false,
  };
  for (const { date, potentialBot, ...rest } of data) {
    assert.match(date, ISO);
    assert.ok(Math.abs(Date.now() - Date.parse(date)) < 120_000, date);
    assert.deepEqual(rest, {
      referer: potentialBot ? '' : 'news.example', userAgent: (potentialBot ? bot : person)['user-agent'],
      visitLocation: potentialBot ? null : location, visitedUrl: 'http://go.example/list-a', redirectUrl: null,
    });
  }
  assert.equal(data.filter(({ potentialBot }) => potentialBot).length, 1);
  const page = await byFetch.getShortUrlVisits(visited, { page: 2, itemsPerPage: 2 });
  assert.deepEqual([page.data.length, page.pagination.pagesCount, page.pagination.totalItems], [1, 2, 3]);
  const people = await shlink.getShortUrlVisits(visited, { excludeBots: true });
  assert.deepEqual([people.data.length, people.pagination.totalItems], [2, 2]);
  const early = await shlink.getShortUrlVisits(visited, { endDate: '2020-01-01T00:00:00+00:00' });
  assert.equal(early.pagination.totalItems, 0);

  const total = async (call) => (await call).pagination.totalItems;
  assert.equal(await total(shlink.getTagVisits('listed')), 4);
  assert.equal(await total(shlink.getTagVisits('only-a', { domain: 'DEFAULT' })), 3);
  assert.equal(await total(shlink.getTagVisits('only-a', { domain: 'other.example' })), 0);
  assert.equal(await total(shlink.getDomainVisits('DEFAULT')), 4);
  assert.equal(await total(shlink.getDomainVisits('other.example')), 0);
  assert.equal(await total(shlink.getNonOrphanVisits()), 4);
  assert.equal(await total(shlink.getNonOrphanVisits({ domain: 'other.example' })), 0);
  for (const path of ['/', '/absent', '/wp/login.php']) assert.equal(await follow(path, person), 404);
  const ofRoot = () => shlink.getOrphanVisits({ type: 'base_url' });
  const root = await until('orphan visits are counted', ofRoot, ({ pagination }) => pagination.totalItems > 0);
  const { date, ...orphan } = root.data[0];
  assert.match(date, ISO);
  assert.deepEqual(orphan, {
    referer: 'news.example', userAgent: person['user-agent'], visitLocation: location, potentialBot: false,
    visitedUrl: 'http://go.example/', redirectUrl: null, type: 'base_url',
  });
  const isAll = ({ pagination }) => pagination.totalItems >= 3;
  const orphans = await until('all orphan visits are counted', () => shlink.getOrphanVisits(), isAll);
  const kinds = new Set(orphans.data.map(({ type }) => type));
  assert.deepEqual([...kinds].sort(), ['base_url', 'invalid_short_url', 'regular_404']);
  assert.equal(await total(shlink.getOrphanVisits({ domain: 'other.example' })), 0);
  assert.equal(await follow('/', bot), 404);
  await until('the visit of a bot is counted', ofRoot, ({ pagination }) => pagination.totalItems > root.pagination.totalItems);
  const { orphanVisits } = await shlink.getVisitsOverview();
  assert.deepEqual(orphanVisits, summary(await total(shlink.getOrphanVisits()), 1));
  await lists([
    [(query) => byFetch.getShortUrlVisits(visited, query), 3],
    [(query) => byFetch.getTagVisits('listed', query), 4],
    [(query) => byFetch.getDomainVisits('DEFAULT', query), 4],
    [(query) => byFetch.getNonOrphanVisits(query), 4],
    [(query) => byFetch.getOrphanVisits(query), orphanVisits.total],
    [(query) => byFetch.getOrphanVisits({ type: 'base_url', ...query }), await total(ofRoot())],
  ]);
  await refused(shlink.getTagVisits('absent'), ErrorType.TAG_NOT_FOUND, 404);
  await refused(shlink.getDomainVisits('not.ours.example'), ErrorType.DOMAIN_NOT_FOUND, 404);
  await refused(shlink.getShortUrlVisits({ shortCode: 'absent' }), ErrorType.INVALID_SHORTCODE, 404);
  await invalid(shlink.getShortUrlVisits(visited, { startDate: 'yesterday', page: 0 }), 'startDate', 'page');
  await invalid(shlink.getOrphanVisits({ type: 'moon' }), 'type');

  const stats = (await shlink.tagsStats()).data.find(({ tag }) => tag === 'listed');
  assert.deepEqual(stats, { tag: 'listed', shortUrlsCount: 4, visitsSummary: summary(4, 1), atLeast: false });

  assert.deepEqual(await shlink.deleteShortUrlVisits(visited), { deletedVisits: 3 });
  assert.deepEqual(await shlink.deleteShortUrlVisits(visited), { deletedVisits: 0 });
  assert.deepEqual((await shlink.getShortUrl(visited)).visitsSummary, summary(0));
  assert.equal(await total(shlink.getShortUrlVisits(visited)), 0);
  assert.equal(await total(shlink.getNonOrphanVisits()), 1);
  await refused(shlink.deleteShortUrlVisits({ shortCode: 'absent' }), ErrorType.INVALID_SHORTCODE, 404);
  assert.ok((await shlink.deleteOrphanVisits()).deletedVisits >= 3);
  assert.equal(await total(shlink.getOrphanVisits()), 0);
}

// Lists of visits, each with how many it has, one of them by a bot: by time, without bots, and by pages.
async function lists(all) {
  const start = '2020-01-01T00:00:00+00:00';
  const end = new Date(Date.now() + 3_600_000).toISOString();
  for (const [list, count] of all) {
    const found = async (query) => (await list(query)).pagination.totalItems;
    assert.equal(await found({ startDate: start, endDate: end }), count);
    assert.equal(await found({ startDate: end }), 0);
    assert.equal(await found({ endDate: start }), 0);
    assert.equal(await found({ excludeBots: true }), count - 1);
    const whole = (await list({})).data;
    assert.equal(whole.length, count);
    const pages = [];
    for (let page = 1; page <= count + 1; page += 1) {
      const { data, pagination } = await list({ page, itemsPerPage: 1 });
      assert.deepEqual([pagination.totalItems, pagination.pagesCount], [count, count]);
      pages.push(...data);
    }
    assert.deepEqual(pages, whole);
  }
}

async function tags() {
  const names = async () => (await shlink.listTags()).data;
  assert.deepEqual(await names(), ['blue', 'listed', 'only-a', 'only-b', 'only-c', 'red']);
  assert.deepEqual((await shlink.tagsStats()).data.map(({ tag, shortUrlsCount }) => [tag, shortUrlsCount]), [
    ['blue', 1], ['listed', 4], ['only-a', 1], ['only-b', 1], ['only-c', 1], ['red', 1],
  ]);
  await shlink.editTag({ oldName: 'blue', newName: 'green' });
  assert.deepEqual((await shlink.getShortUrl({ shortCode: 'full' })).tags, ['green', 'red']);
  await refused(shlink.editTag({ oldName: 'blue', newName: 'x' }), ErrorType.TAG_NOT_FOUND, 404);
  const conflict = await refused(shlink.editTag({ oldName: 'green', newName: 'red' }), ErrorType.TAG_CONFLICT, 409);
  assert.deepEqual([conflict.oldName, conflict.newName], ['green', 'red']);
  await invalid(shlink.editTag({ oldName: 'green' }), 'newName');
  await byFetch.deleteTags(['only-a', 'only-b', 'absent']);
  assert.deepEqual(await names(), ['green', 'listed', 'only-c', 'red']);
}

async function domains() {
  const none = { baseUrlRedirect: null, regular404Redirect: null, invalidShortUrlRedirect: null };
  assert.deepEqual(await shlink.listDomains(), {
    data: [
      { domain: 'go.example', isDefault: true, redirects: none },
      { domain: 'other.example', isDefault: false, redirects: none },
    ],
    defaultRedirects: none,
  });
  const edit = (redirects) => shlink.editDomainRedirects({ domain: 'other.example', ...redirects });
  const [root, missing] = ['https://example.com/root', 'https://example.com/missing'];
  assert.deepEqual(await edit({ baseUrlRedirect: root }), { ...none, baseUrlRedirect: root });
  const all = { baseUrlRedirect: root, regular404Redirect: missing, invalidShortUrlRedirect: missing };
  assert.deepEqual(await edit({ invalidShortUrlRedirect: missing, regular404Redirect: null }), all);
  assert.deepEqual((await shlink.listDomains()).data[1].redirects, all);
  await invalid(edit({ regular404Redirect: root, invalidShortUrlRedirect: 'https://example.com/else' }), 'regular404Redirect');
  await invalid(edit({ baseUrlRedirect: 'nonsense' }), 'baseUrlRedirect');
  assert.deepEqual(await edit({ baseUrlRedirect: null, regular404Redirect: null }), none);
  await refused(shlink.editDomainRedirects({ domain: 'not.ours.example' }), ErrorType.DOMAIN_NOT_FOUND, 404);
}

async function limits() {
  const id = { shortCode: 'once' };
  const limited = { longUrl: 'https://example.com/', customSlug: id.shortCode, maxVisits: 1 };
  assert.equal((await shlink.createShortUrl(limited)).meta.maxVisits, 1);
  assert.equal(await follow('/once'), 302);
  const isUsedUp = (status) => status !== 302;
  await until('the visit is used', () => follow('/once'), isUsedUp);
  const list = () => shlink.listShortUrls({ searchTerm: 'once', excludeMaxVisitsReached: true });
  await until('the list leaves it out', list, ({ data }) => data.length === 0);
  assert.deepEqual(codes(await shlink.listShortUrls({ searchTerm: 'once' })), ['once']);
  assert.equal((await shlink.updateShortUrl(id, { maxVisits: 5 })).meta.maxVisits, 5);
  assert.deepEqual(codes(await list()), ['once']);
}

async function deleting() {
  const id = { shortCode: 'full', domain: 'other.example' };
  await shlink.deleteShortUrl(id);
  await refused(shlink.getShortUrl(id), ErrorType.INVALID_SHORTCODE, 404);
  await refused(shlink.deleteShortUrl(id), ErrorType.INVALID_SHORTCODE, 404);
  await shlink.getShortUrl({ shortCode: 'full' });
}

const methods = Object.getOwnPropertyNames(ShlinkApiClient.prototype).filter((name) => name !== 'constructor');
assert.deepEqual(methods.sort(), [...CALLS].sort(), 'the calls of this SDK');
for (const part of [aboutTheServer, creating, changing, rules, listing, visits, tags, domains, limits, deleting]) {
  await part();
  console.log(`${part.name}: as it should be`);
}
assert.deepEqual([...called].sort(), [...CALLS].sort(), 'what was called');
