//! Cost of a redirect, side by side.

use crate::options::{Options, Size};
use crate::process::resident;
use crate::report::{Limit, Section, Table};
use crate::rounds::{Figures, Plan, measure, median, pace};
use crate::targets::{
    ALL_ATTRIBUTES, AS_SHIPPED, Field, NATIVE_ABSENT, NATIVE_AS_SHIPPED, NATIVE_CONTROL_PLANE,
    NATIVE_LRU, NATIVE_OF_4, NATIVE_OF_16, NATIVE_REDIS, NGINX_ABSENT, NGINX_AS_SHIPPED,
    NGINX_CONTROL_PLANE, NGINX_LRU, NGINX_LUA, NGINX_REDIS, NGINX_STATIC, OF_A_BROWSER,
    OTHER_BUILD, REFERENCE, STATIC_NOT_FOUND, STATIC_OF_4, STATIC_OF_16, THREE_RULES, Target,
};
use std::time::Duration;

/// Share of answers that must come from the measured tier.
const FROM_TIER: f64 = 0.99;

/// Highest ratio to aim for, of a target to another one.
const GOALS: [(&str, &str, f64); 24] = [
    (NATIVE_AS_SHIPPED, REFERENCE, 1.3),
    (AS_SHIPPED, REFERENCE, 1.75),
    (NGINX_AS_SHIPPED, NGINX_STATIC, 1.3),
    (NATIVE_LRU, REFERENCE, 1.06),
    (NATIVE_REDIS, REFERENCE, 1.3),
    (NATIVE_CONTROL_PLANE, REFERENCE, 1.6),
    (NATIVE_ABSENT, REFERENCE, 1.08),
    (NATIVE_ABSENT, STATIC_NOT_FOUND, 1.05),
    (NATIVE_OF_4, NATIVE_LRU, 1.05),
    (NATIVE_OF_4, STATIC_OF_4, 1.05),
    (NATIVE_OF_16, NATIVE_LRU, 1.05),
    (NATIVE_OF_16, STATIC_OF_16, 1.05),
    (NGINX_LRU, NGINX_STATIC, 1.1),
    (NGINX_LRU, NGINX_LUA, 1.0),
    (NGINX_REDIS, NATIVE_REDIS, 1.0),
    (NGINX_CONTROL_PLANE, NATIVE_CONTROL_PLANE, 1.0),
    (NGINX_ABSENT, NGINX_STATIC, 1.1),
    ("edgelink, LRU hit", REFERENCE, 1.25),
    ("edgelink, shared-data hit", REFERENCE, 1.5),
    ("edgelink, Redis hit, direct", REFERENCE, 1.9),
    ("edgelink, Redis hit, pooled", REFERENCE, 2.1),
    ("edgelink, absent by admission", REFERENCE, 1.3),
    (THREE_RULES, OF_A_BROWSER, 1.1),
    (ALL_ATTRIBUTES, OF_A_BROWSER, 1.15),
];

/// Highest extra p99 latency over another target to aim for, in milliseconds.
const LATENCY_GOALS: [(&str, &str, f64); 3] = [
    (NATIVE_LRU, REFERENCE, 0.1),
    (NGINX_LRU, NGINX_STATIC, 0.1),
    ("edgelink, LRU hit", REFERENCE, 0.3),
];

/// Measures all targets, with all figures.
pub(crate) async fn run(options: &Options) -> Section {
    let mut field = Field::start().await;
    field.add_hello(options).await;
    field.add_shipped(options).await;
    field.add_edgelink(options).await;
    field.add_nginx(options).await;
    let plan = plan(options.size);
    let mut figures = measure(&field.targets, plan).await;
    let paced = Plan {
        rounds: 5,
        time: 2 * plan.time,
    };
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
    field.add_shipped(options).await;
    field.add_edgelink(options).await;
    field.add_nginx(options).await;
    let plan = plan(options.size);
    let figures = measure(&field.targets, plan).await;
    let mut section = Section::new("CPU of a redirect by tier, against Envoy's own");
    section.text(&explain(plan));
    section.text(&cpu_table(&field.targets, &figures));
    judge(&mut section, &field.targets, &figures);
    section
}

