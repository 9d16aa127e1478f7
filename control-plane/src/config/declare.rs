//! The declaration of a section: a struct whose fields are settings, with all that is known of them in one place.

use super::error::Checks;
use super::value::{Kind, Range, SettingValue};
use std::vec::IntoIter;
use toml::Table;

/// A setting, as it is declared.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) range: Range,
    #[cfg(test)]
    pub(super) doc: &'static str,
    /// The default as the file has it; `None` if the setting is not set by default.
    #[cfg(test)]
    pub(super) default: Option<toml::Value>,
}

impl Setting {
    /// The environment variable.
    pub(super) fn variable(&self) -> String {
        let (section, name) = (self.section, self.name);
        format!("{}{section}_{name}", super::environment::PREFIX).to_ascii_uppercase()
    }

    /// How many milliseconds a duration of 1 has, by the end of the setting's name.
    pub(super) fn unit_millis(&self) -> u64 {
        unit_millis(self.name)
    }
}

/// See [`Setting::unit_millis`].
pub(super) fn unit_millis(name: &str) -> u64 {
    match name.rsplit('_').next() {
        Some("seconds") => 1_000,
        Some("minutes") => 60_000,
        _ => 1,
    }
}

/// Reads the fields of a section in the order of their declaration.
pub(super) struct Fields<'a> {
    settings: IntoIter<Setting>,
    names: Vec<&'static str>,
    section: &'static str,
    table: Table,
    checks: &'a mut Checks,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        section: &'static str,
        settings: Vec<Setting>,
        table: Table,
        checks: &'a mut Checks,
    ) -> Self {
        Self {
            names: settings.iter().map(|setting| setting.name).collect(),
            settings: settings.into_iter(),
            section,
            table,
            checks,
        }
    }

    /// The next field; the default if it is missing or wrong.
    pub(super) fn next<T: SettingValue>(&mut self, default: T) -> T {
        let next = self.settings.next();
        let Some((setting, value)) = next.and_then(|setting| {
            self.table
                .remove(setting.name)
                .map(|value| (setting, value))
        }) else {
            return default;
        };
        let read = setting.range.check(&value);
        match read.and_then(|()| T::read(value, setting.unit_millis())) {
            Ok(value) => value,
            Err(wrong) => {
                let field = format!("{}.{}{}", self.section, setting.name, wrong.place);
                self.checks.refuse(&field, wrong.reason);
                default
            }
        }
    }

    /// Refuses the fields that are left.
    pub(super) fn finish(self) {
        self.checks
            .refuse_unknown(Some(self.section), &self.table, &self.names);
    }
}

/// Declares sections: structs with `Default`, read by `read` with every wrong field noted, and listed by `settings`.
///
/// A field is `/// documentation`, `pub name: Type = default;`, and before the semicolon, after a comma, the range of a number, or
/// an example for a text without default. The name of a [`Duration`](std::time::Duration) ends in its unit: `_ms`, `_seconds`
/// or `_minutes`.
macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        pub struct $name:ident = $section:literal {
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

        impl $name {
            pub(super) const SECTION: &'static str = $section;
            #[cfg(test)]
            pub(super) const ABOUT: &'static str = concat!($($about, "\n"),+);

            pub(super) fn settings() -> Vec<$crate::config::declare::Setting> {
                use $crate::config::value::SettingValue;
                #[cfg(test)]
                let default = Self::default();
                vec![$($crate::config::declare::Setting {
                    section: $section,
                    name: stringify!($field),
                    kind: <$type as SettingValue>::KIND,
                    range: {
                        let range = <$type as SettingValue>::range();
                        $(let range = range.or($range.into());)?
                        range
                    },
                    #[cfg(test)]
                    doc: concat!($($doc),+),
                    #[cfg(test)]
                    default: default.$field.written(
                        $crate::config::declare::unit_millis(stringify!($field)),
                    ),
                }),+]
            }

            pub(super) fn read(
                table: toml::Table,
                checks: &mut $crate::config::error::Checks,
            ) -> Self {
                let default = Self::default();
                let settings = Self::settings();
                let mut fields =
                    $crate::config::declare::Fields::new($section, settings, table, checks);
                let section = Self { $($field: fields.next(default.$field),)+ };
                fields.finish();
                section
            }
        }
    )+};
}

pub(super) use settings;
