//! Reports of abuse by visitors: their list, and the actions on them.

use super::api::{Console, next_page, parameters, query};
use super::errors;
use super::fields::{Field, Fields, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::shown_link::link_href;
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_service::page;
use edgelink_service::problem::Problem;
use edgelink_service::reports::{ReportList, ReportPatch, ReportView, reviewer};

#[derive(Template)]
#[template(path = "console/reports.html")]
struct ReportsPage {
    layout: Layout,
    filters: Fields,
    reports: Vec<ReportView>,
    next: Option<String>,
    /// The reason why the last action failed.
    problem: String,
}

impl ReportsPage {
    async fn of(console: &Console, me: &SignedIn, asked: &Form) -> Result<Self, Problem> {
        // The default is open reports.
        let state = match asked.get("state") {
            "" => "open",
            state => state,
        };
        let filter = ("state", if state == "all" { "" } else { state });
        let of_page = [filter, ("cursor", asked.get("cursor")), ("limit", "50")];
        let list = ReportList::read(Some(&parameters(of_page)))?;
        let page = console.app.links.list_reports(me.caller(), list).await?;
        let next = next_page("/console/reports", [("state", state)], &page.next);
        let reviewer = reviewer(me.caller());
        let view = |row| ReportView::new(&console.app.config.links, reviewer, row);
        let reports = page.items.into_iter().map(view).collect();
        let filters = Field::choice("state", t::STATE, &t::REPORT_STATES).value(state);
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Reports), t::REPORTS).with_notice(asked),
            filters: Fields::new(vec![filters]),
            reports,
            next,
            problem: String::new(),
        })
    }
}

/// `GET /console/reports`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Query(asked): Query,
) -> Result<Response, Problem> {
    layout::ok(&ReportsPage::of(&console, &me, &asked).await?)
}

/// `POST /console/reports/{id}`.
pub(super) async fn change(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let (is_open, disables_link, done) = match form.get("action") {
        "open" => (true, false, "report-opened"),
        "disable" => (false, true, "report-disabled"),
        _ => (false, false, "report-closed"),
    };
    let patch = ReportPatch {
        is_open: Some(is_open),
        disables_link: Some(disables_link),
    };
    let id = page::number(&id)?;
    let links = &console.app.links;
    match links.change_report(me.caller(), id, &patch).await {
        Ok(changed) => Ok(changed.answer(|_| {
            let to = format!("/console/reports{}", query([("done", done)]));
            Redirect::to(&to).into_response()
        })),
        Err(problem) if stays(&problem) || form.get("action") == "disable" => {
            let mut page = ReportsPage::of(&console, &me, &Form::default()).await?;
            page.problem = errors::describe(&problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}

/// The page of the link of a report.
fn link_of(report: &ReportView) -> String {
    link_href(&report.domain, &report.short_code, "")
}

/// Label of a report's reason.
fn reason_of(report: &ReportView) -> &'static str {
    let label = t::REPORT_REASONS
        .iter()
        .find(|(word, _)| *word == report.reason);
    label.map_or(report.reason, |(_, label)| label)
}
