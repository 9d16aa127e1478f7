//! The environment variables of a process, which override the configuration file.

use edgelink_wire::settings::{Kind, Problems, Setting};
use std::collections::BTreeMap;
use std::fmt;
use toml::{Table, Value};

/// The prefix of all variables.
const PREFIX: &str = "EDGELINK_";

/// Variables of the command line and of the scripts around Envoy, which are no settings.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "ACCESS_LOG", "ADMIN_PORT", "API2_PORT", "API_KEY", "API_PORT", "API_URL", "BRIDGE_WASM", "CALLOUT_TIMEOUT_MS", "CLICKS", "CONFIG",
    "CONTROL_PLANES", "DOMAINS", "DRAIN_SECONDS", "EDGE_ADDRESS", "EDGE_PORT", "EDGE_TOKEN", "EDGE_TOKEN_FILE", "FEED",
    "FRESH_SECONDS", "HEAP_BYTES", "LRU_BYTES", "MARIADB_PORT", "MAX_CONNECTIONS", "PLUGIN", "REDIS", "REDIS_PASSWORD", "REDIS_PORT",
    "REDIS_SERVERS", "REDIS_USER", "STALE_SECONDS", "STATE_DIR", "TIER_HEADER", "TRUSTED_HOPS", "WASM", "WORKERS",
];
const OTHER_PREFIXES: &[&str] = &["ENVOY", "TEST_", "EVERY_"];

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
fn parse(text: &str, kind: Kind) -> Option<Value> {
    match kind {
        Kind::Number => text.parse().ok().map(Value::Integer),
        Kind::Bool => text.parse().ok().map(Value::Boolean),
        Kind::List => {
            let items = text.split(',').map(str::trim).map(Value::from);
            Some(Value::Array(items.collect()))
        }
        Kind::Text | Kind::Section => Some(Value::from(text)),
    }
}

/// Shows the names alone: some of the values are secrets.
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

/// Sets a field. A section of the file that is no table stays, so that reading the configuration refuses it by its name.
fn put(table: &mut Table, section: &str, field: String, value: Value) {
    let section = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(section) = section {
        section.insert(field, value);
    }
}
