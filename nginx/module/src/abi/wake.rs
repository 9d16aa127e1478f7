//! Wakes: other threads have the event loop of a worker go on with requests that wait.
//!
//! The loop polls an eventfd as if it were a connection. `ngx_notify` has one handler, which thread pools of nginx take, and
//! `ngx_post_event` takes no lock; that one serves where a wake comes from the loop itself.

use super::{ERROR, OK, request, worker};
use edgelink_process::{Wake, Waker, panics};
use nginx_sys::{
    ngx_close_connection, ngx_connection_t, ngx_cycle_t, ngx_event_actions, ngx_event_t,
    ngx_get_connection, ngx_int_t, ngx_post_event, ngx_posted_events,
};
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::ptr::{addr_of, addr_of_mut, null_mut};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, ptr};

/// The eventfd of this process; -1 without one.
static EVENT_FD: AtomicI32 = AtomicI32::new(-1);
static CONNECTION: AtomicPtr<ngx_connection_t> = AtomicPtr::new(null_mut());
/// Requests to be woken, by their numbers.
static WOKEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static HAS_METRICS: AtomicBool = AtomicBool::new(false);
/// Posted for [`FLUSHES`].
static mut FLUSH: ngx_event_t = {
    // SAFETY: zeros are an event that is nowhere.
    unsafe { mem::zeroed() }
};

thread_local! {
    static IS_LOOP: Cell<bool> = const { Cell::new(false) };
    /// Requests to be woken once those at hand are decided.
    static FLUSHES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Wakes a request by its number.
pub(crate) struct LoopWaker(pub(super) u64);

impl Waker for LoopWaker {
    fn wake(&self, to: Wake) {
        match to {
            Wake::Flush if IS_LOOP.get() => {
                FLUSHES.with_borrow_mut(|flushes| flushes.push(self.0));
                // SAFETY: this is the thread of the loop, and the event lives as long as the process.
                unsafe { ngx_post_event(addr_of_mut!(FLUSH), addr_of_mut!(ngx_posted_events)) };
            }
            // A flush is asked for by the thread that decides requests, which is the loop.
            Wake::Flush | Wake::Event => {
                let is_first = {
                    let mut woken = woken();
                    woken.push(self.0);
                    woken.len() == 1
                };
                if is_first {
                    ring();
                }
            }
        }
    }
}

fn woken() -> MutexGuard<'static, Vec<u64>> {
    WOKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the loop take metrics.
pub(crate) fn offer_metrics() {
    if !HAS_METRICS.swap(true, Ordering::AcqRel) {
        ring();
    }
}

/// Wakes the loop.
fn ring() {
    let fd = EVENT_FD.load(Ordering::Acquire);
    let one = 1u64;
    // SAFETY: the eventfd is closed after the thread of the module has ended. It takes eight bytes, and only fails if it is full,
    // in which case the loop wakes anyway.
    unsafe { libc::write(fd, (&raw const one).cast(), size_of::<u64>()) };
}

/// Waits until there are metrics to take, for `limit` at most, while the loop does not run.
pub(crate) fn await_metrics(limit: Duration) {
    let mut polled = libc::pollfd {
        fd: EVENT_FD.load(Ordering::Acquire),
        events: libc::POLLIN,
        revents: 0,
    };
    let millis = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: it is one descriptor, which lives for the call.
    unsafe { libc::poll(&raw mut polled, 1, millis) };
    drain(polled.fd);
    HAS_METRICS.store(false, Ordering::Release);
}

fn drain(fd: RawFd) {
    let mut count = 0u64;
    // SAFETY: the eventfd gives eight bytes, or nothing.
    unsafe { libc::read(fd, (&raw mut count).cast(), size_of::<u64>()) };
}

/// A worker process begins.
///
/// # Safety
/// It must be called on the thread of its loop, with its cycle.
pub(super) unsafe fn begin(cycle: *mut ngx_cycle_t) -> ngx_int_t {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
        if fd < 0 {
            return ERROR;
        }
        let connection = ngx_get_connection(fd, (*cycle).log);
        if connection.is_null() {
            libc::close(fd);
            return ERROR;
        }
        let read = (*connection).read;
        (*read).handler = Some(on_rung);
        (*read).log = (*cycle).log;
        // It is no connection of a client: else nginx would report it as left open at the end of the worker, and close it early.
        (*read).set_channel(1);
        // NGX_READ_EVENT and NGX_CLEAR_EVENT of epoll, macros of macros that bindings leave out.
        let (event, flags) = (libc::EPOLLIN | libc::EPOLLRDHUP, libc::EPOLLET as u32);
        let add = (*addr_of!(ngx_event_actions)).add;
        if add.is_none_or(|add| add(read, event as isize, flags as usize) != OK) {
            ngx_close_connection(connection);
            return ERROR;
        }
        let flush = addr_of_mut!(FLUSH);
        (*flush).handler = Some(on_flush);
        (*flush).log = (*cycle).log;
        (*flush).data = connection.cast(); // the debug log reads it
        CONNECTION.store(connection, Ordering::Release);
        EVENT_FD.store(fd, Ordering::Release);
        IS_LOOP.set(true);
        OK
    }
}

/// It ends, after the thread of the module.
pub(super) fn end() {
    EVENT_FD.store(-1, Ordering::Release);
    let connection = CONNECTION.swap(null_mut(), Ordering::AcqRel);
    if !connection.is_null() {
        // SAFETY: it is that of `begin`, and closed once, which closes the eventfd.
        unsafe { ngx_close_connection(connection) };
    }
}

/// Runs `act`, which begins threads, without signals: those are for the thread of the loop.
pub(super) fn without_signals<R>(act: impl FnOnce() -> R) -> R {
    // SAFETY: both sets live for the calls, which change the mask of this thread only.
    unsafe {
        let mut all = mem::zeroed();
        let mut before = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let done = act();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        done
    }
}

/// The loop was woken by another thread.
unsafe extern "C" fn on_rung(event: *mut ngx_event_t) {
    // SAFETY: the event is that of the connection of `begin`.
    let fd = unsafe { (*(*event).data.cast::<ngx_connection_t>()).fd };
    // Before the numbers are taken: one that comes later rings again.
    drain(fd);
    let numbers = mem::take(&mut *woken());
    for number in numbers {
        request::wake(number, Wake::Event);
    }
    if HAS_METRICS.swap(false, Ordering::AcqRel) {
        let _counted = panics::catch("take_metrics", worker::take_metrics);
    }
}

/// The loop has decided the requests at hand.
unsafe extern "C" fn on_flush(_: *mut ngx_event_t) {
    let numbers = FLUSHES.take();
    for number in numbers {
        request::wake(number, Wake::Flush);
    }
}
