//! Environment variables and the fields that they stand for.

use super::error::{Checks, ConfigError};
use std::collections::BTreeMap;
use toml::{Table, Value};

const PREFIX: &str = "EDGELINK_";

/// How the text of a variable becomes a value.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Bool,
    /// Separated by commas.
    List,
}

/// Every variable with its field. A test holds it complete.
const VARIABLES: &[(&str, &str, &str, Kind)] = &[
    ("EDGELINK_LISTEN", "server", "listen", Kind::Text),
    (
        "EDGELINK_MAX_BODY_BYTES",
        "server",
        "max_body_bytes",
        Kind::Number,
    ),
    (
        "EDGELINK_MAX_BULK_BODY_BYTES",
        "server",
        "max_bulk_body_bytes",
        Kind::Number,
    ),
    (
        "EDGELINK_MAX_BULK_REQUESTS",
        "server",
        "max_bulk_requests",
        Kind::Number,
    ),
    (
        "EDGELINK_API_MAX_CONNECTIONS",
        "server",
        "max_connections",
        Kind::Number,
    ),
    (
        "EDGELINK_API_MAX_REQUESTS",
        "server",
        "max_requests",
        Kind::Number,
    ),
    (
        "EDGELINK_HEADER_TIMEOUT_MS",
        "server",
        "header_timeout_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_BODY_TIMEOUT_MS",
        "server",
        "body_timeout_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_REQUEST_TIMEOUT_MS",
        "server",
        "request_timeout_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_SHUTDOWN_DELAY_MS",
        "server",
        "shutdown_delay_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_SHUTDOWN_GRACE_MS",
        "server",
        "shutdown_grace_ms",
        Kind::Number,
    ),
    ("EDGELINK_DATABASE_URL", "store", "url", Kind::Text),
    ("EDGELINK_AUTO_MIGRATE", "store", "auto_migrate", Kind::Bool),
    (
        "EDGELINK_DATABASE_CONNECTIONS",
        "store",
        "max_connections",
        Kind::Number,
    ),
    (
        "EDGELINK_DATABASE_TIMEOUT_MS",
        "store",
        "timeout_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_CREATE_QUEUE",
        "store",
        "create_queue",
        Kind::Number,
    ),
    ("EDGELINK_REDIS_URL", "redis", "url", Kind::Text),
    (
        "EDGELINK_REDIS_TIMEOUT_MS",
        "redis",
        "timeout_ms",
        Kind::Number,
    ),
    ("EDGELINK_RELAY_POLL_MS", "relay", "poll_ms", Kind::Number),
    ("EDGELINK_RELAY_LEASE_MS", "relay", "lease_ms", Kind::Number),
    (
        "EDGELINK_RELAY_HEARTBEAT_MS",
        "relay",
        "heartbeat_ms",
        Kind::Number,
    ),
    ("EDGELINK_RELAY_BATCH", "relay", "batch", Kind::Number),
    ("EDGELINK_BOUND_ROOM", "relay", "bound_room", Kind::Number),
    (
        "EDGELINK_FEED_STREAM_LENGTH",
        "feed",
        "stream_length",
        Kind::Number,
    ),
    ("EDGELINK_FEED_ENTRIES", "feed", "entries", Kind::Number),
    ("EDGELINK_FEED_BYTES", "feed", "bytes", Kind::Number),
    (
        "EDGELINK_FEED_MAX_WAIT_MS",
        "feed",
        "max_wait_ms",
        Kind::Number,
    ),
    ("EDGELINK_FEED_MAX_POLLS", "feed", "max_polls", Kind::Number),
    (
        "EDGELINK_ALIAS_WAIT_MS",
        "feed",
        "alias_wait_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_ALIAS_SETTLE_MS",
        "feed",
        "alias_settle_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_RESOLVE_CACHE_BYTES",
        "resolve",
        "cache_bytes",
        Kind::Number,
    ),
    (
        "EDGELINK_RESOLVE_CACHE_MS",
        "resolve",
        "cache_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_RESOLVE_LOCK_MS",
        "resolve",
        "lock_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_RESOLVE_LOCK_WAIT_MS",
        "resolve",
        "lock_wait_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_RESOLVE_MAX_LOOKUPS",
        "resolve",
        "max_lookups",
        Kind::Number,
    ),
    ("EDGELINK_HOT_COUNT", "clicks", "hot_count", Kind::Number),
    (
        "EDGELINK_HOT_WINDOW_MINUTES",
        "clicks",
        "hot_window_minutes",
        Kind::Number,
    ),
    (
        "EDGELINK_HOT_PERIOD_MS",
        "clicks",
        "hot_period_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_CLICKS_KEEP_MINUTES",
        "clicks",
        "keep_minutes",
        Kind::Number,
    ),
    ("EDGELINK_DOMAINS", "links", "domains", Kind::List),
    (
        "EDGELINK_SHORT_URL_SCHEME",
        "links",
        "short_url_scheme",
        Kind::Text,
    ),
    ("EDGELINK_CODE_LENGTH", "links", "code_length", Kind::Number),
    ("EDGELINK_CODE_KEY", "links", "code_key", Kind::Text),
    (
        "EDGELINK_CODE_KEY_FILE",
        "links",
        "code_key_file",
        Kind::Text,
    ),
    (
        "EDGELINK_MAX_CODE_TRIES",
        "links",
        "max_code_tries",
        Kind::Number,
    ),
    ("EDGELINK_ISSUER_SOURCE", "issuer", "source", Kind::Text),
    ("EDGELINK_ISSUER_STEP", "issuer", "step", Kind::Number),
    (
        "EDGELINK_ISSUER_MAX_STEP",
        "issuer",
        "max_step",
        Kind::Number,
    ),
    (
        "EDGELINK_ISSUER_LEASE_SECONDS",
        "issuer",
        "lease_seconds",
        Kind::Number,
    ),
    (
        "EDGELINK_ZOOKEEPER_SERVERS",
        "issuer",
        "zookeeper_servers",
        Kind::Text,
    ),
    (
        "EDGELINK_ZOOKEEPER_PATH",
        "issuer",
        "zookeeper_path",
        Kind::Text,
    ),
    (
        "EDGELINK_ZOOKEEPER_RANGE",
        "issuer",
        "zookeeper_range",
        Kind::Number,
    ),
    ("EDGELINK_EDGE_TOKEN", "auth", "edge_tokens", Kind::List),
    (
        "EDGELINK_EDGE_TOKEN_FILE",
        "auth",
        "edge_token_file",
        Kind::Text,
    ),
    (
        "EDGELINK_ADMIN_KEY_FILE",
        "auth",
        "admin_key_file",
        Kind::Text,
    ),
    (
        "EDGELINK_KEY_CACHE_MS",
        "auth",
        "key_cache_ms",
        Kind::Number,
    ),
    (
        "EDGELINK_KEY_CACHE_ENTRIES",
        "auth",
        "key_cache_entries",
        Kind::Number,
    ),
    (
        "EDGELINK_SWEEP_INTERVAL_SECONDS",
        "sweeper",
        "interval_seconds",
        Kind::Number,
    ),
    (
        "EDGELINK_SWEEP_GRACE_SECONDS",
        "sweeper",
        "grace_seconds",
        Kind::Number,
    ),
    (
        "EDGELINK_TOMBSTONE_DAYS",
        "sweeper",
        "tombstone_days",
        Kind::Number,
    ),
    ("EDGELINK_SWEEP_BATCH", "sweeper", "batch", Kind::Number),
    ("EDGELINK_LOG", "log", "filter", Kind::Text),
    ("EDGELINK_LOG_FORMAT", "log", "format", Kind::Text),
    ("EDGELINK_NOT_FOUND_PAGE", "pages", "not_found", Kind::Text),
    ("EDGELINK_GONE_PAGE", "pages", "gone", Kind::Text),
    (
        "EDGELINK_UNAVAILABLE_PAGE",
        "pages",
        "unavailable",
        Kind::Text,
    ),
];

