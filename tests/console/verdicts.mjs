// Judges random inputs, hostile ones among them, in the browser and by the API: the verdicts, their words and what becomes of
// what is right are equal. SEED=7 has other inputs. The end-to-end suite runs it (tests/tests/e2e/console.rs).

import assert from 'node:assert/strict';
import { API, ASSETS, SETTINGS, api, withPage } from './browser.mjs';

const COUNTS = { slug: 700, target: 800, domain: 100, rules: 400 };
const CLIENTS = 8;
const MAX_MODULE_BYTES = 160_000;
const SEED = Number(process.env.SEED ?? 14);

// mulberry32
let state = SEED;
const random = () => {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
};
const below = (end) => Math.floor(random() * end);
const one = (list) => list[below(list.length)];
const some = (make, most) => Array.from({ length: below(most + 1) }, make).join('');

const HOSTILE = [
  '<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "' OR 1=1 --", '&lt;b&gt;', '\u202egnp.exe', '\u200f\u05d0\u05d1',
  '\u200b', '\u200d\ufeff', '\ud83d\ude00', '\ud83c\udde9\ud83c\uddea', '\u{10ffff}', '"', "'", '`', '\r\n', '\r\nset-cookie: a=b',
  '\0', '\u0085', '\u2028', '\t', '%00', '%', '%zz', '\\', '//', '..', '#', '?', '@', ':', ' ', '\u00a0', '\u00ad', 'ﬀ', 'ß', 'İ',
  '日本', 'ｇｏ', '。', '=cmd()', '${7*7}', '{{7*7}}', 'e\u0301',
];
const hostile = () => one(HOSTILE);
const letter = () => one([...'abcXYZ019-_.~']);
const mixed = () => (random() < 0.25 ? hostile() : letter());

const WORDS = ['api', 'Console', 'LOGIN', 'robots.txt', 'favicon.ico', '.well-known', 'health', 'metricsx', 'a', '-', '_'];
const slug = () => one([
  () => one(WORDS), () => some(letter, 70), () => some(mixed, 12), () => `${some(() => one([...'aZ9_-']), 63)}${one(['', 'x', hostile()])}`,
  () => 'x'.repeat(one([63, 64, 65])), () => `own-${below(1e9)}`,
])();

const HOSTS = [
  'example.com', 'EXAMPLE.com.', 'go.example', 'GO.example.', 'a.go.example', 'go.example:8443', 'go.example:443', '127.0.0.1:8080',
  '127.0.0.1', '0x7f.1:8080', '2130706433:8080', '[::ffff:127.0.0.1]:8080', '[::1]', '[::g]', 'blocked.example', 'Blocked.Example:81',
  'a.blocked.example', 'a.evil.example', 'evil.example', 'xn--bcher-kva.example', 'bücher.example', 'ｇｏ.example', 'go。example',
  '192.0.2.66', '[::ffff:192.0.2.66]', '999.1.1.1', 'a_b.example', '-a.example', 'a..b', '', 'user@example.com', 'u:p@example.com',
  'example.com:0', 'example.com:65535', 'example.com:65536', 'example.com:x', 'example.com:', 'ex%61mple.com', 'exa mple.com',
  `${'a'.repeat(63)}.com`, `${'a'.repeat(64)}.com`, 'xn--a', 'xn--\u00fc', 'a\u00adb.example', '１２７.0.0.1:8080',
];
const SCHEMES = ['https://', 'https://', 'https://', 'http://', 'HTTP://', 'hTTps://', 'ftp://', 'javascript:', 'data:text/html,', '//', '', 'https:/', 'https:\\\\', ' https://'];
const rest = () => one(['', '/', () => `/${some(mixed, 12)}`, () => `?${some(mixed, 12)}`, () => `#${some(mixed, 9)}`, () => `/a?b=${some(mixed, 6)}#${some(mixed, 6)}`]);
const value = (made) => (typeof made === 'function' ? made() : made);
const host = () => (random() < 0.8 ? one(HOSTS) : some(mixed, 9));
const target = () => one([
  () => `${one(SCHEMES)}${host()}${value(rest())}`, () => `${one(SCHEMES)}${host()}${value(rest())}`, () => `https://example.com/${some(mixed, 20)}`,
  () => some(mixed, 9), () => `https://example.com/${one(['x', 'ä', ' '])}`.padEnd(one([7_999, 8_000, 8_001]), one(['y', 'y', 'ö'])),
])();

