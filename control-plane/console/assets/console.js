// Enhances the console's pages by their data attributes; without it, all that a form can do works. What it checks, runs and
// draws is in the module, which is edgelink's own code: see control-plane/console/src/lib.rs.
//
//   <form data-check="link">             judges longUrl, customSlug and domain while they are typed; [data-preview] shows the link
//   <form data-check="rules">            judges the JSON in the textarea `rules`
//   <form data-dry-run data-link="{}">   says where the visitor whom its fields describe would be sent by these rules
//   <figure data-chart="series" data-points="[[time, number], ...]">   draws its table
//   <div data-qr="https://...">          draws a QR code, with controls and downloads
//   <ol data-live="/console/live?...">   adds a line for each click, and its number to its day in the chart that data-chart-id names
//
// The settings of the installation are JSON in data-settings of the form, or of what it stands in:
// {"domains": [], "madeDomains": [], "blockedHosts": []}. data-link has the link of rules as the API shows it, and hasPassword.

import init, { Checks, chart, qr } from './console_module.js';

const TEXT = {
  table: 'Show as table',
  keys: 'Keys are on',
  dark: 'Colour', light: 'Background', margin: 'Margin', level: 'Error correction', logo: 'Logo',
  levels: { L: 'low, 7 %', M: 'medium, 15 %', Q: 'high, 25 %', H: 'highest, 30 %' },
  download: (type) => `Download ${type}`,
  code: (text) => `QR code of ${text}`,
  generated: '…',
  noRule: 'no rule', rule: (number) => `rule ${number}`,
  lost: (number) => `${number || 'Some'} clicks are not listed here`,
  noLive: 'Clicks cannot be listed as they come at the moment. Load the page again later.',
  holds: 'holds', holdsNot: 'does not hold', saw: (text) => ` (saw ${text})`,
};
const MAX_LIVE_LINES = 50;
// Of a click of the API's live stream, behind its time.
const LIVE_FIELDS = ['shortCode', 'status', 'country', 'city', 'device', 'browser', 'referrer'];
const MAX_LOGO_BYTES = 256 * 1024;
const PNG_PIXELS = 1024;

// A verdict as a value: what a function returns, or the reason that it throws.
const verdict = (judge) => {
  try {
    return { value: judge(), reason: '' };
  } catch (reason) {
    return { value: undefined, reason: String(reason) };
  }
};

const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

// The drawing as an element; all texts in it were escaped where it was drawn.
const drawing = (svg) => document.importNode(new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement, true);

const checksOf = (place) => new Checks(place.closest('[data-settings]')?.dataset.settings ?? '{}');

function report(input, reason) {
  const place = document.getElementById(`${input.id}-problem`);
  if (place) place.textContent = reason;
  if (reason) input.setAttribute('aria-invalid', 'true');
  else input.removeAttribute('aria-invalid');
}

// What is empty is not wrong yet: the form says so when it is sent.
const judged = (input, judge) => {
  if (!input?.value) {
    if (input) report(input, '');
    return { value: '', reason: '' };
  }
  const found = verdict(() => judge(input.value));
  report(input, found.reason);
  return found;
};

function checkLink(form) {
  const checks = checksOf(form);
  const field = (name) => form.querySelector(`[name="${name}"]`);
  const [longUrl, customSlug, domain] = ['longUrl', 'customSlug', 'domain'].map(field);
  const preview = form.querySelector('[data-preview]');
  const [defaultDomain] = JSON.parse(form.closest('[data-settings]')?.dataset.settings ?? '{}').domains ?? [];
  const look = () => {
    const target = judged(longUrl, (text) => checks.target(text));
    const slug = judged(customSlug, (text) => checks.slug(text));
    const place = judged(domain, (text) => checks.domain(text));
    if (!preview) return;
    const isShown = target.value && !slug.reason && !place.reason;
    const from = `${place.value || defaultDomain || ''}/${customSlug?.value || TEXT.generated}`;
    preview.textContent = isShown ? `${from} → ${target.value}` : '';
  };
  form.addEventListener('input', look);
  // What the server has found wrong stays until something is changed.
  if (!form.querySelector('[aria-invalid="true"]')) look();
}

function checkRules(form) {
  const checks = checksOf(form);
  const input = form.querySelector('textarea[name="rules"]');
  const look = () => {
    const errors = input.value ? JSON.parse(checks.rules(input.value)) : [];
    report(input, errors.map(({ path, reason }) => `${path} ${reason}`.trim()).join('\n'));
  };
  input.addEventListener('input', look);
}

