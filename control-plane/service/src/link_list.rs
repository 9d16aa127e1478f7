//! The use case of lists of links: search, filters, order, and pages by cursor.

use super::caller::{Caller, Right};
use super::cursor::Continuation;
use super::fields::{Fields, Reason};
use super::links::Links;
use super::page::{self, Page};
use super::seal::Seal;
use super::tenant_links::TenantLinks;
use super::values;
use crate::problem::Problem;
use edgelink_model::links::model::Link;
use edgelink_model::links::words::SearchTerm;
use edgelink_model::tenancy::Scope;
use edgelink_store::{ListOrder, ListQuery, ListedState, StoreError, TagsMode};
use serde_json::Value;

/// Limit on the number of tags in a filter, for wanted and for excluded tags each.
const MAX_FILTER_TAGS: usize = 10;

/// Parameters that may be given several times.
const LISTS: [&str; 2] = ["tags", "excludeTags"];

/// A requested list of links.
pub struct LinkList {
    query: ListQuery,
    /// Set if the list includes the rules of links.
    pub has_rules: bool,
}

impl Links {
    /// Reads the parameters of a list of the links that exist for the caller.
    ///
    /// # Errors
    /// A problem that names each wrong parameter.
    pub async fn read_list(
        &self,
        caller: &Caller,
        query: Option<&str>,
    ) -> Result<LinkList, Problem> {
        let scope = caller.scope().as_ref().clone();
        parse(query, scope, &self.of_tenant(caller), self.seal().await?)
    }

    /// A page of the links that exist for the caller.
    pub async fn list(&self, caller: &Caller, list: &LinkList) -> Result<Page<Link>, Problem> {
        caller.require(Right::ReadLinks)?;
        let page = self.store.list_links(&list.query).await?;
        let order = list.query.order;
        let seal = self.seal().await?;
        let next = page.next.map(|place| Continuation { order, place });
        Ok(Page {
            items: page.links,
            next: next.map(|next| next.format(seal)),
        })
    }

    /// The seal of cursors, which all control planes of the database share.
    async fn seal(&self) -> Result<&Seal, StoreError> {
        let read = async || Ok(Seal::new(&self.store.installation().await?));
        self.seal.get_or_try_init(read).await
    }
}

fn parse(
    query: Option<&str>,
    scope: Scope,
    config: &TenantLinks<'_>,
    seal: &Seal,
) -> Result<LinkList, Problem> {
    let mut fields = Fields::of_query_with(query, &LISTS)?;
    let has_rules = fields.optional("withRules", values::query_flag);
    let limit = page::limit(&mut fields);
    let mut query = ListQuery {
        domain: fields.optional("domain", |value| values::domain(value, config)),
        tags: fields.optional("tags", filter_tags).unwrap_or_default(),
        tags_mode: fields.optional("tagsMode", tags_mode).unwrap_or_default(),
        exclude_tags: fields
            .optional("excludeTags", filter_tags)
            .unwrap_or_default(),
        without_tags: fields
            .optional("withoutTags", values::query_flag)
            .unwrap_or_default(),
        state: fields.optional("state", state),
        created_from: fields.optional("createdAfter", millis),
        created_before: fields.optional("createdBefore", millis),
        external_id: fields.optional("externalId", external_id),
        search: fields.optional("searchTerm", search),
        ..ListQuery::newest(scope, limit)
    };
    let order = fields.optional("orderBy", order);
    let cursor = fields.optional("cursor", |value| Continuation::parse(value, seal));
    query.order = match (&cursor, order) {
        (Some(cursor), None) => cursor.order,
        (_, order) => order.unwrap_or_default(),
    };
    if cursor
        .as_ref()
        .is_some_and(|cursor| cursor.order != query.order)
    {
        fields.refuse("cursor", "belongs to a list in another order");
    }
    query.after = cursor.map(|cursor| cursor.place);
    check(&query, &mut fields);
    fields.finish()?;
    Ok(LinkList {
        query,
        has_rules: has_rules.unwrap_or_default(),
    })
}

/// Checks combinations of parameters.
fn check(query: &ListQuery, fields: &mut Fields) {
    if query.without_tags && !query.tags.is_empty() {
        fields.refuse("withoutTags", "cannot be combined with tags");
    }
    let by_code = matches!(query.order, ListOrder::Code | ListOrder::CodeDescending);
    if by_code && query.domain.is_none() {
        fields.refuse("orderBy", "by shortCode needs a domain");
    }
}

/// Parses a list of at most 10 tags, sorted and without duplicates.
pub fn filter_tags(value: &Value) -> Result<Vec<String>, Reason> {
    let tags = values::tags(value)?;
    if tags.len() > MAX_FILTER_TAGS {
        return Err("must be at most 10 tags".into());
    }
    Ok(tags)
}

/// Parses the condition on several tags: `any` or `all`.
pub fn tags_mode(value: &Value) -> Result<TagsMode, Reason> {
    match values::text(value)? {
        "any" => Ok(TagsMode::Any),
        "all" => Ok(TagsMode::All),
        _ => Err("must be any or all".into()),
    }
}

fn state(value: &Value) -> Result<ListedState, Reason> {
    match values::text(value)? {
        "active" => Ok(ListedState::Active),
        "disabled" => Ok(ListedState::Disabled),
        "expired" => Ok(ListedState::Expired),
        "scheduled" => Ok(ListedState::Scheduled),
        "archived" => Ok(ListedState::Archived),
        _ => Err("must be active, disabled, expired, scheduled or archived".into()),
    }
}

fn order(value: &Value) -> Result<ListOrder, Reason> {
    match values::text(value)? {
        "createdAt-desc" => Ok(ListOrder::NewestFirst),
        "createdAt-asc" => Ok(ListOrder::OldestFirst),
        "shortCode-asc" => Ok(ListOrder::Code),
        "shortCode-desc" => Ok(ListOrder::CodeDescending),
        _ => Err("must be createdAt-desc, createdAt-asc, shortCode-asc or shortCode-desc".into()),
    }
}

/// Parses the words of a search.
pub fn search(value: &Value) -> Result<SearchTerm, Reason> {
    SearchTerm::parse(values::text(value)?).map_err(|error| Reason::Owned(error.to_string()))
}

fn external_id(value: &Value) -> Result<String, Reason> {
    let id = values::text(value)?;
    if (1..=values::MAX_EXTERNAL_ID_LENGTH).contains(&id.len()) {
        Ok(id.to_owned())
    } else {
        Err("must be 1 to 255 bytes".into())
    }
}

/// A time in unix milliseconds.
fn millis(value: &Value) -> Result<u64, Reason> {
    values::time(value).map(|seconds| seconds.saturating_mul(1000))
}
