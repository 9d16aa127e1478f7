//! The use case of an import: links of another system, with their history there.
//!
//! An item whose code belongs to a link with that target already counts as imported, so that a repeated import changes nothing;
//! not so if the item has a password and the link has none.

use super::answer_room::AnswerRoom;
use super::bulk::{Deadlines, carry_out, refuse_beyond};
use super::caller::{Caller, Right};
use super::create_link::{self, CreateLink, CreateOutcome, Created, LinkRequest};
use super::fields::{Fields, Reason};
use super::link_patch::LinkProperties;
use super::links::Links;
use super::passwords::MAX_PER_REQUEST;
use super::request::request;
use super::schemas::NewRule;
use super::tenant_links::TenantLinks;
use super::values;
use crate::problem::{FieldError, Kind, Problem};
use edgelink_feed::Changed;
use edgelink_model::clock;
use edgelink_model::links::checked::{CheckedRules, CheckedTarget};
use edgelink_model::links::model::{History, Link, LinkContent};
use edgelink_model::timestamp;
use edgelink_numbers::EVERY_NUMBER;
use edgelink_wire::{Code, Domain, LinkKey};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Milliseconds that a time of creation may be ahead of our clock.
const MAX_AHEAD_MILLIS: u64 = 300_000;

/// Number of links looked up at once; their texts may be longer than the items'.
const FOUND_AT_ONCE: usize = 500;

/// Limit on the visits of a link: the greatest integer that every JSON reader represents exactly.
const MAX_VISITS: u64 = (1 << 53) - 1;

request! {
    /// A link of another system, with what it had there. Fields are those of `NewLink`.
    #[schema(example = json!({
        "longUrl": "https://example.com/old", "customSlug": "old-link", "createdAt": "2016-08-21T20:34:16+02:00",
        "importedVisits": 328, "tags": ["imported"],
    }))]
    pub struct ImportedLink(links: &TenantLinks<'_>) {
        #[schema(format = "target-url", max_length = 8000)]
        "longUrl" target: needed CheckedTarget as String = |value| values::target(value, links);
        /// The code, which stays what it was. Where a link to the same target has it already, that link is answered, with 200.
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        "customSlug" alias: optional Code as String = |value| values::alias(value, links);
        #[schema(format = "short-domain")]
        "domain" domain: optional Domain as String = values::domain_name;
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "externalId" external_id: optional String as String = values::external_id;
        "findIfExists" find_if_exists: optional bool as bool = values::flag;
        /// When it was created, in the past; by default now. Admins only.
        #[schema(format = "date-time")]
        "createdAt" created_at: optional u64 as String = created_at;
        /// How often it was visited; by default 0. Admins only.
        #[schema(maximum = 9_007_199_254_740_991_i64)]
        "importedVisits" imported_visits: optional u64 as u64 = visits;
        #[schema(max_items = 32)]
        "redirectRules" rules: nested CheckedRules as Vec<NewRule> = |value| read_rules(value, links);
        ..properties: LinkProperties(links);
    }
}

/// The expected outcome of an item.
#[derive(Clone, Debug)]
pub enum Foreseen {
    /// The link would be created.
    Created,
    /// The link exists; `None` if another item would create it, or the answer has no room for it.
    Existing(Option<Box<Link>>),
}

/// An import on behalf of a caller.
pub struct Importer<'a> {
    links: &'a Links,
    caller: &'a Caller,
    /// Codes of numbers below this one are taken for generated codes.
    agreed: u64,
}

/// The number below which codes are taken for generated ones: half the bound, which leaves issuers room until the bound has
/// followed. 0 if there is no bound because numbers do not come from segments.
fn agreed(bound: u64) -> u64 {
    if bound < EVERY_NUMBER { bound / 2 } else { 0 }
}

impl Links {
    /// Begins an import.
    pub async fn import<'a>(&'a self, caller: &'a Caller) -> Result<Importer<'a>, Problem> {
        caller.require(Right::CreateLinks)?;
        Ok(Importer {
            links: self,
            caller,
            agreed: agreed(self.store.bound_state().await?.bound),
        })
    }
}

