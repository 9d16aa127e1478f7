//! Rollups of the SQL engine: clicks of a link, domain or tenant in an hour or a day, by the values of each attribute.
//!
//! Layout, with numbers as unsigned LEB128 and texts prefixed by their length. The head: version (1 byte), number of slots, clicks and
//! bots of each, and the length-prefixed sketch of visitors. Then the values: number of attributes, and for each its number (1 byte) and
//! its length-prefixed values: their count, then text, clicks and bots of each, in byte order.
//!
//! Head and values are kept apart, so that counting reads no values. Version 1 is still read: there the sketch is at the end, without its
//! length, and the two are one.
//!
//! Clicks without a value are not written: they are the clicks minus those of all values. So each breakdown adds up to the clicks, except
//! by tag, because a click may have several.

use super::attribute::{Attribute, Bots, OTHER};
use super::sketch::{MalformedSketch, Sketch};
use edgelink_wire::{RecordError, varint};

/// The version of the layout.
const VERSION: u8 = 2;

/// The version without a separate head.
const WHOLE: u8 = 1;

/// The most slots: hours of a day.
pub const MAX_SLOTS: usize = 24;

/// Number of attributes.
pub const ATTRIBUTES: usize = Attribute::ALL.len();

/// Number of clicks, and of those by bots among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All.
    pub clicks: u64,
    /// Clicks by bots.
    pub bots: u64,
}

/// Clicks of an hour that are added to a rollup.
#[derive(Clone, Debug, Default)]
pub struct Added<'a> {
    /// All.
    pub sum: Tally,
    /// Values of each attribute, see [`Rollup::values`].
    pub values: [Values<'a>; ATTRIBUTES],
    /// The tokens of visitors that are no bots.
    pub visitors: Vec<u64>,
}

/// Bounds of the attribute values that a rollup keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollupBounds {
    /// The most values of an attribute.
    pub values: usize,
    /// The most bytes of all attributes.
    pub bytes: usize,
}

/// The error of bytes that are no rollup.
#[derive(Debug, thiserror::Error)]
pub enum RollupError {
    /// It was written by a later version.
    #[error("unknown version {0} of a rollup")]
    Version(u8),
    /// The bytes are malformed.
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
    /// Number of clicks that pass the filter.
    #[must_use]
    pub fn of(self, bots: Bots) -> u64 {
        match bots {
            Bots::Included => self.clicks,
            Bots::Excluded => self.clicks.saturating_sub(self.bots),
            Bots::Only => self.bots,
        }
    }

    /// Creates a tally of clicks that are all by bots, or none of them.
    #[must_use]
    pub fn of_clicks(clicks: u64, are_bots: bool) -> Self {
        let bots = if are_bots { clicks } else { 0 };
        Self { clicks, bots }
    }

    /// Adds another tally.
    #[inline]
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

    /// Decodes all of a rollup.
    ///
    /// # Errors
    /// [`RollupError`] if the bytes are malformed.
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
        varint::write_bytes(&self.visitors.to_bytes(), &mut out);
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
        out
    }

    /// All clicks.
    #[must_use]
    pub fn sum(&self) -> Tally {
        sum(&self.slots)
    }

    /// Adds clicks to a slot. Within the bounds, the values with most clicks stay.
    pub fn add(&mut self, slot: usize, added: &Added<'a>, bounds: RollupBounds) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.add(added.sum);
        }
        self.add_values(&added.values, bounds);
        for visitor in &added.visitors {
            self.visitors.insert(*visitor);
        }
    }

    /// Adds the clicks of an hour of this day.
    pub fn merge_hour(&mut self, hour_of_day: usize, hour: &Rollup<'a>, bounds: RollupBounds) {
        if let Some(slot) = self.slots.get_mut(hour_of_day) {
            slot.add(hour.sum());
        }
        self.add_values(&hour.values, bounds);
        self.visitors.merge(&hour.visitors);
    }

    fn add_values(&mut self, others: &[Values<'a>; ATTRIBUTES], bounds: RollupBounds) {
        for (values, added) in self.values.iter_mut().zip(others) {
            if !added.is_empty() {
                *values = merged(values, added);
                bound(values, bounds.values);
            }
        }
        bound_bytes(&mut self.values, bounds.bytes);
    }
}

fn sum(slots: &[Tally]) -> Tally {
    slots.iter().fold(Tally::default(), |mut sum, slot| {
        sum.add(*slot);
        sum
    })
}

/// Merges two sorted lists.
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

/// Keeps the `most` values with most clicks, and [`OTHER`] with the rest.
pub fn bound(values: &mut Values<'_>, most: usize) {
    let place = values.binary_search_by(|(value, _)| (*value).cmp(OTHER));
    if values.len() <= most.saturating_add(usize::from(place.is_ok())) {
        return;
    }
    leave(values, |place, _| place < most);
}

