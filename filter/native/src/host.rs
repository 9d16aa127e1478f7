//! The host of the logic: what it needs of Envoy, gathered until the main thread does it, and what the process has itself.

use crate::abi::{self, Filter, Level};
use crate::metrics::Changes;
use crate::orders::{self, Call, Order, Sent};
use crate::redis::{Connection, Receiver};
use edgelink_filter_core::edge::RootId;
use edgelink_filter_core::flights::Token;
use edgelink_filter_core::host::{
    CasMismatch, Clients, Log, NEVER_WRITTEN, SharedData, SharedValue, StreamToken, Streams,
};
use edgelink_filter_core::metrics::{Metric, Metrics};
use edgelink_filter_core::settings::{Described, RedisSettings};
use edgelink_filter_core::time::Moment;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

/// What the edge has of its host at any time.
pub(crate) struct Host {
    /// Takes what comes from Redis.
    receiver: &'static dyn Receiver,
    /// What workers of other hosts share. Here it holds next to nothing: there is one edge.
    shared: HashMap<String, (Vec<u8>, u32)>,
    changes: Changes,
    /// Whether Envoy has a feed lag: of this edge, or perhaps of the one before.
    has_feed_lag: bool,
    orders: Vec<Order>,
    /// Whether the main thread was woken for them.
    pub(crate) is_main_thread_woken: bool,
    /// The callouts under way.
    sent: HashMap<Call, Sent>,
    /// Until when lookups are not put together.
    alone_until: Moment,
    /// Where Redis is.
    pub(crate) redis: Option<RedisSettings>,
    /// At most one stands; one that is given up may be beside it for a moment.
    connections: HashMap<StreamToken, Connection>,
}

impl Host {
    /// How long lookups are not put together once a request for several was not answered.
    const ALONE_MILLIS: u64 = 60_000;

    pub(crate) fn new(receiver: &'static dyn Receiver) -> Self {
        Self {
            receiver,
            shared: HashMap::new(),
            changes: Changes::default(),
            has_feed_lag: true,
            orders: Vec::new(),
            is_main_thread_woken: false,
            sent: HashMap::new(),
            alone_until: Moment::default(),
            redis: None,
            connections: HashMap::new(),
        }
    }

    /// A number that no callout and no connection has, those of an edge before a panic included.
    pub(crate) fn next_token() -> Token {
        static LAST: AtomicU32 = AtomicU32::new(0);
        LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    pub(crate) fn order(&mut self, order: Order) {
        self.orders.push(order);
    }

    pub(crate) fn has_orders(&self) -> bool {
        !self.orders.is_empty() || !self.changes.is_empty()
    }

    /// How far the feed is behind; `None` without one, which is said once, as 0.
    pub(crate) fn note_feed_lag(&mut self, millis: Option<u64>) {
        let had_feed_lag = std::mem::replace(&mut self.has_feed_lag, millis.is_some());
        if millis.is_some() || had_feed_lag {
            self.changes.feed_lag_millis = Some(millis.unwrap_or_default());
        }
    }

    /// How old the oldest record is that a cache has answered with since the last time; `None` if none has.
    pub(crate) fn note_record_age(&mut self, millis: Option<u64>) {
        self.changes.record_age_millis = self.changes.record_age_millis.max(millis);
    }

    /// Whether there is something for the main thread that it was not woken for.
    #[inline(always)]
    pub(crate) fn wants_main_thread(&self) -> bool {
        !self.is_main_thread_woken && self.has_orders()
    }

    /// What the main thread has to do: callouts, each for the orders that it was made of, and changes of metrics.
    pub(crate) fn take_orders(&mut self, now: Moment) -> (Vec<Vec<Order>>, Changes) {
        self.is_main_thread_woken = false;
        let orders = std::mem::take(&mut self.orders);
        let orders = if now < self.alone_until {
            orders.into_iter().map(|order| vec![order]).collect()
        } else {
            orders::gather(orders)
        };
        (orders, std::mem::take(&mut self.changes))
    }

    /// Requests for several keys are not answered: each is asked for alone.
    pub(crate) fn ask_alone(&mut self, orders: Vec<Order>, now: Moment) {
        self.alone_until = now.after(Self::ALONE_MILLIS);
        self.orders.extend(orders);
    }

    /// The changes of metrics that the main thread has not taken yet.
    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Those of the edge before.
    pub(crate) fn put_changes(&mut self, changes: Changes) {
        self.changes = changes;
    }

    /// Envoy has taken a callout.
    pub(crate) fn on_sent(&mut self, call: Call, sent: Sent) {
        self.sent.insert(call, sent);
    }

    /// What a callout is for.
    pub(crate) fn sent(&self, call: Call) -> Option<&Sent> {
        self.sent.get(&call)
    }

    /// The callout has ended. `None` if it is of an edge before.
    pub(crate) fn on_callout_end(&mut self, call: Call) -> Option<Sent> {
        self.sent.remove(&call)
    }

    /// A root has ended, and its callouts with it.
    pub(crate) fn end_root(&mut self, root: RootId) {
        self.sent.retain(|(of, _), _| *of != root);
        self.orders.clear();
        self.is_main_thread_woken = false;
    }
}

impl SharedData for Host {
    type Value = Vec<u8>;

