//! Memory that all workers share, and that outlives reloads: metrics, places of the feed, and slots with records of links.
//!
//! nginx passes the memory on from cycle to cycle, as long as its size is the same and the same file of the module is loaded.

use super::{ERROR, OK};
use crate::metrics::SharedMetrics;
use crate::slots::{FeedSlots, SharedSlot};
use nginx_sys::{
    ngx_conf_t, ngx_int_t, ngx_pagesize, ngx_shared_memory_add, ngx_shm_zone_t, ngx_slab_alloc,
    ngx_slab_pool_t, ngx_str_t,
};
use std::ffi::c_void;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a zone without the directive.
pub(super) const DEFAULT_SIZE: usize = 32 << 20;
/// The smallest zone.
pub(super) const MIN_SIZE: usize = 1 << 20;
pub(super) const TOO_SMALL: &str = "must be at least 1m";

/// The beginning of the memory, followed by the slots.
#[repr(C, align(512))]
struct ZoneMemory {
    metrics: SharedMetrics,
    feeds: FeedSlots,
    slots: AtomicU64,
}

/// The zone of a cycle.
#[derive(Clone, Copy)]
pub(crate) struct Zone(*mut ngx_shm_zone_t);

impl Zone {
    /// Adds it to a configuration; `None` if nginx refuses.
    ///
    /// # Safety
    /// It must be the configuration that is being read.
    pub(super) unsafe fn add(cf: *mut ngx_conf_t, size: usize, tag: *mut c_void) -> Option<Self> {
        let name = b"edgelink";
        let mut name = ngx_str_t {
            len: name.len(),
            data: name.as_ptr().cast_mut(),
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            let zone = ngx_shared_memory_add(cf, &raw mut name, size, tag);
            if zone.is_null() {
                return None;
            }
            (*zone).init = Some(begin);
            Some(Self(zone))
        }
    }

    fn shared(self) -> &'static ZoneMemory {
        // SAFETY: nginx has begun the zone before any worker, and it lives as long as they do. All of it is atomic.
        unsafe { &*(*self.0).data.cast() }
    }

    /// The metrics.
    pub(crate) fn metrics(self) -> &'static SharedMetrics {
        &self.shared().metrics
    }

    /// The slots for places of the feed.
    pub(crate) fn feeds(self) -> &'static FeedSlots {
        &self.shared().feeds
    }

    /// The slots.
    pub(crate) fn slots(self) -> &'static [SharedSlot] {
        let shared = self.shared();
        let count = usize::try_from(shared.slots.load(Ordering::Relaxed)).unwrap_or_default();
        // SAFETY: `begin` has counted the slots that there is room for, and memory of zeros is one of empty slots.
        unsafe {
            let first = std::ptr::from_ref(shared).add(1).cast();
            slice::from_raw_parts(first, count)
        }
    }
}

/// The memory is there: that of the previous cycle, `before`, if there is one.
unsafe extern "C" fn begin(zone: *mut ngx_shm_zone_t, before: *mut c_void) -> ngx_int_t {
    // SAFETY: nginx has made a slab pool at its beginning, or passes what this has put there for the previous cycle. Fresh memory is
    // of zeros, and the pool touches no pages that it gives away.
    unsafe {
        if !before.is_null() {
            (*zone).data = before;
            return OK;
        }
        let pool: *mut ngx_slab_pool_t = (*zone).shm.addr.cast();
        let size = (*pool).pfree * ngx_pagesize;
        let shared: *mut ZoneMemory = ngx_slab_alloc(pool, size).cast();
        let slots = size.checked_sub(size_of::<ZoneMemory>());
        let Some(slots) = slots.filter(|_| !shared.is_null() && shared.is_aligned()) else {
            return ERROR;
        };
        let slots = (slots / size_of::<SharedSlot>()) as u64;
        (*shared).slots.store(slots, Ordering::Relaxed);
        (*zone).data = shared.cast();
        OK
    }
}
