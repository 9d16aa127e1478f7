//! Answers to changes, which are sent once the feed has carried what was changed.
//!
//! What is awaited travels with the response, so that the wait begins after the handler has released what it held
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
    /// The response that `view` makes of the outcome, which waits for the feed.
    pub(crate) fn answer(self, view: impl FnOnce(T) -> Response) -> Response {
        self.awaited.attach_to(view(self.value))
    }
}
