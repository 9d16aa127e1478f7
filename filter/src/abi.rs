//! The host calls of proxy-wasm 0.2.1 and WASI that we use, made safe. All `unsafe` code of the filter is here.
//!
//! Pointers passed to the host are to slices that outlive the call; the host reads or writes them before it returns. Values
//! from the host are in our own [`memory`].

mod memory;

pub(crate) use memory::HostBytes;

use std::ptr;

/// `proxy_status_t`: 0 is success, everything else is a failure.
type Status = u32;

const OK: Status = 0;

/// A header map that a callback may read.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Map {
    /// Headers of the current request.
    RequestHeaders = 0,
    /// Headers of the callout that has ended; absent if it ended without an answer.
    CalloutHeaders = 6,
}

/// A buffer that a callback may read.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Buffer {
    /// The body of the current request, as far as it has arrived.
    RequestBody = 0,
    /// The body of the callout that has ended.
    CalloutBody = 4,
    /// The message that has come on a gRPC stream.
    GrpcMessage = 5,
    /// The plugin configuration, while configuring.
    PluginConfiguration = 7,
}

/// `proxy_log_level_t`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Level {
    Warn = 3,
    Error = 4,
}

/// `proxy_metric_type_t`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 2,
}

#[cfg_attr(target_family = "wasm", link(wasm_import_module = "env"))]
unsafe extern "C" {
    fn proxy_log(level: u32, message: *const u8, size: usize) -> Status;
    fn proxy_set_tick_period_milliseconds(period: u32) -> Status;
    fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        length: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> Status;
    fn proxy_get_header_map_value(
        map: u32,
        name: *const u8,
        name_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
    ) -> Status;
    fn proxy_get_property(
        path: *const u8,
        path_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
    ) -> Status;
    fn proxy_set_property(
        path: *const u8,
        path_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> Status;
    fn proxy_get_header_map_pairs(map: u32, pairs: *mut *mut u8, size: *mut usize) -> Status;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> Status;
    fn proxy_http_call(
        cluster: *const u8,
        cluster_size: usize,
        headers: *const u8,
        headers_size: usize,
        body: *const u8,
        body_size: usize,
        trailers: *const u8,
        trailers_size: usize,
        timeout: u32,
        token: *mut u32,
    ) -> Status;
    fn proxy_grpc_stream(
        cluster: *const u8,
        cluster_size: usize,
        service: *const u8,
        service_size: usize,
        method: *const u8,
        method_size: usize,
        metadata: *const u8,
        metadata_size: usize,
        stream: *mut u32,
    ) -> Status;
    fn proxy_grpc_send(
        stream: u32,
        message: *const u8,
        message_size: usize,
        end_of_stream: u32,
    ) -> Status;
    fn proxy_grpc_cancel(stream: u32) -> Status;
    fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        value: *mut *mut u8,
        value_size: *mut usize,
        cas: *mut u32,
    ) -> Status;
    fn proxy_set_shared_data(
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
        cas: u32,
    ) -> Status;
    fn proxy_continue_stream(stream_type: u32) -> Status;
    fn proxy_set_effective_context(context: u32) -> Status;
    fn proxy_define_metric(
        kind: u32,
        name: *const u8,
        name_size: usize,
        metric: *mut u32,
    ) -> Status;
    fn proxy_increment_metric(metric: u32, by: i64) -> Status;
    fn proxy_record_metric(metric: u32, value: u64) -> Status;
}

#[cfg_attr(
    target_family = "wasm",
    link(wasm_import_module = "wasi_snapshot_preview1")
)]
unsafe extern "C" {
    fn clock_time_get(clock: u32, precision: u64, nanos: *mut u64) -> u32;
}

/// `clockid_t` of WASI.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Clock {
    /// The time since 1970.
    Realtime = 0,
    /// The time since some point in the past; it never jumps.
    Monotonic = 1,
}

/// Declares the version of the ABI.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_abi_version_0_2_1() {}

/// Runs the constructors of the C library. The host calls it first, and once.
#[cfg(target_os = "wasi")]
#[unsafe(no_mangle)]
pub(crate) extern "C" fn _initialize() {
    unsafe extern "C" {
        fn __wasm_call_ctors();
    }
    // SAFETY: the linker provides it, it takes no arguments, and this is the only call.
    unsafe { __wasm_call_ctors() };
}

