//! Safe bindings to Envoy's ABI of dynamic modules. The functions that Envoy exports are in this file; the functions that Envoy
//! calls are in [`crate::hooks`].
//!
//! The used part is declared by hand after `source/extensions/dynamic_modules/abi/abi.h` of Envoy 1.40. Arguments are slices that
//! live for the call. Results are owned by Envoy and valid until the hook returns, which the lifetime `'h` stands for.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

use edgelink_filter_core::request::Headers;
use edgelink_process::{Wake, Waker};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// The version of the ABI, that of Envoy 1.40. Envoy warns if its own differs.
pub(crate) const VERSION: &std::ffi::CStr = c"v0.2.0";

/// An object owned by Envoy.
pub(crate) type Object = *mut c_void;

/// Bytes owned by the module or by Envoy.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Buffer {
    start: *const u8,
    pub(crate) length: usize,
}

impl Buffer {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr(),
            length: bytes.len(),
        }
    }

    pub(crate) const EMPTY: Self = Self {
        start: ptr::null(),
        length: 0,
    };

    /// # Safety
    /// The bytes must be valid for `'h`.
    pub(crate) unsafe fn bytes<'h>(self) -> &'h [u8] {
        if self.start.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// A header owned by the module or by Envoy.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub(crate) name: Buffer,
    pub(crate) value: Buffer,
}

/// A header passed to Envoy.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct EnvoyHeader<'a>(RawHeader, PhantomData<&'a [u8]>);

impl<'a> EnvoyHeader<'a> {
    pub(crate) const EMPTY: Self = Self(
        RawHeader {
            name: Buffer::EMPTY,
            value: Buffer::EMPTY,
        },
        PhantomData,
    );

    pub(crate) fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        let (name, value) = (Buffer::of(name), Buffer::of(value));
        Self(RawHeader { name, value }, PhantomData)
    }
}

/// The headers of a request, in the array that Envoy has written.
#[derive(Clone, Copy)]
pub(crate) struct RequestHeaders<'h>(&'h [RawHeader]);

impl RequestHeaders<'_> {
    #[inline(always)]
    fn pair(header: &RawHeader) -> (&[u8], &[u8]) {
        // SAFETY: Envoy keeps the buffers until the hook returns, for which it has lent the array.
        unsafe { (header.name.bytes(), header.value.bytes()) }
    }
}

impl Headers for RequestHeaders<'_> {
    #[inline(always)]
    fn get(&self, name: &str) -> &[u8] {
        let mut pairs = self.0.iter().map(Self::pair);
        let found = pairs.find(|(found, _)| *found == name.as_bytes());
        found.map_or(&[], |(_, value)| value)
    }

    #[inline(always)]
    fn each<'h>(&'h self, lengths: u64, mut found: impl FnMut(&'h [u8], &'h [u8])) {
        for header in self.0 {
            if lengths.wrapping_shr(header.name.length as u32) & 1 != 0 {
                let (name, value) = Self::pair(header);
                found(name, value);
            }
        }
    }
}

/// `envoy_dynamic_module_type_log_level`.
#[derive(Clone, Copy)]
#[repr(u32)]
enum LogLevel {
    Warn = 3,
    Error = 4,
}

/// `envoy_dynamic_module_type_http_body_type`, as far as it is used.
#[derive(Clone, Copy)]
#[repr(u32)]
enum BodyType {
    Received = 0,
    Buffered = 1,
}

/// `envoy_dynamic_module_type_http_header_type_RequestHeader`.
const REQUEST_HEADERS: u32 = 0;

/// `envoy_dynamic_module_type_attribute_id_SourceAddress`.
const SOURCE_ADDRESS: u32 = 24;

/// The zero of every result enum.
const SUCCESS: u32 = 0;

