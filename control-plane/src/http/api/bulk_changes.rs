//! `PATCH` and `DELETE /links/bulk`: many changes in one request, each with an outcome of its own.
//!
//! Either the body is refused as a whole and changes nothing, or every item has its outcome.

use super::bulk_items::{self, Deadlines, ItemView};
use super::bulk_passwords::hash_all;
use super::fields::Fields;
use super::if_match::IfMatch;
use super::one::outcome;
use super::properties::Properties;
use super::schema;
use super::values;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::{Caller, check_again};
use crate::http::tenant_links::TenantLinks;
use crate::links::model::{Link, LinkContent, LinkDetails};
use crate::links::passwords::NewPassword;
use crate::problem::{Kind, Problem};
use crate::store::{Actor, LinkChange};
use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::target::TargetUrl;
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
type Outcome = Result<Link, Problem>;

#[derive(Serialize, ToSchema)]
#[schema(as = ChangedLinks)]
struct PatchedView<'a> {
    changed: usize,
    failed: usize,
    results: Vec<ItemView<'a>>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = DeletedLinks)]
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
    let view = |index, link| ItemView::done(index, StatusCode::OK, Some(link), &app.config.links);
    let (changed, failed, results) = answer(&outcomes, view);
    let answer = PatchedView {
        changed,
        failed,
        results,
    };
    Ok(awaited.attach_to(Json(answer).into_response()))
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
    let links = &app.config.links;
    let view = |index, _: &_| ItemView::done(index, StatusCode::NO_CONTENT, None, links);
    let (deleted, failed, results) = answer(&outcomes, view);
    let answer = DeletedView {
        deleted,
        failed,
        results,
    };
    Ok(awaited.attach_to(Json(answer).into_response()))
}

/// Makes the changes of a body; the outcomes, and what the feed has to carry before they are answered.
async fn change_many(
    app: &App,
    caller: &Caller,
    request: Request,
    parse: impl Fn(Map<String, Value>, &TenantLinks<'_>, &Caller) -> Parsed,
) -> Result<(Vec<Outcome>, AwaitedChanges), Problem> {
    let _permit = bulk_items::admit(app, request.headers())?;
    let links = &app.links(caller);
    let (parts, body) = request.into_parts();
    let parsed = bulk_items::read(&app.config.server, body, |_, value| {
        parse(bulk_items::object(value)?, links, caller)
    });
    let mut parsed = parsed.await?;
    check_again(&app.keys, &parts.headers, caller).await?;
    let passwords = &app.passwords;
    hash_all(passwords, &mut parsed, |item| item.2.as_ref()).await;
    let change = |(key, change, _): ParsedItem| (key, change);
    let parsed: Vec<_> = parsed.into_iter().map(|item| item.map(change)).collect();
    let from = app.feed.end();
    let limit = app.config.server.request_timeout_ms;
    let actor = caller.actor();
    let room = app.config.server.max_bulk_body_bytes;
    let run = async |changes: Vec<(LinkKey, LinkChange)>, by: Deadlines| {
        let mut made: Vec<Outcome> = Vec::with_capacity(changes.len());
        let mut held = 0;
        for chunk in changes.chunks(CHUNK) {
            if Instant::now() >= by.begin {
                break;
            }
            if held > room {
                made.resize_with(changes.len(), || Err(too_much()));
                break;
            }
            made.extend(change_chunk(app, chunk, &actor).await);
            let links = made[made.len() - chunk.len()..].iter().flatten();
            held += links.map(|link| bytes_of(&link.content)).sum::<usize>();
        }
        made
    };
    let outcomes = bulk_items::carry_out(parsed, limit, Kind::RequestTimeout, run).await?;
    let changed = outcomes.iter().flatten();
    let awaited = AwaitedChanges::new(from, changed.map(|link| (link.key(), link.rev)));
    Ok((outcomes, awaited))
}

/// What is not begun because the answer has no room for it.
fn too_much() -> Problem {
    let detail = "the answer has no room for more links: send the rest in another request";
    Problem::new(Kind::Overloaded).with_detail(detail)
}

/// About how many bytes a link is in an answer, and until then.
fn bytes_of(content: &LinkContent) -> usize {
    let LinkDetails { notes, rules, .. } = &content.details;
    let texts = [&content.title, notes].into_iter().flatten();
    let texts = texts.chain(&content.tags).map(String::len);
    let targets = rules.iter().map(|rule| rule.target.len());
    content.target.as_str().len() + texts.chain(targets).sum::<usize>()
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
        properties.apply(&link.content)
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

async fn change_chunk(app: &App, chunk: &[(LinkKey, LinkChange)], actor: &Actor) -> Vec<Outcome> {
    match app.store.change_links(chunk, actor).await {
        Ok(outcomes) => {
            let outcomes = outcomes.into_iter().zip(chunk);
            let outcomes = outcomes.map(|(changed, (_, change))| {
                let mut link = outcome(changed)?;
                if matches!(change, LinkChange::Delete(_)) {
                    // The answer does not show it.
                    link.content = LinkContent::to(TargetUrl::from_store(""));
                }
                Ok(link)
            });
            outcomes.collect()
        }
        Err(error) => {
            let problem = Problem::from(error);
            chunk.iter().map(|_| Err(problem.clone())).collect()
        }
    }
}

/// How many items have succeeded and failed, and their answers.
fn answer<'a>(
    outcomes: &'a [Outcome],
    done: impl Fn(usize, &'a Link) -> ItemView<'a>,
) -> (usize, usize, Vec<ItemView<'a>>) {
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let view = |(index, outcome): (usize, &'a Outcome)| match outcome {
        Ok(link) => done(index, link),
        Err(problem) => ItemView::refused(index, problem),
    };
    let results = outcomes.iter().enumerate().map(view).collect();
    (outcomes.len() - failed, failed, results)
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
