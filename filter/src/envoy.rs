//! The host of the logic: the proxy, through the ABI.

use crate::abi::{self, Clock, HostBytes, Level, Map, MetricType};
use edgelink_filter_core::host::{
    CasMismatch, Clients, ConnectionToken, Log, Lookups, SharedData, SharedValue, address_of,
};
use edgelink_filter_core::metrics::{Metric, MetricKind, Metrics};
use edgelink_filter_core::resp::client::Mode;
use edgelink_filter_core::settings::{Described, RedisSettings};
use edgelink_filter_core::time::{Moment, WallClock};
use edgelink_wire::clicks;
use std::net::IpAddr;
use std::rc::Rc;

/// The proxy, as far as it can be called from any callback.
#[derive(Clone, Debug)]
pub(crate) struct Envoy {
    /// The proxy's number of each metric, by [`Metric::index`].
    metrics: Rc<[Option<u32>]>,
    /// The root context to which gRPC streams belong; `None` when the last one has ended.
    home: Option<u32>,
    /// The context of the current callback.
    current: u32,
}

impl Envoy {
    /// Defines the metrics. A metric that the proxy refuses is not counted; the rest works.
    pub(crate) fn new() -> Self {
        let define = |metric: Metric| {
            let kind = match metric.kind() {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
            };
            abi::define_metric(kind, &metric.name())
        };
        Self {
            metrics: Metric::all().map(define).collect(),
            home: None,
            current: 0,
        }
    }

    /// A callback for that context begins.
    pub(crate) fn enter(&mut self, context: u32) {
        self.current = context;
    }

    /// The root context to which gRPC streams belong.
    pub(crate) fn home(&self) -> Option<u32> {
        self.home
    }

    /// gRPC streams belong to that context from now on.
    pub(crate) fn set_home(&mut self, home: Option<u32>) {
        self.home = home;
    }

    /// Makes host calls in the home: the number of a stream is valid only in the context that opened it.
    fn at_home<R>(&self, act: impl FnOnce() -> R) -> Option<R> {
        let home = self.home?;
        if self.current == home {
            return Some(act());
        }
        abi::set_effective_context(home);
        let result = act();
        abi::set_effective_context(self.current);
        Some(result)
    }

    /// The moment at which this is called.
    pub(crate) fn now() -> Moment {
        Moment::from_millis(millis(Clock::Monotonic))
    }

    /// Reads the wall clock at `now`.
    pub(crate) fn wall_clock(now: Moment) -> WallClock {
        WallClock::new(now, millis(Clock::Realtime))
    }

    fn number(&self, metric: Metric) -> Option<u32> {
        *self.metrics.get(metric.index())?
    }
}

fn millis(clock: Clock) -> u64 {
    abi::time(clock) / 1_000_000
}

impl SharedData for Envoy {
    type Value = HostBytes;

    fn get(&mut self, key: &str) -> Option<SharedValue<HostBytes>> {
        let (value, cas) = abi::shared_data(key)?;
        Some(SharedValue { value, cas })
    }

    fn set(&mut self, key: &str, value: &[u8], cas: u32) -> Result<(), CasMismatch> {
        let written = abi::set_shared_data(key, value, cas);
        written.then_some(()).ok_or(CasMismatch)
    }
}

impl Lookups for Envoy {
    /// A gRPC stream to the bridge, whose routes go by the path `/redis/{method}`.
    fn open(&mut self, redis: &RedisSettings) -> Option<ConnectionToken> {
        let method = match redis.lookups.mode {
            Mode::Direct { .. } => "direct",
            Mode::Pooled => "pooled",
        };
        self.at_home(|| abi::grpc_stream(&redis.cluster, "redis", method))
            .flatten()
    }

    fn send(&mut self, connection: ConnectionToken, bytes: &[u8]) -> bool {
        self.at_home(|| abi::grpc_send(connection, bytes))
            .unwrap_or(false)
    }

    fn close(&mut self, connection: ConnectionToken) {
        self.at_home(|| abi::grpc_cancel(connection));
    }
}

/// The attribute with the client's address as determined by Envoy: from the connection, or from the trusted proxies in front
/// (`use_remote_address`, `xff_num_trusted_hops`). A header will not do: `x-envoy-external-address` is missing for private
/// addresses, and then a client may send one.
const CLIENT_ADDRESS: &str = "source\0address";

/// The attribute with the id of Envoy's node, which names the edge.
const NODE_ID: &str = "xds\0node\0id";

/// The name of the edge; `None` if the node has no id, or its id is no valid name.
pub(crate) fn edge_name() -> Option<Rc<str>> {
    let id = abi::property(NODE_ID)?;
    clicks::edge_name(&id).map(Rc::from)
}

impl Clients for Envoy {
    fn client_address(&self) -> Option<IpAddr> {
        let text = abi::property(CLIENT_ADDRESS)?;
        address_of(&text)
    }

    fn cookies(&self) -> Vec<u8> {
        let cookies = abi::header(Map::RequestHeaders, "cookie");
        cookies.map_or_else(Vec::new, |cookies| cookies.to_vec())
    }

    fn user_agent(&self) -> Vec<u8> {
        let user_agent = abi::header(Map::RequestHeaders, "user-agent");
        user_agent.map_or_else(Vec::new, |user_agent| user_agent.to_vec())
    }

    fn describe(&self, what: Described, value: &[u8]) {
        let name = match what {
            Described::Outcome => "edgelink.outcome",
            Described::Tier => "edgelink.tier",
            Described::Key => "edgelink.key",
        };
        abi::set_property(name, value);
    }
}

impl Metrics for Envoy {
    fn add(&mut self, metric: Metric, by: i64) {
        if let Some(number) = self.number(metric) {
            abi::increment_metric(number, by);
        }
    }

    fn record(&mut self, metric: Metric, value: u64) {
        if let Some(number) = self.number(metric) {
            abi::record_metric(number, value);
        }
    }
}

impl Log for Envoy {
    fn warn(&mut self, message: &str) {
        abi::log(Level::Warn, message);
    }
}
