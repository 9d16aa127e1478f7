//! Cost of a redirect, side by side.

use crate::options::{Options, Size};
use crate::process::resident;
use crate::report::{Limit, Section, Table};
use crate::rounds::{Figures, Plan, measure, median, pace};
use crate::targets::{
    ALL_ATTRIBUTES, Field, NATIVE_ABSENT, NATIVE_LRU, OF_A_BROWSER, OTHER_BUILD, STATIC_NOT_FOUND,
    THREE_RULES, Target,
};
use std::time::Duration;

/// Share of answers that must come from the measured tier.
const FROM_TIER: f64 = 0.99;

/// Highest ratio to Envoy's own redirect to aim for.
const GOALS: [(&str, f64); 9] = [
    (NATIVE_LRU, 1.08),
    ("native, Redis hit", 1.4),
    ("native, control plane", 2.5),
    (NATIVE_ABSENT, 1.05),
    ("edgelink, LRU hit", 1.25),
    ("edgelink, shared-data hit", 1.5),
    ("edgelink, Redis hit, direct", 1.9),
    ("edgelink, Redis hit, pooled", 2.1),
    ("edgelink, absent by admission", 1.3),
];

/// Highest extra p99 latency over Envoy's own redirect to aim for, in milliseconds.
const LATENCY_GOALS: [(&str, f64); 2] = [(NATIVE_LRU, 0.1), ("edgelink, LRU hit", 0.3)];

/// Measures all targets, with all figures.
pub(crate) async fn run(options: &Options) -> Section {
    let mut field = Field::start().await;
    field.add_hello(options).await;
    field.add_edgelink(options).await;
    field.add_nginx(options).await;
    let plan = plan(options.size);
    let mut figures = measure(&field.targets, plan).await;
    let paced = Plan { rounds: 3, ..plan };
    pace(&field.targets, &mut figures, paced);

    let mut section = Section::new("Redirects, side by side");
    section.text(&explain(plan));
    section.text(&full_table(&field.targets, &figures));
    judge(&mut section, &field.targets, &figures);
    judge_latency(&mut section, &field.targets, &figures);
    section
}

/// Measures the reference and the filter's tiers, CPU only.
pub(crate) async fn quick(options: &Options) -> Section {
    let mut field = Field::start().await;
    field.add_edgelink(options).await;
    let plan = plan(options.size);
    let figures = measure(&field.targets, plan).await;
    let mut section = Section::new("CPU of a redirect by tier, against Envoy's own");
    section.text(&explain(plan));
    section.text(&cpu_table(&field.targets, &figures));
    judge(&mut section, &field.targets, &figures);
    section
}

/// Highest ratio of a link with three rules to one without to aim for.
const RULES_GOAL: f64 = 1.1;

/// Highest ratio of a click with all attributes to one that is only counted to aim for.
const ATTRIBUTES_GOAL: f64 = 1.15;

fn plan(size: Size) -> Plan {
    Plan {
        rounds: size.pick(7, 3),
        time: Duration::from_secs(size.pick(3, 1)),
    }
}

fn explain(plan: Plan) -> String {
    format!(
        "{} rounds of {:?} at saturation (wrk, 32 connections, 1,000 links in turn, 200,000 for Redis). CPU: all threads of the server, user and \
         system; for Redis and the control plane as tiers, Envoy alone, without what Redis and the control plane take. Busy: \
         the share of its processor that the server used; well below 100 %, something else was the limit (for these tiers \
         Redis and the control plane share the load's processor). Host calls only: reads the headers, sends the two of a \
         redirect, sees the end of the stream, and does nothing in between. Ratio: to Envoy's own redirect, the median over rounds \
         and that of the best rounds. The filter counts clicks; for LRU and admission it follows a feed. For the other tiers the \
         caches in front are configured so small that a link is gone again when it is asked for, but is put into them. \
         Latency: links at random (oha), from when each request was due.",
        plan.rounds, plan.time
    )
}

const CPU_COLUMNS: [&str; 6] = [
    "target",
    "CPU a request, us",
    "spread",
    "ratio",
    "ratio, best",
    "from its tier",
];
const OTHER_COLUMNS: [&str; 5] = [
    "requests/s",
    "busy",
    "p50 at half of that, ms",
    "p99, ms",
    "memory, MiB",
];

