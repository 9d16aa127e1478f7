//! The vocabulary of conditions: each word has a name in JSON and a number in the encoding, and neither ever changes.

use serde::{Deserialize, Serialize};

/// Declares enums whose variants have a word and a number.
macro_rules! words {
    ($(
        $(#[doc = $about:literal])+
        pub enum $name:ident {
            $($(#[doc = $doc:literal])+ $variant:ident = $number:literal $word:literal,)+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum $name {
            $($(#[doc = $doc])+ #[serde(rename = $word)] $variant = $number,)+
        }

        impl $name {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its word in JSON.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The variant with this word; `None` if there is none.
            #[must_use]
            pub fn named(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }

            /// Its number in the encoding.
            pub(super) fn number(self) -> u8 {
                self as u8
            }

            /// The variant with this number; `None` if there is none.
            pub(super) fn numbered(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    )+};
}

words! {
    /// The type of a condition: those of Shlink 5.1, and `weight`.
    pub enum ConditionType {
        /// The device, by the header `User-Agent`; the value is a [`Device`].
        Device = 1 "device",
        /// The languages of the header `Accept-Language`; the value is a language, as `en` or `en-GB`.
        Language = 2 "language",
        /// A parameter of the query with a certain value; the key is its name.
        QueryParam = 3 "query-param",
        /// A parameter of the query, with whatever value or none; the key is its name.
        AnyValueQueryParam = 4 "any-value-query-param",
        /// A parameter of the query without a value; the key is its name.
        ValuelessQueryParam = 5 "valueless-query-param",
        /// The address of the client; the value is an address, a CIDR block, or an IPv4 address with wildcards.
        IpAddress = 6 "ip-address",
        /// The country; the value is two letters of ISO 3166-1.
        Country = 7 "geolocation-country-code",
        /// The city; the value is its name, in the spelling of the trusted header. The case of ASCII letters makes no difference.
        City = 8 "geolocation-city-name",
        /// The request is before a time; the value is a time as in RFC 3339.
        BeforeDate = 9 "before-date",
        /// The request is at a time or later; the value is a time as in RFC 3339.
        AfterDate = 10 "after-date",
        /// The browser, by the header `User-Agent`; the value is a [`Browser`].
        Browser = 11 "browser",
        /// A stable share of all visitors; the value is its size in per cent, 1 to 99.
        Weight = 12 "weight",
    }

    /// A device, or a group of devices.
    pub enum Device {
        /// Phones and tablets with Android.
        Android = 1 "android",
        /// Phones and tablets of Apple, as far as they can be recognized: an iPad that requests desktop pages claims to be a Mac.
        Ios = 2 "ios",
        /// `android` and `ios`.
        Mobile = 3 "mobile",
        /// Computers with Windows.
        Windows = 4 "windows",
        /// Computers of Apple.
        Macos = 5 "macos",
        /// Computers with any other Linux.
        Linux = 6 "linux",
        /// Computers with `ChromeOS`.
        Chromeos = 7 "chromeos",
        /// `windows`, `macos`, `linux` and `chromeos`.
        Desktop = 8 "desktop",
    }

    /// A browser.
    pub enum Browser {
        /// Chrome and Chromium; not the browsers based on it that identify themselves.
        Chrome = 1 "chrome",
        /// Firefox.
        Firefox = 2 "firefox",
        /// Edge.
        Edge = 3 "edge",
        /// Safari.
        Safari = 4 "safari",
        /// Opera.
        Opera = 5 "opera",
        /// The browser that Android had before Chrome.
        AndroidBrowser = 6 "android_browser",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_type_when_named_or_numbered_is_found() {
        for one in ConditionType::ALL {
            assert_eq!(ConditionType::named(one.word()), Some(*one));
            assert_eq!(ConditionType::numbered(one.number()), Some(*one));
            let json = serde_json::to_string(one).unwrap();
            assert_eq!(json, format!("\"{}\"", one.word()));
            assert_eq!(serde_json::from_str::<ConditionType>(&json).unwrap(), *one);
        }
        for number in [0, 13, 255] {
            assert_eq!(ConditionType::numbered(number), None);
        }
        assert_eq!(Device::named("Android"), None);
        assert_eq!(Browser::named(""), None);
    }
}
