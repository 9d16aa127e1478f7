//! `/visits`, and the visits of a short URL, a tag, a domain: single clicks, of which the newest 100,000 are listed.
//!
//! Attributes that edges are not configured to record are empty, as in a Shlink instance that tracks nothing. The target that a
//! visitor was sent to is not stored.

use super::failure::Failure;
use super::fields::{Named, NamedLink, domain, flag, query as parameters, time as time_of};
use super::pages::RequestedPage;
use super::tags;
use super::view::{VisitsSummary, time};
use crate::app::{ApiCall, App};
use crate::auth::Caller;
use axum::Json;
use axum::extract;
use edgelink_clicks::analytics::{EngineError, MAX_ORPHANS, RawClick, RawQuery, orphan_word};
use edgelink_model::counts::{Bots, ClickScope};
use edgelink_model::tenancy;
use edgelink_service::click_filter::{self as filter, ClickFilter, FoundScope};
use edgelink_service::fields::{Fields, Reason};
use edgelink_service::problem::Problem;
use edgelink_service::values;
use edgelink_settings::config::LinksConfig;
use edgelink_wire::clicks::events::OrphanKind;
use serde::Serialize;
use serde_json::{Value, json};

/// Limit on the visits of a page, and their default number.
const MAX_SIZE: usize = 5000;

/// Limit on the visits of all pages together.
const MAX_LISTED: u64 = 100_000;

/// A visit as Shlink shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShlinkVisit<'a> {
    referer: &'a str,
    date: String,
    user_agent: &'a str,
    visit_location: Option<Location<'a>>,
    potential_bot: bool,
    visited_url: String,
    redirect_url: Option<&'a str>,
    /// The kind of an orphan visit.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
}

/// Location of a visitor, as far as a trusted header gave it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location<'a> {
    country_code: &'a str,
    country_name: &'static str,
    region_name: &'static str,
    city_name: &'a str,
    latitude: Option<f64>,
    longitude: Option<f64>,
    timezone: &'static str,
    is_empty: bool,
}

/// The parameters of a list of visits.
struct WantedVisits {
    page: RequestedPage,
    /// The first second.
    from: u64,
    /// The first second after the interval.
    to: u64,
    bots: Bots,
}

impl WantedVisits {
    fn read(fields: &mut Fields) -> Self {
        let from = fields.optional("startDate", time_of);
        let to = fields.optional("endDate", time_of);
        let excludes_bots = fields.optional("excludeBots", flag);
        Self {
            page: RequestedPage::read(fields, MAX_SIZE, MAX_SIZE),
            from: from.unwrap_or_default(),
            to: to.map_or(u32::MAX.into(), |to| to.saturating_add(1)),
            bots: match excludes_bots {
                Some(true) => Bots::Excluded,
                _ => Bots::Included,
            },
        }
    }

    fn query(&self, scope: ClickScope, orphans: bool) -> RawQuery {
        RawQuery {
            scope,
            from: self.from,
            to: self.to,
            bots: self.bots,
            orphans,
            after: None,
            skip: self.page.offset() as u64,
            limit: u32::try_from(self.page.size).unwrap_or(u32::MAX),
        }
    }
}

/// `GET /visits`: numbers of visits. Only the newest links count.
pub(super) async fn overview(ApiCall { app, caller }: ApiCall) -> Result<Json<Value>, Failure> {
    let sum = app.links.sum_clicks(&caller).await?;
    let orphans = async |bots| {
        let query = RawQuery {
            scope: ClickScope::Tenant(caller.tenant_id()),
            from: 0,
            to: u32::MAX.into(),
            bots,
            orphans: true,
            after: None,
            skip: 0,
            limit: 0,
        };
        if !sees_orphans(&caller) {
            return Ok(0);
        }
        match app
            .analytics
            .ask(&caller)
            .await?
            .count_raw(&query, MAX_LISTED)
            .await
        {
            // No orphan visits are stored.
            Err(EngineError::Unsupported(_)) => Ok(0),
            counted => counted.map_err(Problem::from),
        }
    };
    let (visits, bots) = (orphans(Bots::Included).await?, orphans(Bots::Only).await?);
    Ok(Json(json!({
        "visits": {
            "nonOrphanVisits": VisitsSummary::new(sum.visits, sum.bots),
            "orphanVisits": VisitsSummary::new(visits, bots),
            "atLeast": sum.is_cut_off || visits >= MAX_LISTED,
        },
    })))
}

