//! The traits of a proxy: what a process with an edge needs of the one it lives in.

use crate::reply::LocalReply;
use edgelink_filter_core::host::{CasMismatch, Clients, SharedValue, Version};
use edgelink_filter_core::request::{Head, Headers};

/// A request at the proxy, lent while a hook for it runs.
pub trait Request: Clients {
    /// Its headers, as the proxy holds them.
    type Headers<'h>: Headers;
    /// Wakes it.
    type Waker: Waker;

    /// Lends its headers.
    fn with_head<R>(&self, act: impl FnOnce(&Head<'_, Self::Headers<'_>>) -> R) -> R;

    /// A waker of this request.
    fn waker(&self) -> Self::Waker;

    /// Answers it. The stream may have ended when this returns.
    fn answer(&self, reply: &LocalReply);

    /// Has a request that has waited go on in the proxy.
    fn go_on(&self);

    /// Length of its body so far, in bytes.
    fn body_length(&self) -> usize;

    /// Its body so far, at most `limit` bytes of it.
    fn body(&self, limit: usize) -> Vec<u8>;
}

/// Wakes a waiting request, from any thread: the hook for that runs on the thread of its worker. Dropped when the request ends; a
/// wake that is under way then is ignored.
pub trait Waker: Send + 'static {
    /// Wakes it.
    fn wake(&self, to: Wake);
}

/// Reason to wake a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Wake {
    /// The request has an event.
    Event = 0,
    /// Its worker has processed all requests at hand: an event scheduled from the same worker arrives behind them.
    Flush = 1,
}

/// Memory that the edges of several processes share, for records of links and places of the feed.
pub trait SharedTable: Sync {
    /// The value under `key`, and its version.
    fn get(&self, key: &str) -> Option<SharedValue<Vec<u8>>>;

    /// Writes a value, as [`SharedData::set`](edgelink_filter_core::host::SharedData::set) does.
    ///
    /// # Errors
    /// If another process has written in between.
    fn set(&self, key: &str, value: &[u8], cas: Version) -> Result<(), CasMismatch>;
}
