//! Requests as tests send them.

use super::HeaderMap;
use super::message::End;
use super::worker::{RootId, StreamId, Worker};

/// A request to be sent.
pub struct RequestBuilder<'a> {
    pub(super) worker: &'a mut Worker,
    pub(super) root: Option<RootId>,
    pub(super) headers: HeaderMap,
}

impl RequestBuilder<'_> {
    /// Adds a header; `host` replaces the one that is there.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        if name.eq_ignore_ascii_case("host") {
            self.headers.set(name, value);
        } else {
            self.headers.add(name, value);
        }
        self
    }

    /// Lets it come through a listener with another configuration than the VM was made for.
    #[must_use]
    pub fn root(mut self, root: RootId) -> Self {
        self.root = Some(root);
        self
    }

    /// Sends it without a body.
    pub fn send(self) -> StreamId {
        self.worker.begin(self.root, self.headers, End::Last)
    }

    /// Sends its headers; the body follows ([`Worker::send_body`]).
    pub fn open(self) -> StreamId {
        self.worker.begin(self.root, self.headers, End::More)
    }
}
