//! Use cases of many links at once, each with an outcome of its own.

use super::answer_room::{AnswerRoom, no_room};
use super::caller::{Caller, Right};
use super::create_link::{CreateLink, CreateOutcome};
use super::idempotency::{RequestId, WholeRequest};
use super::link_patch::LinkPatch;
use super::links::{Links, outcome};
use super::passwords::{MAX_PER_REQUEST, NewPassword, Passwords};
use super::request::request;
use super::revisions::Revisions;
use super::tenant_links::TenantLinks;
use super::values;
use crate::problem::{Kind, Problem};
use edgelink_feed::Changed;
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::Link;
use edgelink_settings::admission::Claim;
use edgelink_store::{Actor, LinkChange};
use edgelink_wire::{Code, Domain, LinkKey};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Limit on the number of links one transaction changes.
const CHUNK: usize = 500;

request! {
    /// A patch of the link that it names.
    #[schema(example = json!({ "shortCode": "summer-sale", "title": "Summer is over" }))]
    pub struct NamedPatch(links: &TenantLinks<'_>) {
        /// The code or alias.
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        "shortCode" code: required Code as String = values::slug;
        /// The domain of the link; by default the first of this shortener.
        #[schema(format = "short-domain")]
        "domain" domain: optional Domain as String = |value| values::domain(value, links);
        /// Entity tags, or `*`: the link is changed only if it has one of them.
        #[schema(format = "entity-tags")]
        "ifMatch" if_match: optional String as String = values::string;
        ..patch: LinkPatch(links);
    }
}

request! {
    /// A link that is to be deleted.
    #[schema(example = json!({ "shortCode": "summer-sale" }))]
    pub struct NamedLink(links: &TenantLinks<'_>) {
        /// The code or alias.
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        "shortCode" code: required Code as String = values::slug;
        /// The domain of the link; by default the first of this shortener.
        #[schema(format = "short-domain")]
        "domain" domain: optional Domain as String = |value| values::domain(value, links);
        /// Entity tags, or `*`: the link is deleted only if it has one of them.
        #[schema(format = "entity-tags")]
        "ifMatch" if_match: optional String as String = values::string;
    }
}

/// A change, with the key of the link.
pub struct NamedChange {
    key: LinkKey,
    change: LinkChange,
    /// The password that it sets.
    password: Option<NewPassword>,
}

/// A changed link, as far as it is needed until the answer.
pub struct ChangedLink {
    key: LinkKey,
    rev: u64,
    /// The link; `None` if it was deleted, or the answer has no room for it.
    pub shown: Option<Link>,
}

/// The outcome of one of many changes.
pub type ChangedOutcome = Result<ChangedLink, Problem>;

impl NamedChange {
    /// Reads a patch of the link that it names.
    ///
    /// # Errors
    /// A problem that names each wrong field.
    pub fn read_patch(
        object: Map<String, Value>,
        links: &TenantLinks<'_>,
        caller: &Caller,
    ) -> Result<Self, Problem> {
        let NamedPatch {
            code,
            domain,
            if_match,
            patch,
        } = NamedPatch::read(object, links)?;
        let password = patch.new_password().cloned();
        let (key, revisions) = named((code, domain, if_match), links);
        let caller = caller.clone();
        let change = Box::new(move |link: &Link| {
            revisions.check(&caller, link)?;
            patch.apply(CheckedContent::existing(link), &caller)
        });
        Ok(Self {
            key,
            change: LinkChange::Update(change),
            password,
        })
    }

    /// Reads the deletion of the link that it names.
    ///
    /// # Errors
    /// A problem that names each wrong field.
    pub fn read_deletion(
        object: Map<String, Value>,
        links: &TenantLinks<'_>,
        caller: &Caller,
    ) -> Result<Self, Problem> {
        let NamedLink {
            code,
            domain,
            if_match,
        } = NamedLink::read(object, links)?;
        let (key, revisions) = named((code, domain, if_match), links);
        let caller = caller.clone();
        let check = Box::new(move |link: &Link| revisions.check(&caller, link));
        Ok(Self {
            key,
            change: LinkChange::Delete(check),
            password: None,
        })
    }
}

/// Reads the links that a request wants to create, one by one, and takes their room in the answer.
pub struct NewLinks<F> {
    id: Option<RequestId>,
    whole: WholeRequest,
    room: AnswerRoom,
    read: F,
}

impl<F: FnMut(Map<String, Value>) -> Result<CreateLink, Problem>> NewLinks<F> {
    /// Begins to read the links of a request with that id, each by `read`.
    pub fn new(id: Option<RequestId>, room: AnswerRoom, read: F) -> Self {
        Self {
            id,
            whole: WholeRequest::default(),
            room,
            read,
        }
    }

    /// Reads the item at `index`.
    ///
    /// # Errors
    /// A problem that names each wrong field, or that the answer has no room.
    pub fn add(&mut self, index: usize, value: Value) -> Result<CreateLink, Problem> {
        if let Some(id) = &self.id {
            self.whole.add(id, &value);
        }
        let item = object(value).and_then(|object| {
            let id = self.id.as_ref();
            let receipt = id.map(|id| id.receipt_at(index, &object));
            Ok((self.read)(object)?.with_receipt(receipt))
        });
        self.room.admit(item, CreateLink::content)
    }

