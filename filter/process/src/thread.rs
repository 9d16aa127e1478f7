//! The thread of the module, for all that waits.

use crate::system;
use std::future::Future;
use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// The thread of the module; `None` if the system cannot create it.
static RUNTIME: LazyLock<Option<Handle>> = LazyLock::new(|| {
    let begun = begin_runtime();
    if let Err(error) = &begun {
        log::error!("edgelink: failed to start the module's thread: {error}");
    }
    begun.ok()
});

/// The thread, and the way to end it.
static THREAD: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>> = Mutex::new(None);

fn begin_runtime() -> io::Result<Handle> {
    let (end, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    let run = move || {
        // If it preempted a worker between two requests, the thread would find one answer of Redis instead of many a moment later.
        if let Err(error) = system::run_as_batch() {
            log::warn!(
                "edgelink: failed to set SCHED_BATCH; the module's thread may preempt workers: {error}"
            );
        }
        let _sent_or_dropped = runtime.block_on(ended);
        // Resolving a name may take longer than the process lives.
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new()
        .name("edgelink".to_owned())
        .spawn(run)?;
    *THREAD.lock().unwrap_or_else(PoisonError::into_inner) = Some((end, thread));
    Ok(handle)
}

/// Ends the thread, and waits for its end: a host may then free what the thread logs to. Nothing runs on it any more.
pub fn end_thread() {
    let thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((end, thread)) = thread {
        let _is_gone = end.send(());
        let _panicked = thread.join();
    }
}

/// Logs a message unless it is the last one again: repeated attempts fail for the same reason.
pub(crate) fn warn_once(message: String) {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if *last != message {
        log::warn!("{message}");
        *last = message;
    }
}

/// Runs the task on the thread of the module.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
    let task = RUNTIME.as_ref()?.spawn(task);
    Some(task.abort_handle())
}
