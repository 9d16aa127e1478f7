//! Header maps, and their encoding in a module's memory.

use std::fmt;

/// Largest map and highest number of pairs that a module may pass, by proxy-wasm-cpp-host's `limits.h`.
const MAX_PAIRS_BYTES: usize = 1 << 20;
const MAX_PAIRS: usize = 1024;

/// Headers in order, names in lower case, pseudo headers first.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HeaderMap(Vec<(Vec<u8>, Vec<u8>)>);

impl HeaderMap {
    /// Makes a map of names and values.
    #[must_use]
    pub fn new(pairs: &[(&str, &str)]) -> Self {
        let mut map = Self::default();
        for (name, value) in pairs {
            map.add(name.as_bytes(), value.as_bytes());
        }
        map
    }

    /// The first value of a name.
    #[must_use]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = canonical(name.as_ref());
        let found = self.0.iter().find(|(each, _)| *each == name);
        found.map(|(_, value)| value.as_slice())
    }

    /// The first value of a name, if it is text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// Adds a value, keeping other values of the name.
    pub fn add(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let name = canonical(name.as_ref());
        let at = if name.starts_with(b":") {
            let pseudo = self.0.iter().take_while(|(each, _)| each.starts_with(b":"));
            pseudo.count()
        } else {
            self.0.len()
        };
        self.0.insert(at, (name, value.as_ref().to_owned()));
    }

    /// Replaces all values of a name by one.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let key = canonical(name.as_ref());
        let Some(first) = self.0.iter().position(|(each, _)| *each == key) else {
            return self.add(key, value);
        };
        self.0[first].1 = value.as_ref().to_owned();
        let mut index = 0;
        self.0.retain(|(each, _)| {
            index += 1;
            *each != key || index == first + 1
        });
    }

    /// Removes every value of a name.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) {
        let name = canonical(name.as_ref());
        self.0.retain(|(each, _)| *each != name);
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// Number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Encodes the map for a module's memory; empty for an empty map.
    pub(crate) fn encode(&self) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut out = word(self.len()).to_vec();
        for (name, value) in self.iter() {
            out.extend(word(name.len()));
            out.extend(word(value.len()));
        }
        for (name, value) in self.iter() {
            out.extend([name, b"\0", value, b"\0"].concat());
        }
        out
    }

    /// Decodes a map. A malformed one is an empty map, as in Envoy.
    pub(crate) fn decode(data: &[u8]) -> Self {
        decode(data).unwrap_or_default()
    }
}

impl fmt::Debug for HeaderMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (text(name), text(value))))
            .finish()
    }
}

/// Envoy keeps `host` and `:authority` as one header.
fn canonical(name: &[u8]) -> Vec<u8> {
    let name = name.to_ascii_lowercase();
    if name == b"host" {
        b":authority".to_vec()
    } else {
        name
    }
}

fn word(number: usize) -> [u8; 4] {
    u32::try_from(number)
        .expect("a map of less than 4 GiB")
        .to_le_bytes()
}

fn decode(data: &[u8]) -> Option<HeaderMap> {
    if data.len() > MAX_PAIRS_BYTES {
        return None;
    }
    let (count, mut rest) = take_word(data)?;
    if count > MAX_PAIRS {
        return None;
    }
    let mut sizes = Vec::new();
    for _ in 0..2 * count {
        let (size, behind) = take_word(rest)?;
        sizes.push(size);
        rest = behind;
    }
    let mut map = HeaderMap::default();
    for pair in sizes.chunks_exact(2) {
        let (name, behind) = take_text(rest, pair[0])?;
        let (value, behind) = take_text(behind, pair[1])?;
        map.add(name, value);
        rest = behind;
    }
    rest.is_empty().then_some(map)
}

fn take_word(data: &[u8]) -> Option<(usize, &[u8])> {
    let (word, rest) = data.split_first_chunk()?;
    Some((u32::from_le_bytes(*word) as usize, rest))
}

fn take_text(data: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
    let (text, rest) = data.split_at_checked(size)?;
    Some((text, rest.strip_prefix(b"\0")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_map_when_encoded_and_decoded_is_equal() {
        let map = HeaderMap::new(&[("a", "1"), (":path", "/"), ("A", ""), ("Host", "h")]);
        let names: Vec<_> = map.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [&b":path"[..], b":authority", b"a", b"a"]);
        assert_eq!(HeaderMap::decode(&map.encode()), map);
    }

    #[test]
    fn header_map_when_malformed_is_empty() {
        let good = HeaderMap::new(&[("a", "1")]).encode();
        for bad in [&good[..good.len() - 1], &[&good[..], b"x"].concat(), b"ab"] {
            assert!(HeaderMap::decode(bad).is_empty());
        }
    }

    #[test]
    fn header_when_set_leaves_one_value() {
        let mut map = HeaderMap::new(&[("a", "1"), ("b", "2"), ("a", "3")]);
        map.set("A", "4");
        assert_eq!(map, HeaderMap::new(&[("a", "4"), ("b", "2")]));
    }
}