/// `GET /short-urls/{code}/visits`.
pub(super) async fn of_short_url(
    ApiCall { app, caller }: ApiCall,
    NamedLink(key, mut fields): NamedLink,
) -> Result<Json<Value>, Failure> {
    let wanted = WantedVisits::read(&mut fields);
    fields.finish()?;
    let link = app.links.find(&caller, &key).await?;
    list(
        (&app, &caller),
        &wanted,
        (ClickScope::Links(vec![link.id]), false),
        false,
    )
    .await
}

/// `DELETE /short-urls/{code}/visits`.
pub(super) async fn delete(
    ApiCall { app, caller }: ApiCall,
    NamedLink(key, fields): NamedLink,
) -> Result<Json<Value>, Failure> {
    fields.finish()?;
    let deleted = app.analytics.delete_clicks(&caller, &key).await?;
    Ok(Json(json!({ "deletedVisits": deleted })))
}

/// `GET /tags/{tag}/visits`.
pub(super) async fn of_tag(
    ApiCall { app, caller }: ApiCall,
    Named(tag, mut fields): Named,
) -> Result<Json<Value>, Failure> {
    let wanted = WantedVisits::read(&mut fields);
    let domain = fields.optional("domain", |value| {
        domain(value, &app.links.of_tenant(&caller))
    });
    fields.finish()?;
    tags::check(&app, &caller, &tag).await?;
    let of = ClickFilter {
        domain,
        tags: vec![tag],
        ..ClickFilter::default()
    };
    of_many(&app, &caller, &wanted, of).await
}

/// `GET /domains/{domain}/visits`.
pub(super) async fn of_domain(
    ApiCall { app, caller }: ApiCall,
    Named(name, mut fields): Named,
) -> Result<Json<Value>, Failure> {
    let wanted = WantedVisits::read(&mut fields);
    fields.finish()?;
    let domain = domain(&Value::from(name.as_str()), &app.links.of_tenant(&caller));
    let of = ClickFilter {
        domain: Some(domain.map_err(|_| Failure::domain_not_found(&name))?),
        ..ClickFilter::default()
    };
    of_many(&app, &caller, &wanted, of).await
}

/// `GET /visits/non-orphan`: the visits of all links of the caller.
pub(super) async fn non_orphan(
    ApiCall { app, caller }: ApiCall,
    extract::RawQuery(query): extract::RawQuery,
) -> Result<Json<Value>, Failure> {
    let mut fields = parameters(query.as_deref(), &[])?;
    let wanted = WantedVisits::read(&mut fields);
    let domain = fields.optional("domain", |value| {
        domain(value, &app.links.of_tenant(&caller))
    });
    fields.finish()?;
    let of = ClickFilter {
        domain,
        ..ClickFilter::default()
    };
    of_many(&app, &caller, &wanted, of).await
}

/// `GET /visits/orphan`. A key that may not read all links of the tenant sees none. A filter by type applies to the newest 10,000.
pub(super) async fn orphan(
    ApiCall { app, caller }: ApiCall,
    extract::RawQuery(query): extract::RawQuery,
) -> Result<Json<Value>, Failure> {
    let mut fields = parameters(query.as_deref(), &[])?;
    let wanted = WantedVisits::read(&mut fields);
    let domain = fields.optional("domain", |value| {
        domain(value, &app.links.of_tenant(&caller))
    });
    let kind = fields.optional("type", orphan_kind);
    fields.finish()?;
    if !sees_orphans(&caller) {
        return Ok(answer(&app.config.links, &[], wanted.page, 0, false));
    }
    let scope = filter::whole_tenant(&app.links, &caller, domain.as_ref()).await?;
    let Some(kind) = kind else {
        return list((&app, &caller), &wanted, (scope, false), true).await;
    };
    let query = RawQuery {
        skip: 0,
        limit: MAX_ORPHANS + 1,
        ..wanted.query(scope, true)
    };
    let mut visits = app
        .analytics
        .ask(&caller)
        .await?
        .raw(&query)
        .await
        .map_err(Problem::from)?;
    let is_cut_off = visits.len() > MAX_ORPHANS as usize;
    visits.truncate(MAX_ORPHANS as usize);
    visits.retain(|visit| visit.orphan == Some(kind));
    let total = visits.len() as u64;
    let page = wanted.page;
    let visits: Vec<RawClick> = visits
        .into_iter()
        .skip(page.offset())
        .take(page.size)
        .collect();
    Ok(answer(&app.config.links, &visits, page, total, is_cut_off))
}

