//! Questions about clicks: how many may be asked at once, and what is removed.

use super::app::App;
use crate::analytics::{Engine, delete_clicks};
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use crate::store::{Actor, Entry};
use serde_json::json;
use std::ops::Deref;
use tokio::sync::SemaphorePermit;

/// The files of clicks that are sent at once; further ones are refused.
pub(super) const MAX_EXPORTS: usize = 4;

/// The engine, for one request.
pub(crate) struct Asking<'a> {
    engine: &'a dyn Engine,
    _permit: SemaphorePermit<'a>,
}

impl<'a> Deref for Asking<'a> {
    type Target = dyn Engine + 'a;

    fn deref(&self) -> &Self::Target {
        self.engine
    }
}

impl App {
    /// The engine, unless it answers as many requests as it may.
    pub(crate) fn ask(&self) -> Result<Asking<'_>, Problem> {
        let permit = self.query_permits.try_acquire();
        let permit = permit.map_err(|_| Problem::new(Kind::Overloaded))?;
        Ok(Asking {
            engine: self.engine.as_ref(),
            _permit: permit,
        })
    }

    /// Removes the clicks of a link, and its conversions; how many clicks there were.
    pub(crate) async fn delete_clicks(&self, link: &Link, actor: &Actor) -> Result<u64, Problem> {
        let (engine, key) = (self.ask()?, link.key());
        let deleted = delete_clicks(&self.store, &*engine, &key, link.id, actor).await?;
        self.store.delete_conversions(link.id).await?;
        Ok(deleted)
    }

    /// Removes the orphan visits of the tenant; how many there were. The audit log has it first.
    pub(crate) async fn delete_orphans(&self, actor: &Actor) -> Result<u64, Problem> {
        let engine = self.ask()?;
        let entry = Entry {
            actor,
            action: "orphans.delete",
            subject: "orphans".to_owned(),
            detail: json!({}),
        };
        self.store.append_audit(&entry).await?;
        Ok(engine.delete_orphans(actor.tenant_id).await?)
    }
}
