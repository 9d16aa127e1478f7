//! What can become of things that are counted; the last part of a statistic's name.

/// Who answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The worker's own cache.
    Lru,
    /// The proxy's shared data.
    SharedData,
    /// The knowledge of what was never issued.
    Admission,
    /// No link was looked for: the host is none of the domains.
    UnknownHost,
    /// Redis.
    Redis,
    /// The control plane, or nobody when it had to and could not.
    ControlPlane,
    /// A cache, with a record that is no longer fresh.
    Stale,
}

impl Tier {
    pub(super) const ALL: [Self; 7] = [
        Self::Lru,
        Self::SharedData,
        Self::Admission,
        Self::UnknownHost,
        Self::Redis,
        Self::ControlPlane,
        Self::Stale,
    ];

    /// The tier in the header `x-edgelink-tier`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::SharedData => "shared-data",
            Self::Admission => "admission",
            Self::UnknownHost => "unknown-host",
            Self::Redis => "redis",
            Self::ControlPlane => "control-plane",
            Self::Stale => "stale",
        }
    }
}

/// What a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A redirect.
    Redirect,
    /// 404: no such link, or not valid yet.
    NotFound,
    /// 410: switched off or no longer valid.
    Gone,
    /// 503: nobody could tell.
    Unavailable,
}

impl Outcome {
    pub(super) const ALL: [Self; 4] = [
        Self::Redirect,
        Self::NotFound,
        Self::Gone,
        Self::Unavailable,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Redirect => "redirect",
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::Unavailable => "unavailable",
        }
    }
}

/// How a callout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalloutOutcome {
    /// A link.
    Ok,
    /// The knowledge that there is none.
    Absent,
    /// An answer that is none, or none at all.
    Failed,
    /// No answer in time.
    Timeout,
    /// Not sent: a bound was reached, the control plane has been silent, or the proxy refused.
    Rejected,
}

impl CalloutOutcome {
    pub(super) const ALL: [Self; 5] = [
        Self::Ok,
        Self::Absent,
        Self::Failed,
        Self::Timeout,
        Self::Rejected,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Absent => "absent",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Rejected => "rejected",
        }
    }
}

/// How a lookup in Redis ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisOutcome {
    /// A link.
    Ok,
    /// The knowledge that there is none.
    Absent,
    /// Redis has nothing on it.
    Miss,
    /// A record that is older than what the caches hold.
    Older,
    /// Not asked, or not believed: it is not known that the publisher has written everything to that Redis.
    NotCurrent,
    /// An error, a record that cannot be read, or the connection was lost.
    Failed,
    /// No answer in time.
    Timeout,
    /// Not sent: there is no connection, or a bound was reached.
    Rejected,
}

impl RedisOutcome {
    pub(super) const ALL: [Self; 8] = [
        Self::Ok,
        Self::Absent,
        Self::Miss,
        Self::Older,
        Self::NotCurrent,
        Self::Failed,
        Self::Timeout,
        Self::Rejected,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Absent => "absent",
            Self::Miss => "miss",
            Self::Older => "older",
            Self::NotCurrent => "not_current",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Rejected => "rejected",
        }
    }
}

/// What the feed told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedOutcome {
    /// A link is this now.
    Put,
    /// A link is gone.
    Del,
    /// A link has changed, and is to be asked for.
    Changed,
    /// Everything is to be forgotten.
    Flush,
    /// The publisher is up to date.
    Beat,
    /// An entry that cannot be read.
    Malformed,
    /// Changes may have been missed.
    Gap,
}

impl FeedOutcome {
    pub(super) const ALL: [Self; 7] = [
        Self::Put,
        Self::Del,
        Self::Changed,
        Self::Flush,
        Self::Beat,
        Self::Malformed,
        Self::Gap,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Del => "del",
            Self::Changed => "changed",
            Self::Flush => "flush",
            Self::Beat => "beat",
            Self::Malformed => "malformed",
            Self::Gap => "gap",
        }
    }
}

/// What a connection to Redis is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Lookups.
    Lookup,
    /// The feed.
    Feed,
}

impl Connection {
    pub(super) const ALL: [Self; 2] = [Self::Lookup, Self::Feed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Feed => "feed",
        }
    }
}

/// How an errand ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrandOutcome {
    /// As it should.
    Ok,
    /// In any other way, or not at all.
    Failed,
}

impl ErrandOutcome {
    pub(super) const ALL: [Self; 2] = [Self::Ok, Self::Failed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
        }
    }
}

/// What became of clicks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClickOutcome {
    /// Counted by a worker. Some of them may still wait to be reported.
    Sent,
    /// Counted by the control plane.
    Acknowledged,
    /// Given up.
    Dropped,
}

impl ClickOutcome {
    pub(super) const ALL: [Self; 3] = [Self::Sent, Self::Acknowledged, Self::Dropped];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Acknowledged => "acknowledged",
            Self::Dropped => "dropped",
        }
    }
}
