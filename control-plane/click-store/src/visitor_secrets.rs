//! Reads, creates and removes the secrets of visitor tokens.

use super::secret_place::{SecretPlace, remove_files};
use crate::ClickStore;
use edgelink_database::classes::Class;
use edgelink_database::error::StoreError;
use edgelink_database::run;
use edgelink_database::sql::sql;
use edgelink_model::memory;
use edgelink_wire::clicks::visitor_keys::VisitorKeys;
use std::ops::RangeInclusive;
use std::sync::Arc;

const CONTEXT: &str = "reading the secrets of visitor tokens";

impl ClickStore {
    /// Reads the secrets of these days (unix time / 86400), and creates missing ones.
    pub async fn visitor_keys(
        &self,
        days: RangeInclusive<u64>,
    ) -> Result<Arc<VisitorKeys>, StoreError> {
        let (place, within) = (self.secrets.clone(), self.db.statement_timeout());
        let reading = move || memory::wiping(|| place.read(days, within).map(Arc::new));
        let read = tokio::task::spawn_blocking(reading).await;
        read.unwrap_or_else(|error| {
            Err(StoreError {
                context: CONTEXT,
                transient: true,
                source: error.into(),
            })
        })
    }

    /// Removes the secrets of the days before `today`. Returns their number.
    pub async fn forget_visitor_secrets(&self, today: u64) -> Result<u64, StoreError> {
        if let SecretPlace::Files(prefix) = &self.secrets {
            return remove_files(prefix, today).map_err(|error| StoreError {
                context: "removing secrets of visitor tokens",
                transient: true,
                source: error.into(),
            });
        }
        let call = self
            .write(
                "forget_visitor_secrets",
                "removing secrets of visitor tokens",
            )
            .of(Class::Background);
        let removed = run!(call, |session| {
            let remove = sql("DELETE FROM visitor_secrets WHERE day < ?").bind(today);
            session.autocommit(remove).await
        })?;
        if removed > 0 {
            self.rebuild_visitor_secrets().await;
        }
        Ok(removed)
    }

    /// Rewrites the table, because a deleted row stays in its page until another one replaces it.
    async fn rebuild_visitor_secrets(&self) {
        let call = self
            .write("rebuild_visitor_secrets", "rebuilding the table")
            .of(Class::Background);
        let rebuilt = run!(call, |session| {
            let rebuild = sql("ALTER TABLE visitor_secrets FORCE");
            session.autocommit(rebuild).await
        });
        if let Err(error) = rebuilt {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "failed to rebuild the table visitor_secrets; the last day's secret stays until the next one overwrites it"
            );
        }
    }
}
