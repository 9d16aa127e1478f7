//! Rows of links, and their conversion to and from links.

use edgelink_database::columns::{name, text};
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Sql, Value, sql};
use edgelink_model::links::model::{Link, LinkContent, LinkDetails};
use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_wire::target::TargetUrl;
use edgelink_wire::{Code, Domain, LinkState, RedirectStatus};
use sha2::{Digest, Sha256};

/// The columns of a link read by [`LinkRow`].
pub(super) const LINK_COLUMNS: &str = "l.id, l.domain_id, d.name AS domain, l.code, l.url, l.redirect, l.disabled, l.valid_since, \
     l.valid_until, l.forward_query, l.title, l.tags, l.external_id, l.archived, l.details, l.tenant_id, l.owner_id, l.imported_visits, l.created_at, l.updated_at, \
     l.deleted_at, l.rev";

/// A link as a query returns it.
#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct LinkRow {
    id: u64,
    pub(super) domain_id: u32,
    domain: Vec<u8>,
    code: Vec<u8>,
    url: Vec<u8>,
    redirect: u16,
    disabled: bool,
    valid_since: Option<u64>,
    valid_until: Option<u64>,
    forward_query: bool,
    title: Option<String>,
    tags: String,
    external_id: Option<Vec<u8>>,
    archived: bool,
    details: Option<String>,
    tenant_id: u32,
    owner_id: Option<u64>,
    imported_visits: u64,
    created_at: u64,
    updated_at: u64,
    pub(super) deleted_at: Option<u64>,
    rev: u64,
}

impl LinkRow {
    /// True if the row is a tombstone.
    pub(super) fn is_tombstone(&self) -> bool {
        self.deleted_at.is_some()
    }

    /// The revision of the link or of its deletion.
    pub(super) fn rev(&self) -> u64 {
        self.rev
    }

    /// Converts rows to links.
    pub(super) fn into_links(rows: Vec<Self>) -> Result<Vec<Link>, Fault> {
        rows.into_iter().map(Self::into_link).collect()
    }

    /// Converts the row to a link.
    pub(super) fn into_link(self) -> Result<Link, Fault> {
        Ok(Link {
            id: self.id,
            domain: Domain::parse(text(&self.domain)?)
                .map_err(|error| Fault::corrupt("domain", &error))?,
            code: Code::stored(text(&self.code)?)
                .map_err(|error| Fault::corrupt("code", &error))?,
            tenant_id: self.tenant_id,
            owner_id: self.owner_id,
            imported_visits: self.imported_visits,
            created_at: self.created_at,
            updated_at: self.updated_at,
            rev: self.rev,
            content: LinkContent {
                target: TargetUrl::from_store(text(&self.url)?),
                redirect: redirect(self.redirect)?,
                state: state(self.disabled),
                valid_since: self.valid_since,
                valid_until: self.valid_until,
                forward_query: self.forward_query,
                title: self.title,
                tags: tags_from_text(&self.tags)?,
                external_id: self.external_id.as_deref().map(name).transpose()?,
                archived: self.archived,
                details: details_from_text(self.details.as_deref())?,
            },
        })
    }
}

/// The links with these numbers, including tombstones.
pub(super) async fn links_by_id(session: &mut Session, ids: &[u64]) -> Result<Vec<Link>, Fault> {
    let mut links = Vec::with_capacity(ids.len());
    for ids in ids.chunks(LONGEST) {
        let query = sql(format!(
            "SELECT {LINK_COLUMNS} FROM links l JOIN domains d ON d.id = l.domain_id WHERE l.id IN "
        ));
        links.extend(LinkRow::into_links(
            session.fetch_all(query.list(ids)).await?,
        )?);
    }
    Ok(links)
}

/// The derived and encoded columns of the content of a link.
#[derive(Debug)]
pub(super) struct StoredContent {
    pub(super) url_hash: i64,
    pub(super) content_hash: i64,
    tags: String,
    details: Option<String>,
}

