//! The section `redis` of the plugin configuration.

use super::tls::{Tls, TlsFiles};
use super::written::{HeaderText, RedisMode, RedisSection};
use crate::resp::client::{Auth, ClientSettings, Mode};
use crate::resp::scan::Limits;
use edgelink_wire::backoff::Bounds;
use edgelink_wire::record::MAX_RECORD_LENGTH;
use edgelink_wire::settings::Problems;

/// Maximum length of an answer to a lookup, in bytes: a record, and 2048 for everything else.
const LOOKUP_REPLY_BYTES: usize = MAX_RECORD_LENGTH + 2_048;

/// Limits of an answer; an array has room for additions of a newer server.
const LIMITS: Limits = Limits {
    bulk_bytes: LOOKUP_REPLY_BYTES as u32,
    array_elements: 64,
    reply_bytes: LOOKUP_REPLY_BYTES * 2,
};

/// Maximum number of servers.
const MAX_SERVERS: usize = 64;

/// Access to Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// The name of the proxy's cluster that leads to the bridge.
    pub cluster: String,
    /// The connection for lookups.
    pub lookups: ClientSettings,
    /// The servers, for a host that connects to them by itself.
    pub servers: Servers,
}

/// The servers that a host without a bridge connects to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// Each with its port.
    pub addresses: Vec<String>,
    /// The name of the master, if these are Sentinels.
    pub sentinel: Option<String>,
    /// Settings of TLS; `None` without it.
    pub tls: Option<Tls>,
    /// The user for AUTH.
    pub user: Option<String>,
    /// The file with the password for AUTH, if that is not in [`RedisSettings::lookups`].
    pub password_file: Option<String>,
}

impl RedisSection {
    /// Checks values against each other.
    pub(super) fn check(&self, problems: &mut Problems) {
        if self.dead_after_millis < self.timeout_millis {
            problems.refuse("redis.deadAfterMs", "must be at least redis.timeoutMs");
        }
        if self.max_backoff_millis < self.backoff_millis {
            problems.refuse("redis.maxBackoffMs", "must be at least redis.backoffMs");
        }
        self.check_servers(problems);
        let password_file = self.password_file.as_ref().map(|file| &file.0);
        match (&self.user, self.password.as_ref().or(password_file)) {
            (_, Some(_)) if self.mode == RedisMode::Pooled && self.password.is_some() => {
                let must = "must be left out: in mode pooled Envoy authenticates";
                problems.refuse("redis.password", must);
            }
            (_, Some(password)) if password.is_empty() => {
                problems.refuse("redis.password", "must be at least one character long");
            }
            (Some(_), None) => {
                problems.refuse("redis.user", "must be given together with redis.password");
            }
            _ => {}
        }
    }

    fn tls_files(&self) -> TlsFiles<'_> {
        TlsFiles {
            ca: self.ca_file.as_ref(),
            server_name: self.server_name.as_ref(),
            certificate: self.certificate_file.as_ref(),
            key: self.key_file.as_ref(),
        }
    }

    fn check_servers(&self, problems: &mut Problems) {
        let is_address = |server: &HeaderText| {
            let parts = server.0.rsplit_once(':');
            parts.is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        if self.servers.len() > MAX_SERVERS || !self.servers.iter().all(is_address) {
            let must = "must be a list of at most 64 servers, each as host:port";
            problems.refuse("redis.servers", must);
        }
        self.tls_files().check("redis", problems);
        if self.sentinel.is_some() && self.mode == RedisMode::Pooled {
            problems.refuse("redis.sentinel", "must be left out with redis.mode pooled");
        }
        if self.password.is_some() && self.password_file.is_some() {
            let must = "must be left out with redis.password";
            problems.refuse("redis.passwordFile", must);
        }
    }
}

impl From<RedisSection> for RedisSettings {
    fn from(section: RedisSection) -> Self {
        let text = |text: Option<HeaderText>| text.map(|text| text.0);
        let tls = section.tls_files().read();
        let user = section.user;
        let servers = Servers {
            addresses: section.servers.into_iter().map(|server| server.0).collect(),
            tls,
            sentinel: text(section.sentinel),
            user: user.clone(),
            password_file: text(section.password_file),
        };
        let mode = match section.mode {
            RedisMode::Direct => Mode::Direct {
                auth: section.password.map(|password| Auth { user, password }),
                name: section.client_name.0,
                database: section.database,
            },
            RedisMode::Pooled => Mode::Pooled,
        };
        let lookups = ClientSettings {
            mode,
            connect_timeout_millis: section.connect_timeout_millis,
            timeout_millis: section.timeout_millis,
            dead_after_millis: section.dead_after_millis,
            max_waiting: section.max_pending,
            max_unanswered_bytes: section.max_buffered_bytes,
            max_batch: section.max_batch,
            is_flushed: false,
            has_client: false,
            limits: LIMITS,
            backoff: Bounds {
                first_millis: section.backoff_millis,
                cap_millis: section.max_backoff_millis,
            },
        };
        Self {
            cluster: section.cluster.0,
            lookups,
            servers,
        }
    }
}

#[cfg(test)]
mod tests;
