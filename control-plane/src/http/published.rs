//! Answers to changes, which are sent once the feed has carried the changes.
//!
//! The awaited changes travel with the response, so that the wait begins after the handler has released its permits
//! ([`super::layers::wait_until_published`]).

use crate::feed::{AwaitedChanges, Changed};
use axum::response::Response;

impl AwaitedChanges {
    /// Attaches the changes to the response that waits for them.
    pub(crate) fn attach_to(self, mut response: Response) -> Response {
        response.extensions_mut().insert(self);
        response
    }
}

impl<T> Changed<T> {
    /// Converts the outcome to a response by `view`; the response waits for the feed.
    pub(crate) fn answer(self, view: impl FnOnce(T) -> Response) -> Response {
        self.awaited.attach_to(view(self.value))
    }
}
