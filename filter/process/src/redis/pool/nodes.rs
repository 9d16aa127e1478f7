//! Health of the nodes, as observed by lookups.
//!
//! From the first lookup that a node does not answer in time, it counts as silent: its lookups fail at once, including those in flight,
//! and one at a time is sent as a probe.

use edgelink_filter_core::host::HashValues;
use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClusterInterface;
use fred::types::cluster::ClusterRouting;
use fred::types::config::Server;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The most nodes remembered. Beyond that all are forgotten.
const MAX_NODES: usize = 1_000;

/// Lifetime of the routing table: the longest delay until a moved key is routed to its new node.
const ROUTING_LIVES: Duration = Duration::from_secs(1);

/// All nodes.
#[derive(Default)]
pub(super) struct RedisNodes {
    routing: Option<(ClusterRouting, Instant)>,
    /// The nodes; `None` stands for all keys without a known node.
    nodes: HashMap<Option<Server>, Arc<NodeHealth>>,
}

impl RedisNodes {
    /// The node responsible for a key.
    pub(super) fn of(&mut self, client: &Client, key: &[u8]) -> Arc<NodeHealth> {
        let server = self.server(client, key);
        if self.nodes.len() >= MAX_NODES && !self.nodes.contains_key(&server) {
            self.nodes.clear();
        }
        Arc::clone(self.nodes.entry(server).or_default())
    }

    fn server(&mut self, client: &Client, key: &[u8]) -> Option<Server> {
        let is_old = |(_, since): &(_, Instant)| since.elapsed() >= ROUTING_LIVES;
        if self.routing.as_ref().is_none_or(is_old) {
            let read = client.cached_cluster_state();
            self.routing = read.map(|routing| (routing, Instant::now()));
        }
        let (routing, _) = self.routing.as_ref()?;
        routing.get_server(ClusterRouting::hash_key(key)).cloned()
    }
}

/// Health of a node.
pub(super) struct NodeHealth {
    is_silent: watch::Sender<bool>,
    is_probed: AtomicBool,
}

impl Default for NodeHealth {
    fn default() -> Self {
        Self {
            is_silent: watch::Sender::new(false),
            is_probed: AtomicBool::new(false),
        }
    }
}

impl NodeHealth {
    /// Runs a lookup; fails at once if the node is silent.
    pub(super) async fn ask(
        self: Arc<Self>,
        lookup: impl Future<Output = Result<HashValues, Error>> + Send + 'static,
    ) -> Result<HashValues, Error> {
        let mut silence = self.is_silent.subscribe();
        if *silence.borrow() {
            self.probe(lookup);
            return Err(silent());
        }
        tokio::select! {
            answer = lookup => {
                self.note(&answer);
                answer
            }
            _ = silence.wait_for(|is_silent| *is_silent) => Err(silent()),
        }
    }

    fn note(&self, answer: &Result<HashValues, Error>) {
        let is_silent = matches!(answer, Err(error) if *error.kind() == ErrorKind::Timeout);
        self.is_silent
            .send_if_modified(|was| std::mem::replace(was, is_silent) != is_silent);
    }

    /// Probes the node with a lookup, unless another probe is running.
    fn probe(
        self: Arc<Self>,
        lookup: impl Future<Output = Result<HashValues, Error>> + Send + 'static,
    ) {
        if self.is_probed.swap(true, Ordering::Relaxed) {
            return;
        }
        tokio::spawn(async move {
            self.note(&lookup.await);
            self.is_probed.store(false, Ordering::Relaxed);
        });
    }
}

fn silent() -> Error {
    Error::new(ErrorKind::Timeout, "a node is silent")
}
