//! `POST /import`: links of another system, with what they had there. Each has an outcome of its own, as in `POST /links/bulk`.
//!
//! An item is a link as `POST /links` takes it, and may have conditional targets, and for admins its history: when it was created
//! and how often it was visited. A code that a link to the same target has already counts as imported, so that a repeated import
//! changes nothing; one without a password does not where the item has one. With `dryRun=true` nothing is created, and the
//! answer is what it would be.

use super::answer_room::AnswerRoom;
use super::bulk::{self, Parsed, answer};
use super::bulk_items::{self, Deadlines, ItemView};
use super::draft::Draft;
use super::fields::{Fields, Reason};
use super::idempotency::{RequestId, Route, WholeRequest};
use super::{create, quota, rules, schema, values};
use crate::clock;
use crate::config::LinksConfig;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::{Caller, check_again};
use crate::links::model::{History, Link, LinkContent};
use crate::numbers::EVERY_NUMBER;
use crate::problem::{FieldError, Kind, Problem};
use crate::service::order::{FulfilledOrder, Order, OrderOutcome};
use crate::timestamp;
use axum::extract::{Extension, RawQuery, Request, State};
use axum::response::Response;
use edgelink_wire::LinkKey;
use http::StatusCode;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// How far a time of creation may be ahead of our clock, in milliseconds.
const MAX_AHEAD_MILLIS: u64 = 300_000;

/// How many links are looked for at once, which may have other texts than the items.
const FOUND_AT_ONCE: usize = 500;

/// The most visits of a link: a number that every reader of JSON has.
const MAX_VISITS: u64 = (1 << 53) - 1;

/// Imports links of another system.
///
/// At most 10,000. Each has an outcome of its own, as for links that are created. An item whose code a link to the same target has
/// counts as imported, so that a repeated import changes nothing.
#[utoipa::path(
    post,
    path = "/import",
    operation_id = "importLinks",
    tag = "links",
    params(schema::Idempotency, schema::DryRun),
    request_body = Vec<schema::ImportedLink>,
    responses((status = 200, description = "An answer for each item", body = bulk::BulkView<'static>))
)]
pub(crate) async fn import(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let is_dry_run = fields.optional("dryRun", values::query_flag);
    fields.finish()?;
    let importer = Importer {
        app: &app,
        caller: &caller,
        agreed: agreed(app.store.bound_state().await?.bound),
    };
    // A dry run refuses a wrong key too, and does nothing with a right one.
    let id = RequestId::of(request.headers(), &caller, Route::Import)?;
    match is_dry_run {
        Some(true) => importer.try_out(request).await,
        _ => importer.run(request, id).await,
    }
}

/// What would become of an item.
#[derive(Clone, Debug)]
enum Foreseen {
    /// It would be created.
    Created,
    /// There is such a link; `None` if another item would create it, or the answer has no room for it.
    Existing(Option<Box<Link>>),
}

impl Foreseen {
    fn view(&self, index: usize, links: &LinksConfig) -> ItemView<'_> {
        match self {
            Self::Created => ItemView::done(index, StatusCode::CREATED, None, links),
            Self::Existing(link) => ItemView::done(index, StatusCode::OK, link.as_deref(), links),
        }
    }
}

fn view<'f>(
    index: usize,
    outcome: &'f Result<Foreseen, Problem>,
    links: &LinksConfig,
) -> ItemView<'f> {
    match outcome {
        Ok(foreseen) => foreseen.view(index, links),
        Err(problem) => ItemView::refused(index, problem),
    }
}

struct Importer<'a> {
    app: &'a Arc<App>,
    caller: &'a Caller,
    /// Codes of numbers below it are taken for generated ones.
    agreed: u64,
}

/// The number below which codes are taken for generated ones, by the bound: it leaves issuers room until the bound has followed.
/// Where the bound says nothing, because numbers do not come from segments, no code is.
fn agreed(bound: u64) -> u64 {
    if bound < EVERY_NUMBER { bound / 2 } else { 0 }
}

