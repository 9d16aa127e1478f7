//! The way of a request and its response through the filter, as Envoy's filter manager goes it.

use super::HeaderMap;
use super::driver::{Driver, Entered};
use super::exports::{Callback, Exports};
use super::hostcalls::local_response::local_response;
use super::message::{End, Response};
use super::state::{Direction, HttpStream, Message, Pause};

/// What the filter wants to become of what it was shown.
enum Flow {
    Continue,
    Stop,
    /// As [`Self::Stop`], and what it was shown is thrown away.
    Drop,
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
        self.message(stream, Direction::Request).are_headers_visible = true;
        self.http(stream).is_decoding = true;
        let flow = self.show(
            stream,
            |exports| &exports.request_headers,
            (stream, count, end.flag()),
        );
        self.after_headers(stream, Direction::Request, &flow, end);
        self.http(stream).is_decoding = false;
        self.send_prepared(stream);
        stream
    }

    /// Shows a part of the request body to the filter.
    pub(crate) fn request_data(&mut self, stream: u32, data: &[u8], end: End) {
        self.http(stream).is_decoding = true;
        self.data(stream, Direction::Request, data, end);
        self.http(stream).is_decoding = false;
        self.send_prepared(stream);
    }

    /// Shows response headers to the filter.
    pub(crate) fn response_headers(&mut self, stream: u32, headers: HeaderMap, end: End) {
        let count = headers.len() as u32;
        let message = self.message(stream, Direction::Response);
        message.headers = Some(headers);
        if self.http(stream).has_failed {
            return self.pass_headers(stream, Direction::Response, end);
        }
        self.message(stream, Direction::Response)
            .are_headers_visible = true;
        let flow = self.show(
            stream,
            |exports| &exports.response_headers,
            (stream, count, end.flag()),
        );
        self.after_headers(stream, Direction::Response, &flow, end);
    }

    /// Shows a part of the response body to the filter.
    pub(crate) fn response_data(&mut self, stream: u32, data: &[u8], end: End) {
        self.data(stream, Direction::Response, data, end);
    }

    fn after_headers(&mut self, stream: u32, direction: Direction, flow: &Flow, end: End) {
        match flow {
            Flow::Continue => {
                self.message(stream, direction).are_headers_visible = false;
                self.pass_headers(stream, direction, end);
            }
            Flow::Stop | Flow::Drop => {
                let message = self.message(stream, direction);
                message.pause = Some(Pause::AtHeaders);
                message.is_end_waiting = end == End::Last;
            }
        }
    }

    fn data(&mut self, stream: u32, direction: Direction, data: &[u8], end: End) {
        if !self.http(stream).is_live {
            return;
        }
        if self.http(stream).has_failed {
            return self.pass_data(stream, direction, data, end);
        }
        let message = self.message(stream, direction);
        if message.pause == Some(Pause::AtHeaders) {
            message.waiting.extend(data);
            message.is_end_waiting |= end == End::Last;
            return;
        }
        let mut buffer = match message.pause.take() {
            Some(Pause::AtBody) => message.buffer.take().unwrap_or_default(),
            _ => Vec::new(),
        };
        buffer.extend(data);
        let size = buffer.len() as u32;
        message.buffer = Some(buffer);
        let params = (stream, size, end.flag());
        let flow = match direction {
            Direction::Request => self.show(stream, |exports| &exports.request_body, params),
            Direction::Response => self.show(stream, |exports| &exports.response_body, params),
        };
        self.after_data(stream, direction, &flow, end);
    }

    fn after_data(&mut self, stream: u32, direction: Direction, flow: &Flow, end: End) {
        let message = self.message(stream, direction);
        match flow {
            Flow::Continue => {
                let buffer = message.buffer.take().unwrap_or_default();
                self.pass_data(stream, direction, &buffer, end);
            }
            Flow::Stop => {
                message.pause = Some(Pause::AtBody);
                message.is_end_waiting |= end == End::Last;
            }
            Flow::Drop => message.buffer = None,
        }
    }

    /// Calls a callback of the stream, and says what the filter wants.
    fn show(
        &mut self,
        stream: u32,
        which: impl FnOnce(&Exports) -> &Callback<(u32, u32, u32), u32>,
        params: (u32, u32, u32),
    ) -> Flow {
        if self.has_failed() {
            self.fail_stream(stream);
            return Flow::Drop;
        }
        let flow = match self.enter(which, stream, params) {
            Entered::Absent => return Flow::Continue,
            Entered::Trapped => {
                self.fail_stream(stream);
                Flow::Drop
            }
            Entered::Returned(code) => match (self.state().stop_iteration, code) {
                (false, 0) => Flow::Continue,
                (false, 1 | 2) => Flow::Stop,
                _ => Flow::Drop,
            },
        };
        self.after_call();
        flow
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

    /// The filter lets a message go on.
    pub(crate) fn resume(&mut self, stream: u32, direction: Direction) {
        if !self.http(stream).is_live {
            return;
        }
        let message = self.message(stream, direction);
        let (pause, is_end_waiting) = (message.pause.take(), message.is_end_waiting);
        let end = if is_end_waiting { End::Last } else { End::More };
        match pause {
            None => {}
            Some(Pause::AtHeaders) => {
                let waiting = std::mem::take(&mut message.waiting);
                if waiting.is_empty() {
                    return self.pass_headers(stream, direction, end);
                }
                self.pass_headers(stream, direction, End::More);
                self.data(stream, direction, &waiting, end);
            }
            Some(Pause::AtBody) => {
                let buffer = message.buffer.take().unwrap_or_default();
                self.pass_data(stream, direction, &buffer, end);
            }
        }
    }

    fn pass_headers(&mut self, stream: u32, direction: Direction, end: End) {
        self.message(stream, direction).have_headers_passed = true;
        self.pass_data(stream, direction, b"", end);
    }

    fn pass_data(&mut self, stream: u32, direction: Direction, data: &[u8], end: End) {
        let message = self.message(stream, direction);
        message.passed.extend(data);
        message.has_passed_end |= end == End::Last;
        if direction == Direction::Response && end == End::Last {
            self.finish(stream);
        }
    }

    /// The client leaves, or the stream is reset.
    pub(crate) fn close(&mut self, stream: u32) {
        self.finish(stream);
    }

    /// Tells the filter, in Envoy's order, that the stream is over.
    fn finish(&mut self, stream: u32) {
        let http = self.http(stream);
        if !std::mem::replace(&mut http.is_live, false) {
            return;
        }
        http.is_logging = true;
        self.call(|exports| &exports.log, stream, (stream,));
        self.http(stream).is_logging = false;
        self.call(|exports| &exports.done, stream, (stream,));
        self.call(|exports| &exports.delete, stream, (stream,));
        self.state_mut().remove_context(stream);
        let http = self.http(stream);
        http.request.are_headers_visible = false;
        http.response.are_headers_visible = false;
    }

    pub(crate) fn http(&mut self, stream: u32) -> &mut HttpStream {
        let streams = &mut self.state_mut().streams;
        streams.get_mut(&stream).expect("a stream of this VM")
    }

    fn message(&mut self, stream: u32, direction: Direction) -> &mut Message {
        self.http(stream).message(direction)
    }
}
