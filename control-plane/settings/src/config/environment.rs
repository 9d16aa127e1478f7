//! The environment variables of a process, which override the configuration file.

use edgelink_wire::settings::{Problems, Setting, ValueKind};
use std::collections::BTreeMap;
use std::fmt;
use toml::{Table, Value};

/// The prefix of all variables.
const PREFIX: &str = "EDGELINK_";

/// Variables of the command line and of the scripts around Envoy and nginx, which are no settings.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "ACCESS_LOG", "ADMIN_PORT", "API2_PORT", "API_DOMAINS", "API_KEY", "API_PORT", "API_URL", "BRIDGE_WASM",
    "CALLOUT_TIMEOUT_MS", "CANARIES", "CANARY_PERCENT", "CERTIFICATE", "CERTIFICATE_KEY", "CITY_HEADER", "CLICKHOUSE_PORT",
    "CLICKS", "CLIENT_CERTIFICATE", "CLIENT_KEY", "CONFIG", "CONTROL_PLANES", "CONTROL_PLANE_CA", "CONTROL_PLANE_NAME",
    "COUNTRY_HEADER", "DESCRIBE", "DOMAINS", "DRAIN_SECONDS", "EDGES", "EDGE_ADDRESS", "EDGE_PORT", "EDGE_TOKEN",
    "EDGE_TOKEN_FILE", "FEED", "FILTER", "FRESH_SECONDS", "HEAP_BYTES", "HSTS_SECONDS", "HTTPS_PORT", "HTTP_PORT", "LRU_BYTES",
    "MARIADB_PORT", "MAX_CONNECTIONS", "METRICS_ADDRESS", "METRICS_PORT", "NATIVE", "NGINX_MODULE", "OBSERVE", "OTLP", "PAGES", "PLUGIN", "PREFIX",
    "PROMETHEUS_PORT", "PROXIES", "PUBLIC_PAGES", "RATE_BURST", "RATE_PER_SECOND", "REDIS", "REDIS_CA", "REDIS_NAME",
    "REDIS_PASSWORD", "REDIS_PASSWORD_FILE", "REDIS_PORT", "REDIS_SENTINEL", "REDIS_SERVERS", "REDIS_USER", "RENDER_MOUNTED",
    "RENDER_PLACE", "STALE_SECONDS", "STATE_DIR", "TIER_HEADER", "TOKEN_IN_PLUGIN", "TRACE_PARENTS", "TRACE_PERCENT", "TRAILING_SLASH", "TRUSTED_HOPS",
    "UNKNOWN_CODES", "WASM", "WORKERS",
];
const OTHER_PREFIXES: &[&str] = &["ENVOY", "FRONT_", "TEST_", "EVERY_"];

/// Former and current prefixes of variables, with their common suffixes.
#[rustfmt::skip]
const RENAMED: &[(&str, &str, &[&str])] = &[
    ("", "SERVER_", &[
        "LISTEN", "MAX_BODY_BYTES", "MAX_BULK_BODY_BYTES", "MAX_BULK_REQUESTS", "HEALTH_CONNECTIONS", "WRITE_TIMEOUT_MS",
        "HEADER_TIMEOUT_MS", "BODY_TIMEOUT_MS", "REQUEST_TIMEOUT_MS", "SHUTDOWN_DELAY_MS", "SHUTDOWN_GRACE_MS",
    ]),
    ("API_", "SERVER_", &["MAX_CONNECTIONS", "MAX_REQUESTS", "MAX_CONNECTIONS_PER_ADDRESS"]),
    ("", "STORE_", &["AUTO_MIGRATE", "CREATE_QUEUE"]),
    ("DATABASE_", "STORE_", &["URL", "TIMEOUT_MS"]),
    ("DATABASE_CONNECTIONS", "STORE_MAX_CONNECTIONS", &[""]),
    ("", "PUBLISHER_", &["BOUND_ROOM"]),
    ("RELAY_", "PUBLISHER_", &["POLL_MS", "LEASE_MS", "HEARTBEAT_MS", "BATCH"]),
    ("", "FEED_", &["ALIAS_WAIT_MS"]),
    ("", "CLICKS_", &["HOT_COUNT", "HOT_WINDOW_MINUTES", "HOT_PERIOD_MS"]),
    ("", "LINKS_", &[
        "DOMAINS", "UNKNOWN_HOSTS", "SHORT_URL_SCHEME", "CODE_LENGTH", "CODE_KEY", "CODE_KEY_FILE", "MAX_CODE_TRIES",
    ]),
    ("", "NUMBERS_", &["ZOOKEEPER_SERVERS", "ZOOKEEPER_PATH", "ZOOKEEPER_RANGE", "ZOOKEEPER_AUTH"]),
    ("ISSUER_", "NUMBERS_", &["SOURCE", "STEP", "MAX_STEP", "LEASE_SECONDS"]),
    ("", "AUTH_", &["EDGE_TOKEN_FILE", "ADMIN_KEY_FILE", "KEY_CACHE_MS", "KEY_CACHE_ENTRIES"]),
    ("EDGE_TOKEN", "AUTH_EDGE_TOKENS", &[""]),
    ("KEY_MAX_LOOKUPS", "AUTH_MAX_KEY_LOOKUPS", &[""]),
    ("", "PURGE_", &["TOMBSTONE_DAYS"]),
    ("SWEEP_", "PURGE_", &["INTERVAL_SECONDS", "GRACE_SECONDS", "BATCH"]),
    ("LOG", "LOG_FILTER", &[""]),
    ("NOT_FOUND_PAGE", "PAGES_NOT_FOUND", &[""]),
    ("GONE_PAGE", "PAGES_GONE", &[""]),
    ("UNAVAILABLE_PAGE", "PAGES_UNAVAILABLE", &[""]),
];