/// `DELETE /visits/orphan`.
pub(super) async fn delete_orphan(
    ApiCall { app, caller }: ApiCall,
) -> Result<Json<Value>, Failure> {
    let deleted = app.analytics.delete_orphans(&caller).await?;
    Ok(Json(json!({ "deletedVisits": deleted })))
}

/// True if the caller may read data about all links of the tenant.
fn sees_orphans(caller: &Caller) -> bool {
    **caller.scope() == tenancy::Scope::tenant(caller.tenant_id())
}

fn orphan_kind(value: &Value) -> Result<OrphanKind, Reason> {
    match values::text(value)? {
        "base_url" => Ok(OrphanKind::BaseUrl),
        "invalid_short_url" => Ok(OrphanKind::InvalidShortUrl),
        "regular_404" => Ok(OrphanKind::Regular404),
        _ => Err("must be base_url, invalid_short_url or regular_404".into()),
    }
}

/// The visits of several links that the caller may see.
async fn of_many(
    app: &App,
    caller: &Caller,
    wanted: &WantedVisits,
    of: ClickFilter,
) -> Result<Json<Value>, Failure> {
    let FoundScope { scope, at_least } = of.find(&app.links, caller).await?;
    list((app, caller), wanted, (scope, at_least), false).await
}

/// A page of visits, newest first.
async fn list(
    (app, caller): (&App, &Caller),
    wanted: &WantedVisits,
    (scope, at_least): (ClickScope, bool),
    orphans: bool,
) -> Result<Json<Value>, Failure> {
    let links = &app.config.links;
    if matches!(&scope, ClickScope::Links(ids) if ids.is_empty()) {
        return Ok(answer(links, &[], wanted.page, 0, false));
    }
    let query = wanted.query(scope, orphans);
    let engine = app.analytics.ask(caller).await?;
    let total = engine.count_raw(&query, MAX_LISTED).await;
    let total = total.map_err(Problem::from)?;
    let visits = if query.skip < total {
        engine.raw(&query).await.map_err(Problem::from)?
    } else {
        Vec::new()
    };
    let is_cut_off = at_least || total >= MAX_LISTED;
    Ok(answer(links, &visits, wanted.page, total, is_cut_off))
}

fn answer(
    links: &LinksConfig,
    visits: &[RawClick],
    page: RequestedPage,
    total: u64,
    at_least: bool,
) -> Json<Value> {
    let data: Vec<ShlinkVisit<'_>> = visits
        .iter()
        .map(|visit| ShlinkVisit::new(visit, links))
        .collect();
    let pagination = page.describe(data.len(), total, at_least);
    Json(json!({ "visits": { "data": data, "pagination": pagination } }))
}

impl<'a> ShlinkVisit<'a> {
    fn new(visit: &'a RawClick, links: &LinksConfig) -> Self {
        let described = &visit.described;
        Self {
            referer: &described.referrer,
            date: time(visit.place.at),
            user_agent: &described.user_agent,
            visit_location: Location::new(&described.country, &described.city),
            potential_bot: described.agent.is_bot,
            visited_url: links.url(&visit.key),
            redirect_url: None,
            kind: visit.orphan.map(orphan_word),
        }
    }
}

impl<'a> Location<'a> {
    /// `None` if nothing is known.
    fn new(country_code: &'a str, city_name: &'a str) -> Option<Self> {
        if country_code.is_empty() && city_name.is_empty() {
            return None;
        }
        let country = rust_iso3166::from_alpha2(country_code);
        Some(Self {
            country_code,
            country_name: country.map_or("", |country| country.name),
            region_name: "",
            city_name,
            latitude: None,
            longitude: None,
            timezone: "",
            is_empty: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_when_country_is_known_has_its_name() {
        let location = Location::new("DE", "Berlin").unwrap();
        assert_eq!(location.country_name, "Germany");
        assert_eq!(Location::new("XX", "").unwrap().country_name, "");
        assert!(Location::new("", "").is_none());
    }
}