impl Importer<'_> {
    /// Reads an item.
    ///
    /// # Errors
    /// A problem that names each wrong field.
    pub fn read(&self, object: Map<String, Value>) -> Result<CreateLink, Problem> {
        let links = &self.links.of_tenant(self.caller);
        let mut fields = Fields::new(object);
        let item = ImportedLink::of(&mut fields, links);
        let history = self.history(&mut fields, item.as_ref());
        let mut rules = CheckedRules::default();
        let new = item.map(|item| {
            rules = item.rules.unwrap_or_default();
            LinkRequest {
                target: item.target,
                alias: item.alias,
                domain: item.domain,
                external_id: item.external_id,
                find_if_exists: item.find_if_exists,
                properties: item.properties,
            }
        });
        let (mut request, _) = create_link::made(fields, new, links, self.caller)?;
        request.history = history;
        request.content.set_rules(rules);
        let creator = &self.links.creator;
        let alias = request.alias.as_ref();
        request.number = alias.and_then(|code| creator.number_of(code, self.agreed));
        Ok(request)
    }

    /// Creates links, unless they exist. Items refused before keep their problems.
    pub async fn run(
        &self,
        requests: Vec<Result<CreateLink, Problem>>,
        mut room: AnswerRoom,
    ) -> Result<Changed<Vec<CreateOutcome>>, Problem> {
        let requests = self.links.hash_all(self.caller, requests).await;
        let from = self.links.feed.end();
        let run = async |requests: Vec<CreateLink>, by: Deadlines| {
            let outcomes = self.carry_out(&requests, by, &mut room).await;
            outcomes.unwrap_or_else(|problem| vec![Err(problem); requests.len()])
        };
        let outcomes = carry_out(requests, self.links.time_limit(), run).await?;
        let made = outcomes.iter().flatten();
        let made: Vec<_> = made.filter_map(Created::new_link).collect();
        Ok(Changed::since(from, made, outcomes))
    }

    /// Dry run of an import: predicts the outcome of each item. Passwords are not hashed, but limited in number as in an import.
    pub async fn try_out(
        &self,
        mut requests: Vec<Result<CreateLink, Problem>>,
        mut room: AnswerRoom,
    ) -> Result<Vec<Result<Foreseen, Problem>>, Problem> {
        refuse_beyond(MAX_PER_REQUEST, &mut requests, CreateLink::new_password);
        let run = async |requests: Vec<CreateLink>, _: Deadlines| {
            let outcomes = self.foresee(&requests, &mut room).await;
            outcomes.unwrap_or_else(|problem| vec![Err(problem); requests.len()])
        };
        carry_out(requests, self.links.time_limit(), run).await
    }

    /// The history of the link in its former system, which only admins may set.
    fn history(&self, fields: &mut Fields, item: Option<&ImportedLink>) -> History {
        let history = History {
            created_at: item.and_then(|item| item.created_at),
            visits: item.and_then(|item| item.imported_visits).unwrap_or(0),
        };
        if !self.caller.may_set_history() {
            let only = "may be set only by an admin key that is bound to nothing";
            if history.created_at.is_some() {
                fields.refuse("createdAt", only);
            }
            if history.visits > 0 {
                fields.refuse("importedVisits", only);
            }
        }
        history
    }

    /// Carries out requests: receipts and equal links first, then links that have the codes already, and the rest is created.
    async fn carry_out(
        &self,
        requests: &[CreateLink],
        by: Deadlines,
        room: &mut AnswerRoom,
    ) -> Result<Vec<CreateOutcome>, Problem> {
        let mut outcomes = self.links.creator.existing(requests).await?;
        self.find_places(requests, &mut outcomes, room, |_| true)
            .await?;
        let open: Vec<usize> = (0..requests.len())
            .filter(|index| outcomes[*index].is_none())
            .collect();
        let rest: Vec<&CreateLink> = open.iter().map(|index| &requests[*index]).collect();
        let numbers: Vec<u64> = rest.iter().filter_map(|request| request.number).collect();
        if !numbers.is_empty() {
            // Otherwise they would be issued later, when their codes are taken.
            self.links.store.reserve_numbers(&numbers).await?;
        }
        let made = self
            .links
            .create_many_within_quota(self.caller, &rest, by.begin, by.end)
            .await;
        for (index, made) in open.into_iter().zip(made) {
            outcomes[index] = Some(made);
        }
        // Another item, or another request, was first.
        let is_taken = |problem: &Problem| problem.kind() == Kind::SlugTaken;
        self.find_places(requests, &mut outcomes, room, is_taken)
            .await?;
        let missing = || Err(Problem::new(Kind::RequestTimeout));
        Ok(outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(missing))
            .collect())
    }

    /// Predicts the outcomes of requests.
    async fn foresee<'o>(
        &self,
        requests: &'o [CreateLink],
        room: &mut AnswerRoom,
    ) -> Result<Vec<Result<Foreseen, Problem>>, Problem> {
        let mut outcomes = self.links.creator.existing(requests).await?;
        self.find_places(requests, &mut outcomes, room, |_| true)
            .await?;
        let mut seen: HashMap<LinkKey, &LinkContent> = HashMap::new();
        let mut foresee = |request: &'o CreateLink| {
            let Some(key) = place(request) else {
                return Ok(Foreseen::Created);
            };
            match seen.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(&request.content);
                    Ok(Foreseen::Created)
                }
                Entry::Occupied(first) if fulfils(first.get(), &request.content) => {
                    Ok(Foreseen::Existing(None))
                }
                Entry::Occupied(first) => {
                    let problem = conflict(Some(first.get()), &request.content);
                    Err(room.fitting(problem))
                }
            }
        };
        let foreseen = requests.iter().zip(outcomes);
        let foreseen = foreseen.map(|(request, outcome)| match outcome {
            Some(outcome) => outcome.map(|made| {
                let is_shown = made.shown().is_some();
                Foreseen::Existing(is_shown.then(|| Box::new(made.link)))
            }),
            None => foresee(request),
        });
        Ok(foreseen.collect())
    }

    /// Sets the outcomes of requests whose code a link has: requests without an outcome, and requests with a problem for which
    /// `is_open` holds. The link, or the problem, is in the answer as far as there is room.
    async fn find_places(
        &self,
        requests: &[CreateLink],
        outcomes: &mut [Option<CreateOutcome>],
        room: &mut AnswerRoom,
        is_open: impl Fn(&Problem) -> bool,
    ) -> Result<(), Problem> {
        let mut wanted: HashMap<LinkKey, Vec<usize>> = HashMap::new();
        for (index, request) in requests.iter().enumerate() {
            let is_open = match &outcomes[index] {
                None => true,
                Some(Ok(_)) => false,
                Some(Err(problem)) => is_open(problem),
            };
            if let (true, Some(key)) = (is_open, place(request)) {
                wanted.entry(key).or_default().push(index);
            }
        }
        let keys: Vec<LinkKey> = wanted.keys().cloned().collect();
        for keys in keys.chunks(FOUND_AT_ONCE) {
            for link in self.links.store.find_links(keys).await? {
                for index in wanted.remove(&link.key()).unwrap_or_default() {
                    let outcome = self.occupied(&link, &requests[index], room);
                    outcomes[index] = Some(outcome);
                }
            }
        }
        Ok(())
    }

    /// The outcome of a request whose code `link` has.
    fn occupied(&self, link: &Link, request: &CreateLink, room: &mut AnswerRoom) -> CreateOutcome {
        let is_visible = self.caller.check(link).is_ok();
        if !is_visible || !fulfils(&link.content, &request.content) {
            let other = is_visible.then_some(&link.content);
            return Err(room.fitting(conflict(other, &request.content)));
        }
        let mut found = Created::found(link.clone());
        if !room.shows(&link.content) {
            found.leave_out();
        }
        Ok(found)
    }
}

