//! Disk space of the files of imports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes on disk of all files of imports of this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<AtomicU64>);

/// Bytes that are reserved until this is dropped.
#[derive(Debug)]
pub(super) struct DiskShare {
    disk: Disk,
    bytes: u64,
}

impl Disk {
    /// A share without bytes.
    pub(super) fn share(&self) -> DiskShare {
        DiskShare {
            disk: self.clone(),
            bytes: 0,
        }
    }
}

impl DiskShare {
    /// Size of the share in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Resizes the share to `bytes`. Returns false, and leaves it as it is, if it would grow and all shares together exceed `most`.
    pub(super) fn resize(&mut self, bytes: u64, most: u64) -> bool {
        let old = self.bytes;
        let resized = self
            .disk
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |all| {
                let all = all - old + bytes;
                (bytes <= old || all <= most).then_some(all)
            });
        if resized.is_ok() {
            self.bytes = bytes;
        }
        resized.is_ok()
    }
}

impl Drop for DiskShare {
    fn drop(&mut self) {
        self.disk.0.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_share_when_the_bound_is_reached_stops_growing() {
        let disk = Disk::default();
        let (mut one, mut other) = (disk.share(), disk.share());
        assert!(one.resize(60, 100) && other.resize(40, 100));
        assert!(!other.resize(41, 100));
        assert_eq!((one.bytes(), other.bytes()), (60, 40));
        // A share may shrink even if the bound has become lower.
        assert!(one.resize(50, 10));
        assert!(!other.resize(51, 100) && other.resize(50, 100));
        drop(one);
        assert!(other.resize(100, 100));
        drop(other);
        assert_eq!(disk.0.load(Ordering::Acquire), 0);
    }
}
