//! Use cases of reports of abuse.

use super::caller::{Caller, Right};
use super::fields::{Fields, Reason};
use super::links::Links;
use super::page::{self, Page};
use super::request::request;
use super::schemas::ReportState;
use super::values;
use crate::problem::{Kind, Problem};
use edgelink_feed::Changed;
use edgelink_model::timestamp::Time;
use edgelink_settings::config::LinksConfig;
use edgelink_store::{ReportQuery, ReportRow, Reviewer};
use edgelink_wire::LinkKey;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

request! {
    /// A JSON merge patch (RFC 7396) of a report.
    #[schema(example = json!({ "state": "closed", "disableLink": true }))]
    pub struct ReportPatch() {
        /// Whether it is still to be looked at.
        #[schema(inline)]
        "state" is_open: not_null bool as ReportState = is_open;
        /// Whether the link is disabled.
        "disableLink" disables_link: optional bool as bool = values::flag;
    }
}

/// A report of abuse as the API shows it.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Report)]
pub struct ReportView {
    pub id: u64,
    /// `open` or `closed`: for admins of the first tenant whether they have closed it, for others whether their tenant has.
    pub state: &'static str,
    /// Whether the tenant of the link has closed it: `open` or `closed`.
    pub tenant_state: &'static str,
    /// The tenant of the link.
    pub(crate) tenant: u32,
    pub domain: String,
    pub short_code: String,
    pub(crate) short_url: String,
    /// Where the link led when it was reported.
    pub long_url: String,
    pub reason: &'static str,
    /// What the visitor says.
    pub text: Option<String>,
    /// Where the visitor can be asked: for admins of the first tenant, and for others if the visitor lets them see it.
    pub email: Option<String>,
    #[schema(value_type = String)]
    pub created_at: Time,
    /// When it became `closed`; null while it is `open`.
    #[schema(value_type = Option<String>)]
    pub(crate) closed_at: Option<Time>,
}

impl ReportView {
    /// Builds the view for `reviewer`: with its own state of the report, and the email address only if it may see that.
    pub fn new(links: &LinksConfig, reviewer: Reviewer, row: ReportRow) -> Self {
        let closed_at = reviewer.closed_at(&row);
        let ReportRow { id, report, .. } = row;
        let sees_email = reviewer == Reviewer::Operator || report.shares_email;
        let LinkKey { domain, code } = &report.key;
        Self {
            id,
            state: state(closed_at),
            tenant_state: state(row.tenant_closed_at),
            tenant: report.tenant_id,
            short_url: links.short_url(domain, code),
            domain: domain.as_str().to_owned(),
            short_code: code.as_str().to_owned(),
            long_url: report.target,
            reason: report.reason.word(),
            text: report.text,
            email: report.email.filter(|_| sees_email),
            created_at: Time::of_millis(row.created_at),
            closed_at: closed_at.map(Time::of_millis),
        }
    }
}

fn state(closed_at: Option<u64>) -> &'static str {
    match closed_at {
        Some(_) => "closed",
        None => "open",
    }
}

/// The parameters of a list of reports.
pub struct ReportList {
    limit: u32,
    is_open: Option<bool>,
    before: Option<u64>,
}

impl ReportList {
    /// Reads the parameters of a list of reports.
    ///
    /// # Errors
    /// A problem that names each wrong parameter.
    pub fn read(query: Option<&str>) -> Result<Self, Problem> {
        let mut fields = Fields::of_query(query)?;
        let list = Self {
            limit: page::limit(&mut fields),
            is_open: fields.optional("state", is_open),
            before: fields.optional("cursor", page::cursor),
        };
        fields.finish().map(|()| list)
    }
}

/// The party on whose behalf a caller reviews reports.
pub fn reviewer(caller: &Caller) -> Reviewer {
    if caller.is_operator() {
        Reviewer::Operator
    } else {
        Reviewer::Tenant(caller.tenant_id())
    }
}

/// Parses the state of a report; true if it is open.
pub(crate) fn is_open(value: &Value) -> Result<bool, Reason> {
    match values::text(value)? {
        "open" => Ok(true),
        "closed" => Ok(false),
        _ => Err("must be open or closed".into()),
    }
}

impl Links {
    /// A page of reports, newest first: reports about links of the tenant, or all reports for operators of the installation.
    pub async fn list_reports(
        &self,
        caller: &Caller,
        list: ReportList,
    ) -> Result<Page<ReportRow>, Problem> {
        caller.require(Right::Administer)?;
        let query = ReportQuery {
            reviewer: reviewer(caller),
            is_open: list.is_open,
            before: list.before,
            limit: list.limit + 1,
        };
        let mut items = self.store.list_reports(&query).await?;
        let next = page::cut(&mut items, list.limit).map(|row| page::place(row.id));
        Ok(Page { items, next })
    }

    /// Closes a report, or reopens it; first disables the link, if requested.
    pub async fn change_report(
        &self,
        caller: &Caller,
        id: u64,
        patch: &ReportPatch,
    ) -> Result<Changed<ReportRow>, Problem> {
        caller.require(Right::Administer)?;
        let which = (reviewer(caller), id);
        let not_found = || Problem::new(Kind::NotFound);
        let row = self.store.find_report(which.0, id).await?;
        let row = row.ok_or_else(not_found)?;
        let disabled = match patch.disables_link {
            Some(true) => self
                .disable_reported(caller, &row.report)
                .await?
                .map(|_| ()),
            _ => Changed::nothing(()),
        };
        let row = match patch.is_open {
            Some(is_open) => {
                let actor = caller.actor();
                let changed = self.store.change_report(which, is_open, &actor).await?;
                changed.ok_or_else(not_found)?
            }
            None => row,
        };
        Ok(disabled.map(|()| row))
    }
}
