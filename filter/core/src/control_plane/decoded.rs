//! Large answers, decoded before the edge is asked about them, and applied in parts: where threads share an edge, others wait meanwhile.

use super::callout::{CalloutError, Response, status};
use crate::warm::{self, WarmLink};
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::feed_batch::{MAX_BYTES, MAX_MESSAGES};
use edgelink_wire::{FeedBatch, FeedBatchHead, RecordError, Snapshot};

/// The most messages of a part: it takes less than a millisecond.
pub(crate) const PART: usize = 256;

/// The content of a large answer.
#[derive(Debug)]
pub enum Decoded<'a> {
    /// A snapshot.
    Snapshot(Box<DecodedSnapshot<'a>>),
    /// A batch of the feed.
    Feed(DecodedFeed<'a>),
    /// Neither, or it cannot be read.
    Other,
}

/// A snapshot, with its hot links as they are kept.
#[derive(Debug)]
pub struct DecodedSnapshot<'a> {
    pub(crate) snapshot: Snapshot<'a>,
    pub(crate) links: Vec<WarmLink>,
}

/// A batch of the feed, parts of which may have been applied already.
#[derive(Debug)]
pub struct DecodedFeed<'a> {
    pub(crate) head: FeedBatchHead,
    pub(crate) messages: Vec<Result<FeedMessage<'a>, RecordError>>,
    /// True if there may be more behind it.
    pub(crate) is_full: bool,
    /// True if a part was applied, so that the feed goes on where the batch begins.
    pub(crate) is_joined: bool,
}

impl<'a> Decoded<'a> {
    /// Decodes an answer.
    #[must_use]
    pub fn of(response: Response<'a>) -> Self {
        if status(response) != Ok(200) {
            return Self::Other;
        }
        let is = |media_type: &str| response.content_type == media_type.as_bytes();
        let body = response.body;
        if is(Snapshot::MEDIA_TYPE)
            && let Ok(snapshot) = Snapshot::decode(body)
        {
            let links = warm::links_of(&snapshot);
            return Self::Snapshot(Box::new(DecodedSnapshot { snapshot, links }));
        }
        if is(FeedBatch::MEDIA_TYPE)
            && let Ok(FeedBatch { head, messages }) = FeedBatch::decode(body)
        {
            return Self::Feed(DecodedFeed {
                head,
                is_full: messages.len() >= MAX_MESSAGES || body.len() >= MAX_BYTES,
                messages,
                is_joined: false,
            });
        }
        Self::Other
    }
}

impl<'a> DecodedFeed<'a> {
    /// Takes the first messages, unless so few are left that they are the last part. Messages that cannot be read stay for that.
    pub(crate) fn take_part(&mut self) -> Option<Vec<FeedMessage<'a>>> {
        if self.messages.len() <= PART {
            return None;
        }
        let rest = self.messages.split_off(PART);
        let part = std::mem::replace(&mut self.messages, rest);
        let (part, unreadable): (Vec<_>, Vec<_>) = part.into_iter().partition(Result::is_ok);
        self.messages.extend(unreadable);
        Some(part.into_iter().flatten().collect())
    }
}

/// The failure of an answer that has not the expected content.
pub(crate) fn failure(response: Response<'_>) -> CalloutError {
    match status(response) {
        Ok(status) => CalloutError::Answer(status),
        Err(failure) => failure,
    }
}
