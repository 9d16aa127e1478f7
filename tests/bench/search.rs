//! Cost of the lists of the API and of the console with many links and tags.

mod pages;

use crate::links::{code_of, write_paths};
use crate::load::{Latencies, keep_rate_with};
use crate::options::Options;
use crate::process::{others, pin};
use crate::report::{Limit, Section, Table};
use crate::rows::database::{Content, Database, number};
use crate::rows::replica::{Replica, admin_key};
use pages::{Browser, NEXT, PAGES};
use std::path::Path;
use tempfile::TempDir;

/// Requests per second.
const RATE: f64 = 50.0;

/// Highest p99 latency of a request, in milliseconds.
const GOAL: f64 = 50.0;

/// Highest p95 latency of a console page, in milliseconds.
const PAGE_GOAL: f64 = 150.0;

/// Tags, each on a hundred of a million links. A tenth of the links also has one of ten further tags, and a title.
const TAGS: u64 = 10_000;

/// Hosts that the links point to in turn.
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

/// All kinds, each with the path of its n-th request, given the number of links.
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
    let requests = Requests {
        replica: &replica,
        folder: folder.path(),
        count: options.size.pick(1_000, 100),
    };
    let wanted = KINDS.iter().filter(|kind| options.wants(kind.name));
    let seen: Vec<_> = wanted
        .map(|kind| (kind.name, requests.of_api(kind, rows)))
        .collect();
    let pages = requests.of_console(options).await;
    replica.stop().await;
    report(rows, &seen, &pages)
}

/// Requests to a control plane, a number of each kind.
struct Requests<'r> {
    replica: &'r Replica,
    folder: &'r Path,
    count: u64,
}

impl Requests<'_> {
    fn of_api(&self, kind: &Kind, rows: u64) -> Latencies {
        let paths = (0..self.count).map(|n| format!("/api/v1{}", (kind.path)(n, rows)));
        let key = format!("x-api-key: {}", admin_key(self.folder));
        self.ask(kind.name, paths, &key)
    }

    async fn of_console(&self, options: &Options) -> Vec<(&'static str, Latencies)> {
        let mut browser = Browser::log_in(self.replica, self.folder).await;
        let next = browser.next_pages().await;
        // Requests name a host other than this machine, whose cookies have another name.
        let cookie = format!("cookie: __Host-{}", browser.cookie);
        let wanted = PAGES.iter().filter(|page| options.wants(page.name));
        let mut seen: Vec<_> = wanted
            .map(|page| {
                let paths = (0..self.count).map(page.path);
                (page.name, self.ask(page.name, paths, &cookie))
            })
            .collect();
        if options.wants(NEXT) {
            let paths = next.iter().cycle().take(self.count as usize).cloned();
            seen.push((NEXT, self.ask(NEXT, paths, &cookie)));
        }
        seen
    }

    fn ask(&self, name: &str, paths: impl Iterator<Item = String>, header: &str) -> Latencies {
        let paths = paths.map(|path| path.trim_start_matches('/').to_owned());
        let file = write_paths(self.folder, "lists", paths);
        let (address, count) = (self.replica.address(), self.count);
        let seen = keep_rate_with(address, &file, 200, RATE, count, &[header]);
        eprintln!("{name}: {:.1} ms, {:.1} ms", seen.p50, seen.p99);
        seen
    }
}

fn report(rows: u64, seen: &[(&str, Latencies)], pages: &[(&str, Latencies)]) -> Section {
    let mut section = Section::new("Lists and searches");
    section.text(&format!(
        "{rows} links and {TAGS} tags in MariaDB, {RATE} requests a second of each kind, in milliseconds. Pages of the console have 50 links."
    ));
    let mut table = Table::new(["request", "p50, ms", "p95, ms", "p99, ms"]);
    for (name, latencies) in seen.iter().chain(pages) {
        let figures = [latencies.p50, latencies.p95, latencies.p99];
        let [p50, p95, p99] = figures.map(|millis| format!("{millis:.1}"));
        table.row([(*name).to_owned(), p50, p95, p99]);
    }
    section.text(&table);
    for (name, latencies) in seen {
        let what = format!("p99 of '{name}', ms,");
        section.goal(latencies.p99, Limit::AtMost(GOAL), &what);
    }
    for (name, latencies) in pages {
        let what = format!("p95 of '{name}', ms,");
        section.goal(latencies.p95, Limit::AtMost(PAGE_GOAL), &what);
    }
    section
}
