//! Tier 5: lookups at the control plane: the request, and reading the answer. Requests for visits go the same way.

use crate::flights::{FlightId, Purpose, StreamId};
use edgelink_wire::code::MAX_CODE_LENGTH;
use edgelink_wire::domain::MAX_DOMAIN_LENGTH;
use edgelink_wire::record::{MAX_RECORD_LENGTH, RecordBytes, RecordKind};
use edgelink_wire::{LinkAnswer, VisitsRequest};

/// Maximum length of an answer's body, in bytes: key, record, and 64 for all numbers. Longer ones are not read.
pub const MAX_BODY_BYTES: usize = MAX_DOMAIN_LENGTH + 1 + MAX_CODE_LENGTH + MAX_RECORD_LENGTH + 64;

const PATH: &str = "/edge/v1/links/";

/// Path prefix of lookups of the domain that a host names.
const HOSTS_PATH: &str = "/edge/v1/domains/";

/// Path prefix of requests for visits.
pub(crate) const VISITS_PATH: &str = "/edge/v1/visits/";

/// A lookup, or a request for visits, to be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct LookupCallout {
    /// Id of the lookup until the proxy gives it a token.
    pub flight: FlightId,
    /// The `:path` of the request; the rest comes from the settings.
    pub path: String,
    /// The body of a POST; empty for a GET.
    pub body: Vec<u8>,
}

impl LookupCallout {
    /// A lookup of a link key, or of a host as `{host}/`.
    pub(crate) fn new(flight: FlightId, key: &[u8]) -> Self {
        let path = match key.strip_suffix(b"/") {
            Some(host) => path_of(HOSTS_PATH, host),
            None => path_of(PATH, key),
        };
        Self {
            flight,
            path,
            body: Vec::new(),
        }
    }

    pub(crate) fn visits(flight: FlightId, key: &[u8], request: &VisitsRequest) -> Self {
        Self {
            flight,
            path: path_of(VISITS_PATH, key),
            body: request.to_bytes(),
        }
    }

    /// The line of its key in the body of a batch request ([`link_batch`](edgelink_wire::link_batch)); `None` if it is no lookup
    /// of a link.
    #[must_use]
    pub fn line(&self) -> Option<&str> {
        self.path.strip_prefix(PATH)
    }

    /// The media type of the answer, and of the body.
    #[must_use]
    pub fn media_type(&self) -> &'static str {
        match self.flight.purpose() {
            Purpose::Links => LinkAnswer::MEDIA_TYPE,
            Purpose::Visits => VisitsRequest::MEDIA_TYPE,
        }
    }
}

/// The path of a key below a prefix.
pub(crate) fn path_of(prefix: &str, key: &[u8]) -> String {
    let mut path = String::with_capacity(prefix.len() + key.len() + 8);
    path.push_str(prefix);
    for byte in key {
        match byte {
            b'[' => path.push_str("%5B"),
            b']' => path.push_str("%5D"),
            byte => path.push(char::from(*byte)),
        }
    }
    path
}

/// A response. Without headers (the connection broke) all fields are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Response<'a> {
    /// The value of `:status`.
    pub status: &'a [u8],
    /// The value of `content-type`.
    pub content_type: &'a [u8],
    /// The body; empty if it is longer than [`crate::edge::Edge::max_body_bytes`].
    pub body: &'a [u8],
}

/// Timeout of a password check, in milliseconds: the control plane does one after the other.
pub const UNLOCK_TIMEOUT_MILLIS: u32 = 5_000;

/// A form to be sent to the control plane.
#[derive(Debug, PartialEq, Eq)]
pub struct UnlockCallout {
    /// The stream of the form.
    pub stream: StreamId,
    /// The `:path`. It is a POST.
    pub path: String,
    /// The address of the visitor; empty if it is not known.
    pub visitor: String,
    /// The form.
    pub body: Vec<u8>,
}

/// Reason why a callout returned no usable record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CalloutError {
    /// Envoy turns a callout's timeout into a 504.
    #[error("no answer in time")]
    Timeout,
    /// The connection broke, or could not be made.
    #[error("the connection broke")]
    Reset,
    /// The answer does not match the request.
    #[error("status {0}, or a malformed answer")]
    Answer(u16),
    /// The answer is too old.
    #[error("the answer may be {0} ms old")]
    TooOld(u64),
}

/// The answer of the control plane to a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookupReply<'a> {
    pub(crate) record: RecordBytes<&'a [u8]>,
    /// Upper bound of the record's age when it was sent, in milliseconds.
    pub(crate) age_millis: u64,
}

/// Maximum age of an answer, in milliseconds: every record served was current less than 5 s ago, or is reported as stale. The
/// settings of a control plane, or of this edge, could otherwise allow older ones.
const MAX_AGE_MILLIS: u64 = 5_000;

impl LookupReply<'_> {
    /// The answer, unless it is too old `elapsed` milliseconds after the request.
    pub(crate) fn by_age(self, elapsed: u64) -> Result<Self, CalloutError> {
        let age = self.age_millis.saturating_add(elapsed);
        if age <= MAX_AGE_MILLIS {
            Ok(self)
        } else {
            Err(CalloutError::TooOld(age))
        }
    }
}

