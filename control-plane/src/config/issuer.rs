//! Where numbers come from.

use super::error::Checks;
use super::{LinksConfig, Secret};
use crate::numbers::{ZookeeperAuth, snowflake};
use serde::Deserialize;
use std::time::Duration;

/// Where numbers come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct IssuerConfig {
    /// `segment`, `counter`, `zookeeper`, `snowflake` or `digest`. Default `segment`. All control planes of one database
    /// must have the same. `snowflake` needs `links.code_length = 10`; `counter` takes no `links.code_key`.
    pub source: NumberSourceKind,
    /// How many numbers are drawn from the database at once, 1 to 1,000,000: for `counter` always, for `segment` at first
    /// and at least. Default 1,000. More means fewer round trips, and more numbers lost when the process is killed.
    pub step: u32,
    /// To how many numbers a draw of `segment` grows while one lasts for less than 15 minutes, `step` to 100,000,000.
    /// Default 100,000. A killed process loses up to twice as many.
    pub max_step: u32,
    /// How long the lease of an issuer lasts (`segment`), in seconds, 3 to 3,600; it is renewed three times as often.
    /// Default 60. The issuer of a killed process is free again after that time; there are 1,000.
    pub lease_seconds: u64,
    /// The servers of ZooKeeper, `host:port,host:port/chroot`. Default none; needed for the source `zookeeper`.
    pub zookeeper_servers: Option<String>,
    /// The znode that holds the next number. Default `/edgelink/next`. It is made where it is missing and there are no
    /// links yet.
    pub zookeeper_path: String,
    /// Who we are to ZooKeeper, `scheme:credentials`, for example `digest:user:password`. The znodes that we make belong to
    /// that identity alone; those that are there keep what they have. Default none: every client of that ZooKeeper may
    /// change ours.
    pub zookeeper_auth: Option<Secret>,
    /// How many numbers are drawn from ZooKeeper at once, 1 to 100,000,000. Default 100,000.
    pub zookeeper_range: u32,
}

/// Which source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumberSourceKind {
    /// Segments of 1,000 logical issuers in the database.
    #[default]
    Segment,
    /// One counter in the database: 0, 1, 2, ...
    Counter,
    /// Ranges out of a znode.
    Zookeeper,
    /// Time, worker and sequence.
    Snowflake,
    /// MurmurHash3 over domain, target, owner and salt.
    Digest,
}

impl Default for IssuerConfig {
    fn default() -> Self {
        Self {
            source: NumberSourceKind::default(),
            step: 1_000,
            max_step: 100_000,
            lease_seconds: 60,
            zookeeper_servers: None,
            zookeeper_path: "/edgelink/next".to_owned(),
            zookeeper_auth: None,
            zookeeper_range: 100_000,
        }
    }
}

impl IssuerConfig {
    pub(super) fn check(&self, links: &LinksConfig, checks: &mut Checks) {
        checks.range("issuer.step", self.step, &(1..=1_000_000));
        let most = self.step..=100_000_000;
        checks.range("issuer.max_step", self.max_step, &most);
        checks.range("issuer.lease_seconds", self.lease_seconds, &(3..=3_600));
        checks.range(
            "issuer.zookeeper_range",
            self.zookeeper_range,
            &(1..=100_000_000),
        );
        let path = &self.zookeeper_path;
        if !path.starts_with('/') || path.ends_with('/') || path.contains("//") {
            checks.refuse(
                "issuer.zookeeper_path",
                format!("is '{path}', must be like '/edgelink/next'"),
            );
        }
        if self.zookeeper_auth.is_some() && self.zookeeper_auth().is_none() {
            checks.refuse(
                "issuer.zookeeper_auth",
                "must be a scheme and its credentials, for example digest:user:password",
            );
        }
        self.check_source(links, checks);
    }

    /// Who we are to ZooKeeper.
    pub(crate) fn zookeeper_auth(&self) -> Option<ZookeeperAuth> {
        ZookeeperAuth::parse(self.zookeeper_auth.as_ref()?.expose())
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }

    fn check_source(&self, links: &LinksConfig, checks: &mut Checks) {
        let reason = match self.source {
            NumberSourceKind::Zookeeper if self.zookeeper_servers.is_none() => {
                "is 'zookeeper', which needs issuer.zookeeper_servers".to_owned()
            }
            NumberSourceKind::Snowflake if links.code_length != snowflake::CODE_LENGTH => format!(
                "is 'snowflake', whose numbers need links.code_length = {} (it is {})",
                snowflake::CODE_LENGTH,
                links.code_length
            ),
            NumberSourceKind::Counter if links.code_key.is_some() => {
                "is 'counter', whose codes are plain: remove links.code_key, or take 'segment'"
                    .to_owned()
            }
            _ => return,
        };
        checks.refuse("issuer.source", reason);
    }
}
