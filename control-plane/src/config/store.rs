//! The database.

use super::Secret;
use super::error::Checks;
use crate::creation::BatchOptions;
use serde::Deserialize;
use std::time::Duration;

/// What a commit may take beyond the time of its slowest statement, before its callers are told that it failed.
const GRACE: Duration = Duration::from_millis(300);

/// The database.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct StoreConfig {
    /// `sqlite:///absolute/path.db`, `sqlite://relative/path.db` or `mysql://user:password@host:port/database`. Default
    /// `sqlite://edgelink.db`: a file in the working directory, made when it is missing. Several control planes need
    /// MySQL. Its certificate is checked with `?ssl-mode=VERIFY_IDENTITY` behind the URL, against `&ssl-ca=` where the
    /// system does not know who has issued it; by default TLS is used where the server offers it, without a check.
    pub url: Secret,
    /// Whether `serve` brings the schema up to date before it starts. Default true. With false a schema that is not up to
    /// date shows as errors of the database; run `edgelink migrate` first.
    pub auto_migrate: bool,
    /// How many connections to the database may be open, 1 to 1,000. Default 16.
    pub max_connections: u32,
    /// How long one call of the database may take, in milliseconds, 50 to 60,000. Default 1,500. What takes longer is
    /// given up and answered 503; it may have happened nevertheless.
    pub timeout_ms: u64,
    /// How many links may wait for their commit, 1 to 1,000,000. Default 4,096. One more is answered 503 at once. Links
    /// that wait are committed together.
    pub create_queue: usize,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: Secret::new("sqlite://edgelink.db"),
            auto_migrate: true,
            max_connections: 16,
            timeout_ms: 1_500,
            create_queue: 4_096,
        }
    }
}

impl StoreConfig {
    pub(super) fn check(&self, checks: &mut Checks) {
        let url = self.url.expose();
        if !url.starts_with("sqlite:") && !url.starts_with("mysql:") {
            checks.refuse(
                "store.url",
                "must start with 'sqlite://' or 'mysql://', for example sqlite:///var/lib/edgelink/edgelink.db",
            );
        }
        checks.range("store.max_connections", self.max_connections, &(1..=1_000));
        checks.range("store.timeout_ms", self.timeout_ms, &(50..=60_000));
        checks.range("store.create_queue", self.create_queue, &(1..=1_000_000));
    }

    /// How links wait for their commit: in the worst case through the one before theirs, which ends in time, and no
    /// longer than that.
    pub(crate) fn batches(&self) -> BatchOptions {
        BatchOptions {
            queue: self.create_queue,
            patience: self.timeout() + GRACE,
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}
