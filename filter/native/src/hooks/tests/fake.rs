//! A fake of Envoy: its exported functions, and objects that record the calls on them.
//!
//! It is as strict as Envoy: memory of destroyed objects must not be used, which AddressSanitizer detects.

use crate::abi::{Buffer, Object, RawHeader};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A request at Envoy.
#[derive(Default)]
pub(super) struct Request {
    pub(super) headers: Vec<(String, Vec<u8>)>,
    /// The part buffered by the module, and the part passed to the current hook.
    pub(super) body: [Vec<u8>; 2],
    /// True if a previous filter has buffered the body, so that the received part is the buffered one.
    pub(super) is_buffered_before: bool,
    pub(super) answer: Option<Answer>,
    pub(super) goes_on: bool,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) route: usize,
    /// Number of wakes for which the hook was not called yet.
    pub(super) woken: AtomicUsize,
    /// Number of such wakes for a flush, behind the requests its worker had at hand.
    pub(super) flushes: AtomicUsize,
    /// The stream that ends with the answer.
    pub(super) stream: Option<usize>,
}

/// The answer to a visitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u32,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
    pub(super) details: String,
}

/// A configuration at Envoy.
#[derive(Default)]
pub(super) struct Plugin {
    pub(super) woken: AtomicUsize,
    pub(super) names: Mutex<Vec<String>>,
    pub(super) metrics: Mutex<BTreeMap<String, i64>>,
}

/// The log lines of the module.
pub(super) static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Schedulers that were made and not deleted.
pub(super) static SCHEDULERS: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// It must be a request of this file, held by a test that waits for the module.
unsafe fn request<'r>(filter: Object) -> &'r mut Request {
    // SAFETY: guaranteed by the caller.
    unsafe { &mut *filter.cast() }
}

/// # Safety
/// It must be a configuration of this file that has not ended.
unsafe fn plugin<'p>(config: Object) -> &'p Plugin {
    // SAFETY: guaranteed by the caller.
    unsafe { &*config.cast() }
}

/// # Safety
/// It must be valid.
unsafe fn text(buffer: Buffer) -> String {
    // SAFETY: guaranteed by the caller.
    String::from_utf8_lossy(unsafe { buffer.bytes() }).into_owned()
}

/// # Safety
/// They must be valid.
unsafe fn map(headers: *const RawHeader, count: usize) -> BTreeMap<String, String> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let headers = slice(headers, count).iter();
        let headers = headers.map(|header| (text(header.name), text(header.value)));
        headers.collect()
    }
}

/// # Safety
/// The elements must be valid for `'h`.
unsafe fn slice<'h, T>(start: *const T, count: usize) -> &'h [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(start, count) }
}

fn label_text(name: &str, labels: &[Buffer]) -> String {
    // SAFETY: they are valid for the call.
    let labels = labels.iter().map(|label| unsafe { text(*label) });
    [name.to_owned()]
        .into_iter()
        .chain(labels)
        .collect::<Vec<_>>()
        .join("|")
}

macro_rules! exports {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? $body:block)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) $(-> $result)? {
            // SAFETY: the module must pass valid arguments; these tests verify that.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )+};
}

