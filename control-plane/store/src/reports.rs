//! Reports of abuse, by visitors about links.

use super::accounts::lock_tenant;
use super::audit::{Actor, Entry, append};
use crate::Store;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Sql, Value, sql};
use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_wire::{Code, Domain, LinkKey};
use serde_json::{Map, Value as Json};

/// Most open reports of a link: more would add nothing new.
pub const MAX_OPEN_OF_LINK: u64 = 10;

/// A new report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReport {
    /// The tenant of the link.
    pub tenant_id: u32,
    /// The link.
    pub key: LinkKey,
    /// Its target.
    pub target: String,
    /// The reason of the report.
    pub reason: ReportReason,
    /// The visitor's message.
    pub text: Option<String>,
    /// The visitor's e-mail address.
    pub email: Option<String>,
    /// True if the tenant of the link may see that address.
    pub shares_email: bool,
}

/// A stored report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRow {
    /// Its key, which grows with time.
    pub id: u64,
    /// Its content.
    pub report: NewReport,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Time at which the operator closed it, in unix milliseconds; `None` while it is open.
    pub closed_at: Option<u64>,
    /// Time at which the tenant of the link closed it, in unix milliseconds; `None` while it is open.
    pub tenant_closed_at: Option<u64>,
}

/// A party that reviews reports. Each closes them for itself, so that a tenant cannot remove reports about it from the operator's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reviewer {
    /// The operator of the installation, who sees all reports.
    Operator,
    /// A tenant, who sees reports about its links.
    Tenant(u32),
}

impl Reviewer {
    /// The column with the time at which this party closed a report.
    fn closing(self) -> &'static str {
        match self {
            Self::Operator => "closed_at",
            Self::Tenant(_) => "tenant_closed_at",
        }
    }

    /// The only tenant whose reports are visible; `None` for all.
    fn tenant_id(self) -> Option<u32> {
        match self {
            Self::Operator => None,
            Self::Tenant(id) => Some(id),
        }
    }

    /// Time at which this party closed a report, in unix milliseconds; `None` while it is open.
    #[must_use]
    pub fn closed_at(self, report: &ReportRow) -> Option<u64> {
        match self {
            Self::Operator => report.closed_at,
            Self::Tenant(_) => report.tenant_closed_at,
        }
    }
}

/// Reason why a link is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportReason {
    /// It impersonates another site.
    Phishing,
    /// It spreads malware.
    Malware,
    /// It came as spam.
    Spam,
    /// It leads to illegal content.
    Illegal,
    /// Something else.
    Other,
}

impl ReportReason {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Phishing,
        Self::Malware,
        Self::Spam,
        Self::Illegal,
        Self::Other,
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Phishing => "phishing",
            Self::Malware => "malware",
            Self::Spam => "spam",
            Self::Illegal => "illegal",
            Self::Other => "other",
        }
    }

    /// The reason with this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == word)
    }
}

/// Outcome of storing a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It is stored.
    Kept,
    /// The limit on open reports about the link is reached.
    Known,
    /// The limit on all reports is reached, and all are open.
    Full,
}

/// Query for reports, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportQuery {
    /// The reviewer, who determines the visible reports, and their state.
    pub reviewer: Reviewer,
    /// Only open reports, or only closed ones; `None` for both.
    pub is_open: Option<bool>,
    /// Only reports older than this one.
    pub before: Option<u64>,
    /// Most reports returned.
    pub limit: u32,
}

impl Store {
    /// Stores a report, at most `max` in all: the one closed first by the operator is removed for it.
    pub async fn insert_report(
        &self,
        report: &NewReport,
        max: u64,
    ) -> Result<Reported, StoreError> {
        let call = self.write("insert_report", "adding a report of abuse");
        let call = call.locking([RowLine::Tenant(FIRST_TENANT)]);
        run!(call, |session| {
            session.begin().await?;
            // Serialized, so that the counts are right.
            lock_tenant(session, FIRST_TENANT).await?;
            let reported = insert(session, report, max).await?;
            match reported {
                Reported::Kept => session.commit(1).await?,
                Reported::Known | Reported::Full => session.rollback().await?,
            }
            Ok(reported)
        })
    }

