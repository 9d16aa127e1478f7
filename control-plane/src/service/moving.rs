//! Moving links: the new place takes a number of its own.

use super::creating::Creator;
use super::order::{CreateFailure, Order};
use crate::links::checked::CheckedContent;
use crate::links::model::{History, Link};
use crate::problem::{Kind, Problem};
use crate::store::{Actor, ChangeError, LinkMove, MoveError, Moved, Store};
use crate::tenancy::{FIRST_USER, Scope};
use std::sync::Arc;

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
    let order = Order {
        domain: wanted.to.domain.clone(),
        alias: Some(wanted.to.code.clone()),
        content: CheckedContent::existing(&link),
        owner: actor.key_id.clone(),
        owner_id: actor.user_id.unwrap_or(FIRST_USER),
        scope,
        history: History::default(),
        number: None,
        find_if_exists: false,
        receipt: None,
    };
    for attempt in 0..creator.max_tries() {
        let number = creator.number(&order, attempt.into()).await?;
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
