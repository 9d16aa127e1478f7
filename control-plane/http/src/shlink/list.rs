//! `GET /short-urls`.

use super::failure::Failure;
use super::fields::{domain, filter_tags, flag, query as parameters, time};
use super::pages::{Pagination, RequestedPage};
use super::view::ShortUrl;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
use edgelink_model::links::model::Link;
use edgelink_model::tenancy::Scope;
use edgelink_service::fields::Reason;
use edgelink_service::link_list as admin_list;
use edgelink_service::numbered::{
    ListOrder, ListQuery, MAX_NUMBERED, NumberedPage, NumberedQuery, SortBy,
};
use edgelink_service::problem::Problem;
use edgelink_service::tenant_links::TenantLinks;
use edgelink_service::values;
use serde::Serialize;
use serde_json::{Value, json};

/// Default length of a page, as in Shlink.
const DEFAULT_SIZE: usize = 10;

/// The longest page.
const MAX_SIZE: usize = 100;

/// Parameters that may be given several times.
const LISTS: [&str; 2] = ["tags[]", "excludeTags[]"];

#[derive(Serialize)]
struct ShortUrls<'a> {
    data: Vec<ShortUrl<'a>>,
    pagination: Pagination,
}

pub(super) async fn list(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let config = &app.links.of_tenant(&caller);
    let scope = caller.scope().as_ref().clone();
    let (query, page) = parse(query.as_deref(), scope, config)?;
    let NumberedPage {
        links,
        total,
        is_cut_off,
    } = app.links.numbered_page(&caller, &query).await?;
    if is_cut_off && query.sort.is_some() {
        let reason = format!("sorts no more than {MAX_NUMBERED} links: narrow the list");
        return Err(Problem::of_field("orderBy", reason).into());
    }
    let ids: Vec<u64> = links.iter().map(|link| link.id).collect();
    let visits = app.engine.totals(&ids).await?;
    let of = |link: &Link| visits.get(&link.id).copied().unwrap_or_default();
    let data = links.iter();
    let data = data.map(|link| ShortUrl::new(link, of(link), config));
    let short_urls = ShortUrls {
        data: data.collect(),
        pagination: page.describe(links.len(), total as u64, is_cut_off),
    };
    Ok(Json(json!({ "shortUrls": short_urls })).into_response())
}

fn parse(
    query: Option<&str>,
    scope: Scope,
    config: &TenantLinks<'_>,
) -> Result<(NumberedQuery, RequestedPage), Problem> {
    let mut fields = parameters(query, &LISTS)?;
    let page = RequestedPage::read(&mut fields, DEFAULT_SIZE, MAX_SIZE);
    let order = fields.optional("orderBy", order).unwrap_or_default();
    let domain = fields.optional("domain", |value| domain(value, config));
    let by_code = order.sort == Some(SortBy::ShortCode);
    let list = ListQuery {
        tags: fields.optional("tags[]", filter_tags).unwrap_or_default(),
        tags_mode: fields
            .optional("tagsMode", admin_list::tags_mode)
            .unwrap_or_default(),
        exclude_tags: fields
            .optional("excludeTags[]", filter_tags)
            .unwrap_or_default(),
        exclude_mode: fields
            .optional("excludeTagsMode", admin_list::tags_mode)
            .unwrap_or_default(),
        hides_expired: fields
            .optional("excludePastValidUntil", flag)
            .unwrap_or_default(),
        hides_used_up: fields
            .optional("excludeMaxVisitsReached", flag)
            .unwrap_or_default(),
        created_from: fields.optional("startDate", time).map(millis),
        created_before: fields
            .optional("endDate", time)
            .map(|last| millis(last.saturating_add(1))),
        search: fields.optional("searchTerm", admin_list::search),
        order: match (order.sort, order.is_descending) {
            (None, true) => ListOrder::NewestFirst,
            (None, false) => ListOrder::OldestFirst,
            (Some(SortBy::ShortCode), true) if domain.is_some() => ListOrder::CodeDescending,
            (Some(SortBy::ShortCode), false) if domain.is_some() => ListOrder::Code,
            (Some(_), _) => ListOrder::NewestFirst,
        },
        // An index has the links of a domain by code.
        ..ListQuery::newest(scope, u32::try_from(page.size).unwrap_or(u32::MAX))
    };
    let sort = order.sort.filter(|_| !(by_code && domain.is_some()));
    fields.finish()?;
    let query = NumberedQuery {
        list: ListQuery { domain, ..list },
        sort: sort.map(|by| (by, order.is_descending)),
        offset: page.offset(),
    };
    Ok((query, page))
}

/// The sort order of a list.
#[derive(Clone, Copy)]
struct LinkOrder {
    /// `None`: by creation.
    sort: Option<SortBy>,
    is_descending: bool,
}

impl Default for LinkOrder {
    fn default() -> Self {
        Self {
            sort: None,
            is_descending: true,
        }
    }
}

/// Parses a field, and the direction after a hyphen; ascending if there is none.
fn order(value: &Value) -> Result<LinkOrder, Reason> {
    let text = values::text(value)?;
    let (field, direction) = text.split_once('-').unwrap_or((text, "ASC"));
    let sort = match field {
        "dateCreated" => None,
        "shortCode" => Some(SortBy::ShortCode),
        "longUrl" => Some(SortBy::LongUrl),
        "title" => Some(SortBy::Title),
        "visits" | "nonBotVisits" => Some(SortBy::Visits),
        _ => {
            return Err(
                "must be dateCreated, shortCode, longUrl, title, visits or nonBotVisits, and -ASC or -DESC".into(),
            );
        }
    };
    Ok(LinkOrder {
        sort,
        is_descending: is_descending(direction)?,
    })
}

/// Reads the direction of an order.
pub(super) fn is_descending(direction: &str) -> Result<bool, Reason> {
    match direction {
        "ASC" => Ok(false),
        "DESC" => Ok(true),
        _ => Err("must end with -ASC or -DESC".into()),
    }
}

fn millis(seconds: u64) -> u64 {
    seconds.saturating_mul(1000)
}