/// Former and current names of renamed variables.
pub(super) fn renamed() -> impl Iterator<Item = (String, String)> {
    RENAMED.iter().flat_map(|(old, new, ends)| {
        let name = |begin: &str, end: &str| format!("{PREFIX}{begin}{end}");
        ends.iter().map(move |end| (name(old, end), name(new, end)))
    })
}

/// The variable of a setting.
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) section: String,
    pub(super) setting: Setting,
}

impl Variable {
    /// The variables of the settings in `sections`.
    pub(super) fn of(sections: Vec<Setting>) -> impl Iterator<Item = Self> {
        sections.into_iter().flat_map(|section| {
            let of = section.name;
            section.fields.into_iter().map(move |setting| Self {
                name: format!("{PREFIX}{of}_{}", setting.name).to_ascii_uppercase(),
                section: of.clone(),
                setting,
            })
        })
    }
}

/// The variables whose names start with `EDGELINK_`. Empty ones count as unset: deployment tools set an empty
/// variable for a missing value.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The variables of this process. One that is not UTF-8 gets replacement characters, and is refused later.
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

    /// Names with the prefix that belong neither to a setting nor to the scripts.
    pub(super) fn unknown(
        &self,
        known: impl Iterator<Item = Variable>,
    ) -> impl Iterator<Item = &str> {
        let known: Vec<String> = known.map(|variable| variable.name).collect();
        self.0.keys().map(String::as_str).filter(move |name| {
            let rest = &name[PREFIX.len()..];
            !known.iter().any(|variable| variable == name)
                && !OTHERS.contains(&rest)
                && !OTHER_PREFIXES.iter().any(|prefix| rest.starts_with(prefix))
        })
    }

    /// Refuses former names whose successor is not set: a control plane that ignored them would run with defaults, even with another
    /// database. Beside its successor a former name may belong to the scripts around Envoy.
    pub(super) fn refuse_renamed(&self, problems: &mut Problems) {
        for (old, new) in renamed() {
            if self.0.contains_key(&old) && !self.0.contains_key(&new) {
                problems.refuse(old, format!("is now {new}"));
            }
        }
    }

    /// Overrides the values of the file.
    pub(super) fn overlay(
        &self,
        known: impl Iterator<Item = Variable>,
        table: &mut Table,
        problems: &mut Problems,
    ) {
        for variable in known {
            let setting = variable.setting;
            let Some(text) = self.0.get(&variable.name) else {
                continue;
            };
            match parse(text, setting.kind) {
                Some(value) => put(table, &variable.section, setting.name, value),
                None => {
                    let must = setting.kind.words();
                    problems.refuse(variable.name, format!("is '{text}', must be {must}"));
                }
            }
        }
    }
}

/// Reads the text of a variable; a list is separated by commas.
fn parse(text: &str, kind: ValueKind) -> Option<Value> {
    match kind {
        ValueKind::Number => text.parse().ok().map(Value::Integer),
        ValueKind::Bool => text.parse().ok().map(Value::Boolean),
        ValueKind::List => {
            let items = text.split(',').map(str::trim).map(Value::from);
            Some(Value::Array(items.collect()))
        }
        ValueKind::Text | ValueKind::Section => Some(Value::from(text)),
    }
}

/// Shows the names only: some of the values are secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
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

/// Sets a field. A section of the file that is no table is left unchanged, so that reading the configuration refuses it by name.
fn put(table: &mut Table, section: &str, field: String, value: Value) {
    let section = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(section) = section {
        section.insert(field, value);
    }
}
