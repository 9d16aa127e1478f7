//! A proxy-wasm module that misuses the hostcalls that our modules make, and reports the host's answers.
//!
//! It is not built on an SDK, because an SDK would not let it. The request's path selects the action:
//!
//! | path | what happens |
//! |---|---|
//! | `/run/{case}` | the case runs in the request headers callback; the report is the body of a local response |
//! | `/callout/{cluster}/{peer path}` | a callout is made from the stream; the report of its callback is the answer |
//! | `/grpc/{cluster}/{method}` | as above, with a gRPC stream, which is reported when it is closed |
//! | `/response/{case}` | the request passes through; the case runs in the response headers callback; `x-report` |
//! | `/pause` | the request is paused for ever |
//! | `/abandon/{cluster}/{peer path}` | a callout is made, and the stream paused for ever |
//! | `/close` | the request is reset |
//! | `/twice` | two local responses from one callback |
//! | `/trap` | a trap |
//! | `/journal` | the callbacks since the last `/journal`, one a line |
//! | anything else | passes through |

#![cfg(target_arch = "wasm32")]

mod abi;
mod callbacks;
mod cases;
mod probe;
mod report;
