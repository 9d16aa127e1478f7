//! The use case of clicks by their attributes.

use super::asking::Analytics;
use super::caller::{Caller, Right};
use super::click_filter::{self as filter, ClickFilter};
use super::fields::{Fields, Reason};
use super::times::{DAY, IntervalView, Times, one_of};
use super::values;
use crate::problem::Problem;
use edgelink_clicks::analytics::{GroupBy, Interval, MAX_VALUES, Period, Question, Summary};
use edgelink_model::counts::{Attribute, ClickScope};
use edgelink_model::timestamp;
use edgelink_settings::config::{AnalyticsConfig, LinksConfig};
use edgelink_store::Store;
use edgelink_wire::LinkKey;
use futures_util::future::try_join;
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use utoipa::ToSchema;

/// Default number of values.
pub const DEFAULT_LIMIT: usize = 100;

/// The clicks of an interval.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Analytics)]
pub struct AnalyticsView {
    pub(crate) group_by: &'static str,
    pub(crate) interval: IntervalView,
    pub totals: TotalsView,
    pub data: Vec<ItemView>,
    /// The clicks, or conversions, of all values that `data` does not have.
    pub(crate) other: u64,
    /// Whether there are older links whose clicks are not counted.
    pub(crate) at_least: bool,
    /// Totals and items of the previous interval, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<PartView>,
}

/// The clicks of the interval before.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreviousAnalytics)]
pub(crate) struct PartView {
    pub(crate) interval: IntervalView,
    pub(crate) totals: TotalsView,
    pub(crate) data: Vec<ItemView>,
    pub(crate) other: u64,
}

#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ClickTotals)]
pub struct TotalsView {
    pub clicks: u64,
    /// Different people each day, an estimate. Edges tell them apart if they are set up to. Not where clicks are grouped by values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) visitors: Option<u64>,
}

/// A value and its clicks, or a part of the interval and its clicks.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AnalyticsItem)]
pub struct ItemView {
    /// When the part begins; of a series only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The value; null where it is not known. Not in a series.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub value: Option<Option<String>>,
    /// Not of conversions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clicks: Option<u64>,
    /// How many conversions there were; of these only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conversions: Option<u64>,
    /// What the conversions are worth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amounts: Option<Vec<AmountView>>,
    /// Of a series only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) visitors: Option<u64>,
    /// Of links only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) short_url: Option<String>,
}

/// What conversions are worth in a currency.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Amount)]
pub(crate) struct AmountView {
    pub(crate) currency: String,
    /// In the smallest unit of the currency.
    pub(crate) value: u64,
}

impl Analytics {
    /// The clicks of an interval, as the parameters of `query` ask.
    ///
    /// # Errors
    /// A problem that names each wrong parameter, or the reason why there is no answer.
    pub async fn count(
        &self,
        caller: &Caller,
        query: Option<&str>,
    ) -> Result<AnalyticsView, Problem> {
        caller.require(Right::ReadLinks)?;
        let mut fields = Fields::of_query_with(query, &filter::LISTS)?;
        let group_by = fields.optional("groupBy", group_by).unwrap_or_default();
        let limit = fields.optional("limit", limit).unwrap_or(DEFAULT_LIMIT);
        let bots = fields.optional("bots", filter::bots).unwrap_or_default();
        let (times, before) = intervals(&mut fields, group_by, &self.config.analytics);
        let filter = ClickFilter::read(&mut fields, &self.links.of_tenant(caller));
        fields.finish()?;
        let engine = self.ask(caller).await?;
        let found = filter.find(&self.links, caller).await?;
        let question = Question {
            scope: found.scope,
            bots,
            group_by,
            limit,
        };
        let part = async |times: &Times| {
            let answer = question.ask(&*engine, times.interval, &times.bounds);
            let is_link = group_by == GroupBy::Values(Attribute::Link);
            let item = |value, item: ItemView| {
                if is_link {
                    item.of_link(value, &self.config.links)
                } else {
                    item.of_value(value)
                }
            };
            let mut part = PartView::new(times, answer.await?, item);
            if group_by == GroupBy::Conversions {
                let found = conversions(&self.store, &question.scope, times, limit).await?;
                (part.data, part.other) = found;
            }
            Ok::<_, Problem>(part)
        };
        let previous = async {
            match &before {
                Some(times) => part(times).await.map(Some),
                None => Ok(None),
            }
        };
        let (previous, part) = try_join(previous, part(&times)).await?;
        Ok(AnalyticsView {
            previous,
            ..AnalyticsView::new(group_by.word(), part, found.at_least)
        })
    }
}

