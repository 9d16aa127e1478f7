//! The use case of the accounting of clicks.

use super::asking::Analytics;
use super::caller::{Caller, Right};
use super::edge_health::HealthView;
use crate::fields::{Fields, Reason};
use crate::problem::Problem;
use crate::times::one_of;
use crate::values;
use edgelink_click_store::{AccountGroup, ClickAccounts, GroupAccounts};
use edgelink_model::timestamp;
use edgelink_store::EdgeHealth;
use edgelink_wire::health::INTERVAL_MILLIS;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use utoipa::ToSchema;

const HOUR: u64 = 60 * 60;

const DAY_HOURS: u64 = 24;

/// Limit on the number of groups.
const MAX_GROUPS: u32 = 1_000;

/// Limit on the number of edges whose health is read.
const MAX_EDGES: u32 = 10_000;

/// Workers that reported within this time make up the health of their edge. A live worker reports six times in it.
const HEARD_LATELY: Duration = Duration::from_millis(6 * INTERVAL_MILLIS);

/// What became of clicks.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accounting {
    #[serde(flatten)]
    pub all: AccountsView,
    /// The beginning of the interval, a full hour; only if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// Its end, a full hour, which is no part of it; only if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    /// What `data` is by; only if that was asked for, as all that follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group_by: Option<&'static str>,
    /// The 1,000 edges or workers that have sent most, behind them edges that have sent nothing and say how they are doing; or the latest 1,000 hours or days of which there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Vec<GroupView>>,
    /// What became of the clicks of all other groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) other: Option<AccountsView>,
}

/// What became of clicks. Those that were sent, and are neither counted nor dropped, are on their way.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ClickAccounts)]
pub struct AccountsView {
    /// How many there were, as edges say.
    pub sent: u64,
    /// How many were acknowledged, and count once each.
    pub counted: u64,
    /// How many edges have dropped.
    pub dropped: u64,
    /// How many of those that are counted have lost their attributes at the edge.
    pub undescribed: u64,
}

/// What became of the clicks of an edge, a worker, an hour or a day.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ClickAccountsOfGroup)]
pub struct GroupView {
    /// When the hour or the day (UTC) begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<String>,
    /// The name of the edge; null if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub edge: Option<Option<String>>,
    /// The worker in hexadecimal digits; null for workers that are not told apart any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) worker: Option<Option<String>>,
    #[serde(flatten)]
    pub accounts: AccountsView,
    /// How the edge is doing now, whatever the interval; null if it has not said so in the last day. Only by edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<HealthView>)]
    pub health: Option<Option<HealthView>>,
}

impl Analytics {
    /// Accounts for clicks as the parameters of `query` ask.
    ///
    /// # Errors
    /// A problem that names each wrong parameter, or the reason why there is no answer.
    pub async fn accounting(
        &self,
        caller: &Caller,
        query: Option<&str>,
    ) -> Result<Accounting, Problem> {
        caller.require(Right::Operate)?;
        let mut fields = Fields::of_query(query)?;
        let from = fields.optional("from", values::time);
        let to = fields.optional("to", values::time);
        let group_by = fields.optional("groupBy", group);
        if from.is_some_and(|from| to.is_some_and(|to| to <= from)) {
            fields.refuse("to", "must be after from");
        }
        fields.finish()?;
        let from = from.map(|from| from / HOUR);
        let to = to.map(|to| to.div_ceil(HOUR));
        let hours = (from.unwrap_or(0), to.unwrap_or(u32::MAX.into()));
        let (all, groups) = match group_by {
            None => (
                self.store
                    .clicks()
                    .click_accounts_between(hours.0, hours.1)
                    .await?,
                None,
            ),
            Some(by) => {
                let groups = self
                    .store
                    .clicks()
                    .grouped_click_accounts(hours, by, MAX_GROUPS)
                    .await?;
                (groups.all, Some((by, groups.groups)))
            }
        };
        let start = |hour: u64| timestamp::from_seconds(hour * HOUR);
        let mut accounting = Accounting {
            all: AccountsView::new(&all),
            from: from.map(start),
            to: to.map(start),
            group_by: group_by.map(AccountGroup::word),
            data: None,
            other: None,
        };
        if let Some((by, groups)) = groups {
            accounting.add(by, &all, groups);
            if by == AccountGroup::Edge {
                let healths = self.store.edge_health(HEARD_LATELY, MAX_EDGES).await?;
                accounting.add_health(healths);
            }
        }
        Ok(accounting)
    }
}

impl Accounting {
    fn add(&mut self, by: AccountGroup, all: &ClickAccounts, mut groups: Vec<GroupAccounts>) {
        if by.is_of_time() {
            groups.reverse();
        }
        let mut shown = ClickAccounts::default();
        for group in &groups {
            shown.add(&group.accounts);
        }
        let view = |group| GroupView::new(by, group);
        self.data = Some(groups.into_iter().map(view).collect());
        self.other = Some(AccountsView::new(&all.without(&shown)));
    }

    /// Adds the health of each edge, and the edges that have sent no clicks.
    fn add_health(&mut self, healths: Vec<EdgeHealth>) {
        let by_name = healths
            .into_iter()
            .map(|health| (health.edge.clone(), health));
        let mut healths: BTreeMap<String, EdgeHealth> = by_name.collect();
        let data = self.data.get_or_insert_default();
        for group in data.iter_mut() {
            let name = group.edge.as_ref().and_then(Option::as_deref);
            let health = healths.remove(name.unwrap_or_default());
            group.health = Some(health.as_ref().map(HealthView::new));
        }
        let room = (MAX_GROUPS as usize).saturating_sub(data.len());
        data.extend(healths.values().take(room).map(GroupView::without_clicks));
    }
}

impl AccountsView {
    fn new(accounts: &ClickAccounts) -> Self {
        let ClickAccounts {
            sent,
            counted,
            dropped,
            undescribed,
        } = *accounts;
        Self {
            sent,
            counted,
            dropped,
            undescribed,
        }
    }
}

impl GroupView {
    fn new(by: AccountGroup, group: GroupAccounts) -> Self {
        let hour = match by {
            AccountGroup::Day => group.hour - group.hour % DAY_HOURS,
            _ => group.hour,
        };
        let start = timestamp::from_seconds(hour * HOUR);
        let edge = Some(group.edge).filter(|edge| !edge.is_empty());
        let worker = Some(hex::encode(&group.worker)).filter(|worker| !worker.is_empty());
        Self {
            start: by.is_of_time().then_some(start),
            edge: (!by.is_of_time()).then_some(edge),
            worker: (by == AccountGroup::Worker).then_some(worker),
            accounts: AccountsView::new(&group.accounts),
            health: None,
        }
    }

    /// An edge that has sent no clicks.
    fn without_clicks(health: &EdgeHealth) -> Self {
        let edge = Some(health.edge.clone()).filter(|edge| !edge.is_empty());
        Self {
            start: None,
            edge: Some(edge),
            worker: None,
            accounts: AccountsView::new(&ClickAccounts::default()),
            health: Some(Some(HealthView::new(health))),
        }
    }
}

fn group(value: &Value) -> Result<AccountGroup, Reason> {
    let word = values::text(value)?;
    let mut all = AccountGroup::WORDS.into_iter();
    let found = all.find(|(_, of)| *of == word).map(|(group, _)| group);
    found.ok_or_else(|| one_of(AccountGroup::WORDS.map(|(_, word)| word)))
}