/// Keeps at most so many bytes of values: the largest attributes are cut to equal sizes.
fn bound_bytes(lists: &mut [Values<'_>; ATTRIBUTES], most: usize) {
    let mut sizes = lists.each_ref().map(|values| size(values));
    if sizes.iter().sum::<usize>() <= most {
        return;
    }
    sizes.sort_unstable();
    let (mut room, mut each) = (most, 0);
    for (place, size) in sizes.into_iter().enumerate() {
        each = room / (ATTRIBUTES - place);
        if size > each {
            break;
        }
        room -= size;
    }
    for values in lists.iter_mut().filter(|values| size(values) > each) {
        let mut bytes = size_of_value(OTHER);
        leave(values, |_, value| {
            bytes += size_of_value(value);
            bytes <= each
        });
    }
}

/// Upper bound of the encoded size of values, unless they have very many clicks.
fn size(values: &[(&str, Tally)]) -> usize {
    values.iter().map(|(value, _)| size_of_value(value)).sum()
}

fn size_of_value(value: &str) -> usize {
    const NUMBERS: usize = 6;
    value.len() + NUMBERS
}

/// Keeps the values with most clicks while `may_stay` accepts their rank and text, and [`OTHER`] with the rest.
fn leave(values: &mut Values<'_>, mut may_stay: impl FnMut(usize, &str) -> bool) {
    let mut other = Tally::default();
    if let Ok(place) = values.binary_search_by(|(value, _)| (*value).cmp(OTHER)) {
        other = values.remove(place).1;
    }
    values.sort_unstable_by(|one, two| {
        two.1
            .clicks
            .cmp(&one.1.clicks)
            .then_with(|| one.0.cmp(two.0))
    });
    let staying = values.iter().enumerate();
    let staying = staying
        .take_while(|(place, (value, _))| may_stay(*place, value))
        .count();
    for (_, tally) in values.drain(staying..) {
        other.add(tally);
    }
    values.push((OTHER, other));
    values.sort_unstable_by(|one, two| one.0.cmp(two.0));
}

/// Splits an encoded rollup into its sum of clicks, its head and its values.
///
/// # Errors
/// The bytes are no rollup that [`Rollup::encode`] has written.
pub fn split(bytes: &[u8]) -> Result<(Tally, &[u8], &[u8]), RollupError> {
    let mut values = bytes;
    let (version, rollup) = EncodedRollup::read_head(&mut values)?;
    if version != VERSION {
        return Err(RollupError::Version(version));
    }
    let (head, values) = bytes.split_at(bytes.len() - values.len());
    Ok((rollup.sum(), head, values))
}

/// Finds the values of each attribute.
fn sections<'a>(input: &mut &'a [u8]) -> Result<[&'a [u8]; ATTRIBUTES], RecordError> {
    let mut sections = [&b""[..]; ATTRIBUTES];
    for _ in 0..varint::read(input)? {
        let [by] = varint::read_array(input)?;
        let section = sections.get_mut(usize::from(by));
        *section.ok_or(RecordError::Field("attribute"))? = varint::read_bytes(input)?;
    }
    Ok(sections)
}

/// An encoded rollup that is decoded on demand.
#[derive(Clone, Debug)]
pub struct EncodedRollup<'a> {
    /// By hour: one, or [`MAX_SLOTS`] of a day.
    pub slots: Vec<Tally>,
    sections: [&'a [u8]; ATTRIBUTES],
    sketch: &'a [u8],
}

impl<'a> EncodedRollup<'a> {
    /// Finds the parts of a whole rollup.
    ///
    /// # Errors
    /// [`RollupError`] if the bytes are malformed.
    pub fn open(mut bytes: &'a [u8]) -> Result<Self, RollupError> {
        let input = &mut bytes;
        let (version, mut rollup) = Self::read_head(input)?;
        rollup.sections = sections(input)?;
        match version {
            WHOLE => rollup.sketch = input,
            _ => varint::expect_end(input)?,
        }
        Ok(rollup)
    }

    /// Finds the parts of a head, which has no values, or of a whole rollup if it was written before heads were separate.
    ///
    /// # Errors
    /// [`RollupError`] if the bytes are malformed.
    pub fn open_head(mut bytes: &'a [u8]) -> Result<Self, RollupError> {
        if bytes.first() == Some(&WHOLE) {
            return Self::open(bytes);
        }
        let (_, rollup) = Self::read_head(&mut bytes)?;
        varint::expect_end(bytes)?;
        Ok(rollup)
    }

    /// Finds the values of a rollup with this sum of clicks, without its head.
    ///
    /// # Errors
    /// [`RollupError`] if the bytes are malformed.
    pub fn open_values(sum: Tally, mut bytes: &'a [u8]) -> Result<Self, RollupError> {
        let sections = sections(&mut bytes)?;
        varint::expect_end(bytes)?;
        Ok(Self {
            slots: vec![sum],
            sections,
            sketch: &[],
        })
    }

    /// Reads version, slots and, if present, sketch.
    fn read_head(input: &mut &'a [u8]) -> Result<(u8, Self), RollupError> {
        let [version] = varint::read_array(input)?;
        if version != VERSION && version != WHOLE {
            return Err(RollupError::Version(version));
        }
        let count = varint::read(input)?;
        if count > MAX_SLOTS as u64 {
            return Err(RecordError::Field("slots").into());
        }
        let slots = (0..count).map(|_| Tally::read(input));
        let rollup = Self {
            slots: slots.collect::<Result<_, _>>()?,
            sections: [&[]; ATTRIBUTES],
            sketch: match version {
                WHOLE => &[],
                _ => varint::read_bytes(input)?,
            },
        };
        Ok((version, rollup))
    }

    /// All clicks.
    #[must_use]
    pub fn sum(&self) -> Tally {
        sum(&self.slots)
    }

    /// The values of an attribute, excluding clicks without a value.
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
mod tests;
