//! All that nginx calls, and all calls into nginx: directives ([`conf`]), requests ([`request`]), wakes ([`wake`]), variables, shared memory
//! ([`zone`]), and the edges of a worker process ([`worker`]).

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod conf;
mod request;
mod variables;
mod wake;
mod worker;
mod zone;

use nginx_sys::ngx_int_t;

pub(crate) const OK: ngx_int_t = 0;
pub(crate) const ERROR: ngx_int_t = -1;
pub(crate) const DONE: ngx_int_t = -4;
pub(crate) const DECLINED: ngx_int_t = -5;
