//! Rows as the databases have them, and how they become links.

use super::fault::Fault;
use super::revisions::Revisions;
use crate::model::{Link, LinkContent};
use crate::store::{ApiKeyRow, NewLink};
use crate::target::TargetUrl;
use edgelink_wire::{Code, Domain, LinkState, RedirectStatus};
use sha2::{Digest, Sha256};
use sqlx::mysql::{MySqlRow, MySqlTypeInfo, MySqlValueRef};
use sqlx::sqlite::{SqliteRow, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, FromRow, MySql, Row, Sqlite, Type};

/// A non-negative number: unsigned in MySQL, signed in SQLite, which has no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Unsigned(pub(in crate::store) u64);

impl Type<MySql> for Unsigned {
    fn type_info() -> MySqlTypeInfo {
        <u64 as Type<MySql>>::type_info()
    }

    fn compatible(ty: &MySqlTypeInfo) -> bool {
        <u64 as Type<MySql>>::compatible(ty)
    }
}

impl<'r> Decode<'r, MySql> for Unsigned {
    fn decode(value: MySqlValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        <u64 as Decode<'r, MySql>>::decode(value).map(Self)
    }
}

impl Type<Sqlite> for Unsigned {
    fn type_info() -> SqliteTypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }

    fn compatible(ty: &SqliteTypeInfo) -> bool {
        <i64 as Type<Sqlite>>::compatible(ty)
    }
}

impl<'r> Decode<'r, Sqlite> for Unsigned {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        Ok(Self(
            <i64 as Decode<'r, Sqlite>>::decode(value)?.try_into()?,
        ))
    }
}

/// A link as a query answers it.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct LinkRow {
    id: Unsigned,
    domain: Vec<u8>,
    code: Vec<u8>,
    url: Vec<u8>,
    redirect: u16,
    disabled: bool,
    valid_since: Option<Unsigned>,
    valid_until: Option<Unsigned>,
    forward_query: bool,
    title: Option<String>,
    tags: String,
    created_at: Unsigned,
    updated_at: Unsigned,
    deleted_at: Option<Unsigned>,
    rev: Unsigned,
}

impl LinkRow {
    /// Whether the row is what is left of a deleted link.
    pub(in crate::store) fn is_tombstone(&self) -> bool {
        self.deleted_at.is_some()
    }

    /// The revision of the link or of its deletion.
    pub(in crate::store) fn rev(&self) -> u64 {
        self.rev.0
    }

    /// The link.
    pub(in crate::store) fn into_link(self) -> Result<Link, Fault> {
        let domain = text(&self.domain, "domain")?;
        let code = text(&self.code, "code")?;
        Ok(Link {
            id: self.id.0,
            domain: Domain::parse(domain).map_err(|error| corrupt("domain", &error))?,
            code: Code::stored(code).map_err(|error| corrupt("code", &error))?,
            created_at: self.created_at.0,
            updated_at: self.updated_at.0,
            rev: self.rev.0,
            content: LinkContent {
                target: TargetUrl::from_store(text(&self.url, "target")?),
                redirect: redirect(self.redirect)?,
                state: state(self.disabled),
                valid_since: self.valid_since.map(|time| time.0),
                valid_until: self.valid_until.map(|time| time.0),
                forward_query: self.forward_query,
                title: self.title,
                tags: tags_from_text(&self.tags)?,
            },
        })
    }
}

/// What a key stands for, and what the next revisions follow from.
#[derive(Debug)]
pub(in crate::store) struct FoundRow {
    pub(in crate::store) revisions: Revisions,
    /// The link or its tombstone.
    pub(in crate::store) link: Option<LinkRow>,
}

macro_rules! found_row_from {
    ($($row:ty),+) => {$(
        impl<'r> FromRow<'r, $row> for FoundRow {
            fn from_row(row: &'r $row) -> Result<Self, sqlx::Error> {
                let id: Option<Unsigned> = row.try_get("id")?;
                let link = id.map(|_| LinkRow::from_row(row)).transpose()?;
                let revisions = Revisions::from_row(row)?;
                Ok(Self { revisions, link })
            }
        }
    )+};
}
found_row_from!(MySqlRow, SqliteRow);

