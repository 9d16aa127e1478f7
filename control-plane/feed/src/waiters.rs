//! Requests that wait until the feed has carried the keys that they have changed.

use edgelink_wire::FeedPoint;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The requests that wait, by the keys for which they do: a change costs one probe, however many wait for others.
#[derive(Default)]
pub(super) struct KeyWaiters {
    by_key: HashMap<Arc<str>, Vec<KeyWaiter>>,
    waiting: HashMap<u64, AwaitedKeys>,
    next: u64,
}

/// A request that waits for a key to have a revision, or a higher one.
struct KeyWaiter {
    rev: u64,
    waiter: u64,
}

struct AwaitedKeys {
    /// Number of keys that have yet to come.
    missing: usize,
    carried: oneshot::Sender<FeedPoint>,
}

/// A registered request, with which it is removed.
pub(super) struct Registered {
    id: u64,
    keys: Vec<Arc<str>>,
    /// Resolves to the place of the last of the keys.
    pub(super) carried: oneshot::Receiver<FeedPoint>,
}

impl KeyWaiters {
    /// Registers a request that waits for all of these keys to have their revisions.
    pub(super) fn register(&mut self, revs: &HashMap<String, u64>) -> Registered {
        let id = self.next;
        self.next += 1;
        let (sender, carried) = oneshot::channel();
        let waiting = AwaitedKeys {
            missing: revs.len(),
            carried: sender,
        };
        self.waiting.insert(id, waiting);
        let mut keys = Vec::with_capacity(revs.len());
        for (key, rev) in revs {
            let key: Arc<str> = key.as_str().into();
            let waiter = KeyWaiter {
                rev: *rev,
                waiter: id,
            };
            self.by_key.entry(key.clone()).or_default().push(waiter);
            keys.push(key);
        }
        Registered { id, keys, carried }
    }

    /// Removes a request that no longer waits.
    pub(super) fn remove(&mut self, registered: &Registered) {
        if self.waiting.remove(&registered.id).is_none() {
            return;
        }
        for key in &registered.keys {
            self.retain(key, |waiter| waiter.waiter != registered.id);
        }
    }

    /// Notes that the feed has carried a revision of a key.
    pub(super) fn note(&mut self, key: &str, rev: u64, place: FeedPoint) {
        if self.waiting.is_empty() {
            return;
        }
        let mut resolved = Vec::new();
        self.retain(key, |waiter| {
            let is_resolved = rev >= waiter.rev;
            resolved.extend(is_resolved.then_some(waiter.waiter));
            !is_resolved
        });
        for id in resolved {
            if let Some(waiting) = self.waiting.get_mut(&id) {
                waiting.missing -= 1;
                if waiting.missing == 0
                    && let Some(waiting) = self.waiting.remove(&id)
                {
                    // Without a receiver the request has ended meanwhile.
                    let _ = waiting.carried.send(place);
                }
            }
        }
    }

    /// Ends all waits: after a gap edges ask for everything again.
    pub(super) fn reset(&mut self, place: FeedPoint) {
        self.by_key.clear();
        for (_, waiting) in self.waiting.drain() {
            let _ = waiting.carried.send(place);
        }
    }

    /// Number of keys for which requests wait.
    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.by_key.len()
    }

    fn retain(&mut self, key: &str, keeps: impl FnMut(&KeyWaiter) -> bool) {
        if let Some(waiters) = self.by_key.get_mut(key) {
            waiters.retain(keeps);
            if waiters.is_empty() {
                self.by_key.remove(key);
            }
        }
    }
}
