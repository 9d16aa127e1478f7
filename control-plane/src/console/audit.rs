//! The audit log: who changed what.

use super::api::{Console, next_page, query};
use super::fields::{Field, Fields};
use super::form::Query;
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use super::views::AuditView;
use crate::problem::Problem;
use askama::Template;
use axum::extract::State;
use axum::response::Response;

/// The parameters of the list, which are those of the API.
const FILTERS: [&str; 3] = ["subject", "actor", "action"];

#[derive(Template)]
#[template(path = "console/audit.html")]
struct AuditPage {
    layout: Layout,
    filters: Fields,
    log: AuditView,
    next: Option<String>,
}

/// `GET /console/audit`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let filters = FILTERS.map(|name| (name, asked.get(name).trim()));
    let of_page = [("cursor", asked.get("cursor")), ("limit", "50")];
    let of_page = query(filters.into_iter().chain(of_page));
    let log: AuditView = console
        .read(me.caller(), &format!("/audit{of_page}"))
        .await?;
    let next = next_page("/console/audit", filters, &log.next_cursor);
    let fields = vec![
        Field::new("subject", t::SUBJECT).hint(t::SUBJECT_HINT),
        Field::new("actor", t::ACTOR),
        Field::new("action", t::ACTION),
    ];
    layout::ok(&AuditPage {
        layout: Layout::new(&me, Some(Tab::Audit), t::AUDIT),
        filters: Fields::new(fields).filled(&asked),
        log,
        next,
    })
}
