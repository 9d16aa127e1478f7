//! The host of the logic: callouts, queued for the thread of the module, and services of the process itself.

use crate::metrics::MetricChanges;
use crate::orders::{self, Order};
use crate::proxy::SharedTable;
use crate::redis::{Connection, Receiver};
use edgelink_filter_core::flights::Token;
use edgelink_filter_core::host::{
    CasMismatch, Clients, ConnectionToken, FEED_KEY, HashLookup, Log, Lookups, NEVER_WRITTEN,
    SLOT_PREFIX, SharedData, SharedValue,
};
use edgelink_filter_core::metrics::{Metric, Metrics};
use edgelink_filter_core::settings::{Described, RedisSettings};
use edgelink_filter_core::time::Moment;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// The part of the edge's host that is available at any time.
pub(crate) struct Host {
    /// Receives data from Redis.
    receiver: &'static dyn Receiver,
    /// The shared data of other hosts' workers. Almost empty here, because there is only one edge.
    shared: HashMap<String, (Vec<u8>, u32)>,
    changes: MetricChanges,
    /// True if the proxy may have a feed lag, of this edge or of the previous one.
    has_feed_lag: bool,
    orders: Vec<Order>,
    /// True if the thread was woken for the orders.
    pub(crate) is_thread_woken: bool,
    /// End of the period in which lookups are not batched.
    alone_until: Moment,
    /// At most one live connection; an abandoned one may exist beside it for a moment.
    connections: HashMap<ConnectionToken, Connection>,
}

impl Host {
    /// Milliseconds for which lookups are not batched after a batch was refused.
    const ALONE_MILLIS: u64 = 60_000;

    pub(crate) fn new(receiver: &'static dyn Receiver) -> Self {
        Self {
            receiver,
            shared: HashMap::new(),
            changes: MetricChanges::default(),
            has_feed_lag: true,
            orders: Vec::new(),
            is_thread_woken: false,
            alone_until: Moment::default(),
            connections: HashMap::new(),
        }
    }

    /// A token that is unique among callouts and connections, including those of an edge before a panic.
    pub(crate) fn next_token() -> Token {
        static LAST: AtomicU32 = AtomicU32::new(0);
        LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    pub(crate) fn order(&mut self, order: Order) {
        self.orders.push(order);
    }

    /// Records the lag of the feed; `None`, without a feed, is reported once, as 0.
    pub(crate) fn note_feed_lag(&mut self, millis: Option<u64>) {
        let had_feed_lag = std::mem::replace(&mut self.has_feed_lag, millis.is_some());
        if millis.is_some() || had_feed_lag {
            self.changes.feed_lag_millis = Some(millis.unwrap_or_default());
        }
    }

    /// Records the age of the oldest record served by a cache since the last call; `None` if there was none.
    pub(crate) fn note_record_age(&mut self, millis: Option<u64>) {
        self.changes.record_age_millis = self.changes.record_age_millis.max(millis);
    }

    /// True if there are orders that the thread was not woken for.
    #[inline(always)]
    pub(crate) fn wants_thread(&self) -> bool {
        !self.is_thread_woken && !self.orders.is_empty()
    }

    /// The thread is woken for the orders.
    pub(crate) fn on_thread_woken(&mut self) {
        self.is_thread_woken = true;
    }

    /// Takes the orders, grouped by callout.
    pub(crate) fn take_orders(&mut self, now: Moment) -> Vec<Vec<Order>> {
        self.is_thread_woken = false;
        let orders = std::mem::take(&mut self.orders);
        if now < self.alone_until {
            orders.into_iter().map(|order| vec![order]).collect()
        } else {
            orders::gather(orders)
        }
    }

    /// Disables batches for a while after one was refused, and queues its orders singly.
    pub(crate) fn ask_alone(&mut self, orders: Vec<Order>, now: Moment) {
        self.alone_until = now.after(Self::ALONE_MILLIS);
        self.orders.extend(orders);
    }

    /// True if metrics have changed.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Takes the changes of metrics.
    pub(crate) fn take_changes(&mut self) -> MetricChanges {
        std::mem::take(&mut self.changes)
    }

    /// The memory of other processes too, for a key of a record or of places of the feed.
    fn slots_for(&self, key: &str) -> Option<&'static dyn SharedTable> {
        self.receiver
            .shared()
            .filter(|_| key == FEED_KEY || key.starts_with(SLOT_PREFIX))
    }

