//! Expiry of a certificate (RFC 5280, section 4.1).

use time::{Date, Month, PrimitiveDateTime, Time};

/// Tags of the relevant elements (X.690).
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Expiry of a certificate in DER, in seconds since 1970; `None` if it is malformed.
pub(super) fn end(certificate: &[u8]) -> Option<i64> {
    let (certificate, _) = expect(SEQUENCE, certificate)?;
    let (fields, _) = expect(SEQUENCE, certificate)?;
    // Certificates of version 1 omit the version.
    let fields = expect(VERSION, fields).map_or(fields, |(_, rest)| rest);
    let (_, _serial_number, fields) = element(fields)?;
    let (_, _signature_algorithm, fields) = element(fields)?;
    let (_, _issuer, fields) = element(fields)?;
    let (validity, _) = expect(SEQUENCE, fields)?;
    let (_, _not_before, validity) = element(validity)?;
    let (tag, not_after, _) = element(validity)?;
    moment(tag, std::str::from_utf8(not_after).ok()?)
}

/// Splits off the content of a leading element of that tag.
fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// Splits off tag and content of the leading element.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // The number of length bytes.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let add = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
            (length.iter().fold(0, add), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Parses `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn moment(tag: u8, text: &str) -> Option<i64> {
    let (year, rest) = match tag {
        UTC_TIME => {
            let year = text.get(..2)?.parse::<i32>().ok()?;
            (year + if year < 50 { 2000 } else { 1900 }, text.get(2..)?)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let number = |at: usize| rest.get(at..at + 2)?.parse::<u8>().ok();
    let date = Date::from_calendar_date(year, Month::try_from(number(0)?).ok()?, number(2)?);
    let time = Time::from_hms(number(4)?, number(6)?, number(8)?);
    let moment = PrimitiveDateTime::new(date.ok()?, time.ok()?).assume_utc();
    (rest.get(10..) == Some("Z")).then(|| moment.unix_timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes `content` as an element.
    fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len() as u8;
        let mut bytes = match length {
            0..=0x7f => vec![tag, length],
            _ => vec![tag, 0x81, length],
        };
        bytes.extend_from_slice(content);
        bytes
    }

    fn certificate(version: bool, end: (u8, &str)) -> Vec<u8> {
        let validity = [
            wrapped(UTC_TIME, b"250101000000Z"),
            wrapped(end.0, end.1.as_bytes()),
        ];
        let version = if version {
            wrapped(VERSION, &[2, 1, 2])
        } else {
            Vec::new()
        };
        let fields = [
            version,
            wrapped(2, &[7]),
            wrapped(SEQUENCE, &[]),
            wrapped(SEQUENCE, &[0; 130]),
            wrapped(SEQUENCE, &validity.concat()),
        ];
        wrapped(SEQUENCE, &wrapped(SEQUENCE, &fields.concat()))
    }

    #[test]
    fn certificate_when_its_end_is_in_either_form_is_read() {
        for version in [true, false] {
            for (form, seconds) in [
                ((UTC_TIME, "261231235959Z"), 1_798_761_599),
                ((UTC_TIME, "500101000000Z"), -631_152_000),
                ((GENERALIZED_TIME, "20500101000000Z"), 2_524_608_000),
            ] {
                assert_eq!(end(&certificate(version, form)), Some(seconds), "{form:?}");
            }
        }
    }

    #[test]
    fn certificate_when_malformed_has_no_end() {
        let good = certificate(true, (UTC_TIME, "261231235959Z"));
        for length in 0..good.len() {
            assert_eq!(end(&good[..length]), None, "{length}");
        }
        for wrong in [
            "261331235959Z",
            "261231235959",
            "2612312359Z",
            "26123123595é",
        ] {
            assert_eq!(end(&certificate(true, (UTC_TIME, wrong))), None, "{wrong}");
        }
        assert_eq!(end(&certificate(true, (4, "261231235959Z"))), None);
        assert_eq!(end(&[0x30, 0x85, 1, 1, 1, 1, 1]), None);
    }
}
