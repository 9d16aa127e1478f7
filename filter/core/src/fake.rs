//! Fake host for the tests.

use crate::host::{
    CasMismatch, Clients, ConnectionToken, HashLookup, Log, Lookups, SLOT_PREFIX, SharedData,
    SharedValue,
};
use crate::metrics::{Metric, Metrics};
use crate::settings::{Described, RedisSettings, Settings};
use edgelink_wire::record::RecordBytes;
use edgelink_wire::{Entry, LinkAnswer, LinkRecord, Record};
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// A store like Envoy's: versions grow with every write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    values: BTreeMap<String, SharedValue<Vec<u8>>>,
    overtaken: bool,
    /// Number of refused writes.
    pub(crate) mismatches: usize,
}

impl Store {
    /// The next write finds that another worker was there first.
    pub(crate) fn overtake_next_write(&mut self) {
        self.overtaken = true;
    }

    /// The keys of slots.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let keys = self.values.keys().map(String::as_str);
        keys.filter(|key| key.starts_with(SLOT_PREFIX)).collect()
    }

    pub(crate) fn value(&self, key: &str) -> Option<Vec<u8>> {
        Some(self.values.get(key)?.value.clone())
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.values.remove(key);
    }

    pub(crate) fn put(&mut self, key: &str, value: &[u8]) {
        let cas = self.values.get(key).map_or(0, |value| value.cas) + 1;
        let value = value.to_vec();
        self.values
            .insert(key.to_owned(), SharedValue { value, cas });
    }
}

impl SharedData for Store {
    type Value = Vec<u8>;

    fn get(&mut self, key: &str) -> Option<SharedValue<Vec<u8>>> {
        self.values.get(key).cloned()
    }

    fn set(&mut self, key: &str, value: &[u8], cas: u32) -> Result<(), CasMismatch> {
        let is = self.values.get(key).map_or(0, |value| value.cas);
        if std::mem::take(&mut self.overtaken) || (cas != 0 && cas != is) {
            self.mismatches += 1;
            return Err(CasMismatch);
        }
        self.put(key, value);
        Ok(())
    }
}

/// Connections that lead nowhere, with a record of all calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wires {
    pub(crate) opened: Vec<String>,
    pub(crate) sent: Vec<(ConnectionToken, Vec<u8>)>,
    pub(crate) looked_up: Vec<(ConnectionToken, HashLookup)>,
    pub(crate) closed: Vec<ConnectionToken>,
    pub(crate) refuses: bool,
}

impl Lookups for Wires {
    fn open(&mut self, redis: &RedisSettings) -> Option<ConnectionToken> {
        if self.refuses {
            return None;
        }
        self.opened.push(redis.cluster.clone());
        u32::try_from(self.opened.len()).ok()
    }

    fn send(&mut self, connection: ConnectionToken, bytes: &[u8]) -> bool {
        if !self.refuses {
            self.sent.push((connection, bytes.to_vec()));
        }
        !self.refuses
    }

    fn look_up(&mut self, connection: ConnectionToken, lookup: HashLookup) -> bool {
        if !self.refuses {
            self.looked_up.push((connection, lookup));
        }
        !self.refuses
    }

    fn close(&mut self, connection: ConnectionToken) {
        self.closed.push(connection);
    }
}

/// A proxy: its store, and the calls that were made.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub(crate) store: Store,
    pub(crate) stats: HashMap<String, i64>,
    pub(crate) millis: Vec<u64>,
    pub(crate) log: Vec<String>,
    pub(crate) wires: Wires,
    /// The address of every client.
    pub(crate) client: Option<IpAddr>,
    /// The header `Cookie` of the current request.
    pub(crate) cookies: Vec<u8>,
    pub(crate) user_agent: Vec<u8>,
    /// The log attributes of requests.
    pub(crate) described: RefCell<Vec<String>>,
}

impl Clients for Host {
    fn client_address(&self) -> Option<IpAddr> {
        self.client
    }

    fn cookies(&self) -> Vec<u8> {
        self.cookies.clone()
    }

    fn user_agent(&self) -> Vec<u8> {
        self.user_agent.clone()
    }

    fn describe(&self, what: Described, value: &[u8]) {
        let text = format!("{} {}", what.word(), value.escape_ascii());
        self.described.borrow_mut().push(text);
    }
}

impl Lookups for Host {
    const HAS_CLIENT: bool = true;

    fn open(&mut self, redis: &RedisSettings) -> Option<ConnectionToken> {
        self.wires.open(redis)
    }

    fn send(&mut self, connection: ConnectionToken, bytes: &[u8]) -> bool {
        self.wires.send(connection, bytes)
    }

    fn look_up(&mut self, connection: ConnectionToken, lookup: HashLookup) -> bool {
        self.wires.look_up(connection, lookup)
    }

    fn close(&mut self, connection: ConnectionToken) {
        self.wires.close(connection);
    }
}

impl SharedData for Host {
    type Value = Vec<u8>;

    fn get(&mut self, key: &str) -> Option<SharedValue<Vec<u8>>> {
        self.store.get(key)
    }

    fn set(&mut self, key: &str, value: &[u8], cas: u32) -> Result<(), CasMismatch> {
        self.store.set(key, value, cas)
    }
}

impl Metrics for Host {
    fn add(&mut self, metric: Metric, by: i64) {
        *self.stats.entry(metric.name()).or_default() += by;
    }

    fn record(&mut self, metric: Metric, value: u64) {
        assert_eq!(metric, Metric::CalloutMillis);
        self.millis.push(value);
    }
}

impl Log for Host {
    fn warn(&mut self, message: &str) {
        self.log.push(message.to_owned());
    }
}

pub(crate) fn hasher() -> SeedableRandomState {
    SeedableRandomState::with_seed(7, SharedSeed::global_fixed())
}

/// Defaults, with tiers shown.
pub(crate) fn settings() -> Settings {
    settings_with("")
}

/// [`settings`] with more JSON fields, each with a comma in front.
pub(crate) fn settings_with(more: &str) -> Settings {
    let json = format!(
        r#"{{"domains":["go.example","[::1]:80"],"tierHeader":true,
            "controlPlane":{{"cluster":"cp","servers":["http://cp.test:80"],"token":"t","maxPending":5,"maxWaiting":7}}{more}}}"#
    );
    Settings::parse(json.as_bytes()).unwrap()
}

/// An ordinary link: 302, active, valid for ever, with the query forwarded.
pub(crate) fn link(url: &str, rev: u64) -> Record<&str> {
    Record::Link(LinkRecord::ordinary(url, rev))
}

/// An encoded record, which is never freed.
pub(crate) fn encoded(record: &Record<&str>) -> RecordBytes<&'static [u8]> {
    RecordBytes::new(record, record.to_bytes().leak())
}

/// An encoded entry.
pub(crate) fn entry(key: &str, record: Record<&str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let key = key.as_bytes();
    Entry { key, record }.encode(&mut bytes);
    bytes
}

/// An answer of the control plane, from the database.
pub(crate) fn answer(key: &str, record: Record<&str>) -> Vec<u8> {
    aged(key, record, 0)
}

/// An answer of the control plane that is `age_millis` old.
pub(crate) fn aged(key: &str, record: Record<&str>, age_millis: u64) -> Vec<u8> {
    let answer = LinkAnswer {
        age_millis,
        key: key.as_bytes(),
        record: &record.to_bytes(),
    };
    answer.to_bytes()
}
