//! Whether it is this replica that publishes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether it is this replica that publishes, for others that work only there. Two replicas may both think so for a moment:
/// what they do has to be harmless twice.
#[derive(Clone, Debug, Default)]
pub struct Leadership(Arc<AtomicBool>);

impl Leadership {
    pub(super) fn set(&self, is_ours: bool) {
        self.0.store(is_ours, Ordering::Relaxed);
    }

    /// Whether it is this one.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