/// What stands in the way of new links: a row with the same code.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct TakenRow {
    pub(in crate::store) id: Unsigned,
    pub(in crate::store) code: Vec<u8>,
    pub(in crate::store) rev: Unsigned,
    pub(in crate::store) deleted_at: Option<Unsigned>,
}

/// A link on its way into the database, with what is derived from it.
#[derive(Debug)]
pub(in crate::store) struct NewRow {
    pub(in crate::store) domain_id: u32,
    pub(in crate::store) link: Link,
    pub(in crate::store) url_hash: i64,
    pub(in crate::store) content_hash: i64,
    pub(in crate::store) tags: String,
}

impl NewRow {
    /// The row of a link that is created at `now`, unix milliseconds.
    pub(in crate::store) fn new(new: NewLink, domain_id: u32, now: u64) -> Self {
        Self {
            domain_id,
            url_hash: url_hash(&new.content.target),
            content_hash: content_hash(&new.key.domain, &new.content),
            tags: tags_to_text(&new.content.tags),
            link: Link {
                id: new.id,
                domain: new.key.domain,
                code: new.key.code,
                content: new.content,
                created_at: now,
                updated_at: now,
                // It follows in the transaction.
                rev: 0,
            },
        }
    }

    /// About how many bytes the row takes in a packet to the server.
    pub(in crate::store) fn wire_size(&self) -> usize {
        const NUMBERS: usize = 128;
        let title = self.link.content.title.as_ref().map_or(0, String::len);
        let url = self.link.content.target.as_str().len();
        NUMBERS + url + title + self.tags.len() + self.link.code.as_str().len()
    }
}

/// An API key as a query answers it.
#[derive(Debug, sqlx::FromRow)]
pub(in crate::store) struct KeyRow {
    id: Vec<u8>,
    name: String,
    secret_hash: Vec<u8>,
    created_at: Unsigned,
}

impl KeyRow {
    /// The API key.
    pub(in crate::store) fn into_key(self) -> Result<ApiKeyRow, Fault> {
        let hash = self.secret_hash.as_slice().try_into();
        Ok(ApiKeyRow {
            id: text(&self.id, "key id")?.to_owned(),
            name: self.name,
            secret_hash: hash.map_err(|error| corrupt("hash of an API key", &error))?,
            created_at: self.created_at.0,
        })
    }
}

/// By which links to a target are found.
pub(in crate::store) fn url_hash(target: &TargetUrl) -> i64 {
    hash(target.as_str().as_bytes())
}

/// By which a link with that content on that domain is found. What it is made of must stay the same: it is in rows.
pub(in crate::store) fn content_hash(domain: &Domain, content: &LinkContent) -> i64 {
    let LinkContent {
        target,
        redirect,
        state,
        valid_since,
        valid_until,
        forward_query,
        title,
        tags,
    } = content;
    let is_disabled = *state == LinkState::Disabled;
    let text = serde_json::json!([
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
    hash(text.to_string().as_bytes())
}

/// The first 64 bits of the SHA-256.
fn hash(bytes: &[u8]) -> i64 {
    let digest = Sha256::digest(bytes);
    let head = digest.first_chunk::<8>().copied().unwrap_or_default();
    i64::from_be_bytes(head)
}

/// Tags as a JSON array of strings.
pub(in crate::store) fn tags_to_text(tags: &[String]) -> String {
    serde_json::Value::from(tags).to_string()
}

fn tags_from_text(text: &str) -> Result<Vec<String>, Fault> {
    serde_json::from_str(text).map_err(|error| corrupt("tags", &error))
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

fn text<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Fault> {
    std::str::from_utf8(bytes).map_err(|error| corrupt(what, &error))
}

fn corrupt(what: &str, error: &dyn std::error::Error) -> Fault {
    Fault::Corrupt(format!("{what}: {error}"))
}
