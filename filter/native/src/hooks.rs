//! The hooks: functions called by Envoy. Each catches panics. Hooks that Envoy requires and the module does not need do nothing.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

use crate::abi::{self, Buffer, Configuration, Filter, Object, RawHeader, Scheduler, VERSION};
use crate::main_thread::{self, Config};
use crate::routes;
use edgelink_process::Wake;
use edgelink_process::panics::{self, Panicked};
use edgelink_process::routes::RouteConfig;
use edgelink_process::stream::{Flow, Stream};
use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::rc::Rc;

/// `Continue`, of headers, body and trailers.
const CONTINUE: u32 = 0;

const FLUSH: u64 = Wake::Flush as u64;

/// The module was loaded.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    let _counted = panics::catch("program_init", main_thread::begin_program);
    VERSION.as_ptr()
}

/// A configuration begins. Null refuses it.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    envoy: Object,
    name: Buffer,
    json: Buffer,
) -> *const c_void {
    let (is_validated, workers) = {
        // SAFETY: both may be called on the main thread, on which this hook runs.
        unsafe {
            (
                abi::envoy_dynamic_module_callback_is_validation_mode(),
                abi::envoy_dynamic_module_callback_get_concurrency(),
            )
        }
    };
    let begun = panics::catch("config_new", || {
        // SAFETY: both are valid until the hook returns.
        let (name, json) = unsafe { (name.bytes(), json.bytes()) };
        let envoy = Configuration(envoy, PhantomData);
        main_thread::begin(envoy, name, json, (is_validated, workers))
    });
    match begun {
        Ok(Some(config)) => Box::into_raw(Box::new(config)).cast_const().cast(),
        Ok(None) | Err(Panicked) => ptr::null(),
    }
}

/// A configuration ends. It has no requests any more.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(config: *const c_void) {
    // SAFETY: it was created by the hook above, and Envoy destroys it once.
    let config: Box<Config> = unsafe { Box::from_raw(config.cast_mut().cast()) };
    let _counted = panics::catch("config_destroy", || main_thread::end(&config));
}

/// The configuration of a route begins. Null refuses it.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_new(
    _name: Buffer,
    json: Buffer,
) -> *const c_void {
    let begun = panics::catch("per_route_config_new", || {
        // SAFETY: the text is valid until the hook returns.
        main_thread::begin_route(unsafe { json.bytes() })
    });
    match begun {
        Ok(Some(route)) => {
            let route = Box::into_raw(Box::new(route));
            routes::begin(route.addr());
            route.cast_const().cast()
        }
        Ok(None) | Err(Panicked) => ptr::null(),
    }
}

/// The configuration of a route ends.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_destroy(route: *const c_void) {
    routes::end(route.addr());
    // SAFETY: it was created by the hook above, and Envoy destroys it once.
    let route: Box<RouteConfig> = unsafe { Box::from_raw(route.cast_mut().cast()) };
    let _counted = panics::catch("per_route_config_destroy", || {
        main_thread::end_route(&route);
    });
}

/// The main thread was woken.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(
    envoy: Object,
    config: *const c_void,
    _event: u64,
) {
    // SAFETY: Envoy calls this only while the configuration exists.
    let config: &Config = unsafe { &*config.cast() };
    let _counted = panics::catch("config_scheduled", || {
        main_thread::scheduled(Configuration(envoy, PhantomData), config);
    });
}

/// A request begins.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_new(
    config: *const c_void,
    _filter: Object,
) -> *const c_void {
    // SAFETY: a configuration outlives its requests.
    let config: &Config = unsafe { &*config.cast() };
    let new = || Rc::new(Stream::new(config.process, config.root));
    let stream = panics::catch("new", new);
    // A request survives a panic here: the edge is not involved before the next hook.
    let stream = stream.unwrap_or_else(|_| new());
    Rc::into_raw(stream).cast()
}

/// # Safety
/// It must have been created by the hook above and not destroyed yet.
unsafe fn borrow(stream: *const c_void) -> Rc<Stream<Scheduler>> {
    let stream = stream.cast();
    // SAFETY: guaranteed by the caller. The hook may end the stream, so it holds a reference beside Envoy's.
    unsafe {
        Rc::<Stream<Scheduler>>::increment_strong_count(stream);
        Rc::from_raw(stream)
    }
}

/// The configuration of a route belongs to another module.
struct OfAnother;

/// The configuration of a request's route, if it has one.
fn route_of(filter: Filter<'_>) -> Result<Option<&RouteConfig>, OfAnother> {
    // SAFETY: it is the request of the running hook.
    let route =
        unsafe { abi::envoy_dynamic_module_callback_get_most_specific_route_config(filter.0) };
    if route.is_null() {
        return Ok(None);
    }
    if !routes::is_ours(route.addr()) {
        return Err(OfAnother);
    }
    // SAFETY: it was created by the hook for new configurations, and Envoy keeps it until the running hook returns.
    Ok(Some(unsafe { &*route.cast() }))
}

