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

/// Runs `act`; a panic is logged, as one in `name`, and counted.
///
/// # Errors
/// If it panicked.
#[inline(always)]
pub fn catch<R>(name: &'static str, act: impl FnOnce() -> R) -> Result<R, Panicked> {
    let act = || {
        #[cfg(feature = "testing")]
        asked::panic_in(name);
        act()
    };
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| note(name, &*panic))
}

#[cold]
fn note(name: &str, panic: &(dyn Any + Send)) -> Panicked {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("no message");
    log::error!("edgelink: a panic was caught in {name}: {text}");
    Panicked
}

/// Panics that tests ask for, in what is run by [`catch`].
#[cfg(feature = "testing")]
pub mod asked {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Set once a name was armed: until then none takes the lock.
    static IS_USED: AtomicBool = AtomicBool::new(false);

    /// The name, and a flag to panic on every call.
    static ARMED: Mutex<(String, bool)> = Mutex::new((String::new(), false));

    fn armed() -> std::sync::MutexGuard<'static, (String, bool)> {
        IS_USED.store(true, Ordering::Relaxed);
        ARMED
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Makes what has this name panic on its next call.
    pub fn arm(name: &[u8]) {
        if !name.is_empty() {
            *armed() = (String::from_utf8_lossy(name).into_owned(), false);
        }
    }

    /// Makes it panic on every call, until another name is armed.
    pub fn arm_always(name: &str) {
        *armed() = (name.to_owned(), true);
    }

    /// Panics if it is the name that was armed.
    ///
    /// # Panics
    /// Then.
    #[expect(clippy::panic, reason = "it is what a test asks for")]
    pub fn panic_in(name: &str) {
        if !IS_USED.load(Ordering::Relaxed) {
            return;
        }
        let mut armed = armed();
        if armed.0 == name {
            if !armed.1 {
                armed.0.clear();
            }
            drop(armed);
            panic!("asked for");
        }
    }
}
