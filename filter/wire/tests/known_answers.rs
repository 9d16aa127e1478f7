//! Known answers: the formats as bytes. A change that breaks one of these breaks every deployed edge and every code
//! ever printed. The codes were computed by an independent implementation of the description in `permutation`.

use edgelink_wire::click_id;
use edgelink_wire::clicks::events::{self, Attributes, Event, EventsBuilder, Kind, OrphanKind};
use edgelink_wire::clicks::{BatchEvents, VisitorKey, VisitorKeys};
use edgelink_wire::domain_record::domain_key;
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::feed_batch::POLLER_HEADER;
use edgelink_wire::feed_stream;
use edgelink_wire::health::{self, RequestsByTier};
use edgelink_wire::password::{UnlockKey, cookie_name};
use edgelink_wire::record::Extension;
use edgelink_wire::record::RecordBytes;
use edgelink_wire::rules::{self, Rule, Rules, Visitor};
use edgelink_wire::visits::{ReturnOutcome, SettledBlock, VisitReturn, VisitReturns};
use edgelink_wire::{
    ClickBatch, CodeFilter, CodeLength, CodeSpace, Domain, DomainTargets, Entry, FeedBatch,
    FeedBatchHead, FeedPosition, LinkRecord, LinkState, PermutationKey, Record, RedirectStatus,
    Snapshot, VisitsAnswer, VisitsRequest, WorkerHealth, clicks,
};
use foldhash::fast::FixedState;
use std::net::IpAddr;

const COUNTING: &str = "000102030405060708090a0b0c0d0e0f";
const EXAMPLE: &str = "656467656c696e6b2d6578616d706c65";

const KEYED: &[(&str, u8, u64, &str)] = &[
    (COUNTING, 6, 0, "f45UEz"),
    (COUNTING, 6, 999, "mquPl4"),
    (COUNTING, 6, 123_456_789, "QI8KVX"),
    (COUNTING, 6, 56_800_235_583, "oPvUw8"),
    (COUNTING, 7, 0, "GmlhKP8"),
    (COUNTING, 7, 1, "SAi3iPz"),
    (COUNTING, 7, 1000, "XI4DPuo"),
    (COUNTING, 7, 3_521_614_606_207, "b6f7hrr"),
    (COUNTING, 8, 0, "5csp6koT"),
    (COUNTING, 8, 218_340_105_584_895, "OyBjsSN9"),
    (COUNTING, 9, 0, "b3tylqRpe"),
    (COUNTING, 9, 13_537_086_546_263_551, "Dhi0yjP6H"),
    (COUNTING, 10, 0, "PaSxTWn4zK"),
    (COUNTING, 10, 839_299_365_868_340_223, "JaqnVS1QhA"),
    (EXAMPLE, 6, 1, "NZd2kR"),
    (EXAMPLE, 7, 0, "YZZXwup"),
    (EXAMPLE, 7, 123_456_789, "U8IWz6T"),
    (EXAMPLE, 8, 218_340_105_584_895, "0Oy7mwSp"),
    (EXAMPLE, 9, 1000, "tJA1YOgaC"),
    (EXAMPLE, 10, 123_456_789, "Y8VfqhQ5cn"),
];

const COUNTED: &[(u8, u64, &str)] = &[
    (6, 0, "000000"),
    (6, 61, "00000Z"),
    (7, 62, "0000010"),
    (7, 123_456_789, "008m0Kx"),
    (7, 3_521_614_606_207, "ZZZZZZZ"),
];

fn space(length: u8, key: Option<PermutationKey>) -> CodeSpace {
    CodeSpace::new(CodeLength::new(length).unwrap(), key)
}

#[test]
fn code_when_keyed_equals_known_answer() {
    for (key, length, number, code) in KEYED {
        let space = space(*length, Some(key.parse().unwrap()));
        assert_eq!(space.mint(*number).unwrap().as_str(), *code);
        assert_eq!(space.number(code.as_bytes()), Some(*number));
    }
}

#[test]
fn code_when_keyless_equals_known_answer() {
    for (length, number, code) in COUNTED {
        let space = space(*length, None);
        assert_eq!(space.mint(*number).unwrap().as_str(), *code);
        assert_eq!(space.number(code.as_bytes()), Some(*number));
    }
}

