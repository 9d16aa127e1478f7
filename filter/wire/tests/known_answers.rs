//! Known answers: the formats as bytes. A change that breaks one of these breaks every deployed edge and every code
//! ever printed. The codes were computed by an independent implementation of the description in `permutation`.

use edgelink_wire::{
    CodeLength, CodeSpace, Entry, LinkRecord, LinkState, PermutationKey, Record, RedirectStatus,
};

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
fn codes_under_a_key() {
    for (key, length, number, code) in KEYED {
        let space = space(*length, Some(key.parse().unwrap()));
        assert_eq!(space.mint(*number).unwrap().as_str(), *code);
        assert_eq!(space.number(code.as_bytes()), Some(*number));
    }
}

#[test]
fn codes_without_a_key() {
    for (length, number, code) in COUNTED {
        let space = space(*length, None);
        assert_eq!(space.mint(*number).unwrap().as_str(), *code);
        assert_eq!(space.number(code.as_bytes()), Some(*number));
    }
}

#[test]
fn records() {
    let full = Record::Link(LinkRecord {
        url: "https://example.com/a?b=1",
        redirect: RedirectStatus::PermanentRedirect,
        state: LinkState::Disabled,
        valid_since: Some(1_767_225_600),
        valid_until: Some(1_798_761_600),
        forward_query: true,
        rev: 300,
    });
    let plain = Record::Link(LinkRecord {
        url: "http://a.example/",
        redirect: RedirectStatus::Found,
        state: LinkState::Active,
        valid_since: None,
        valid_until: None,
        forward_query: false,
        rev: 1,
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

#[test]
fn entries() {
    let entry = Entry {
        key: b"go.example.com/aB3",
        record: Record::Absent { rev: 7 },
    };
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    assert_eq!(bytes, b"\x12go.example.com/aB3\x01\x80\x07");
    assert_eq!(Entry::decode(&bytes), Ok(entry));
}