/// Variables of the command line and of the scripts around Envoy, which are not ours to judge.
const OTHERS: &[&str] = &[
    "EDGELINK_ACCESS_LOG",
    "EDGELINK_ADMIN_PORT",
    "EDGELINK_API2_PORT",
    "EDGELINK_API_KEY",
    "EDGELINK_API_PORT",
    "EDGELINK_API_URL",
    "EDGELINK_BRIDGE_WASM",
    "EDGELINK_CALLOUT_TIMEOUT_MS",
    "EDGELINK_CLICKS",
    "EDGELINK_CONFIG",
    "EDGELINK_CONTROL_PLANES",
    "EDGELINK_EDGE_ADDRESS",
    "EDGELINK_EDGE_PORT",
    "EDGELINK_FEED",
    "EDGELINK_FRESH_SECONDS",
    "EDGELINK_HEAP_BYTES",
    "EDGELINK_LRU_BYTES",
    "EDGELINK_MARIADB_PORT",
    "EDGELINK_MAX_CONNECTIONS",
    "EDGELINK_PLUGIN",
    "EDGELINK_REDIS",
    "EDGELINK_REDIS_PASSWORD",
    "EDGELINK_REDIS_PORT",
    "EDGELINK_REDIS_SERVERS",
    "EDGELINK_REDIS_USER",
    "EDGELINK_STALE_SECONDS",
    "EDGELINK_STATE_DIR",
    "EDGELINK_TIER_HEADER",
    "EDGELINK_TRUSTED_HOPS",
    "EDGELINK_WASM",
    "EDGELINK_WORKERS",
];
const OTHER_PREFIXES: &[&str] = &["EDGELINK_ENVOY", "EDGELINK_TEST_", "EDGELINK_EVERY_"];

