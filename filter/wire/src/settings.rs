//! Settings: each is declared once, with its type, default, range and documentation, by [`settings!`](crate::settings).
//!
//! A declaration yields a struct, its `Default`, strict reading that reports all invalid fields at once
//! ([`SettingValue::read`]), and the list from which the reference is generated ([`SettingValue::fields`]).

use crate::{Code, Domain, LinkPrefix};
use serde_json::Map;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

pub use serde_json::Value;

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A string.
    Text,
    /// A whole number.
    Number,
    /// True or false.
    Bool,
    /// A sequence of values.
    List,
    /// A section of further settings.
    Section,
}

impl ValueKind {
    /// The name of this form in messages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a whole number",
            Self::Bool => "true or false",
            Self::List => "a sequence",
            Self::Section => "a section",
        }
    }
}

/// The constraint on a value beyond its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// Anything.
    Any,
    /// Anything, but it must be given.
    Required,
    /// A number in this range.
    Numbers(RangeInclusive<i64>),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A text of this form.
    Like(&'static str),
}

impl Range {
    /// The declared range, or the range of the type if it has one and the setting is not required.
    #[must_use]
    pub fn or(self, declared: Self) -> Self {
        match (self, declared) {
            (_, Self::Required) => Self::Required,
            (Self::Any, declared) => declared,
            (own, _) => own,
        }
    }
}

impl From<RangeInclusive<i64>> for Range {
    fn from(numbers: RangeInclusive<i64>) -> Self {
        Self::Numbers(numbers)
    }
}

impl From<&'static str> for Range {
    fn from(example: &'static str) -> Self {
        Self::Like(example)
    }
}

/// A declared setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name in the configuration.
    pub name: String,
    /// The form of its value.
    pub kind: ValueKind,
    /// The constraint on its value.
    pub range: Range,
    /// Its documentation.
    pub doc: &'static str,
    /// The documentation of a section.
    pub about: &'static str,
    /// The default in the form of the configuration; `None` if it is not set by default.
    pub default: Option<Value>,
    /// True if it may be omitted without having a default.
    pub is_optional: bool,
    /// The settings of a section.
    pub fields: Vec<Setting>,
}

/// An invalid field and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    /// The path of the field, for example `server.listen`.
    pub field: String,
    /// The value (never the value of a secret), and the requirement.
    pub reason: String,
}

/// Collects problems, field by field.
#[derive(Debug, Default)]
pub struct Problems(Vec<InvalidField>);

impl Problems {
    /// Records a problem with a field.
    pub fn refuse(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.0.push(InvalidField {
            field: field.into(),
            reason: reason.into(),
        });
    }

    /// Records that a value does not have the form of `T`.
    fn refuse_type<T: SettingValue>(&mut self, field: &str, value: &Value) {
        let is = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "float",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "sequence",
            Value::Object(_) => "section",
        };
        let must = T::KIND.words();
        self.refuse(field, format!("is of the type {is}, must be {must}"));
    }

    /// Returns the problems as an error, if there are any.
    ///
    /// # Errors
    /// At least one problem.
    pub fn into_result(self) -> Result<(), Vec<InvalidField>> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(self.0)
        }
    }
}

/// A type that a setting can have.
pub trait SettingValue: Sized {
    /// The form of its values.
    const KIND: ValueKind;
    /// True if a setting of this type may be omitted without having a default.
    const IS_OPTIONAL: bool = false;
    /// The documentation of a section.
    const ABOUT: &'static str = "";

    /// The constraint of the type itself.
    #[must_use]
    fn range() -> Range {
        Range::Any
    }

    /// The settings of a section.
    #[must_use]
    fn fields() -> Vec<Setting> {
        Vec::new()
    }

    /// Reads the value at `path`, and records its problems; `None` if it is not a value of this type.
    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self>;

    /// The value in the form of the configuration, under this name; `None` if it is not set.
    fn written(&self, name: &str) -> Option<Value>;
}

/// Reads the fields of a section.
#[derive(Debug)]
pub struct Fields<'a> {
    values: Map<String, Value>,
    path: &'a str,
    known: Vec<String>,
    problems: &'a mut Problems,
}

impl<'a> Fields<'a> {
    /// The fields of the section at `path`, which is empty for the whole configuration; `None` if `value` is not a section.
    pub fn new<T: SettingValue>(
        value: Value,
        path: &'a str,
        problems: &'a mut Problems,
    ) -> Option<Self> {
        let Value::Object(values) = value else {
            problems.refuse_type::<T>(path, &value);
            return None;
        };
        Some(Self {
            values,
            path,
            known: Vec::new(),
            problems,
        })
    }