const domain = () => one([() => one(['go.example', 'Go.EXAMPLE', '127.0.0.1:8080']), () => one(HOSTS), () => some(mixed, 9), () => 'a.'.repeat(130), () => `go.example${hostile()}`])();

const TYPES = [
  'device', 'language', 'query-param', 'any-value-query-param', 'valueless-query-param', 'ip-address', 'geolocation-country-code',
  'geolocation-city-name', 'before-date', 'after-date', 'browser', 'weight', 'moon', 'Device', '', 7, null,
];
const VALUES = [
  'android', 'desktop', 'Android', 'en', 'en-GB', 'de-', '*', '192.0.2.1', '192.0.2.0/24', '192.0.2.0/33', '192.0.*.*', '2001:db8::/32', 'DE', 'de',
  'DEU', 'Bonn', '2030-01-01T00:00:00Z', '2030-01-01T00:00:00+14:00', '1969-12-31T23:59:59Z', '9999-12-31T23:59:59-01:00',
  '2030-02-30T00:00:00Z', 'chrome', 'edge', '1', '99', '100', '0', '007', '-1', '1.5', '', null, null, 5, true, [], {},
];
const text = () => one([() => one(VALUES), () => one(VALUES), () => some(mixed, 9), () => 'ä'.repeat(one([127, 128])), () => undefined])();
const condition = () => (random() < 0.04 ? one([null, 'x', 3, []]) : {
  type: one(TYPES), matchKey: random() < 0.5 ? null : text(), matchValue: text(), ...(random() < 0.03 && { extra: 1 }),
});
// One that is right more often than not.
const sound = () => one([
  { type: 'device', matchKey: null, matchValue: 'ios' }, { type: 'weight', matchValue: '50' }, { type: 'language', matchValue: 'fr' },
  { type: 'query-param', matchKey: 'a', matchValue: some(mixed, 5) }, { type: 'ip-address', matchValue: '10.0.0.0/8' },
]);
const list = (make, most) => Array.from({ length: below(most + 1) }, make);
const rule = () => (random() < 0.03 ? one([null, 'x', []]) : {
  longUrl: random() < 0.6 ? 'https://example.com/r' : one([target, () => null, () => 7])(),
  conditions: random() < 0.05 ? one([null, {}, 'x']) : list(random() < 0.5 ? sound : condition, random() < 0.1 ? 10 : 3),
  ...(random() < 0.2 && { priority: below(9) }), ...(random() < 0.03 && { more: true }),
});
const rules = () => one([
  () => ({ redirectRules: list(rule, random() < 0.1 ? 40 : 4) }), () => ({ redirectRules: list(rule, 3) }),
  () => ({ redirectRules: list(rule, 2), ...(random() < 0.3 && { other: 1 }) }),
  () => ({ redirectRules: [{ longUrl: 'https://example.com/', conditions: [sound(), sound()] }] }),
  () => ({ redirectRules: Array.from({ length: 3 }, () => ({ longUrl: `https://example.com/${'x'.repeat(5_330 + below(9))}`, conditions: [sound()] })) }),
  () => one([{}, { redirectRules: null }, { redirectRules: 'x' }]),
])();

// What the API says: why the field is wrong, or what it has become.
const RIGHT = 'https://example.com/right';
const createVerdict = async (link, field, shown) => {
  const { status, body } = await api('/links', link);
  if (status === 201 || (status === 409 && field === 'customSlug')) return { reason: null, value: status === 201 ? shown(body) : link[field] };
  assert.equal(status, 422, JSON.stringify({ link, body }));
  assert.deepEqual(body.errors.map((error) => error.field), [field], JSON.stringify({ link, body }));
  return { reason: body.errors[0].reason, value: null };
};
const OF_THE_API = {
  slug: (input) => createVerdict({ longUrl: RIGHT, customSlug: input }, 'customSlug', (link) => link.shortCode ?? link.code ?? input),
  target: (input) => createVerdict({ longUrl: input }, 'longUrl', (link) => link.longUrl),
  domain: (input) => createVerdict({ longUrl: RIGHT, domain: input }, 'domain', (link) => link.domain),
  rules: async (input) => {
    const { status, body } = await api('/links/ruled/rules', input);
    if (status === 200) return { reason: null, value: null };
    assert.equal(status, 422, JSON.stringify({ input, body }));
    // It names so many mistakes, and counts the others.
    const more = Number(/there are (\d+) more$/.exec(body.detail ?? '')?.[1] ?? 0);
    return { reason: body.errors.map(({ field, reason }) => `${field} ${reason}`).sort(), value: null, more };
  },
};

