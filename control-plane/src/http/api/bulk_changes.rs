//! `PATCH` and `DELETE /links/bulk`: many changes in one request, each with an outcome of its own.
//!
//! Either the body is refused as a whole and changes nothing, or every item has its outcome.

use super::answer_room::{self, AnswerRoom, no_room};
use super::bulk_items::{self, Deadlines, ItemView};
use super::bulk_passwords::hash_all;
use super::fields::Fields;
use super::if_match::IfMatch;
use super::one::outcome;
use super::properties::Properties;
use super::schema;
use super::values;
use crate::config::LinksConfig;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::{Caller, check_again};
use crate::http::tenant_links::TenantLinks;
use crate::links::checked::CheckedContent;
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use crate::service::passwords::NewPassword;
use crate::store::{Actor, LinkChange};
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use edgelink_wire::{Code, Domain, LinkKey};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio::time::Instant;
use utoipa::ToSchema;

/// How many links one transaction changes at most.
const CHUNK: usize = 500;

/// A change, and the password that it sets.
type ParsedItem = (LinkKey, LinkChange, Option<NewPassword>);
type Parsed = Result<ParsedItem, Problem>;
type Outcome = Result<ChangedLink, Problem>;

/// A link that was changed, as far as it is needed until the answer.
struct ChangedLink {
    key: LinkKey,
    rev: u64,
    /// The link, if the answer has it: not where it was deleted, or has no room.
    shown: Option<Link>,
}

#[derive(Serialize)]
struct PatchedCounts {
    changed: usize,
    failed: usize,
}

#[derive(Serialize)]
struct DeletedCounts {
    deleted: usize,
    failed: usize,
}

/// An answer for each item.
#[derive(ToSchema)]
#[schema(as = ChangedLinks)]
#[expect(dead_code, reason = "a declaration")]
struct PatchedView<'a> {
    changed: usize,
    failed: usize,
    results: Vec<ItemView<'a>>,
}

/// An answer for each item.
#[derive(ToSchema)]
#[schema(as = DeletedLinks)]
#[expect(dead_code, reason = "a declaration")]
struct DeletedView<'a> {
    deleted: usize,
    failed: usize,
    results: Vec<ItemView<'a>>,
}

/// Changes many links.
///
/// At most 10,000. A body that is wrong as a whole changes nothing; otherwise each item has an outcome of its own.
#[utoipa::path(
    patch,
    path = "/links/bulk",
    operation_id = "changeLinks",
    tag = "links",
    request_body = Vec<schema::NamedPatch>,
    responses((status = 200, description = "An answer for each item", body = PatchedView<'static>))
)]
pub(crate) async fn patch_many(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let (outcomes, awaited) = change_many(&app, &caller, request, parse_patch).await?;
    let (changed, failed) = counts(&outcomes);
    let counts = PatchedCounts { changed, failed };
    let answer = answer_room::answer(&app, &counts, outcomes, |index, outcome, links| {
        view(index, outcome, StatusCode::OK, links)
    });
    Ok(awaited.attach_to(answer))
}

/// Deletes many links.
///
/// At most 10,000. A body that is wrong as a whole deletes nothing; otherwise each item has an outcome of its own.
#[utoipa::path(
    delete,
    path = "/links/bulk",
    operation_id = "deleteLinks",
    tag = "links",
    request_body = Vec<schema::NamedLink>,
    responses((status = 200, description = "An answer for each item", body = DeletedView<'static>))
)]
pub(crate) async fn delete_many(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let (outcomes, awaited) = change_many(&app, &caller, request, parse_deletion).await?;
    let (deleted, failed) = counts(&outcomes);
    let counts = DeletedCounts { deleted, failed };
    let answer = answer_room::answer(&app, &counts, outcomes, |index, outcome, links| {
        view(index, outcome, StatusCode::NO_CONTENT, links)
    });
    Ok(awaited.attach_to(answer))
}