fn cpu_table(targets: &[Target], figures: &[Figures]) -> Table {
    let mut table = Table::new(CPU_COLUMNS);
    for (target, each) in targets.iter().zip(figures) {
        table.row(cpu_cells(target, each, &figures[0]));
    }
    table
}

fn full_table(targets: &[Target], figures: &[Figures]) -> Table {
    let mut table = Table::new(CPU_COLUMNS.into_iter().chain(OTHER_COLUMNS));
    for (target, each) in targets.iter().zip(figures) {
        let cells = cpu_cells(target, each, &figures[0]);
        table.row(cells.into_iter().chain(other_cells(target, each)));
    }
    table
}

fn cpu_cells(target: &Target, figures: &Figures, reference: &Figures) -> [String; 6] {
    [
        target.name.to_owned(),
        format!("{:.2}", figures.cost()),
        spread(figures),
        format!("{:.2}", figures.ratio(reference)),
        format!("{:.2}", figures.best_ratio(reference)),
        share(figures),
    ]
}

fn other_cells(target: &Target, figures: &Figures) -> [String; 5] {
    let memory = resident(&target.processes) as f64 / f64::from(1 << 20);
    [
        format!("{:.0}", median(&figures.rates)),
        format!("{:.0} %", median(&figures.busy) * 100.0),
        format!("{:.3}", figures.latency(|latencies| latencies.p50)),
        format!("{:.3}", figures.latency(|latencies| latencies.p99)),
        format!("{memory:.1}"),
    ]
}

fn spread(figures: &Figures) -> String {
    let (least, largest) = figures.spread();
    format!("{least:.2} to {largest:.2}")
}

fn share(figures: &Figures) -> String {
    let share = figures.from_tier;
    share.map_or(String::new(), |share| format!("{:.2} %", share * 100.0))
}

fn judge(section: &mut Section, targets: &[Target], figures: &[Figures]) {
    for (target, each) in targets.iter().zip(figures) {
        if let Some(share) = each.from_tier {
            let text = format!(
                "{}: {:.2} % came from that tier",
                target.name,
                share * 100.0
            );
            section.claim((share >= FROM_TIER).into(), text);
        }
        if let Some((_, goal)) = GOALS.iter().find(|(name, _)| *name == target.name) {
            let ratio = each.ratio(&figures[0]);
            let what = format!("{}, CPU against Envoy's own", target.name);
            section.goal(ratio, Limit::AtMost(*goal), &what);
        }
    }
    let named = |name: &str| targets.iter().position(|target| target.name == name);
    if let (Some(page), Some(absent)) = (named(STATIC_NOT_FOUND), named(NATIVE_ABSENT)) {
        let ratio = figures[absent].ratio(&figures[page]);
        let what = "native, absent by admission, CPU against Envoy's own 404 with a page as long";
        section.goal(ratio, Limit::AtMost(1.05), what);
    }
    if let (Some(plain), Some(ruled)) = (named(OF_A_BROWSER), named(THREE_RULES)) {
        let ratio = figures[ruled].ratio(&figures[plain]);
        let what = "three rules, CPU against the same visitor of a link without rules";
        section.goal(ratio, Limit::AtMost(RULES_GOAL), what);
    }
    if let (Some(other), Some(plain)) = (named(OTHER_BUILD), named(OF_A_BROWSER)) {
        let ratio = figures[plain].ratio(&figures[other]);
        let what = "LRU hit of a browser, CPU against the other build";
        section.goal(ratio, Limit::AtMost(1.0), what);
    }
    if let (Some(plain), Some(described)) = (named(OF_A_BROWSER), named(ALL_ATTRIBUTES)) {
        let ratio = figures[described].ratio(&figures[plain]);
        let what = "all attributes, CPU against the same visitor who is only counted";
        section.goal(ratio, Limit::AtMost(ATTRIBUTES_GOAL), what);
    }
}

fn judge_latency(section: &mut Section, targets: &[Target], figures: &[Figures]) {
    let p99 = |figures: &Figures| figures.latency(|latencies| latencies.p99);
    for (name, goal) in LATENCY_GOALS {
        if let Some(place) = targets.iter().position(|target| target.name == name) {
            let more = p99(&figures[place]) - p99(&figures[0]);
            let what = format!("{name}, p99 at half load beyond Envoy's own, ms:");
            section.goal(more, Limit::AtMost(goal), &what);
        }
    }
}