impl Importer<'_> {
    async fn run(&self, request: Request, id: Option<RequestId>) -> Result<Response, Problem> {
        let app = self.app;
        bulk_items::check_type(request.headers())?;
        let mut whole = WholeRequest::default();
        let config = &app.config.server;
        let mut room = AnswerRoom::of(config);
        let (parts, body) = request.into_parts();
        let parsed = bulk_items::read(app, &parts.extensions, body, |index, value| {
            if let Some(id) = &id {
                whole.add(id, &value);
            }
            room.admit(self.parse(index, value, id.as_ref()), Draft::content)
        });
        let (parsed, _admitted) = parsed.await?;
        check_again(&app.keys, &parts.headers, self.caller).await?;
        if let Some(id) = &id {
            id.claim(app.store.as_ref(), whole).await?;
        }
        let parsed = bulk::hash_passwords(app, self.caller, parsed).await;
        let from = app.feed.end();
        let limit = config.request_timeout_ms;
        let run = async |orders: Vec<Order>, by: Deadlines| {
            let outcomes = self.carry_out(&orders, by, &mut room).await;
            outcomes.unwrap_or_else(|problem| vec![Err(problem); orders.len()])
        };
        let outcomes = bulk_items::carry_out(parsed, limit, Kind::RequestTimeout, run).await?;
        let made = outcomes.iter().flatten();
        let awaited = AwaitedChanges::new(from, made.filter_map(FulfilledOrder::new_link));
        Ok(awaited.attach_to(answer(app, outcomes)))
    }

    /// Answers what an import would, and changes nothing.
    async fn try_out(&self, request: Request) -> Result<Response, Problem> {
        let app = self.app;
        bulk_items::check_type(request.headers())?;
        let config = &app.config.server;
        let (parts, body) = request.into_parts();
        let mut room = AnswerRoom::of(config);
        let parsed = bulk_items::read(app, &parts.extensions, body, |index, value| {
            room.admit(self.parse(index, value, None), Draft::content)
        });
        let (parsed, _admitted) = parsed.await?;
        check_again(&app.keys, &parts.headers, self.caller).await?;
        let parsed = bulk::without_hashes(parsed);
        let limit = config.request_timeout_ms;
        let run = async |orders: Vec<Order>, _: Deadlines| {
            let outcomes = self.foresee(&orders, &mut room).await;
            outcomes.unwrap_or_else(|problem| vec![Err(problem); orders.len()])
        };
        let outcomes = bulk_items::carry_out(parsed, limit, Kind::RequestTimeout, run).await?;
        Ok(bulk::answer_of(app, outcomes, view))
    }

    /// The order of an item.
    fn parse(&self, index: usize, value: Value, id: Option<&RequestId>) -> Parsed {
        let object = bulk_items::object(value)?;
        let item = u32::try_from(index).unwrap_or(u32::MAX);
        let receipt = id.map(|id| id.receipt(item, &object));
        let links = &self.app.links(self.caller);
        let mut fields = Fields::new(object);
        let history = self.history(&mut fields);
        let rules = rules::field(&mut fields, links);
        let (mut order, properties) = create::read(fields, links, self.caller, receipt)?;
        order.history = history;
        order.content.set_rules(rules);
        let creator = &self.app.creator;
        let alias = order.alias.as_ref();
        order.number = alias.and_then(|code| creator.number_of(code, self.agreed));
        Ok(Draft::new(order, properties.into_new_password()))
    }

    /// What the link had where it comes from.
    fn history(&self, fields: &mut Fields) -> History {
        let history = History {
            created_at: fields.optional("createdAt", created_at),
            visits: fields.optional("importedVisits", visits).unwrap_or(0),
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

    /// Carries orders out: receipts and equal links first, then links that have the codes already, and the rest is created.
    async fn carry_out(
        &self,
        orders: &[Order],
        by: Deadlines,
        room: &mut AnswerRoom,
    ) -> Result<Vec<OrderOutcome>, Problem> {
        let mut outcomes = self.app.creator.existing(orders).await?;
        self.find_places(orders, &mut outcomes, room, |_| true)
            .await?;
        let open: Vec<usize> = (0..orders.len())
            .filter(|index| outcomes[*index].is_none())
            .collect();
        let rest: Vec<&Order> = open.iter().map(|index| &orders[*index]).collect();
        let numbers: Vec<u64> = rest.iter().filter_map(|order| order.number).collect();
        if !numbers.is_empty() {
            // So that they are not issued later, when their codes are taken.
            self.app.store.reserve_numbers(&numbers).await?;
        }
        let made = quota::create_many(self.app, self.caller, &rest, by.begin, by.end).await;
        for (index, made) in open.into_iter().zip(made) {
            outcomes[index] = Some(made);
        }
        // Another item, or another request, was first.
        let is_taken = |problem: &Problem| problem.kind() == Kind::SlugTaken;
        self.find_places(orders, &mut outcomes, room, is_taken)
            .await?;
        let missing = || Err(Problem::new(Kind::RequestTimeout));
        Ok(outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(missing))
            .collect())
    }

    /// What would become of orders.
    async fn foresee<'o>(
        &self,
        orders: &'o [Order],
        room: &mut AnswerRoom,
    ) -> Result<Vec<Result<Foreseen, Problem>>, Problem> {
        let mut outcomes = self.app.creator.existing(orders).await?;
        self.find_places(orders, &mut outcomes, room, |_| true)
            .await?;
        let mut seen: HashMap<LinkKey, &LinkContent> = HashMap::new();
        let mut foresee = |order: &'o Order| {
            let Some(key) = place(order) else {
                return Ok(Foreseen::Created);
            };
            match seen.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(&order.content);
                    Ok(Foreseen::Created)
                }
                Entry::Occupied(first) if fulfils(first.get(), &order.content) => {
                    Ok(Foreseen::Existing(None))
                }
                Entry::Occupied(first) => {
                    let problem = conflict(Some(first.get()), &order.content);
                    Err(room.fitting(problem))
                }
            }
        };
        let foreseen = orders.iter().zip(outcomes);
        let foreseen = foreseen.map(|(order, outcome)| match outcome {
            Some(outcome) => outcome.map(|made| {
                let is_shown = made.shown().is_some();
                Foreseen::Existing(is_shown.then(|| Box::new(made.link)))
            }),
            None => foresee(order),
        });
        Ok(foreseen.collect())
    }

    /// Sets the outcomes of orders whose code a link has: those without an outcome, and those that failed so that `is_open`
    /// holds. Such a link is in the answer where that has room for it, and so is what is said of it.
    async fn find_places(
        &self,
        orders: &[Order],
        outcomes: &mut [Option<OrderOutcome>],
        room: &mut AnswerRoom,
        is_open: impl Fn(&Problem) -> bool,
    ) -> Result<(), Problem> {
        let mut wanted: HashMap<LinkKey, Vec<usize>> = HashMap::new();
        for (index, order) in orders.iter().enumerate() {
            let is_open = match &outcomes[index] {
                None => true,
                Some(Ok(_)) => false,
                Some(Err(problem)) => is_open(problem),
            };
            if let (true, Some(key)) = (is_open, place(order)) {
                wanted.entry(key).or_default().push(index);
            }
        }
        let keys: Vec<LinkKey> = wanted.keys().cloned().collect();
        for keys in keys.chunks(FOUND_AT_ONCE) {
            for link in self.app.store.find_links(keys).await? {
                for index in wanted.remove(&link.key()).unwrap_or_default() {
                    let outcome = self.occupied(&link, &orders[index], room);
                    outcomes[index] = Some(outcome);
                }
            }
        }
        Ok(())
    }

    /// The outcome of an order whose code that link has.
    fn occupied(&self, link: &Link, order: &Order, room: &mut AnswerRoom) -> OrderOutcome {
        let is_visible = self.caller.check(link).is_ok();
        if !is_visible || !fulfils(&link.content, &order.content) {
            let other = is_visible.then_some(&link.content);
            return Err(room.fitting(conflict(other, &order.content)));
        }
        let mut found = FulfilledOrder::found(link.clone());
        if !room.shows(&link.content) {
            found.leave_out();
        }
        Ok(found)
    }
}

/// Where the link is to be; `None` if its code is issued.
fn place(order: &Order) -> Option<LinkKey> {
    let code = order.alias.clone()?;
    Some(LinkKey::new(order.domain.clone(), code))
}

/// Whether a link counts as that of an item with the same code: it has the same target, and is not open where the item asks
/// for a password.
fn fulfils(link: &LinkContent, wanted: &LinkContent) -> bool {
    let is_locked = |content: &LinkContent| content.details.password.is_some();
    link.target == wanted.target && (is_locked(link) || !is_locked(wanted))
}

/// The problem of an item whose code another link has, if the caller may know of that one.
fn conflict(other: Option<&LinkContent>, wanted: &LinkContent) -> Problem {
    let by = other.map(|other| {
        let without = match other.target == wanted.target {
            true => " without a password",
            false => "",
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
