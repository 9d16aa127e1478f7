//! Use cases of tags.

use super::caller::{Caller, Right};
use super::cursor;
use super::fields::{Fields, Reason};
use super::links::Links;
use super::page::{self, Page};
use super::request::request;
use super::schemas::Tag;
use super::values;
use crate::problem::{FieldError, Kind, Problem};
use edgelink_store::{MAX_COUNTED, TagCount, TagQuery};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Limit on the links that one request changes.
const MAX_LINKS: usize = 10_000;

request! {
    /// The new name of a tag.
    #[schema(example = json!({ "tag": "season", "merge": true }))]
    pub struct TagPatch() {
        "tag" tag: required String as Tag = values::tag;
        /// Whether links may have the new name already; by default false.
        "merge" merge: optional bool as bool = values::flag;
    }
}

/// A tag, and how many links have it.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TagCount)]
pub struct TagView {
    pub tag: String,
    pub links: u64,
    /// Whether there may be more links than were counted.
    pub at_least: bool,
}

impl TagView {
    /// Builds the view of a tag, whose links are counted up to [`MAX_COUNTED`].
    pub fn new(TagCount { tag, links }: TagCount) -> Self {
        Self {
            tag,
            links,
            at_least: links >= MAX_COUNTED,
        }
    }
}

/// The parameters of a list of tags.
pub struct TagList {
    limit: u32,
    prefix: String,
    after: Option<String>,
}

impl TagList {
    /// Reads the parameters of a list of tags.
    ///
    /// # Errors
    /// A problem that names each wrong parameter.
    pub fn read(query: Option<&str>) -> Result<Self, Problem> {
        let mut fields = Fields::of_query(query)?;
        let list = Self {
            limit: page::limit(&mut fields),
            prefix: fields.optional("prefix", values::tag).unwrap_or_default(),
            after: fields.optional("cursor", after),
        };
        fields.finish().map(|()| list)
    }
}

/// Parses the cursor: the last tag of the previous page.
fn after(value: &Value) -> Result<String, Reason> {
    let tag = cursor::parse_name(value)?;
    values::tag(&Value::from(tag)).map_err(|_| cursor::NO_CURSOR)
}

/// The outcome of replacing a tag.
pub struct ReplacedTag {
    /// Number of links on which the tag was replaced.
    pub links: usize,
    /// False if some links still have the tag: the request has to be sent again.
    pub complete: bool,
}

impl Links {
    /// A page of the tags of the caller's tenant, in the order of their bytes.
    pub async fn list_tags(
        &self,
        caller: &Caller,
        list: TagList,
    ) -> Result<Page<TagCount>, Problem> {
        caller.require(Right::ReadTenant)?;
        let query = TagQuery {
            tenant_id: caller.tenant_id(),
            prefix: list.prefix,
            after: list.after,
            limit: list.limit + 1,
        };
        let mut items = self.store.list_tags(&query).await?;
        let next = page::cut(&mut items, list.limit).map(|last| cursor::format_name(&last.tag));
        Ok(Page { items, next })
    }

    /// Renames a tag in all links, or merges it into another one.
    pub async fn rename_tag(
        &self,
        caller: &Caller,
        tag: &str,
        patch: &TagPatch,
    ) -> Result<ReplacedTag, Problem> {
        caller.require(Right::Administer)?;
        if patch.tag == tag {
            return Err(Problem::of_field("tag", "is the present name"));
        }
        self.check_tag(caller, tag).await?;
        if !patch.merge.unwrap_or_default() && !self.may_rename_tag(caller, tag, &patch.tag).await?
        {
            let error = FieldError::new(
                "tag",
                "is a tag of other links; merge: true puts them together",
            );
            return Err(Problem::new(Kind::TagTaken).with_errors(vec![error]));
        }
        self.replace_tag(caller, tag, Some(&patch.tag)).await
    }

    /// Removes a tag from all links.
    pub async fn delete_tag(&self, caller: &Caller, tag: &str) -> Result<ReplacedTag, Problem> {
        caller.require(Right::Administer)?;
        self.check_tag(caller, tag).await?;
        self.replace_tag(caller, tag, None).await
    }

    /// Refuses a tag that no link of the caller's tenant has.
    pub(crate) async fn check_tag(&self, caller: &Caller, tag: &str) -> Result<(), Problem> {
        let is_tag = values::tag(&Value::from(tag)).is_ok();
        if is_tag && self.has_tag(caller, tag).await? {
            Ok(())
        } else {
            Err(Problem::new(Kind::TagNotFound))
        }
    }

    /// True if a tag may be renamed to `by`: no link has `by`, or an earlier request has renamed the tag in some of the links.
    pub async fn may_rename_tag(
        &self,
        caller: &Caller,
        tag: &str,
        by: &str,
    ) -> Result<bool, Problem> {
        let tenant_id = caller.tenant_id();
        Ok(!self.store.has_tag(tenant_id, by).await?
            || self.store.is_half_renamed(tenant_id, tag, by).await?)
    }

    /// Replaces a tag of links until none has it, or until [`MAX_LINKS`] are done; another request does the rest.
    pub async fn replace_tag(
        &self,
        caller: &Caller,
        tag: &str,
        by: Option<&str>,
    ) -> Result<ReplacedTag, Problem> {
        caller.require(Right::Administer)?;
        let actor = caller.actor();
        let mut links = 0;
        while links < MAX_LINKS {
            let done = self.store.replace_tag(&actor, tag, by).await?;
            if done == 0 {
                break;
            }
            links += done;
        }
        let complete = links < MAX_LINKS || !self.store.has_tag(actor.tenant_id, tag).await?;
        Ok(ReplacedTag { links, complete })
    }
}
