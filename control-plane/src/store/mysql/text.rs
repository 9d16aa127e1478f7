//! Creating links as one text of several statements: one message to the server and one back, whatever their number.
//!
//! A prepared statement has a fixed number of rows, so a batch of any length would take several, each with its own way to
//! the server and back. In the text every string is a hexadecimal literal, so nothing in it can be taken for SQL.

use super::statements::SELECT_REVISIONS;
use crate::store::sql::insert_links;
use crate::store::sql::relay::{Announcements, Batch};
use crate::store::sql::rows::NewRow;
use edgelink_wire::LinkState;
use std::fmt::{Display, Write};

/// Begins a transaction, adds links and what is to be told of them, and asks for what revisions follow from. The server
/// stops at the first error.
pub(super) fn creation(rows: &[&NewRow], rev: u64, changes: &Announcements, now: u64) -> String {
    let mut text = Text(String::with_capacity(512 * (rows.len() + 1)));
    text.raw("START TRANSACTION; ");
    text.raw(insert_links!());
    text.list(rows, |text, row| text.link(row, rev));
    text.raw("; INSERT INTO outbox (link_keys, records, created_at) ");
    text.list(changes.batches(), |text, batch| text.batch(batch, now));
    text.raw("; ");
    text.raw(SELECT_REVISIONS);
    text.0
}

struct Text(String);

impl Text {
    fn raw(&mut self, sql: &'static str) {
        self.0.push_str(sql);
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.raw("VALUES ");
        for (index, item) in items.iter().enumerate() {
            self.raw(if index == 0 { "(" } else { ", (" });
            each(self, item);
            self.raw(")");
        }
    }

    fn link(&mut self, row: &NewRow, rev: u64) {
        let content = &row.link.content;
        self.number(row.link.id);
        self.comma().number(row.domain_id);
        self.comma().bytes(row.link.code.as_str());
        self.comma().bytes(content.target.as_str());
        self.comma().number(row.url_hash);
        self.comma().number(row.content_hash);
        self.comma().number(content.redirect.code());
        self.comma().flag(content.state == LinkState::Disabled);
        self.comma()
            .optional(content.valid_since.as_ref(), Self::number);
        self.comma()
            .optional(content.valid_until.as_ref(), Self::number);
        self.comma().flag(content.forward_query);
        self.comma().optional(content.title.as_deref(), Self::text);
        self.comma().text(&row.tags);
        self.comma().number(row.link.created_at);
        self.comma().number(row.link.updated_at);
        self.comma().number(rev);
    }

    fn batch(&mut self, batch: &Batch, now: u64) {
        self.bytes(batch.keys.as_bytes());
        self.comma().bytes(batch.records.as_bytes());
        self.comma().number(now);
    }

    fn comma(&mut self) -> &mut Self {
        self.raw(", ");
        self
    }

    fn number(&mut self, number: impl Display) {
        // A String takes everything.
        let _ = write!(self.0, "{number}");
    }

    fn flag(&mut self, flag: bool) {
        self.raw(if flag { "1" } else { "0" });
    }

    fn bytes(&mut self, bytes: impl AsRef<[u8]>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.raw("X'");
        for byte in bytes.as_ref() {
            self.0.push(char::from(DIGITS[usize::from(byte >> 4)]));
            self.0.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        self.raw("'");
    }

    fn text(&mut self, text: &str) {
        self.raw("_utf8mb4 ");
        self.bytes(text);
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.raw("NULL"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LinkContent;
    use crate::store::NewLink;
    use crate::target::TargetUrl;
    use edgelink_wire::{Record, RedirectStatus};

    #[test]
    fn everything_that_people_have_written_is_hexadecimal() {
        let content = LinkContent {
            target: TargetUrl::from_store("';--"),
            redirect: RedirectStatus::Found,
            state: LinkState::Disabled,
            valid_since: None,
            valid_until: Some(7),
            forward_query: true,
            title: Some("\\'\u{e4}".to_owned()),
            tags: Vec::new(),
        };
        let key = "a/c".parse().unwrap();
        let mut row = NewRow::new(
            NewLink {
                id: 1,
                key,
                content,
            },
            2,
            3,
        );
        row.url_hash = -4;
        row.content_hash = -5;
        let gone = Record::Absent { rev: 7 };
        let changes = Announcements::one(&row.link.key(), &gone);
        assert_eq!(
            creation(&[&row], 8, &changes, 9),
            "START TRANSACTION; INSERT INTO links (id, domain_id, code, url, url_hash, content_hash, redirect, disabled, \
             valid_since, valid_until, forward_query, title, tags, created_at, updated_at, rev) VALUES (1, 2, X'63', X'273b2d2d', -4, -5, \
             302, 1, NULL, 7, 1, _utf8mb4 X'5c27c3a4', _utf8mb4 X'5b5d', 3, 3, 8); \
             INSERT INTO outbox (link_keys, records, created_at) VALUES (X'00000003612f63', X'00000003018007', 9); \
             SELECT rev_floor, CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) AS now_micros FROM publisher \
             WHERE id = 1"
        );
    }
}