#[test]
fn record_when_encoded_equals_known_bytes() {
    let full = Record::Link(LinkRecord {
        url: "https://example.com/a?b=1",
        redirect: RedirectStatus::PermanentRedirect,
        state: LinkState::Disabled,
        valid_since: Some(1_767_225_600),
        valid_until: Some(1_798_761_600),
        forward_query: true,
        rev: 300,
        extension: &[][..],
    });
    let plain = Record::Link(LinkRecord {
        url: "http://a.example/",
        redirect: RedirectStatus::Found,
        state: LinkState::Active,
        valid_since: None,
        valid_until: None,
        forward_query: false,
        rev: 1,
        extension: &[][..],
    });
    let known: [(Record<&str>, &[u8]); 3] = [
        (
            full,
            b"\x01\x3f\xac\x02\x80\xf2\xd6\xca\x06\x80\xd9\xdb\xd9\x06https://example.com/a?b=1",
        ),
        (plain, b"\x01\x00\x01http://a.example/"),
        (Record::Absent { rev: 0 }, b"\x01\x80\x00"),
    ];
    for (record, bytes) in known {
        assert_eq!(record.to_bytes(), bytes);
        assert_eq!(Record::decode(bytes), Ok(record));
    }
}

/// A rule of each type of condition.
const RULES: &str = r#"[
  {"longUrl": "http://a/1", "conditions": [
    {"type": "device", "matchKey": null, "matchValue": "mobile"},
    {"type": "language", "matchKey": null, "matchValue": "en-GB"},
    {"type": "ip-address", "matchKey": null, "matchValue": "192.0.*.7"},
    {"type": "ip-address", "matchKey": null, "matchValue": "2001:db8::/32"},
    {"type": "geolocation-country-code", "matchKey": null, "matchValue": "es"}
  ]},
  {"longUrl": "http://a/2", "conditions": [
    {"type": "query-param", "matchKey": "a", "matchValue": "1"},
    {"type": "any-value-query-param", "matchKey": "b", "matchValue": null},
    {"type": "valueless-query-param", "matchKey": "c", "matchValue": null},
    {"type": "geolocation-city-name", "matchKey": null, "matchValue": "Bonn"},
    {"type": "before-date", "matchKey": null, "matchValue": "2027-01-01T00:00:00Z"},
    {"type": "after-date", "matchKey": null, "matchValue": "2026-01-01T01:00:00+01:00"},
    {"type": "browser", "matchKey": null, "matchValue": "android_browser"},
    {"type": "weight", "matchKey": null, "matchValue": "30"}
  ]}
]"#;

#[test]
fn domain_record_when_encoded_equals_known_bytes() {
    let targets = DomainTargets {
        root: Some("http://a"),
        not_found: None,
        expired: Some("http://b"),
    };
    let domain = Domain::parse("go.example").unwrap();
    assert_eq!(domain_key(&domain), "go.example/");
    let bytes = b"\x01\x40\x01\x15\x06\x13\x08http://a\0\x08http://bhttp://go.example/";
    assert_eq!(targets.record(&domain, 1).to_bytes(), bytes);
    let none = DomainTargets::default().record(&domain, 1).to_bytes();
    assert_eq!(none, b"\x01\x40\x01\x05\x06\x03\0\0\0http://go.example/");
}

#[test]
fn record_when_it_has_rules_equals_known_bytes() {
    let rules: Vec<Rule> = serde_json::from_str(RULES).unwrap();
    let encoded = rules::encode(&rules).unwrap();
    let extension = Extension {
        rules: Rules::of_encoded(&encoded),
        ..Extension::default()
    };
    let extension = extension.to_bytes();
    let record = Record::Link(LinkRecord {
        url: "http://a/0",
        redirect: RedirectStatus::Found,
        state: LinkState::Active,
        valid_since: None,
        valid_until: None,
        forward_query: false,
        rev: 1,
        extension: &extension[..],
    });
    let bytes = [
        &b"\x01\x40\x01\x64\x01\x62"[..],
        b"\x34\x0ahttp://a/1\x01\x03\x02\x05en-GB",
        b"\x06\x04\xc0\0\0\x07\xff\xff\0\xff\x06\x06\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0\x20\x07ES",
        b"\x2c\x0ahttp://a/2\x03\x01a\x011\x04\x01b\x05\x01c\x08\x04Bonn",
        b"\x09\x80\xd9\xdb\xd9\x06\x0a\x80\xf2\xd6\xca\x06\x0b\x06\x0c\x1e",
        b"http://a/0",
    ];
    let bytes = bytes.concat();
    assert_eq!(
        record.to_bytes().escape_ascii().to_string(),
        bytes.escape_ascii().to_string()
    );
    assert_eq!(Record::decode(&bytes), Ok(record));
}

