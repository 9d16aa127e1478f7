//! Reads the control plane's changes from the Redis stream `feed`, without input and output.
//!
//! The reader has a connection of its own, for it spends its life blocked: `XREAD BLOCK` from the last entry that it has
//! seen, again and again. When it connects, and in every quiet moment, it asks for `XINFO STREAM` first and compares
//! ([`continuity`]), so that a change it has missed is noticed and never passed over in silence.
//!
//! # What a cache may rely on
//! Two times say all that a cache needs, both on the clock that the reader is told of:
//!
//! - Since [`Reader::since_ms`] nothing was missed. What was asked for earlier may have changed unseen.
//! - Up to [`Reader::heard_ms`] everything was read. What changes later may not be known yet.
//!
//! So a record that was asked for at `t` is as good as one asked for at [`Reader::known_until`]`(t)`. Only the publisher's
//! beats move that on: other entries may be late, and a Redis that answers, but that nobody publishes to, tells nothing, so that
//! records age as if there were no feed. A beat was sent after the end of the stream was last seen in front of it, so it is
//! known to be from when that was asked, and speaks of a time that is earlier by the age it says.

pub mod continuity;
mod wire;

#[cfg(test)]
mod tests;

pub use continuity::Gap;
pub use edgelink_wire::FeedPosition;

use crate::resp::Reply;
use crate::resp::client::{self, Client, Event, Failure, Reason};
use continuity::{Position, StreamInfo, parse_id};
use edgelink_wire::RecordError;
use edgelink_wire::feed::{Beat, FeedMessage, previous};
use edgelink_wire::redis::FeedState;
use wire::{elements, is_no_stream, pairs, write_info, write_read};

/// How long a beat may take at most to the stream, in milliseconds. How old what it speaks of was before, it says itself.
const BEAT_DELAY_MS: u64 = 1_000;

/// How much of an unusable reply is kept for the log, in bytes.
const KEPT_MESSAGE_BYTES: usize = 200;

/// Settings of the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The connection; always a direct one, for `redis_proxy` knows no `XREAD`. Its deadlines for requests are not used:
    /// the reader sets them from `block_ms` and `connect_timeout_ms`.
    pub connection: client::Settings,
    /// How long Redis may hold an `XREAD` while there is nothing to tell, in milliseconds. Also how often a quiet feed
    /// shows that it is alive, so it must be well below the time for which records are fresh without a feed.
    pub block_ms: u64,
    /// The most entries in one answer. So many of the longest must fit the connection's limits.
    pub batch: u32,
}

/// Where to start, for caches that were filled from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The last entry that the snapshot has in it.
    pub id: FeedPosition,
    /// When the snapshot was asked for, on the caller's clock.
    pub asked_ms: u64,
}

/// What the owner of the reader has to do.
#[derive(Clone, Copy, Debug)]
pub enum Output<'a> {
    /// As [`client::Output::OpenStream`].
    OpenStream,
    /// As [`client::Output::Send`].
    Send(&'a [u8]),
    /// As [`client::Output::CloseStream`].
    CloseStream,
    /// A change, in the order of the stream.
    Message(FeedMessage<'a>),
    /// An entry is no message of a known version, nor does it name a link. A gap follows.
    Malformed(FeedPosition, RecordError),
    /// Changes may have been missed: whatever was cached may be old. Reading goes on from the end of the stream.
    Gap(Gap),
    /// The connection: something to log or count.
    Event(Event<'a>),
}

/// The reader.
#[derive(Debug)]
pub struct Reader {
    client: Client<Asked>,
    session: Session,
    block_ms: u64,
    batch: u32,
}

/// What was asked, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Info { at_ms: u64 },
    Entries { at_ms: u64 },
}

/// What to do next on the connection.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    AskInfo,
    AskEntries,
    /// The reply was of no use, and says this.
    GiveUp(Vec<u8>),
}

