//! The raw hostcalls: numbers in, a status out. Addresses are numbers too, so that invalid ones can be passed.

/// Declares hostcalls; parameters are `u32` unless given another type.
macro_rules! hostcalls {
    ($module:literal; $($name:ident($($arg:ident $(: $ty:ty)?),* $(,)?);)*) => {
        #[link(wasm_import_module = $module)]
        unsafe extern "C" {
            $(pub(crate) safe fn $name($($arg: hostcalls!(@ $($ty)?)),*) -> u32;)*
        }
    };
    (@) => { u32 };
    (@ $ty:ty) => { $ty };
}

hostcalls! { "env";
    proxy_log(level, data, size);
    proxy_set_tick_period_milliseconds(period);
    proxy_get_header_map_value(map, key, key_size, value, value_size);
    proxy_replace_header_map_value(map, key, key_size, value, value_size);
    proxy_get_header_map_pairs(map, data, size);
    proxy_get_property(path, path_size, value, value_size);
    proxy_set_property(path, path_size, value, value_size);
    proxy_get_buffer_bytes(buffer, start, length, data, size);
    proxy_set_buffer_bytes(buffer, start, length, data, size);
    proxy_http_call(
        cluster, cluster_size, headers, headers_size, body, body_size, trailers, trailers_size, timeout, token,
    );
    proxy_grpc_stream(
        service, service_size, name, name_size, method, method_size, metadata, metadata_size, token,
    );
    proxy_grpc_send(token, message, message_size, end_of_stream);
    proxy_grpc_cancel(token);
    proxy_send_local_response(
        status, details, details_size, body, body_size, headers, headers_size, grpc_status,
    );
    proxy_get_shared_data(key, key_size, value, value_size, cas);
    proxy_set_shared_data(key, key_size, value, value_size, cas);
    proxy_define_metric(kind, name, name_size, id);
    proxy_increment_metric(id, offset: i64);
    proxy_record_metric(id, value: u64);
    proxy_set_effective_context(context);
    proxy_close_stream(stream);
    proxy_done();
}

hostcalls! { "wasi_snapshot_preview1";
    fd_write(fd, vectors, count, written);
    environ_get(environ, buffer);
    environ_sizes_get(count, size);
    clock_time_get(clock, precision: u64, time);
    random_get(buffer, size);
}

/// An invalid address in any memory: an access there is refused whatever its length.
pub(crate) const NOWHERE: u32 = 0xffff_fff0;

/// Address of a value, as the host sees it.
pub(crate) fn address<T: ?Sized>(of: &T) -> u32 {
    (&raw const *of).cast::<u8>().expose_provenance() as u32
}

/// Length of bytes, as the host sees it.
pub(crate) fn size(of: &[u8]) -> u32 {
    of.len() as u32
}

/// Eight words for results of the host.
pub(crate) struct Out(Box<[u32; 8]>);

impl Out {
    /// Fills the words with a value that no hostcall writes.
    pub(crate) fn new() -> Self {
        Self(Box::new([0xdead_beef; 8]))
    }

    /// The address of the word at `index`.
    pub(crate) fn at(&mut self, index: usize) -> u32 {
        (&raw mut self.0[index]).expose_provenance() as u32
    }

    /// The word at `index`, as left by the host.
    pub(crate) fn word(&self, index: usize) -> u32 {
        // SAFETY: the word is ours and initialised; the read is volatile because the host writes behind the compiler's
        // back.
        unsafe { (&raw const self.0[index]).read_volatile() }
    }

    /// Takes the bytes at the address and size in words 0 and 1: memory that the host got from
    /// `proxy_on_memory_allocate`, and that is now ours.
    pub(crate) fn take(&self) -> Vec<u8> {
        let (data, size) = (self.word(0) as usize, self.word(1) as usize);
        if data == 0 {
            return Vec::new();
        }
        // SAFETY: the host allocated exactly `size` bytes there through `proxy_on_memory_allocate`, which made them as
        // the capacity of a `Vec<u8>`, has filled them, and forgets them.
        unsafe { Vec::from_raw_parts(std::ptr::with_exposed_provenance_mut(data), size, size) }
    }
}

/// Hands memory of the module to the host.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    let mut memory = Vec::<u8>::with_capacity(size);
    let address = memory.as_mut_ptr();
    std::mem::forget(memory);
    _ = address.expose_provenance();
    address
}

/// Encodes pairs for hostcalls: count, lengths, and the strings, each followed by a NUL.
pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = (pairs.len() as u32).to_le_bytes().to_vec();
    for (name, value) in pairs {
        out.extend((name.len() as u32).to_le_bytes());
        out.extend((value.len() as u32).to_le_bytes());
    }
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        out.extend(text.as_bytes());
        out.push(0);
    }
    out
}

/// Decodes pairs from hostcalls.
pub(crate) fn read_pairs(data: &[u8]) -> Vec<(String, String)> {
    let word = |at: usize| {
        let bytes = data
            .get(at..at + 4)
            .map_or([0; 4], |b| [b[0], b[1], b[2], b[3]]);
        u32::from_le_bytes(bytes) as usize
    };
    let count = if data.is_empty() { 0 } else { word(0) };
    let mut at = 4 + 8 * count;
    let mut text = |size: usize| {
        let text = String::from_utf8_lossy(&data[at..at + size]).into_owned();
        at += size + 1;
        text
    };
    (0..count)
        .map(|index| (text(word(4 + 8 * index)), text(word(8 + 8 * index))))
        .collect()
}
