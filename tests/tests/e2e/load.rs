//! Visitors, while something breaks.

use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::stack::{Connection, Deployment, until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(30);
const LINKS: usize = 200;
const VISITORS: usize = 4;

/// Visitors who follow known links all the time.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    visitors: JoinSet<Vec<Answer>>,
}

impl Load {
    pub(crate) fn start(edge: SocketAddr, paths: &[String]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let mut visitors = JoinSet::new();
        for start in 0..VISITORS {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            let paths = paths.to_owned();
            visitors.spawn(async move {
                let mut failed = Vec::new();
                let mut connection = Connection::open(edge).await.expect("a connection");
                for path in paths.iter().cycle().skip(start * LINKS / VISITORS) {
                    let answer = connection
                        .exchange(&Request::get(path), b"")
                        .await
                        .expect("an answer");
                    answered.fetch_add(1, Ordering::Relaxed);
                    let expected = format!("https://example.com{path}");
                    if answer.location() != Some(expected.as_str()) {
                        failed.push(answer);
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                failed
            });
        }
        Self {
            stop,
            answered,
            visitors,
        }
    }

    /// Stops, where no request has failed.
    pub(crate) async fn stop_unharmed(self) {
        let (answered, failed) = self.stop().await;
        println!(
            "{answered} requests for known links, {} failed",
            failed.len()
        );
        assert!(failed.is_empty(), "{:?}", failed.first());
    }

    /// The number of requests, and those that failed.
    pub(crate) async fn stop(self) -> (u64, Vec<Answer>) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.visitors.join_all().await.concat();
        (self.answered.load(Ordering::Relaxed), failed)
    }
}

/// Creates links and follows each once, so that the edge knows them.
pub(crate) async fn known_links(edgelink: &Deployment) -> Vec<String> {
    let mut paths = Vec::new();
    for index in 0..LINKS {
        let slug = format!("known{index}");
        let target = format!("https://example.com/{slug}");
        let path = edgelink.link(&slug).to(&target).create().await.path();
        until("the edge knows the link", LIMIT, async || {
            let answer = edgelink.envoy.follow(&path).await;
            (answer.status == 302).then_some(())
        })
        .await;
        paths.push(path);
    }
    paths
}
