//! Header maps as the ABI carries them: the number of pairs, the lengths of every name and value (all 32 bit,
//! little-endian), then every name and value with a zero byte behind it.

use edgelink_wire::redirect::CACHE_CONTROL;

/// Writes header maps into one reused buffer.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    bytes: Vec<u8>,
    /// Length of the common prefix of all plain redirects in the buffer; 0 if it holds something else.
    start: usize,
}

/// Position of the location's length in a plain redirect: behind the number of pairs and three lengths.
const LOCATION_LENGTH: std::ops::Range<usize> = 16..20;

impl Pairs {
    /// The pairs, encoded.
    pub(crate) fn encode<'n, 'v>(
        &mut self,
        pairs: impl Iterator<Item = (&'n str, &'v [u8])> + Clone,
    ) -> &[u8] {
        self.start = 0;
        self.bytes.clear();
        self.push_length(pairs.clone().count());
        for (name, value) in pairs.clone() {
            self.push_length(name.len());
            self.push_length(value.len());
        }
        for (name, value) in pairs {
            self.push_text(name.as_bytes());
            self.push_text(value);
        }
        &self.bytes
    }

    /// The pairs of a plain redirect, encoded. Of the previous redirect, everything but the location is reused.
    pub(crate) fn encode_redirect(&mut self, location: &[u8]) -> &[u8] {
        if self.start == 0 {
            self.begin_redirect();
        }
        self.bytes.truncate(self.start);
        if let Some(length) = self.bytes.get_mut(LOCATION_LENGTH) {
            length.copy_from_slice(&encoded_length(location.len()));
        }
        self.push_text(location);
        &self.bytes
    }

    /// The last encoded map.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.bytes
    }

    fn begin_redirect(&mut self) {
        let location = [
            ("cache-control", CACHE_CONTROL.as_bytes()),
            ("location", b""),
        ];
        let end_of_location = 1;
        self.start = self.encode(location.into_iter()).len() - end_of_location;
    }

    fn push_text(&mut self, text: &[u8]) {
        self.bytes.reserve(text.len() + 1);
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
    }

    fn push_length(&mut self, length: usize) {
        self.bytes.extend_from_slice(&encoded_length(length));
    }
}

fn encoded_length(length: usize) -> [u8; 4] {
    (length as u32).to_le_bytes()
}