    /// Takes the id of the request. Returns the room that the answer has beside the items.
    ///
    /// # Errors
    /// A problem if another request had the id, or the store's.
    pub async fn claim(self, links: &Links) -> Result<AnswerRoom, Problem> {
        if let Some(id) = &self.id {
            id.claim(&links.store, self.whole).await?;
        }
        Ok(self.room)
    }
}

/// Returns the object of an item.
pub fn object(value: Value) -> Result<Map<String, Value>, Problem> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Problem::new(Kind::Validation).with_detail("the item must be an object")),
    }
}

/// Limit on the number of items of one request.
pub const MAX_ITEMS: usize = 10_000;

/// The problem of a request with more items than [`MAX_ITEMS`].
pub fn too_many_items() -> Problem {
    Problem::new(Kind::BodyTooLarge)
        .with_detail(format!("a request may have at most {MAX_ITEMS} items"))
}

fn check_number<T>(items: &[T]) -> Result<(), Problem> {
    if items.len() > MAX_ITEMS {
        return Err(too_many_items());
    }
    Ok(())
}

impl Links {
    /// Creates links within the quota of the caller. Items refused before keep their problems.
    pub async fn create_many(
        &self,
        caller: &Caller,
        requests: Vec<Result<CreateLink, Problem>>,
    ) -> Result<Changed<Vec<CreateOutcome>>, Problem> {
        caller.require(Right::CreateLinks)?;
        check_number(&requests)?;
        let requests = self.hash_all(caller, requests).await;
        let is_alias = |item: &Result<CreateLink, _>| {
            let item = item.as_ref();
            item.is_ok_and(|request| request.alias.is_some())
        };
        let are_aliases: Vec<bool> = requests.iter().map(is_alias).collect();
        let from = self.feed.end();
        let run = async |requests: Vec<CreateLink>, by: Deadlines| {
            self.create_many_within_quota(caller, &requests, by.begin, by.end)
                .await
        };
        let outcomes = carry_out(requests, self.time_limit(), run).await?;
        let aliases = outcomes.iter().zip(are_aliases).filter(|(_, is)| *is);
        let created = aliases.filter_map(|(outcome, _)| outcome.as_ref().ok()?.new_link());
        let created: Vec<_> = created.collect();
        Ok(Changed::since(from, created, outcomes))
    }

    /// Changes or deletes links. Links for which the answer has no room are left out of the outcomes.
    pub async fn change_many(
        &self,
        caller: &Caller,
        mut changes: Vec<Result<NamedChange, Problem>>,
        mut room: AnswerRoom,
    ) -> Result<Changed<Vec<ChangedOutcome>>, Problem> {
        caller.require(Right::ChangeLinks)?;
        check_number(&changes)?;
        let setter = caller.claim();
        hash_all(
            &self.passwords,
            &mut changes,
            |change| change.password.as_ref(),
            &setter,
        )
        .await;
        let changes = changes.into_iter();
        let changes = changes.map(|item| item.map(|change| (change.key, change.change)));
        let from = self.feed.end();
        let actor = caller.actor();
        let run = async |changes: Vec<(LinkKey, LinkChange)>, by: Deadlines| {
            let mut made: Vec<ChangedOutcome> = Vec::with_capacity(changes.len());
            for chunk in changes.chunks(CHUNK) {
                if Instant::now() >= by.begin {
                    break;
                }
                if !room.is_open() {
                    made.resize_with(changes.len(), || Err(no_room()));
                    break;
                }
                made.extend(self.change_chunk(chunk, &actor, &mut room).await);
            }
            made
        };
        let outcomes = carry_out(changes.collect(), self.time_limit(), run).await?;
        let changed = outcomes.iter().flatten();
        let changed: Vec<_> = changed.map(|link| (link.key.clone(), link.rev)).collect();
        Ok(Changed::since(from, changed, outcomes))
    }

    async fn change_chunk(
        &self,
        chunk: &[(LinkKey, LinkChange)],
        actor: &Actor,
        room: &mut AnswerRoom,
    ) -> Vec<ChangedOutcome> {
        match self.store.change_links(chunk, actor).await {
            Ok(outcomes) => {
                let outcomes = outcomes.into_iter().zip(chunk);
                let outcomes = outcomes.map(|(changed, (_, change))| {
                    let link = outcome(changed).map_err(|problem| room.fitting(problem))?;
                    let is_there = !matches!(change, LinkChange::Delete(_));
                    Ok(ChangedLink {
                        key: link.key(),
                        rev: link.rev,
                        shown: (is_there && room.shows(&link.content)).then_some(link),
                    })
                });
                outcomes.collect()
            }
            Err(error) => {
                let problem = Problem::from(error);
                chunk.iter().map(|_| Err(problem.clone())).collect()
            }
        }
    }

