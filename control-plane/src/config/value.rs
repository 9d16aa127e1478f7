//! The types that a setting can have.

use edgelink_wire::Domain;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use toml::Value;

/// The form of a value, which decides how a variable's text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Bool,
    /// In a variable separated by commas.
    List,
}

impl Kind {
    /// Reads the text of a variable.
    pub(super) fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(Value::from(text)),
            Self::Number => text.parse().ok().map(Value::Integer),
            Self::Bool => text.parse().ok().map(Value::Boolean),
            Self::List => {
                let items = text.split(',').map(str::trim).map(Value::from);
                Some(Value::Array(items.collect()))
            }
        }
    }

    /// What a value of this form is called.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a whole number",
            Self::Bool => "true or false",
            Self::List => "a sequence",
        }
    }
}

/// What is right beside the type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Range {
    Any,
    Numbers(RangeInclusive<i64>),
    /// One of these words.
    Words(&'static [&'static str]),
    /// Anything of this form.
    Like(&'static str),
}

impl Range {
    /// This range, or `declared` in place of none.
    pub(super) fn or(self, declared: Self) -> Self {
        match self {
            Self::Any => declared,
            own => own,
        }
    }

    pub(super) fn check(&self, value: &Value) -> Result<(), Wrong> {
        match (self, value) {
            (Self::Numbers(range), Value::Integer(number)) if !range.contains(number) => {
                let (low, high) = (range.start(), range.end());
                Err(format!("is {number}, must be {low} to {high}").into())
            }
            _ => Ok(()),
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

/// What is wrong with a value. It does not show the value of what may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// The place in a list, such as `[1]`; empty for the value itself.
    pub(super) place: String,
    pub(super) reason: String,
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self {
            place: String::new(),
            reason,
        }
    }
}

/// A type that a setting can have.
pub(super) trait SettingValue: Sized {
    const KIND: Kind;

    /// What the type itself says is right.
    fn range() -> Range {
        Range::Any
    }

    /// Reads the value; `unit_millis` is the unit of a duration.
    fn read(value: Value, unit_millis: u64) -> Result<Self, Wrong>;

    /// The value as the file has it; `None` if it is not set.
    #[cfg(test)]
    fn written(&self, unit_millis: u64) -> Option<Value>;
}

fn wrong_type<T: SettingValue>(value: &Value) -> Wrong {
    let (is, must) = (value.type_str(), T::KIND.words());
    format!("is of the type {is}, must be {must}").into()
}

fn number<T: SettingValue>(value: &Value) -> Result<i64, Wrong> {
    value.as_integer().ok_or_else(|| wrong_type::<T>(value))
}

fn text<T: SettingValue>(value: Value) -> Result<String, Wrong> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong_type::<T>(&other)),
    }
}

macro_rules! numbers {
    ($($type:ty)+) => {$(
        impl SettingValue for $type {
            const KIND: Kind = Kind::Number;

            fn read(value: Value, _: u64) -> Result<Self, Wrong> {
                let number = number::<Self>(&value)?;
                Self::try_from(number).map_err(|error| format!("is {number}: {error}").into())
            }

            #[cfg(test)]
            fn written(&self, _: u64) -> Option<Value> {
                i64::try_from(*self).ok().map(Value::Integer)
            }
        }
    )+};
}

numbers! { u8 u32 u64 usize }

/// Types that are read from a text by `FromStr`, and written as it.
macro_rules! texts {
    ($($type:ty)+) => {$(
        impl SettingValue for $type {
            const KIND: Kind = Kind::Text;

            fn read(value: Value, _: u64) -> Result<Self, Wrong> {
                let text = text::<Self>(value)?;
                text.parse().map_err(|error| format!("is '{text}', {error}").into())
            }

            #[cfg(test)]
            fn written(&self, _: u64) -> Option<Value> {
                Some(Value::String(self.to_string()))
            }
        }
    )+};
}

texts! { String SocketAddr Domain }

impl SettingValue for bool {
    const KIND: Kind = Kind::Bool;

    fn read(value: Value, _: u64) -> Result<Self, Wrong> {
        value.as_bool().ok_or_else(|| wrong_type::<Self>(&value))
    }

