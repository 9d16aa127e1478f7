//! Named leases: work that one replica does at a time. Times are by the database's clock.

use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::StoreError;
use edgelink_database::run;
use edgelink_database::sql::sql;

/// The longest lease, in milliseconds. A lease that ends later was written by a clock that was ahead, and counts as expired.
pub const MAX_LEASE_MILLIS: u64 = 60_000;

impl Store {
    /// Takes or renews the lease with this name. `false` if another owner has it.
    pub async fn take_lease(
        &self,
        name: &str,
        owner: &str,
        duration_millis: u64,
    ) -> Result<bool, StoreError> {
        run!(
            self.write("take_lease", "taking a lease")
                .of(Class::Control),
            |session| {
                let now = session.dialect().now_millis;
                let take = sql(format!(
                    "UPDATE leases SET owner = ?, lease_until = {now} + ? \
                 WHERE name = ? AND (owner = ? OR lease_until <= {now} OR lease_until > {now} + ?)"
                ));
                let take = take
                    .bind(owner)
                    .bind(duration_millis)
                    .bind(name)
                    .bind(owner)
                    .bind(MAX_LEASE_MILLIS);
                Ok(session.autocommit(take).await? > 0)
            }
        )
    }

    /// Releases a lease before it expires, if `owner` has it.
    pub async fn release_lease(&self, name: &str, owner: &str) -> Result<(), StoreError> {
        let call = self
            .write("release_lease", "releasing a lease")
            .of(Class::Control);
        run!(call, |session| {
            let release = sql("UPDATE leases SET lease_until = 0 WHERE name = ? AND owner = ?");
            let release = release.bind(name).bind(owner);
            session.autocommit(release).await.map(drop)
        })
    }
}