    /// Hashes the passwords of requests. Returns the requests with the hashes.
    pub(super) async fn hash_all(
        &self,
        caller: &Caller,
        mut requests: Vec<Result<CreateLink, Problem>>,
    ) -> Vec<Result<CreateLink, Problem>> {
        let password_of = CreateLink::new_password;
        hash_all(&self.passwords, &mut requests, password_of, &caller.claim()).await;
        let requests = requests.into_iter();
        requests
            .map(|item| item.map(CreateLink::with_hash))
            .collect()
    }

    /// Time limit of a request about many links.
    pub(super) fn time_limit(&self) -> Duration {
        self.config.server.request_timeout_ms
    }
}

/// Carries out the valid items by `run`, which returns their outcomes in order and may leave out the last ones: these count as
/// timed out. The outcomes are in the order of the items, refused ones included.
///
/// `run` gets the time after which it must not start anything: a little before the request times out, so that the answer names
/// everything that was done. `limit` counts from the end of the body, which may be large.
pub(super) async fn carry_out<T, O>(
    parsed: Vec<Result<T, Problem>>,
    limit: Duration,
    run: impl AsyncFnOnce(Vec<T>, Deadlines) -> Vec<Result<O, Problem>>,
) -> Result<Vec<Result<O, Problem>>, Problem> {
    let mut valid = Vec::with_capacity(parsed.len());
    let refused: Vec<Option<Problem>> = parsed
        .into_iter()
        .map(|item| item.map(|item| valid.push(item)).err())
        .collect();
    let made = timeout(limit, run(valid, Deadlines::within(limit))).await;
    let mut made = made
        .map_err(|_| Problem::new(Kind::RequestTimeout))?
        .into_iter();
    let outcome = |refusal: Option<Problem>| match refusal {
        Some(problem) => Err(problem),
        None => made
            .next()
            .unwrap_or_else(|| Err(Problem::new(Kind::RequestTimeout))),
    };
    Ok(refused.into_iter().map(outcome).collect())
}

/// Deadlines for the items of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// No item is started from then on.
    pub(super) begin: Instant,
    /// Each item has its outcome by then.
    pub(super) end: Instant,
}

impl Deadlines {
    fn within(limit: Duration) -> Self {
        let now = Instant::now();
        Self {
            begin: now + limit.mul_f32(0.8),
            end: now + limit.mul_f32(0.95),
        }
    }
}

/// Hashes the passwords of items, one after the other, before links are created or changed. Items with a password beyond the
/// first [`MAX_PER_REQUEST`] are refused.
async fn hash_all<T>(
    passwords: &Passwords,
    items: &mut [Result<T, Problem>],
    password_of: fn(&T) -> Option<&NewPassword>,
    setter: &Claim,
) {
    refuse_beyond(MAX_PER_REQUEST, items, password_of);
    for item in items {
        let Ok(Some(password)) = item.as_ref().map(password_of) else {
            continue;
        };
        if let Err(problem) = passwords.hash(&password.clone(), setter.clone()).await {
            *item = Err(problem);
        }
    }
}

/// Refuses items with a password beyond the first `most`.
pub(super) fn refuse_beyond<T>(
    most: usize,
    items: &mut [Result<T, Problem>],
    password_of: fn(&T) -> Option<&NewPassword>,
) {
    let sets_password = |item: &&mut Result<T, Problem>| {
        let item = item.as_ref();
        item.is_ok_and(|item| password_of(item).is_some())
    };
    for item in items.iter_mut().filter(sets_password).skip(most) {
        let reason = format!("may be set by at most {most} items of a request");
        *item = Err(Problem::of_field("password", reason));
    }
}

/// The link that an item names, and the revisions it must have.
fn named(
    (code, domain, tags): (Code, Option<Domain>, Option<String>),
    links: &TenantLinks<'_>,
) -> (LinkKey, Revisions) {
    let domain = domain.unwrap_or_else(|| links.default_domain().clone());
    (
        LinkKey::new(domain, code),
        Revisions::of_tags(tags.as_deref()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Kind;

    #[tokio::test]
    async fn item_when_too_many_set_a_password_is_refused() {
        let refused = || Err(Problem::new(Kind::LinkNotFound));
        let with = |text| Ok(Some(NewPassword::new(text)));
        let mut items = vec![
            with("a"),
            Ok(None),
            refused(),
            with("b"),
            with("c"),
            Ok(None),
        ];
        refuse_beyond(2, &mut items, Option::as_ref);
        let setter = Claim::default();
        hash_all(&Passwords::new(), &mut items, Option::as_ref, &setter).await;
        let outcome = |item: &Result<Option<NewPassword>, Problem>| match item {
            Ok(Some(password)) => password.hash().starts_with("$argon2id$").to_string(),
            Ok(None) => "none".to_owned(),
            Err(problem) => format!("{:?}", problem.kind()),
        };
        let outcomes: Vec<_> = items.iter().map(outcome).collect();
        let expected = ["true", "none", "LinkNotFound", "true", "Validation", "none"];
        assert_eq!(outcomes, expected);
    }
}