#[rustfmt::skip]
unsafe extern "C" {
    fn envoy_dynamic_module_callback_log(level: u32, message: Buffer);
    pub(crate) fn envoy_dynamic_module_callback_is_validation_mode() -> bool;
    pub(crate) fn envoy_dynamic_module_callback_get_concurrency() -> u32;
    fn envoy_dynamic_module_callback_http_get_headers_size(filter: Object, kind: u32) -> usize;
    fn envoy_dynamic_module_callback_http_get_headers(filter: Object, kind: u32, out: *mut RawHeader) -> bool;
    fn envoy_dynamic_module_callback_http_get_header(filter: Object, kind: u32, name: Buffer, out: *mut Buffer, index: usize, count: *mut usize) -> bool;
    fn envoy_dynamic_module_callback_http_send_response(filter: Object, status: u32, headers: *const RawHeader, count: usize, body: Buffer, details: Buffer);
    fn envoy_dynamic_module_callback_http_filter_continue_decoding(filter: Object);
    fn envoy_dynamic_module_callback_http_received_buffered_request_body(filter: Object) -> bool;
    fn envoy_dynamic_module_callback_http_get_body_size(filter: Object, body: u32) -> usize;
    fn envoy_dynamic_module_callback_http_get_body_chunks_size(filter: Object, body: u32) -> usize;
    fn envoy_dynamic_module_callback_http_get_body_chunks(filter: Object, body: u32, out: *mut Buffer) -> bool;
    fn envoy_dynamic_module_callback_http_set_dynamic_metadata_string(filter: Object, namespace: Buffer, key: Buffer, value: Buffer);
    fn envoy_dynamic_module_callback_http_filter_get_attribute_string(filter: Object, attribute: u32, out: *mut Buffer) -> bool;
    pub(crate) fn envoy_dynamic_module_callback_get_most_specific_route_config(filter: Object) -> *const c_void;
    fn envoy_dynamic_module_callback_http_filter_scheduler_new(filter: Object) -> Object;
    fn envoy_dynamic_module_callback_http_filter_scheduler_commit(scheduler: Object, event: u64);
    fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: Object);
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(config: Object) -> Object;
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(scheduler: Object, event: u64);
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(scheduler: Object);
    fn envoy_dynamic_module_callback_http_filter_config_define_counter(config: Object, name: Buffer, labels: *const Buffer, count: usize, id: *mut usize) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_define_gauge(config: Object, name: Buffer, labels: *const Buffer, count: usize, id: *mut usize) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_define_histogram(config: Object, name: Buffer, labels: *const Buffer, count: usize, id: *mut usize) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_increment_counter(config: Object, id: usize, labels: *const Buffer, count: usize, by: u64) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_increment_gauge(config: Object, id: usize, labels: *const Buffer, count: usize, by: u64) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_decrement_gauge(config: Object, id: usize, labels: *const Buffer, count: usize, by: u64) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_set_gauge(config: Object, id: usize, labels: *const Buffer, count: usize, to: u64) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_record_histogram_value(config: Object, id: usize, labels: *const Buffer, count: usize, value: u64) -> u32;
}

/// Writes to Envoy's log, from any thread.
pub(crate) fn log(level: log::Level, message: &str) {
    let level = match level {
        log::Level::Error => LogLevel::Error,
        _ => LogLevel::Warn,
    };
    // SAFETY: the message lives for the call. Envoy's loggers take messages from any thread.
    unsafe { envoy_dynamic_module_callback_log(level as u32, Buffer::of(message.as_bytes())) }
}

/// A request at Envoy, while a hook for it runs.
#[derive(Clone, Copy)]
pub(crate) struct Filter<'h>(pub(crate) Object, pub(crate) PhantomData<&'h ()>);

impl<'h> Filter<'h> {
    /// Lends the headers of the request.
    #[inline(always)]
    pub(crate) fn with_headers<R>(self, act: impl FnOnce(RequestHeaders<'_>) -> R) -> R {
        // SAFETY: it is the request of the running hook.
        let count =
            unsafe { envoy_dynamic_module_callback_http_get_headers_size(self.0, REQUEST_HEADERS) };
        with_room(count, |room| {
            // SAFETY: there is room for the number reported by Envoy.
            let are_there = unsafe {
                let out = room.as_mut_ptr().cast();
                envoy_dynamic_module_callback_http_get_headers(self.0, REQUEST_HEADERS, out)
            };
            let headers = if are_there {
                // SAFETY: Envoy has written all of them.
                unsafe { room.assume_init_ref() }
            } else {
                &[]
            };
            act(RequestHeaders(headers))
        })
    }

    /// The first value of a header of the request; empty without one.
    pub(crate) fn header(self, name: &str) -> &'h [u8] {
        let mut value = Buffer::EMPTY;
        let name = Buffer::of(name.as_bytes());
        // SAFETY: it is the request of the running hook, and its headers do not change before the hook returns.
        unsafe {
            envoy_dynamic_module_callback_http_get_header(
                self.0,
                REQUEST_HEADERS,
                name,
                &raw mut value,
                0,
                ptr::null_mut(),
            );
            value.bytes()
        }
    }

