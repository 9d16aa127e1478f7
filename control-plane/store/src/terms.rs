//! Tags and words by which links are found. They are written in the transaction that changes the link, and a
//! deleted link has none.

use edgelink_database::dialect::Dialect;
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Value, insert_literally, pieces, sql};
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_model::links::words::words_of;

/// Rows of links with tags or titles in other tables.
#[derive(Debug, Default)]
pub(super) struct Terms {
    tags: Vec<TagRow>,
    words: Vec<WordRow>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TagRow {
    tenant_id: u32,
    tag: String,
    created_at: u64,
    link_id: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WordRow {
    tenant_id: u32,
    word: String,
    link_id: u64,
}

impl TagRow {
    const COLUMNS: &str = "link_tags (tenant_id, tag, created_at, link_id) ";

    fn values(&self) -> [Value<'_>; 4] {
        let tag = self.tag.as_str();
        [
            self.tenant_id.into(),
            tag.into(),
            self.created_at.into(),
            self.link_id.into(),
        ]
    }
}

impl WordRow {
    const COLUMNS: &str = "link_words (tenant_id, word, link_id) ";

    fn values(&self) -> [Value<'_>; 3] {
        [
            self.tenant_id.into(),
            self.word.as_str().into(),
            self.link_id.into(),
        ]
    }
}

impl Terms {
    /// The rows of links, sorted by their keys, so that transactions lock them in one order.
    pub(super) fn of<'l>(links: impl IntoIterator<Item = &'l Link>) -> Self {
        let mut terms = Self::default();
        for link in links {
            terms.push(link);
        }
        terms.tags.sort_unstable();
        terms.words.sort_unstable();
        terms
    }

    fn push(&mut self, link: &Link) {
        let (tenant_id, link_id) = (link.tenant_id, link.id);
        self.tags.extend(link.content.tags.iter().map(|tag| TagRow {
            tenant_id,
            tag: tag.clone(),
            created_at: link.created_at,
            link_id,
        }));
        let words = words_of(&link.content).into_iter();
        self.words.extend(words.map(|word| WordRow {
            tenant_id,
            word,
            link_id,
        }));
    }

    /// Approximate number of bytes of the rows of a link in a packet to the server.
    pub(super) fn wire_size(content: &LinkContent) -> usize {
        const NUMBERS: usize = 48;
        let of_tag = |tag: &String| 2 * (tag.len() + NUMBERS) + NUMBERS * spaces(tag);
        let of_title = |title: &String| title.len() + NUMBERS * (1 + spaces(title));
        let tags: usize = content.tags.iter().map(of_tag).sum();
        tags + content.title.as_ref().map_or(0, of_title)
    }

    /// Appends the statements that add them to a text.
    pub(super) fn insert_literally(&self, text: &mut String, dialect: &Dialect) {
        let ignore = dialect.insert_ignore;
        if !self.tags.is_empty() {
            let insert = format!("{ignore} {}", TagRow::COLUMNS);
            insert_literally(text, &insert, self.tags.iter().map(TagRow::values));
            text.push_str("; ");
        }
        if !self.words.is_empty() {
            let insert = format!("{ignore} {}", WordRow::COLUMNS);
            insert_literally(text, &insert, self.words.iter().map(WordRow::values));
            text.push_str("; ");
        }
    }

    /// Adds them. Part of a transaction.
    pub(super) async fn add(&self, session: &mut Session) -> Result<(), Fault> {
        let ignore = session.dialect().insert_ignore;
        for tags in pieces(&self.tags) {
            let insert = sql(format!("{ignore} {}", TagRow::COLUMNS));
            let insert = insert.rows(tags.iter().map(TagRow::values));
            session.execute(insert).await?;
        }
        for words in pieces(&self.words) {
            let insert = sql(format!("{ignore} {}", WordRow::COLUMNS));
            let insert = insert.rows(words.iter().map(WordRow::values));
            session.execute(insert).await?;
        }
        Ok(())
    }
}

fn spaces(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b' ').count()
}

/// Removes the terms of links. Part of a transaction.
pub(super) async fn remove<'l>(
    session: &mut Session,
    links: impl IntoIterator<Item = &'l Link>,
) -> Result<(), Fault> {
    let has_any = |link: &&Link| !link.content.tags.is_empty() || link.content.title.is_some();
    let ids = links.into_iter().filter(has_any).map(|link| link.id);
    remove_by_id(session, &ids.collect::<Vec<_>>()).await
}

/// Removes the terms of the links with these numbers. Part of a transaction.
pub(super) async fn remove_by_id(session: &mut Session, ids: &[u64]) -> Result<(), Fault> {
    for ids in ids.chunks(LONGEST) {
        for table in ["link_tags", "link_words"] {
            let delete = sql(format!("DELETE FROM {table} WHERE link_id IN ")).list(ids);
            session.execute(delete).await?;
        }
    }
    Ok(())
}

/// True if two states of a link differ in tags or words.
pub(super) fn differ(before: &Link, after: &Link) -> bool {
    let of = |link: &Link| (link.id, link.created_at);
    let (one, other) = (&before.content, &after.content);
    of(before) != of(after) || one.tags != other.tags || one.title != other.title
}

/// Replaces the terms of links according to their present content. Part of a transaction.
pub(super) async fn replace(session: &mut Session, links: &[Link]) -> Result<(), Fault> {
    let ids: Vec<u64> = links.iter().map(|link| link.id).collect();
    remove_by_id(session, &ids).await?;
    Terms::of(links).add(session).await
}
