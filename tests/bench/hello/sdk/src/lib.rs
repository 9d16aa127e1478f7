//! The smallest redirect through the Rust SDK of proxy-wasm: what any filter that is written with it costs at least.

#![cfg(target_arch = "wasm32")]
// What the SDK's macro makes.
#![expect(missing_docs)]

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, LogLevel};

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Warn);
    proxy_wasm::set_http_context(|_, _| Box::new(Hello));
}}

struct Hello;

impl Context for Hello {}

impl HttpContext for Hello {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        let headers = vec![("location", "https://example.com/a?b=1")];
        self.send_http_response(302, headers, None);
        Action::Pause
    }
}
