//! The snapshot that an edge starts from (`GET /edge/v1/snapshot`).
//!
//! Layout of version 2, numbers as unsigned LEB128, texts and bytes behind their length:
//!
//! | what | bytes |
//! |---|---|
//! | version, 2 | 1 |
//! | generation of the feed | 1 number |
//! | position in the feed: milliseconds, sequence | 2 numbers |
//! | bound | 1 number |
//! | code length | 1 |
//! | permutation key, empty for plain counters | bytes, 0 or 16 |
//! | number of domains, and each | 1 number, texts |
//! | filter of aliases ([`crate::code_filter`]) | bytes |
//! | number of hot links, and each as an encoded [`Entry`] | 1 number, bytes |
//!
//! It contains the permutation key, so it is for edges only, and never logged.

use crate::base62::CodeLength;
use crate::code::CodeSpace;
use crate::code_filter::CodeFilter;
use crate::error::RecordError;
use crate::feed::FeedPosition;
use crate::permutation::PermutationKey;
use crate::record::Entry;
use crate::varint;

const VERSION: u8 = 2;

/// The most domains.
pub const MAX_DOMAINS: usize = 1024;

/// The most hot links.
pub const MAX_HOT: usize = 10_000;

/// The most bytes of all hot links, not counting the records of domains, which are always included; further links are left out.
pub const MAX_HOT_BYTES: usize = 2 << 20;

/// The state an edge needs before it can answer without lookups.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// The generation of the feed that `position` is in.
    pub generation: u64,
    /// The position from which to read the feed. The rest of the snapshot may already contain changes behind it.
    pub position: FeedPosition,
    /// No number at or above this one was issued.
    pub bound: u64,
    /// The length of generated codes.
    pub length: CodeLength,
    /// The key of generated codes.
    pub key: Option<PermutationKey>,
    /// The domains, the default one first.
    pub domains: Vec<&'a str>,
    /// All codes except generated ones with a number below `bound`.
    pub codes: CodeFilter,
    /// The hot links, the hottest first.
    pub hot: Vec<Entry<'a>>,
}

impl<'a> Snapshot<'a> {
    /// The media type of an encoded snapshot.
    pub const MEDIA_TYPE: &'static str = "application/vnd.edgelink.snapshot";

    /// The generated codes.
    #[must_use]
    pub fn code_space(&self) -> CodeSpace {
        CodeSpace::new(self.length, self.key.clone())
    }

    /// The encoded snapshot.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let position = self.position;
        for number in [
            self.generation,
            position.millis,
            position.sequence,
            self.bound,
        ] {
            varint::write(number, &mut out);
        }
        out.push(self.length.get());
        let key = self.key.as_ref().map_or(&[][..], |key| key.as_bytes());
        varint::write_bytes(key, &mut out);
        varint::write(self.domains.len() as u64, &mut out);
        for domain in &self.domains {
            varint::write_bytes(domain.as_bytes(), &mut out);
        }
        varint::write_bytes(self.codes.as_bytes(), &mut out);
        varint::write(self.hot.len() as u64, &mut out);
        let mut buffer = Vec::new();
        for entry in &self.hot {
            buffer.clear();
            entry.encode(&mut buffer);
            varint::write_bytes(&buffer, &mut out);
        }
        out
    }

    /// Reads a snapshot that takes up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong. A hot link that cannot be read is skipped: it is looked up on demand.
    pub fn decode(mut bytes: &'a [u8]) -> Result<Self, RecordError> {
        let input = &mut bytes;
        varint::read_version(input, VERSION)?;
        let snapshot = Self {
            generation: varint::read(input)?,
            position: FeedPosition::new(varint::read(input)?, varint::read(input)?),
            bound: varint::read(input)?,
            length: code_length(input)?,
            key: permutation_key(input)?,
            domains: list(input, "domains", MAX_DOMAINS, |input| {
                varint::read_text(input, "domain")
            })?,
            codes: CodeFilter::from_bytes(varint::read_bytes(input)?)?,
            hot: list(input, "hot", MAX_HOT, |input| {
                varint::read_bytes(input).map(|bytes| Entry::decode(bytes).ok())
            })?
            .into_iter()
            .flatten()
            .collect(),
        };
        varint::expect_end(input)?;
        Ok(snapshot)
    }
}

fn code_length(input: &mut &[u8]) -> Result<CodeLength, RecordError> {
    let [length] = varint::read_array(input)?;
    CodeLength::new(length).ok_or(RecordError::Field("code length"))
}

