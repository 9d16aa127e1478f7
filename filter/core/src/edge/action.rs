//! What the host has to do once a lookup is complete or a callout is due.

use crate::control_plane::BackgroundCallout;
use crate::control_plane::callout::Callout;
use crate::flights::Waiter;
use crate::metrics::Tier;
use std::rc::Rc;

/// Waiters whose lookup is complete.
#[derive(Debug)]
pub struct Resumed {
    /// The waiters, each to be answered with what [`super::Edge::answer`] gives.
    pub waiters: Vec<Waiter>,
    pub(super) key: Rc<[u8]>,
    pub(super) tier: Tier,
    /// The encoded record; `None` if no tier could answer.
    pub(super) record: Option<Vec<u8>>,
}

/// Something that the host has to do.
#[derive(Debug)]
pub enum Action {
    /// Answer these waiters.
    Resume(Resumed),
    /// Send this lookup: Redis could not answer it.
    Send(Callout),
    /// Send this background callout.
    Run(BackgroundCallout),
}