/// The columns that [`StoredContent::values`] fills.
pub(super) const CONTENT_COLUMNS: [&str; 13] = [
    "url",
    "url_hash",
    "content_hash",
    "redirect",
    "disabled",
    "valid_since",
    "valid_until",
    "forward_query",
    "title",
    "tags",
    "external_id",
    "archived",
    "details",
];

/// The columns of the row of a link.
pub(super) const ROW_COLUMNS: &str = "id, domain_id, code, url, url_hash, content_hash, redirect, disabled, valid_since, \
     valid_until, forward_query, title, tags, external_id, archived, details, tenant_id, owner_id, \
     imported_visits, created_at, updated_at, rev";

/// Number of [`ROW_COLUMNS`].
pub(super) const ROW_LENGTH: usize = CONTENT_COLUMNS.len() + 9;

impl StoredContent {
    /// Derives the columns from the content of a link of a tenant on a domain.
    pub(super) fn new(tenant_id: u32, domain: &Domain, content: &LinkContent) -> Self {
        Self {
            url_hash: url_hash(&content.target),
            content_hash: content_hash(tenant_id, domain, content),
            tags: serde_json::Value::from(content.tags.as_slice()).to_string(),
            details: details_as_text(&content.details),
        }
    }

    /// The tags as text.
    pub(super) fn tags(&self) -> &str {
        &self.tags
    }

    /// Approximate number of bytes of the row of a link in a packet to the server.
    pub(super) fn wire_size(&self, link: &Link) -> usize {
        const NUMBERS: usize = 128;
        let content = &link.content;
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = [&content.title, &content.external_id, &self.details];
        let text = content.target.as_str().len() + self.tags.len() + link.code.as_str().len();
        NUMBERS + text + texts.map(length).iter().sum::<usize>()
    }

    /// The values of [`ROW_COLUMNS`] for a link.
    pub(super) fn row<'v>(&'v self, domain_id: u32, link: &'v Link) -> [Value<'v>; ROW_LENGTH] {
        let head = [link.id.into(), domain_id.into(), (&link.code).into()];
        let content = self.values(&link.content);
        let tail = [
            link.imported_visits,
            link.created_at,
            link.updated_at,
            link.rev,
        ];
        let owner = [link.tenant_id.into(), link.owner_id.into()];
        let values = head.into_iter().chain(content).chain(owner);
        let mut values = values.chain(tail.map(Value::from));
        std::array::from_fn(|_| values.next().unwrap_or(Value::Null))
    }

    /// The values of [`CONTENT_COLUMNS`] for a content.
    pub(super) fn values<'v>(
        &'v self,
        content: &'v LinkContent,
    ) -> [Value<'v>; CONTENT_COLUMNS.len()] {
        [
            content.target.as_str().into(),
            self.url_hash.into(),
            self.content_hash.into(),
            content.redirect.code().into(),
            (content.state == LinkState::Disabled).into(),
            content.valid_since.into(),
            content.valid_until.into(),
            content.forward_query.into(),
            content.title.as_deref().map(Value::Text).into(),
            Value::Text(&self.tags),
            content.external_id.as_deref().into(),
            content.archived.into(),
            self.details.as_deref().map(Value::Text).into(),
        ]
    }
}

/// Appends the assignments of an UPDATE that replaces the content of a link.
pub(super) fn set_content<'v>(
    sql: Sql<'v>,
    stored: &'v StoredContent,
    content: &'v LinkContent,
) -> Sql<'v> {
    let columns = CONTENT_COLUMNS.into_iter().zip(stored.values(content));
    sql.join(", ", columns, |sql, (column, value)| {
        sql.push(column).push(" = ?").bind(value)
    })
}

/// The hash by which links to a target are found.
pub(super) fn url_hash(target: &TargetUrl) -> i64 {
    hash(target.as_str().as_bytes())
}

