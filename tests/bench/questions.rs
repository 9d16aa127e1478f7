//! Cost of analytics queries, with many clicks of many links: on MariaDB's rollups, and on ClickHouse.

mod asking;
mod clickhouse;
mod kinds;
mod sql;

use crate::options::{Command, Options};
use crate::report::{Claim, Limit, Section, Table};
use crate::rows::database::{Content, Database, ISSUER};
use crate::rows::replica::Replica;
use asking::{Asker, Seen};
use edgelink_tests::scenario::DOMAIN;
use kinds::{GROUPS, INTERVALS, Other, SCOPES};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Highest p95 latency, in milliseconds.
const GOAL: f64 = 300.0;

/// Number of days with clicks.
const DAYS: u64 = 90;

/// Number of tags, assigned to links in turn.
const TAGS: u64 = 1_000;

/// Number of large tags, each on a hundredth of the links: one of ten links has one of them as well.
const LARGE_TAGS: u64 = 10;

/// Distance between popular links.
const SPREAD: u64 = 7_919;

const CONTENT: Content = Content {
    url: "CONCAT('https://host', seq % 5000, '.example/some/where?link=', seq)",
    title: "NULL",
    tags: "IF(seq % 10, CONCAT('[\"t', seq % 1000, '\"]'), CONCAT('[\"large', seq DIV 10 % 10, '\",\"t', seq % 1000, '\"]'))",
};

/// Numbers of links, clicks and requests.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    links: u64,
    sql: u64,
    clickhouse: u64,
    /// Requests of each kind.
    requests: usize,
}

impl Sizes {
    fn of(options: &Options) -> Self {
        let [links, sql, clickhouse, requests] = match options.command {
            Command::All => options.size.pick(
                [100_000, 1_000_000, 10_000_000, 20],
                [2_000, 20_000, 50_000, 3],
            ),
            _ => options.size.pick(
                [100_000, 10_000_000, 100_000_000, 20],
                [2_000, 50_000, 100_000, 3],
            ),
        };
        Self {
            links,
            sql,
            clickhouse,
            requests: requests as usize,
        }
    }
}

/// Storage of the clicks.
#[derive(Clone, Copy, Debug)]
enum Engine {
    Sql,
    ClickHouse,
}

const ENGINES: [(Engine, &str); 2] = [(Engine::Sql, "MariaDB"), (Engine::ClickHouse, "chdb")];

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let sizes = Sizes::of(options);
    let mut section = Section::new("Questions about clicks");
    section.text(&format!(
        "{} links; clicks of {DAYS} days, few links with most of them (Zipf). Each question {} times, one after another, in \
         milliseconds: half of the requests take less than the first number, 19 of 20 less than the second one. The tag is that of a \
         hundredth of the links.",
        sizes.links, sizes.requests
    ));
    for (engine, name) in ENGINES {
        if options.wants(name) {
            measure(engine, name, sizes, &mut section).await;
        }
    }
    section
}

async fn measure(engine: Engine, name: &str, sizes: Sizes, section: &mut Section) {
    let folder = TempDir::new().expect("a temporary folder");
    let mut database = Database::start();
    // The schema and the admin key.
    let replica = Replica::start(folder.path(), &database.url()).await;
    replica.stop().await;
    database.grow_with(sizes.links, &CONTENT);
    database.add_terms();
    let domain = database.execute(&format!("SELECT id FROM domains WHERE name = '{DOMAIN}'"));
    let domain: u32 = domain.trim().parse().expect("a number");
    match engine {
        Engine::Sql => {
            let filled = sql::fill(&database, domain, sizes);
            let version = database.execute("SELECT VERSION()");
            let bytes = sql::bytes(&database);
            let title = format!("{name} {}: {} clicks", version.trim(), sizes.sql);
            eprintln!("{title} after {filled:.0} s, {bytes}");
            // Purging reads single clicks.
            let settings = [("EDGELINK_PURGE_INTERVAL_SECONDS", "0")];
            let replica = Replica::start_with(folder.path(), &database.url(), &settings).await;
            sql::watch(&database);
            let before = sql::single_clicks_read(&database);
            let answers = analytics(&replica, folder.path(), sizes).await;
            let read = sql::single_clicks_read(&database) - before;
            report(&title, &bytes, &answers, section);
            let text = format!("of {name}'s single clicks questions read {read} rows");
            section.claim(Claim::from(read == 0), text);
            others(&replica, folder.path(), sizes, section).await;
            replica.stop().await;
        }
        Engine::ClickHouse => {
            let server = clickhouse::Server::start();
            let settings = server.settings();
            let settings: Vec<(&str, &str)> = settings
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            // The tables.
            let replica = Replica::start_with(folder.path(), &database.url(), &settings).await;
            let asker = Asker::new(&replica, folder.path());
            asker.ask("/api/v1/analytics").await;
            replica.stop().await;
            let clicks = sizes.clickhouse;
            let filled = server.fill(clicks, sizes.links, domain);
            let replica = Replica::start_with(folder.path(), &database.url(), &settings).await;
            let built = server.await_days().await;
            let merged = server.settle().await;
            let bytes = server.bytes();
            let title = format!("{name} {}: {clicks} clicks", server.version());
            eprintln!(
                "{title} after {filled:.0} s, {built:.0} s for the days, {merged:.0} s for merges, {bytes}"
            );
            let answers = analytics(&replica, folder.path(), sizes).await;
            report(&title, &bytes, &answers, section);
            others(&replica, folder.path(), sizes, section).await;
            replica.stop().await;
        }
    }
}

