//! A statement with its values, for either driver.
//!
//! Lists have few lengths, so that each statement is prepared once for each of them: an evicted statement costs
//! another round trip, and MySQL's protocol closes it with a message that has no answer. The next small message then
//! waits until the server's system has acknowledged that one (Nagle's algorithm against delayed acknowledgements): 40
//! ms. Lengths are therefore powers of two: see [`pieces`] and [`padded`].

use edgelink_wire::{Code, Domain};
use sqlx::mysql::MySqlArguments;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, IntoArguments, MySql, Sqlite};
use std::borrow::Cow;
use std::fmt::Write;

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Value<'v> {
    /// NULL.
    Null,
    /// A number with a sign.
    Signed(i64),
    /// Unsigned in MySQL, signed in SQLite, which has no other.
    Unsigned(u64),
    /// 0 or 1.
    Bool(bool),
    /// Text compared by its bytes: a name, a code, an address. VARBINARY in MySQL.
    Name(&'v str),
    /// Text written by people, stored as text in both.
    Text(&'v str),
    /// Bytes: VARBINARY or BLOB.
    Bytes(&'v [u8]),
}

macro_rules! value_from {
    ($($from:ty => |$value:ident| $into:expr),+ $(,)?) => {$(
        impl<'v> From<$from> for Value<'v> {
            fn from($value: $from) -> Self {
                $into
            }
        }
    )+};
}
value_from!(
    i64 => |value| Self::Signed(value),
    u64 => |value| Self::Unsigned(value),
    u32 => |value| Self::Unsigned(value.into()),
    u16 => |value| Self::Unsigned(value.into()),
    bool => |value| Self::Bool(value),
    &'v str => |value| Self::Name(value),
    &'v Domain => |value| Self::Name(value.as_str()),
    &'v Code => |value| Self::Name(value.as_str()),
    &'v [u8] => |value| Self::Bytes(value),
    &'v [u8; 32] => |value| Self::Bytes(value),
);

impl<'v, T: Into<Value<'v>>> From<Option<T>> for Value<'v> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, T::into)
    }
}

/// The values of a statement.
#[derive(Clone, Debug, Default)]
pub struct Values<'v>(Vec<Value<'v>>);

impl IntoArguments<MySql> for Values<'_> {
    fn into_arguments(self) -> MySqlArguments {
        let mut arguments = MySqlArguments::default();
        for value in self.0 {
            let added = match value {
                Value::Null => arguments.add(None::<u64>),
                Value::Signed(value) => arguments.add(value),
                Value::Unsigned(value) => arguments.add(value),
                Value::Bool(value) => arguments.add(value),
                Value::Name(value) => arguments.add(value.as_bytes()),
                Value::Text(value) => arguments.add(value),
                Value::Bytes(value) => arguments.add(value),
            };
            debug_assert!(added.is_ok(), "such values are only copied");
        }
        arguments
    }
}

impl IntoArguments<Sqlite> for Values<'_> {
    fn into_arguments(self) -> SqliteArguments {
        let mut arguments = SqliteArguments::default();
        for value in self.0 {
            let added = match value {
                Value::Null => Arguments::add(&mut arguments, None::<i64>),
                Value::Signed(value) => Arguments::add(&mut arguments, value),
                Value::Unsigned(value) => Arguments::add(&mut arguments, value.cast_signed()),
                Value::Bool(value) => Arguments::add(&mut arguments, value),
                Value::Name(value) | Value::Text(value) => Arguments::add(&mut arguments, value),
                Value::Bytes(value) => Arguments::add(&mut arguments, value),
            };
            debug_assert!(added.is_ok(), "such values are only copied");
        }
        arguments
    }
}

/// A statement: its text, with a question mark for each value, and the values.
#[derive(Clone, Debug)]
pub struct Sql<'v> {
    pub(super) text: Cow<'static, str>,
    pub(super) values: Values<'v>,
}

/// A statement without values yet.
pub fn sql<'v>(text: impl Into<Cow<'static, str>>) -> Sql<'v> {
    Sql {
        text: text.into(),
        values: Values::default(),
    }
}

impl<'v> Sql<'v> {
    /// Binds the next question mark to a value.
    pub fn bind(mut self, value: impl Into<Value<'v>>) -> Self {
        self.values.0.push(value.into());
        self
    }

