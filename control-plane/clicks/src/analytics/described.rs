//! Encoding of a click's attributes in the column of raw clicks.
//!
//! Layout, with numbers as unsigned LEB128 and texts prefixed by their length: version (1 byte; 0 for a click without attributes), flags
//! (1 byte: bot, visitor, id), device (1 byte), status, rule, the texts, the visitor (8 bytes), the id (16 bytes).

use super::model::{Agent, Described, Device};
use edgelink_wire::{RecordError, varint};
use std::sync::Arc;

const NOTHING: u8 = 0;
const VERSION: u8 = 1;

const IS_BOT: u8 = 1;
const HAS_VISITOR: u8 = 2;
const HAS_ID: u8 = 4;

const DEVICES: [Device; 5] = [
    Device::Unknown,
    Device::Desktop,
    Device::Mobile,
    Device::Tablet,
    Device::Other,
];

/// Appends the encoded attributes.
pub(crate) fn write(described: Option<&Described>, out: &mut Vec<u8>) {
    let Some(described) = described else {
        out.push(NOTHING);
        return;
    };
    let agent = &described.agent;
    let flag = |is_set, bit| if is_set { bit } else { 0 };
    out.extend_from_slice(&[
        VERSION,
        flag(agent.is_bot, IS_BOT)
            | flag(described.visitor.is_some(), HAS_VISITOR)
            | flag(described.id.is_some(), HAS_ID),
        agent.device as u8,
    ]);
    varint::write(described.status.into(), out);
    varint::write(described.rule.into(), out);
    for text in [
        &described.country,
        &described.city,
        &described.user_agent,
        &agent.browser,
        &agent.os,
        &described.referrer,
        &described.language,
    ]
    .into_iter()
    .chain(&described.utm)
    {
        varint::write_bytes(text.as_bytes(), out);
    }
    if let Some(visitor) = described.visitor {
        out.extend_from_slice(&visitor.to_le_bytes());
    }
    if let Some(id) = described.id {
        out.extend_from_slice(&id);
    }
}

/// Decodes the output of [`write`].
///
/// # Errors
/// [`RecordError`] if the bytes are malformed.
pub(crate) fn read(mut bytes: &[u8]) -> Result<Described, RecordError> {
    let input = &mut bytes;
    match varint::read_array(input)? {
        [NOTHING] => return Ok(Described::default()),
        [VERSION] => {}
        [version] => return Err(RecordError::Version(version)),
    }
    let [flags, device] = varint::read_array(input)?;
    let device = DEVICES.get(usize::from(device));
    let number = varint::read(input)?;
    let status = u16::try_from(number).map_err(|_| RecordError::Field("status"))?;
    let number = varint::read(input)?;
    let rule = u8::try_from(number).map_err(|_| RecordError::Field("rule"))?;
    let text = |input: &mut &[u8]| varint::read_text(input, "text").map(Arc::<str>::from);
    let [country, city, user_agent] = [text(input)?, text(input)?, text(input)?];
    let agent = Agent {
        device: *device.ok_or(RecordError::Field("device"))?,
        browser: text(input)?,
        os: text(input)?,
        is_bot: flags & IS_BOT != 0,
    };
    let described = Described {
        status,
        rule,
        country,
        city,
        user_agent,
        agent: Arc::new(agent),
        referrer: text(input)?,
        language: text(input)?,
        utm: [
            text(input)?,
            text(input)?,
            text(input)?,
            text(input)?,
            text(input)?,
        ],
        visitor: match flags & HAS_VISITOR {
            0 => None,
            _ => Some(u64::from_le_bytes(varint::read_array(input)?)),
        },
        id: match flags & HAS_ID {
            0 => None,
            _ => Some(varint::read_array(input)?),
        },
    };
    varint::expect_end(input)?;
    Ok(described)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Described {
        Described {
            status: 302,
            rule: 7,
            country: "DE".into(),
            city: "Köln".into(),
            user_agent: "Mozilla/5.0".into(),
            agent: Arc::new(Agent {
                device: Device::Tablet,
                browser: "Firefox".into(),
                os: "Linux".into(),
                is_bot: true,
            }),
            referrer: "example.com".into(),
            language: "de".into(),
            utm: ["a", "b", "", "d", "e"].map(Into::into),
            visitor: Some(u64::MAX),
            id: Some([9; 16]),
        }
    }

    #[test]
    fn description_when_written_and_read_is_equal() {
        let bare = Described {
            visitor: None,
            id: None,
            ..described()
        };
        for described in [described(), bare, Described::default()] {
            let mut bytes = Vec::new();
            write(Some(&described), &mut bytes);
            assert_eq!(read(&bytes), Ok(described));
        }
        let mut bytes = Vec::new();
        write(None, &mut bytes);
        assert_eq!(read(&bytes), Ok(Described::default()));
    }

    #[test]
    fn device_when_numbered_equals_its_index() {
        for (number, device) in DEVICES.into_iter().enumerate() {
            assert_eq!(device as usize, number);
        }
    }

    #[test]
    fn description_when_cut_off_or_unknown_is_refused() {
        let mut bytes = Vec::new();
        write(Some(&described()), &mut bytes);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        bytes[0] = 2;
        assert_eq!(read(&bytes), Err(RecordError::Version(2)));
    }
}
