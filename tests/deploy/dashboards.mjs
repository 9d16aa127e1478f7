// Draws Grafana's dashboards with the data of a Prometheus that runs (`make OBSERVE=1 run-full`), in Chromium, and names the panels that have none.
//
// `dashboards.mjs PROMETHEUS FOLDER [MINUTES]` writes a picture of each dashboard of the last minutes, 30 by default. It fails where Prometheus
// refuses a query. It is no Grafana: it draws panels of the kinds `stat` and `timeseries`, their queries, names and units, and where they stand.

import { readFileSync, readdirSync, mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { launch } from '../console/browser.mjs';

const [prometheus, folder, minutes = '30'] = process.argv.slice(2);
const DASHBOARDS = new URL('../../envoy/deploy/observe/grafana/dashboards/', import.meta.url);
const UPLOT = dirname(createRequire(import.meta.url).resolve('uplot'));
const STEP = 15;
const end = Math.floor(Date.now() / 1000 / STEP) * STEP;
const start = end - Number(minutes) * 60;

// All that a variable may be, and an interval of four scrapes, as Grafana's own.
const filledIn = (expr) => expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$\{?\w+\}?/g, '.*');

async function ask({ expr, legendFormat = '' }) {
  const query = new URLSearchParams({ query: filledIn(expr), start, end, step: STEP });
  const answer = await (await fetch(`${prometheus}/api/v1/query_range?${query}`)).json();
  if (answer.status !== 'success') throw new Error(`${expr}: ${answer.error}`);
  return answer.data.result.map(({ metric, values }) => ({
    name: legendFormat.replaceAll(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] ?? ''),
    values: new Map(values.map(([at, value]) => [at, Number(value)]).filter(([, value]) => Number.isFinite(value))),
  })).filter(({ values }) => values.size > 0);
}

async function read(panel) {
  const series = (await Promise.all((panel.targets ?? []).map(ask))).flat();
  const times = Array.from({ length: (end - start) / STEP + 1 }, (_, n) => start + n * STEP);
  return {
    title: panel.title, type: panel.type, place: panel.gridPos, unit: panel.fieldConfig.defaults.unit ?? 'short',
    names: series.map(({ name }) => name),
    data: [times, ...series.map(({ values }) => times.map((at) => values.get(at) ?? null))],
  };
}

// Runs in the page.
function draw(panels) {
  const units = { percentunit: (n) => `${(n * 100).toPrecision(3)} %`, bytes: (n) => `${(n / 1048576).toPrecision(3)} MiB` };
  const short = (n) => (Math.abs(n) >= 1000 ? `${(n / 1000).toPrecision(3)} k` : String(Number(n.toPrecision(3))));
  const names = { reqps: 'req/s', cps: '/s', ops: 'op/s', short: '' };
  const shown = (unit) => units[unit] ?? ((n) => `${short(n)} ${names[unit] ?? unit}`.trim());
  const WIDTH = 58, HEIGHT = 34;
  for (const { title, type, place, unit, names: labels, data } of panels) {
    const box = document.body.appendChild(document.createElement('section'));
    box.style.cssText = `left:${place.x * WIDTH}px;top:${place.y * HEIGHT + 40}px;width:${place.w * WIDTH - 8}px;height:${place.h * HEIGHT - 8}px`;
    box.appendChild(document.createElement('h2')).textContent = title;
    if (data.length === 1) {
      box.appendChild(document.createElement('p')).textContent = 'no data';
    } else if (type === 'stat') {
      const last = data[1].findLast((value) => value !== null);
      box.appendChild(document.createElement('strong')).textContent = shown(unit)(last);
    } else {
      const series = labels.map((label, n) => ({ label: label || title, stroke: `hsl(${n * 67} 65% 45%)`, width: 1.5, spanGaps: false }));
      const axes = [{}, { size: 80, values: (_, ticks) => ticks.map(shown(unit)) }];
      const size = { width: place.w * WIDTH - 24, height: place.h * HEIGHT - 90 };
      new uPlot({ ...size, series: [{}, ...series], axes, legend: { live: false } }, data, box);
    }
  }
}

const STYLE = `body{margin:0;font:13px sans-serif;background:#f4f5f5}h1{font-size:18px;margin:8px}
  section{position:absolute;background:#fff;border:1px solid #ddd;overflow:hidden;box-sizing:border-box;padding:4px}
  h2{font-size:13px;margin:2px}strong{font-size:26px}p{color:#777}.u-legend{font-size:11px;max-height:44px;overflow:hidden}`;

mkdirSync(folder, { recursive: true });
const browser = await launch();
try {
  for (const file of readdirSync(DASHBOARDS).filter((name) => name.endsWith('.json'))) {
    const dashboard = JSON.parse(readFileSync(new URL(file, DASHBOARDS), 'utf8'));
    const panels = await Promise.all(dashboard.panels.filter(({ targets }) => targets).map(read));
    const bottom = Math.max(...panels.map(({ place }) => place.y + place.h)) * 34 + 48;
    const page = await browser.newPage({ viewport: { width: 1400, height: bottom } });
    await page.setContent(`<h1></h1>`);
    await page.addStyleTag({ path: join(UPLOT, 'uPlot.min.css') });
    await page.addStyleTag({ content: STYLE });
    await page.addScriptTag({ path: join(UPLOT, 'uPlot.iife.min.js') });
    await page.evaluate((title) => { document.querySelector('h1').textContent = title; }, dashboard.title);
    await page.evaluate(draw, panels);
    await page.screenshot({ path: join(folder, file.replace('.json', '.png')) });
    const empty = panels.filter(({ data }) => data.length === 1).map(({ title }) => title);
    console.log(`${dashboard.title}: ${panels.length - empty.length} panels with data, without: ${empty.join(', ') || 'none'}`);
  }
} finally {
  await browser.close();
}