    /// Reports of abuse.
    pub async fn list_reports(&self, query: &ReportQuery) -> Result<Vec<ReportRow>, StoreError> {
        let call = self.read("list_reports", "listing reports of abuse");
        run!(call, |session| {
            let rows: Vec<ReportColumns> = session.fetch_all(selection(query)).await?;
            rows.into_iter().map(ReportColumns::into_report).collect()
        })
    }

    /// Reports that are open for the operator.
    pub async fn count_open_reports(&self) -> Result<u64, StoreError> {
        let call = self.read("count_open_reports", "counting open reports of abuse");
        run!(call, |session| {
            let open = sql("SELECT COUNT(*) FROM abuse_reports WHERE closed_at IS NULL");
            let (open,): (i64,) = session.fetch_one(open).await?;
            Ok(open.cast_unsigned())
        })
    }

    /// The report with this id; `None` if the reviewer sees none.
    pub async fn find_report(
        &self,
        reviewer: Reviewer,
        id: u64,
    ) -> Result<Option<ReportRow>, StoreError> {
        let call = self.read("find_report", "finding a report of abuse");
        run!(call, |session| find(session, reviewer, id).await)
    }

    /// Closes a report for the reviewer, or reopens it. `None` if the reviewer sees none with this id.
    pub async fn change_report(
        &self,
        (reviewer, id): (Reviewer, u64),
        is_open: bool,
        actor: &Actor,
    ) -> Result<Option<ReportRow>, StoreError> {
        let call = self.write("change_report", "changing a report of abuse");
        let call = call.locking([RowLine::Report(id)]);
        run!(call, |session| {
            session.begin().await?;
            let changed = change(session, (reviewer, id), is_open, actor).await?;
            match changed {
                Some(_) => session.commit(1).await?,
                None => session.rollback().await?,
            }
            Ok(changed)
        })
    }
}

async fn insert(session: &mut Session, report: &NewReport, max: u64) -> Result<Reported, Fault> {
    let (domain, code) = (&report.key.domain, &report.key.code);
    let open = sql(
        "SELECT COUNT(*) FROM abuse_reports WHERE domain = ? AND code = ? AND closed_at IS NULL",
    );
    let (open,): (i64,) = session.fetch_one(open.bind(domain).bind(code)).await?;
    if open.cast_unsigned() >= MAX_OPEN_OF_LINK {
        return Ok(Reported::Known);
    }
    let all = sql("SELECT COUNT(*) FROM abuse_reports");
    let (all,): (i64,) = session.fetch_one(all).await?;
    let beyond = (all.cast_unsigned() + 1).saturating_sub(max);
    if beyond > 0 {
        let closed = "closed_at IS NOT NULL ORDER BY closed_at";
        let oldest = session
            .dialect()
            .delete_some("abuse_reports", "id", sql(closed));
        if session.execute(oldest.bind(beyond)).await? < beyond {
            return Ok(Reported::Full);
        }
    }
    let now = session.dialect().now_millis;
    let insert = sql(format!(
        "INSERT INTO abuse_reports (tenant_id, domain, code, target, reason, text, email, shares_email, created_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, {now})"
    ));
    let insert = insert.bind(report.tenant_id).bind(domain).bind(code);
    let insert = insert.bind(&*report.target).bind(report.reason.word());
    let insert = insert.bind(report.text.as_deref().map(Value::Text));
    let insert = insert.bind(report.email.as_deref());
    let insert = insert.bind(u32::from(report.shares_email));
    session.execute(insert).await?;
    Ok(Reported::Kept)
}

const COLUMNS: &str = "id, tenant_id, domain, code, target, reason, text, email, shares_email, created_at, closed_at, tenant_closed_at";

