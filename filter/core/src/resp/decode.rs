//! Decodes chunks into replies.

use super::reply::Reply;
use super::scan::{Limits, ProtocolError, Scanner};

/// Turns chunks into replies. A reply that is complete in one chunk is read in place; only a cut one is buffered, so that
/// at most [`Limits::reply_bytes`] are held.
#[derive(Clone, Debug)]
pub struct Decoder {
    scanner: Scanner,
    /// The beginning of an incomplete reply.
    partial: Vec<u8>,
    /// Set if `partial` is a complete reply that was handed out.
    is_handed_out: bool,
}

impl Decoder {
    /// Starts between two replies; allocates nothing yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            scanner: Scanner::new(limits),
            partial: Vec::new(),
            is_handed_out: false,
        }
    }

    /// Takes the next reply off the front of `chunk`. `None` once the chunk is used up.
    ///
    /// # Errors
    /// The errors of [`Scanner::scan`]. The stream is out of sync then: drop the decoder with the connection.
    pub fn next<'a, 'c: 'a>(
        &'a mut self,
        chunk: &mut &'c [u8],
    ) -> Result<Option<Reply<'a>>, ProtocolError> {
        if std::mem::take(&mut self.is_handed_out) {
            self.partial.clear();
        }
        let end = match self.scanner.whole_strings(chunk) {
            Some(end) => Some(end),
            None => self.scanner.scan(chunk)?,
        };
        let (head, tail) = end
            .and_then(|end| chunk.split_at_checked(end))
            .unwrap_or((chunk, &[]));
        *chunk = tail;
        if end.is_some() && self.partial.is_empty() {
            return Ok(Reply::parse(head));
        }
        self.partial.extend_from_slice(head);
        self.is_handed_out = end.is_some();
        Ok(end.and_then(|_| Reply::parse(&self.partial)))
    }

    /// Bytes held of an incomplete reply.
    #[cfg(test)]
    fn held_bytes(&self) -> usize {
        if self.is_handed_out {
            0
        } else {
            self.partial.len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        bulk_bytes: 1 << 20,
        array_elements: 1000,
        reply_bytes: 2 << 20,
    };

    /// All replies in `bytes`, cut at `cuts`, in owned form; then the error, if there is one.
    fn replies(bytes: &[u8], cuts: &[usize]) -> (Vec<String>, Option<ProtocolError>) {
        let (mut decoder, mut rest, mut found) = (Decoder::new(LIMITS), bytes, Vec::new());
        for cut in cuts.iter().copied().chain([usize::MAX]) {
            let (mut chunk, tail) = rest.split_at(cut.min(rest.len()));
            rest = tail;
            loop {
                match decoder.next(&mut chunk) {
                    Ok(Some(reply)) => found.push(shown(reply)),
                    Ok(None) => break,
                    Err(error) => return (found, Some(error)),
                }
            }
        }
        (found, None)
    }

    fn shown(reply: Reply<'_>) -> String {
        match reply {
            Reply::Array(array) => format!("{:?}", array.map(shown).collect::<Vec<_>>()),
            other => format!("{other:?}"),
        }
    }

    fn any_reply() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            "[+-][a-zA-Z ]{0,20}\r\n".prop_map(String::into_bytes),
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            prop::collection::vec(any::<u8>(), 0..50).prop_map(|bytes| {
                let mut out = Vec::new();
                encode::argument(&bytes, &mut out);
                out
            }),
            Just(b"$-1\r\n".to_vec()),
            Just(b"*-1\r\n".to_vec()),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop::collection::vec(inner, 0..6).prop_map(|elements| {
                let head = format!("*{}\r\n", elements.len()).into_bytes();
                [head, elements.concat()].concat()
            })
        })
    }

    fn any_cuts() -> impl Strategy<Value = Vec<usize>> {
        prop::collection::vec(1_usize..40, 0..60)
    }

    proptest! {
        #[test]
        fn replies_when_cut_anywhere_come_out_alike(
            stream in prop::collection::vec(any_reply(), 1..8),
            cuts in any_cuts(),
        ) {
            let bytes = stream.concat();
            let (whole, error) = replies(&bytes, &[]);
            prop_assert_eq!(whole.len(), stream.len());
            prop_assert_eq!(error, None);
            let single: Vec<_> = bytes.iter().map(|_| 1).collect();
            prop_assert_eq!(&replies(&bytes, &cuts).0, &whole);
            prop_assert_eq!(&replies(&bytes, &single).0, &whole);
        }

        #[test]
        fn stream_when_corrupted_and_cut_decodes_alike(
            stream in prop::collection::vec(any_reply(), 1..8),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cuts in any_cuts(),
        ) {
            let mut bytes = stream.concat();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            prop_assert_eq!(replies(&bytes, &cuts), replies(&bytes, &[]));
        }

        #[test]
        fn bytes_when_arbitrary_and_cut_decode_alike(bytes in prop::collection::vec(any::<u8>(), 0..300), cuts in any_cuts()) {
            prop_assert_eq!(replies(&bytes, &cuts), replies(&bytes, &[]));
        }
    }

    #[test]
    fn decoder_when_replies_come_whole_holds_nothing() {
        let mut decoder = Decoder::new(LIMITS);
        let mut chunk = &b"+a\r\n+b\r\n+c"[..];
        assert_eq!(decoder.next(&mut chunk), Ok(Some(Reply::Simple(b"a"))));
        assert_eq!(decoder.next(&mut chunk), Ok(Some(Reply::Simple(b"b"))));
        assert_eq!(decoder.held_bytes(), 0);
        assert_eq!(decoder.next(&mut chunk), Ok(None));
        assert_eq!(decoder.held_bytes(), 2);
        let mut chunk = &b"d\r\n"[..];
        assert_eq!(decoder.next(&mut chunk), Ok(Some(Reply::Simple(b"cd"))));
        assert_eq!(decoder.held_bytes(), 0);
    }

    #[test]
    fn reply_when_in_pieces_is_held_up_to_the_limit() {
        let limits = Limits {
            reply_bytes: 100,
            ..LIMITS
        };
        let mut decoder = Decoder::new(limits);
        decoder.next(&mut &b"$1000\r\n"[..]).unwrap();
        for _ in 0..9 {
            assert_eq!(decoder.next(&mut &[b'a'; 10][..]), Ok(None));
        }
        assert_eq!(decoder.held_bytes(), 97);
        let refused = decoder.next(&mut &[b'a'; 10][..]);
        assert_eq!(refused, Err(ProtocolError::ReplyLength));
        assert_eq!(decoder.held_bytes(), 97);
    }

    #[test]
    fn reply_when_byte_by_byte_takes_linear_time() {
        let mut bytes = b"*1000\r\n".to_vec();
        for _ in 0..1000 {
            encode::argument(b"element", &mut bytes);
        }
        let mut decoder = Decoder::new(LIMITS);
        let mut complete = 0;
        for byte in bytes.chunks(1) {
            complete += usize::from(decoder.next(&mut &*byte).unwrap().is_some());
        }
        assert_eq!(complete, 1);
        // A scanner that starts over with each byte would take half of 13,000 x 13,000.
        let (steps, length) = (decoder.scanner.steps, bytes.len());
        assert!(steps <= length, "{steps} steps for {length} bytes");
    }
}
