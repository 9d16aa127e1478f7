use super::*;
use crate::clicks::{BatchEvents, ClickBatch, decode, encode};
use foldhash::fast::FixedState;
use proptest::prelude::*;

fn builder(max_bytes: usize) -> EventsBuilder<FixedState> {
    EventsBuilder::new(FixedState::with_seed(1), max_bytes)
}

fn click(key: &[u8]) -> Event<&[u8]> {
    Event {
        key,
        at: 100,
        kind: Kind::Redirect(RedirectStatus::Found),
        rule: 0,
        attributes: Attributes::default(),
        visitor: None,
        id: None,
    }
}

fn read(bytes: &[u8]) -> Vec<Event<&str>> {
    Events::decode(bytes).unwrap().map(Result::unwrap).collect()
}

#[test]
fn text_when_repeated_is_written_once() {
    let mut builder = builder(MAX_BYTES);
    let mut event = click(b"a.example/b");
    event.attributes.user_agent = b"curl/8";
    event.attributes.utm[2] = b"curl/8";
    assert!(builder.push(&event));
    let once = builder.bytes();
    for key in [&b"a.example/b"[..], b"curl/8", b"a.example/b"] {
        event.key = key;
        assert!(builder.push(&event));
    }
    assert_eq!(builder.bytes() - once, 3 * (5 + UTM));
    let encoded = builder.take();
    assert_eq!(encoded.clicks, 4);
    let events = Events::decode(&encoded.bytes).unwrap();
    assert_eq!(events.texts(), ["a.example/b", "curl/8"]);
    let keys = events.map(|event| event.unwrap().key);
    let expected = ["a.example/b", "a.example/b", "curl/8", "a.example/b"];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
}

#[test]
fn events_builder_when_taken_starts_empty() {
    let mut builder = builder(MAX_BYTES);
    assert_eq!(builder.take(), Encoded::default());
    for _ in 0..3 {
        assert!(builder.is_empty());
        builder.push(&click(b"a.example/b"));
        builder.push(&click(b"a.example/c"));
        assert_eq!(builder.len(), 2);
        let encoded = builder.take();
        let keys: Vec<_> = read(&encoded.bytes).iter().map(|it| it.key).collect();
        assert_eq!(
            (keys, encoded.clicks),
            (vec!["a.example/b", "a.example/c"], 2)
        );
    }
}

#[test]
fn text_when_long_or_not_utf8_is_cut_off() {
    let long = [b'x'; MAX_TEXT + 1];
    let within = ["x".repeat(MAX_TEXT - 1), "\u{e4}".to_owned()].concat();
    for (text, expected) in [
        (&long[..], &"x".repeat(MAX_TEXT)[..]),
        (within.as_bytes(), &"x".repeat(MAX_TEXT - 1)),
        (b"caf\xe9 bar", "caf"),
        (b"\xff", ""),
        (b"a\0b", "a\0b"),
    ] {
        let mut builder = builder(MAX_BYTES);
        let mut event = click(text);
        event.attributes.city = text;
        builder.push(&event);
        let bytes = builder.bytes();
        builder.push(&event);
        assert!(builder.bytes() - bytes < 10, "texts come once");
        for event in read(&builder.take().bytes) {
            assert_eq!((event.key, event.attributes.city), (expected, expected));
        }
    }
}

#[test]
fn orphan_when_in_batch_is_no_click() {
    let mut builder = builder(MAX_BYTES);
    let kinds = [
        OrphanKind::BaseUrl,
        OrphanKind::InvalidShortUrl,
        OrphanKind::Regular404,
    ];
    for kind in kinds {
        let kind = Kind::Orphan(kind);
        builder.push(&Event {
            kind,
            ..click(b"a.example/")
        });
    }
    builder.push(&click(b"a.example/b"));
    let encoded = builder.take();
    let events = BatchEvents::of(&encoded.bytes).unwrap();
    assert_eq!((encoded.clicks, events.clicks), (1, 1));
    let batch = ClickBatch {
        clicks: vec![("a.example/c", 5)],
        events,
        ..ClickBatch::default()
    };
    assert_eq!(batch.sum(), 6);
}

#[test]
fn events_builder_when_full_stays_within_bounds() {
    let long = [b'x'; MAX_TEXT];
    for max_bytes in [
        MIN_BUILDER_BYTES - 1,
        MIN_BUILDER_BYTES,
        20_000,
        MAX_BYTES,
        MAX_BYTES * 2,
    ] {
        let mut builder = builder(max_bytes);
        let mut count = 0usize;
        loop {
            let mut text = long;
            text[..8].copy_from_slice(&count.to_le_bytes().map(|byte| byte & 0x7f));
            text[8..10].copy_from_slice(&[(count >> 7) as u8 & 0x7f, (count >> 14) as u8]);
            if !builder.push(&click(&text)) {
                break;
            }
            count += 1;
        }
        let encoded = builder.take();
        assert!(encoded.bytes.len() <= max_bytes.min(MAX_BYTES));
        assert_eq!(count == 0, max_bytes < MIN_BUILDER_BYTES);
        assert_eq!(encoded.clicks as usize, count);
        assert!(
            builder.has_room() || max_bytes < MIN_BUILDER_BYTES,
            "once it was taken"
        );
    }
    let mut builder = builder(MAX_BYTES);
    while builder.push(&click(b"a.example/b")) {}
    assert_eq!(builder.len(), MAX_EVENTS);
    assert_eq!(read(&builder.take().bytes).len(), MAX_EVENTS);
}