/// Makes the changes of a body; the outcomes, and what the feed has to carry before they are answered.
async fn change_many(
    app: &App,
    caller: &Caller,
    request: Request,
    parse: impl Fn(Map<String, Value>, &TenantLinks<'_>, &Caller) -> Parsed,
) -> Result<(Vec<Outcome>, AwaitedChanges), Problem> {
    bulk_items::check_type(request.headers())?;
    let mut room = AnswerRoom::of(&app.config.server);
    let links = &app.links(caller);
    let (parts, body) = request.into_parts();
    let parsed = bulk_items::read(app, &parts.extensions, body, |_, value| {
        let parsed = bulk_items::object(value).and_then(|object| parse(object, links, caller));
        parsed.map_err(|problem| room.fitting(problem))
    });
    let (mut parsed, _admitted) = parsed.await?;
    check_again(&app.keys, &parts.headers, caller).await?;
    let passwords = &app.passwords;
    let setter = caller.claim();
    hash_all(passwords, &mut parsed, |item| item.2.as_ref(), &setter).await;
    let change = |(key, change, _): ParsedItem| (key, change);
    let parsed: Vec<_> = parsed.into_iter().map(|item| item.map(change)).collect();
    let from = app.feed.end();
    let limit = app.config.server.request_timeout_ms;
    let actor = caller.actor();
    let run = async |changes: Vec<(LinkKey, LinkChange)>, by: Deadlines| {
        let mut made: Vec<Outcome> = Vec::with_capacity(changes.len());
        for chunk in changes.chunks(CHUNK) {
            if Instant::now() >= by.begin {
                break;
            }
            if !room.is_open() {
                made.resize_with(changes.len(), || Err(no_room()));
                break;
            }
            made.extend(change_chunk(app, chunk, &actor, &mut room).await);
        }
        made
    };
    let outcomes = bulk_items::carry_out(parsed, limit, Kind::RequestTimeout, run).await?;
    let changed = outcomes.iter().flatten();
    let awaited = changed.map(|link| (link.key.clone(), link.rev));
    let awaited = AwaitedChanges::new(from, awaited);
    Ok((outcomes, awaited))
}

fn parse_patch(object: Map<String, Value>, links: &TenantLinks<'_>, caller: &Caller) -> Parsed {
    let mut fields = Fields::new(object);
    let named = Named::read(&mut fields, links);
    let properties = Properties::read(&mut fields, links).by(caller);
    let password = properties.new_password().cloned();
    fields.finish()?;
    let (key, if_match) = named.finish(links)?;
    let caller = caller.clone();
    let change = Box::new(move |link: &Link| {
        caller.check(link)?;
        if_match.check(link)?;
        properties.apply(CheckedContent::existing(link))
    });
    Ok((key, LinkChange::Update(change), password))
}

fn parse_deletion(object: Map<String, Value>, links: &TenantLinks<'_>, caller: &Caller) -> Parsed {
    let mut fields = Fields::new(object);
    let named = Named::read(&mut fields, links);
    fields.finish()?;
    let (key, if_match) = named.finish(links)?;
    let caller = caller.clone();
    let check = Box::new(move |link: &Link| {
        caller.check(link)?;
        if_match.check(link)
    });
    Ok((key, LinkChange::Delete(check), None))
}

async fn change_chunk(
    app: &App,
    chunk: &[(LinkKey, LinkChange)],
    actor: &Actor,
    room: &mut AnswerRoom,
) -> Vec<Outcome> {
    match app.store.change_links(chunk, actor).await {
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

/// How many items have succeeded, and failed.
fn counts(outcomes: &[Outcome]) -> (usize, usize) {
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    (outcomes.len() - failed, failed)
}

fn view<'a>(
    index: usize,
    outcome: &'a Outcome,
    done: StatusCode,
    links: &LinksConfig,
) -> ItemView<'a> {
    match outcome {
        Ok(link) => ItemView::done(index, done, link.shown.as_ref(), links),
        Err(problem) => ItemView::refused(index, problem),
    }
}

/// Which link an item is about: `shortCode`, `domain`, and `ifMatch` instead of the header.
struct Named {
    code: Option<Code>,
    domain: Option<Domain>,
    if_match: IfMatch,
}

impl Named {
    fn read(fields: &mut Fields, links: &TenantLinks<'_>) -> Self {
        Self {
            code: fields.required("shortCode", values::slug),
            domain: fields.optional("domain", |value| values::domain(value, links)),
            if_match: IfMatch::new(fields.optional("ifMatch", values::string)),
        }
    }

    fn finish(self, links: &TenantLinks<'_>) -> Result<(LinkKey, IfMatch), Problem> {
        let domain = self
            .domain
            .unwrap_or_else(|| links.default_domain().clone());
        // A missing code was refused before.
        let code = self.code.ok_or_else(|| Problem::new(Kind::Validation))?;
        Ok((LinkKey::new(domain, code), self.if_match))
    }
}
