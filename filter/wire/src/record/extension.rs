//! Rarely used properties of links, in a separate part of the record.
//!
//! An extension is a list of entries: the tag as a number, the length of the value, the value. Tags are strictly ascending. An
//! unknown tag is an error, so that an older edge asks the next tier instead of ignoring it.
//!
//! | tag | value |
//! |---|---|
//! | 1 | rules, see [`crate::rules`] |
//! | 2 | target of the expired link: visible ASCII, 1 to [`target::MAX_URL_LENGTH`] bytes |
//! | 3 | flags, one byte and not 0: bit 0 forward path, bit 1 crawlable, bit 2 track conversions, bit 3 bots consume no uses, bit 4 hide referrer |
//! | 4 | the unlock key of a link with a password, 32 bytes, see [`crate::password`] |
//! | 5 | the limit of uses, a number from 1; see [`crate::visits`] |
//! | 6 | targets of a domain, see [`DomainTargets`] |
//!
//! The remaining tags up to 15 are reserved for planned properties.

use crate::error::RecordError;
use crate::password::UnlockKey;
use crate::record::domain_targets::DomainTargets;
use crate::rules::{self, Rules};
use crate::target::{MAX_URL_LENGTH, is_target};
use crate::varint;

const RULES: u64 = 1;
const EXPIRED_URL: u64 = 2;
const FLAGS: u64 = 3;
const UNLOCK_KEY: u64 = 4;
const MAX_VISITS: u64 = 5;
const DOMAIN: u64 = 6;

const FORWARD_PATH: u8 = 0b01;
const CRAWLABLE: u8 = 0b10;
const TRACK_CONVERSIONS: u8 = 0b100;
const SPARES_BOTS: u8 = 0b1000;
const HIDE_REFERRER: u8 = 0b1_0000;

/// The most bytes of an extension: rules, one more target, and 256 for the rest.
pub const MAX_EXTENSION_LENGTH: usize = rules::MAX_ENCODED_LENGTH + MAX_URL_LENGTH + 256;

const MALFORMED: RecordError = RecordError::Field("extension");

/// Rarely used properties of a link, or the targets of a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension<'a> {
    /// The conditional targets; `None` if there are none.
    pub rules: Option<Rules<'a>>,
    /// Target of the expired link; `None` for 410.
    pub expired_url: Option<&'a [u8]>,
    /// True if the path behind the code is appended to the target's.
    pub forward_path: bool,
    /// True if search engines may index the link.
    pub crawlable: bool,
    /// True if the id of each click is passed to the target.
    pub track_conversions: bool,
    /// True if the target does not get the page with the link as `Referer`.
    pub hide_referrer: bool,
    /// Key that verifies the cookies of visitors who have entered the password; `None` if the link has none.
    pub unlock_key: Option<UnlockKey>,
    /// Limit of uses, at least 1; `None` if there is no limit.
    pub max_visits: Option<u64>,
    /// True if bots consume no uses: they are not redirected.
    pub spares_bots: bool,
    /// The targets of a domain; `None` in the record of a link.
    pub domain: Option<DomainTargets<&'a str>>,
}

impl<'a> Extension<'a> {
    /// The encoding; empty if no property is set.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let flags = self.flags();
        let entries = [
            (RULES, self.rules.map(|rules| rules.as_bytes())),
            (EXPIRED_URL, self.expired_url),
            (FLAGS, (flags != [0]).then_some(&flags[..])),
            (UNLOCK_KEY, self.unlock_key.as_ref().map(|key| &key.0[..])),
        ];
        for (tag, value) in entries {
            if let Some(value) = value {
                varint::write(tag, &mut out);
                varint::write_bytes(value, &mut out);
            }
        }
        if let Some(max_visits) = self.max_visits {
            let mut value = Vec::new();
            varint::write(max_visits, &mut value);
            varint::write(MAX_VISITS, &mut out);
            varint::write_bytes(&value, &mut out);
        }
        if let Some(domain) = self.domain {
            varint::write(DOMAIN, &mut out);
            varint::write_bytes(&domain.to_bytes(), &mut out);
        }
        out
    }

    /// True for a request that is not redirected because it must not consume a use of a limited link: a prefetch, or a bot if the
    /// link spares bots.
    #[must_use]
    pub fn withholds(&self, is_prefetch: bool, is_bot: impl FnOnce() -> bool) -> bool {
        self.max_visits.is_some() && (is_prefetch || self.spares_bots && is_bot())
    }

    fn flags(&self) -> [u8; 1] {
        let when = |is_set, flag| if is_set { flag } else { 0 };
        [when(self.forward_path, FORWARD_PATH)
            | when(self.crawlable, CRAWLABLE)
            | when(self.track_conversions, TRACK_CONVERSIONS)
            | when(self.spares_bots, SPARES_BOTS)
            | when(self.hide_referrer, HIDE_REFERRER)]
    }

    /// Reads an extension that takes up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        if bytes.is_empty() || bytes.len() > MAX_EXTENSION_LENGTH {
            return Err(MALFORMED);
        }
        read(bytes, Rules::decode)
    }

    /// Reads an extension that was decoded before; empty bytes yield an empty extension.
    #[must_use]
    pub fn decode_again(bytes: &'a [u8]) -> Self {
        read(bytes, |bytes| Ok(Rules::decoded_before(bytes))).unwrap_or_default()
    }
}

