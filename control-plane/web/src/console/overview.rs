//! The first page: clicks of the last days, the most followed links, the accounting of clicks, and the health of edges.

use super::api::{Console, parameters};
use super::clicks::about_clicks;
use super::layout::{self, Layout, Tab};
use super::shown_clicks as shown;
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_model::clock;
use edgelink_model::timestamp;
use edgelink_service::accounting::{AccountsView, GroupView};
use edgelink_service::analytics::AnalyticsView;
use edgelink_service::caller::Right;
use edgelink_service::edge_health::HealthView;
use edgelink_service::problem::Problem;
use futures_util::future::try_join;

const DAY_SECONDS: u64 = 86_400;

#[derive(Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    layout: Layout,
    /// The reason why there are no clicks on the page.
    problem: String,
    days: Option<AnalyticsView>,
    links: Option<AnalyticsView>,
    accounts: Option<AccountsView>,
    /// The accounting of the clicks of the last day by edge, with the health of each edge.
    edges: Vec<GroupView>,
    may_create: bool,
}

impl OverviewPage {
    /// The edges that have reported their health.
    fn healths(&self) -> Vec<(&GroupView, &HealthView)> {
        let edges = self.edges.iter();
        let healths = edges.filter_map(|edge| Some((edge, edge.health.as_ref()?.as_ref()?)));
        healths.collect()
    }
}

/// `GET /console`. Users who may not read links get the form for a new one.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
) -> Result<Response, Problem> {
    if !Tab::Overview.is_for(&me) && Tab::Create.is_for(&me) {
        return Ok(Redirect::to("/console/create").into_response());
    }
    me.check(Right::ReadLinks)?;
    let caller = me.caller();
    let mut page = OverviewPage {
        layout: Layout::new(&me, Some(Tab::Overview), t::OVERVIEW),
        problem: String::new(),
        days: None,
        links: None,
        accounts: None,
        edges: Vec::new(),
        may_create: Tab::Create.is_for(&me),
    };
    let analytics = &console.app.analytics;
    let days = "groupBy=timeseries&interval=30d&granularity=day";
    let links = "groupBy=top_links&interval=30d&limit=10";
    let clicks = try_join(
        analytics.count(caller, Some(days)),
        analytics.count(caller, Some(links)),
    );
    let asked = about_clicks(&console, clicks).await?;
    page.problem = asked.problem;
    (page.days, page.links) = asked.answer.unzip();
    if me.has(Right::Operate) {
        let day = clock::unix_seconds().saturating_sub(DAY_SECONDS);
        let from = timestamp::from_seconds(day);
        let of_day = parameters([("groupBy", "edge"), ("from", &*from)]);
        let accounts = try_join(
            analytics.accounting(caller, None),
            analytics.accounting(caller, Some(&of_day)),
        );
        let asked = about_clicks(&console, accounts).await?;
        page.problem = [page.problem, asked.problem].join(" ").trim().to_owned();
        if let Some((accounts, edges)) = asked.answer {
            page.accounts = Some(accounts.all);
            page.edges = edges.data.unwrap_or_default();
        }
    }
    layout::ok(&page)
}