    /// Answers the request. Envoy may end the stream, and call the hooks for that, before this returns.
    pub(crate) fn send_response(
        self,
        status: u16,
        headers: &[EnvoyHeader<'_>],
        body: &[u8],
        details: &str,
    ) {
        // SAFETY: all arguments live for the call; `EnvoyHeader` is a transparent `RawHeader`.
        unsafe {
            envoy_dynamic_module_callback_http_send_response(
                self.0,
                u32::from(status),
                headers.as_ptr().cast(),
                headers.len(),
                Buffer::of(body),
                Buffer::of(details.as_bytes()),
            );
        }
    }

    /// Continues a waiting request with the next filter.
    pub(crate) fn continue_decoding(self) {
        // SAFETY: it is the request of the running hook.
        unsafe { envoy_dynamic_module_callback_http_filter_continue_decoding(self.0) }
    }

    /// The parts of the body: the buffered one and the received one, or only one of them if a previous filter has buffered the body
    /// and both are identical.
    fn body_parts(self) -> impl Iterator<Item = BodyType> {
        // SAFETY: it is the request of the running hook.
        let is_same =
            unsafe { envoy_dynamic_module_callback_http_received_buffered_request_body(self.0) };
        let received = (!is_same).then_some(BodyType::Received);
        [BodyType::Buffered].into_iter().chain(received)
    }

    /// Length of the body so far, including the part passed to the hook.
    pub(crate) fn body_length(self) -> usize {
        self.body_parts()
            // SAFETY: it is the request of the running hook.
            .map(|body| unsafe {
                envoy_dynamic_module_callback_http_get_body_size(self.0, body as u32)
            })
            .sum()
    }

    /// The body received so far, at most `limit` bytes of it.
    pub(crate) fn body(self, limit: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for body in self.body_parts() {
            // SAFETY: it is the request of the running hook.
            let count = unsafe {
                envoy_dynamic_module_callback_http_get_body_chunks_size(self.0, body as u32)
            };
            let mut chunks = vec![Buffer::EMPTY; count];
            // SAFETY: there is room for the number reported by Envoy, and the chunks are valid until the hook returns.
            unsafe {
                let out = chunks.as_mut_ptr();
                if envoy_dynamic_module_callback_http_get_body_chunks(self.0, body as u32, out) {
                    chunks
                        .into_iter()
                        .for_each(|chunk| bytes.extend_from_slice(chunk.bytes()));
                }
            }
        }
        bytes.truncate(limit);
        bytes
    }

    /// Sets the dynamic metadata `edgelink:{key}` of the request.
    pub(crate) fn set_metadata(self, key: &str, value: &[u8]) {
        let [namespace, key, value] = [b"edgelink", key.as_bytes(), value].map(Buffer::of);
        // SAFETY: all arguments live for the call.
        unsafe {
            envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
                self.0, namespace, key, value,
            );
        }
    }

    /// The address of the client as determined by Envoy, with its port; empty if there is none.
    pub(crate) fn client_address(self) -> &'h [u8] {
        let mut address = Buffer::EMPTY;
        // SAFETY: it is the request of the running hook, and its connection lives as long.
        unsafe {
            envoy_dynamic_module_callback_http_filter_get_attribute_string(
                self.0,
                SOURCE_ADDRESS,
                &raw mut address,
            );
            address.bytes()
        }
    }

    /// A scheduler that wakes the request.
    pub(crate) fn scheduler(self) -> Scheduler {
        // SAFETY: it is the request of the running hook.
        Scheduler(unsafe { envoy_dynamic_module_callback_http_filter_scheduler_new(self.0) })
    }
}

/// Schedules the event hook of a request on the thread of its worker. Events for requests that have ended are dropped.
pub(crate) struct Scheduler(Object);

// SAFETY: Envoy accepts events from any thread; schedulers exist for that.
unsafe impl Send for Scheduler {}

impl Waker for Scheduler {
    fn wake(&self, to: Wake) {
        // SAFETY: it has not been deleted.
        unsafe { envoy_dynamic_module_callback_http_filter_scheduler_commit(self.0, to as u64) }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // SAFETY: it is deleted once.
        unsafe { envoy_dynamic_module_callback_http_filter_scheduler_delete(self.0) }
    }
}

/// A configuration at Envoy, while a hook for it runs on the main thread.
#[derive(Clone, Copy)]
pub(crate) struct Configuration<'h>(pub(crate) Object, pub(crate) PhantomData<&'h ()>);

