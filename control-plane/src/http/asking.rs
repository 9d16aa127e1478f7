//! Questions about clicks: how many may be asked at once, and what is removed.

use super::app::App;
use super::auth::Caller;
use crate::analytics::{Engine, delete_clicks};
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use crate::store::{Actor, Entry};
use serde_json::json;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

/// How long a question waits for others to be answered.
const PATIENCE: Duration = Duration::from_secs(1);

/// The files of clicks that are sent at once; further ones are refused.
const MAX_EXPORTS: usize = 20;

/// The same of one tenant, and of one key.
const EXPORTS_OF_TENANT: usize = 4;
const EXPORTS_OF_KEY: usize = 2;

/// Those who have a part of something that is bounded, with how many parts they have.
#[derive(Clone, Default)]
pub(crate) struct Shares(Arc<Mutex<HashMap<String, usize>>>);

/// A part, until it is dropped.
pub(crate) struct Share {
    names: [String; 3],
    of: Shares,
}

impl Shares {
    /// A part for the caller, of which there are so many in all, for its tenant, and for its key.
    pub(crate) fn take(&self, caller: &Caller, most: [usize; 3]) -> Option<Share> {
        let names = [
            String::new(),
            format!("tenant {}", caller.tenant_id()),
            format!("key {}", caller.id()),
        ];
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room =
            |(name, most): (&String, usize)| taken.get(name).copied().unwrap_or_default() < most;
        if !names.iter().zip(most).all(has_room) {
            return None;
        }
        for name in &names {
            *taken.entry(name.clone()).or_default() += 1;
        }
        drop(taken);
        let of = self.clone();
        Some(Share { names, of })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in &self.names {
            if let Some(count) = taken.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    taken.remove(name);
                }
            }
        }
    }
}

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
    /// The engine, as soon as it answers fewer requests than it may.
    pub(crate) async fn ask(&self) -> Result<Asking<'_>, Problem> {
        let permit = timeout(PATIENCE, self.query_permits.acquire()).await;
        let permit = permit.ok().and_then(Result::ok);
        Ok(Asking {
            engine: self.engine.as_ref(),
            _permit: permit.ok_or_else(|| Problem::new(Kind::Overloaded))?,
        })
    }

    /// A file of clicks for the caller, unless as many are sent as may be.
    pub(crate) fn export(&self, caller: &Caller) -> Result<Share, Problem> {
        let most = [MAX_EXPORTS, EXPORTS_OF_TENANT, EXPORTS_OF_KEY];
        let share = self.exports.take(caller, most);
        share.ok_or_else(|| Problem::new(Kind::Overloaded))
    }

    /// Removes the clicks of a link, and its conversions; how many clicks there were.
    pub(crate) async fn delete_clicks(&self, link: &Link, actor: &Actor) -> Result<u64, Problem> {
        let (engine, key) = (self.ask().await?, link.key());
        let deleted = delete_clicks(&self.store, &*engine, &key, link.id, actor).await?;
        self.store.delete_conversions(link.id).await?;
        Ok(deleted)
    }

    /// Removes the orphan visits of the tenant; how many there were. The audit log has it first.
    pub(crate) async fn delete_orphans(&self, actor: &Actor) -> Result<u64, Problem> {
        let engine = self.ask().await?;
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
