//! Use cases of links. Each takes a caller and a typed request, decides whether the caller may do this, and returns the changes
//! that edges have yet to apply.

use super::caller::{Caller, Right};
use super::create_link::{CreateLink, CreateOutcome, Created, PutLink};
use super::creating::Creator;
use super::group_commit::ChangeCommit;
use super::link_patch::LinkPatch;
use super::moving::{Move, relocate};
use super::passwords::{NewPassword, Passwords};
use super::revisions::Revisions;
use super::seal::Seal;
use super::tenant_links::TenantLinks;
use crate::problem::{FieldError, Kind, Problem};
use edgelink_feed::resolve::KnownKeys;
use edgelink_feed::{Changed, Domains, Feed};
use edgelink_model::links::checked::{CheckedContent, CheckedRules};
use edgelink_model::links::model::Link;
use edgelink_numbers::Minter;
use edgelink_settings::config::Config;
pub use edgelink_store::VisitCounts;
use edgelink_store::{
    ChangeError, ChangeFn, ChangeOutcome, LinkChange, LinkMove, NewReport, Store,
};
use edgelink_wire::{FeedPosition, LinkKey, LinkState};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Attempts of `put` to find the link while other requests create, change and delete it.
const MAX_ROUNDS: usize = 5;

/// The use cases of links.
pub struct Links {
    pub(super) store: Arc<Store>,
    pub(super) creator: Creator,
    changes: ChangeCommit,
    pub(super) passwords: Arc<Passwords>,
    pub(super) feed: Arc<Feed>,
    /// Domains, kept up to date with the database.
    pub domains: Arc<Domains>,
    pub(super) config: Arc<Config>,
    /// See [`Links::seal`].
    pub(super) seal: OnceCell<Seal>,
}

/// The dependencies of the use cases of links.
pub struct LinksParts {
    /// Database of the links.
    pub store: Arc<Store>,
    /// Mints the codes of links without an alias.
    pub minter: Minter,
    /// Filters of existing keys, which spare queries of the database.
    pub known_keys: Arc<KnownKeys>,
    /// Hashes the passwords of links.
    pub passwords: Arc<Passwords>,
    /// Feed by which edges learn of changes.
    pub feed: Arc<Feed>,
    /// Domains, kept up to date with the database.
    pub domains: Arc<Domains>,
    /// Settings of this process.
    pub config: Arc<Config>,
}

/// The outcome of `put`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The link was created.
    Created,
    /// The link existed, and is now as requested.
    Changed,
}

impl Links {
    /// Creates the use cases of links from their dependencies.
    pub fn new(parts: LinksParts) -> Self {
        let LinksParts {
            store,
            minter,
            known_keys,
            passwords,
            feed,
            domains,
            config,
        } = parts;
        let tries = config.links.max_code_tries;
        Self {
            creator: Creator::new(store.clone(), minter, known_keys, &config.store, tries),
            changes: ChangeCommit::start(&store, &config.store),
            store,
            passwords,
            feed,
            domains,
            config,
            seal: OnceCell::new(),
        }
    }

