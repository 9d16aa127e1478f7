//! Panics, which may not cross the ABI: Envoy is not made for them.

use crate::abi::{self, Level};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// There was a panic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panicked;

/// All panics so far.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Panics since this was last called.
pub(crate) fn take() -> u64 {
    PANICS.swap(0, Ordering::Relaxed)
}

/// Does it; a panic is logged and counted.
#[inline(always)]
pub(crate) fn catch<R>(act: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| note(&*panic))
}

#[cold]
fn note(panic: &(dyn Any + Send)) -> Panicked {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("of no message");
    abi::log(
        Level::Error,
        &format!("edgelink: a panic was caught: {text}"),
    );
    Panicked
}

/// Panics if a test has asked for a panic in that hook.
#[cfg(test)]
pub(crate) mod asked {
    use std::sync::Mutex;

    /// The hook, and whether it is to panic each time.
    static HOOK: Mutex<(String, bool)> = Mutex::new((String::new(), false));

    /// The header of a request with the hook that is to panic when it is called next.
    pub(crate) const HEADER: &str = "x-edgelink-panic";

    fn hook() -> std::sync::MutexGuard<'static, (String, bool)> {
        HOOK.lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Has the hook of that name panic when it is called next.
    pub(crate) fn arm(name: &[u8]) {
        if !name.is_empty() {
            *hook() = (String::from_utf8_lossy(name).into_owned(), false);
        }
    }

    /// Has it panic each time, until another one is armed.
    pub(crate) fn arm_always(name: &str) {
        *hook() = (name.to_owned(), true);
    }

    #[expect(clippy::panic, reason = "it is what a test asks for")]
    pub(crate) fn panic_in(name: &str) {
        let mut hook = hook();
        if hook.0 == name {
            if !hook.1 {
                hook.0.clear();
            }
            drop(hook);
            panic!("asked for");
        }
    }
}
