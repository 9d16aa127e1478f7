//! The HTTP filter: translates Envoy's callbacks into calls of [`crate::frame`].

use crate::frame::{self, Stripped, Stripper};
use log::error;
use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, BufferType, ContextType, LogLevel};

const CONTENT_TYPE: &str = "application/grpc";

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|_| Box::new(Bridge));
}}

struct Bridge;

impl Context for Bridge {}

impl RootContext for Bridge {
    fn on_configure(&mut self, configuration_size: usize) -> bool {
        if configuration_size > 0 {
            error!(
                "resp-bridge: the plugin configuration must be empty, there is nothing to configure"
            );
        }
        configuration_size == 0
    }

    fn create_http_context(&self, _context_id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(BridgedStream {
            stripper: Stripper::new(),
            state: BridgeState::Open,
        }))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

struct BridgedStream {
    stripper: Stripper,
    state: BridgeState,
}

#[derive(PartialEq)]
enum BridgeState {
    Open,
    /// Refused or reset: further bytes are dropped.
    Closed,
}

impl BridgedStream {
    fn strip(&mut self, length: usize) -> Result<(), frame::FrameError> {
        if self.stripper.pass(length) {
            return Ok(());
        }
        let chunk = self.get_http_request_body(0, length).unwrap_or_default();
        match self.stripper.strip(&chunk)? {
            Stripped::Unchanged => {}
            Stripped::Front(front) => self.set_http_request_body(0, front, &[]),
            Stripped::Joined(message) => self.set_http_request_body(0, chunk.len(), &message),
        }
        Ok(())
    }

    /// Resets the stream. The peer sees a reset, not an answer: its 200 was sent when the connection to Redis was established.
    fn reset(&mut self, why: &dyn std::fmt::Display) -> Action {
        error!("resp-bridge: stream reset: {why}");
        self.state = BridgeState::Closed;
        self.reset_http_request();
        Action::Pause
    }
}

impl Context for BridgedStream {}

impl HttpContext for BridgedStream {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        let content_type = self.get_http_request_header_bytes("content-type");
        if content_type.is_some_and(|value| value.starts_with(CONTENT_TYPE.as_bytes())) {
            return Action::Continue;
        }
        self.state = BridgeState::Closed;
        self.send_http_response(
            415,
            vec![],
            Some(b"this listener takes gRPC streams only\n"),
        );
        Action::Pause
    }

    fn on_http_request_body(&mut self, length: usize, end_of_stream: bool) -> Action {
        if self.state == BridgeState::Closed {
            return Action::Pause;
        }
        let stripped = self.strip(length);
        let checked = stripped.and_then(|()| {
            if end_of_stream {
                self.stripper.finish()
            } else {
                Ok(())
            }
        });
        match checked {
            Ok(()) => Action::Continue,
            Err(error) => self.reset(&error),
        }
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        if self.state == BridgeState::Open {
            self.set_http_response_header("content-type", Some(CONTENT_TYPE));
        }
        Action::Continue
    }

    fn on_http_response_body(&mut self, length: usize, _end_of_stream: bool) -> Action {
        if length == 0 || self.state == BridgeState::Closed {
            return Action::Continue;
        }
        let Ok(length) = u32::try_from(length) else {
            return self.reset(&"a chunk of the response is longer than a gRPC message can be");
        };
        // A size of 0 puts the header before the chunk and copies nothing else.
        let framed =
            hostcalls::set_buffer(BufferType::HttpResponseBody, 0, 0, &frame::header(length));
        match framed {
            Ok(()) => Action::Continue,
            Err(status) => self.reset(&format_args!("the response cannot be framed: {status:?}")),
        }
    }
}