    /// Takes over the changes of the previous edge.
    pub(crate) fn put_changes(&mut self, changes: MetricChanges) {
        self.changes = changes;
    }
}

impl SharedData for Host {
    type Value = Vec<u8>;

    fn get(&mut self, key: &str) -> Option<SharedValue<Vec<u8>>> {
        if let Some(slots) = self.slots_for(key) {
            return slots.get(key);
        }
        let (value, cas) = self.shared.get(key)?.clone();
        Some(SharedValue { value, cas })
    }

    fn set(&mut self, key: &str, value: &[u8], cas: u32) -> Result<(), CasMismatch> {
        if let Some(slots) = self.slots_for(key) {
            return slots.set(key, value, cas);
        }
        let held = self.shared.get_mut(key);
        match held {
            Some((_, held)) if cas != NEVER_WRITTEN && cas != *held => return Err(CasMismatch),
            Some((bytes, held)) => {
                value.clone_into(bytes);
                *held = held.wrapping_add(1).max(NEVER_WRITTEN + 1);
            }
            None => {
                let written = (value.to_vec(), NEVER_WRITTEN + 1);
                self.shared.insert(key.to_owned(), written);
            }
        }
        Ok(())
    }
}

impl Lookups for Host {
    const END_WITH_ROOT: bool = false;
    const HAS_CLIENT: bool = true;

    fn open(&mut self, redis: &RedisSettings) -> Option<ConnectionToken> {
        let token = Self::next_token();
        let connection = Connection::open(self.receiver, token, redis.clone())?;
        self.connections.insert(token, connection);
        Some(token)
    }

    fn send(&mut self, connection: ConnectionToken, bytes: &[u8]) -> bool {
        let connection = self.connections.get(&connection);
        connection.is_some_and(|connection| connection.send(bytes))
    }

    fn look_up(&mut self, connection: ConnectionToken, lookup: HashLookup) -> bool {
        let connection = self.connections.get(&connection);
        connection.is_some_and(|connection| connection.look_up(lookup))
    }

    fn close(&mut self, connection: ConnectionToken) {
        self.connections.remove(&connection);
    }
}

impl Metrics for Host {
    fn add(&mut self, metric: Metric, by: i64) {
        self.changes.added.push((metric, by));
    }

    fn record(&mut self, metric: Metric, value: u64) {
        self.changes.recorded.push((metric, value));
    }
}

impl Log for Host {
    fn warn(&mut self, message: &str) {
        log::warn!("{message}");
    }
}

/// The host while a request is being processed.
pub(crate) struct Visited<'a, C> {
    pub(crate) host: &'a mut Host,
    pub(crate) client: &'a C,
}

impl<C> SharedData for Visited<'_, C> {
    type Value = Vec<u8>;

    fn get(&mut self, key: &str) -> Option<SharedValue<Vec<u8>>> {
        self.host.get(key)
    }

    fn set(&mut self, key: &str, value: &[u8], cas: u32) -> Result<(), CasMismatch> {
        self.host.set(key, value, cas)
    }
}

impl<C> Lookups for Visited<'_, C> {
    const END_WITH_ROOT: bool = Host::END_WITH_ROOT;
    const HAS_CLIENT: bool = Host::HAS_CLIENT;

    fn open(&mut self, redis: &RedisSettings) -> Option<ConnectionToken> {
        self.host.open(redis)
    }

    fn send(&mut self, connection: ConnectionToken, bytes: &[u8]) -> bool {
        self.host.send(connection, bytes)
    }

    fn look_up(&mut self, connection: ConnectionToken, lookup: HashLookup) -> bool {
        self.host.look_up(connection, lookup)
    }

    fn close(&mut self, connection: ConnectionToken) {
        self.host.close(connection);
    }
}

impl<C> Log for Visited<'_, C> {
    fn warn(&mut self, message: &str) {
        self.host.warn(message);
    }
}

impl<C: Clients> Clients for Visited<'_, C> {
    fn client_address(&self) -> Option<IpAddr> {
        self.client.client_address()
    }

    fn cookies(&self) -> Vec<u8> {
        self.client.cookies()
    }

    fn user_agent(&self) -> Vec<u8> {
        self.client.user_agent()
    }

    fn describe(&self, what: Described, value: &[u8]) {
        self.client.describe(what, value);
    }
}
