//! `/visits`, and the visits of a short URL, a tag, a domain.
//!
//! Edges count how often each link was followed in each minute, and nothing about the visitors. So a visit is one of
//! those that were counted, at the beginning of its minute, and all else of it is empty, as in a Shlink that is told to
//! track nothing. Requests that lead to no link are not counted: there are no orphan visits.

use super::failure::Failure;
use super::fields::{Named, NamedLink, domain};
use super::pages::Page;
use super::view::{VisitsSummary, time};
use crate::http::api::fields::{Fields, Reason};
use crate::http::api::{one, values};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use crate::store::{ClickMinute, ListQuery, MAX_MINUTES, MinuteQuery};
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use edgelink_wire::{Domain, LinkKey};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most visits of a page, and how many it has if no number is asked for.
const MAX_SIZE: usize = 5000;

/// A visit as Shlink shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Visit<'a> {
    referer: &'static str,
    date: &'a str,
    user_agent: &'static str,
    visit_location: Option<()>,
    potential_bot: bool,
    visited_url: &'a str,
}

/// Which visits are asked for.
struct Wanted {
    page: Page,
    /// The first minute (unix time / 60).
    from: u64,
    /// The last minute.
    to: u64,
}

/// Of which of the caller's links.
#[derive(Default)]
struct Of {
    domain: Option<Domain>,
    tag: Option<String>,
}

impl Wanted {
    fn read(fields: &mut Fields) -> Self {
        let from = fields.optional("startDate", values::time);
        let to = fields.optional("endDate", values::time);
        // None is known to be that of a bot.
        fields.optional("excludeBots", values::query_flag);
        Self {
            page: Page::read(fields, MAX_SIZE, MAX_SIZE),
            from: from.map_or(0, |from| from.div_ceil(60)),
            to: to.map_or(u32::MAX.into(), |to| to / 60),
        }
    }
}

/// `GET /visits`: how many there are. Those of the newest links are summed up.
pub(super) async fn overview(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, Failure> {
    let query = ListQuery::newest(caller.scope().as_ref().clone(), 1);
    let sum = app.store.sum_visits(&query).await?;
    Ok(Json(json!({
        "visits": {
            "nonOrphanVisits": VisitsSummary::of(sum.visits),
            "orphanVisits": VisitsSummary::of(0),
            "atLeast": sum.is_cut_off,
        },
    })))
}

/// `GET /short-urls/{code}/visits`.
pub(super) async fn of_short_url(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    NamedLink(key, mut fields): NamedLink,
) -> Result<Json<Value>, Failure> {
    let wanted = Wanted::read(&mut fields);
    fields.finish()?;
    one::find(&app, &caller, &key).await?;
    let query = MinuteQuery {
        key: Some(key),
        from: wanted.from,
        to: wanted.to,
    };
    let minutes = app.store.click_minutes(&query).await?;
    let is_cut_off = minutes.len() >= MAX_MINUTES as usize;
    Ok(answer(&app, &minutes, wanted.page, is_cut_off))
}

/// `DELETE /short-urls/{code}/visits`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    NamedLink(key, fields): NamedLink,
) -> Result<Json<Value>, Failure> {
    fields.finish()?;
    one::find(&app, &caller, &key).await?;
    let deleted = app.store.delete_clicks(&key, &caller.actor()).await?;
    Ok(Json(json!({ "deletedVisits": deleted })))
}

/// `GET /tags/{tag}/visits`.
pub(super) async fn of_tag(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Named(tag, mut fields): Named,
) -> Result<Json<Value>, Failure> {
    let wanted = Wanted::read(&mut fields);
    let domain = fields.optional("domain", |value| domain(value, &app.links(&caller)));
    fields.finish()?;
    if !app.store.has_tag(caller.tenant_id(), &tag).await? {
        return Err(Failure::from(Problem::new(Kind::TagNotFound)).with("tag", tag));
    }
    let tag = Some(tag);
    of_many(&app, &caller, &wanted, Of { domain, tag }).await
}

/// `GET /domains/{domain}/visits`.
pub(super) async fn of_domain(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Named(name, mut fields): Named,
) -> Result<Json<Value>, Failure> {
    let wanted = Wanted::read(&mut fields);
    fields.finish()?;
    let domain = domain(&Value::from(name.as_str()), &app.links(&caller));
    let domain = Some(domain.map_err(|_| Failure::domain_not_found(&name))?);
    let of = Of {
        domain,
        ..Of::default()
    };
    of_many(&app, &caller, &wanted, of).await
}

/// `GET /visits/non-orphan`: those of all links of the caller.
pub(super) async fn non_orphan(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Failure> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let wanted = Wanted::read(&mut fields);
    let domain = fields.optional("domain", |value| domain(value, &app.links(&caller)));
    fields.finish()?;
    let of = Of {
        domain,
        ..Of::default()
    };
    of_many(&app, &caller, &wanted, of).await
}

/// `GET /visits/orphan`: none.
pub(super) async fn orphan(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Failure> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let wanted = Wanted::read(&mut fields);
    fields.optional("domain", |value| domain(value, &app.links(&caller)));
    fields.optional("type", orphan_type);
    fields.finish()?;
    Ok(answer(&app, &[], wanted.page, false))
}

/// `DELETE /visits/orphan`: none.
pub(super) async fn delete_orphan() -> Json<Value> {
    Json(json!({ "deletedVisits": 0 }))
}

fn orphan_type(value: &Value) -> Result<(), Reason> {
    match values::text(value)? {
        "base_url" | "invalid_short_url" | "regular_404" => Ok(()),
        _ => Err("must be base_url, invalid_short_url or regular_404".into()),
    }
}

/// The visits of several links: of the newest minutes, those of links that the caller may see.
async fn of_many(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    of: Of,
) -> Result<Json<Value>, Failure> {
    let query = ListQuery {
        domain: of.domain,
        tags: of.tag.into_iter().collect(),
        ..ListQuery::newest(caller.scope().as_ref().clone(), 1)
    };
    let found = app.store.list_minutes(&query, wanted.from, wanted.to);
    let found = found.await?;
    Ok(answer(app, &found.minutes, wanted.page, found.is_cut_off))
}

fn key(minute: &ClickMinute) -> Option<LinkKey> {
    minute.key.parse().ok()
}

/// A page of visits, the newest first.
fn answer(app: &App, minutes: &[ClickMinute], page: Page, is_cut_off: bool) -> Json<Value> {
    let total: u64 = minutes.iter().map(|minute| minute.clicks).sum();
    let mut before = page.offset() as u64;
    let mut data: Vec<Value> = Vec::new();
    for minute in minutes {
        let left_out = before.min(minute.clicks);
        before -= left_out;
        let room = page.size - data.len();
        let count = usize::try_from(minute.clicks - left_out).unwrap_or(usize::MAX);
        if count == 0 {
            continue;
        }
        let date = time(minute.minute * 60);
        let url = key(minute).map(|key| app.config.links.short_url(&key.domain, &key.code));
        let visit = json!(Visit {
            referer: "",
            date: &date,
            user_agent: "",
            visit_location: None,
            potential_bot: false,
            visited_url: url.as_deref().unwrap_or_default(),
        });
        data.extend(std::iter::repeat_n(visit, count.min(room)));
        if data.len() == page.size {
            break;
        }
    }
    let pagination = page.describe(data.len(), total, is_cut_off);
    Json(json!({ "visits": { "data": data, "pagination": pagination } }))
}