fn permutation_key(input: &mut &[u8]) -> Result<Option<PermutationKey>, RecordError> {
    let bytes = varint::read_bytes(input)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let key = bytes.try_into().map_err(|_| RecordError::Field("key"))?;
    Ok(Some(PermutationKey::new(key)))
}

fn list<'a, T>(
    input: &mut &'a [u8],
    name: &'static str,
    most: usize,
    mut read: impl FnMut(&mut &'a [u8]) -> Result<T, RecordError>,
) -> Result<Vec<T>, RecordError> {
    let count = varint::read(input)?;
    if count > most as u64 {
        return Err(RecordError::Field(name));
    }
    (0..count).map(|_| read(input)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::record::tests::any_record;
    use proptest::prelude::*;

    fn snapshot<'a>(domains: Vec<&'a str>, hot: Vec<Entry<'a>>) -> Snapshot<'a> {
        let mut codes = CodeFilter::with_capacity(0).unwrap();
        codes.insert(b"sale");
        Snapshot {
            generation: 7,
            position: FeedPosition::new(1_767_225_600_000, 3),
            bound: 20_000_000,
            length: CodeLength::DEFAULT,
            key: Some(PermutationKey::new(*b"0123456789abcdef")),
            domains,
            codes,
            hot,
        }
    }

    #[test]
    fn snapshot_when_malformed_is_refused() {
        let bytes = snapshot(vec!["a.example"], Vec::new()).to_bytes();
        for end in 0..bytes.len() {
            assert!(Snapshot::decode(&bytes[..end]).is_err(), "{end}");
        }
        let trailing = [&bytes[..], b"x"].concat();
        assert_eq!(
            Snapshot::decode(&trailing).unwrap_err(),
            RecordError::Trailing
        );
        assert_eq!(
            Snapshot::decode(b"\x01").unwrap_err(),
            RecordError::Version(1)
        );
        let head = |rest: &[u8]| [b"\x02\x00\x00\x00\x00", rest].concat();
        for (rest, field) in [
            (&b"\x05"[..], "code length"),
            (b"\x07\x01x", "key"),
            (b"\x07\x00\x81\x08", "domains"),
            (b"\x07\x00\x01\x01\xff", "domain"),
            (b"\x07\x00\x00\x00", "codes"),
        ] {
            let error = Snapshot::decode(&head(rest)).unwrap_err();
            assert_eq!(error, RecordError::Field(field));
        }
    }

    #[test]
    fn snapshot_when_hot_link_is_malformed_leaves_it_out() {
        let entry = Entry {
            key: b"a.example/b",
            record: Record::Absent { rev: 1 },
        };
        let mut bytes = snapshot(Vec::new(), vec![entry, entry]).to_bytes();
        let version = bytes.len() - 3;
        bytes[version] = 9;
        let read = Snapshot::decode(&bytes).unwrap();
        assert_eq!(read.hot, [entry]);
    }

    #[test]
    fn code_space_when_made_from_snapshot_has_length_and_key() {
        let snapshot = snapshot(Vec::new(), Vec::new());
        let space = CodeSpace::new(snapshot.length, snapshot.key.clone());
        assert_eq!(snapshot.code_space().mint(5), space.mint(5));
    }

    proptest! {
        #[test]
        fn snapshot_when_encoded_and_decoded_is_equal(record in any_record(), is_keyed: bool) {
            let entry = Entry { key: b"a.example/b", record: record.as_deref() };
            let mut made = snapshot(vec!["a.example", "b.example:8080"], vec![entry]);
            made.key = made.key.filter(|_| is_keyed);
            let bytes = made.to_bytes();
            let read = Snapshot::decode(&bytes).unwrap();
            prop_assert_eq!(read.position, made.position);
            prop_assert_eq!(read.bound, made.bound);
            prop_assert_eq!(read.length, made.length);
            prop_assert_eq!(&read.key, &made.key);
            prop_assert_eq!(&read.domains, &made.domains);
            prop_assert!(read.codes.may_contain(b"sale"));
            prop_assert_eq!(read.generation, made.generation);
            prop_assert_eq!(&read.hot, &made.hot);
            prop_assert_eq!(read.to_bytes(), bytes);
        }

        #[test]
        fn snapshot_when_bytes_are_arbitrary_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Snapshot::decode(&[&[VERSION], &bytes[..]].concat());
        }
    }
}