/// The hash by which a link of a tenant with this content on a domain is found. It must never change, because it is
/// stored: properties added later are part of it only if they differ from their defaults.
pub(super) fn content_hash(tenant_id: u32, domain: &Domain, content: &LinkContent) -> i64 {
    let LinkContent {
        target,
        redirect,
        state,
        valid_since,
        valid_until,
        forward_query,
        title,
        tags,
        external_id,
        archived,
        details,
    } = content;
    let is_disabled = *state == LinkState::Disabled;
    let mut parts = serde_json::json!([
        domain.as_str(),
        target.as_str(),
        redirect.code(),
        is_disabled,
        valid_since,
        valid_until,
        forward_query,
        title,
        tags,
    ]);
    if external_id.is_some() || *archived || *details != LinkDetails::default() {
        let later = serde_json::json!([external_id, archived, details]);
        if let Some(parts) = parts.as_array_mut() {
            parts.push(later);
        }
    }
    if tenant_id != FIRST_TENANT {
        let tenant = serde_json::json!({ "tenant": tenant_id });
        if let Some(parts) = parts.as_array_mut() {
            parts.push(tenant);
        }
    }
    hash(parts.to_string().as_bytes())
}

/// The first 64 bits of the SHA-256.
fn hash(bytes: &[u8]) -> i64 {
    let digest = Sha256::digest(bytes);
    let head = digest.first_chunk::<8>().copied().unwrap_or_default();
    i64::from_be_bytes(head)
}

pub(super) fn tags_from_text(text: &str) -> Result<Vec<String>, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::corrupt("tags", &error))
}

/// `None` if all have their defaults.
fn details_as_text(details: &LinkDetails) -> Option<String> {
    // Writing JSON to a string does not fail.
    let text = || serde_json::to_string(details).ok();
    (*details != LinkDetails::default()).then(text).flatten()
}

/// The limit of uses in the column `details`; `None` without one.
pub(super) fn max_visits(details: Option<&str>) -> Result<Option<u64>, Fault> {
    Ok(details_from_text(details)?.max_visits)
}

/// Fails for a link whose record this version cannot create.
pub(super) fn check_known(link: &Link) -> Result<(), Fault> {
    match link.content.details.later.keys().next() {
        Some(name) => Err(Fault::Corrupt(format!(
            "the property {name} of the link {} is of a later version",
            link.key()
        ))),
        None => Ok(()),
    }
}

pub(super) fn details_from_text(text: Option<&str>) -> Result<LinkDetails, Fault> {
    let details = text.map(serde_json::from_str).transpose();
    let details = details.map_err(|error| Fault::corrupt("details", &error))?;
    Ok(details.unwrap_or_default())
}

fn redirect(code: u16) -> Result<RedirectStatus, Fault> {
    RedirectStatus::from_code(code)
        .ok_or_else(|| Fault::Corrupt(format!("redirect status is {code}")))
}

fn state(disabled: bool) -> LinkState {
    if disabled {
        LinkState::Disabled
    } else {
        LinkState::Active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_hash_when_version_changes_stays_the_same() {
        let domain = Domain::parse("a.example").unwrap();
        let plain = LinkContent::to(TargetUrl::from_store("https://x.example/"));
        // The first 64 bits of the SHA-256 of
        // ["a.example","https://x.example/",302,false,null,null,true,null,[]]
        assert_eq!(
            content_hash(FIRST_TENANT, &domain, &plain),
            2_435_180_077_524_105_699
        );
        let full = LinkContent {
            external_id: Some("e".to_owned()),
            archived: true,
            details: LinkDetails {
                notes: Some("n".to_owned()),
                ..LinkDetails::default()
            },
            ..plain.clone()
        };
        // Of the array above with ["e",true,{"notes":"n"}] appended.
        assert_eq!(
            content_hash(FIRST_TENANT, &domain, &full),
            5_102_686_535_150_076_706
        );
        assert_ne!(
            content_hash(2, &domain, &plain),
            content_hash(FIRST_TENANT, &domain, &plain)
        );
    }

    #[test]
    fn details_when_of_a_later_version_are_kept() {
        let text = r#"{"notes":"n","next":[1]}"#;
        let details = details_from_text(Some(text)).unwrap();
        assert_eq!(details.notes.as_deref(), Some("n"));
        assert_eq!(details_as_text(&details).as_deref(), Some(text));
        assert_eq!(details_from_text(None).unwrap(), LinkDetails::default());
        assert!(details_from_text(Some("{")).is_err());
        assert_eq!(details_as_text(&LinkDetails::default()), None);
    }
}
