//! The section `redis` of the plugin configuration.

use super::written::{RedisMode, RedisSection};
use crate::resp::client::{Auth, ClientSettings, Mode};
use crate::resp::scan::Limits;
use edgelink_wire::backoff::Bounds;
use edgelink_wire::record::MAX_RECORD_LENGTH;
use edgelink_wire::settings::Problems;

/// The most bytes of an answer to a lookup: a record, and 2048 for everything else.
const LOOKUP_REPLY_BYTES: usize = MAX_RECORD_LENGTH + 2_048;

/// The most of an answer; an array has room for what an error or a newer server may bring along.
const LIMITS: Limits = Limits {
    bulk_bytes: LOOKUP_REPLY_BYTES as u32,
    array_elements: 64,
    reply_bytes: LOOKUP_REPLY_BYTES * 2,
};

/// How Redis is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// The name of the proxy's cluster that leads to the bridge.
    pub cluster: String,
    /// The connection for lookups.
    pub lookups: ClientSettings,
}

impl RedisSection {
    /// Checks what one value does not show.
    pub(super) fn check(&self, problems: &mut Problems) {
        if self.dead_after_millis < self.timeout_millis {
            problems.refuse("redis.deadAfterMs", "must be at least redis.timeoutMs");
        }
        if self.max_backoff_millis < self.backoff_millis {
            problems.refuse("redis.maxBackoffMs", "must be at least redis.backoffMs");
        }
        match (&self.user, &self.password) {
            (_, Some(_)) if self.mode == RedisMode::Pooled => {
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
}

impl From<RedisSection> for RedisSettings {
    fn from(section: RedisSection) -> Self {
        let user = section.user;
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
            limits: LIMITS,
            backoff: Bounds {
                first_millis: section.backoff_millis,
                cap_millis: section.max_backoff_millis,
            },
        };
        Self {
            cluster: section.cluster.0,
            lookups,
        }
    }
}

#[cfg(test)]
mod tests;