/// What is known, apart from the connection.
#[derive(Debug)]
struct Session {
    batch: u32,
    /// None until the stream was first seen.
    position: Option<Position>,
    since_ms: Option<u64>,
    /// Where reading began then.
    start: FeedPosition,
    /// The last beat since then.
    told: Option<FeedState>,
    /// The least age of the beats in the answer at hand, in milliseconds.
    beat_age_ms: Option<u64>,
    heard_ms: Option<u64>,
    read_ms: Option<u64>,
    checked_ms: u64,
    next: Next,
    now_ms: u64,
}

impl Reader {
    /// A reader that the first tick connects. Without a `start` it begins at the end of the stream: changes of the past
    /// are nothing to caches that are empty. `seed` drives the jitter of reconnecting.
    #[must_use]
    pub fn new(settings: Settings, start: Option<Start>, seed: u64) -> Self {
        let Settings {
            mut connection,
            block_ms,
            batch,
        } = settings;
        // One deadline for all: an XREAD that is not back soon after its block period means a dead connection.
        connection.timeout_ms = block_ms.saturating_add(connection.connect_timeout_ms);
        connection.dead_after_ms = connection.timeout_ms;
        Self {
            client: Client::new(connection, seed),
            session: Session {
                batch,
                position: start.map(|start| Position {
                    id: start.id,
                    added: None,
                }),
                since_ms: start.map(|start| start.asked_ms),
                start: start.map_or(FeedPosition::START, |start| start.id),
                told: None,
                beat_age_ms: None,
                heard_ms: None,
                read_ms: None,
                checked_ms: 0,
                next: Next::AskInfo,
                now_ms: 0,
            },
            block_ms,
            batch,
        }
    }

    /// Since when nothing was missed, on the caller's clock. None until the stream was first seen.
    #[must_use]
    pub fn since_ms(&self) -> Option<u64> {
        self.session.since_ms
    }

    /// Where reading began at [`Self::since_ms`].
    #[must_use]
    pub fn start(&self) -> FeedPosition {
        self.session.start
    }

    /// Generation and number of the last beat that was read without a gap behind it.
    #[must_use]
    pub fn told(&self) -> Option<FeedState> {
        self.session.told
    }

    /// Up to when everything was read: what the last beat speaks of is at least as late as that.
    #[must_use]
    pub fn heard_ms(&self) -> Option<u64> {
        self.session.heard_ms
    }

    /// When the stream was last read to its end, be it that there was news or not.
    #[must_use]
    pub fn read_ms(&self) -> Option<u64> {
        self.session.read_ms
    }

    /// How long the feed has been silent, in milliseconds. None if it was never heard. A feed that is alive is never silent
    /// for much longer than the control plane's heartbeat takes to come round.
    #[must_use]
    pub fn silent_for_ms(&self, now_ms: u64) -> Option<u64> {
        self.heard_ms()
            .map(|heard_ms| now_ms.saturating_sub(heard_ms))
    }

    /// Until when a record that was asked for at `asked_ms` is known to be the latest, if no message has changed it.
    #[must_use]
    pub fn known_until(&self, asked_ms: u64) -> u64 {
        match (self.since_ms(), self.heard_ms()) {
            (Some(since_ms), Some(heard_ms)) if since_ms <= asked_ms => asked_ms.max(heard_ms),
            _ => asked_ms,
        }
    }

    /// The last entry that was read.
    #[must_use]
    pub fn position(&self) -> Option<FeedPosition> {
        self.session.position.map(|position| position.id)
    }

    /// Where the connection stands.
    #[must_use]
    pub fn state(&self) -> client::State {
        self.client.state()
    }

