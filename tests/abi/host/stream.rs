//! The path of a request and its response through the filter, like in Envoy's filter manager.

use super::HeaderMap;
use super::driver::{Driver, Entered};
use super::exports::{Callback, Exports};
use super::hostcalls::context::local_response;
use super::message::{End, Response};
use super::state::{HttpStream, Message, StreamHalf};
use wasmtime::WasmParams;

/// The filter's decision about headers, or about a part of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It lets them through.
    GoOn,
    /// It holds headers, and wants to see the body; a body waits.
    Hold,
    /// It holds them, and wants to see no more.
    Stop,
}

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
        let verdict = self.show(
            stream,
            |exports| &exports.request_headers,
            (stream, count, end.flag()),
        );
        self.after_headers(stream, StreamHalf::Request, verdict, end);
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

    /// Shows request trailers to the filter, after a body of which no part was the last. Modules make no use of their
    /// contents, which are not kept.
    pub(crate) fn request_trailers(&mut self, stream: u32) {
        let http = self.http(stream);
        if !http.is_live {
            return;
        }
        let (has_failed, request) = (http.has_failed, &mut http.request);
        request.has_ended = true;
        if request.is_paused {
            return;
        }
        let is_held = request.is_held;
        http.is_decoding = true;
        let verdict = if has_failed {
            Verdict::GoOn
        } else {
            self.show(stream, |exports| &exports.request_trailers, (stream, 0))
        };
        self.http(stream).is_decoding = false;
        match verdict {
            Verdict::GoOn if is_held => self.continue_request(stream),
            Verdict::GoOn => self.pass_data(stream, StreamHalf::Request, b"", End::Last),
            Verdict::Hold | Verdict::Stop => {}
        }
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
        let verdict = self.show(
            stream,
            |exports| &exports.response_headers,
            (stream, count, end.flag()),
        );
        self.after_headers(stream, StreamHalf::Response, verdict, end);
    }

    /// Shows a part of the response body to the filter.
    pub(crate) fn response_data(&mut self, stream: u32, data: &[u8], end: End) {
        self.data(stream, StreamHalf::Response, data, end);
    }

    fn after_headers(&mut self, stream: u32, direction: StreamHalf, verdict: Verdict, end: End) {
        let may_hold = self.state().plugin.allow_on_headers_stop_iteration;
        let message = self.message(stream, direction);
        match verdict {
            Verdict::GoOn => {
                message.are_headers_visible = false;
                self.pass_headers(stream, direction, end);
            }
            Verdict::Hold if may_hold && direction == StreamHalf::Request => {
                message.is_held = true;
                message.has_ended = end == End::Last;
            }
            Verdict::Hold | Verdict::Stop => message.is_paused = true,
        }
    }

    /// Continues a request that the filter has held, headers only or all of it, with the body received meanwhile.
    pub(crate) fn continue_request(&mut self, stream: u32) {
        let message = self.message(stream, StreamHalf::Request);
        if !message.is_held && !message.is_paused {
            return;
        }
        (message.is_held, message.is_paused) = (false, false);
        message.are_headers_visible = false;
        let body = message.buffer.take().unwrap_or_default();
        let end = if message.has_ended {
            End::Last
        } else {
            End::More
        };
        self.message(stream, StreamHalf::Request)
            .have_headers_passed = true;
        self.pass_data(stream, StreamHalf::Request, &body, end);
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
        if message.is_held {
            message.buffer.get_or_insert_default().extend(data);
            message.has_ended = end == End::Last;
        } else {
            message.buffer = Some(data.to_vec());
        }
        let size = message.buffer.as_ref().map_or(0, Vec::len);
        let params = (stream, size as u32, end.flag());
        let verdict = match direction {
            StreamHalf::Request => self.show(stream, |exports| &exports.request_body, params),
            StreamHalf::Response => self.show(stream, |exports| &exports.response_body, params),
        };
        let message = self.message(stream, direction);
        if message.is_held {
            // A body that continues takes the held headers with it.
            if verdict == Verdict::GoOn {
                self.continue_request(stream);
            }
            return;
        }
        let buffer = message.buffer.take().unwrap_or_default();
        if verdict == Verdict::GoOn {
            self.pass_data(stream, direction, &buffer, end);
        } else {
            message.is_paused = true;
        }
    }

    /// Calls a callback of the stream, and returns the filter's decision.
    fn show<P: WasmParams>(
        &mut self,
        stream: u32,
        which: impl FnOnce(&Exports) -> &Callback<P, u32>,
        params: P,
    ) -> Verdict {
        const STOP_ITERATION: u32 = 1;
        if self.has_failed() {
            self.fail_stream(stream);
            return Verdict::Stop;
        }
        let verdict = match self.enter(which, stream, params) {
            Entered::Absent => return Verdict::GoOn,
            Entered::Trapped => {
                self.fail_stream(stream);
                Verdict::Stop
            }
            Entered::Returned(_) if self.state().stop_iteration => Verdict::Stop,
            Entered::Returned(0) => Verdict::GoOn,
            Entered::Returned(STOP_ITERATION) => Verdict::Hold,
            Entered::Returned(_) => Verdict::Stop,
        };
        self.after_call();
        verdict
    }

    /// Handles a failure of the filter: the client gets 503, and the filter sees no more of this stream.
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

    /// Sends a local response, or prepares it while a callback of the request direction runs. Only the first one counts.
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

    /// Sends a local response in the response direction, where the filter sees it.
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

    /// Handles the client's leaving, or a reset of the stream.
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