impl Extension<'_> {
    fn read_flags(&mut self, value: &[u8]) -> Result<(), RecordError> {
        match value {
            [flags @ 1..=31] => {
                self.forward_path = flags & FORWARD_PATH != 0;
                self.crawlable = flags & CRAWLABLE != 0;
                self.track_conversions = flags & TRACK_CONVERSIONS != 0;
                self.spares_bots = flags & SPARES_BOTS != 0;
                self.hide_referrer = flags & HIDE_REFERRER != 0;
                Ok(())
            }
            _ => Err(MALFORMED),
        }
    }
}

fn read<'a>(
    bytes: &'a [u8],
    rules: impl Fn(&'a [u8]) -> Result<Rules<'a>, RecordError>,
) -> Result<Extension<'a>, RecordError> {
    let (mut input, mut last) = (bytes, 0);
    let mut extension = Extension::default();
    while !input.is_empty() {
        let tag = varint::read(&mut input)?;
        let value = varint::read_bytes(&mut input)?;
        match tag {
            tag if tag <= last => return Err(MALFORMED),
            RULES => extension.rules = Some(rules(value)?),
            EXPIRED_URL if is_target(value) => extension.expired_url = Some(value),
            FLAGS => extension.read_flags(value)?,
            UNLOCK_KEY => {
                let key = value.try_into().map_err(|_| MALFORMED)?;
                extension.unlock_key = Some(UnlockKey(key));
            }
            MAX_VISITS => extension.max_visits = Some(max_visits(value)?),
            DOMAIN => extension.domain = Some(DomainTargets::decode(value)?),
            _ => return Err(MALFORMED),
        }
        last = tag;
    }
    Ok(extension)
}

fn max_visits(mut value: &[u8]) -> Result<u64, RecordError> {
    let max_visits = varint::read(&mut value)?;
    match (max_visits, value) {
        (1.., []) => Ok(max_visits),
        _ => Err(MALFORMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_when_encoded_and_decoded_is_equal() {
        for forward_path in [false, true] {
            for crawlable in [false, true] {
                for expired_url in [None, Some(&b"https://e.com/over"[..])] {
                    let extension = Extension {
                        expired_url,
                        unlock_key: expired_url.map(|_| UnlockKey::new("hash", b"go.example/a")),
                        forward_path,
                        crawlable,
                        track_conversions: forward_path && crawlable,
                        hide_referrer: crawlable && expired_url.is_none(),
                        spares_bots: forward_path && expired_url.is_none(),
                        ..Extension::default()
                    };
                    let bytes = extension.to_bytes();
                    let is_nothing = extension == Extension::default();
                    assert_eq!(bytes.is_empty(), is_nothing);
                    assert_eq!(Extension::decode_again(&bytes), extension);
                    assert_eq!(Extension::decode(&bytes).is_ok(), !is_nothing);
                }
            }
        }
    }

    #[test]
    fn extension_when_malformed_is_refused() {
        let rules: &[u8] = b"\x0b\x08http://a\x01\x01";
        let entry = |tag: u8, value: &[u8]| {
            let mut out = vec![tag];
            varint::write_bytes(value, &mut out);
            out
        };
        assert_eq!(
            Extension::decode(&entry(1, rules)).unwrap().to_bytes(),
            entry(1, rules)
        );
        let limited = [entry(1, rules), entry(5, b"\xe8\x07")].concat();
        let extension = Extension::decode(&limited).unwrap();
        assert_eq!(extension.max_visits, Some(1_000));
        assert_eq!(extension.to_bytes(), limited);
        for bytes in [
            Vec::new(),
            entry(0, rules),
            entry(2, b""),
            entry(2, b"http://a b"),
            entry(2, &[b'a'; MAX_URL_LENGTH + 1]),
            entry(3, b""),
            entry(3, &[0]),
            entry(3, &[32]),
            entry(3, &[1, 1]),
            entry(4, &[0; 31]),
            entry(4, &[0; 33]),
            [entry(3, &[1]), entry(2, b"http://a")].concat(),
            entry(1, b""),
            entry(1, &rules[1..]),
            [entry(1, rules), entry(1, rules)].concat(),
            [entry(1, rules), entry(16, b"")].concat(),
            entry(5, b""),
            entry(5, b"\x00"),
            entry(5, b"\x01\x01"),
            [entry(5, b"\x01"), entry(1, rules)].concat(),
            entry(1, rules)[..5].to_vec(),
            vec![1; MAX_EXTENSION_LENGTH + 1],
        ] {
            assert!(Extension::decode(&bytes).is_err(), "{bytes:?}");
            let _ = Extension::decode_again(&bytes);
        }
    }
}
