//! `/tags`.

use super::failure::Failure;
use super::fields::query as parameters;
use super::list::is_descending;
use super::pages::RequestedPage;
use super::view::VisitsSummary;
use crate::api::body::JsonObject;
use crate::app::{ApiCall, App};
use crate::auth::Caller;
use axum::Json;
use axum::extract::RawQuery;
use edgelink_service::fields::{Fields, Reason};
use edgelink_service::numbered::{MAX_COUNTED, MAX_NUMBERED, TagClicks};
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::values;
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Limit on the tags whose links and visits one answer counts.
const MAX_STATS: usize = 1000;

/// Limit on the links whose visits one answer adds up, for all its tags together.
const MAX_LINKS: usize = 10_000;

/// A requested list of tags.
struct WantedTags {
    page: RequestedPage,
    search: Option<String>,
    order: TagOrder,
}

#[derive(Clone, Copy, Default)]
struct TagOrder {
    by: By,
    is_descending: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum By {
    #[default]
    Tag,
    Links,
    Visits,
}

/// A tag with its numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TagStats {
    tag: String,
    short_urls_count: u64,
    visits_summary: VisitsSummary,
    /// An extension: set if there may be more than was counted.
    at_least: bool,
    #[serde(skip)]
    visits: u64,
}

/// `GET /tags`: their names.
pub(super) async fn list(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Failure> {
    let wanted = WantedTags::parse(query.as_deref(), MAX_NUMBERED, &[By::Tag])?;
    let (names, is_cut_off) = wanted.names(&app, &caller).await?;
    let page = wanted.page;
    let data: Vec<&String> = names.iter().skip(page.offset()).take(page.size).collect();
    let pagination = page.describe(data.len(), names.len() as u64, is_cut_off);
    Ok(Json(
        json!({ "tags": { "data": data, "pagination": pagination } }),
    ))
}

/// `GET /tags/stats`: with their numbers of links and visits.
pub(super) async fn stats(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Failure> {
    let wanted = WantedTags::parse(
        query.as_deref(),
        MAX_STATS,
        &[By::Tag, By::Links, By::Visits],
    )?;
    let (mut names, is_cut_off) = wanted.names(&app, &caller).await?;
    let (page, total) = (wanted.page, names.len());
    let is_by_number = wanted.order.by != By::Tag;
    if is_by_number && total > MAX_STATS {
        let reason = format!("sorts no more than {MAX_STATS} tags by their numbers");
        return Err(Problem::of_field("orderBy", reason).into());
    }
    let cut = |offset: usize, size: usize, names: Vec<String>| -> Vec<String> {
        names.into_iter().skip(offset).take(size).collect()
    };
    if !is_by_number {
        names = cut(page.offset(), page.size, names);
    }
    let mut data = count(&app, &caller, &names).await?;
    if is_by_number {
        wanted.order.sort(&mut data);
        data = data
            .into_iter()
            .skip(page.offset())
            .take(page.size)
            .collect();
    }
    let pagination = page.describe(data.len(), total as u64, is_cut_off);
    Ok(Json(
        json!({ "tags": { "data": data, "pagination": pagination } }),
    ))
}

/// `PUT /tags`: renames a tag.
pub(super) async fn rename(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<StatusCode, Failure> {
    let mut fields = Fields::new(object);
    let old = fields.required("oldName", values::tag);
    let new = fields.required("newName", values::tag);
    fields.finish()?;
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    check(&app, &caller, &old).await?;
    if old != new && !app.links.may_rename_tag(&caller, &old, &new).await? {
        let taken = Failure::from(Problem::new(Kind::TagTaken));
        return Err(taken.with("oldName", old).with("newName", new));
    }
    if old != new {
        replace(&app, &caller, &old, Some(&new)).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /tags`: removes tags from all links. A tag that no link has counts as removed.
pub(super) async fn delete(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, Failure> {
    let mut fields = parameters(query.as_deref(), &["tags[]"])?;
    let tags = fields.required("tags[]", values::tags);
    fields.finish()?;
    for tag in tags.unwrap_or_default() {
        replace(&app, &caller, &tag, None).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses a tag that no link of the caller's tenant has.
pub(super) async fn check(app: &App, caller: &Caller, tag: &str) -> Result<(), Failure> {
    if app.links.has_tag(caller, tag).await? {
        Ok(())
    } else {
        Err(Failure::from(Problem::new(Kind::TagNotFound)).with("tag", tag))
    }
}

/// Replaces a tag in all links, because Shlink's API cannot express that some links are left for another request.
async fn replace(app: &App, caller: &Caller, tag: &str, by: Option<&str>) -> Result<(), Failure> {
    let replaced = app.links.replace_tag(caller, tag, by).await?;
    if replaced.complete {
        Ok(())
    } else {
        Err(Problem::new(Kind::Overloaded)
            .with_detail("more links have the tag than one request changes: send it again")
            .into())
    }
}

impl WantedTags {
    fn parse(query: Option<&str>, most: usize, by: &[By]) -> Result<Self, Problem> {
        let mut fields = parameters(query, &[])?;
        let wanted = Self {
            page: RequestedPage::read(&mut fields, most, most),
            search: fields.optional("searchTerm", values::string),
            order: fields
                .optional("orderBy", |value| TagOrder::read(value, by))
                .unwrap_or_default(),
        };
        fields.finish().map(|()| wanted)
    }

    /// The tags in the order of their names, and true if there may be more.
    async fn names(&self, app: &App, caller: &Caller) -> Result<(Vec<String>, bool), Failure> {
        let mut names = app.links.tag_names(caller).await?;
        let is_cut_off = names.len() >= MAX_NUMBERED;
        if let Some(term) = self.search.as_ref().map(|term| term.to_lowercase()) {
            names.retain(|name| name.to_lowercase().contains(&term));
        }
        if self.order.by == By::Tag && self.order.is_descending {
            names.reverse();
        }
        Ok((names, is_cut_off))
    }
}

impl TagOrder {
    fn read(value: &Value, allowed: &[By]) -> Result<Self, Reason> {
        let text = values::text(value)?;
        let (field, direction) = text.split_once('-').unwrap_or((text, "ASC"));
        let by = match field {
            "tag" => Some(By::Tag),
            "shortUrlsCount" => Some(By::Links),
            "visits" | "nonBotVisits" | "visitsCount" => Some(By::Visits),
            _ => None,
        };
        let by = by.filter(|by| allowed.contains(by));
        Ok(Self {
            by: by.ok_or(Reason::Borrowed("is no field of this list"))?,
            is_descending: is_descending(direction)?,
        })
    }

    fn sort(self, stats: &mut [TagStats]) {
        stats.sort_by_key(|stats| match self.by {
            By::Tag => 0,
            By::Links => stats.short_urls_count,
            By::Visits => stats.visits,
        });
        if self.is_descending {
            stats.reverse();
        }
    }
}

/// The counts of tags, in their order. Tags that have lost their last link meanwhile have zeros.
async fn count(app: &App, caller: &Caller, names: &[String]) -> Result<Vec<TagStats>, Failure> {
    let most = (MAX_LINKS / names.len().max(1)) as u64;
    let (links, sums) = app.links.count_tags(caller, names, most).await?;
    let links: HashMap<String, u64> = links.into_iter().map(|tag| (tag.tag, tag.links)).collect();
    let sums: HashMap<String, TagClicks> =
        sums.into_iter().map(|sum| (sum.tag.clone(), sum)).collect();
    let stats = |name: &String| {
        let links = links.get(name).copied().unwrap_or_default();
        let sum = sums.get(name);
        let (examined, visits, bots) =
            sum.map_or((0, 0, 0), |sum| (sum.links, sum.clicks, sum.bots));
        TagStats {
            tag: name.clone(),
            short_urls_count: links,
            visits_summary: VisitsSummary::new(visits, bots),
            at_least: links >= MAX_COUNTED || examined < links,
            visits,
        }
    };
    Ok(names.iter().map(stats).collect())
}
