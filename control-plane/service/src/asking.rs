//! Queries of clicks, a bounded number at once, and the deletion of clicks.

use super::caller::{Caller, Right};
use super::links::Links;
use crate::problem::Problem;
use edgelink_click_store::Conversion;
use edgelink_clicks::analytics::{Engine, RawClick, delete_clicks};
use edgelink_settings::admission::{Admission, Permit};
use edgelink_settings::config::Config;
use edgelink_store::{Entry, Store, StoreError};
use edgelink_wire::LinkKey;
use edgelink_wire::click_id::ClickId;
use serde_json::json;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait of a query for its turn.
const PATIENCE: Duration = Duration::from_secs(1);

/// Conversions by the ids of their clicks.
pub type Conversions = HashMap<ClickId, Vec<Conversion>>;

/// The engine, for one request.
pub struct Asking<'a> {
    engine: &'a dyn Engine,
    _permit: Permit,
}

impl<'a> Deref for Asking<'a> {
    type Target = dyn Engine + 'a;

    fn deref(&self) -> &Self::Target {
        self.engine
    }
}

/// Queries of clicks, and their deletion.
pub struct Analytics {
    pub(super) store: Arc<Store>,
    engine: Arc<dyn Engine>,
    questions: Admission,
    exports: Admission,
    pub(super) links: Arc<Links>,
    pub(super) config: Arc<Config>,
}

impl Analytics {
    /// Queries within the bounds of `questions`, and files within the bounds of `exports`.
    pub fn new(
        engine: Arc<dyn Engine>,
        (questions, exports): (Admission, Admission),
        links: &Arc<Links>,
    ) -> Self {
        Self {
            store: Arc::clone(&links.store),
            engine,
            questions,
            exports,
            config: Arc::clone(&links.config),
            links: Arc::clone(links),
        }
    }

    /// The engine, as soon as it answers fewer requests than it may.
    pub async fn ask(&self, caller: &Caller) -> Result<Asking<'_>, Problem> {
        let deadline = Instant::now() + PATIENCE;
        Ok(Asking {
            engine: self.engine.as_ref(),
            _permit: self.questions.take(caller.claim(), deadline).await?,
        })
    }

    /// Returns the conversions of clicks that have an id.
    pub async fn conversions_of(&self, clicks: &[RawClick]) -> Result<Conversions, StoreError> {
        let ids = clicks.iter().filter_map(|click| click.described.id);
        self.store
            .clicks()
            .conversions_of(&ids.collect::<Vec<_>>())
            .await
    }

    /// A permit to export clicks for the caller, unless the limit of exports is reached.
    pub fn export(&self, caller: &Caller) -> Result<Permit, Problem> {
        Ok(self.exports.try_take(caller.claim())?)
    }

    /// Removes the clicks of a link, and its conversions. Returns the number of clicks.
    pub async fn delete_clicks(&self, caller: &Caller, key: &LinkKey) -> Result<u64, Problem> {
        caller.require(Right::ChangeLinks)?;
        let link = self.links.find(caller, key).await?;
        let engine = self.ask(caller).await?;
        let actor = caller.actor();
        let deleted = delete_clicks(&self.store, &*engine, key, link.id, &actor).await?;
        self.store.clicks().delete_conversions(link.id).await?;
        Ok(deleted)
    }

    /// Removes the orphan visits of the tenant and returns their number. The audit log has the removal first.
    pub async fn delete_orphans(&self, caller: &Caller) -> Result<u64, Problem> {
        caller.require(Right::Administer)?;
        let engine = self.ask(caller).await?;
        let actor = caller.actor();
        let entry = Entry {
            actor: &actor,
            action: "orphans.delete",
            subject: "orphans".to_owned(),
            detail: json!({}),
        };
        self.store.append_audit(&entry).await?;
        Ok(engine.delete_orphans(actor.tenant_id).await?)
    }
}