/// The variables whose names start with `EDGELINK_`. Empty ones count as unset, for that is what deployment tools make of
/// a value that nobody gave.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process. One that is not UTF-8 is taken with replacement characters, and so refused later.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .map(|(name, value)| {
                let text = |part: std::ffi::OsString| part.to_string_lossy().into_owned();
                (text(name), text(value))
            })
            .collect()
    }

    /// All of them, by name.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Names that look like ours and that nothing reads. They are worth a warning and no more: Kubernetes itself sets
    /// `EDGELINK_SERVICE_HOST` and the like for a service named edgelink.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| {
            !VARIABLES.iter().any(|(known, ..)| known == name)
                && !OTHERS.contains(name)
                && !OTHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        })
    }

    /// Puts the values over those of the file.
    pub(super) fn put_over(&self, table: &mut Table) -> Result<(), ConfigError> {
        let mut checks = Checks::default();
        for (name, section, field, kind) in VARIABLES {
            let Some(text) = self.0.get(*name) else {
                continue;
            };
            match value(text, *kind) {
                Ok(value) => put(table, section, field, value),
                Err(expected) => checks.refuse(name, format!("is '{text}', must be {expected}")),
            }
        }
        checks.into_result()
    }

    #[cfg(test)]
    pub(super) fn fields() -> impl Iterator<Item = (&'static str, &'static str)> {
        VARIABLES
            .iter()
            .map(|(_, section, field, _)| (*section, *field))
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let ours = variables
            .into_iter()
            .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty());
        Self(ours.collect())
    }
}

fn value(text: &str, kind: Kind) -> Result<Value, &'static str> {
    match kind {
        Kind::Text => Ok(Value::String(text.to_owned())),
        Kind::Number => text
            .parse()
            .map(Value::Integer)
            .map_err(|_| "a whole number"),
        Kind::Bool => text
            .parse()
            .map(Value::Boolean)
            .map_err(|_| "true or false"),
        Kind::List => {
            let items = text.split(',').map(str::trim).map(Value::from);
            Ok(Value::Array(items.collect()))
        }
    }
}

/// A section of the file that is no table stays, so that reading the configuration refuses it by its name.
fn put(table: &mut Table, section: &str, field: &str, value: Value) {
    let section = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(section) = section {
        section.insert(field.to_owned(), value);
    }
}
