//! Moving links. The link gets another number at its new key.

use super::caller::Caller;
use super::create_link::{CreateFailure, CreateLink};
use super::creating::Creator;
use super::fields::Fields;
use super::request::request;
use super::tenant_links::TenantLinks;
use super::values;
use crate::problem::{Kind, Problem};
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::{History, Link};
use edgelink_model::tenancy::{FIRST_USER, Scope};
use edgelink_store::{Actor, ChangeError, LinkMove, MoveError, Moved, Store};
use edgelink_wire::{Code, Domain, LinkKey};
use serde_json::{Map, Value};
use std::sync::Arc;

request! {
    /// Where a link is to be: another code, another domain, or both.
    #[schema(example = json!({ "customSlug": "autumn-sale", "keepOld": false }))]
    pub struct Move(links: &TenantLinks<'_>) {
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        "customSlug" code: optional Code as String = |value| values::alias(value, links);
        #[schema(format = "short-domain")]
        "domain" domain: optional Domain as String = values::domain_name;
        /// Whether the old link goes on redirecting; by default false.
        "keepOld" keeps_old: optional bool as bool = values::flag;
    }
}

impl Move {
    /// Reads a request to move the link of `old`, which may have links on the new domain.
    ///
    /// # Errors
    /// A problem that names each wrong field.
    pub fn checked(
        object: Map<String, Value>,
        old: &LinkKey,
        caller: &Caller,
        links: &TenantLinks<'_>,
    ) -> Result<Self, Problem> {
        let mut fields = Fields::new(object);
        let request = Self::of(&mut fields, links);
        let asked_for = request.as_ref().and_then(|request| request.domain.clone());
        let domain = values::place(&mut fields, asked_for, &old.domain, caller, links);
        fields.finish()?;
        let request = request.ok_or_else(|| Problem::new(Kind::Internal))?;
        Ok(Self {
            domain: Some(domain),
            ..request
        })
    }

    /// The new key of the link of `old`.
    pub(super) fn to(&self, old: &LinkKey) -> LinkKey {
        let code = self.code.clone().unwrap_or_else(|| old.code.clone());
        let domain = self.domain.clone().unwrap_or_else(|| old.domain.clone());
        LinkKey::new(domain, code)
    }
}

/// The content that a link has at its new place, if it may be moved.
pub(crate) type MoveCheck = Arc<dyn Fn(&Link) -> Result<CheckedContent, ChangeError> + Send + Sync>;

/// Moves a link on behalf of `actor`, if `check` allows it.
pub(crate) async fn relocate(
    store: &Store,
    creator: &Creator,
    wanted: &LinkMove,
    (actor, scope): (&Actor, Arc<Scope>),
    check: MoveCheck,
) -> Result<Moved, Problem> {
    let missing = || Problem::new(Kind::LinkNotFound);
    let link = store.find_link(&wanted.from).await?.ok_or_else(missing)?;
    let request = CreateLink {
        domain: wanted.to.domain.clone(),
        alias: Some(wanted.to.code.clone()),
        content: CheckedContent::existing(&link),
        password: None,
        owner: actor.key_id.clone(),
        owner_id: actor.user_id.unwrap_or(FIRST_USER),
        scope,
        history: History::default(),
        number: None,
        find_if_exists: false,
        receipt: None,
    };
    for attempt in 0..creator.max_tries() {
        let number = creator.number(&request, attempt.into()).await?;
        let check = Arc::clone(&check);
        let moved = store.move_link(wanted, number, Box::new(move |link| check(link)), actor);
        match moved.await?.ok_or_else(missing)? {
            Ok(moved) => return Ok(moved),
            Err(MoveError::Refused(error)) => return Err(error.into()),
            Err(MoveError::CodeTaken) => return Err(CreateFailure::AliasTaken.into()),
            Err(MoveError::DomainGone) => return Err(CreateFailure::DomainGone.into()),
            Err(MoveError::NumberTaken) => {}
        }
    }
    Err(CreateFailure::CodesTaken(creator.max_tries().into()).into())
}