/// A visitor with an address and a `User-Agent`.
struct Known(Option<IpAddr>, &'static [u8]);

impl Visitor for Known {
    fn user_agent(&self) -> &[u8] {
        self.1
    }

    fn accept_language(&self) -> &[u8] {
        b""
    }

    fn query(&self) -> &[u8] {
        b""
    }

    fn address(&self) -> Option<IpAddr> {
        self.0
    }

    fn country(&self) -> &[u8] {
        b""
    }

    fn city(&self) -> &[u8] {
        b""
    }

    fn now(&self) -> u64 {
        0
    }
}

/// A visitor gets the same answer for a link from every later version. The numbers come from an independent SipHash.
#[test]
fn weight_when_drawn_equals_known_answer() {
    let weight = r#"{"longUrl": "http://a/", "conditions": [{"type": "weight", "matchKey": null, "matchValue": "50"}]}"#;
    let rules: Vec<Rule> = serde_json::from_str(&format!("[{weight}, {weight}]")).unwrap();
    let encoded = rules::encode(&rules).unwrap();
    for (key, address, user_agent, draws) in DRAWS {
        let visitor = Known(
            address.map(|text| text.parse().unwrap()),
            user_agent.as_bytes(),
        );
        let explained = rules::explain(
            Rules::of_encoded(&encoded).unwrap(),
            key.as_bytes(),
            &visitor,
        );
        let drawn = explained
            .iter()
            .map(|rule| rule.conditions[0].saw.clone().unwrap().parse().unwrap());
        assert_eq!(
            drawn.collect::<Vec<u8>>(),
            draws,
            "{key} {address:?} {user_agent}"
        );
    }
}

const DRAWS: [(&str, Option<&str>, &str, [u8; 2]); 4] = [
    ("go.example/a", Some("192.0.2.7"), "curl/8.8.0", [90, 11]),
    ("go.example/a", Some("2001:db8::1"), "curl/8.8.0", [66, 14]),
    ("go.example/a", None, "", [53, 0]),
    ("go.example/b", Some("192.0.2.7"), "curl/8.8.0", [1, 31]),
];

#[test]
fn entry_when_encoded_equals_known_bytes() {
    let entry = Entry {
        key: b"go.example.com/aB3",
        record: Record::Absent { rev: 7 },
    };
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    assert_eq!(bytes, b"\x12go.example.com/aB3\x01\x80\x07");
    assert_eq!(Entry::decode(&bytes), Ok(entry));
}

#[test]
fn feed_batch_when_encoded_equals_known_bytes() {
    let record = RecordBytes::of(&Record::Absent { rev: 7 });
    let messages = [
        FeedMessage::Put {
            key: "a.example/b",
            record: record.as_deref(),
            hot: true,
        },
        FeedMessage::Del {
            key: "a.example/b",
            rev: 12,
        },
        FeedMessage::Flush,
        FeedMessage::Changed { key: "a.example/b" },
        FeedMessage::Beat(Beat {
            bound: 20_000_000,
            generation: 300,
            number: 4,
            at: 5,
            age_millis: 6,
        }),
    ];
    let head = FeedBatchHead {
        generation: 300,
        age_millis: 150,
        waited_millis: 7,
        next: FeedPosition::new(1_767_225_600_000, 3),
        gap: true,
    };
    let bytes = FeedBatch::encode(head, messages.iter());
    let known = [
        &b"\x02\x01\xac\x02\x96\x01\x07\x80\xd0\xea\xb6\xb7\x33\x03\x05"[..],
        b"\x28\x02op\x03put\x03key\x0ba.example/b\x06record\x03\x01\x80\x07\x03hot\x011",
        b"\x1e\x02op\x03del\x03key\x0ba.example/b\x03rev\x0212",
        b"\x09\x02op\x05flush",
        b"\x1b\x02op\x07changed\x03key\x0ba.example/b",
        b"\x3a\x02op\x04beat\x05bound\x0820000000\x0ageneration\x03300\x06number\x014\x02at\x015\x03age\x016",
    ]
    .concat();
    assert_eq!(bytes, known);
    let batch = FeedBatch::decode(&bytes).unwrap();
    assert_eq!(batch.head, head);
    assert!(batch.messages.iter().flatten().eq(&messages));
}

#[test]
fn feed_stream_when_encoded_equals_known_bytes() {
    let mut bytes = Vec::new();
    let place = (300, FeedPosition::new(1_767_225_600_000, 3));
    feed_stream::write_acknowledgement(place, &mut bytes);
    assert_eq!(bytes, b"\xac\x02\x80\xd0\xea\xb6\xb7\x33\x03");
    assert_eq!(feed_stream::frame_head(300), b"\xac\x02");
}

#[test]
fn click_batch_when_encoded_equals_known_bytes() {
    let batch = ClickBatch {
        worker: *b"0123456789abcdef",
        seq: 2,
        at: 1_767_225_600,
        total: 400,
        dropped: 1,
        clicks: vec![("a.example/b", 300), ("a.example/c", 1)],
        ..ClickBatch::default()
    };
    let bytes = clicks::encode(std::slice::from_ref(&batch));
    let known = [
        &b"\x01\x010123456789abcdef\x02\x80\xf2\xd6\xca\x06\x90\x03\x01\x02"[..],
        b"\x0ba.example/b\xac\x02\x0ba.example/c\x01",
    ]
    .concat();
    assert_eq!(bytes, known);
    assert_eq!(clicks::decode(&bytes), Ok(vec![batch]));
}

#[test]
fn click_batch_when_described_equals_known_bytes() {
    let described = Event {
        key: &b"a.example/b"[..],
        at: 1_767_225_600,
        kind: Kind::Redirect(RedirectStatus::TemporaryRedirect),
        rule: 3,
        attributes: Attributes {
            country: &b"DE"[..],
            city: b"Bonn",
            user_agent: b"curl/8",
            referrer: b"b.example",
            language: b"de",
            utm: [b"mail", b"", b"spring", b"", b""],
        },
        visitor: Some(0x0123_4567_89ab_cdef),
        id: Some(*b"fedcba9876543210"),
    };
    let orphan = Event {
        key: &b"a.example/wp-login.php"[..],
        at: 1_767_225_900,
        kind: Kind::Orphan(OrphanKind::Regular404),
        rule: 0,
        attributes: Attributes::default(),
        visitor: None,
        id: None,
    };
    let mut builder = EventsBuilder::new(FixedState::with_seed(1), events::MAX_BYTES);
    assert!(builder.push(&described) && builder.push(&orphan));
    let encoded = builder.take();
    let known = [
        &b"\x80\xf2\xd6\xca\x06\x09"[..],
        b"\x0ba.example/b\x02DE\x04Bonn\x06curl/8\x09b.example\x02de\x04mail\x06spring",
        b"\x16a.example/wp-login.php\x02",
        b"\x01\x00\x82\xff\x03\x02\x03\x04\x05\x06\x07\x00\x08\x00\x00",
        b"\xef\xcd\xab\x89\x67\x45\x23\x01fedcba9876543210",
        b"\x09\xac\x02\x06\x00",
    ]
    .concat();
    assert_eq!(encoded.bytes, known);
    let batch = ClickBatch {
        worker: *b"0123456789abcdef",
        seq: 2,
        total: 400,
        clicks: vec![("a.example/c", 303)],
        undescribed: 300,
        events: BatchEvents::of(&encoded.bytes).unwrap(),
        ..ClickBatch::default()
    };
    let head =
        b"\x02\x010123456789abcdef\x02\x00\x90\x03\x00\x01\x0ba.example/c\xaf\x02\xac\x02\x7e";
    let bytes = clicks::encode(std::slice::from_ref(&batch));
    assert_eq!(bytes, [&head[..], &known].concat());
    assert_eq!(clicks::decode(&bytes), Ok(vec![batch]));
}

#[test]
fn health_when_written_equals_known_header() {
    let mut health = WorkerHealth {
        worker: *b"0123456789abcdef",
        feed_lag_millis: Some(120),
        is_admitting: true,
        requests: RequestsByTier {
            lru: 1,
            shared_data: 2,
            admission: 3,
            redis: 4,
            control_plane: 5,
            stale: 6,
        },
    };
    assert_eq!(health::HEADER, "x-edgelink-health");
    assert_eq!(POLLER_HEADER, "x-edgelink-poller");
    let numbers = "lru=1;shared-data=2;admission=3;redis=4;control-plane=5;stale=6";
    let known =
        format!("worker=30313233343536373839616263646566;feed-lag-ms=120;admitting=1;{numbers}");
    assert_eq!(health.to_header(), known);
    assert_eq!(WorkerHealth::parse(known.as_bytes()), Ok(health));
    (health.feed_lag_millis, health.is_admitting) = (None, false);
    let known = format!("worker=30313233343536373839616263646566;admitting=0;{numbers}");
    assert_eq!(health.to_header(), known);
    assert_eq!(WorkerHealth::parse(known.as_bytes()), Ok(health));
}

/// The first two are of the reference implementation of SipHash: the messages are the first bytes of 0, 1, 2, ...
#[test]
fn visitor_token_when_hashed_equals_known_answer() {
    let secret = std::array::from_fn(|at| at as u8);
    let token = |address: &str, agent: &[u8]| {
        clicks::visitor_token(&secret, address.parse().unwrap(), agent)
    };
    assert_eq!(token("0.1.2.3", b""), 0xcf27_94e0_2771_87b7);
    assert_eq!(token("0.1.2.3", b"\x04\x05\x06\x07"), 0x93f5_f579_9a93_2462);
    assert_eq!(
        token("1:203:405:607::", b""),
        token("0.1.2.3", b"\x04\x05\x06\x07")
    );
    assert_eq!(token("::ffff:0.1.2.3", b"x"), token("0.1.2.3", b"x"));
    assert_eq!(
        token("2001:db8:0:7::1", b"x"),
        token("2001:db8:0:7:8::", b"x")
    );
    assert_ne!(
        token("2001:db8:0:7::1", b"x"),
        token("2001:db8:0:8::1", b"x")
    );
}

#[test]
fn flags_when_encoded_equal_known_answers() {
    let extension = Extension {
        track_conversions: true,
        ..Extension::default()
    };
    assert_eq!(extension.to_bytes(), b"\x03\x01\x04");
    let extension = Extension {
        hide_referrer: true,
        ..Extension::default()
    };
    assert_eq!(extension.to_bytes(), b"\x03\x01\x10");
    assert_eq!(click_id::PARAMETER, "el_click");
    let text = click_id::to_text(*b"fedcba9876543210");
    assert_eq!(text, "37dyko1o3P2bxcSppIj3sk");
}

#[test]
fn visitor_keys_when_encoded_equal_known_bytes() {
    let key = VisitorKey {
        from: 1_767_225_600,
        until: 1_767_312_000,
        secret: Box::new((*b"0123456789abcdef").into()),
    };
    let keys = VisitorKeys::new(vec![key]);
    let known = b"\x01\x01\x80\xf2\xd6\xca\x06\x80\x95\xdc\xca\x060123456789abcdef";
    assert_eq!(keys.to_bytes().as_slice(), known);
    assert_eq!(VisitorKeys::decode(known), Ok(keys));
}

/// Computed by an independent implementation of the description in `password`.
#[test]
fn unlock_key_when_derived_equals_known_answers() {
    let key = b"go.example:8080/a";
    let hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaA";
    let unlock_key = UnlockKey::new(hash, key);
    let extension = Extension {
        unlock_key: Some(unlock_key),
        ..Extension::default()
    };
    let known = b"\x04\x20\x0e\xb5\x32\x36\x87\xb0\xb7\x9f\xfd\x6e\x78\xc0\x4c\xb2\xa7\x2b\
                  \xb2\x2e\xcc\x21\x48\xbd\x2c\x38\xb5\x4d\x4d\x55\x61\x4e\xb5\x9d";
    assert_eq!(extension.to_bytes(), known);
    assert_eq!(cookie_name(key), "edgelink-6c1c0d47");
    let known = "1767225600.dec4ff24f17cd64f21d8eae79ab6f240941cb400b56dbfa71c73ac7cc9bf516a";
    assert_eq!(unlock_key.cookie(key, 1_767_225_600), known);
}

#[test]
fn visits_request_when_encoded_equals_known_bytes() {
    let extension = Extension {
        max_visits: Some(1_000),
        ..Extension::default()
    };
    assert_eq!(extension.to_bytes(), b"\x05\x02\xe8\x07");
    let spares_bots = true;
    let extension = Extension {
        spares_bots,
        ..extension
    };
    assert_eq!(extension.to_bytes(), b"\x03\x01\x08\x05\x02\xe8\x07");
    let request = VisitsRequest {
        worker: *b"0123456789abcdef",
        number: 300,
        settled: Some(SettledBlock {
            number: 299,
            spent: 5,
        }),
        wants: true,
    };
    let known = b"\x010123456789abcdef\xac\x02\xab\x02\x05\x01";
    assert_eq!(request.to_bytes(), known);
    let answer = VisitsAnswer {
        number: 300,
        visits: 125,
        millis: 5_000,
    };
    assert_eq!(answer.to_bytes(), b"\x01\xac\x02\x7d\x88\x27");
}

#[test]
fn visit_returns_when_encoded_equal_known_bytes() {
    let block = |number, settled| VisitReturn {
        key: b"go.example/a",
        number,
        settled,
    };
    let settled = SettledBlock {
        number: 299,
        spent: 5,
    };
    let returns = VisitReturns {
        worker: *b"0123456789abcdef",
        returns: vec![block(300, Some(settled)), block(301, None)],
    };
    let known = b"\x010123456789abcdef\x02\x0cgo.example/a\xac\x02\xab\x02\x05\x0cgo.example/a\xad\x02\x00\x00";
    assert_eq!(returns.to_bytes(), known);
    let outcomes = [ReturnOutcome::Settled, ReturnOutcome::Later];
    assert_eq!(ReturnOutcome::to_bytes(&outcomes), b"\x01\x02\x00\x01");
}

#[test]
fn snapshot_when_encoded_equals_known_bytes() {
    let mut codes = CodeFilter::with_capacity(0).unwrap();
    codes.insert(b"sale");
    let filter = codes.as_bytes().to_vec();
    // 1,841 bytes of bits behind a head of 45: version, length, hash functions, seed.
    assert_eq!(filter.len(), 45 + 1841);
    assert_eq!(
        filter[..45],
        *b"\x01\x31\x07\0\0\0\0\0\0\x0a\0\0\0edgelink codes filter, version 2"
    );
    let bits: Vec<usize> = (0..1841 * 8)
        .filter(|bit| filter[45 + bit / 8] & (1 << (bit % 8)) != 0)
        .collect();
    assert_eq!(bits, CODE_BITS);
    let snapshot = Snapshot {
        generation: 300,
        position: FeedPosition::new(1_767_225_600_000, 3),
        bound: 20_000_000,
        length: CodeLength::DEFAULT,
        key: Some(COUNTING.parse().unwrap()),
        domains: vec!["a.example", "b.example:8080"],
        codes,
        hot: vec![Entry {
            key: b"a.example/b",
            record: Record::Absent { rev: 7 },
        }],
    };
    let known = [
        &b"\x02\xac\x02\x80\xd0\xea\xb6\xb7\x33\x03\x80\xda\xc4\x09\x07"[..],
        b"\x10\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
        b"\x02\x09a.example\x0eb.example:8080",
        b"\xde\x0e",
        &filter,
        b"\x01\x0f\x0ba.example/b\x01\x80\x07",
    ]
    .concat();
    assert_eq!(snapshot.to_bytes(), known);
}

/// The bits that the code "sale" sets in the smallest filter, computed by an independent implementation.
const CODE_BITS: &[usize] = &[
    347, 5392, 5860, 6626, 6747, 7094, 13373, 13841, 14309, 14607,
];
