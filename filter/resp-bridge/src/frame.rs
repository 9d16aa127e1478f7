//! The gRPC message frame: one byte of flags, four bytes of length (big-endian), the message.
//!
//! Source: "gRPC over HTTP2", section "Length-Prefixed-Message".

/// Bytes of a frame's header.
pub const HEADER_LENGTH: usize = 5;

/// Maximum length of a message, in bytes.
///
/// Nothing is stored, so this bounds no memory. It detects a stream that is not gRPC at all, or that
/// is out of sync: no command of ours comes near it.
pub const MAX_MESSAGE_LENGTH: u32 = 16 * 1024 * 1024;

/// Reason why a request body is not a stream of messages that can be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Bit 0 of the flags means a compressed message, which was not requested; the others are reserved.
    #[error("a message has the flags {0:#04x}: only plain, uncompressed messages are accepted")]
    Flags(u8),
    /// The length is above [`MAX_MESSAGE_LENGTH`].
    #[error("a message of {0} bytes exceeds the limit of {MAX_MESSAGE_LENGTH}")]
    Length(u32),
    /// The body ended inside a header or a message.
    #[error("the stream ended inside a message")]
    Truncated,
}

/// Change to a chunk that leaves only its message bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stripped {
    /// It contains no header.
    Unchanged,
    /// This many bytes at its front are headers, the rest is message bytes: the common case, one message per chunk.
    Front(usize),
    /// There are headers between message bytes; contains the message bytes.
    Joined(Vec<u8>),
}

/// Takes the headers out of a request body that arrives in chunks, which split and merge messages as they please.
#[derive(Clone, Debug)]
pub struct Stripper {
    expected: FrameState,
}

#[derive(Clone, Copy, Debug)]
enum FrameState {
    Flags,
    Length { value: u32, missing: u8 },
    Message { left: u32 },
}

impl Default for Stripper {
    fn default() -> Self {
        Self::new()
    }
}

impl Stripper {
    /// Starts at the beginning of a body.
    #[must_use]
    pub fn new() -> Self {
        Self {
            expected: FrameState::Flags,
        }
    }

    /// Passes `length` bytes without inspecting them, if they all belong to the current message.
    ///
    /// Saves the two copies out of and into the VM for the chunks in the middle of a long message.
    pub fn pass(&mut self, length: usize) -> bool {
        let FrameState::Message { left } = self.expected else {
            return false;
        };
        match u32::try_from(length).map(|length| left.checked_sub(length)) {
            Ok(Some(left)) => {
                self.expect_message(left);
                true
            }
            _ => false,
        }
    }

    /// Returns the change to be made to the next chunk.
    ///
    /// # Errors
    /// [`FrameError::Flags`] and [`FrameError::Length`]; the stripper is out of sync then, and the stream must end.
    pub fn strip(&mut self, chunk: &[u8]) -> Result<Stripped, FrameError> {
        let mut rest = chunk;
        let (mut front, mut first, mut joined) = (0, &[][..], Vec::new());
        while !rest.is_empty() {
            let dropped = self.take_header(&mut rest)?;
            let message = self.take_message(&mut rest);
            if first.is_empty() {
                front += dropped;
                first = message;
            } else if dropped > 0 {
                if joined.is_empty() {
                    joined.reserve(chunk.len());
                    joined.extend_from_slice(first);
                }
                joined.extend_from_slice(message);
            }
        }
        Ok(match (joined.is_empty(), front) {
            (false, _) => Stripped::Joined(joined),
            (true, 0) => Stripped::Unchanged,
            (true, front) => Stripped::Front(front),
        })
    }

    /// Checks that the body may end here.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] inside a header or a message.
    pub fn finish(&self) -> Result<(), FrameError> {
        match self.expected {
            FrameState::Flags => Ok(()),
            _ => Err(FrameError::Truncated),
        }
    }

    /// Takes the available bytes of a header off the front, and returns their number.
    fn take_header(&mut self, rest: &mut &[u8]) -> Result<usize, FrameError> {
        let before = rest.len();
        while let Some((&byte, tail)) = rest.split_first() {
            match self.expected {
                FrameState::Message { .. } => break,
                FrameState::Flags => self.flags(byte)?,
                FrameState::Length { value, missing } => {
                    self.length(value << 8 | u32::from(byte), missing - 1)?;
                }
            }
            *rest = tail;
        }
        Ok(before - rest.len())
    }

    fn flags(&mut self, byte: u8) -> Result<(), FrameError> {
        if byte != 0 {
            return Err(FrameError::Flags(byte));
        }
        self.expected = FrameState::Length {
            value: 0,
            missing: 4,
        };
        Ok(())
    }

    fn length(&mut self, value: u32, missing: u8) -> Result<(), FrameError> {
        if missing > 0 {
            self.expected = FrameState::Length { value, missing };
            return Ok(());
        }
        if value > MAX_MESSAGE_LENGTH {
            return Err(FrameError::Length(value));
        }
        self.expect_message(value);
        Ok(())
    }

