//! Clicks of a link, domain or tenant in an hour or a day, by the values of each attribute: what the SQL engine keeps.
//!
//! Layout, numbers as unsigned LEB128, texts behind their length: version (1 byte), how many slots, the clicks and bots of each,
//! how many attributes, each attribute as its number (1 byte) and its values behind their length, and the sketch of visitors up to the
//! end. Values are their number, and text, clicks and bots of each, in the order of their bytes.
//!
//! Clicks without a value are not written: they are what all values leave of the clicks. So each breakdown sums up to them, but that by
//! tags, of which a click has many.

use super::model::{Attribute, Bots, OTHER};
use super::sketch::{MalformedSketch, Sketch};
use edgelink_wire::{RecordError, varint};

/// The version of the layout.
const VERSION: u8 = 1;

/// The most slots: hours of a day.
pub const MAX_SLOTS: usize = 24;

/// How many attributes there are.
pub const ATTRIBUTES: usize = Attribute::ALL.len();

/// Clicks, and those of bots among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All.
    pub clicks: u64,
    /// Those of bots.
    pub bots: u64,
}

/// Why bytes are no rollup.
#[derive(Debug, thiserror::Error)]
pub enum RollupError {
    /// A later version has written it.
    #[error("the rollup is of version {0}, which is not known")]
    Version(u8),
    /// The bytes make no sense.
    #[error(transparent)]
    Malformed(#[from] RecordError),
    /// The bytes of the sketch make no sense.
    #[error(transparent)]
    Sketch(#[from] MalformedSketch),
}

/// The values of an attribute, in the order of their bytes, and their clicks.
pub type Values<'a> = Vec<(&'a str, Tally)>;

/// Clicks by hour and by attribute.
#[derive(Clone, Debug)]
pub struct Rollup<'a> {
    /// By hour: one, or [`MAX_SLOTS`] of a day.
    pub slots: Vec<Tally>,
    /// By the number of each attribute, without the empty value, but with the tag that is empty.
    pub values: [Values<'a>; ATTRIBUTES],
    /// The visitors that are no bots.
    pub visitors: Sketch,
}

impl Tally {
    /// So many clicks that count by `bots`.
    #[must_use]
    pub fn of(self, bots: Bots) -> u64 {
        match bots {
            Bots::Included => self.clicks,
            Bots::Excluded => self.clicks.saturating_sub(self.bots),
            Bots::Only => self.bots,
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.clicks = self.clicks.saturating_add(other.clicks);
        self.bots = self.bots.saturating_add(other.bots);
    }

    fn without(self, other: Self) -> Self {
        Self {
            clicks: self.clicks.saturating_sub(other.clicks),
            bots: self.bots.saturating_sub(other.bots),
        }
    }

    fn is_none(self) -> bool {
        self == Self::default()
    }

    fn write(self, out: &mut Vec<u8>) {
        varint::write(self.clicks, out);
        varint::write(self.bots, out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, RecordError> {
        Ok(Self {
            clicks: varint::read(input)?,
            bots: varint::read(input)?,
        })
    }
}

impl<'a> Rollup<'a> {
    /// A rollup without clicks.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            slots: vec![Tally::default(); slots],
            values: Default::default(),
            visitors: Sketch::default(),
        }
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// The [`RollupError`] that says what is wrong.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RollupError> {
        let encoded = EncodedRollup::open(bytes)?;
        let mut values: [Values<'a>; ATTRIBUTES] = Default::default();
        for by in Attribute::ALL {
            values[by as usize] = encoded.listed(by)?;
        }
        Ok(Self {
            values,
            visitors: encoded.visitors()?,
            slots: encoded.slots,
        })
    }

    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        varint::write(self.slots.len() as u64, &mut out);
        for slot in &self.slots {
            slot.write(&mut out);
        }
        let lists = Attribute::ALL.map(|by| (by, &self.values[by as usize]));
        let lists = lists.into_iter().filter(|(_, values)| !values.is_empty());
        varint::write(lists.clone().count() as u64, &mut out);
        let mut section = Vec::new();
        for (by, values) in lists {
            section.clear();
            varint::write(values.len() as u64, &mut section);
            for (value, tally) in values {
                varint::write_bytes(value.as_bytes(), &mut section);
                tally.write(&mut section);
            }
            out.push(by as u8);
            varint::write_bytes(&section, &mut out);
        }
        out.extend_from_slice(&self.visitors.to_bytes());
        out
    }

    /// All clicks.
    #[must_use]
    pub fn sum(&self) -> Tally {
        sum(&self.slots)
    }

    /// Adds the clicks of another one of as many slots. Of each attribute `most` values stay, those with most clicks.
    pub fn merge(&mut self, other: &Rollup<'a>, most: usize) {
        for (slot, added) in self.slots.iter_mut().zip(&other.slots) {
            slot.add(*added);
        }
        self.merge_values(other, most);
    }

    /// Adds the clicks of an hour of this day.
    pub fn merge_hour(&mut self, hour_of_day: usize, hour: &Rollup<'a>, most: usize) {
        if let Some(slot) = self.slots.get_mut(hour_of_day) {
            slot.add(hour.sum());
        }
        self.merge_values(hour, most);
    }

    fn merge_values(&mut self, other: &Rollup<'a>, most: usize) {
        for (values, added) in self.values.iter_mut().zip(&other.values) {
            if !added.is_empty() {
                *values = merged(values, added);
                bound(values, most);
            }
        }
        self.visitors.merge(&other.visitors);
    }
}

fn sum(slots: &[Tally]) -> Tally {
    slots.iter().fold(Tally::default(), |mut sum, slot| {
        sum.add(*slot);
        sum
    })
}

/// Two lists as one.
fn merged<'a>(one: &[(&'a str, Tally)], other: &[(&'a str, Tally)]) -> Values<'a> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    loop {
        let order = match (one.peek(), other.peek()) {
            (Some(one), Some(other)) => one.0.cmp(other.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return all,
        };
        if order.is_le() {
            let mut value = *one.next().unwrap_or(&("", Tally::default()));
            if order.is_eq() {
                value
                    .1
                    .add(other.next().map_or_else(Tally::default, |other| other.1));
            }
            all.push(value);
        } else {
            all.extend(other.next());
        }
    }
}

/// Leaves `most` values, those with most clicks, and [`OTHER`] with the rest.
pub fn bound(values: &mut Values<'_>, most: usize) {
    let place = values.binary_search_by(|(value, _)| (*value).cmp(OTHER));
    if values.len() <= most + usize::from(place.is_ok()) {
        return;
    }
    let mut other = Tally::default();
    if let Ok(place) = place {
        other = values.remove(place).1;
    }
    values.sort_unstable_by(|one, two| {
        two.1
            .clicks
            .cmp(&one.1.clicks)
            .then_with(|| one.0.cmp(two.0))
    });
    for (_, tally) in values.drain(most..) {
        other.add(tally);
    }
    values.push((OTHER, other));
    values.sort_unstable_by(|one, two| one.0.cmp(two.0));
}

/// A rollup of which only what is asked for is read.
#[derive(Clone, Debug)]
pub struct EncodedRollup<'a> {
    /// By hour: one, or [`MAX_SLOTS`] of a day.
    pub slots: Vec<Tally>,
    sections: [&'a [u8]; ATTRIBUTES],
    sketch: &'a [u8],
}

impl<'a> EncodedRollup<'a> {
    /// Finds the parts.
    ///
    /// # Errors
    /// The [`RollupError`] that says what is wrong.
    pub fn open(mut bytes: &'a [u8]) -> Result<Self, RollupError> {
        let input = &mut bytes;
        let [version] = varint::read_array(input)?;
        if version != VERSION {
            return Err(RollupError::Version(version));
        }
        let count = varint::read(input)?;
        if count > MAX_SLOTS as u64 {
            return Err(RecordError::Field("slots").into());
        }
        let slots = (0..count).map(|_| Tally::read(input));
        let slots = slots.collect::<Result<_, _>>()?;
        let mut sections = [&b""[..]; ATTRIBUTES];
        for _ in 0..varint::read(input)? {
            let [by] = varint::read_array(input)?;
            let section = sections.get_mut(usize::from(by));
            *section.ok_or(RecordError::Field("attribute"))? = varint::read_bytes(input)?;
        }
        Ok(Self {
            slots,
            sections,
            sketch: input,
        })
    }

    /// The values of an attribute, without the clicks that have none.
    fn listed(&self, by: Attribute) -> Result<Values<'a>, RecordError> {
        let mut section = self.sections[by as usize];
        if section.is_empty() {
            return Ok(Vec::new());
        }
        let input = &mut section;
        let count = usize::try_from(varint::read(input)?).unwrap_or(usize::MAX);
        // An entry has three bytes at least.
        let mut values = Vec::with_capacity(count.min(input.len() / 3 + 1));
        for _ in 0..count {
            let value = varint::read_text(input, "value")?;
            values.push((value, Tally::read(input)?));
        }
        varint::expect_end(input)?;
        Ok(values)
    }

    /// The values of an attribute, the empty one first where there are clicks without one.
    ///
    /// # Errors
    /// The bytes of this attribute make no sense.
    pub fn values(&self, by: Attribute) -> Result<Values<'a>, RecordError> {
        let mut values = self.listed(by)?;
        if by != Attribute::Tag {
            let listed: Vec<Tally> = values.iter().map(|(_, tally)| *tally).collect();
            let rest = sum(&self.slots).without(sum(&listed));
            if !rest.is_none() {
                values.insert(0, ("", rest));
            }
        }
        Ok(values)
    }

    /// The visitors that are no bots.
    ///
    /// # Errors
    /// The bytes of the sketch make no sense.
    pub fn visitors(&self) -> Result<Sketch, MalformedSketch> {
        Sketch::from_bytes(self.sketch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn tally(clicks: u64, bots: u64) -> Tally {
        Tally { clicks, bots }
    }

    fn rollup(values: &[(Attribute, &'static str, Tally)]) -> Rollup<'static> {
        let mut rollup = Rollup::new(1);
        let mut clicks: BTreeMap<Attribute, Tally> = BTreeMap::new();
        for (by, value, tally) in values {
            rollup.values[*by as usize].push((value, *tally));
            clicks.entry(*by).or_default().add(*tally);
        }
        for values in &mut rollup.values {
            values.sort_unstable_by(|one, other| one.0.cmp(other.0));
        }
        rollup.slots[0] = clicks
            .into_values()
            .max_by_key(|tally| tally.clicks)
            .unwrap_or_default();
        rollup
    }

    #[test]
    fn clicks_without_a_value_are_the_rest() {
        let mut rollup = rollup(&[
            (Attribute::Country, "DE", tally(3, 1)),
            (Attribute::Browser, "Firefox", tally(1, 0)),
        ]);
        rollup.slots[0] = tally(5, 2);
        rollup.visitors.insert(7);
        let bytes = rollup.encode();
        let read = EncodedRollup::open(&bytes).unwrap();
        let values = |by| read.values(by).unwrap();
        assert_eq!(
            values(Attribute::Country),
            [("", tally(2, 1)), ("DE", tally(3, 1))]
        );
        assert_eq!(values(Attribute::City), [("", tally(5, 2))]);
        assert_eq!(values(Attribute::Tag), []);
        assert_eq!(read.visitors().unwrap().estimate(), 1);
    }

    #[test]
    fn no_more_values_are_kept_than_allowed_and_none_is_lost() {
        let (de, at, ch) = ("DE", "AT", "CH");
        let country = |value, clicks| (Attribute::Country, value, tally(clicks, 1));
        let mut all = rollup(&[country(de, 5), country(at, 3)]);
        all.merge(&rollup(&[country(ch, 4), country(de, 1)]), 2);
        let kept = [(OTHER, tally(3, 1)), (ch, tally(4, 1)), (de, tally(6, 2))];
        assert_eq!(all.values[0], kept);
        all.merge(&rollup(&[country(at, 9)]), 2);
        let kept = [(OTHER, tally(7, 2)), (at, tally(9, 1)), (de, tally(6, 2))];
        assert_eq!(all.values[0], kept);
        assert_eq!(all.sum(), tally(22, 5));
    }

    #[test]
    fn a_day_has_its_hours() {
        let mut day = Rollup::new(MAX_SLOTS);
        let hour = rollup(&[(Attribute::Os, "Linux", tally(2, 0))]);
        day.merge_hour(3, &hour, 10);
        day.merge_hour(23, &hour, 10);
        let bytes = day.encode();
        let read = Rollup::decode(&bytes).unwrap();
        assert_eq!((read.slots[3], read.slots[4]), (tally(2, 0), tally(0, 0)));
        assert_eq!(read.sum(), tally(4, 0));
        assert_eq!(
            read.values[Attribute::Os as usize],
            [("Linux", tally(4, 0))]
        );
    }

    #[test]
    fn what_is_no_rollup_is_refused() {
        let bytes = rollup(&[(Attribute::Country, "DE", tally(3, 1))]).encode();
        assert!(matches!(
            Rollup::decode(&[2, 0, 0]),
            Err(RollupError::Version(2))
        ));
        for cut in 0..bytes.len() {
            assert!(Rollup::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(Rollup::decode(&[1, 25]).is_err());
        assert!(Rollup::decode(&[1, 0, 1, 17, 0]).is_err());
    }

    fn any_rollup() -> impl Strategy<Value = Vec<(u8, u8, u64)>> {
        prop::collection::vec((0..17_u8, 0..6_u8, 1..9_u64), 0..40)
    }

    fn of(values: &[(u8, u8, u64)]) -> Rollup<'static> {
        const TEXTS: [&str; 6] = ["a", "bb", "ccc", "dddd", "eeeee", "é"];
        let mut sums: BTreeMap<(u8, u8), u64> = BTreeMap::new();
        for (by, text, clicks) in values {
            *sums.entry((*by, *text)).or_default() += clicks;
        }
        let mut rollup = Rollup::new(1);
        for ((by, text), clicks) in sums {
            let tally = tally(clicks, clicks / 2);
            rollup.values[usize::from(by)].push((TEXTS[usize::from(text)], tally));
        }
        rollup.slots[0] = tally(1000, 500);
        rollup
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(values in any_rollup()) {
            let rollup = of(&values);
            let bytes = rollup.encode();
            let read = Rollup::decode(&bytes).unwrap();
            prop_assert_eq!(read.values, rollup.values);
            prop_assert_eq!(read.slots, rollup.slots);
        }

        #[test]
        fn merging_is_adding(one in any_rollup(), other in any_rollup()) {
            let both: Vec<_> = one.iter().chain(&other).copied().collect();
            let mut merged = of(&one);
            merged.merge(&of(&other), 10);
            let clicks = |rollup: &Rollup<'_>| rollup.values.clone().map(|values| {
                values.into_iter().map(|(value, tally)| (value.to_owned(), tally.clicks)).collect::<Vec<_>>()
            });
            prop_assert_eq!(clicks(&merged), clicks(&of(&both)));
            let mut bounded = Rollup::new(1);
            bounded.merge(&of(&one), 2);
            bounded.merge(&of(&other), 2);
            for (values, all) in bounded.values.iter().zip(&merged.values) {
                prop_assert!(values.len() <= 3);
                let sum = |values: &Values<'_>| values.iter().map(|(_, tally)| tally.clicks).sum::<u64>();
                prop_assert_eq!(sum(values), sum(all));
            }
        }

        #[test]
        fn any_bytes_are_taken_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Rollup::decode(&bytes);
            let _ = Rollup::decode(&[&[VERSION, 1], &bytes[..]].concat());
        }
    }
}