function dryRun(form) {
  if (!form.dataset.link) return;
  const checks = checksOf(form);
  const rules = document.querySelector('[data-check="rules"] textarea[name="rules"]');
  const result = form.appendChild(element('div'));
  result.setAttribute('role', 'status');
  const run = () => {
    const visitor = { at: new Date().toISOString() };
    for (const input of form.elements) {
      if (!input.name || input.type === 'hidden' || !input.value) continue;
      visitor[input.name] = input.type === 'checkbox' ? input.checked : input.value;
      // A time of UTC, as the server reads it.
      if (input.type === 'datetime-local') visitor[input.name] += input.value.length === 16 ? ':00Z' : 'Z';
    }
    const text = rules?.value || '[]';
    const found = verdict(() => JSON.parse(checks.dry_run(form.dataset.link, text, JSON.stringify(visitor))));
    result.replaceChildren(found.value ? explained(found.value, JSON.parse(text)) : element('p', { textContent: found.reason }));
  };
  form.addEventListener('input', run);
  rules?.addEventListener('input', run);
  run();
}

// What became of each rule and condition, with what it says, in the words of the server.
function explained({ status, outcome, location, matchedRule, rules }, written) {
  const chosen = matchedRule ? TEXT.rule(matchedRule) : TEXT.noRule;
  const word = ({ matches }) => (matches ? TEXT.holds : TEXT.holdsNot);
  const conditions = (rule, place) => rule.conditions.map((condition, index) => {
    const { type, matchKey, matchValue } = written[place].conditions[index];
    const what = [type, matchKey, matchValue].filter((text) => text).join(' ');
    return element('li', { textContent: `${what}: ${word(condition)}${condition.saw === null ? '' : TEXT.saw(condition.saw)}` });
  });
  const lines = rules.map((rule, place) => element('li', {},
    element('span', { className: 'target', textContent: written[place].longUrl }), `: ${word(rule)}`,
    element('ul', {}, ...conditions(rule, place))));
  return element('div', {},
    element('p', { className: 'target', textContent: `${status} ${outcome} (${chosen}) ${location ?? ''}` }),
    element('ol', {}, ...lines));
}

function drawChart(figure) {
  const caption = figure.querySelector('caption')?.textContent ?? '';
  const drawn = verdict(() => drawing(chart(figure.dataset.points, caption)));
  if (!drawn.value) return;
  const old = figure.querySelector(':scope > svg');
  if (old) {
    old.replaceWith(drawn.value);
    return;
  }
  const table = figure.querySelector('table');
  const details = element('details', {}, element('summary', { textContent: TEXT.table }));
  table?.replaceWith(details);
  if (table) details.append(table);
  figure.prepend(drawn.value);
}

let codes = 0;

function drawCode(place) {
  const text = place.dataset.qr;
  const id = `qr-${codes += 1}`;
  const control = (name, input) => {
    input.id = `${id}-${name}`;
    return element('p', { className: 'field' }, element('label', { htmlFor: input.id, textContent: TEXT[name] }), input);
  };
  const dark = element('input', { type: 'color', value: '#000000' });
  const light = element('input', { type: 'color', value: '#ffffff' });
  const margin = element('input', { type: 'number', min: '0', max: '16', value: '4' });
  const level = element('select', {}, ...Object.entries(TEXT.levels).map(([value, label]) => element('option', { value, textContent: label })));
  level.value = 'M';
  const file = element('input', { type: 'file', accept: 'image/png,image/jpeg,image/webp,image/svg+xml' });
  const problem = element('p', { className: 'problem' });
  problem.setAttribute('role', 'alert');
  const code = element('div', { className: 'qr' });
  let [svg, logo] = ['', ''];
  const draw = () => {
    const options = { dark: dark.value, light: light.value, margin: Number(margin.value), level: level.value, logo };
    const found = verdict(() => qr(text, JSON.stringify(options)));
    problem.textContent = found.reason;
    if (!found.value) return;
    svg = found.value;
    const shown = drawing(svg);
    shown.setAttribute('aria-label', TEXT.code(text));
    code.replaceChildren(shown);
  };
  file.addEventListener('change', async () => {
    logo = file.files[0] ? await dataUrl(file.files[0]) : '';
    draw();
  });
  const button = (type, bytes) => {
    const made = element('button', { type: 'button', className: 'plain', textContent: TEXT.download(type) });
    made.addEventListener('click', async () => save(await bytes(svg), `qr.${type.toLowerCase()}`));
    return made;
  };
  const controls = element('div', { className: 'qr-controls' },
    control('dark', dark), control('light', light), control('margin', margin), control('level', level), control('logo', file));
  for (const input of [dark, light, margin, level]) input.addEventListener('input', draw);
  const svgFile = async (drawn) => new Blob([drawn], { type: 'image/svg+xml' });
  place.replaceChildren(code, problem, controls, button('SVG', svgFile), button('PNG', pngFile));
  draw();
}

// A file as a data URL; one that is too large is no picture, and refused as such.
const dataUrl = (file) => new Promise((resolve) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => resolve('unreadable');
  if (file.size > MAX_LOGO_BYTES) resolve('too large');
  else reader.readAsDataURL(file);
});

