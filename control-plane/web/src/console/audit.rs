//! The audit log: changes, and the users and keys that made them.

use super::api::{Console, next_page, parameters};
use super::fields::{Field, Fields};
use super::form::Query;
use super::layout::{self, Layout, Tab};
use super::shown_link::link_href;
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use edgelink_service::audit::AuditEntry;
use edgelink_service::audit::{self, EntryView};
use edgelink_service::problem::Problem;

/// The parameters of the list, which are named as in the API.
const FILTERS: [&str; 3] = ["subject", "actor", "action"];

#[derive(Template)]
#[template(path = "console/audit.html")]
struct AuditPage {
    layout: Layout,
    filters: Fields,
    entries: Vec<Entry>,
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
    let of_page = parameters(filters.into_iter().chain(of_page));
    let list = audit::list_of(me.caller(), Some(&of_page))?;
    let page = console.app.links.audit(me.caller(), list).await?;
    let next = next_page("/console/audit", filters, &page.next);
    let fields = vec![
        Field::new("subject", t::SUBJECT).hint(t::SUBJECT_HINT),
        Field::new("actor", t::ACTOR),
        Field::new("action", t::ACTION),
    ];
    layout::ok(&AuditPage {
        layout: Layout::new(&me, Some(Tab::Audit), t::AUDIT),
        filters: Fields::new(fields).filled(&asked),
        entries: Entry::of(page.items),
        next,
    })
}

/// An entry of the audit log on a page.
pub(super) struct Entry(pub(super) EntryView);

impl Entry {
    pub(super) fn of(entries: Vec<AuditEntry>) -> Vec<Self> {
        let entries = entries.into_iter().map(EntryView::new);
        entries.map(Self).collect()
    }

    /// The page of its subject, if there is one.
    pub(super) fn href(&self) -> Option<String> {
        let (domain, code) = self.0.subject.strip_prefix("link:")?.rsplit_once('/')?;
        let page = match self.0.action.as_str() {
            "link.delete" => "/deleted",
            _ => "",
        };
        Some(link_href(domain, code, page))
    }
}