/// Reads the answer to the lookup of `key`. Only a well-formed answer counts: anything else is a failure, and never an
/// absence.
pub(crate) fn read<'a>(
    response: Response<'a>,
    key: &[u8],
) -> Result<LookupReply<'a>, CalloutError> {
    let status = status(response)?;
    if response.content_type != LinkAnswer::MEDIA_TYPE.as_bytes() {
        return Err(CalloutError::Answer(status));
    }
    let answered = answer(response.body, key).ok_or(CalloutError::Answer(status))?;
    match (status, answered.record.kind) {
        (200, RecordKind::Link) | (404, RecordKind::Absent) => Ok(answered),
        _ => Err(CalloutError::Answer(status)),
    }
}

/// The status of an answer, if it came from the control plane.
pub(crate) fn status(response: Response<'_>) -> Result<u16, CalloutError> {
    let status = std::str::from_utf8(response.status).ok();
    match status.and_then(|status| status.parse().ok()) {
        None => Err(CalloutError::Reset),
        Some(504) => Err(CalloutError::Timeout),
        Some(status) => Ok(status),
    }
}

fn answer<'a>(body: &'a [u8], key: &[u8]) -> Option<LookupReply<'a>> {
    let answer = LinkAnswer::split(body)
        .ok()
        .filter(|answer| answer.key == key)?;
    Some(LookupReply {
        record: RecordBytes::decode(answer.record).ok()?,
        age_millis: answer.age_millis,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{aged, answer, hasher, link, settings};
    use crate::flights::{FlightBounds, Flights};
    use edgelink_wire::Record;
    use edgelink_wire::record::MAX_EXTENSION_LENGTH;
    use edgelink_wire::target::MAX_URL_LENGTH;
    use proptest::prelude::*;

    const TYPE: &[u8] = LinkAnswer::MEDIA_TYPE.as_bytes();

    fn response<'a>(status: &'a str, content_type: &'a [u8], body: &'a [u8]) -> Response<'a> {
        Response {
            status: status.as_bytes(),
            content_type,
            body,
        }
    }

    #[test]
    fn answer_when_link_or_absence_is_read_as_record() {
        let body = aged("d/a", link("https://e/", 3), 700);
        let LookupReply { record, age_millis } =
            read(response("200", TYPE, &body), b"d/a").unwrap();
        assert_eq!(
            (record.kind, record.rev, age_millis),
            (RecordKind::Link, 3, 700)
        );
        assert_eq!(Record::decode(record.bytes), Ok(link("https://e/", 3)));
        let body = answer("d/a", Record::Absent { rev: 4 });
        let LookupReply { record, age_millis } =
            read(response("404", TYPE, &body), b"d/a").unwrap();
        assert_eq!(
            (record.kind, record.rev, age_millis),
            (RecordKind::Absent, 4, 0)
        );
    }

    #[test]
    fn answer_when_of_any_other_kind_is_a_failure() {
        let here = answer("d/a", link("https://e/", 3));
        let other = answer("d/b", link("https://e/", 3));
        let absent = answer("d/a", Record::Absent { rev: 4 });
        for (status, content_type, body, failure) in [
            ("", &b""[..], &b""[..], CalloutError::Reset),
            ("abc", TYPE, &here, CalloutError::Reset),
            ("504", TYPE, &here, CalloutError::Timeout),
            ("503", TYPE, &here, CalloutError::Answer(503)),
            ("404", TYPE, &here, CalloutError::Answer(404)),
            ("200", TYPE, &absent, CalloutError::Answer(200)),
            ("404", b"text/html", b"", CalloutError::Answer(404)),
            ("404", b"", &absent, CalloutError::Answer(404)),
            ("200", b"application/json", &here, CalloutError::Answer(200)),
            ("200", TYPE, &other, CalloutError::Answer(200)),
            ("200", TYPE, &here[..7], CalloutError::Answer(200)),
            ("200", TYPE, b"", CalloutError::Answer(200)),
        ] {
            let read = read(response(status, content_type, body), b"d/a");
            assert_eq!(read, Err(failure), "{status} {body:?}");
        }
    }

    #[test]
    fn address_when_in_brackets_is_percent_encoded() {
        let flight = Flights::new(Purpose::Links, FlightBounds::of(&settings()), hasher())
            .start(b"k", crate::time::Moment::default())
            .unwrap();
        let path = |key: &str| LookupCallout::new(flight, key.as_bytes()).path;
        assert_eq!(path("[::1]:80/a"), "/edge/v1/links/%5B::1%5D:80/a");
        let lookup = LookupCallout::new(flight, b"[::1]:80/a");
        assert_eq!(lookup.line(), Some("%5B::1%5D:80/a"));
        assert_eq!(path("e.com:80/a_-"), "/edge/v1/links/e.com:80/a_-");
        assert_eq!(path("[::1]:80/"), "/edge/v1/domains/%5B::1%5D:80");
        assert_eq!(LookupCallout::new(flight, b"e.com/").line(), None);
    }

    #[test]
    fn answer_when_of_the_longest_record_fits_the_bound() {
        let key = format!(
            "{}/{}",
            "d".repeat(MAX_DOMAIN_LENGTH),
            "c".repeat(MAX_CODE_LENGTH)
        );
        let url = "u".repeat(MAX_URL_LENGTH);
        let Record::Link(mut longest) = link(&url, u64::MAX) else {
            unreachable!()
        };
        longest.valid_since = Some(u64::MAX);
        longest.valid_until = Some(u64::MAX);
        let extension = vec![b'e'; MAX_EXTENSION_LENGTH];
        longest.extension = &extension;
        let longest = aged(&key, Record::Link(longest), u64::MAX);
        assert!(longest.len() <= MAX_BODY_BYTES);
    }

    proptest! {
        #[test]
        fn body_when_arbitrary_is_read_without_panic(body in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(response("200", TYPE, &body), b"d/a");
        }
    }
}