    /// Binds the next question marks to values.
    pub fn bind_all<T: Into<Value<'v>>>(self, values: impl IntoIterator<Item = T>) -> Self {
        values.into_iter().fold(self, Self::bind)
    }

    /// Appends text.
    pub fn push(mut self, text: &str) -> Self {
        self.text.to_mut().push_str(text);
        self
    }

    /// Puts text before and after.
    pub fn within(mut self, before: &str, after: &str) -> Self {
        self.text.to_mut().insert_str(0, before);
        self.push(after)
    }

    /// Appends each item by `write`, with `separator` in between.
    pub fn join<T>(
        self,
        separator: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(Self, T) -> Self,
    ) -> Self {
        let mut items = items.into_iter();
        let Some(first) = items.next() else {
            return self;
        };
        let sql = write(self, first);
        items.fold(sql, |sql, item| write(sql.push(separator), item))
    }

    /// Appends a list in parentheses, padded to one of the few lengths by repeating the last item.
    pub fn list<T: Copy + Into<Value<'v>>>(self, items: &[T]) -> Self {
        self.push("(")
            .join(", ", padded(items), |sql, item| sql.push("?").bind(*item))
            .push(")")
    }

    /// Appends the statement to a text, with its values as literals. No question mark of a statement stands for itself.
    pub fn write_literally(&self, text: &mut String) {
        let mut values = self.values.0.iter();
        for (index, part) in self.text.split('?').enumerate() {
            if index > 0
                && let Some(value) = values.next()
            {
                value.write(text);
            }
            text.push_str(part);
        }
    }

    /// Appends rows of values.
    pub fn rows<const N: usize>(self, rows: impl IntoIterator<Item = [Value<'v>; N]>) -> Self {
        let row = format!("({})", ["?"; N].join(", "));
        self.push("VALUES ").join(", ", rows, |mut sql, values| {
            sql.values.0.extend(values);
            sql.push(&row)
        })
    }
}

/// Appends an INSERT to a text, with the rows of values as literals. Every string is hexadecimal, so no part of it can
/// be taken for SQL.
pub fn insert_literally<'v, const N: usize>(
    text: &mut String,
    insert: &str,
    rows: impl IntoIterator<Item = [Value<'v>; N]>,
) {
    text.push_str(insert);
    text.push_str("VALUES ");
    for (row, values) in rows.into_iter().enumerate() {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for (column, value) in values.iter().enumerate() {
            if column > 0 {
                text.push_str(", ");
            }
            value.write(text);
        }
        text.push(')');
    }
}

impl Value<'_> {
    /// Appends the value as a literal, no part of which can be taken for SQL.
    pub fn write(&self, text: &mut String) {
        // Writing to a String does not fail.
        match self {
            Self::Null => text.push_str("NULL"),
            Self::Signed(value) => drop(write!(text, "{value}")),
            Self::Unsigned(value) => drop(write!(text, "{value}")),
            Self::Bool(value) => text.push(if *value { '1' } else { '0' }),
            Self::Name(value) => write_hexadecimal(text, value.as_bytes()),
            Self::Text(value) => {
                text.push_str("_utf8mb4 ");
                write_hexadecimal(text, value.as_bytes());
            }
            Self::Bytes(value) => write_hexadecimal(text, value),
        }
    }
}

fn write_hexadecimal(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push_str("X'");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push('\'');
}

/// Form in which statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementForm {
    /// Each by itself and prepared, with one of the few lengths.
    Prepared,
    /// As parts of a script.
    Script,
}

impl StatementForm {
    /// Bytes of values that a statement may write, of the ones that a message may have: as text, each takes two.
    #[must_use]
    pub fn room(self, max_bytes: usize) -> usize {
        match self {
            Self::Prepared => max_bytes,
            Self::Script => max_bytes / 2,
        }
    }

    /// Cuts items into the rows of statements with up to `most` rows each.
    pub fn cut<T>(self, items: &[T], most: usize) -> impl Iterator<Item = &[T]> {
        let parts = items.chunks(most.clamp(1, LONGEST));
        parts.flat_map(move |part| match self {
            Self::Prepared => pieces(part).collect(),
            Self::Script => vec![part],
        })
    }
}