    fn get(&mut self, key: &str) -> Option<SharedValue<Vec<u8>>> {
        let (value, cas) = self.shared.get(key)?.clone();
        Some(SharedValue { value, cas })
    }

    fn set(&mut self, key: &str, value: &[u8], cas: u32) -> Result<(), CasMismatch> {
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

impl Streams for Host {
    const END_WITH_ROOT: bool = false;

    fn open(&mut self, _: &str, _: &str, _: &str) -> Option<StreamToken> {
        let token = Self::next_token();
        let connection = Connection::open(self.receiver, token, self.redis.clone()?)?;
        self.connections.insert(token, connection);
        Some(token)
    }

    fn send(&mut self, stream: StreamToken, message: &[u8]) -> bool {
        let connection = self.connections.get(&stream);
        connection.is_some_and(|connection| connection.send(message))
    }

    fn cancel(&mut self, stream: StreamToken) {
        self.connections.remove(&stream);
    }
}

impl Metrics for Host {
    fn add(&mut self, metric: Metric, by: i64) {
        self.changes.add(metric, by);
    }

    fn record(&mut self, metric: Metric, value: u64) {
        self.changes.record(metric, value);
    }
}

impl Log for Host {
    fn warn(&mut self, message: &str) {
        abi::log(Level::Warn, message);
    }
}

/// The client of the request of a hook.
pub(crate) struct Client<'h>(pub(crate) Filter<'h>);

impl Clients for Client<'_> {
    fn client_address(&self) -> Option<IpAddr> {
        let text = std::str::from_utf8(self.0.client_address()).ok()?;
        Some(text.parse::<SocketAddr>().ok()?.ip())
    }

    fn cookies(&self) -> Vec<u8> {
        self.0.header("cookie").to_vec()
    }

    fn user_agent(&self) -> Vec<u8> {
        self.0.header("user-agent").to_vec()
    }

    fn describe(&self, what: Described, value: &[u8]) {
        self.0.set_metadata(what.word(), value);
    }
}

/// The host while a request is at hand.
pub(crate) struct Visited<'a, 'h> {
    pub(crate) host: &'a mut Host,
    pub(crate) client: Client<'h>,
}

impl SharedData for Visited<'_, '_> {
    type Value = Vec<u8>;

    fn get(&mut self, key: &str) -> Option<SharedValue<Vec<u8>>> {
        self.host.get(key)
    }

    fn set(&mut self, key: &str, value: &[u8], cas: u32) -> Result<(), CasMismatch> {
        self.host.set(key, value, cas)
    }
}

impl Streams for Visited<'_, '_> {
    const END_WITH_ROOT: bool = Host::END_WITH_ROOT;

    fn open(&mut self, cluster: &str, service: &str, method: &str) -> Option<StreamToken> {
        self.host.open(cluster, service, method)
    }

    fn send(&mut self, stream: StreamToken, message: &[u8]) -> bool {
        self.host.send(stream, message)
    }

    fn cancel(&mut self, stream: StreamToken) {
        self.host.cancel(stream);
    }
}

impl Log for Visited<'_, '_> {
    fn warn(&mut self, message: &str) {
        self.host.warn(message);
    }
}

impl Clients for Visited<'_, '_> {
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