    /// The settings of links, and the domains, for the tenant of a caller.
    pub fn of_tenant(&self, caller: &Caller) -> TenantLinks<'_> {
        TenantLinks::new(
            &self.config.links,
            self.domains.current(),
            caller.tenant_id(),
        )
    }

    /// Creates a link within the quota of the caller, or finds the one that fulfils the request.
    pub async fn create(
        &self,
        caller: &Caller,
        request: CreateLink,
    ) -> Result<Changed<Created>, Problem> {
        caller.require(Right::CreateLinks)?;
        self.hash(caller, request.new_password()).await?;
        self.create_hashed(caller, request.with_hash()).await
    }

    /// Hashes the password of a request, if it sets one.
    async fn hash(&self, caller: &Caller, password: Option<&NewPassword>) -> Result<(), Problem> {
        match password {
            Some(password) => self.passwords.hash(password, caller.claim()).await,
            None => Ok(()),
        }
    }

    async fn create_hashed(
        &self,
        caller: &Caller,
        request: CreateLink,
    ) -> Result<Changed<Created>, Problem> {
        let is_alias = request.alias.is_some();
        let from = self.feed.end();
        let made: CreateOutcome = self.create_within_quota(caller, request).await;
        let made = made?;
        // Edges answer an alias with 404 until the feed has carried it.
        let new = made.new_link().filter(|_| is_alias);
        Ok(Changed::since(from, new, made))
    }

    /// Creates the link with an external id, or changes it.
    pub async fn put(
        &self,
        caller: &Caller,
        mut request: PutLink,
    ) -> Result<Changed<(Put, Link)>, Problem> {
        caller.require(Right::ChangeLinks)?;
        self.hash(caller, request.create.new_password()).await?;
        request.create = request.create.with_hash();
        for _ in 0..MAX_ROUNDS {
            let id = &request.external_id;
            let found = self.store.find_by_external_id(caller.tenant_id(), id);
            let done = match found.await? {
                Some(link) => self.put_existing(caller, &request, link).await?,
                None => self.put_new(caller, &request).await?,
            };
            if let Some(done) = done {
                return Ok(done);
            }
        }
        Err(Problem::new(Kind::Overloaded).with_detail("others keep changing the link"))
    }

    /// Creates the link; `None` if another request did so meanwhile.
    async fn put_new(
        &self,
        caller: &Caller,
        request: &PutLink,
    ) -> Result<Option<Changed<(Put, Link)>>, Problem> {
        match self.create_hashed(caller, request.create.clone()).await {
            Err(problem) if problem.kind() == Kind::ExternalIdTaken => Ok(None),
            made => Ok(Some(made?.map(|made| (Put::Created, made.link)))),
        }
    }

    /// Changes the link, unless it is as requested already; `None` if another link has the external id meanwhile.
    async fn put_existing(
        &self,
        caller: &Caller,
        request: &PutLink,
        link: Link,
    ) -> Result<Option<Changed<(Put, Link)>>, Problem> {
        // The caller may not see this link.
        caller
            .check(&link)
            .map_err(|_| Problem::external_id_taken())?;
        request.check_place(&link)?;
        if *request
            .patch
            .apply(CheckedContent::existing(&link), caller)?
            == link.content
        {
            return Ok(Some(Changed::nothing((Put::Changed, link))));
        }
        let (id, patch, by) = (
            request.external_id.clone(),
            request.patch.clone(),
            caller.clone(),
        );
        let key = link.key();
        let change = move |link: &Link| {
            if link.content.external_id.as_ref() != Some(&id) {
                return Err(ChangeError::Changed);
            }
            patch.apply(CheckedContent::existing(link), &by)
        };
        let from = self.feed.end();
        match self.update(caller, &key, Revisions::any(), change).await? {
            Some(Ok(link)) => {
                let changed = changed(from, link);
                Ok(Some(changed.map(|link| (Put::Changed, link))))
            }
            None | Some(Err(ChangeError::Changed)) => Ok(None),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// The link, if it exists for the caller.
    pub async fn find(&self, caller: &Caller, key: &LinkKey) -> Result<Link, Problem> {
        caller.require(Right::ReadLinks)?;
        let link = self.store.find_link(key).await?;
        let link = link.filter(|link| caller.check(link).is_ok());
        link.ok_or_else(|| Problem::new(Kind::LinkNotFound))
    }

    /// The link, and the visits of one that has a limit.
    pub async fn find_with_visits(
        &self,
        caller: &Caller,
        key: &LinkKey,
    ) -> Result<(Link, Option<VisitCounts>), Problem> {
        let link = self.find(caller, key).await?;
        let visits = match link.content.details.max_visits {
            Some(_) => Some(self.store.find_visits(link.id).await?),
            None => None,
        };
        Ok((link, visits))
    }

    /// Changes a link that has one of the revisions.
    pub async fn change(
        &self,
        caller: &Caller,
        key: LinkKey,
        revisions: Revisions,
        patch: LinkPatch,
    ) -> Result<Changed<Link>, Problem> {
        caller.require(Right::ChangeLinks)?;
        self.hash(caller, patch.new_password()).await?;
        let by = caller.clone();
        let change = move |link: &Link| patch.apply(CheckedContent::existing(link), &by);
        self.replace(caller, key, revisions, change).await
    }

    /// Replaces the rules of a link that has one of the revisions.
    pub async fn set_rules(
        &self,
        caller: &Caller,
        key: LinkKey,
        revisions: Revisions,
        rules: CheckedRules,
    ) -> Result<Changed<Link>, Problem> {
        caller.require(Right::ChangeLinks)?;
        let change = move |link: &Link| {
            let mut content = CheckedContent::existing(link);
            content.set_rules(rules.clone());
            Ok(content)
        };
        self.replace(caller, key, revisions, change).await
    }

    async fn replace(
        &self,
        caller: &Caller,
        key: LinkKey,
        revisions: Revisions,
        change: impl Fn(&Link) -> Result<CheckedContent, ChangeError> + Send + Sync + 'static,
    ) -> Result<Changed<Link>, Problem> {
        let from = self.feed.end();
        let updated = self.update(caller, &key, revisions, change).await?;
        Ok(changed(from, outcome(updated)?))
    }

    async fn update(
        &self,
        caller: &Caller,
        key: &LinkKey,
        revisions: Revisions,
        change: impl Fn(&Link) -> Result<CheckedContent, ChangeError> + Send + Sync + 'static,
    ) -> Result<ChangeOutcome, Problem> {
        let actor = caller.actor();
        let caller = caller.clone();
        let change: ChangeFn = Box::new(move |link: &Link| {
            revisions.check(&caller, link)?;
            change(link)
        });
        let change = LinkChange::Update(change);
        Ok(self.changes.change(key.clone(), change, actor).await?)
    }

    /// Disables the link of a report. Operators of the installation disable links of any tenant; the code may belong to another
    /// link by now.
    pub(crate) async fn disable_reported(
        &self,
        caller: &Caller,
        report: &NewReport,
    ) -> Result<Changed<Link>, Problem> {
        caller.require(Right::Administer)?;
        let (actor, tenant_id) = (caller.actor(), report.tenant_id);
        let (key, caller) = (report.key.clone(), caller.clone());
        let change: ChangeFn = Box::new(move |link: &Link| {
            if link.tenant_id != tenant_id || !caller.is_operator() {
                caller.check(link)?;
            }
            let mut content = CheckedContent::existing(link);
            content.change_others(|others| others.state = LinkState::Disabled);
            Ok(content)
        });
        let from = self.feed.end();
        let change = LinkChange::Update(change);
        let updated = self.changes.change(key, change, actor).await?;
        Ok(changed(from, outcome(updated)?))
    }

    /// Deletes a link that has one of the revisions. Its code is free at once.
    pub async fn delete(
        &self,
        caller: &Caller,
        key: LinkKey,
        revisions: Revisions,
    ) -> Result<Changed<Link>, Problem> {
        caller.require(Right::ChangeLinks)?;
        let from = self.feed.end();
        let actor = caller.actor();
        let caller = caller.clone();
        let check = Box::new(move |link: &Link| revisions.check(&caller, link));
        let change = LinkChange::Delete(check);
        let deleted = self.changes.change(key, change, actor).await?;
        Ok(changed(from, outcome(deleted)?))
    }

    /// Restores a deleted link, with everything it had. Its targets are checked like the targets of a new link.
    pub async fn restore(
        self: &Arc<Self>,
        caller: &Caller,
        key: LinkKey,
        revisions: Revisions,
    ) -> Result<Changed<Link>, Problem> {
        caller.require(Right::ChangeLinks)?;
        let from = self.feed.end();
        let actor = caller.actor();
        let (links, caller) = (Arc::clone(self), caller.clone());
        let check = Box::new(move |link: &Link| {
            revisions.check(&caller, link)?;
            links.of_tenant(&caller).renewed(&link.content)
        });
        let restored = self.store.restore_link(&key, check, &actor).await?;
        Ok(changed(from, outcome(restored)?))
    }

    /// Moves a link to another code or domain.
    pub async fn relocate(
        self: &Arc<Self>,
        caller: &Caller,
        from_key: LinkKey,
        revisions: Revisions,
        request: Move,
    ) -> Result<Changed<Link>, Problem> {
        caller.require(Right::ChangeLinks)?;
        let to = request.to(&from_key);
        if to == from_key {
            let error = FieldError::new("customSlug", "must be another one, or domain must be");
            return Err(Problem::validation(vec![error]));
        }
        let keeps_old = request.keeps_old.unwrap_or(false);
        if keeps_old && caller.has_quota() {
            let detail = "a key with a quota cannot keep the old link";
            return Err(Problem::new(Kind::QuotaExhausted).with_detail(detail));
        }
        let from = self.feed.end();
        let (actor, scope) = (caller.actor(), caller.scope().clone());
        let (links, caller) = (Arc::clone(self), caller.clone());
        let check = Arc::new(move |link: &Link| {
            revisions.check(&caller, link)?;
            if keeps_old {
                // There is a new one beside it.
                links.of_tenant(&caller).renewed(&link.content)
            } else {
                Ok(CheckedContent::existing(link))
            }
        });
        let wanted = LinkMove {
            from: from_key,
            to,
            keeps_old,
        };
        let moved = relocate(&self.store, &self.creator, &wanted, (&actor, scope), check).await?;
        let changed: Vec<_> = moved
            .old
            .iter()
            .chain([&moved.link])
            .map(|link| (link.key(), link.rev))
            .collect();
        Ok(Changed::since(from, changed, moved.link))
    }
}

/// A link that was changed after `from`, which edges have yet to apply.
fn changed(from: FeedPosition, link: Link) -> Changed<Link> {
    Changed::since(from, [(link.key(), link.rev)], link)
}

/// The link of a change that has succeeded.
pub(super) fn outcome(changed: ChangeOutcome) -> Result<Link, Problem> {
    let changed = changed.ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
    Ok(changed?)
}
