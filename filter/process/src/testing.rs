//! What tests of hosts see of a process: its callouts, in place of the client that sends them, and its tick.

use crate::control_plane::CalloutAnswer;
use crate::orders::Order;
use crate::process::callouts;
use crate::process::{HOLDS_CALLOUTS, Process};
use crate::proxy::Waker;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A request to a control plane.
#[derive(Clone, Debug)]
pub struct SentCallout {
    /// Identifies it when it ends.
    pub id: u64,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

static SENT: Mutex<Option<HashMap<u64, Vec<Order>>>> = Mutex::new(None);

/// Leaves callouts to [`take_callouts`] from now on, in processes that have yet to begin. Without it they are sent: modules that are
/// built together with tests have this feature as well.
pub fn hold_callouts() {
    HOLDS_CALLOUTS.store(true, Ordering::Relaxed);
}

/// The callouts that the edge has ordered since the last call.
#[must_use]
pub fn take_callouts<W: Waker>(process: &'static Process<W>) -> Vec<SentCallout> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Those that the thread was woken for: others are still collected.
    let is_woken = process.with(|worker| worker.host.is_thread_woken);
    let is_woken = is_woken.ok().flatten().unwrap_or_default();
    let orders = is_woken.then(|| process.take_orders());
    let orders = orders.into_iter().flatten();
    let callouts = orders.map(|(orders, _)| {
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let callout = callouts::with_outgoing(&orders, |outgoing| SentCallout {
            id,
            headers: outgoing
                .headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            body: outgoing.body.to_vec(),
        });
        let mut sent = SENT
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        sent.get_or_insert_default().insert(id, orders);
        callout
    });
    callouts.flatten().collect()
}

/// Ends a callout; one that is unknown is ignored.
pub fn end_callout<W: Waker>(
    process: &'static Process<W>,
    id: u64,
    headers: &[(&str, &str)],
    body: &[u8],
) {
    let mut sent = SENT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let orders = sent.get_or_insert_default().remove(&id);
    drop(sent);
    let header = |name: &str| {
        let found = headers.iter().find(|(found, _)| *found == name);
        found.map_or("", |(_, value)| *value)
    };
    let further = [header("content-type"), header("retry-after")];
    let answer = CalloutAnswer::of(header(":status"), further, body);
    orders
        .into_iter()
        .for_each(|orders| callouts::finish(process, orders, answer.clone()));
}

/// Lets time pass: a tick.
pub fn tick<W: Waker>(process: &'static Process<W>) {
    process.tick();
}
