//! The header `traceparent` (W3C Trace Context): the trace of a request.

/// The name of the header.
pub const TRACEPARENT: &str = "traceparent";

/// A `traceparent` of version 00.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace; never 0.
    pub trace_id: u128,
    /// The span that sent the request; never 0.
    pub span_id: u64,
    /// True if the trace is sampled.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Reads `00-{trace}-{span}-{flags}`, in lower-case hexadecimal digits. `None` if it is not exactly that, or if trace or span
    /// are 0.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        let mut parts = str::from_utf8(header).ok()?.split('-');
        let mut next = |digits| parts.next().and_then(|part| number(part, digits));
        let (version, trace_id, span_id, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        let is_right = version == 0 && trace_id != 0 && span_id != 0 && parts.next().is_none();
        is_right.then_some(Self {
            trace_id,
            span_id: u64::try_from(span_id).ok()?,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Parses a number of exactly this many digits.
fn number(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = text.len() == digits && text.bytes().all(is_digit);
    is_number.then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn traceparent_when_parsed_has_trace_span_and_flag() {
        let parent = TraceParent {
            trace_id: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span_id: 0xb7ad_6b71_6920_3331,
            is_sampled: true,
        };
        assert_eq!(TraceParent::parse(PARENT.as_bytes()), Some(parent));
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let text = PARENT.replace("-01", &format!("-{flags}"));
            let expected = TraceParent {
                is_sampled,
                ..parent
            };
            assert_eq!(TraceParent::parse(text.as_bytes()), Some(expected));
        }
    }

    #[test]
    fn traceparent_when_malformed_is_refused() {
        let long = format!("{PARENT}-");
        for text in [
            "",
            "00",
            &PARENT[..54],
            &long,
            &PARENT.replacen("00-", "01-", 1),
            &PARENT.replacen("00-", "ff-", 1),
            &PARENT.replacen("0af", "+af", 1),
            &PARENT.replace('a', "A"),
            &PARENT.replacen("-b7", "b-7", 1),
            &PARENT.replace("319c", "319\r"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(TraceParent::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(TraceParent::parse(&[0xff; 55]), None);
    }
}