/// A kind of metric.
#[derive(Clone, Copy)]
pub(crate) enum StatKind {
    Counter,
    Gauge,
    Histogram,
}

impl Configuration<'_> {
    /// A scheduler that wakes the main thread.
    pub(crate) fn scheduler(self) -> MainScheduler {
        // SAFETY: it is the configuration of the running hook.
        let scheduler =
            unsafe { envoy_dynamic_module_callback_http_filter_config_scheduler_new(self.0) };
        MainScheduler(scheduler)
    }

    /// Defines a metric with these labels, while a configuration begins; `None` if Envoy refuses.
    pub(crate) fn define(self, kind: StatKind, name: &str, labels: &[&str]) -> Option<usize> {
        let define = match kind {
            StatKind::Counter => envoy_dynamic_module_callback_http_filter_config_define_counter,
            StatKind::Gauge => envoy_dynamic_module_callback_http_filter_config_define_gauge,
            StatKind::Histogram => {
                envoy_dynamic_module_callback_http_filter_config_define_histogram
            }
        };
        let mut id = 0;
        let labels: Vec<_> = labels
            .iter()
            .map(|label| Buffer::of(label.as_bytes()))
            .collect();
        let (labels, count) = pointer(&labels);
        let name = Buffer::of(name.as_bytes());
        // SAFETY: all arguments live for the call.
        let result = unsafe { define(self.0, name, labels, count, &raw mut id) };
        (result == SUCCESS).then_some(id)
    }

    /// Adds to a counter or a gauge; negative values are for gauges.
    pub(crate) fn add(self, kind: StatKind, id: usize, labels: &[String], by: i64) {
        let change = match kind {
            StatKind::Counter => envoy_dynamic_module_callback_http_filter_config_increment_counter,
            StatKind::Gauge if by < 0 => {
                envoy_dynamic_module_callback_http_filter_config_decrement_gauge
            }
            _ => envoy_dynamic_module_callback_http_filter_config_increment_gauge,
        };
        self.change(change, id, labels, by.unsigned_abs());
    }

    /// Sets a gauge.
    pub(crate) fn set(self, id: usize, value: u64) {
        let change = envoy_dynamic_module_callback_http_filter_config_set_gauge;
        self.change(change, id, &[], value);
    }

    /// Records a value in a histogram.
    pub(crate) fn record(self, id: usize, labels: &[String], value: u64) {
        let change = envoy_dynamic_module_callback_http_filter_config_record_histogram_value;
        self.change(change, id, labels, value);
    }

    fn change(
        self,
        change: unsafe extern "C" fn(Object, usize, *const Buffer, usize, u64) -> u32,
        id: usize,
        labels: &[String],
        value: u64,
    ) {
        let labels: Vec<_> = labels
            .iter()
            .map(|label| Buffer::of(label.as_bytes()))
            .collect();
        let (labels, count) = pointer(&labels);
        // SAFETY: all arguments live for the call.
        unsafe { change(self.0, id, labels, count, value) };
    }
}

/// Schedules the event hook of a configuration on the main thread.
pub(crate) struct MainScheduler(Object);

// SAFETY: Envoy accepts events from any thread; schedulers exist for that.
unsafe impl Send for MainScheduler {}

impl MainScheduler {
    pub(crate) fn wake(&self) {
        // SAFETY: it has not been deleted.
        unsafe { envoy_dynamic_module_callback_http_filter_config_scheduler_commit(self.0, 0) }
    }
}

impl Drop for MainScheduler {
    fn drop(&mut self) {
        // SAFETY: it is deleted once.
        unsafe { envoy_dynamic_module_callback_http_filter_config_scheduler_delete(self.0) }
    }
}

fn pointer(labels: &[Buffer]) -> (*const Buffer, usize) {
    match labels {
        [] => (ptr::null(), 0),
        labels => (labels.as_ptr(), labels.len()),
    }
}

/// Provides a buffer for `count` headers, on the stack unless they are many.
#[inline(always)]
fn with_room<R>(count: usize, act: impl FnOnce(&mut [MaybeUninit<RawHeader>]) -> R) -> R {
    const FEW: usize = 32;
    const ROOM: MaybeUninit<RawHeader> = MaybeUninit::uninit();
    match [ROOM; FEW].get_mut(..count) {
        Some(few) => act(few),
        None => act(&mut vec![ROOM; count]),
    }
}
