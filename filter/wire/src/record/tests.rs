use super::*;
use crate::password::UnlockKey;
use crate::redirect::Decision;
use crate::rules::tests::{TestVisitor, any_rules};
use crate::rules::{self, Rules};
use proptest::prelude::*;

/// An extension, or none.
fn any_extension() -> impl Strategy<Value = Vec<u8>> {
    let extension = |(rules, expired_url, [forward_path, crawlable, hide_referrer]): (
        _,
        Option<String>,
        [bool; 3],
    )| {
        let rules: Vec<rules::Rule> = rules;
        let rules = rules::encode(&rules).unwrap();
        let rules = Rules::of_encoded(&rules);
        Extension {
            rules,
            expired_url: expired_url.as_ref().map(String::as_bytes),
            forward_path,
            crawlable,
            hide_referrer,
            unlock_key: crawlable.then(|| UnlockKey::new("hash", b"go.example/a")),
            ..Extension::default()
        }
        .to_bytes()
    };
    let url = prop::option::of("[!-~]{1,60}");
    let any = (any_rules(), url, any::<[bool; 3]>());
    prop_oneof![Just(Vec::new()), any.prop_map(extension)]
}

pub(crate) fn any_record() -> impl Strategy<Value = Record<String>> {
    let link = (
        "[!-~]{1,200}",
        prop::sample::select(vec![301, 302, 307, 308]),
        any::<bool>(),
        any::<Option<u64>>(),
        any::<Option<u64>>(),
        any::<bool>(),
        any::<u64>(),
        any_extension(),
    )
        .prop_map(
            |(url, redirect, disabled, valid_since, valid_until, forward_query, rev, extension)| {
                Record::Link(LinkRecord {
                    url,
                    redirect: RedirectStatus::from_code(redirect).unwrap(),
                    state: if disabled {
                        LinkState::Disabled
                    } else {
                        LinkState::Active
                    },
                    valid_since,
                    valid_until,
                    forward_query,
                    rev,
                    extension,
                })
            },
        );
    prop_oneof![1 => any::<u64>().prop_map(|rev| Record::Absent { rev }), 4 => link]
}

#[test]
fn record_when_malformed_is_refused() {
    for (bytes, error) in [
        (&b""[..], RecordError::Truncated),
        (b"\x01", RecordError::Truncated),
        (b"\x02\x00\x01x", RecordError::Version(2)),
        (b"\x01\x40\x01", RecordError::Truncated),
        (b"\x01\x40\x01\x00x", RecordError::Field("extension")),
        (
            b"\x01\x40\x01\x02\x02\x00x",
            RecordError::Field("extension"),
        ),
        (b"\x01\x40\x01\x02\x01\x00x", RecordError::Field("rules")),
        (b"\x01\xc0\x01", RecordError::Flags(0xc0)),
        (b"\x01\x81\x01", RecordError::Flags(0x81)),
        (b"\x01\x80\x01x", RecordError::Trailing),
        (b"\x01\x80", RecordError::Truncated),
        (b"\x01\x00\x01", RecordError::Url),
        (b"\x01\x00\x01a b", RecordError::Url),
        (b"\x01\x00\x01a\r\nb", RecordError::Url),
        (b"\x01\x00\x01\xff", RecordError::Url),
        (b"\x01\x10\x01\x80", RecordError::Truncated),
    ] {
        assert_eq!(Record::decode(bytes), Err(error), "{bytes:?}");
    }
}

#[test]
fn record_when_target_is_above_bound_is_refused() {
    let bytes = |length| [b"\x01\x00\x01".to_vec(), vec![b'a'; length]].concat();
    assert!(Record::decode(&bytes(MAX_URL_LENGTH)).is_ok());
    assert_eq!(
        Record::decode(&bytes(MAX_URL_LENGTH + 1)),
        Err(RecordError::Url)
    );
}

#[test]
fn state_and_status_when_written_and_read_are_equal() {
    for state in [LinkState::Active, LinkState::Disabled] {
        assert_eq!(state.to_string().parse(), Ok(state));
    }
    assert_eq!("gone".parse::<LinkState>(), Err(LinkStateError));
    for code in [301, 302, 307, 308] {
        assert_eq!(RedirectStatus::from_code(code).unwrap().code(), code);
    }
    for code in [0, 200, 300, 303, 304, 309] {
        assert_eq!(RedirectStatus::from_code(code), None);
    }
}

proptest! {
    #[test]
    fn record_when_decoded_again_is_equal(record in any_record()) {
        let bytes = record.to_bytes();
        let text = |record: Record<&[u8]>| match record {
            Record::Absent { rev } => Record::Absent { rev },
            Record::Link(link) => {
                let url = std::str::from_utf8(link.url).unwrap().to_owned();
                Record::Link(link.held_as(url, link.extension.to_vec()))
            }
        };
        prop_assert_eq!(text(Record::decode_again(&bytes).unwrap()), record);
    }

    #[test]
    fn record_when_damaged_never_panics(record in any_record(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        let mut bytes = record.to_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = Record::decode(&bytes);
        if let Ok(record) = Record::decode_again(&bytes) {
            let _ = Decision::of(&record, b"d/a", &TestVisitor::default());
        }
    }

    #[test]
    fn record_when_encoded_and_decoded_is_equal(record in any_record()) {
        let bytes = record.to_bytes();
        prop_assert_eq!(Record::decode(&bytes).unwrap().to_owned_record(), record);
    }

    #[test]
    fn entry_when_encoded_and_decoded_is_equal(record in any_record(), key in "[a-z.]{1,20}/[0-9A-Za-z]{7}") {
        let mut bytes = Vec::new();
        let entry = Entry { key: key.as_bytes(), record: record.as_deref() };
        entry.encode(&mut bytes);
        prop_assert_eq!(Entry::decode(&bytes), Ok(entry));
    }

    #[test]
    fn link_answer_when_split_gives_back_its_parts(age_millis: u64, key in "[a-z.]{1,20}/[0-9A-Za-z]{7}", record in any_record()) {
        let record = record.to_bytes();
        let answer = LinkAnswer { age_millis, key: key.as_bytes(), record: &record };
        let bytes = answer.to_bytes();
        prop_assert_eq!(LinkAnswer::split(&bytes), Ok(answer));
        for end in 0..bytes.len() - record.len() {
            prop_assert!(LinkAnswer::split(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn record_when_bytes_are_arbitrary_encodes_back_or_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(record) = Record::decode(&bytes) {
            prop_assert_eq!(record.to_bytes(), bytes);
        }
    }

    #[test]
    fn record_when_cut_off_is_not_read_as_equal(record in any_record()) {
        let bytes = record.to_bytes();
        for end in 0..bytes.len() {
            if let Ok(read) = Record::decode(&bytes[..end]) {
                prop_assert_ne!(read.to_owned_record(), record.clone());
            }
        }
    }
}
