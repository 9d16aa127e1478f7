//! Settings of the publisher and the feed.

use edgelink_wire::settings::Problems;
use std::time::Duration;

edgelink_wire::settings! {
    snake_case;

    /// The publisher, which writes changes to the feed.
    pub struct PublisherConfig {
        /// How often the publisher looks into the outbox by itself: how late a change is when the nudge of another control
        /// plane is lost.
        pub poll_ms: Duration = Duration::from_millis(250), 10..=60_000;
        /// The publisher's lease: how long changes wait when it dies.
        pub lease_ms: Duration = Duration::from_secs(3), 500..=60_000;
        /// Period of the beats, which say up to when everything is published and where the bound is.
        pub heartbeat_ms: Duration = Duration::from_secs(1), 100..=2_000;
        /// Rows of the outbox read at once; a row holds the changes of a transaction, or 64 KiB of them.
        pub batch: u32 = 256, 1..=1_000;
        /// How far the bound is ahead of the numbers issued; capped at a thousandth of all numbers, or 10 million where that is
        /// more. Edges answer codes above the bound with 404 without a lookup. A control plane whose issuer comes to the bound
        /// leases another one. A link uses up 1000 of it.
        pub bound_room: u64 = 1_000_000_000, 10_000_000..=1_000_000_000_000;
    }

    /// The feed of changes.
    pub struct FeedConfig {
        /// About how many changes the stream in Redis keeps; a reader that was away for longer has a gap.
        pub stream_length: u64 = 100_000, 1_000..=10_000_000;
        /// About how many bytes the stream takes in Redis. It is cut before it grows, so that long targets do not fill Redis.
        pub stream_bytes: u64 = 67_108_864, 1_048_576..=1_099_511_627_776;
        /// Up to which age the feed is current; at least twice `publisher.heartbeat_ms`. With an older one the database is asked
        /// for every link, and edges that poll are sent to another control plane.
        pub max_age_ms: Duration = Duration::from_secs(4), 1_000..=5_000;
        /// Changes that each control plane keeps for edges that poll.
        pub entries: usize = 65_536, 100..=10_000_000;
        /// Bytes of these changes.
        pub bytes: usize = 33_554_432, 65_536..=4_294_967_296;
        /// Longest wait of a poll.
        pub max_wait_ms: Duration = Duration::from_secs(30), 100..=60_000;
        /// Polls that wait at once, one for each worker of an edge; then 503. Each takes about 35 KB of memory, and 40 µs of a
        /// processor for each answer: one a second, and one for each change. Raise `server.max_connections` and
        /// `max_connections_per_address` with it.
        pub max_polls: usize = 4_096, 1..=1_000_000;
        /// Workers of edges that are known by name, so that changes wait until each has acknowledged them, at any control plane. For
        /// further ones they wait 25 ms. Each takes about 200 bytes.
        pub max_pollers: usize = 65_536, 1..=10_000_000;
        /// Longest time that the answer to a change waits until every worker has acknowledged it: of a new alias, a PATCH, a DELETE, or a
        /// domain. A worker that is not heard of for 5 s is not waited for. With less than 5000, edges may show a
        /// link as it was for a moment after the answer, while a worker does not answer.
        pub alias_wait_ms: Duration = Duration::from_secs(5), 0..=10_000;
    }
}

impl FeedConfig {
    pub(super) fn check(&self, publisher: &PublisherConfig, problems: &mut Problems) {
        if self.max_age_ms < publisher.heartbeat_ms * 2 {
            let must = "must be at least twice publisher.heartbeat_ms: one beat that is late would make the feed too old";
            problems.refuse("feed.max_age_ms", must);
        }
    }
}
