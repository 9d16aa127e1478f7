//! What lists of the API cost with many links and tags.

use crate::links::{code_of, write_paths};
use crate::load::{Latencies, keep_rate_with};
use crate::options::Options;
use crate::process::{others, pin};
use crate::report::{Limit, Section, Table};
use crate::rows::database::{Content, Database, number};
use crate::rows::replica::{Replica, admin_key};
use std::path::Path;
use tempfile::TempDir;

/// Requests a second.
const RATE: f64 = 50.0;

/// The longest that one request of a hundred may take, in milliseconds.
const GOAL: f64 = 50.0;

/// Tags that a hundred of a million links have each. A tenth of the links has one of ten tags more, and a title.
const TAGS: u64 = 10_000;

/// Hosts that links go to in turn.
const HOSTS: u64 = 5_000;

const CONTENT: Content = Content {
    url: "CONCAT('https://host', seq % 5000, '.example/some/where?link=', seq)",
    title: "IF(seq % 10, NULL, CONCAT('Title ', seq % 9973))",
    tags: "IF(seq % 10, CONCAT('[\"t', seq % 10000, '\"]'), CONCAT('[\"large', seq DIV 10 % 10, '\",\"t', seq % 10000, '\"]'))",
};

/// A kind of request.
struct Kind {
    name: &'static str,
    path: fn(u64, u64) -> String,
}

/// All kinds, each with what its n-th request of so many links asks for.
const KINDS: [Kind; 14] = [
    Kind {
        name: "list, newest first",
        path: |_, _| "/links".to_owned(),
    },
    Kind {
        name: "list, 100 links of a time",
        path: |n, rows| {
            // The first link is of 2023-11-14T22:13:20Z, and each second has a thousand.
            let seconds = 13 * 60 + 20 + n * 7 % (rows / 1000).max(1);
            let (minute, second) = (seconds / 60, seconds % 60);
            format!("/links?limit=100&createdBefore=2023-11-14T22:{minute:02}:{second:02}Z")
        },
    },
    Kind {
        name: "list by code",
        path: |_, _| {
            format!(
                "/links?orderBy=shortCode-asc&domain={}",
                edgelink_tests::scenario::DOMAIN
            )
        },
    },
    Kind {
        name: "search, code",
        path: |n, rows| format!("/links?searchTerm={}", code_of(number(1 + n * 7919 % rows))),
    },
    Kind {
        name: "search, beginning of a code",
        path: |n, rows| {
            format!(
                "/links?searchTerm={}",
                &code_of(number(1 + n * 7919 % rows))[..5]
            )
        },
    },
    Kind {
        name: "search, host of the target",
        path: |n, _| format!("/links?searchTerm=host{}.example", n * 31 % HOSTS),
    },
    Kind {
        name: "search, beginning of a host",
        path: |n, _| format!("/links?searchTerm=host{}", n % 50),
    },
    Kind {
        name: "search, two words of a title",
        path: |n, _| format!("/links?searchTerm=title+{}", n * 37 % 9973),
    },
    Kind {
        name: "a tag",
        path: |n, _| format!("/links?tags=t{}", n * 31 % TAGS),
    },
    Kind {
        name: "a tag of many links",
        path: |n, _| format!("/links?tags=large{}", n % 10),
    },
    Kind {
        name: "two tags of a link",
        path: |n, _| {
            format!(
                "/links?tagsMode=all&tags=t{}&tags=large{}",
                n * 10 % TAGS,
                n % 10
            )
        },
    },
    Kind {
        name: "expired, which none is",
        path: |_, _| "/links?state=expired".to_owned(),
    },
    Kind {
        name: "tags with numbers of links",
        path: |n, _| format!("/tags?prefix=t{}", n % 10),
    },
    Kind {
        name: "get",
        path: |n, rows| format!("/links/{}", code_of(number(1 + n * 7919 % rows))),
    },
];

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let rows = options.size.pick(1_000_000, 20_000);
    let folder = TempDir::new().expect("a temporary folder");
    let mut database = Database::start();
    // The schema and the admin key.
    Replica::start(folder.path(), &database.url())
        .await
        .stop()
        .await;
    pin(&[database.process_id()], &others());
    let filled = database.grow_with(rows, &CONTENT);
    database.add_terms();
    eprintln!("{rows} links after {filled:.1} s and their tags");
    let replica = Replica::start(folder.path(), &database.url()).await;
    let count = options.size.pick(1_000, 100);
    let wanted = KINDS.iter().filter(|kind| options.wants(kind.name));
    let seen: Vec<(&str, Latencies)> = wanted
        .map(|kind| (kind.name, ask(&replica, folder.path(), kind, rows, count)))
        .collect();
    replica.stop().await;
    report(rows, &seen)
}

fn ask(replica: &Replica, folder: &Path, kind: &Kind, rows: u64, count: u64) -> Latencies {
    let paths = (0..count).map(|n| (kind.path)(n, rows).trim_start_matches('/').to_owned());
    let paths: Vec<String> = paths.map(|path| format!("api/v1/{path}")).collect();
    let file = write_paths(folder, "lists", paths);
    let key = format!("x-api-key: {}", admin_key(folder));
    let seen = keep_rate_with(replica.address(), &file, 200, RATE, count, &[key.as_str()]);
    eprintln!("{}: {:.1} ms, {:.1} ms", kind.name, seen.p50, seen.p99);
    seen
}

fn report(rows: u64, seen: &[(&str, Latencies)]) -> Section {
    let mut section = Section::new("Lists and searches");
    section.text(&format!(
        "{rows} links and {TAGS} tags in MariaDB, {RATE} requests a second of each kind, in milliseconds."
    ));
    let mut table = Table::new(["request", "p50, ms", "p99, ms"]);
    for (name, latencies) in seen {
        let figures = [latencies.p50, latencies.p99].map(|millis| format!("{millis:.1}"));
        let [p50, p99] = figures;
        table.row([(*name).to_owned(), p50, p99]);
    }
    section.text(&table);
    for (name, latencies) in seen {
        section.goal(
            latencies.p99,
            Limit::AtMost(GOAL),
            &format!("p99 of '{name}', ms,"),
        );
    }
    section
}