    /// Bytes came from the stream.
    pub fn on_data(&mut self, now_ms: u64, chunk: &[u8], emit: &mut dyn FnMut(Output<'_>)) {
        let session = self.session.at(now_ms);
        let forward = &mut |output: client::Output<'_, Asked>| session.on_output(output, emit);
        self.client.on_data(now_ms, chunk, forward);
        self.go_on(now_ms, emit);
    }

    /// The stream has ended, or could not be opened.
    pub fn on_closed(&mut self, now_ms: u64, emit: &mut dyn FnMut(Output<'_>)) {
        let session = self.session.at(now_ms);
        let forward = &mut |output: client::Output<'_, Asked>| session.on_output(output, emit);
        self.client.on_closed(now_ms, forward);
    }

    /// Time has passed.
    pub fn on_tick(&mut self, now_ms: u64, emit: &mut dyn FnMut(Output<'_>)) {
        let session = self.session.at(now_ms);
        let forward = &mut |output: client::Output<'_, Asked>| session.on_output(output, emit);
        self.client.on_tick(now_ms, forward);
        self.go_on(now_ms, emit);
    }

    /// Asks the next question, if none is open.
    fn go_on(&mut self, now_ms: u64, emit: &mut dyn FnMut(Output<'_>)) {
        if !self.client.is_ready() || self.client.waiting() > 0 {
            return;
        }
        let at_ms = self.session.now_ms;
        let from = self.session.position.unwrap_or(Position::START).id;
        let (block_ms, batch) = (self.block_ms, self.batch);
        let next = std::mem::replace(&mut self.session.next, Next::AskInfo);
        let session = &mut self.session;
        let forward = &mut |output: client::Output<'_, Asked>| session.on_output(output, emit);
        let asked = match next {
            Next::AskInfo => {
                self.client
                    .request(now_ms, Asked::Info { at_ms }, write_info, forward)
            }
            Next::AskEntries => {
                let write = |out: &mut Vec<u8>| write_read(block_ms, batch, from, out);
                self.client
                    .request(now_ms, Asked::Entries { at_ms }, write, forward)
            }
            Next::GiveUp(message) => {
                self.client
                    .reset(now_ms, Reason::Unusable(&message), forward);
                Ok(())
            }
        };
        // A request is only refused to one who is not ready or has too many open: neither is the case here.
        debug_assert!(asked.is_ok());
    }
}

impl Session {
    fn at(&mut self, now_ms: u64) -> &mut Self {
        self.now_ms = self.now_ms.max(now_ms);
        self
    }

    fn on_output(&mut self, output: client::Output<'_, Asked>, emit: &mut dyn FnMut(Output<'_>)) {
        match output {
            client::Output::OpenStream => {
                self.next = Next::AskInfo;
                emit(Output::OpenStream);
            }
            client::Output::Send(bytes) => emit(Output::Send(bytes)),
            client::Output::CloseStream => emit(Output::CloseStream),
            // The reader judges errors itself: that there is no stream yet is none.
            client::Output::Event(Event::ErrorReply { .. }) => {}
            client::Output::Event(event) => emit(Output::Event(event)),
            client::Output::Deliver(asked, answer) => self.on_answer(asked, answer, emit),
        }
    }

    fn on_answer(
        &mut self,
        asked: Asked,
        answer: Result<Reply<'_>, Failure<'_>>,
        emit: &mut dyn FnMut(Output<'_>),
    ) {
        let used = match (asked, answer) {
            (_, Err(Failure::TimedOut | Failure::Disconnected)) => return,
            (Asked::Info { at_ms }, Err(Failure::Refused(message))) if is_no_stream(message) => {
                self.on_info(None, at_ms, emit);
                Ok(())
            }
            (_, Err(Failure::Refused(message))) => Err(message),
            (Asked::Info { at_ms }, Ok(reply)) => match StreamInfo::read(reply) {
                Some(info) => {
                    self.on_info(Some(&info), at_ms, emit);
                    Ok(())
                }
                None => Err(&b"XINFO STREAM"[..]),
            },
            (Asked::Entries { at_ms }, Ok(reply)) => self
                .on_entries(reply, at_ms, emit)
                .ok_or(&b"XREAD: not entries in growing order"[..]),
        };
        if let Err(message) = used {
            let kept = message.get(..KEPT_MESSAGE_BYTES).unwrap_or(message);
            self.next = Next::GiveUp(kept.to_vec());
        }
    }

    /// Compares the stream with what was read of it, and starts again where they do not join.
    fn on_info(&mut self, info: Option<&StreamInfo>, at_ms: u64, emit: &mut dyn FnMut(Output<'_>)) {
        self.checked_ms = at_ms;
        self.next = Next::AskEntries;
        let end = info.map_or(Position::START, StreamInfo::end);
        match self.position.map(|position| position.check(info)) {
            None => self.start(end),
            Some(Ok(())) => {}
            Some(Err(gap)) => {
                self.start(end);
                emit(Output::Gap(gap));
            }
        }
        if self.position.is_some_and(|position| position.id == end.id) {
            self.position = Some(end);
            self.read_ms = Some(at_ms);
        }
    }

    fn start(&mut self, end: Position) {
        self.position = Some(end);
        self.missed(end.id);
    }

    /// Something may have been missed in front of `position`.
    fn missed(&mut self, position: FeedPosition) {
        self.since_ms = Some(self.now_ms);
        self.start = position;
        self.told = None;
        // When the end was seen before says nothing of another stream.
        self.read_ms = None;
    }

    /// `[[stream, [[id, [field, value, ...]], ...]]]`, or null after a quiet block period.
    fn on_entries(
        &mut self,
        reply: Reply<'_>,
        at_ms: u64,
        emit: &mut dyn FnMut(Output<'_>),
    ) -> Option<()> {
        self.next = Next::AskEntries;
        self.beat_age_ms = None;
        let mut count = 0;
        if reply != Reply::Null {
            let [_, entries] = elements(reply.array()?.next()?)?;
            for entry in entries.array()? {
                self.on_entry(entry, emit)?;
                count += 1;
            }
        }
        if let (Some(age_ms), Some(read_ms)) = (self.beat_age_ms, self.read_ms) {
            let heard_ms = read_ms.saturating_sub(BEAT_DELAY_MS).saturating_sub(age_ms);
            self.heard_ms = self.heard_ms.max(Some(heard_ms));
        }
        if count < self.batch {
            self.read_ms = Some(at_ms);
        }
        // Not each time, or a busy feed would pay for a question with every answer.
        if count == 0 || self.now_ms.saturating_sub(self.checked_ms) >= CHECK_INTERVAL_MS {
            self.next = Next::AskInfo;
        }
        Some(())
    }

    fn on_entry(&mut self, entry: Reply<'_>, emit: &mut dyn FnMut(Output<'_>)) -> Option<()> {
        let [id, fields] = elements(entry)?;
        let id = parse_id(id.bulk()?)?;
        let position = self.position.filter(|position| position.id < id)?;
        // An entry that names none was written by somebody else, and tells nothing of a loss.
        let named = previous(pairs(fields)).ok();
        let is_other = named.is_some_and(|previous| previous != position.id);
        self.position = Some(if is_other {
            self.missed(id);
            emit(Output::Gap(Gap::Skipped));
            // Another stream, perhaps: how many entries it has had is for the next look to tell.
            Position { id, added: None }
        } else {
            position.after(id)
        });
        match FeedMessage::from_fields(pairs(fields)) {
            Ok(message) => {
                if let FeedMessage::Beat(beat) = message {
                    self.on_beat(beat, id, emit);
                }
                emit(Output::Message(message));
            }
            Err(error) => {
                self.missed(id);
                emit(Output::Malformed(id, error));
                emit(Output::Gap(Gap::Unreadable));
            }
        }
        Some(())
    }

    fn on_beat(&mut self, beat: Beat, id: FeedPosition, emit: &mut dyn FnMut(Output<'_>)) {
        let Beat {
            generation,
            number,
            age_millis,
            ..
        } = beat;
        if self.told.is_some_and(|told| told.generation != generation) {
            self.missed(id);
            emit(Output::Gap(Gap::Generation));
        }
        self.told = Some(FeedState { generation, number });
        let age_ms = u64::from(age_millis);
        self.beat_age_ms = Some(self.beat_age_ms.map_or(age_ms, |least| least.min(age_ms)));
    }
}

/// How often a busy feed is compared with what was read of it, in milliseconds.
const CHECK_INTERVAL_MS: u64 = 1000;