// The same of the browser, for all inputs of a kind at once.
const ofTheBrowser = (page, kind, inputs) => page.evaluate(async ([kind, inputs, module, settings]) => {
  const { default: init, Checks } = await import(module);
  await init();
  const checks = new Checks(JSON.stringify(settings));
  return inputs.map((input) => {
    if (kind === 'rules') {
      const errors = JSON.parse(checks.rules(JSON.stringify(input)));
      const reasons = errors.map(({ path, reason }) => `${path} ${reason}`).sort();
      return { reason: reasons.length ? reasons : null, value: null };
    }
    try {
      return { reason: null, value: checks[kind](input) ?? input };
    } catch (reason) {
      return { reason, value: null };
    }
  });
}, [kind, inputs, `${ASSETS}/console_module.js`, SETTINGS]);

const ofTheApi = async (kind, inputs) => {
  const verdicts = [];
  let next = 0;
  const client = async () => {
    for (let index = next; index < inputs.length; index = next) {
      next += 1;
      verdicts[index] = await OF_THE_API[kind](inputs[index]);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return verdicts;
};

const makers = { slug, target, domain, rules };
console.log(`seed ${SEED}`);
const module = await fetch(`${ASSETS}/console_module_bg.wasm`, { headers: { 'accept-encoding': 'gzip' } });
assert.equal(module.status, 200, 'the module: run `make console`');
const moduleBytes = Number(module.headers.get('content-length'));
await module.arrayBuffer();
console.log(`the module: ${moduleBytes} bytes with gzip`);
assert.equal(module.headers.get('content-encoding'), 'gzip');
assert.ok(moduleBytes > 0 && moduleBytes <= MAX_MODULE_BYTES, `${moduleBytes} bytes`);

// A page of this version has the hash in the path, and its files are kept; those of another one are asked for each time.
const tag = module.headers.get('etag');
const current = `${API}/console/assets/${tag.replaceAll('"', '')}/console.js`;
for (const [address, headers, status, kept] of [
  [current, {}, 200, 'public, max-age=31536000, immutable'], [current, { 'if-none-match': tag }, 304, 'public, max-age=31536000, immutable'],
  [`${ASSETS}/console.js`, {}, 200, 'no-cache'], [`${ASSETS}/none.js`, {}, 404, 'no-store'],
]) {
  const answer = await fetch(address, { headers });
  await answer.arrayBuffer();
  assert.deepEqual([answer.status, answer.headers.get('cache-control')], [status, kept], address);
}
assert.equal((await api('/links', { longUrl: RIGHT, customSlug: 'ruled' })).status, 201, API);
await withPage('<body></body>', async (page) => {
  let total = 0;
  for (const [kind, count] of Object.entries(COUNTS)) {
    const inputs = Array.from({ length: count }, makers[kind]);
    const [browser, server] = [await ofTheBrowser(page, kind, inputs), await ofTheApi(kind, inputs)];
    const reasons = new Map();
    inputs.forEach((input, index) => {
      const { more = 0, ...named } = server[index];
      if (more > 0) {
        const all = browser[index].reason;
        assert.equal(all.length, named.reason.length + more, JSON.stringify(input));
        browser[index].reason = all.filter((reason) => named.reason.includes(reason));
      }
      assert.deepEqual(browser[index], named, JSON.stringify(input));
      const reason = server[index].reason === null ? 'right' : [server[index].reason].flat()[0].replace(/^redirectRules\S* /, '');
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    });
    console.log(`${kind}: ${count} verdicts are equal`, Object.fromEntries(reasons));
    // Inputs of one kind of verdict alone would show nothing.
    assert.ok(reasons.get('right') >= count / 20 && reasons.size >= 3, kind);
    total += count;
  }
  assert.equal(total, 2_000);
});
