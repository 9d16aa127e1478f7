//! The first page: clicks of the last days, the links that are followed most, what became of clicks, and how edges are doing.

use super::api::{Console, query};
use super::clicks::about_clicks;
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use super::views::{AccountsView, ClicksView, EdgeView, EdgesView, HealthView};
use crate::clock;
use crate::problem::Problem;
use crate::service::caller::Right;
use crate::timestamp;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::future::try_join;

const DAY_SECONDS: u64 = 86_400;

#[derive(Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    layout: Layout,
    /// Why there are no clicks on the page.
    problem: String,
    days: Option<ClicksView>,
    links: Option<ClicksView>,
    accounts: Option<AccountsView>,
    /// What became of the clicks of the last day, by edge, and how each is doing.
    edges: Vec<EdgeView>,
    may_create: bool,
}

impl OverviewPage {
    /// The edges that have said how they are doing.
    fn healths(&self) -> Vec<(&EdgeView, &HealthView)> {
        let edges = self.edges.iter();
        let healths = edges.filter_map(|edge| Some((edge, edge.health.as_ref()?)));
        healths.collect()
    }
}

/// `GET /console`. Those who may read no links begin with a new one.
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
    let days = "/analytics?groupBy=timeseries&interval=30d&granularity=day";
    let links = "/analytics?groupBy=top_links&interval=30d&limit=10";
    let clicks = try_join(console.read(caller, days), console.read(caller, links));
    let asked = about_clicks(&console, clicks).await?;
    page.problem = asked.problem;
    (page.days, page.links) = asked.answer.unzip();
    if me.has(Right::Operate) {
        let day = clock::unix_seconds().saturating_sub(DAY_SECONDS);
        let from = timestamp::from_seconds(day);
        let of_day = query([("groupBy", "edge"), ("from", &*from)]);
        let edges = format!("/clicks/accounting{of_day}");
        let accounts = try_join(
            console.read(caller, "/clicks/accounting"),
            console.read::<EdgesView>(caller, &edges),
        );
        let asked = about_clicks(&console, accounts).await?;
        page.problem = [page.problem, asked.problem].join(" ").trim().to_owned();
        if let Some((accounts, edges)) = asked.answer {
            page.accounts = Some(accounts);
            page.edges = edges.data;
        }
    }
    layout::ok(&page)
}
