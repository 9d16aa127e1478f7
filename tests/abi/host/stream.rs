//! The way of a request and its response through the filter, as Envoy's filter manager goes it.

use super::HeaderMap;
use super::driver::{Driver, Entered};
use super::exports::{Callback, Exports};
use super::hostcalls::context::local_response;
use super::message::{End, Response};
use super::state::{HttpStream, Message, StreamHalf};

impl Driver<'_> {
    /// Begins a stream of a root, and shows its request headers to the filter.
    pub(crate) fn open(&mut self, root: u32, headers: HeaderMap, end: End) -> u32 {
        let stream = self.state_mut().new_context(Some(root));
        let count = headers.len() as u32;
        self.state_mut()
            .streams
            .insert(stream, HttpStream::new(headers));
        self.call(|exports| &exports.context_create, stream, (stream, root));
        self.message(stream, StreamHalf::Request)
            .are_headers_visible = true;
        self.http(stream).is_decoding = true;
        let goes_on = self.show(
            stream,
            |exports| &exports.request_headers,
            (stream, count, end.flag()),
        );
        self.after_headers(stream, StreamHalf::Request, goes_on, end);
        self.http(stream).is_decoding = false;
        self.send_prepared(stream);
        stream
    }

    /// Shows a part of the request body to the filter.
    pub(crate) fn request_data(&mut self, stream: u32, data: &[u8], end: End) {
        self.http(stream).is_decoding = true;
        self.data(stream, StreamHalf::Request, data, end);
        self.http(stream).is_decoding = false;
        self.send_prepared(stream);
    }

    /// Shows response headers to the filter.
    pub(crate) fn response_headers(&mut self, stream: u32, headers: HeaderMap, end: End) {
        let count = headers.len() as u32;
        let message = self.message(stream, StreamHalf::Response);
        message.headers = Some(headers);
        if self.http(stream).has_failed {
            return self.pass_headers(stream, StreamHalf::Response, end);
        }
        self.message(stream, StreamHalf::Response)
            .are_headers_visible = true;
        let goes_on = self.show(
            stream,
            |exports| &exports.response_headers,
            (stream, count, end.flag()),
        );
        self.after_headers(stream, StreamHalf::Response, goes_on, end);
    }

    /// Shows a part of the response body to the filter.
    pub(crate) fn response_data(&mut self, stream: u32, data: &[u8], end: End) {
        self.data(stream, StreamHalf::Response, data, end);
    }

    fn after_headers(&mut self, stream: u32, direction: StreamHalf, goes_on: bool, end: End) {
        let message = self.message(stream, direction);
        if goes_on {
            message.are_headers_visible = false;
            self.pass_headers(stream, direction, end);
        } else {
            message.is_paused = true;
        }
    }

    fn data(&mut self, stream: u32, direction: StreamHalf, data: &[u8], end: End) {
        if !self.http(stream).is_live {
            return;
        }
        if self.http(stream).has_failed {
            return self.pass_data(stream, direction, data, end);
        }
        let message = self.message(stream, direction);
        if message.is_paused {
            return;
        }
        message.buffer = Some(data.to_vec());
        let params = (stream, data.len() as u32, end.flag());
        let goes_on = match direction {
            StreamHalf::Request => self.show(stream, |exports| &exports.request_body, params),
            StreamHalf::Response => self.show(stream, |exports| &exports.response_body, params),
        };
        let message = self.message(stream, direction);
        let buffer = message.buffer.take().unwrap_or_default();
        if goes_on {
            self.pass_data(stream, direction, &buffer, end);
        } else {
            message.is_paused = true;
        }
    }

    /// Calls a callback of the stream, and says whether the filter lets what it was shown through.
    fn show(
        &mut self,
        stream: u32,
        which: impl FnOnce(&Exports) -> &Callback<(u32, u32, u32), u32>,
        params: (u32, u32, u32),
    ) -> bool {
        if self.has_failed() {
            self.fail_stream(stream);
            return false;
        }
        let goes_on = match self.enter(which, stream, params) {
            Entered::Absent => return true,
            Entered::Trapped => {
                self.fail_stream(stream);
                false
            }
            Entered::Returned(code) => !self.state().stop_iteration && code == 0,
        };
        self.after_call();
        goes_on
    }

    /// The filter has failed: the client gets 503, and the filter sees no more of this stream.
    fn fail_stream(&mut self, stream: u32) {
        if self.http(stream).has_failed {
            return;
        }
        let response = local_response(503, Vec::new(), &HeaderMap::default());
        let is_decoding = self.http(stream).is_decoding;
        self.http(stream).has_failed = true;
        if is_decoding {
            self.http(stream).prepared = Some(response);
        } else {
            self.send_local(stream, response);
        }
    }

    /// Sends a local response, or prepares it where the request's way is being gone. Only the first one counts.
    pub(crate) fn respond_locally(&mut self, stream: u32, response: Response) {
        let http = self.http(stream);
        if !http.is_live {
            return;
        }
        if http.is_decoding {
            http.prepared.get_or_insert(response);
        } else if http.response.have_headers_passed {
            self.close(stream);
        } else {
            self.send_local(stream, response);
        }
    }

    fn send_prepared(&mut self, stream: u32) {
        if let Some(response) = self.http(stream).prepared.take() {
            self.send_local(stream, response);
        }
    }

    /// A local response goes the response's way, and the filter sees it.
    fn send_local(&mut self, stream: u32, response: Response) {
        let http = self.http(stream);
        http.is_local = true;
        http.response = Message::default();
        let has_body = !response.body.is_empty() && !http.is_head();
        let end = if has_body { End::More } else { End::Last };
        self.response_headers(stream, response.headers, end);
        if has_body {
            self.response_data(stream, &response.body, End::Last);
        }
    }

    fn pass_headers(&mut self, stream: u32, direction: StreamHalf, end: End) {
        self.message(stream, direction).have_headers_passed = true;
        self.pass_data(stream, direction, b"", end);
    }

    fn pass_data(&mut self, stream: u32, direction: StreamHalf, data: &[u8], end: End) {
        let message = self.message(stream, direction);
        message.passed.extend(data);
        message.has_passed_end |= end == End::Last;
        if direction == StreamHalf::Response && end == End::Last {
            self.finish(stream);
        }
    }

    /// The client leaves, or the stream is reset.
    pub(crate) fn close(&mut self, stream: u32) {
        self.finish(stream);
    }

    /// Ends the stream: the filter's callbacks, in Envoy's order.
    fn finish(&mut self, stream: u32) {
        let http = self.http(stream);
        if !std::mem::replace(&mut http.is_live, false) {
            return;
        }
        (
            http.request.are_headers_visible,
            http.response.are_headers_visible,
        ) = (false, false);
        self.call(|exports| &exports.log, stream, (stream,));
        self.call(|exports| &exports.done, stream, (stream,));
        self.call(|exports| &exports.delete, stream, (stream,));
        self.state_mut().remove_context(stream);
    }

    pub(crate) fn http(&mut self, stream: u32) -> &mut HttpStream {
        let streams = &mut self.state_mut().streams;
        streams.get_mut(&stream).expect("a stream of this VM")
    }

    fn message(&mut self, stream: u32, direction: StreamHalf) -> &mut Message {
        self.http(stream).message(direction)
    }
}
