//! Tier 4 and the feed: what a worker has to do with Redis.
//!
//! [`lookups`] asks for links on one connection, [`news`] reads the feed on another, since a connection that is blocked
//! on the feed answers nothing else. Both are tried for ever once a worker has seen its first request: before that
//! there is nothing to look up, and the copy of the plugin on Envoy's main thread, which can reach no internal listener,
//! never sees one.

pub(crate) mod belief;
pub mod link;
pub(crate) mod lookups;
pub(crate) mod news;

pub(crate) use belief::FeedView;
pub(crate) use lookups::{Answer, Lookups};
pub(crate) use news::News;
