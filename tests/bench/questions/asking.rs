//! Sends one request after another.

use super::PATIENCE;
use crate::rows::replica::{Replica, admin_key};
use reqwest::Client;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

/// Latencies of answers, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    p50: f64,
    pub(super) p95: f64,
}

impl fmt::Display for Seen {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:.0} / {:.0}", self.p50, self.p95)
    }
}

/// A client with the admin key.
pub(super) struct Asker {
    client: Client,
    address: SocketAddr,
    key: String,
}

impl Asker {
    pub(super) fn new(replica: &Replica, folder: &Path) -> Self {
        let client = Client::builder().timeout(PATIENCE).no_proxy().build();
        Self {
            client: client.expect("a client"),
            address: replica.address(),
            key: admin_key(folder),
        }
    }

    /// Sends a request, and reads the answer to its end.
    pub(super) async fn ask(&self, path: &str) {
        let request = self.client.get(format!("http://{}{path}", self.address));
        let answer = request.header("x-api-key", &self.key).send().await;
        let answer = answer.expect("an answer");
        let status = answer.status();
        let body = answer.text().await.expect("a body");
        assert!(status.is_success(), "{path}: {status} {body}");
    }

    /// Sends that many requests, after one that is not measured.
    pub(super) async fn measure(&self, path: impl Fn(u64) -> String, count: usize) -> Seen {
        self.ask(&path(0)).await;
        let mut millis = Vec::with_capacity(count);
        for n in 0..count {
            let path = path(n as u64);
            let start = Instant::now();
            self.ask(&path).await;
            millis.push(start.elapsed().as_secs_f64() * 1e3);
        }
        millis.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| millis[((count as f64 * share).ceil() as usize).max(1) - 1];
        Seen {
            p50: at(0.5),
            p95: at(0.95),
        }
    }
}