/// The requested interval, and the previous one if requested.
fn intervals(
    fields: &mut Fields,
    group_by: GroupBy,
    settings: &AnalyticsConfig,
) -> (Times, Option<Times>) {
    let minutes = match group_by {
        GroupBy::Timeseries => settings
            .kept_minutes()
            .ok_or("must not be minute: clicks are kept by the minute in ClickHouse only"),
        _ => Err("must not be minute but with groupBy=timeseries"),
    };
    let hours_days = match group_by {
        GroupBy::Values(_) => settings.value_hours_days(),
        _ => settings.hours_days,
    };
    let times = Times::read(fields, minutes).counted(hours_days, u64::MAX);
    let before = fields
        .optional("compare", previous)
        .map(|()| times.before(hours_days));
    if let Some(before) = &before {
        if times.period == Some(Period::All) {
            fields.refuse("compare", "cannot be combined with interval=all");
        }
        before.check_minutes(fields, "compare", minutes);
    }
    (times, before)
}

/// The conversions of the days that an interval touches, by event, at most `limit` events, and the conversions of the others.
async fn conversions(
    store: &Store,
    scope: &ClickScope,
    times: &Times,
    limit: usize,
) -> Result<(Vec<ItemView>, u64), Problem> {
    let Interval { from, to } = times.interval;
    if from >= to {
        return Ok((Vec::new(), 0));
    }
    let sums = store
        .clicks()
        .conversion_sums(scope, from / DAY, (to - 1) / DAY);
    let mut events: HashMap<String, (u64, Vec<AmountView>)> = HashMap::new();
    for sum in sums.await? {
        let (conversions, amounts) = events.entry(sum.event).or_default();
        *conversions += sum.conversions;
        if !sum.currency.is_empty() {
            amounts.push(AmountView {
                currency: sum.currency,
                value: sum.value,
            });
        }
    }
    let mut events: Vec<_> = events.into_iter().collect();
    events.sort_unstable_by(|(one, (of_one, _)), (other, (of_other, _))| {
        of_other.cmp(of_one).then_with(|| one.cmp(other))
    });
    let left_out = events.split_off(limit.min(events.len()));
    let left_out = left_out.iter().map(|(_, (conversions, _))| conversions);
    let view = |(event, (conversions, amounts))| ItemView {
        conversions: Some(conversions),
        amounts: Some(amounts),
        ..ItemView::default().of_value(event)
    };
    let other = left_out.sum();
    Ok((events.into_iter().map(view).collect(), other))
}

impl AnalyticsView {
    fn new(group_by: &'static str, part: PartView, at_least: bool) -> Self {
        let PartView {
            interval,
            totals,
            data,
            other,
        } = part;
        Self {
            group_by,
            interval,
            totals,
            data,
            other,
            at_least,
            previous: None,
        }
    }

    /// An answer that has values.
    pub fn of_values(
        group_by: &'static str,
        times: &Times,
        answer: Summary,
        at_least: bool,
    ) -> Self {
        let part = PartView::new(times, answer, |value, item| item.of_value(value));
        Self::new(group_by, part, at_least)
    }
}

impl PartView {
    fn new(times: &Times, answer: Summary, view: impl Fn(String, ItemView) -> ItemView) -> Self {
        let slots = times.slots.iter().zip(answer.slots);
        let slots = slots.map(|(start, slot)| ItemView {
            start: Some(timestamp::from_seconds(*start)),
            clicks: Some(slot.numbers.clicks),
            visitors: Some(slot.numbers.visitors),
            ..ItemView::default()
        });
        let values = answer.values.into_iter().map(|(value, clicks)| {
            let item = ItemView {
                clicks: Some(clicks),
                ..ItemView::default()
            };
            view(value, item)
        });
        Self {
            interval: times.view(),
            totals: TotalsView {
                clicks: answer.clicks,
                visitors: answer.visitors,
            },
            data: slots.chain(values).collect(),
            other: answer.other,
        }
    }
}

impl ItemView {
    fn of_value(self, value: String) -> Self {
        Self {
            value: Some((!value.is_empty()).then_some(value)),
            ..self
        }
    }

    fn of_link(self, value: String, links: &LinksConfig) -> Self {
        let key: Option<LinkKey> = value.parse().ok();
        Self {
            short_code: key.as_ref().map(|key| key.code.to_string()),
            domain: key.as_ref().map(|key| key.domain.to_string()),
            short_url: key.map(|key| links.short_url(&key.domain, &key.code)),
            value: Some(Some(value)),
            ..self
        }
    }
}

fn group_by(value: &Value) -> Result<GroupBy, Reason> {
    let word = match values::text(value)? {
        // Dub's names.
        "top_links" => "links",
        "referers" => "referrers",
        word => word,
    };
    GroupBy::of_word(word).ok_or_else(|| one_of(GroupBy::ALL.map(|(_, word)| word)))
}

fn previous(value: &Value) -> Result<(), Reason> {
    match values::text(value)? {
        "previous" => Ok(()),
        _ => Err("must be previous".into()),
    }
}

/// A number of values.
pub fn limit(value: &Value) -> Result<usize, Reason> {
    let text = values::text(value)?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number
        .filter(|number| (1..=MAX_VALUES).contains(number))
        .ok_or(Reason::Borrowed("must be a number of 1 to 1000"))
}
