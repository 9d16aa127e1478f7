//! How long a change takes to be everywhere.

use crate::production::{alias, create, edges};
use crate::visitors::{Journey, Pace, Visitors};
use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Connection, Production, ProductionOptions};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LINKS: usize = 64;
const CHANGES: usize = 500;
const READS: Pace = Pace {
    connections: 32,
    rate: Some(2000),
};
/// Connections to each Envoy that watch for a change: enough that each worker has some.
const WATCHERS: usize = 16;
/// From when on an old answer is one too many.
const TOO_LATE: Duration = Duration::from_secs(1);

/// `make show-redis`: from the API's answer to every worker.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make show-redis"]
async fn propagation() {
    let redis = RedisServer::start().await;
    let production = Production::start(&ProductionOptions::direct(&redis)).await;
    create(&production.control_planes[0], PREFIX, LINKS).await;
    let reader = Arc::new(Reader::default());
    let visitors = Visitors::start(&edges(&production), READS, &reader);
    let mut watchers = watchers(&production).await;
    let mut api = production.control_planes[0].connect().await;
    let mut times = Vec::new();
    for change in 1..=CHANGES {
        let link = change % LINKS;
        let code = alias(PREFIX, link);
        let body = json!({ "longUrl": change_to(change) });
        let path = format!("/links/{code}");
        let answer = production.control_planes[0].api_over(&mut api, "PATCH", &path, &body);
        assert_eq!(answer.await.expect("an answer").status, 200);
        let answered = Instant::now();
        reader.changed(link, change, answered);
        times.push(await_everywhere(&mut watchers, &code, change, answered).await);
    }
    tokio::time::sleep(TOO_LATE).await; // so that answers that are too late have the time to be given
    let mut seen = visitors.finish().await;
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("\n{CHANGES} changes, two Envoys with two workers each");
    println!(
        "from the answer to PATCH until all {} connections had the new target:",
        watchers.len()
    );
    println!(
        "    p50 {:.1?}, p99 {:.1?}, max {:.1?}",
        at(50),
        at(99),
        at(100)
    );
    seen.print("reads, where wrong means older than 1 s");
    assert_eq!(seen.wrong + seen.unanswered, 0);
}

const PREFIX: &str = "hot";

/// Where a link leads after a change.
pub(crate) fn change_to(change: usize) -> String {
    format!("https://example.com/change/{change}")
}

/// Connections to each worker of each Envoy.
pub(crate) async fn watchers(production: &Production) -> Vec<Connection> {
    let mut watchers = Vec::new();
    for envoy in &production.envoys {
        for _ in 0..WATCHERS {
            watchers.push(envoy.connect().await);
        }
        let stats = envoy.stats("worker_..downstream_cx_active").await;
        let workers = ["worker_0", "worker_1"].map(|worker| stats.sum_matching(worker));
        assert!(
            workers.iter().all(|count| *count > 0),
            "a worker is not watched: {stats:?}"
        );
    }
    watchers
}

/// Asks every connection until it has the new target.
pub(crate) async fn await_everywhere(
    watchers: &mut [Connection],
    code: &str,
    change: usize,
    answered: Instant,
) -> Duration {
    let request = Request::get(&format!("/{code}"));
    let wanted = change_to(change);
    let mut old: Vec<&mut Connection> = watchers.iter_mut().collect();
    while !old.is_empty() {
        let mut still_old = Vec::new();
        for watcher in old {
            let answer = watcher.exchange(&request, b"").await.expect("an answer");
            if answer.location() != Some(wanted.as_str()) {
                still_old.push(watcher);
            }
        }
        old = still_old;
        assert!(
            answered.elapsed() < Duration::from_secs(30),
            "change {change} is not everywhere"
        );
    }
    answered.elapsed()
}

/// Follows the links, and knows what they were changed to when.
#[derive(Default)]
struct Reader {
    changes: Mutex<Vec<(usize, usize, Instant)>>,
}

impl Reader {
    fn changed(&self, link: usize, change: usize, at: Instant) {
        self.changes
            .lock()
            .expect("a lock")
            .push((link, change, at));
    }

    /// The last change of a link that was made too long before `sent` for an older answer.
    fn least(&self, link: usize, sent: Instant) -> usize {
        let changes = self.changes.lock().expect("a lock");
        let mut old = changes
            .iter()
            .rev()
            .filter(|(changed, _, at)| *changed == link && *at + TOO_LATE < sent);
        old.next().map_or(0, |(_, change, _)| *change)
    }
}

impl Journey for Reader {
    fn path(&self, n: u64) -> String {
        format!(
            "/{}",
            alias(PREFIX, usize::try_from(n).expect("a number") % LINKS)
        )
    }

    fn is_right(&self, path: &str, answer: &Answer, sent: Instant) -> bool {
        let link = path
            .rsplit('-')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a link");
        let location = answer.location().unwrap_or_default();
        let change = location.strip_prefix("https://example.com/change/");
        let change = change.map_or(0, |n| n.parse().expect("a change"));
        answer.status == 302 && change >= self.least(link, sent)
    }
}
