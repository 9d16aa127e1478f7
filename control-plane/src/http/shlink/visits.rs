//! `/visits`, and the visits of a short URL, a tag, a domain.
//!
//! A visit is a click that the engine of analytics keeps as it was.

use super::failure::Failure;
use super::fields::{Named, NamedLink, domain};
use super::pages::Page;
use super::view::{VisitsSummary, time};
use crate::analytics::{self, Bots, RawClick, RawQuery, Scope};
use crate::http::api::fields::{Fields, Reason};
use crate::http::api::{one, values};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use crate::store::ListQuery;
use axum::Json;
use axum::extract::{Extension, RawQuery as QueryText, State};
use edgelink_wire::{Domain, LinkKey};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The most visits of a page, and how many it has if no number is asked for.
const MAX_SIZE: usize = 5000;

/// The most visits that are counted for the number of pages.
const MAX_COUNTED: u64 = 100_000;

/// A visit as Shlink shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Visit<'a> {
    referer: &'a str,
    date: &'a str,
    user_agent: &'a str,
    visit_location: Option<()>,
    potential_bot: bool,
    visited_url: &'a str,
}

/// Which visits are asked for.
struct Wanted {
    page: Page,
    /// The first second.
    from: u64,
    /// The first second that does not count any more.
    to: u64,
    bots: Bots,
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
        let excludes_bots = fields.optional("excludeBots", values::query_flag);
        Self {
            page: Page::read(fields, MAX_SIZE, MAX_SIZE),
            from: from.unwrap_or(0),
            to: to.map_or(u32::MAX.into(), |to| to + 1),
            bots: match excludes_bots {
                Some(true) => Bots::Excluded,
                _ => Bots::Included,
            },
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
    let found = one::find(&app, &caller, &key).await?;
    page(&app, Scope::Links(vec![found.id]), &wanted).await
}

/// `DELETE /short-urls/{code}/visits`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    NamedLink(key, fields): NamedLink,
) -> Result<Json<Value>, Failure> {
    fields.finish()?;
    let found = one::find(&app, &caller, &key).await?;
    let (store, engine, actor) = (&app.store, app.engine.as_ref(), caller.actor());
    let deleted = analytics::delete_clicks(store, engine, &key, found.id, &actor).await?;
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
    QueryText(query): QueryText,
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
    QueryText(query): QueryText,
) -> Result<Json<Value>, Failure> {
    let mut fields = Fields::of_query(query.as_deref())?;
    let wanted = Wanted::read(&mut fields);
    fields.optional("domain", |value| domain(value, &app.links(&caller)));
    fields.optional("type", orphan_type);
    fields.finish()?;
    Ok(answer(&app, &[], wanted.page, 0))
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
    let listed = app.store.listed_ids(&query).await?;
    page(app, Scope::Links(listed.ids), wanted).await
}

/// A page of visits, the newest first.
async fn page(app: &App, scope: Scope, wanted: &Wanted) -> Result<Json<Value>, Failure> {
    let query = RawQuery {
        scope,
        from: wanted.from,
        to: wanted.to,
        bots: wanted.bots,
        orphans: false,
        after: None,
        skip: wanted.page.offset() as u64,
        limit: u32::try_from(wanted.page.size).unwrap_or(u32::MAX),
    };
    let total = app.engine.count_raw(&query, MAX_COUNTED).await?;
    let clicks = app.engine.raw(&query).await?;
    Ok(answer(app, &clicks, wanted.page, total))
}

fn answer(app: &App, clicks: &[RawClick], page: Page, total: u64) -> Json<Value> {
    let visit = |click: &RawClick| {
        let key: Option<LinkKey> = click.key.parse().ok();
        let url = key.map(|key| app.config.links.short_url(&key.domain, &key.code));
        json!(Visit {
            referer: &click.described.referrer,
            date: &time(click.place.at),
            user_agent: &click.described.user_agent,
            visit_location: None,
            potential_bot: click.described.agent.is_bot,
            visited_url: url.as_deref().unwrap_or_default(),
        })
    };
    let data: Vec<Value> = clicks.iter().map(visit).collect();
    let pagination = page.describe(data.len(), total, total >= MAX_COUNTED);
    Json(json!({ "visits": { "data": data, "pagination": pagination } }))
}
