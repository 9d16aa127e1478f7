//! A link: its clicks, its QR code, its history, its deletion, and the undoing of the deletion.

use super::api::{Console, parameters, query};
use super::audit::Entry;
use super::clicks::about_clicks;
use super::edit::{find, key};
use super::form::Query;
use super::layout::{self, Layout, Tab};
use super::shown_clicks as shown;
use super::shown_link::{ShownLink, link_href, link_page};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_console::qr::Options;
use edgelink_http::api::events;
use edgelink_http::app::ApiCall;
use edgelink_service::analytics::AnalyticsView;
use edgelink_service::caller::Right;
use edgelink_service::page;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::revisions::Revisions;
use futures_util::future::{try_join, try_join_all};
use http::{HeaderMap, HeaderValue, header};

/// The clicks of a link by one attribute.
struct Breakdown {
    label: &'static str,
    clicks: AnalyticsView,
}

#[derive(Template)]
#[template(path = "console/link.html")]
struct LinkPage {
    layout: Layout,
    link: ShownLink,
    may_change: bool,
    days: Option<AnalyticsView>,
    breakdowns: Vec<Breakdown>,
    /// The reason why there are no clicks on the page.
    problem: String,
}

/// `GET /console/links/{code}`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let (link, _) = find(&console, &me, &code, asked.get("domain")).await?;
    let mut page = LinkPage {
        layout: Layout::new(&me, Some(Tab::Links), link.name()).with_notice(&asked),
        may_change: me.has(Right::ChangeLinks),
        days: None,
        breakdowns: Vec::new(),
        problem: String::new(),
        link,
    };
    let asked = about_clicks(&console, clicks(&console, &me, &page.link)).await?;
    page.problem = asked.problem;
    if let Some((days, breakdowns)) = asked.answer {
        page.days = Some(days);
        page.breakdowns = breakdowns;
    }
    layout::ok(&page)
}

/// Clicks by day, and by attributes.
async fn clicks(
    console: &Console,
    me: &SignedIn,
    link: &ShownLink,
) -> Result<(AnalyticsView, Vec<Breakdown>), Problem> {
    let analytics = &console.app.analytics;
    let ask = |group: &str, limit: &str| {
        let of_group = [("groupBy", group), ("interval", "30d"), ("limit", limit)];
        parameters(link.in_query().into_iter().chain(of_group))
    };
    let days = ask("timeseries", "") + "&granularity=day";
    let breakdowns = t::BREAKDOWNS.map(async |(group, label)| {
        let query = ask(group, "10");
        let clicks = analytics.count(me.caller(), Some(&query)).await?;
        Ok(Breakdown { label, clicks })
    });
    let days = analytics.count(me.caller(), Some(&days));
    try_join(days, try_join_all(breakdowns)).await
}

/// `GET /console/live`: clicks as they are reported, of all links or of one.
pub(super) async fn live(
    State(console): State<Console>,
    me: SignedIn,
    RawQuery(asked): RawQuery,
) -> Result<Response, Problem> {
    let call = ApiCall {
        app: console.app.clone(),
        caller: me.caller().clone(),
    };
    events::stream(call, HeaderMap::new(), RawQuery(asked)).await
}

/// `GET /console/links/{code}/qr.svg`: the QR code of its address, for pages without script.
pub(super) async fn qr(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let (link, _) = find(&console, &me, &code, asked.get("domain")).await?;
    let drawn = Options::read("{}").and_then(|options| options.draw(&link.short_url));
    let svg = drawn.map_err(|error| Problem::new(Kind::Internal).with_detail(error))?;
    let kind = HeaderValue::from_static("image/svg+xml");
    Ok(([(header::CONTENT_TYPE, kind)], svg).into_response())
}

#[derive(Template)]
#[template(path = "console/history.html")]
struct HistoryPage {
    layout: Layout,
    link: ShownLink,
    entries: Vec<Entry>,
    next: Option<String>,
    may_change: bool,
}

/// `GET /console/links/{code}/history`.
pub(super) async fn history(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let domain = asked.get("domain");
    let (link, _) = find(&console, &me, &code, domain).await?;
    let of_page = parameters([("cursor", asked.get("cursor"))]);
    let (limit, before) = page::parameters(Some(&of_page))?;
    let key = key(&console, &me, &code, domain)?;
    let history = console.app.links.history(me.caller(), &key, limit, before);
    let history = history.await?;
    let next = history.next.as_deref();
    let next = next.map(|cursor| {
        let query = query([("domain", domain), ("cursor", cursor)]);
        link_page(&code, "/history", &query)
    });
    layout::ok(&HistoryPage {
        layout: Layout::new(&me, Some(Tab::Links), t::HISTORY),
        may_change: me.has(Right::ChangeLinks),
        link,
        entries: Entry::of(history.items),
        next,
    })
}

/// `POST /console/links/{code}/delete`.
pub(super) async fn delete(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let domain = asked.get("domain");
    let key = key(&console, &me, &code, domain)?;
    let links = &console.app.links;
    let deleted = links.delete(me.caller(), key, Revisions::any()).await?;
    Ok(deleted.answer(|_| Redirect::to(&link_href(domain, &code, "/deleted")).into_response()))
}

#[derive(Template)]
#[template(path = "console/deleted.html")]
struct DeletedPage {
    layout: Layout,
    key: String,
}

/// `GET /console/links/{code}/deleted`: offers to undo a deletion.
pub(super) async fn deleted(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    me.check(Right::ChangeLinks)?;
    match find(&console, &me, &code, asked.get("domain")).await {
        Ok(_) => {
            let query = query([("domain", asked.get("domain"))]);
            return Ok(Redirect::to(&link_page(&code, "", &query)).into_response());
        }
        Err(problem) if problem.kind() == Kind::LinkNotFound => {}
        Err(problem) => return Err(problem),
    }
    let links = console.app.links.of_tenant(me.caller());
    let domain = match asked.get("domain") {
        "" => links.default_domain().as_str(),
        domain => domain,
    };
    layout::ok(&DeletedPage {
        layout: Layout::new(&me, Some(Tab::Links), t::DELETED),
        key: format!("{domain}/{code}"),
    })
}