    #[cfg(test)]
    fn written(&self, _: u64) -> Option<Value> {
        Some(Value::Boolean(*self))
    }
}

impl SettingValue for Duration {
    const KIND: Kind = Kind::Number;

    fn read(value: Value, unit_millis: u64) -> Result<Self, Wrong> {
        u64::read(value, unit_millis)
            .map(|number| Self::from_millis(number.saturating_mul(unit_millis)))
    }

    #[cfg(test)]
    fn written(&self, unit_millis: u64) -> Option<Value> {
        let units = self.as_millis() / u128::from(unit_millis);
        i64::try_from(units).ok().map(Value::Integer)
    }
}

impl SettingValue for PathBuf {
    const KIND: Kind = Kind::Text;

    fn read(value: Value, _: u64) -> Result<Self, Wrong> {
        text::<Self>(value).map(Self::from)
    }

    #[cfg(test)]
    fn written(&self, _: u64) -> Option<Value> {
        Some(Value::String(self.display().to_string()))
    }
}

impl<T: SettingValue> SettingValue for Option<T> {
    const KIND: Kind = T::KIND;

    fn range() -> Range {
        T::range()
    }

    fn read(value: Value, unit_millis: u64) -> Result<Self, Wrong> {
        T::read(value, unit_millis).map(Some)
    }

    #[cfg(test)]
    fn written(&self, unit_millis: u64) -> Option<Value> {
        self.as_ref()?.written(unit_millis)
    }
}

impl<T: SettingValue> SettingValue for Vec<T> {
    const KIND: Kind = Kind::List;

    fn read(value: Value, unit_millis: u64) -> Result<Self, Wrong> {
        let Value::Array(items) = value else {
            return Err(wrong_type::<Self>(&value));
        };
        let items = items.into_iter().enumerate().map(|(index, item)| {
            T::read(item, unit_millis).map_err(|wrong| Wrong {
                place: format!("[{index}]{}", wrong.place),
                ..wrong
            })
        });
        items.collect()
    }

    #[cfg(test)]
    fn written(&self, unit_millis: u64) -> Option<Value> {
        let items = self.iter().filter_map(|item| item.written(unit_millis));
        Some(Value::Array(items.collect()))
    }
}

/// A text that is never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text as it is.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, which belongs in no log and in no message.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl SettingValue for Secret {
    const KIND: Kind = Kind::Text;

    fn read(value: Value, _: u64) -> Result<Self, Wrong> {
        text::<Self>(value).map(Self)
    }

    #[cfg(test)]
    fn written(&self, _: u64) -> Option<Value> {
        Some(Value::from(self.expose()))
    }
}

/// What a file holds that a setting names. It is read with the configuration, and never logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileText(Secret);

impl FileText {
    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.expose()
    }
}

impl SettingValue for FileText {
    const KIND: Kind = Kind::Text;

    fn read(value: Value, unit_millis: u64) -> Result<Self, Wrong> {
        let path = PathBuf::read(value, unit_millis)?;
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self(Secret::new(text))),
            Err(error) => {
                let path = path.display();
                Err(format!("names {path}, which cannot be read: {error}").into())
            }
        }
    }

    #[cfg(test)]
    fn written(&self, _: u64) -> Option<Value> {
        None
    }
}

/// Declares an enumeration whose values are words.
macro_rules! choice {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident {
            $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            /// The word for it.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::config::value::SettingValue for $name {
            const KIND: $crate::config::value::Kind = $crate::config::value::Kind::Text;

            fn range() -> $crate::config::value::Range {
                $crate::config::value::Range::Words(&[$($word),+])
            }

            fn read(
                value: toml::Value,
                unit_millis: u64,
            ) -> Result<Self, $crate::config::value::Wrong> {
                let text = <String as $crate::config::value::SettingValue>::read(value, unit_millis)?;
                let variant = [$(Self::$variant),+].into_iter().find(|one| one.word() == text);
                variant.ok_or_else(|| {
                    let words = [$(concat!("`", $word, "`")),+].join(", ");
                    format!("is '{text}', must be one of {words}").into()
                })
            }

            #[cfg(test)]
            fn written(&self, _: u64) -> Option<toml::Value> {
                Some(toml::Value::from(self.word()))
            }
        }
    };
}

pub(super) use choice;
