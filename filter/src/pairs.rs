//! Header maps as the ABI carries them: the number of pairs, the lengths of every name and value (all 32 bit,
//! little-endian), then every name and value with a zero byte behind it.

/// Writes header maps into one buffer, which is kept from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    bytes: Vec<u8>,
}

impl Pairs {
    /// The pairs, encoded.
    pub(crate) fn encode<'n, 'v>(
        &mut self,
        pairs: impl Iterator<Item = (&'n str, &'v str)> + Clone,
    ) -> &[u8] {
        self.bytes.clear();
        self.push_length(pairs.clone().count());
        for (name, value) in pairs.clone() {
            self.push_length(name.len());
            self.push_length(value.len());
        }
        for (name, value) in pairs {
            self.push_text(name);
            self.push_text(value);
        }
        &self.bytes
    }

    /// What was encoded last.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.bytes
    }

    fn push_text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    fn push_length(&mut self, length: usize) {
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
    }
}