fn plan(size: Size) -> Plan {
    Plan {
        rounds: size.pick(7, 3),
        time: Duration::from_millis(size.pick(1_500, 1_000)),
    }
}

fn explain(plan: Plan) -> String {
    format!(
        "{} rounds of {:?} at saturation (wrk, 32 connections, 1,000 links in turn, 200,000 for Redis). CPU: all threads of the server, user and \
         system; for Redis and the control plane as tiers, Envoy alone, without what Redis and the control plane take. Busy: \
         the share of its processor that the server used; well below 100 %, something else was the limit (for these tiers \
         Redis and the control plane share the load's processor). Host calls only: reads the headers, sends the two of a \
         redirect, sees the end of the stream, and does nothing in between. Ratio: to Envoy's own redirect, which is measured \
         before and after each of the others, the median over rounds; spread: the lowest and the highest. As shipped: with the configuration of `make run`, two workers, \
         visitors with browsers, and a limit by address that is not reached; Envoy's own redirect as shipped has two workers and such visitors. The filter counts clicks; for LRU and admission it follows a feed. For the other tiers the \
         caches in front are configured so small that a link is gone again when it is asked for, but is put into them. \
         Latency: links at random (oha) at half of the rate at saturation, at most 10,000 a second, from when each request was due; of the round with the least.",
        plan.rounds, plan.time
    )
}

const CPU_COLUMNS: [&str; 5] = [
    "target",
    "CPU a request, us",
    "ratio",
    "spread",
    "from its tier",
];
const OTHER_COLUMNS: [&str; 5] = ["requests/s", "busy", "p50, ms", "p99, ms", "memory, MiB"];

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

fn cpu_cells(target: &Target, figures: &Figures, reference: &Figures) -> [String; 5] {
    [
        target.name.to_owned(),
        format!("{:.2}", figures.cost()),
        format!("{:.2}", figures.ratio(reference)),
        spread(figures),
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
    let of = finder(targets, figures);
    for (target, each) in targets.iter().zip(figures) {
        if let Some(share) = each.from_tier {
            let text = format!(
                "{}: {:.2} % came from that tier",
                target.name,
                share * 100.0
            );
            section.claim((share >= FROM_TIER).into(), text);
        }
    }
    for (name, reference, goal) in GOALS {
        if let (Some(own), Some(other)) = (of(name), of(reference)) {
            let what = format!("{name}, CPU against {reference}");
            section.goal(own.ratio(other), Limit::AtMost(goal), &what);
        }
    }
    if let (Some(plain), Some(other)) = (of(OF_A_BROWSER), of(OTHER_BUILD)) {
        let what = "LRU hit of a browser, CPU against the other build";
        section.goal(plain.ratio(other), Limit::AtMost(1.0), what);
    }
}

fn judge_latency(section: &mut Section, targets: &[Target], figures: &[Figures]) {
    let p99 = |figures: &Figures| figures.latency(|latencies| latencies.p99);
    let of = finder(targets, figures);
    for (name, reference, goal) in LATENCY_GOALS {
        if let (Some(own), Some(other)) = (of(name), of(reference)) {
            let what = format!("{name}, p99 at half load beyond {reference}, ms:");
            section.goal(p99(own) - p99(other), Limit::AtMost(goal), &what);
        }
    }
}

/// The figures of a target by its name, if it was measured.
fn finder<'a>(
    targets: &'a [Target],
    figures: &'a [Figures],
) -> impl Fn(&str) -> Option<&'a Figures> {
    move |name| {
        let place = targets.iter().position(|target| target.name == name)?;
        Some(&figures[place])
    }
}