    fn take_message<'c>(&mut self, rest: &mut &'c [u8]) -> &'c [u8] {
        let FrameState::Message { left } = self.expected else {
            return &[];
        };
        let wanted = usize::try_from(left).unwrap_or(usize::MAX);
        let (message, tail) = rest.split_at_checked(wanted).unwrap_or((rest, &[]));
        *rest = tail;
        let taken = u32::try_from(message.len()).unwrap_or(left);
        self.expect_message(left.saturating_sub(taken));
        message
    }

    fn expect_message(&mut self, left: u32) {
        self.expected = if left == 0 {
            FrameState::Flags
        } else {
            FrameState::Message { left }
        };
    }
}

/// The header that turns a chunk of the response into a message.
#[must_use]
pub fn header(length: u32) -> [u8; HEADER_LENGTH] {
    let [a, b, c, d] = length.to_be_bytes();
    [0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
        let frame = |message: &Vec<u8>| [&header(message.len() as u32)[..], message].concat();
        messages.iter().flat_map(frame).collect()
    }

    /// Changes a chunk the way the filter has Envoy do it.
    fn apply(stripper: &mut Stripper, chunk: &[u8]) -> Result<Vec<u8>, FrameError> {
        Ok(match stripper.strip(chunk)? {
            Stripped::Unchanged => chunk.to_vec(),
            Stripped::Front(front) => chunk[front..].to_vec(),
            Stripped::Joined(message) => message,
        })
    }

    #[test]
    fn message_when_alone_in_chunk_loses_its_front() {
        let mut stripper = Stripper::new();
        let chunk = framed(&[b"PING\r\n".to_vec()]);
        assert_eq!(stripper.strip(&chunk), Ok(Stripped::Front(5)));
        assert_eq!(stripper.finish(), Ok(()));
    }

    #[test]
    fn messages_when_two_in_a_chunk_are_joined() {
        let mut stripper = Stripper::new();
        let chunk = framed(&[b"ab".to_vec(), b"cd".to_vec()]);
        assert_eq!(
            stripper.strip(&chunk),
            Ok(Stripped::Joined(b"abcd".to_vec()))
        );
    }

    #[test]
    fn message_when_empty_costs_no_copy() {
        let mut stripper = Stripper::new();
        let chunk = framed(&[vec![], vec![], b"x".to_vec()]);
        assert_eq!(stripper.strip(&chunk), Ok(Stripped::Front(15)));
    }

    #[test]
    fn message_when_long_passes_its_middle_unseen() {
        let mut stripper = Stripper::new();
        assert!(!stripper.pass(1), "a header is expected");
        assert_eq!(stripper.strip(&header(10)), Ok(Stripped::Front(5)));
        assert!(stripper.pass(4));
        assert!(!stripper.pass(7), "that is more than the message has left");
        assert_eq!(stripper.finish(), Err(FrameError::Truncated));
        assert!(stripper.pass(6));
        assert_eq!(stripper.finish(), Ok(()));
    }

    #[test]
    fn message_when_compressed_is_refused() {
        for flags in [1, 2, 0x80, 0xff] {
            let refused = Stripper::new().strip(&[flags, 0, 0, 0, 1, b'x']);
            assert_eq!(refused, Err(FrameError::Flags(flags)));
        }
    }

    #[test]
    fn message_when_longer_than_bound_is_refused() {
        let longest = header(MAX_MESSAGE_LENGTH);
        assert_eq!(Stripper::new().strip(&longest), Ok(Stripped::Front(5)));
        for length in [MAX_MESSAGE_LENGTH + 1, u32::MAX] {
            let refused = Stripper::new().strip(&header(length));
            assert_eq!(refused, Err(FrameError::Length(length)));
        }
    }

    #[test]
    fn body_when_it_ends_inside_a_message_is_refused() {
        for end in 1..7 {
            let mut stripper = Stripper::new();
            stripper.strip(&framed(&[b"ab".to_vec()])[..end]).unwrap();
            assert_eq!(stripper.finish(), Err(FrameError::Truncated), "{end}");
        }
    }

    fn any_messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12)
    }

    proptest! {
        #[test]
        fn messages_when_cut_anywhere_come_out_whole(
            messages in any_messages(),
            cuts in prop::collection::vec(1_usize..30, 1..40),
        ) {
            let body = framed(&messages);
            let (mut stripper, mut rest, mut out) = (Stripper::new(), &body[..], Vec::new());
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (chunk, tail) = rest.split_at(cut.min(rest.len()));
                if stripper.pass(chunk.len()) {
                    out.extend_from_slice(chunk);
                } else {
                    out.extend(apply(&mut stripper, chunk).unwrap());
                }
                rest = tail;
            }
            prop_assert_eq!(out, messages.concat());
            prop_assert_eq!(stripper.finish(), Ok(()));
        }

        #[test]
        fn bytes_when_arbitrary_are_stripped_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..200) {
            let mut stripper = Stripper::new();
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            if let Ok(head) = apply(&mut stripper, head) {
                let whole = apply(&mut stripper, tail).map(|tail| [head, tail].concat());
                prop_assert_eq!(whole, apply(&mut Stripper::new(), &bytes));
            }
        }
    }
}