exports! {
    fn envoy_dynamic_module_callback_log(_level: u32, message: Buffer) {
        LOG.lock().unwrap().push(text(message));
    }
    fn envoy_dynamic_module_callback_is_validation_mode() -> bool {
        false
    }
    fn envoy_dynamic_module_callback_get_concurrency() -> u32 {
        1
    }
    fn envoy_dynamic_module_callback_http_get_headers_size(filter: Object, _kind: u32) -> usize {
        request(filter).headers.len()
    }
    fn envoy_dynamic_module_callback_http_get_headers(filter: Object, _kind: u32, out: *mut RawHeader) -> bool {
        for (place, (name, value)) in request(filter).headers.iter().enumerate() {
            let header = RawHeader { name: Buffer::of(name.as_bytes()), value: Buffer::of(value) };
            out.add(place).write(header);
        }
        true
    }
    fn envoy_dynamic_module_callback_http_get_header(filter: Object, _kind: u32, name: Buffer, out: *mut Buffer, _index: usize, _count: *mut usize) -> bool {
        let name = text(name);
        let found = request(filter).headers.iter().find(|(found, _)| *found == name);
        out.write(found.map_or(Buffer::EMPTY, |(_, value)| Buffer::of(value)));
        found.is_some()
    }
    fn envoy_dynamic_module_callback_http_send_response(filter: Object, status: u32, headers: *const RawHeader, count: usize, body: Buffer, details: Buffer) {
        let answer = Answer { status, headers: map(headers, count), body: text(body), details: text(details) };
        let request = request(filter);
        assert!(request.answer.is_none(), "answered twice");
        request.answer = Some(answer);
        // Envoy may end the stream before this returns.
        if let Some(stream) = request.stream.take() {
            super::super::envoy_dynamic_module_on_http_filter_destroy(stream as *const c_void);
        }
    }
    fn envoy_dynamic_module_callback_http_filter_continue_decoding(filter: Object) {
        request(filter).goes_on = true;
    }
    fn envoy_dynamic_module_callback_http_received_buffered_request_body(filter: Object) -> bool {
        request(filter).is_buffered_before
    }
    fn envoy_dynamic_module_callback_http_get_body_size(filter: Object, body: u32) -> usize {
        request(filter).body[1 - body as usize].len()
    }
    fn envoy_dynamic_module_callback_http_get_body_chunks_size(filter: Object, body: u32) -> usize {
        request(filter).body[1 - body as usize].chunks(7).count()
    }
    fn envoy_dynamic_module_callback_http_get_body_chunks(filter: Object, body: u32, out: *mut Buffer) -> bool {
        for (place, chunk) in request(filter).body[1 - body as usize].chunks(7).enumerate() {
            out.add(place).write(Buffer::of(chunk));
        }
        true
    }
    fn envoy_dynamic_module_callback_http_set_dynamic_metadata_string(filter: Object, namespace: Buffer, key: Buffer, value: Buffer) {
        assert_eq!(text(namespace), "edgelink");
        request(filter).metadata.insert(text(key), text(value));
    }
    fn envoy_dynamic_module_callback_http_filter_get_attribute_string(_filter: Object, attribute: u32, out: *mut Buffer) -> bool {
        assert_eq!(attribute, 24);
        out.write(Buffer::of(b"192.0.2.1:4711"));
        true
    }
    fn envoy_dynamic_module_callback_get_most_specific_route_config(filter: Object) -> *const c_void {
        request(filter).route as *const c_void
    }
    fn envoy_dynamic_module_callback_http_filter_scheduler_new(filter: Object) -> Object {
        SCHEDULERS.fetch_add(1, Ordering::Relaxed);
        Box::into_raw(Box::new(filter)).cast()
    }
    fn envoy_dynamic_module_callback_http_filter_scheduler_commit(scheduler: Object, event: u64) {
        let filter: Object = *scheduler.cast();
        let request = filter.cast::<Request>();
        let count = match event {
            super::FLUSH => &(*request).flushes,
            _ => &(*request).woken,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
    fn envoy_dynamic_module_callback_http_filter_scheduler_delete(scheduler: Object) {
        SCHEDULERS.fetch_sub(1, Ordering::Relaxed);
        drop(Box::<Object>::from_raw(scheduler.cast()));
    }
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(config: Object) -> Object {
        Box::into_raw(Box::new(config)).cast()
    }
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(scheduler: Object, _event: u64) {
        let config: Object = *scheduler.cast();
        plugin(config).woken.fetch_add(1, Ordering::Relaxed);
    }
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(scheduler: Object) {
        drop(Box::<Object>::from_raw(scheduler.cast()));
    }
    fn envoy_dynamic_module_callback_http_filter_config_define_counter(config: Object, name: Buffer, labels: *const Buffer, count: usize, id: *mut usize) -> u32 {
        let mut names = plugin(config).names.lock().unwrap();
        id.write(names.len());
        names.push(format!("{}/{}", text(name), slice(labels, count).len()));
        0
    }
    fn envoy_dynamic_module_callback_http_filter_config_define_gauge(config: Object, name: Buffer, labels: *const Buffer, count: usize, id: *mut usize) -> u32 {
        envoy_dynamic_module_callback_http_filter_config_define_counter(config, name, labels, count, id)
    }
    fn envoy_dynamic_module_callback_http_filter_config_define_histogram(config: Object, name: Buffer, labels: *const Buffer, count: usize, id: *mut usize) -> u32 {
        envoy_dynamic_module_callback_http_filter_config_define_counter(config, name, labels, count, id)
    }
    fn envoy_dynamic_module_callback_http_filter_config_increment_counter(config: Object, id: usize, labels: *const Buffer, count: usize, by: u64) -> u32 {
        let plugin = plugin(config);
        let labels = slice(labels, count);
        let name = plugin.names.lock().unwrap()[id].clone();
        let (name, labels_of_name) = name.rsplit_once('/').unwrap();
        assert_eq!(labels_of_name, labels.len().to_string());
        *plugin.metrics.lock().unwrap().entry(label_text(name, labels)).or_default() += by as i64;
        0
    }
    fn envoy_dynamic_module_callback_http_filter_config_increment_gauge(config: Object, id: usize, labels: *const Buffer, count: usize, by: u64) -> u32 {
        envoy_dynamic_module_callback_http_filter_config_increment_counter(config, id, labels, count, by)
    }
    fn envoy_dynamic_module_callback_http_filter_config_decrement_gauge(config: Object, id: usize, labels: *const Buffer, count: usize, by: u64) -> u32 {
        envoy_dynamic_module_callback_http_filter_config_increment_counter(config, id, labels, count, by.wrapping_neg())
    }
    fn envoy_dynamic_module_callback_http_filter_config_set_gauge(config: Object, id: usize, labels: *const Buffer, count: usize, to: u64) -> u32 {
        let plugin = plugin(config);
        let name = plugin.names.lock().unwrap()[id].clone();
        let (name, _) = name.rsplit_once('/').unwrap();
        let name = label_text(name, slice(labels, count));
        plugin.metrics.lock().unwrap().insert(name, to as i64);
        0
    }
    fn envoy_dynamic_module_callback_http_filter_config_record_histogram_value(config: Object, id: usize, labels: *const Buffer, count: usize, _value: u64) -> u32 {
        envoy_dynamic_module_callback_http_filter_config_increment_counter(config, id, labels, count, 1)
    }
}
