//! Tags and words by which links are found. They are written in the transaction that changes the link, and a
//! deleted link has none.

use edgelink_database::dialect::Dialect;
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Sql, StatementForm, Value, insert_literally, sql};
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

    /// The statements that add them.
    pub(super) fn additions(&self, dialect: &Dialect, form: StatementForm) -> Vec<Sql<'_>> {
        let ignore = dialect.insert_ignore;
        let tags = form.cut(&self.tags, LONGEST).map(|tags| {
            let insert = sql(format!("{ignore} {}", TagRow::COLUMNS));
            insert.rows(tags.iter().map(TagRow::values))
        });
        let words = form.cut(&self.words, LONGEST).map(|words| {
            let insert = sql(format!("{ignore} {}", WordRow::COLUMNS));
            insert.rows(words.iter().map(WordRow::values))
        });
        tags.chain(words).collect()
    }

    /// Adds them. Part of a transaction.
    pub(super) async fn add(&self, session: &mut Session) -> Result<(), Fault> {
        for addition in self.additions(session.dialect(), StatementForm::Prepared) {
            session.execute(addition).await?;
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
    let ids = with_terms(links);
    remove_by_id(session, &ids).await
}

/// The numbers of those of the links that have terms.
pub(super) fn with_terms<'l>(links: impl IntoIterator<Item = &'l Link>) -> Vec<u64> {
    let has_any = |link: &&Link| !link.content.tags.is_empty() || link.content.title.is_some();
    let links = links.into_iter().filter(has_any);
    links.map(|link| link.id).collect()
}

/// Removes the terms of the links with these numbers. Part of a transaction.
pub(super) async fn remove_by_id(session: &mut Session, ids: &[u64]) -> Result<(), Fault> {
    for removal in removals(ids) {
        session.execute(removal).await?;
    }
    Ok(())
}

/// The statements that remove the terms of the links with these numbers.
pub(super) fn removals(ids: &[u64]) -> Vec<Sql<'static>> {
    let delete = |ids, table| sql(format!("DELETE FROM {table} WHERE link_id IN ")).list(ids);
    let parts = ids.chunks(LONGEST);
    parts
        .flat_map(|ids| ["link_tags", "link_words"].map(|table| delete(ids, table)))
        .collect()
}

/// True if two states of a link differ in tags or words.
pub(super) fn differ(before: &Link, after: &Link) -> bool {
    let of = |link: &Link| (link.id, link.created_at);
    let (one, other) = (&before.content, &after.content);
    of(before) != of(after) || one.tags != other.tags || one.title != other.title
}
