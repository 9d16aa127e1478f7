//! Actions for the host once a lookup is complete or a callout is due.

use crate::control_plane::Callout;
use crate::flights::Waiter;
use crate::forms::FormEnd;
use crate::metrics::Tier;
use edgelink_wire::Record;
use edgelink_wire::domain_record::is_key_of_domain;
use edgelink_wire::record::has_extension;
use std::sync::Arc;

/// Waiters whose lookup is complete.
#[derive(Debug)]
pub struct Resumed {
    /// The waiters, each to be answered by [`super::Edge::answer`].
    pub waiters: Vec<Waiter>,
    /// Empty if the requests waited for the domains, and `{host}/` if a host was looked up: both have the requests decided
    /// again.
    pub(super) key: Arc<[u8]>,
    pub(super) tier: Tier,
    /// The encoded record; `None` if no tier could answer.
    pub(super) record: Option<Vec<u8>>,
    pub(super) visits: Uses,
}

/// State of the uses of a limited link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Uses {
    /// None needs to be taken.
    #[default]
    Unlimited,
    /// One was taken for each waiter.
    Taken,
    /// None are left.
    UsedUp,
    /// The link has a password too: [`super::Edge::admit_unlocked`] takes one for each waiter that has given it.
    Unknown,
}

impl Resumed {
    /// True if the answer depends on the headers of each waiter's request; otherwise the waiter's path will do, if it has more than
    /// a code.
    #[must_use]
    pub fn needs_headers(&self) -> bool {
        if self.again().is_some() {
            return true;
        }
        self.record.as_deref().is_some_and(has_extension)
    }

    /// The argument of [`super::Edge::on_request_again`], if that has to decide the waiters' requests instead.
    #[must_use]
    pub fn again(&self) -> Option<Again> {
        if self.key.is_empty() {
            return Some(Again::Domains);
        }
        if !is_key_of_domain(&self.key) {
            return None;
        }
        let record = self.record.as_deref().map(Record::decode_again);
        Some(match record {
            Some(Ok(Record::Absent { .. })) => Again::UnknownHost,
            Some(Ok(Record::Link(_))) => Again::Domains,
            Some(Err(_)) | None => Again::Unanswered,
        })
    }
}

/// Basis for deciding a request that has waited for its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The domains known by now.
    Domains,
    /// The control plane has just answered that its host is none of them.
    UnknownHost,
    /// The control plane has not answered for its host.
    Unanswered,
}

/// Something that the host has to do.
#[derive(Debug)]
pub enum Action {
    /// Answer these waiters.
    Resume(Resumed),
    /// Send this callout.
    Send(Callout),
    /// Answer this form.
    EndForm(FormEnd),
}
