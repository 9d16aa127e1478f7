//! Reports of abuse by visitors: their list, and what is done about them.

use super::api::{Console, encoded, next_page, query};
use super::errors;
use super::fields::{Field, Fields, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use super::views::{ReportView, ReportsView};
use crate::problem::Problem;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::Method;
use serde_json::json;

#[derive(Template)]
#[template(path = "console/reports.html")]
struct ReportsPage {
    layout: Layout,
    filters: Fields,
    reports: Vec<ReportView>,
    next: Option<String>,
    /// Why the last button did nothing.
    problem: String,
}

impl ReportsPage {
    async fn of(console: &Console, me: &SignedIn, asked: &Form) -> Result<Self, Problem> {
        // Reports that are open come first.
        let state = match asked.get("state") {
            "" => "open",
            state => state,
        };
        let filter = ("state", if state == "all" { "" } else { state });
        let of_page = query([filter, ("cursor", asked.get("cursor")), ("limit", "50")]);
        let list: ReportsView = console
            .read(me.caller(), &format!("/reports{of_page}"))
            .await?;
        let next = next_page("/console/reports", [("state", state)], &list.next_cursor);
        let filters = Field::choice("state", t::STATE, &t::REPORT_STATES).value(state);
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Reports), t::REPORTS).with_notice(asked),
            filters: Fields::new(vec![filters]),
            reports: list.reports,
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
    let (patch, done) = match form.get("action") {
        "open" => (json!({ "state": "open" }), "report-opened"),
        "disable" => (
            json!({ "state": "closed", "disableLink": true }),
            "report-disabled",
        ),
        _ => (json!({ "state": "closed" }), "report-closed"),
    };
    let path = format!("/reports/{}", encoded(&id));
    let changed = console
        .send(me.caller(), Method::PATCH, &path, &patch)
        .await;
    match changed {
        Ok(answer) => {
            let to = format!("/console/reports{}", query([("done", done)]));
            Ok(answer.before(Redirect::to(&to).into_response()))
        }
        Err(problem) if stays(&problem) || form.get("action") == "disable" => {
            let mut page = ReportsPage::of(&console, &me, &Form::default()).await?;
            page.problem = errors::describe(&problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}