/// Latencies by interval, group and scope.
type Answers = Vec<Vec<Vec<Option<Seen>>>>;

async fn analytics(replica: &Replica, folder: &Path, sizes: Sizes) -> Answers {
    let asker = Asker::new(replica, folder);
    let mut answers = Vec::new();
    for interval in &INTERVALS {
        let mut of_interval = Vec::new();
        for group in GROUPS {
            let mut of_group = Vec::new();
            for scope in &SCOPES {
                let seen = if interval.has(group) {
                    let path = |n| {
                        let scope = (scope.query)(n, sizes.links);
                        let interval = interval.query;
                        format!("/api/v1/analytics?groupBy={group}&{interval}&{scope}")
                    };
                    Some(asker.measure(path, sizes.requests).await)
                } else {
                    None
                };
                of_group.push(seen);
            }
            of_interval.push(of_group);
        }
        let all = of_interval.iter().flatten().flatten();
        let slowest = all.map(|seen| seen.p95).fold(0.0, f64::max);
        eprintln!("{}: {slowest:.0} ms", interval.name);
        for (group, of_group) in GROUPS.iter().zip(&of_interval) {
            for (scope, seen) in SCOPES.iter().zip(of_group) {
                if let Some(seen) = seen.as_ref().filter(|seen| seen.p95 > GOAL) {
                    eprintln!("    {group} of {}: {seen}", scope.name);
                }
            }
        }
        answers.push(of_interval);
    }
    answers
}

fn report(title: &str, bytes: &str, answers: &Answers, section: &mut Section) {
    section.text(&format!("### {title}\n\n{bytes}"));
    for (interval, of_interval) in INTERVALS.iter().zip(answers) {
        let head = [interval.name].into_iter();
        let mut table = Table::new(head.chain(SCOPES.iter().map(|scope| scope.name)));
        for (group, of_group) in GROUPS.iter().zip(of_interval) {
            if of_group.iter().any(Option::is_some) {
                let cells = of_group.iter().map(|seen| match seen {
                    Some(seen) => seen.to_string(),
                    None => String::new(),
                });
                table.row([(*group).to_owned()].into_iter().chain(cells));
            }
        }
        section.text(&table);
    }
    let all = answers.iter().flatten().flatten().flatten();
    let slowest = all.map(|seen| seen.p95).fold(0.0, f64::max);
    let what = format!("{title}: p95 of the slowest question, ms,");
    section.goal(slowest, Limit::AtMost(GOAL), &what);
}

/// Orphan visits, single clicks and Shlink's API.
async fn others(replica: &Replica, folder: &Path, sizes: Sizes, section: &mut Section) {
    let asker = Asker::new(replica, folder);
    let mut table = Table::new(["other requests", "p50 / p95, ms"]);
    let mut slowest: f64 = 0.0;
    for Other { name, path } in &kinds::OTHERS {
        let seen = asker
            .measure(|n| path(n, sizes.links), sizes.requests)
            .await;
        slowest = slowest.max(seen.p95);
        table.row([(*name).to_owned(), seen.to_string()]);
    }
    section.text(&table);
    section.goal(
        slowest,
        Limit::AtMost(GOAL),
        "p95 of the slowest of them, ms,",
    );
}

/// Number of a link by its popularity.
fn number(rank: u64, links: u64) -> u64 {
    (rank * SPREAD % links + 1) * 1_000 + ISSUER
}

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(60);
