//! Failed logins to the console, gathered until they are written.

use edgelink_model::latest::Latest;
use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_store::{FailedAccount, FailedSum, Store};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time until failed logins are written. A process that is killed loses the logins of this time.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);

/// Limit on the accounts with waiting failures. The failures of further accounts are lost; their tries are limited nevertheless.
const MAX_WAITING: usize = 10_000;

/// The kind of failure of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFailure {
    /// Name, password, key, or the answer of a provider, was wrong.
    Wrong,
    /// There were too many tries.
    Refused,
}

/// Failed logins that are not written yet.
pub struct FailedLogins {
    store: Arc<Store>,
    sums: Latest<FailedAccount, FailedSum>,
}

impl FailedLogins {
    /// Creates an empty set, which [`FailedLogins::keep_writing`] writes to `store`.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            sums: Latest::new(MAX_WAITING),
        }
    }

    /// Notes a failed login.
    pub fn note(&self, account: FailedAccount, how: LoginFailure, address: IpAddr) {
        static LOG: LogThrottle = LogThrottle::new();
        let count = |is: LoginFailure| u64::from(is == how);
        let sum = FailedSum {
            wrong: count(LoginFailure::Wrong),
            refused: count(LoginFailure::Refused),
            address,
        };
        self.sums.note(&account, sum, add);
        if let Some(suppressed) = LOG.admit(Instant::now()) {
            let FailedAccount { tenant_id, user_id } = account;
            tracing::warn!(tenant_id, user_id, %address, ?how, suppressed, "console login failed; the audit log counts failed logins");
        }
    }

    /// Writes the failed logins every few seconds, forever.
    pub async fn keep_writing(&self) {
        loop {
            tokio::time::sleep(FLUSH_INTERVAL).await;
            self.write().await;
        }
    }

    /// Writes the failed logins now. If that fails, they wait for the next time.
    pub async fn write(&self) {
        static LOG: LogThrottle = LogThrottle::new();
        for (account, sum) in self.sums.take() {
            match self.store.note_failed_logins(account, sum).await {
                Ok(true) => {}
                // The tenant is gone: an older backup of the database was restored.
                Ok(false) => {
                    let account = FailedAccount {
                        tenant_id: FIRST_TENANT,
                        user_id: None,
                    };
                    self.sums.note(&account, sum, add);
                }
                Err(error) => {
                    self.sums.note(&account, sum, add);
                    if let Some(suppressed) = LOG.admit(Instant::now()) {
                        tracing::warn!(%error, suppressed, "failed to write failed logins to the audit log; retrying");
                    }
                }
            }
        }
    }
}

fn add(earlier: &mut FailedSum, later: FailedSum) {
    *earlier = FailedSum {
        wrong: earlier.wrong.saturating_add(later.wrong),
        refused: earlier.refused.saturating_add(later.refused),
        address: later.address,
    };
}