/// Reads the rules of a link that is imported.
fn read_rules(value: Value, links: &TenantLinks<'_>) -> Result<CheckedRules, Vec<FieldError>> {
    let (rules, errors) = links.by_rules(|rules| CheckedRules::read_list(Some(value), rules));
    if errors.is_empty() {
        Ok(rules)
    } else {
        Err(errors.into_iter().map(FieldError::from).collect())
    }
}

/// The key the request asks for; `None` if its code is to be issued.
fn place(request: &CreateLink) -> Option<LinkKey> {
    let code = request.alias.clone()?;
    Some(LinkKey::new(request.domain.clone(), code))
}

/// True if an existing link counts as the imported one: the targets are equal, and the link has a password if the item asks for
/// one.
fn fulfils(link: &LinkContent, wanted: &LinkContent) -> bool {
    let is_locked = |content: &LinkContent| content.details.password.is_some();
    link.target == wanted.target && (is_locked(link) || !is_locked(wanted))
}

/// The problem of an item whose code another link has; `other` is that link, if the caller may see it.
fn conflict(other: Option<&LinkContent>, wanted: &LinkContent) -> Problem {
    let by = other.map(|other| {
        let without = if other.target == wanted.target {
            " without a password"
        } else {
            ""
        };
        format!(", by a link to {}{without}", other.target.as_str())
    });
    let reason = format!("is taken on this domain{}", by.unwrap_or_default());
    Problem::new(Kind::SlugTaken).with_errors(vec![FieldError::new("customSlug", reason)])
}

/// The time of a creation, in unix milliseconds.
fn created_at(value: &Value) -> Result<u64, Reason> {
    let at = timestamp::parse_millis(values::text(value)?);
    let at = at.map_err(|error| Reason::Owned(error.to_string()))?;
    if at > clock::unix_millis() + MAX_AHEAD_MILLIS {
        return Err("must not be in the future".into());
    }
    Ok(at)
}

fn visits(value: &Value) -> Result<u64, Reason> {
    value
        .as_u64()
        .filter(|visits| *visits <= MAX_VISITS)
        .ok_or(Reason::Borrowed(
            "must be a number of 0 to 9007199254740991",
        ))
}