/// Writes to the proxy's log.
pub(crate) fn log(level: Level, message: &str) {
    // SAFETY: the message outlives the call.
    unsafe { proxy_log(level as u32, message.as_ptr(), message.len()) };
}

/// Reads a clock, in nanoseconds.
pub(crate) fn time(clock: Clock) -> u64 {
    let mut nanos = 0;
    // SAFETY: the host writes 8 bytes to a variable of 8 bytes.
    unsafe { clock_time_get(clock as u32, 1, &raw mut nanos) };
    nanos
}

/// Requests a tick every `millis` milliseconds.
pub(crate) fn set_tick_period(millis: u32) {
    // SAFETY: no pointers are passed.
    unsafe { proxy_set_tick_period_milliseconds(millis) };
}

/// The first `length` bytes of a buffer; `None` if there is no such buffer now.
pub(crate) fn buffer(buffer: Buffer, length: usize) -> Option<HostBytes> {
    let (mut data, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the host writes a pointer and a size to variables of those types.
    let status =
        unsafe { proxy_get_buffer_bytes(buffer as u32, 0, length, &raw mut data, &raw mut size) };
    // SAFETY: the host has just allocated and filled it, and returned its address.
    (status == OK).then(|| unsafe { HostBytes::take(data, size) })
}

/// The value of a header; `None` if there is none, or no such map now.
pub(crate) fn header(map: Map, name: &str) -> Option<HostBytes> {
    let (mut data, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the name outlives the call; the host writes a pointer and a size to variables of those types.
    let status = unsafe {
        proxy_get_header_map_value(
            map as u32,
            name.as_ptr(),
            name.len(),
            &raw mut data,
            &raw mut size,
        )
    };
    // SAFETY: the host has just allocated and filled it, and returned its address.
    (status == OK).then(|| unsafe { HostBytes::take(data, size) })
}

/// All headers of a map, as the ABI encodes them; empty if there is no such map now. Inlined, as it is on the hot path.
#[inline(always)]
pub(crate) fn headers(map: Map) -> HostBytes {
    let (mut data, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the host writes a pointer and a size to variables of those types.
    let status = unsafe { proxy_get_header_map_pairs(map as u32, &raw mut data, &raw mut size) };
    if status != OK {
        return HostBytes::default();
    }
    // SAFETY: the host has just allocated and filled it, and returned its address.
    unsafe { HostBytes::take(data, size) }
}

/// A property of the stream of the context in effect, by the words of its path with a zero byte between them. `None` if there is
/// none.
pub(crate) fn property(path: &str) -> Option<HostBytes> {
    let (mut data, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the path outlives the call; the host writes a pointer and a size to variables of those types.
    let status =
        unsafe { proxy_get_property(path.as_ptr(), path.len(), &raw mut data, &raw mut size) };
    // SAFETY: the host has just allocated and filled it, and returned its address.
    (status == OK).then(|| unsafe { HostBytes::take(data, size) })
}

/// Sets a property of the stream of the context in effect, which is filter state of the name `wasm.` and this path.
pub(crate) fn set_property(path: &str, value: &[u8]) {
    // SAFETY: path and value outlive the call.
    unsafe { proxy_set_property(path.as_ptr(), path.len(), value.as_ptr(), value.len()) };
}

/// Answers the request of the context in effect.
pub(crate) fn send_local_response(status: u16, headers: &[u8], body: &[u8]) {
    const NO_GRPC: i32 = -1;
    // SAFETY: headers and body outlive the call; no details are a null pointer of size 0.
    unsafe {
        proxy_send_local_response(
            u32::from(status),
            ptr::null(),
            0,
            body.as_ptr(),
            body.len(),
            headers.as_ptr(),
            headers.len(),
            NO_GRPC,
        )
    };
}

/// Lets the held request of the context in effect continue to the next filter.
pub(crate) fn continue_request() {
    const REQUEST: u32 = 0;
    // SAFETY: no pointers are passed.
    unsafe { proxy_continue_stream(REQUEST) };
}

/// Sends a request for the context in effect, without a body if that is empty. `None` if the proxy refuses, such as
/// without a healthy host.
pub(crate) fn http_call(
    cluster: &str,
    headers: &[u8],
    body: &[u8],
    timeout_millis: u32,
) -> Option<u32> {
    let mut token = 0;
    // An encoded header map without pairs.
    let trailers = [0; 4];
    // SAFETY: cluster, headers, body and trailers outlive the call; the host writes 4 bytes to a variable of 4 bytes.
    let status = unsafe {
        proxy_http_call(
            cluster.as_ptr(),
            cluster.len(),
            headers.as_ptr(),
            headers.len(),
            body.as_ptr(),
            body.len(),
            trailers.as_ptr(),
            trailers.len(),
            timeout_millis,
            &raw mut token,
        )
    };
    (status == OK).then_some(token)
}

/// Opens a gRPC stream for the context in effect. `None` if the proxy refuses, such as without a healthy host.
pub(crate) fn grpc_stream(cluster: &str, service: &str, method: &str) -> Option<u32> {
    let mut stream = 0;
    // An encoded header map without pairs.
    let metadata = [0; 4];
    // SAFETY: all names and the metadata outlive the call; the host writes 4 bytes to a variable of 4 bytes.
    let status = unsafe {
        proxy_grpc_stream(
            cluster.as_ptr(),
            cluster.len(),
            service.as_ptr(),
            service.len(),
            method.as_ptr(),
            method.len(),
            metadata.as_ptr(),
            metadata.len(),
            &raw mut stream,
        )
    };
    (status == OK).then_some(stream)
}

/// Sends a message on a gRPC stream of the context in effect. Returns `false` if the host refuses it.
pub(crate) fn grpc_send(stream: u32, message: &[u8]) -> bool {
    const NOT_THE_LAST: u32 = 0;
    // SAFETY: the message outlives the call.
    unsafe { proxy_grpc_send(stream, message.as_ptr(), message.len(), NOT_THE_LAST) == OK }
}

/// Resets a gRPC stream of the context in effect, and has the host forget it.
pub(crate) fn grpc_cancel(stream: u32) {
    // SAFETY: no pointers are passed.
    unsafe { proxy_grpc_cancel(stream) };
}

/// A value in shared data, and its version.
pub(crate) fn shared_data(key: &str) -> Option<(HostBytes, u32)> {
    let (mut data, mut size, mut cas) = (ptr::null_mut(), 0, 0);
    // SAFETY: the key outlives the call; the host writes a pointer, a size and 4 bytes to variables of those types.
    let status = unsafe {
        proxy_get_shared_data(
            key.as_ptr(),
            key.len(),
            &raw mut data,
            &raw mut size,
            &raw mut cas,
        )
    };
    // SAFETY: the host has just allocated and filled it, and returned its address.
    (status == OK).then(|| (unsafe { HostBytes::take(data, size) }, cas))
}

/// Writes to shared data. Returns `true` on success.
pub(crate) fn set_shared_data(key: &str, value: &[u8], cas: u32) -> bool {
    // SAFETY: key and value outlive the call.
    let status =
        unsafe { proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas) };
    status == OK
}

/// Makes the following host calls in this callback apply to that context. Returns `false` if there is no such context.
pub(crate) fn set_effective_context(context: u32) -> bool {
    // SAFETY: no pointers are passed.
    unsafe { proxy_set_effective_context(context) == OK }
}

/// Defines a metric. `None` if the proxy refuses.
pub(crate) fn define_metric(kind: MetricType, name: &str) -> Option<u32> {
    let mut metric = 0;
    // SAFETY: the name outlives the call; the host writes 4 bytes to a variable of 4 bytes.
    let status =
        unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &raw mut metric) };
    (status == OK).then_some(metric)
}

/// Adds to a counter or a gauge.
pub(crate) fn increment_metric(metric: u32, by: i64) {
    // SAFETY: no pointers are passed.
    unsafe { proxy_increment_metric(metric, by) };
}

/// Puts a value into a histogram.
pub(crate) fn record_metric(metric: u32, value: u64) {
    // SAFETY: no pointers are passed.
    unsafe { proxy_record_metric(metric, value) };
}
