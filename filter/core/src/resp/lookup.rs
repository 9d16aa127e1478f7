//! The two commands of a connection for lookups: `HMGET link:{generation}:{domain}/{code}` of all fields of a link, and
//! `HMGET {feed}:state`, which returns the publisher's progress in that Redis.

use super::encode;
use super::reply::Reply;
use edgelink_wire::redis::{
    FeedState, LINK_FIELDS, STATE_FIELDS, STATE_KEY, link_key, record_from_values,
};
use edgelink_wire::{Record, RecordError};

/// Writes lookups; their common parts are encoded once.
#[derive(Clone, Debug)]
pub struct LookupCommand {
    /// In front of the key.
    start: Vec<u8>,
    generation: u64,
    /// Prefix of keys of that generation.
    prefix: String,
    /// Behind the key.
    fields: Vec<u8>,
}

/// Reason why the answer to a lookup is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// It is not an array with one string for each requested field.
    #[error("the answer to HMGET is not an array of {} strings", LINK_FIELDS.len())]
    Shape,
    /// The hash was not written by a version of ours.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A lookup of fields of a hash: `HMGET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashLookup {
    /// The number by which it is answered, unique within the connection.
    pub number: u32,
    /// The key of the hash.
    pub key: Vec<u8>,
    /// The names of the fields.
    pub fields: &'static [&'static str],
}

/// The values of the fields, in the order of the lookup; `None` for a field that the hash does not have.
pub type HashValues = Vec<Option<Vec<u8>>>;

/// The answer to a [`HashLookup`] by its number: values, or an error message.
pub type HashAnswer = (u32, Result<HashValues, String>);

impl Default for LookupCommand {
    fn default() -> Self {
        let (mut start, mut fields) = (Vec::new(), Vec::new());
        encode::command(LINK_FIELDS.len() + 2, &mut start);
        encode::argument(b"HMGET", &mut start);
        for field in LINK_FIELDS {
            encode::argument(field.as_bytes(), &mut fields);
        }
        Self {
            start,
            generation: 0,
            prefix: link_key(0, ""),
            fields,
        }
    }
}

impl LookupCommand {
    /// Looks links up in that generation from now on.
    pub fn set_generation(&mut self, generation: u64) {
        if self.generation != generation {
            self.generation = generation;
            self.prefix = link_key(generation, "");
        }
    }

    /// The name in Redis of `key`, which is `{domain}/{code}`.
    #[must_use]
    pub fn name_of(&self, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), key].concat()
    }

    /// Appends the lookup of `key`, which is `{domain}/{code}`.
    pub fn write(&self, key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.start);
        encode::argument_of_parts([self.prefix.as_bytes(), key], out);
        out.extend_from_slice(&self.fields);
    }
}

/// Appends the query for the state of the feed.
pub fn write_probe(out: &mut Vec<u8>) {
    let [generation, number] = STATE_FIELDS.map(str::as_bytes);
    encode::words(&[b"HMGET", STATE_KEY.as_bytes(), generation, number], out);
}

/// Reads the answer to [`write_probe`]. `None` if the publisher has written nothing there, or in an unknown format.
#[must_use]
pub fn read_probe(reply: Reply<'_>) -> Option<FeedState> {
    FeedState::from_values(&reply.strings()?)
}

/// Reads the answer. `None` if Redis does not have the key, which implies nothing about the link.
///
/// # Errors
/// [`LookupError`] if [`record_from_values`] does not accept the answer. It too implies nothing about the link.
pub fn read(reply: Reply<'_>) -> Result<Option<Record<&str>>, LookupError> {
    let values = reply.strings().ok_or(LookupError::Shape)?;
    Ok(record_from_values(&values)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_when_encoded_is_one_hmget() {
        let mut out = Vec::new();
        let mut lookup = LookupCommand::default();
        lookup.set_generation(70);
        lookup.write(b"a.example/x", &mut out);
        assert_eq!(
            out.escape_ascii().to_string().replace("\\r\\n", " "),
            "*10 $5 HMGET $19 link:70:a.example/x $3 url $8 redirect $5 state $11 valid_since $11 valid_until \
             $13 forward_query $3 rev $6 record "
        );
    }

    #[test]
    fn probe_when_answered_yields_the_feed_state() {
        let mut out = Vec::new();
        write_probe(&mut out);
        assert_eq!(
            out.escape_ascii().to_string().replace("\\r\\n", " "),
            "*4 $5 HMGET $12 {feed}:state $10 generation $6 number "
        );
        let read = |bytes| read_probe(Reply::parse(bytes).unwrap());
        let state = FeedState {
            generation: 70,
            number: 5,
        };
        assert_eq!(read(b"*2\r\n$2\r\n70\r\n$1\r\n5\r\n"), Some(state));
        for nothing in [&b"*2\r\n$-1\r\n$-1\r\n"[..], b"*0\r\n", b"+OK\r\n"] {
            assert_eq!(read(nothing), None);
        }
    }

    #[test]
    fn lookup_answer_when_read_is_record_none_or_error() {
        let read = |bytes| read(Reply::parse(bytes).unwrap());
        let nil = b"*8\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n";
        assert_eq!(read(nil), Ok(None));
        let absent = b"*8\r\n$-1\r\n$-1\r\n$6\r\nabsent\r\n$-1\r\n$-1\r\n$-1\r\n$1\r\n5\r\n$-1\r\n";
        assert_eq!(read(absent), Ok(Some(Record::Absent { rev: 5 })));
        let foreign = b"*8\r\n$3\r\nftp\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n";
        assert_eq!(
            read(foreign),
            Err(LookupError::Record(RecordError::Field("rev")))
        );
        assert_eq!(read(b"*6\r\n$-1\r\n"), Err(LookupError::Shape));
        assert_eq!(read(b"+OK\r\n"), Err(LookupError::Shape));
    }
}
