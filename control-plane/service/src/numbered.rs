//! Use cases of numbered pages, as clients of Shlink ask for them: links and tags with their clicks.

use super::caller::{Caller, Right};
use super::links::Links;
use crate::problem::Problem;
use edgelink_store::TagQuery;
pub use edgelink_store::{
    ListOrder, ListQuery, MAX_COUNTED, MAX_NUMBERED, NumberedPage, NumberedQuery, SortBy,
    TagClicks, TagCount, VisitSum,
};

impl Links {
    /// Returns a numbered page of links.
    pub async fn numbered_page(
        &self,
        caller: &Caller,
        query: &NumberedQuery,
    ) -> Result<NumberedPage, Problem> {
        caller.require(Right::ReadLinks)?;
        Ok(self.store.numbered_page(query).await?)
    }

    /// Sums the clicks of the newest links of the caller.
    pub async fn sum_clicks(&self, caller: &Caller) -> Result<VisitSum, Problem> {
        caller.require(Right::ReadLinks)?;
        let query = ListQuery::newest(caller.scope().as_ref().clone(), 1);
        Ok(self.store.sum_visits(&query).await?)
    }

    /// True if a link of the caller's tenant has the tag.
    pub async fn has_tag(&self, caller: &Caller, tag: &str) -> Result<bool, Problem> {
        caller.require(Right::ReadTenant)?;
        Ok(self.store.has_tag(caller.tenant_id(), tag).await?)
    }

    /// Returns the first [`MAX_NUMBERED`] tags of the caller's tenant, in the order of their names.
    pub async fn tag_names(&self, caller: &Caller) -> Result<Vec<String>, Problem> {
        caller.require(Right::ReadTenant)?;
        let query = TagQuery {
            tenant_id: caller.tenant_id(),
            prefix: String::new(),
            after: None,
            limit: u32::try_from(MAX_NUMBERED).unwrap_or(u32::MAX),
        };
        Ok(self.store.tag_names(&query).await?)
    }

    /// Counts links and clicks of tags; clicks of at most `most` links each.
    pub async fn count_tags(
        &self,
        caller: &Caller,
        names: &[String],
        most: u64,
    ) -> Result<(Vec<TagCount>, Vec<TagClicks>), Problem> {
        caller.require(Right::ReadTenant)?;
        let tenant_id = caller.tenant_id();
        let links = self.store.count_tags(tenant_id, names).await?;
        let most = most.min(MAX_COUNTED);
        let clicks = self.store.tag_clicks(tenant_id, names, most).await?;
        Ok((links, clicks))
    }
}
