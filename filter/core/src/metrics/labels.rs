//! The labels of statistics: in each enum the values of one label.

/// Defines labels, and by which word each value is known at the proxy.
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
        /// No link was looked for: the path is that of the domain itself.
        Domain = "domain",
        /// Redis.
        Redis = "redis",
        /// The control plane, or no tier at all when the control plane was needed and did not answer.
        ControlPlane = "control-plane",
        /// A cache, with a record that is no longer fresh.
        Stale = "stale",
    }

    /// What became of a request that is not answered.
    PassedOutcome {
        /// Its code has no link: it goes on to the next filter.
        Passed = "passed",
    }

    /// How a callout ended.
    CalloutOutcome {
        /// A link.
        Ok = "ok",
        /// An absence.
        Absent = "absent",
        /// An answer that is none, or none at all.
        Failed = "failed",
        /// No answer in time.
        Timeout = "timeout",
        /// Not sent: a bound was reached, the control plane has been silent, or the proxy refused.
        Rejected = "rejected",
    }

    /// How a lookup in Redis ended.
    RedisOutcome {
        /// A link.
        Ok = "ok",
        /// An absence.
        Absent = "absent",
        /// Redis has nothing on it.
        Miss = "miss",
        /// A record that is older than what the caches hold.
        Older = "older",
        /// Not asked, or its answer not used: it is not known that the publisher has written everything to that Redis.
        NotCurrent = "not_current",
        /// An error, a record that cannot be read, or the connection was lost.
        Failed = "failed",
        /// No answer in time.
        Timeout = "timeout",
        /// Not sent: there is no connection, or a bound was reached.
        Rejected = "rejected",
    }

    /// What a message of the feed says.
    FeedOutcome {
        /// A link is this now.
        Put = "put",
        /// A link is gone.
        Del = "del",
        /// A link has changed, and is to be asked for.
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

    /// What a background callout is for.
    BackgroundKind {
        /// A snapshot.
        Snapshot = "snapshot",
        /// Changes, by long poll.
        Poll = "poll",
        /// A report of clicks.
        Clicks = "click_report",
        /// The return of visits of a link that has a limit.
        Visits = "visit_return",
    }

    /// How a background callout ended.
    BackgroundOutcome {
        /// As it should.
        Ok = "ok",
        /// In any other way, or not at all.
        Failed = "failed",
    }

    /// How a request for visits of a link that has a limit ended.
    VisitsOutcome {
        /// There are some to spend.
        Leased = "leased",
        /// None are left.
        UsedUp = "used_up",
        /// An answer that is none, or none at all.
        Failed = "failed",
        /// Not sent: a bound was reached, or the control plane has been silent.
        Rejected = "rejected",
    }

    /// What became of a form with the password of a link.
    UnlockOutcome {
        /// The password was right.
        Opened = "opened",
        /// It was wrong.
        Wrong = "wrong",
        /// There were too many tries.
        Limited = "limited",
        /// The link has no password any more.
        NotLocked = "not_locked",
        /// The control plane could not say, or the form did not come.
        Failed = "failed",
    }

    /// What became of clicks.
    ClickOutcome {
        /// Counted by a worker. Some of them may still wait to be reported.
        Sent = "sent",
        /// Counted by the control plane.
        Acknowledged = "acknowledged",
        /// Given up.
        Dropped = "dropped",
        /// Counted without their attributes, which were given up.
        Undescribed = "undescribed",
        /// No clicks, but requests that lead to no link, and that were given up.
        OrphansDropped = "orphans_dropped",
    }
}
