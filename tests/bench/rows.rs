//! Cost of redirects and of creation as links grow.

mod creating;
pub(crate) mod database;
pub(crate) mod replica;

use crate::edges::{Tiers, static_redirect};
use crate::links::{code_of, write_paths};
use crate::load::{Latencies, keep_rate};
use crate::options::Options;
use crate::process::{others, pin, resident};
use crate::report::{Limit, Section, Table};
use crate::rounds::{Figures, Plan, measure};
use crate::targets::{REFERENCE, Target};
use creating::{Created, create};
use database::{Database, number};
use replica::{Replica, admin_key};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Links requested again and again, spread over all.
const HOT: u64 = 256;

/// Requests for links spread over all rows, which no cache has, and their rate per second. They are picked at random from
/// so many times as many that hardly any is requested twice.
const COLD: u64 = 3_000;
const COLD_CHOICE: u64 = 20;
const COLD_RATE: f64 = 500.0;

/// Highest ratio of a redirect's cost with the most links to that with the fewest.
const GOAL: f64 = 1.05;

/// Results with that many links.
struct Step {
    rows: u64,
    filled: f64,
    ready: f64,
    complete: f64,
    memory: u64,
    cost: Figures,
    ratio: f64,
    cold: Latencies,
    created: Created,
}

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let sizes: &[u64] = options
        .size
        .pick(&[10_000, 100_000, 1_000_000, 10_000_000], &[5_000, 20_000]);
    let folder = TempDir::new().expect("a temporary folder");
    let mut database = Database::start();
    // The schema and the admin key.
    let first = Replica::start(folder.path(), &database.url()).await;
    first.stop().await;
    pin(&[database.process_id()], &others());
    let mut steps = Vec::new();
    for rows in sizes {
        let filled = database.grow_to(*rows);
        eprintln!("{rows} links after {filled:.1} s more");
        steps.push(step(*rows, filled, &database, folder.path(), options).await);
    }
    report(&steps)
}

async fn step(
    rows: u64,
    filled: f64,
    database: &Database,
    folder: &Path,
    options: &Options,
) -> Step {
    let replica = Replica::start(folder, &database.url()).await;
    let memory = resident(&[replica.process_id()]);
    pin(&[replica.process_id()], &others());
    let spread = |count: u64, offset: u64| {
        (0..count).map(move |each| code_of(number(1 + (each * rows / count + offset) % rows)))
    };
    let hot = write_paths(folder, "hot", spread(HOT, 0));
    let cold_requests = COLD.min(rows / COLD_CHOICE);
    let cold = write_paths(folder, "cold", spread(cold_requests * COLD_CHOICE, 1));
    let envoy = Tiers::USUAL.start(replica.address()).await;
    let cold = keep_rate(envoy.edge(), &cold, 302, COLD_RATE, cold_requests);
    let targets = [
        Target::of(
            REFERENCE,
            None,
            &hot,
            static_redirect(replica.address(), 1).await,
        ),
        Target::of("edgelink, LRU hit", Some("lru"), &hot, envoy),
    ];
    let plan = Plan {
        rounds: options.size.pick(7, 3),
        time: Duration::from_secs(options.size.pick(2, 1)),
    };
    let figures = measure(&targets, plan).await;
    drop(targets);
    let time = Duration::from_secs(options.size.pick(10, 2));
    let created = create(&replica, folder, &admin_key(folder), time);
    let step = Step {
        rows,
        filled,
        ready: replica.ready,
        complete: replica.complete,
        memory,
        ratio: figures[1].ratio(&figures[0]),
        cost: figures[1].clone(),
        cold,
        created,
    };
    replica.stop().await;
    step
}

fn report(steps: &[Step]) -> Section {
    let mut section = Section::new("Cost as links grow");
    section.text(
        &"Rows in MariaDB (innodb_flush_log_at_trx_commit = 1, a buffer pool of 3 GiB). Redirect: LRU hits on 256 links spread \
          over all rows, CPU of Envoy and its ratio to Envoy's own redirect in the same rounds. Cold: links spread over all \
          rows, hardly one of which was asked for before, 500 a second, through the control plane. Creation: POST /links, 32 connections.",
    );
    section.text(&table(steps));
    section.text(&starts(steps));
    if let [first, .., last] = steps {
        let what = format!(
            "ratio of a redirect with {} links, against that with {}",
            last.rows, first.rows
        );
        section.goal(last.ratio / first.ratio, Limit::AtMost(GOAL), &what);
    }
    for step in steps {
        let share = step.cost.from_tier.unwrap_or(0.0);
        let text = format!(
            "{} links: {:.2} % came from the LRU",
            step.rows,
            share * 100.0
        );
        section.claim((share >= 0.99).into(), text);
    }
    section
}

fn table(steps: &[Step]) -> Table {
    let head = [
        "links",
        "redirect, us",
        "ratio",
        "cold p50, ms",
        "cold p99, ms",
        "created/s",
        "p50",
        "p99",
    ];
    let mut table = Table::new(head);
    for step in steps {
        table.row([
            step.rows.to_string(),
            format!("{:.2}", step.cost.cost()),
            format!("{:.3}", step.ratio),
            format!("{:.2}", step.cold.p50),
            format!("{:.2}", step.cold.p99),
            format!("{:.0}", step.created.rate),
            step.created.p50.clone(),
            step.created.p99.clone(),
        ]);
    }
    table
}

/// Start-up times and memory of a control plane, and time to fill the database.
fn starts(steps: &[Step]) -> Table {
    let head = [
        "links",
        "control plane ready, s",
        "knows all keys, s",
        "its memory then, MiB",
        "rows written in, s",
    ];
    let mut table = Table::new(head);
    for step in steps {
        table.row([
            step.rows.to_string(),
            format!("{:.3}", step.ready),
            format!("{:.2}", step.complete),
            format!("{:.1}", step.memory as f64 / f64::from(1 << 20)),
            format!("{:.1}", step.filled),
        ]);
    }
    table
}