/// The longest piece.
pub const LONGEST: usize = 512;

/// Cuts `items` into pieces whose lengths are powers of two up to [`LONGEST`], the longest first.
pub fn pieces<T>(mut items: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = 1 << items.len().min(LONGEST).checked_ilog2()?;
        let (piece, rest) = items.split_at(length);
        items = rest;
        Some(piece)
    })
}

/// The most bytes of large values that one statement writes.
const MAX_BYTES: usize = 1 << 20;

/// Cuts items into parts of at most [`MAX_BYTES`] each; a larger item is a part of its own.
pub fn sized<T>(mut items: &[T], size: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        if items.is_empty() {
            return None;
        }
        let mut bytes = 0;
        let fits = |item: &&T| {
            bytes += size(item);
            bytes <= MAX_BYTES
        };
        let count = items.iter().take_while(fits).count().max(1);
        let (part, rest) = items.split_at(count);
        items = rest;
        Some(part)
    })
}

/// Cuts `items` into pieces that one statement looks up together with UNION ALL. SQLite allows 500.
pub fn lookups<T>(items: &[T]) -> impl Iterator<Item = &[T]> {
    items.chunks(64).flat_map(pieces)
}

/// `items`, and the last one repeated up to a power of two: for lists in which repetitions do not matter.
pub fn padded<T>(items: &[T]) -> impl Iterator<Item = &T> {
    let length = items.len().next_power_of_two();
    let last = items.last();
    items
        .iter()
        .chain(std::iter::repeat_with(move || last).flatten())
        .take(if items.is_empty() { 0 } else { length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_when_cut_are_powers_of_two() {
        for length in [0, 1, 2, 3, 31, 250, 512, 1300] {
            let items: Vec<usize> = (0..length).collect();
            let cut: Vec<&[usize]> = pieces(&items).collect();
            assert!(cut.iter().all(|piece| piece.len().is_power_of_two()));
            assert!(cut.iter().all(|piece| piece.len() <= LONGEST));
            assert_eq!(cut.concat(), items);
        }
    }

    #[test]
    fn statement_when_written_literally_has_its_values_in_place() {
        let statement = sql("DELETE FROM x WHERE a = ? AND b IN ")
            .bind(-1i64)
            .list(&["y'", "z"])
            .push(" AND c");
        let mut text = "BEGIN; ".to_owned();
        statement.write_literally(&mut text);
        let expected = "BEGIN; DELETE FROM x WHERE a = -1 AND b IN (X'7927', X'7a') AND c";
        assert_eq!(text, expected);
    }

    #[test]
    fn rows_when_cut_for_a_script_are_whole() {
        let items: Vec<usize> = (0..700).collect();
        let lengths =
            |form: StatementForm, most| form.cut(&items, most).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(StatementForm::Script, usize::MAX), [512, 188]);
        assert_eq!(lengths(StatementForm::Script, 300), [300, 300, 100]);
        assert_eq!(
            lengths(StatementForm::Prepared, usize::MAX),
            [512, 128, 32, 16, 8, 4]
        );
        assert_eq!(lengths(StatementForm::Script, 0).len(), 700);
    }

    #[test]
    fn padded_list_when_short_repeats_its_last_item() {
        let padded = |items: &[u8]| padded(items).copied().collect::<Vec<_>>();
        assert!(padded(&[]).is_empty());
        assert_eq!(padded(&[1]), [1]);
        assert_eq!(padded(&[1, 2, 3]), [1, 2, 3, 3]);
        assert_eq!(padded(&[1, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(padded(&[1, 2, 3, 4, 5]), [1, 2, 3, 4, 5, 5, 5, 5]);
    }

    #[test]
    fn parts_when_cut_by_size_miss_nothing() {
        let items: Vec<usize> = vec![MAX_BYTES, 1, MAX_BYTES - 1, 1, 2 * MAX_BYTES, 5];
        let parts: Vec<&[usize]> = sized(&items, |size| *size).collect();
        let (max, less) = (MAX_BYTES, MAX_BYTES - 1);
        let expected: [&[usize]; 5] = [&[max], &[1, less], &[1], &[2 * max], &[5]];
        assert_eq!(parts, expected);
    }
}
