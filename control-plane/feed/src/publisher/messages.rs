//! The feed messages of the changes in the outbox.

use edgelink_settings::telemetry::prometheus::PUBLISHER_MALFORMED;
use edgelink_store::{PendingBatch, PendingChange};
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::record::RecordKind;
use metrics::counter;

/// The messages of batches, in order. A revision up to `floor` is published as a key only: a cache may have a record with
/// that revision from before the change.
pub(super) fn messages(batches: &[PendingBatch], floor: u64) -> Vec<FeedMessage<'_>> {
    let mut messages = Vec::new();
    for batch in batches {
        match batch.changes() {
            Ok(changes) => messages.extend(changes.iter().map(|change| message(change, floor))),
            Err(error) => {
                counter!(PUBLISHER_MALFORMED).increment(1);
                tracing::error!(row = batch.id, %error, "malformed batch of changes in the outbox; caches will look the links up again");
                messages.extend(unreadable(batch));
            }
        }
    }
    messages
}

/// The messages of a batch that cannot be decoded: the changed keys, or a flush if the keys cannot be read.
fn unreadable(batch: &PendingBatch) -> Vec<FeedMessage<'_>> {
    let keys = batch.keys.values();
    let keys: Option<Vec<&str>> = keys.map(|key| str::from_utf8(key.ok()?).ok()).collect();
    match keys.filter(|keys| !keys.is_empty()) {
        Some(keys) => {
            let changed = |key| FeedMessage::Changed { key };
            keys.into_iter().map(changed).collect()
        }
        None => vec![FeedMessage::Flush],
    }
}

fn message<'a>(change: &PendingChange<'a>, floor: u64) -> FeedMessage<'a> {
    let key = change.key;
    match change.record() {
        Ok(record) if record.rev <= floor => FeedMessage::Changed { key },
        Ok(record) if record.kind == RecordKind::Absent => FeedMessage::Del {
            key,
            rev: record.rev,
        },
        Ok(record) => FeedMessage::Put {
            key,
            record,
            hot: false,
        },
        Err(error) => {
            counter!(PUBLISHER_MALFORMED).increment(1);
            tracing::error!(%key, %error, "malformed change in the outbox; caches will look the link up again");
            FeedMessage::Changed { key }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_store::Packed;

    fn batch(keys: &[u8], records: &[u8]) -> PendingBatch {
        PendingBatch {
            id: 1,
            keys: Packed::from(keys.to_vec()),
            records: Packed::from(records.to_vec()),
            created_at: 0,
        }
    }

    #[test]
    fn change_when_unreadable_invalidates_as_little_as_possible() {
        let key = "a/b";
        let changed = FeedMessage::Changed { key };
        let deleted = FeedMessage::Del { key, rev: 7 };
        for (keys, records, floor, expected) in [
            (
                &b"\0\0\0\x03a/b"[..],
                &b"\0\0\0\x03\x01\x80\x07"[..],
                6,
                deleted,
            ),
            // A cache may have this revision from before the change.
            (b"\0\0\0\x03a/b", b"\0\0\0\x03\x01\x80\x07", 7, changed),
            (b"\0\0\0\x03a/b", b"\0\0\0\x01\x09", 0, changed),
            (b"\0\0\0\x03a/b", b"", 0, changed),
            (b"\0\0\0\x03a/b", b"\0\0\0\x09", 0, changed),
            (
                b"\0\0\0\x03a/\xff",
                b"\0\0\0\x03\x01\x80\x07",
                0,
                FeedMessage::Flush,
            ),
            (b"\0\0\0\x09", b"", 0, FeedMessage::Flush),
            (b"", b"\0\0\0\x01\x01", 0, FeedMessage::Flush),
        ] {
            let batch = batch(keys, records);
            let batches = [batch];
            assert_eq!(
                messages(&batches, floor),
                [expected],
                "{keys:?} {records:?}"
            );
        }
    }
}
