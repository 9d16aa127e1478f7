//! Rollups of clicks as stored in the database, decoded independently of the code that wrote them.

use edgelink_wire::{RecordError, varint};
use serde::{Deserialize, Serialize};

/// The attribute that may have several values for one click.
const TAG: u8 = 15;

/// Totals of rollups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenClicks {
    /// All clicks.
    pub clicks: u64,
    /// By the number of each attribute: clicks with a value of it, in rollups that have any.
    pub by_attribute: Vec<(u8, u64)>,
    /// Attributes whose clicks, or bots, exceed the total of some rollup.
    pub uneven: Vec<u8>,
}

impl WrittenClicks {
    /// Adds a rollup.
    ///
    /// # Errors
    /// Fails if it cannot be decoded.
    pub fn add(&mut self, mut doc: &[u8]) -> Result<(), RecordError> {
        let input = &mut doc;
        varint::read_version(input, 2)?;
        let (mut clicks, mut bots) = (0, 0);
        for _ in 0..varint::read(input)? {
            clicks += varint::read(input)?;
            bots += varint::read(input)?;
        }
        self.clicks += clicks;
        // The visitors.
        varint::read_bytes(input)?;
        for _ in 0..varint::read(input)? {
            let [by] = varint::read_array(input)?;
            let mut values = varint::read_bytes(input)?;
            let (listed, listed_bots) = sum(&mut values)?;
            if by != TAG && (listed > clicks || listed_bots > bots) {
                self.uneven.push(by);
            }
            match self.by_attribute.iter_mut().find(|(each, _)| *each == by) {
                Some((_, all)) => *all += listed,
                None => self.by_attribute.push((by, listed)),
            }
        }
        Ok(())
    }
}

/// Clicks and bots summed over all values.
fn sum(values: &mut &[u8]) -> Result<(u64, u64), RecordError> {
    let (mut clicks, mut bots) = (0, 0);
    for _ in 0..varint::read(values)? {
        varint::read_text(values, "value")?;
        clicks += varint::read(values)?;
        bots += varint::read(values)?;
    }
    varint::expect_end(values)?;
    Ok((clicks, bots))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollup_when_values_exceed_clicks_is_uneven() {
        // One slot of five clicks, two of them by bots; countries, domains and tags.
        let doc = b"\x02\x01\x05\x02\x00\x03\x00\x06\x01\x02DE\x03\x02\x10\x09\x02\x01a\x04\x01\x01b\x02\x00\x0f\x05\x01\x01t\x09\x00";
        let mut written = WrittenClicks::default();
        written.add(doc).unwrap();
        assert_eq!(written.clicks, 5);
        assert_eq!(written.by_attribute, [(0, 3), (16, 6), (15, 9)]);
        assert_eq!(written.uneven, [16]);
        assert!(written.add(&doc[..8]).is_err());
    }
}