    /// Reads the field of this name; the default if it is missing or invalid.
    pub fn take<T: SettingValue>(&mut self, name: String, range: &Range, default: T) -> T {
        let (path, value) = (self.path_of(&name), self.values.remove(&name));
        let taken = match value {
            Some(value) if is_within(&value, range, &path, self.problems) => {
                T::read(value, &path, self.problems)
            }
            None if *range == Range::Required => {
                self.problems
                    .refuse(path, format!("missing field `{name}`"));
                None
            }
            _ => None,
        };
        self.known.push(name);
        taken.unwrap_or(default)
    }

    /// Refuses the remaining fields.
    pub fn finish(self) {
        let known = self.known.join(", ");
        for name in self.values.keys() {
            let reason = format!("is unknown, must be one of {known}");
            self.problems.refuse(self.path_of(name), reason);
        }
    }

    fn path_of(&self, name: &str) -> String {
        match self.path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }
}

fn is_within(value: &Value, range: &Range, path: &str, problems: &mut Problems) -> bool {
    let (Range::Numbers(range), Some(number)) = (range, value.as_i64()) else {
        return true;
    };
    let is_within = range.contains(&number);
    if !is_within {
        let (low, high) = (range.start(), range.end());
        problems.refuse(path, format!("is {number}, must be {low} to {high}"));
    }
    is_within
}

/// The unchanged name of a field.
#[must_use]
pub fn snake_case(name: &str) -> String {
    name.to_owned()
}

/// The name of a field as JSON has it: `maxBytes` for `max_bytes`, and `timeoutMs` for `timeout_millis`.
#[must_use]
pub fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    for (index, word) in name.split('_').enumerate() {
        let word = if word == "millis" { "ms" } else { word };
        let (first, rest) = word.split_at(usize::from(index > 0).min(word.len()));
        camel.extend([first.to_ascii_uppercase().as_str(), rest]);
    }
    camel
}

/// Declares sections: structs with `Default` that are [`SettingValue`]s.
///
/// First comes how the fields are named in a configuration, `snake_case;` or `camel_case;`. A field is
/// `/// documentation`, `pub name: Type = default;`, and before the semicolon, after a comma, the range of a number, an example
/// for a text without default, or `Range::Required`. The name of a [`Duration`] ends in its unit, `_ms` or `_seconds`.
#[macro_export]
macro_rules! settings {
    ($naming:ident; $(
        $(#[doc = $about:literal])+
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                pub $field:ident: $type:ty = $default:expr $(, $range:expr)?;
            )+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $crate::settings::SettingValue for $name {
            const KIND: $crate::settings::ValueKind = $crate::settings::ValueKind::Section;
            const ABOUT: &'static str = concat!($($about, "\n"),+);

            fn fields() -> Vec<$crate::settings::Setting> {
                let default = Self::default();
                vec![$({
                    let name = $crate::settings::$naming(stringify!($field));
                    $crate::settings::Setting {
                        default: default.$field.written(&name),
                        name,
                        kind: <$type as $crate::settings::SettingValue>::KIND,
                        range: $crate::setting_range!($type $(, $range)?),
                        doc: concat!($($doc),+),
                        about: <$type as $crate::settings::SettingValue>::ABOUT,
                        is_optional: <$type as $crate::settings::SettingValue>::IS_OPTIONAL,
                        fields: <$type as $crate::settings::SettingValue>::fields(),
                    }
                }),+]
            }

            fn read(
                value: $crate::settings::Value,
                path: &str,
                problems: &mut $crate::settings::Problems,
            ) -> Option<Self> {
                let mut fields = $crate::settings::Fields::new::<Self>(value, path, problems)?;
                let section = Self {
                    $($field: fields.take::<$type>(
                        $crate::settings::$naming(stringify!($field)),
                        &$crate::setting_range!($type $(, $range)?),
                        $default,
                    ),)+
                };
                fields.finish();
                Some(section)
            }

            fn written(&self, _: &str) -> Option<$crate::settings::Value> {
                None
            }
        }
    )+};
}

/// The range of a setting: the declared one, or the range of its type.
#[doc(hidden)]
#[macro_export]
macro_rules! setting_range {
    ($type:ty) => {
        <$type as $crate::settings::SettingValue>::range()
    };
    ($type:ty, $range:expr) => {
        $crate::setting_range!($type).or($crate::settings::Range::from($range))
    };
}

