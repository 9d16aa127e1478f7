//! A visitor that follows one link after another over one connection.

use super::{Client, ClientContext};
use crate::nemesis::history::{Host, Via};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::Arc;
use std::time::Duration;

/// Requests after which a new connection is opened, which may reach another worker.
const REQUESTS: usize = 60;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

pub(super) struct Follower {
    shared: Arc<ClientContext>,
    via: Via,
    rng: StdRng,
}

impl Follower {
    pub(super) fn new(shared: &Arc<ClientContext>, via: Via, rng: StdRng) -> Self {
        Self {
            shared: shared.clone(),
            via,
            rng,
        }
    }

    pub(super) async fn run(mut self) {
        let mut client = Client::new(self.via);
        let mut count = 0;
        while !self.shared.is_over() {
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(10..50))).await;
            if self.via == Via::Stray && self.shared.deployment.stray().is_none() {
                continue;
            }
            let code = if self.rng.random_bool(0.03) {
                Some(self.unknown())
            } else {
                self.shared.codes.pick(&mut self.rng)
            };
            if let Some(code) = code {
                let picks = self.rng.random_bool(0.3);
                let is_elsewhere = !code.contains('/') && self.shared.presses(&mut self.rng, 0.1);
                let host = if is_elsewhere {
                    Host::Unknown
                } else {
                    Host::Own
                };
                client.follow_under(&self.shared, &code, picks, host).await;
            }
            count += 1;
            if count % REQUESTS == 0 {
                client = Client::new(self.via);
            }
        }
    }

    /// An unused code in the shape of a generated one.
    fn unknown(&mut self) -> String {
        let letter = |_| char::from(BASE62[self.rng.random_range(0..BASE62.len())]);
        (0..7).map(letter).collect()
    }
}