#[test]
fn events_when_malformed_are_refused() {
    let long = [b"\x01\x01\x81\x04", &[b'x'; MAX_TEXT + 1][..], b"\x00"].concat();
    let event = b"\x01\x01\x01a\x01";
    let with = |rest: &[u8]| [event, rest].concat();
    for (bytes, error) in [
        (b"\x01".to_vec(), RecordError::Truncated),
        (b"\x01\x40\x01a\x00".to_vec(), RecordError::Field("texts")),
        (b"\x01\x01\x01\xff\x00".to_vec(), RecordError::Field("text")),
        (long, RecordError::Field("text")),
        (
            b"\x01\x00\x81\x80\x01".to_vec(),
            RecordError::Field("events"),
        ),
        (b"\x01\x00\x00x".to_vec(), RecordError::Trailing),
        (with(b""), RecordError::Truncated),
        (with(b"\x02\x00\x00\x00"), RecordError::Field("text")),
        (with(b"\x01\x00\x07\x00"), RecordError::Field("kind")),
        (with(b"\x01\x00\x80\x00"), RecordError::Truncated),
        (
            with(b"\x01\x00\x00\x01\x80\x02"),
            RecordError::Field("rule"),
        ),
        (with(b"\x01\x00\x00\x02\x09"), RecordError::Field("text")),
        (with(b"\x01\x00\x00\x80short"), RecordError::Truncated),
        (
            with(b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00"),
            RecordError::Field("at"),
        ),
        (with(b"\x01\x00\x00\x00x"), RecordError::Trailing),
    ] {
        assert_eq!(BatchEvents::of(&bytes), Err(error), "{bytes:?}");
        let mut batch = b"\x02\x010123456789abcdef\x01\x01\x01\x00\x00\x00".to_vec();
        varint::write_bytes(&bytes, &mut batch);
        assert_eq!(decode(&batch), Err(error), "{bytes:?}");
    }
}

#[test]
fn batch_when_it_has_no_events_keeps_old_version() {
    let mut batch = ClickBatch {
        clicks: vec![("a.example/b", 1)],
        ..ClickBatch::default()
    };
    assert_eq!(encode(std::slice::from_ref(&batch))[0], 1);
    batch.undescribed = 1;
    let bytes = encode(std::slice::from_ref(&batch));
    assert_eq!((bytes[0], decode(&bytes)), (2, Ok(vec![batch])));
}

/// An owned [`Event`].
type Written = (
    (Vec<u8>, u64, u8, u8),
    Vec<String>,
    Option<u64>,
    Option<[u8; 16]>,
);

fn written() -> impl Strategy<Value = Written> {
    let key = "[a-z]{1,3}/[0-9A-Za-z]{1,2}".prop_map(String::into_bytes);
    let texts = prop::collection::vec("[a-c\u{e4}]{0,2}", 10);
    (
        (key, 0u64..9, 0u8..7, any::<u8>()),
        texts,
        any::<Option<u64>>(),
        any::<Option<[u8; 16]>>(),
    )
}

fn event((head, texts, visitor, id): &Written) -> Event<&[u8]> {
    let (key, after, kind, rule) = head;
    let text = |at: usize| texts[at].as_bytes();
    Event {
        key,
        at: 1_000 + after,
        kind: Kind::of_byte(*kind).unwrap(),
        rule: *rule,
        attributes: Attributes {
            country: text(0),
            city: text(1),
            user_agent: text(2),
            referrer: text(3),
            language: text(4),
            utm: [text(5), text(6), text(7), text(8), text(9)],
        },
        visitor: *visitor,
        id: *id,
    }
}

proptest! {
    #[test]
    fn events_when_encoded_and_decoded_are_equal(mut events in prop::collection::vec(written(), 0..30)) {
        events.sort_by_key(|event| event.0.1);
        let mut builder = builder(MAX_BYTES);
        for written in &events {
            prop_assert!(builder.push(&event(written)));
        }
        let most = builder.bytes();
        let encoded = builder.take();
        prop_assert!(encoded.bytes.len() <= most);
        let read = read(&encoded.bytes);
        let read: Vec<_> = read.iter().map(|event| event.map(str::as_bytes)).collect();
        prop_assert_eq!(read, events.iter().map(event).collect::<Vec<_>>());

        let events = BatchEvents::of(&encoded.bytes).unwrap();
        prop_assert_eq!(events.clicks, encoded.clicks);
        let batch = ClickBatch { undescribed: 7, events, clicks: vec![("a/b", 3)], ..ClickBatch::default() };
        let batches = vec![batch.clone(), ClickBatch::default(), batch];
        let bytes = encode(&batches);
        prop_assert_eq!(decode(&bytes), Ok(batches));
    }

    #[test]
    fn events_when_texts_are_arbitrary_are_accepted(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 0..20)) {
        let mut builder = builder(MAX_BYTES);
        for text in &texts {
            prop_assert!(builder.push(&click(text)));
        }
        let encoded = builder.take();
        let events = read(&encoded.bytes);
        prop_assert_eq!(events.len(), texts.len());
        for (event, text) in events.iter().zip(&texts) {
            prop_assert!(text.starts_with(event.key.as_bytes()));
        }
    }

    #[test]
    fn events_when_bytes_are_arbitrary_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = BatchEvents::of(&bytes);
        let _ = BatchEvents::of(&[b"\x01\x02\x01a\x01b\x03", &bytes[..]].concat());
    }

    #[test]
    fn events_when_cut_off_are_refused(events in prop::collection::vec(written(), 1..5), cut: prop::sample::Index) {
        let mut builder = builder(MAX_BYTES);
        for written in &events {
            builder.push(&event(written));
        }
        let bytes = builder.take().bytes;
        let cut = 1 + cut.index(bytes.len() - 1);
        prop_assert!(BatchEvents::of(&bytes[..cut]).is_err());
    }
}
