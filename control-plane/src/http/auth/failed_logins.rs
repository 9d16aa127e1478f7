//! Logins to the console that failed, gathered until they are written.

use crate::latest::Latest;
use crate::store::{FailedAccount, FailedSum, Store};
use crate::telemetry::LogThrottle;
use crate::tenancy::FIRST_TENANT;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long they wait until they are written. A process that is killed loses so much.
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);

/// The most accounts of which some wait. Those of further ones are lost; each account has had its tries before.
const MAX_WAITING: usize = 10_000;

/// How a login failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginFailure {
    /// Name, password, key, or what a provider says, are not right.
    Wrong,
    /// There were too many tries.
    Refused,
}

/// Logins that failed since they were written last.
pub(crate) struct FailedLogins {
    store: Arc<Store>,
    sums: Latest<FailedAccount, FailedSum>,
}

impl FailedLogins {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            sums: Latest::new(MAX_WAITING),
        }
    }

    /// Notes a login that failed.
    pub(crate) fn note(&self, account: FailedAccount, how: LoginFailure, address: IpAddr) {
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
            tracing::warn!(tenant_id, user_id, %address, ?how, suppressed, "a login to the console fails; the audit log counts them");
        }
    }

    /// Writes them every few seconds, for ever.
    pub(crate) async fn keep_writing(&self) {
        loop {
            tokio::time::sleep(FLUSH_INTERVAL).await;
            self.write().await;
        }
    }

    /// Writes them now. Those that cannot be written wait for the next time.
    pub(crate) async fn write(&self) {
        static LOG: LogThrottle = LogThrottle::new();
        for (account, sum) in self.sums.take() {
            match self.store.note_failed_logins(account, sum).await {
                Ok(true) => {}
                // The tenant of a database that went back.
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
                        tracing::warn!(%error, suppressed, "logins that failed are not in the audit log: they are written later");
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
