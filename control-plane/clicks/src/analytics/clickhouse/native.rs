//! Blocks in ClickHouse's Native format: columns, each with a name, a type and its values
//! (<https://clickhouse.com/docs/interfaces/formats/Native>).

use edgelink_wire::varint;

/// Version of the serialization prefix of a LowCardinality column.
const DICTIONARIES: u64 = 1;

/// Flags of indexes that follow their own dictionary.
const OWN_WORDS: u64 = 1 << 9 | 1 << 10;

/// Not seen yet.
const UNSET: u32 = u32::MAX;

/// Columns of as many rows.
pub(super) struct NativeBlock {
    bytes: Vec<u8>,
    rows: usize,
    /// By the number of a word, its index in the dictionary of the current column.
    places: Vec<u32>,
}

impl NativeBlock {
    /// Starts a block of so many columns. Each word is sent once per column.
    pub(super) fn new(columns: usize, rows: usize) -> Self {
        let mut bytes = Vec::new();
        varint::write(columns as u64, &mut bytes);
        varint::write(rows as u64, &mut bytes);
        Self {
            bytes,
            rows,
            places: Vec::new(),
        }
    }

    /// The bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn head(&mut self, name: &str, kind: &str) {
        varint::write_bytes(name.as_bytes(), &mut self.bytes);
        varint::write_bytes(kind.as_bytes(), &mut self.bytes);
    }

    /// Numbers, little-endian.
    pub(super) fn numbers<const N: usize>(
        &mut self,
        name: &str,
        kind: &str,
        values: impl Iterator<Item = [u8; N]>,
    ) {
        self.head(name, kind);
        self.bytes.reserve(self.rows * N);
        for value in values {
            self.bytes.extend_from_slice(&value);
        }
    }

    /// Texts, or other bytes.
    pub(super) fn texts<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a [u8]>) {
        self.head(name, "String");
        for value in values {
            varint::write_bytes(value, &mut self.bytes);
        }
    }

    /// Lists of texts.
    pub(super) fn lists<'a, T: AsRef<str> + 'a>(
        &mut self,
        name: &str,
        values: impl Iterator<Item = &'a [T]>,
    ) {
        self.head(name, "Array(String)");
        let (mut end, mut texts) = (0_u64, Vec::new());
        for list in values {
            end += list.len() as u64;
            self.bytes.extend_from_slice(&end.to_le_bytes());
            for text in list {
                varint::write_bytes(text.as_ref().as_bytes(), &mut texts);
            }
        }
        self.bytes.append(&mut texts);
    }

    /// Adds a column of texts by their numbers, with few distinct values.
    pub(super) fn words<'a>(
        &mut self,
        name: &str,
        numbers: impl Iterator<Item = u32>,
        text: impl Fn(u32) -> &'a str,
    ) {
        self.head(name, "LowCardinality(String)");
        let mut words: Vec<u32> = Vec::new();
        let mut indexes: Vec<u32> = Vec::with_capacity(self.rows);
        for number in numbers {
            let place = number as usize;
            if place >= self.places.len() {
                self.places.resize(place + 1, UNSET);
            }
            let index = &mut self.places[place];
            if *index == UNSET {
                *index = words.len() as u32;
                words.push(number);
            }
            indexes.push(*index);
        }
        let width: u64 = match words.len() {
            0..=0x100 => 0,
            0x101..=0x1_0000 => 1,
            _ => 2,
        };
        let numbers = [DICTIONARIES, OWN_WORDS | width, words.len() as u64];
        self.bytes
            .extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        for number in words {
            self.places[number as usize] = UNSET;
            varint::write_bytes(text(number).as_bytes(), &mut self.bytes);
        }
        self.bytes
            .extend_from_slice(&(indexes.len() as u64).to_le_bytes());
        let indexes = indexes.into_iter();
        match width {
            0 => self.bytes.extend(indexes.map(|index| index as u8)),
            1 => self
                .bytes
                .extend(indexes.flat_map(|index| (index as u16).to_le_bytes())),
            _ => self.bytes.extend(indexes.flat_map(u32::to_le_bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_when_encoded_are_written_once() {
        let texts = ["", "de", "fr"];
        let mut block = NativeBlock::new(1, 3);
        block.words("w", [2, 0, 2].into_iter(), |number| texts[number as usize]);
        let mut expected = b"\x01\x03\x01w\x16LowCardinality(String)".to_vec();
        expected.extend(1_u64.to_le_bytes());
        expected.extend(0x600_u64.to_le_bytes());
        expected.extend(2_u64.to_le_bytes());
        expected.extend(b"\x02fr\x00");
        expected.extend(3_u64.to_le_bytes());
        expected.extend([0, 1, 0]);
        assert_eq!(block.finish(), expected);
    }

    #[test]
    fn index_when_words_are_many_is_wider() {
        for (words, width) in [(0x100, 1), (0x101, 2), (0x1_0000, 2), (0x1_0001, 4)] {
            let mut block = NativeBlock::new(1, words);
            block.words("w", 0..words as u32, |_| "");
            let before = 2 + varint_length(words) - 1 + 2 + 23 + 24 + words + 8;
            assert_eq!(block.finish().len(), before + words * width, "{words}");
        }
    }

    fn varint_length(number: usize) -> usize {
        let mut bytes = Vec::new();
        varint::write(number as u64, &mut bytes);
        bytes.len()
    }
}
