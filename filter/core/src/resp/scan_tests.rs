use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    bulk_bytes: 20,
    array_elements: 10,
    reply_bytes: 200,
};

fn scan(bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
    Scanner::new(LIMITS).scan(bytes)
}

#[test]
fn reply_when_followed_by_another_ends_at_its_end() {
    for reply in [
        &b"+OK\r\n"[..],
        b"+\r\n",
        b"-ERR no\xff such\r\n",
        b":0\r\n",
        b":-9223372036854775808\r\n",
        b":9223372036854775807\r\n",
        b"$0\r\n\r\n",
        b"$3\r\na\r\n\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n*1\r\n*0\r\n$-1\r\n",
        b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    ] {
        for end in 0..reply.len() {
            assert_eq!(scan(&reply[..end]), Ok(None), "{reply:?} {end}");
        }
        let followed = [reply, b"+next"].concat();
        assert_eq!(scan(&followed), Ok(Some(reply.len())), "{reply:?}");
    }
}

#[test]
fn byte_when_malformed_is_refused() {
    for (bytes, error) in [
        (&b"OK\r\n"[..], ProtocolError::Kind(b'O')),
        (b"\r\n", ProtocolError::Kind(b'\r')),
        (b"%1\r\n", ProtocolError::Kind(b'%')),
        (b"_\r\n", ProtocolError::Kind(b'_')),
        (b"+a\nb\r\n", ProtocolError::LineEnd(b'\n')),
        (b"+a\rb", ProtocolError::LineEnd(b'b')),
        (b":\r\n", ProtocolError::Digit(b'\r')),
        (b":-\r\n", ProtocolError::Digit(b'\r')),
        (b":+1\r\n", ProtocolError::Digit(b'+')),
        (b":--1\r\n", ProtocolError::Digit(b'-')),
        (b":1-\r\n", ProtocolError::Digit(b'-')),
        (b":01\r\n", ProtocolError::Digit(b'1')),
        (b":1 \r\n", ProtocolError::Digit(b' ')),
        (b":1\n", ProtocolError::Digit(b'\n')),
        (b":1\r\r", ProtocolError::LineEnd(b'\r')),
        (b":-0\r\n", ProtocolError::Range),
        (b":9223372036854775808\r\n", ProtocolError::Range),
        (b":-9223372036854775809\r\n", ProtocolError::Range),
        (b":18446744073709551616\r\n", ProtocolError::Range),
        (b"$-2\r\n", ProtocolError::Range),
        (b"*-0\r\n", ProtocolError::Range),
        (b"$007\r\n", ProtocolError::Digit(b'0')),
        (b"$2\r\nabc\r\n", ProtocolError::LineEnd(b'c')),
        (b"$2\r\nab\n", ProtocolError::LineEnd(b'\n')),
        (b"$2\r\nab\rx", ProtocolError::LineEnd(b'x')),
        (b"*1\r\n\r\n", ProtocolError::Kind(b'\r')),
    ] {
        assert_eq!(scan(bytes), Err(error), "{}", bytes.escape_ascii());
    }
}

#[test]
fn limit_when_passed_is_an_error() {
    assert_eq!(scan(b"$20\r\n"), Ok(None));
    assert_eq!(scan(b"$21\r\n"), Err(ProtocolError::BulkLength(21)));
    assert_eq!(
        scan(b"$4294967296\r\n"),
        Err(ProtocolError::BulkLength(1 << 32))
    );
    assert_eq!(scan(b"*10\r\n"), Ok(None));
    assert_eq!(scan(b"*11\r\n"), Err(ProtocolError::ArrayLength(11)));
    assert_eq!(scan(&b"*1\r\n".repeat(MAX_DEPTH)), Ok(None));
    assert_eq!(
        scan(&b"*1\r\n".repeat(MAX_DEPTH + 1)),
        Err(ProtocolError::Depth)
    );
    let text = |length| [&b"+"[..], &vec![b'a'; length], b"\r\n"].concat();
    assert_eq!(scan(&text(197)), Ok(Some(200)));
    assert_eq!(scan(&text(198)), Err(ProtocolError::ReplyLength));
    assert_eq!(scan(&text(1000)[..500]), Err(ProtocolError::ReplyLength));
}

#[test]
fn limit_when_replies_repeat_applies_to_each() {
    let mut scanner = Scanner::new(LIMITS);
    let reply = [&b"+"[..], &[b'a'; 197], b"\r\n"].concat();
    for _ in 0..3 {
        assert_eq!(scanner.scan(&reply), Ok(Some(200)));
    }
}

proptest! {
    #[test]
    fn bytes_when_in_chunks_scan_alike(bytes in prop::collection::vec(prop::sample::select(b"+-:$*0123\r\nab".to_vec()), 0..60)) {
        let whole = scan(&bytes);
        let mut scanner = Scanner::new(LIMITS);
        let mut single = Ok(None);
        for (at, byte) in bytes.iter().enumerate() {
            single = scanner.scan(&[*byte]).map(|end| end.map(|_| at + 1));
            if single != Ok(None) {
                break;
            }
        }
        prop_assert_eq!(single, whole);
    }

    #[test]
    fn bytes_when_arbitrary_scan_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(Some(end)) = scan(&bytes) {
            prop_assert!(end <= bytes.len());
        }
    }
}