async function pngFile(svg) {
  const url = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  try {
    // Whole pixels for each module, or readers see edges where there are none.
    const modules = Number(/viewBox="0 0 (\d+)/.exec(svg)[1]);
    const pixels = modules * Math.max(1, Math.floor(PNG_PIXELS / modules));
    const image = new Image(pixels, pixels);
    image.src = url;
    await image.decode();
    const canvas = element('canvas', { width: pixels, height: pixels });
    canvas.getContext('2d').drawImage(image, 0, 0, pixels, pixels);
    return await new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
  } finally {
    URL.revokeObjectURL(url);
  }
}

function save(blob, name) {
  const href = URL.createObjectURL(blob);
  element('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

// Listens while the page is seen: a browser has few connections to a host, and each tab would keep one.
function listen(list) {
  const figure = document.getElementById(list.dataset.chartId ?? '');
  const problem = element('p', { className: 'problem' });
  problem.setAttribute('role', 'alert');
  list.after(problem);
  let source;
  const add = (text) => {
    list.prepend(element('li', { textContent: text }));
    while (list.children.length > MAX_LIVE_LINES) list.lastElementChild.remove();
  };
  const open = () => {
    source = new EventSource(list.dataset.live);
    source.addEventListener('open', () => { problem.textContent = ''; });
    source.addEventListener('error', () => {
      if (source?.readyState === EventSource.CLOSED) problem.textContent = TEXT.noLive;
    });
    source.addEventListener('lost', ({ data }) => add(TEXT.lost(JSON.parse(data).count)));
    source.addEventListener('click', ({ data }) => {
      const click = JSON.parse(data);
      const time = click.at.replace('T', ' ').replace('Z', ' UTC');
      const texts = [time, ...LIVE_FIELDS.map((field) => click[field])].filter((text) => text);
      add(texts.join(' · ') + (click.count > 1 ? ` × ${click.count}` : ''));
      if (figure) count(figure, click);
    });
  };
  const close = () => {
    source?.close();
    source = undefined;
  };
  const look = () => {
    close();
    if (document.visibilityState === 'visible') open();
  };
  document.addEventListener('visibilitychange', look);
  addEventListener('pagehide', close);
  addEventListener('pageshow', ({ persisted }) => { if (persisted) look(); });
  look();
}

// Adds a click to its day, in the chart and in its table.
function count(figure, { at, count: number }) {
  const points = JSON.parse(figure.dataset.points);
  const place = points.findIndex(([time]) => time.slice(0, 10) === at.slice(0, 10));
  if (place < 0) return;
  points[place][1] += number;
  figure.dataset.points = JSON.stringify(points);
  const cell = figure.querySelectorAll('tbody tr')[place]?.lastElementChild;
  if (cell) cell.textContent = points[place][1];
  document.querySelector('[data-until-click]')?.remove();
  drawChart(figure);
}

// The box that turns keys off for those whom they hinder, such as those who speak (WCAG 2.1.4); the browser remembers it.
function keySwitch() {
  const list = document.getElementById('keyboard');
  if (!list) return () => false;
  const box = element('input', { type: 'checkbox', id: 'keyboard-on', checked: localStorage.getItem('keys') !== 'off' });
  box.addEventListener('change', () => localStorage.setItem('keys', box.checked ? 'on' : 'off'));
  list.append(element('p', { className: 'field tick' }, box, ' ', element('label', { htmlFor: box.id, textContent: TEXT.keys })));
  return () => box.checked;
}

// What keys do while nothing is typed. A line of a list is where the focus is: in its box, or in its link where there is none.
function listenToKeys() {
  const lines = [...document.querySelectorAll('table.links tbody tr')].map((line) => line.querySelector('input, a'));
  const step = (by) => {
    const at = lines.findIndex((line) => line.closest('tr').contains(document.activeElement));
    const next = at < 0 ? (by > 0 ? 0 : lines.length - 1) : Math.min(Math.max(at + by, 0), lines.length - 1);
    lines[next]?.focus();
  };
  const go = (href) => { if (document.querySelector(`nav a[href="${href}"]`)) location.assign(href); };
  const work = {
    '/': () => {
      const search = document.getElementById('searchTerm');
      if (search) search.focus();
      else go('/console/links');
    },
    c: () => go('/console/create'),
    j: () => step(1),
    k: () => step(-1),
    x: () => {
      const box = document.activeElement?.closest('table.links tr')?.querySelector('input[type="checkbox"]');
      box?.click();
    },
    '?': () => {
      const list = document.getElementById('keyboard');
      if (!list) return;
      list.open = !list.open;
      list.querySelector('summary').focus();
    },
  };
  const isOn = keySwitch();
  document.addEventListener('keydown', (event) => {
    const { key, target } = event;
    if (!isOn() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !work[key]) return;
    const isTyping = target.closest('textarea, select, [contenteditable]') || (target.closest('input') && target.type !== 'checkbox');
    if (isTyping) return;
    event.preventDefault();
    work[key]();
  });
}

listenToKeys();
await init();
const enhance = [
  ['form[data-check="link"]', checkLink], ['form[data-check="rules"]', checkRules], ['form[data-dry-run]', dryRun],
  ['figure[data-chart="series"]', drawChart], ['[data-qr]', drawCode], ['[data-live]', listen],
];
for (const [selector, work] of enhance) {
  for (const found of document.querySelectorAll(selector)) work(found);
}
document.documentElement.dataset.script = 'ready';
