//! The use case of orphan visits, which led to no link: they are counted for callers who may read all links of the tenant.

use super::analytics::{AnalyticsView, DEFAULT_LIMIT, limit};
use super::asking::Analytics;
use super::caller::Caller;
use super::click_filter;
use super::fields::{Fields, Reason};
use super::times::{DAY, Times, one_of};
use super::values;
use crate::problem::Problem;
use edgelink_clicks::analytics::{Interval, OrphanGroup, RawQuery, orphans};
use edgelink_model::clock;
use edgelink_model::counts::Bots;
use serde_json::Value;

impl Analytics {
    /// Counts orphan visits as the parameters of `query` ask.
    ///
    /// # Errors
    /// A problem that names each wrong parameter, or the reason why there is no answer.
    pub async fn orphans(
        &self,
        caller: &Caller,
        query: Option<&str>,
    ) -> Result<AnalyticsView, Problem> {
        let mut fields = Fields::of_query(query)?;
        let group_by = fields.optional("groupBy", group_by).unwrap_or_default();
        let limit = fields.optional("limit", limit).unwrap_or(DEFAULT_LIMIT);
        let bots = fields
            .optional("bots", click_filter::bots)
            .unwrap_or_default();
        let times = Times::read(&mut fields, Err("must not be minute for orphan visits"));
        let domain = fields.optional("domain", |value| {
            values::domain(value, &self.links.of_tenant(caller))
        });
        fields.finish()?;
        let engine = self.ask(caller).await?;
        let query = RawQuery {
            scope: click_filter::whole_tenant(&self.links, caller, domain.as_ref()).await?,
            from: times.interval.from,
            to: times.interval.to,
            bots,
            orphans: true,
            after: None,
            skip: 0,
            limit: 0,
        };
        let (mut answer, at_least) = orphans(&*engine, query, group_by, limit).await?;
        let Interval { from, to } = times.interval;
        // Orphan visits beyond `max_orphans` of a day are only counted: not by domain, not for bots, and not for a part of a day.
        let days = from / DAY..=to.saturating_sub(1) / DAY;
        let kept = self.config.analytics.max_orphans;
        let beyond = self
            .store
            .clicks()
            .orphans_beyond(caller.tenant_id(), days, kept);
        let beyond = beyond.await?;
        let are_days =
            from.is_multiple_of(DAY) && (to.is_multiple_of(DAY) || to > clock::unix_seconds());
        let is_whole = are_days && domain.is_none() && bots == Bots::Included && !at_least;
        if is_whole {
            answer.clicks += beyond;
            answer.other += beyond;
        }
        let at_least = at_least || beyond > 0 && !is_whole;
        Ok(AnalyticsView::of_values(
            group_by.word(),
            &times,
            answer,
            at_least,
        ))
    }
}

fn group_by(value: &Value) -> Result<OrphanGroup, Reason> {
    let group = OrphanGroup::of_word(values::text(value)?);
    group.ok_or_else(|| one_of(OrphanGroup::ALL.map(|(_, word)| word)))
}
