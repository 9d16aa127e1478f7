//! The labels of statistics: in each enum the values of one label.

/// Defines labels, with the proxy's word for each value.
macro_rules! labels {
    ($($(#[$about:meta])* $label:ident { $($(#[$meaning:meta])* $value:ident = $word:literal,)+ })+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $label {
            $($(#[$meaning])* $value,)+
        }

        impl $label {
            pub(crate) const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

            /// The word for it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }
    )+};
}

labels! {
    /// The tier that answered a request, in the words of the header `x-edgelink-tier`.
    Tier {
        /// The worker's own cache.
        Lru = "lru",
        /// The proxy's shared data.
        SharedData = "shared-data",
        /// Admission: the code was never issued.
        Admission = "admission",
        /// No link was looked for: the host is none of the domains.
        UnknownHost = "unknown-host",
        /// No link was looked for: the path belongs to the domain itself, or the address has reached its limit.
        Domain = "domain",
        /// Redis.
        Redis = "redis",
        /// The control plane, or no tier at all when the control plane was needed and did not answer.
        ControlPlane = "control-plane",
        /// A cache, with a record that is no longer fresh.
        Stale = "stale",
    }

    /// Outcome of a request that is not answered.
    PassedOutcome {
        /// Its code has no link: it continues to the next filter.
        Passed = "passed",
    }

    /// Outcome of a callout.
    CalloutOutcome {
        /// A link.
        Ok = "ok",
        /// An absence.
        Absent = "absent",
        /// An invalid answer, or none at all.
        Failed = "failed",
        /// No answer in time.
        Timeout = "timeout",
        /// Not sent: a bound was reached, the control plane has been silent, or the proxy refused.
        Rejected = "rejected",
    }

    /// Outcome of a lookup in Redis.
    RedisOutcome {
        /// A link.
        Ok = "ok",
        /// An absence.
        Absent = "absent",
        /// Redis has no record.
        Miss = "miss",
        /// A record older than the cached one.
        Older = "older",
        /// Not asked, or its answer not used: the publisher may not have written everything to that Redis.
        NotCurrent = "not_current",
        /// An error, a record that cannot be read, or the connection was lost.
        Failed = "failed",
        /// No answer in time.
        Timeout = "timeout",
        /// Not sent: there is no connection, or a bound was reached.
        Rejected = "rejected",
    }

    /// Kind of a feed message.
    FeedOutcome {
        /// A link was created or has changed.
        Put = "put",
        /// A link was deleted.
        Del = "del",
        /// A link has changed, and must be looked up.
        Changed = "changed",
        /// Every record is invalid.
        Flush = "flush",
        /// The publisher is up to date.
        Beat = "beat",
        /// An entry that cannot be read.
        Malformed = "malformed",
        /// Changes may have been missed.
        Gap = "gap",
    }

    /// Purpose of a background callout.
    BackgroundKind {
        /// A snapshot.
        Snapshot = "snapshot",
        /// Changes, by long poll.
        Poll = "poll",
        /// A report of clicks.
        Clicks = "click_report",
        /// The return of visits of limited links.
        Visits = "visit_return",
    }

    /// Outcome of a background callout.
    BackgroundOutcome {
        /// It succeeded.
        Ok = "ok",
        /// It failed, or did not end.
        Failed = "failed",
    }

    /// Outcome of a request for visits of a limited link.
    VisitsOutcome {
        /// A block was leased.
        Leased = "leased",
        /// None are left.
        UsedUp = "used_up",
        /// An invalid answer, or none at all.
        Failed = "failed",
        /// Not sent: a bound was reached, or the control plane has been silent.
        Rejected = "rejected",
    }

    /// Outcome of a form with the password of a link.
    UnlockOutcome {
        /// The password was right.
        Opened = "opened",
        /// It was wrong.
        Wrong = "wrong",
        /// There were too many attempts.
        Limited = "limited",
        /// The link has no password any more.
        NotLocked = "not_locked",
        /// The control plane did not answer, or the form did not arrive.
        Failed = "failed",
    }

    /// Progress and losses of clicks.
    ClickOutcome {
        /// Counted by a worker. Some of them may still wait to be reported.
        Sent = "sent",
        /// Counted by the control plane.
        Acknowledged = "acknowledged",
        /// Dropped.
        Dropped = "dropped",
        /// Counted without their attributes, which were dropped.
        Undescribed = "undescribed",
        /// Not clicks, but requests without a link that were dropped.
        OrphansDropped = "orphans_dropped",
    }
}
