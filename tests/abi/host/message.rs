//! HTTP messages that tests send and receive.

use super::HeaderMap;
use crate::scenario::Answer;

/// Position of a part of a message in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is the last part.
    Last,
    /// More follows.
    More,
}

impl End {
    pub(crate) fn flag(self) -> u32 {
        u32::from(self == Self::Last)
    }
}

/// A response: to a client, or to a callout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The headers, `:status` among them.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A response without a body.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self {
            headers: HeaderMap::new(&[(":status", &status.to_string())]),
            ..Self::default()
        }
    }

    /// 200 with a body of that type.
    #[must_use]
    pub fn ok(media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(200).header("content-type", media_type).body(body)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.add(name, value);
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The status code.
    ///
    /// # Panics
    /// Panics if the module has removed or corrupted it.
    #[must_use]
    pub fn status(&self) -> u16 {
        let status = self.headers.text(":status").expect("a status");
        status.parse().expect("a status that is a number")
    }

    /// The first value of a header, if it is text.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.text(name)
    }

    /// The body as text; invalid UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = response.headers.iter();
        Self {
            status: response.status(),
            headers: headers
                .map(|(name, value)| (text(name), value.to_owned()))
                .collect(),
            body: response.body,
        }
    }
}

/// Outcome of a request so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The filter holds it.
    Paused,
    /// It passed to the upstream, with these headers.
    PassedThrough {
        /// The request headers, as left by the filter.
        headers: HeaderMap,
    },
    /// The filter has answered it.
    LocalResponse(Response),
    /// The upstream has answered it.
    Responded(Response),
    /// It was reset, or the client has left.
    Closed,
}

impl Outcome {
    /// The response that the filter has sent.
    ///
    /// # Panics
    /// Panics if it has sent none.
    #[must_use]
    #[track_caller]
    pub fn local_response(self) -> Response {
        match self {
            Self::LocalResponse(response) => response,
            other => panic!("no local response: {other:?}"),
        }
    }
}