/// Declares an enumeration whose values are words, as a [`SettingValue`].
#[macro_export]
macro_rules! choice {
    ($(
        $(#[doc = $about:literal])+
        pub enum $name:ident {
            $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            /// Its word.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::settings::SettingValue for $name {
            const KIND: $crate::settings::ValueKind = $crate::settings::ValueKind::Text;

            fn range() -> $crate::settings::Range {
                $crate::settings::Range::Words(&[$($word),+])
            }

            fn read(
                value: $crate::settings::Value,
                path: &str,
                problems: &mut $crate::settings::Problems,
            ) -> Option<Self> {
                let text = <String as $crate::settings::SettingValue>::read(value, path, problems)?;
                let chosen = [$(Self::$variant),+].into_iter().find(|one| one.word() == text);
                if chosen.is_none() {
                    let words = [$(concat!("`", $word, "`")),+].join(", ");
                    problems.refuse(path, format!("is '{text}', must be one of {words}"));
                }
                chosen
            }

            fn written(&self, _: &str) -> Option<$crate::settings::Value> {
                Some(self.word().into())
            }
        }
    )+};
}

macro_rules! numbers {
    ($($type:ty)+) => {$(
        impl SettingValue for $type {
            const KIND: ValueKind = ValueKind::Number;

            fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
                let number = value.as_i64().and_then(|number| Self::try_from(number).ok());
                match number {
                    None if value.is_i64() => {
                        problems.refuse(path, format!("is {value}, must be at most {}", Self::MAX));
                    }
                    None => problems.refuse_type::<Self>(path, &value),
                    Some(_) => {}
                }
                number
            }

            fn written(&self, _: &str) -> Option<Value> {
                i64::try_from(*self).ok().map(Value::from)
            }
        }
    )+};
}

numbers! { u8 u32 u64 usize }

/// Reads a text by `FromStr`, with the message of its error.
macro_rules! texts {
    ($($type:ty)+) => {$(
        impl SettingValue for $type {
            const KIND: ValueKind = ValueKind::Text;

            fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
                let text = String::read(value, path, problems)?;
                let parsed = text.parse::<Self>();
                parsed.map_err(|error| problems.refuse(path, format!("is '{text}', {error}"))).ok()
            }

            fn written(&self, _: &str) -> Option<Value> {
                Some(self.to_string().into())
            }
        }
    )+};
}

texts! { SocketAddr Code Domain LinkPrefix }

impl SettingValue for String {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        match value {
            Value::String(text) => Some(text),
            other => {
                problems.refuse_type::<Self>(path, &other);
                None
            }
        }
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.as_str().into())
    }
}

impl SettingValue for PathBuf {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        String::read(value, path, problems).map(Self::from)
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.display().to_string().into())
    }
}

impl SettingValue for bool {
    const KIND: ValueKind = ValueKind::Bool;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let read = value.as_bool();
        if read.is_none() {
            problems.refuse_type::<Self>(path, &value);
        }
        read
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some((*self).into())
    }
}

impl SettingValue for Duration {
    const KIND: ValueKind = ValueKind::Number;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let number = u64::read(value, path, problems)?;
        Some(Self::from_millis(number.saturating_mul(unit_millis(path))))
    }

    fn written(&self, name: &str) -> Option<Value> {
        let units = self.as_millis() / u128::from(unit_millis(name));
        u64::try_from(units).ok().map(Value::from)
    }
}

/// Milliseconds in the unit of a duration, by the suffix of its name.
fn unit_millis(name: &str) -> u64 {
    if name.ends_with("seconds") || name.ends_with("Seconds") {
        1_000
    } else {
        1
    }
}

impl<T: SettingValue> SettingValue for Option<T> {
    const KIND: ValueKind = T::KIND;
    const IS_OPTIONAL: bool = true;
    const ABOUT: &'static str = T::ABOUT;

    fn range() -> Range {
        T::range()
    }

    fn fields() -> Vec<Setting> {
        T::fields()
    }

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::read(value, path, problems).map(Some),
        }
    }

    fn written(&self, name: &str) -> Option<Value> {
        self.as_ref()?.written(name)
    }
}

impl<T: SettingValue> SettingValue for Vec<T> {
    const KIND: ValueKind = ValueKind::List;

    fn range() -> Range {
        T::range()
    }

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let Value::Array(items) = value else {
            problems.refuse_type::<Self>(path, &value);
            return None;
        };
        let items = items.into_iter().enumerate();
        let items = items.map(|(index, item)| T::read(item, &format!("{path}[{index}]"), problems));
        // Every item is read, so that all problems are recorded.
        let items: Vec<Option<T>> = items.collect();
        items.into_iter().collect()
    }

    fn written(&self, name: &str) -> Option<Value> {
        let items = self.iter().filter_map(|item| item.written(name));
        Some(Value::Array(items.collect()))
    }
}
