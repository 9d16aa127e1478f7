//! Panics, which must not cross the ABI of a module: a proxy cannot handle them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// A panic was caught.
#[derive(Clone, Copy, Debug)]
pub struct Panicked;

/// Number of panics not taken yet.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Number of panics since the last call.
#[must_use]
pub fn take() -> u64 {
    PANICS.swap(0, Ordering::Relaxed)
}

/// Runs `act`; a panic is logged and counted.
///
/// # Errors
/// If it panicked.
#[inline(always)]
pub fn catch<R>(act: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| note(&*panic))
}

#[cold]
fn note(panic: &(dyn Any + Send)) -> Panicked {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    log::error!("edgelink: a panic was caught: {text}");
    Panicked
}

/// Panics in hooks, requested by tests.
#[cfg(feature = "testing")]
pub mod asked {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Set once a hook was armed: until then none takes the lock.
    static IS_USED: AtomicBool = AtomicBool::new(false);

    /// The hook, and a flag to panic on every call.
    static HOOK: Mutex<(String, bool)> = Mutex::new((String::new(), false));

    fn hook() -> std::sync::MutexGuard<'static, (String, bool)> {
        IS_USED.store(true, Ordering::Relaxed);
        HOOK.lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Makes the hook with this name panic on its next call.
    pub fn arm(name: &[u8]) {
        if !name.is_empty() {
            *hook() = (String::from_utf8_lossy(name).into_owned(), false);
        }
    }

    /// Makes the hook panic on every call, until another one is armed.
    pub fn arm_always(name: &str) {
        *hook() = (name.to_owned(), true);
    }

    /// Panics if it is the hook that was armed.
    ///
    /// # Panics
    /// Then.
    #[expect(clippy::panic, reason = "it is what a test asks for")]
    pub fn panic_in(name: &str) {
        if !IS_USED.load(Ordering::Relaxed) {
            return;
        }
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
