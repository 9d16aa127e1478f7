//! The feed: changes come in by themselves, and the caches learn them.

use super::link::{Link, Method};
use crate::feed::{Output, Reader, Settings};
use crate::host::{Log, SharedData, StreamToken, Streams};
use crate::learners::{Learners, Reading};
use crate::log_throttle::LogThrottle;
use crate::metrics::{FeedOutcome, Metric};
use crate::resp::Event;
use crate::resp::client::State;
use crate::time::Moment;

/// The reader and its stream.
#[derive(Debug)]
pub(crate) struct News {
    reader: Reader,
    wire: Wire,
}

#[derive(Debug)]
struct Wire {
    link: Link,
    malformed: LogThrottle,
    attempts: u32,
}

impl News {
    pub(crate) fn new(cluster: &str, settings: Settings, seed: u64) -> Self {
        Self {
            reader: Reader::new(settings, None, seed),
            wire: Wire {
                link: Link::new(cluster, Method::Direct),
                malformed: LogThrottle::default(),
                attempts: 0,
            },
        }
    }

    /// Whether the connection stands.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.reader.state(), State::Ready { .. })
    }

    /// Attempts to connect since this was last called.
    pub(crate) fn take_attempts(&mut self) -> u32 {
        std::mem::take(&mut self.wire.attempts)
    }

    /// How far the feed was read. `None` before it was first seen.
    pub(crate) fn reading(&self) -> Option<Reading> {
        let told = self.reader.told();
        Some(Reading {
            since: Moment::from_millis(self.reader.since_ms()?),
            heard: self.reader.heard_ms().map(Moment::from_millis),
            start: self.reader.start(),
            position: self.reader.position()?,
            generation: told.map(|told| told.generation),
            told,
        })
    }

    /// Bytes came on a stream, if it is ours.
    pub(crate) fn on_data(
        &mut self,
        host: &mut (impl Streams + SharedData + Log),
        now: Moment,
        stream: StreamToken,
        bytes: &[u8],
        learners: &mut Learners<'_>,
    ) {
        if self.wire.link.carries(stream) {
            let wire = &mut self.wire;
            let emit = &mut |output: Output<'_>| wire.on_output(host, now, output, learners);
            self.reader.on_data(now.millis(), bytes, emit);
        }
    }

    /// A stream has ended.
    pub(crate) fn on_end(
        &mut self,
        host: &mut (impl Streams + SharedData + Log),
        now: Moment,
        stream: StreamToken,
        learners: &mut Learners<'_>,
    ) {
        if self.wire.link.on_end(host, stream) {
            self.lose(host, now, learners);
        }
    }

    /// Time has passed.
    pub(crate) fn on_tick(
        &mut self,
        host: &mut (impl Streams + SharedData + Log),
        now: Moment,
        learners: &mut Learners<'_>,
    ) {
        self.wire.link.on_tick(host);
        let wire = &mut self.wire;
        let emit = &mut |output: Output<'_>| wire.on_output(host, now, output, learners);
        self.reader.on_tick(now.millis(), emit);
        if self.wire.link.take_refused() {
            self.lose(host, now, learners);
        }
    }

    /// Cancels the stream at once; another one is opened in its time, and goes on from the same place. Not from within a
    /// callback that brings a message.
    pub(crate) fn drop_stream(
        &mut self,
        host: &mut (impl Streams + SharedData + Log),
        now: Moment,
        learners: &mut Learners<'_>,
    ) {
        self.wire.link.close();
        self.wire.link.on_tick(host);
        self.lose(host, now, learners);
    }

    /// Gives the connection up, for good.
    pub(crate) fn end(mut self, host: &mut impl Streams) {
        self.wire.link.close();
        self.wire.link.on_tick(host);
    }

    fn lose(
        &mut self,
        host: &mut (impl Streams + SharedData + Log),
        now: Moment,
        learners: &mut Learners<'_>,
    ) {
        let wire = &mut self.wire;
        let emit = &mut |output: Output<'_>| wire.on_output(host, now, output, learners);
        self.reader.on_closed(now.millis(), emit);
    }
}

impl Wire {
    fn on_output(
        &mut self,
        host: &mut (impl Streams + SharedData + Log),
        now: Moment,
        output: Output<'_>,
        learners: &mut Learners<'_>,
    ) {
        match output {
            Output::OpenStream => {
                self.attempts = self.attempts.saturating_add(1);
                self.link.open(host);
            }
            Output::Send(bytes) => self.link.send(host, bytes),
            Output::CloseStream => self.link.close(),
            Output::Event(event) => note(host, event),
            Output::Message(message) => learners.on_message(host, now, message),
            Output::Malformed(id, error) => {
                learners.counts.count(Metric::Feed(FeedOutcome::Malformed));
                if self.malformed.is_due(now.millis()) {
                    host.warn(&format!("the feed's entry {id} cannot be read: {error}"));
                }
            }
            Output::Gap(gap) => learners.on_gap(host, now, gap),
        }
    }
}

fn note(log: &mut impl Log, event: Event<'_>) {
    match event {
        Event::Down(reason) => log.warn(&format!("the feed cannot be read: {reason}")),
        Event::Recovered { failures } => {
            log.warn(&format!(
                "the feed can be read again, after {failures} failures"
            ));
        }
        Event::ErrorReply { .. } => {}
    }
}