fn selection<'v>(query: &ReportQuery) -> Sql<'v> {
    let mut selection = sql(format!("SELECT {COLUMNS} FROM abuse_reports WHERE id < ?"));
    // The greatest number in SQLite.
    selection = selection.bind(query.before.unwrap_or(i64::MAX.cast_unsigned()));
    if let Some(tenant_id) = query.reviewer.tenant_id() {
        selection = selection.push(" AND tenant_id = ?").bind(tenant_id);
    }
    if let Some(is_open) = query.is_open {
        let is = if is_open { "IS NULL" } else { "IS NOT NULL" };
        let closing = query.reviewer.closing();
        selection = selection.push(&format!(" AND {closing} {is}"));
    }
    selection
        .push(" ORDER BY id DESC LIMIT ?")
        .bind(query.limit)
}

async fn find(
    session: &mut Session,
    reviewer: Reviewer,
    id: u64,
) -> Result<Option<ReportRow>, Fault> {
    let mut query = sql(format!("SELECT {COLUMNS} FROM abuse_reports WHERE id = ?")).bind(id);
    if let Some(tenant_id) = reviewer.tenant_id() {
        query = query.push(" AND tenant_id = ?").bind(tenant_id);
    }
    let row: Option<ReportColumns> = session.fetch_optional(query).await?;
    row.map(ReportColumns::into_report).transpose()
}

async fn change(
    session: &mut Session,
    (reviewer, id): (Reviewer, u64),
    is_open: bool,
    actor: &Actor,
) -> Result<Option<ReportRow>, Fault> {
    let Some(old) = find(session, reviewer, id).await? else {
        return Ok(None);
    };
    if reviewer.closed_at(&old).is_none() == is_open {
        return Ok(Some(old));
    }
    let closed_at = if is_open {
        "NULL"
    } else {
        session.dialect().now_millis
    };
    let update = sql(format!(
        "UPDATE abuse_reports SET {} = {closed_at} WHERE id = ?",
        reviewer.closing()
    ));
    session.execute(update.bind(id)).await?;
    let mut detail = Map::new();
    detail.insert("link".to_owned(), old.report.key.to_string().into());
    let entry = Entry {
        actor,
        action: if is_open {
            "report.open"
        } else {
            "report.close"
        },
        subject: format!("report:{id}"),
        detail: Json::Object(detail),
    };
    append(session, &entry).await?;
    find(session, reviewer, id).await
}

#[derive(Debug, sqlx_macros::FromRow)]
struct ReportColumns {
    id: u64,
    tenant_id: u32,
    domain: Vec<u8>,
    code: Vec<u8>,
    target: Vec<u8>,
    reason: Vec<u8>,
    text: Option<String>,
    email: Option<Vec<u8>>,
    shares_email: u32,
    created_at: u64,
    closed_at: Option<u64>,
    tenant_closed_at: Option<u64>,
}

impl ReportColumns {
    fn into_report(self) -> Result<ReportRow, Fault> {
        let domain = Domain::parse(&name(&self.domain)?);
        let domain = domain.map_err(|error| Fault::corrupt("domain", &error))?;
        let code = Code::stored(&name(&self.code)?);
        let code = code.map_err(|error| Fault::corrupt("code", &error))?;
        let report = NewReport {
            tenant_id: self.tenant_id,
            key: LinkKey::new(domain, code),
            target: name(&self.target)?,
            // A later version may know others.
            reason: ReportReason::of_word(&name(&self.reason)?).unwrap_or(ReportReason::Other),
            text: self.text,
            email: self.email.as_deref().map(name).transpose()?,
            shares_email: self.shares_email != 0,
        };
        Ok(ReportRow {
            id: self.id,
            report,
            created_at: self.created_at,
            closed_at: self.closed_at,
            tenant_closed_at: self.tenant_closed_at,
        })
    }
}