/// `envoy_dynamic_module_type_on_http_filter_request_headers_status`.
fn flow_of_headers(flow: Flow) -> u32 {
    match flow {
        Flow::Continue => CONTINUE,
        Flow::Hold => 1,
        // StopAllIterationAndWatermark
        Flow::Pause => 4,
    }
}

/// The status of the hooks for body (`StopIterationAndBuffer`) and trailers (`StopIteration`).
fn flow_of_rest(flow: Flow) -> u32 {
    match flow {
        Flow::Continue => CONTINUE,
        Flow::Hold | Flow::Pause => 1,
    }
}

/// The headers of a request have arrived.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    filter: Object,
    stream: *const c_void,
    _is_all: bool,
) -> u32 {
    // SAFETY: the request has not ended.
    let stream = unsafe { borrow(stream) };
    let filter = Filter(filter, PhantomData);
    let flow = panics::catch("request_headers", || {
        if !routes::were_there() {
            return stream.on_headers(&filter, None);
        }
        match route_of(filter) {
            Ok(route) => stream.on_headers(&filter, route),
            Err(OfAnother) => Flow::Continue,
        }
    });
    flow_of_headers(flow.unwrap_or_else(|_| stream.on_panic(&filter)))
}

/// A part of the body of a request has arrived.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_request_body(
    filter: Object,
    stream: *const c_void,
    is_all: bool,
) -> u32 {
    // SAFETY: the request has not ended.
    let stream = unsafe { borrow(stream) };
    let filter = Filter(filter, PhantomData);
    let flow = panics::catch("request_body", || stream.on_body(&filter, is_all));
    flow_of_rest(flow.unwrap_or_else(|_| stream.on_panic(&filter)))
}

/// The trailers of a request have arrived, behind its body.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_request_trailers(
    filter: Object,
    stream: *const c_void,
) -> u32 {
    // SAFETY: the request has not ended.
    let stream = unsafe { borrow(stream) };
    let filter = Filter(filter, PhantomData);
    let flow = panics::catch("request_trailers", || stream.on_trailers(&filter));
    flow_of_rest(flow.unwrap_or_else(|_| stream.on_panic(&filter)))
}

/// A waiting request was woken.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(
    filter: Object,
    stream: *const c_void,
    event: u64,
) {
    // SAFETY: the request has not ended.
    let stream = unsafe { borrow(stream) };
    let filter = Filter(filter, PhantomData);
    let to = match event {
        FLUSH => Wake::Flush,
        _ => Wake::Event,
    };
    let woken = panics::catch("scheduled", || stream.on_woken(&filter, to));
    if woken.is_err() {
        let _: Flow = stream.on_panic(&filter);
    }
}

/// A request has ended, answered or not. Its access log is written next.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(
    _filter: Object,
    _stream: *const c_void,
) {
}

/// Envoy destroys a request.
#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_destroy(stream: *const c_void) {
    // SAFETY: it was created by the hook for new requests, and Envoy destroys it once.
    let stream = unsafe { Rc::<Stream<Scheduler>>::from_raw(stream.cast()) };
    let _counted = panics::catch("destroy", || stream.on_end());
}

/// Hooks that Envoy requires and that continue.
macro_rules! passing {
    ($($name:ident($($argument:ty),*);)+) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> u32 {
            CONTINUE
        }
    )+};
}

passing! {
    envoy_dynamic_module_on_http_filter_response_headers(Object, *const c_void, bool);
    envoy_dynamic_module_on_http_filter_response_body(Object, *const c_void, bool);
    envoy_dynamic_module_on_http_filter_response_trailers(Object, *const c_void);
}

/// Hooks that Envoy requires for features the module does not use.
macro_rules! unused {
    ($($name:ident($($argument:ty),*);)+) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) {}
    )+};
}

unused! {
    envoy_dynamic_module_on_http_filter_config_http_callout_done(Object, *const c_void, u64, u32, *const RawHeader, usize, *const Buffer, usize);
    envoy_dynamic_module_on_http_filter_http_callout_done(Object, *const c_void, u64, u32, *const RawHeader, usize, *const Buffer, usize);
    envoy_dynamic_module_on_http_filter_http_stream_headers(Object, *const c_void, u64, *const RawHeader, usize, bool);
    envoy_dynamic_module_on_http_filter_http_stream_data(Object, *const c_void, u64, *const Buffer, usize, bool);
    envoy_dynamic_module_on_http_filter_http_stream_trailers(Object, *const c_void, u64, *const RawHeader, usize);
    envoy_dynamic_module_on_http_filter_http_stream_complete(Object, *const c_void, u64);
    envoy_dynamic_module_on_http_filter_http_stream_reset(Object, *const c_void, u64, u32);
    envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(Object, *const c_void);
    envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(Object, *const c_void);
}

#[cfg(test)]
mod tests;
