//! A process that is killed with its handle.

use super::until;
use rustix::process::{Pid, kill_process};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub use rustix::process::Signal;

/// Longest time for a process to become ready, or to end when asked to. It is generous for machines that also run builds.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest time for a process to end when it is dropped.
const TERM_LIMIT: Duration = Duration::from_secs(2);
const LINES_SHOWN: usize = 40;

/// A running program.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// True if it is killed with its child processes.
    has_children: bool,
}

impl Process {
    /// Starts it, with its output appended to the file `log`.
    #[must_use]
    pub fn start(name: &str, mut command: Command, log: PathBuf) -> Self {
        let file = File::options().create(true).append(true).open(&log);
        let output = file.expect("a log file");
        let errors = output.try_clone().expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = child
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log,
            has_children: false,
        }
    }

    /// Has its child processes killed and stopped with it.
    #[must_use]
    pub fn with_children(mut self) -> Self {
        self.has_children = true;
        self
    }

    /// The process ids of its child processes.
    #[must_use]
    pub fn children(&self) -> Vec<u32> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let ids = children.split_ascii_whitespace();
        ids.filter_map(|id| id.parse().ok()).collect()
    }

    /// The process ids of it and its child processes.
    #[must_use]
    pub fn family(&self) -> Vec<u32> {
        std::iter::once(self.id()).chain(self.children()).collect()
    }

    /// Waits until `is_ready` returns true.
    ///
    /// # Panics
    /// Panics if the process ends first, or is not ready in time; the log is shown.
    pub async fn await_ready(&mut self, mut is_ready: impl AsyncFnMut() -> bool) {
        until(&format!("{} is ready", self.name), LIMIT, async || {
            self.assert_running();
            is_ready().await.then_some(())
        })
        .await;
    }

    /// Asserts that the process is running.
    ///
    /// # Panics
    /// Panics if it has ended; the log is shown.
    pub fn assert_running(&mut self) {
        let ended = self.child.try_wait().expect("the state of a child");
        assert!(ended.is_none(), "{} ended: {ended:?}", self.name);
    }

    /// True if it has not ended yet.
    ///
    /// # Panics
    /// Does not panic for a child.
    pub fn is_running(&mut self) -> bool {
        let ended = self.child.try_wait().expect("the state of a child");
        ended.is_none()
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. After [`Signal::STOP`] all of its threads are stopped; that and [`Signal::CONT`] go to its child processes as well if
    /// they are killed with it.
    ///
    /// # Panics
    /// Panics if there is no such process, or it does not stop.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        if signal == Signal::STOP {
            self.await_stopped(self.child.id());
        }
        if self.has_children && (signal == Signal::STOP || signal == Signal::CONT) {
            self.signal_children(signal);
        }
    }

    /// Sends a signal to its child processes, as far as they still are there.
    fn signal_children(&self, signal: Signal) {
        for child in self.children() {
            let pid = Pid::from_raw(i32::try_from(child).unwrap_or_default());
            let sent = pid.map(|pid| kill_process(pid, signal));
            if signal == Signal::STOP && matches!(sent, Some(Ok(()))) {
                self.await_stopped(child);
            }
        }
    }

    fn await_stopped(&self, process: u32) {
        let start = Instant::now();
        while !is_stopped(process) {
            assert!(start.elapsed() < LIMIT, "{} does not stop", self.name);
            std::thread::yield_now();
        }
    }

    /// Kills it at once (`kill -9`).
    pub fn kill(&mut self) {
        // One that is stopped starts no others meanwhile.
        if self.has_children && self.is_running() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::STOP);
            self.signal_children(Signal::KILL);
        }
        let _ = self.child.kill(); // fails if it has already ended
        let _ = self.child.wait();
    }

    /// Asks it to end, and returns its exit status.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.await_end().await
    }

    /// Waits for its end, and returns its exit status.
    pub async fn await_end(&mut self) -> ExitStatus {
        until(&format!("{} ends", self.name), LIMIT, async || {
            self.child.try_wait().expect("the state of a child")
        })
        .await
    }

    /// Asks it to end and gives it time to do so: it may have to end its own child processes.
    fn try_to_terminate(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM); // fails if it has already ended
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < TERM_LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Output so far.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

/// True if all threads of a process are stopped, or it has ended.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    // The state follows the name, which is in parentheses and may contain some: see proc(5).
    let is_working = |stat: &str| {
        let state = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.trim_start().chars().next());
        !matches!(state, Some('T' | 't' | 'X' | 'Z'))
    };
    let stats =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    !stats.into_iter().any(|stat| is_working(&stat))
}

impl Drop for Process {
    fn drop(&mut self) {
        self.try_to_terminate();
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
            eprintln!(
                "--- {}, the end of its log:\n{}",
                self.name,
                shown.join("\n")
            );
        }
    }
}

/// Resident memory of a process, in bytes.
///
/// # Panics
/// Panics if there is no such process.
#[must_use]
pub fn resident_bytes(process: u32) -> u64 {
    status_of(process, "VmRSS:") * 1024
}

/// Number of threads of a process.
///
/// # Panics
/// Panics if there is no such process.
#[must_use]
pub fn thread_count(process: u32) -> u64 {
    status_of(process, "Threads:")
}

/// Number of open file descriptors of a process.
///
/// # Panics
/// Panics if there is no such process.
#[must_use]
pub fn descriptor_count(process: u32) -> u64 {
    let open = fs::read_dir(format!("/proc/{process}/fd"));
    open.expect("a process").count() as u64
}

/// Number in a line of `/proc/PID/status`.
fn status_of(process: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    let number = number.and_then(|number| number.parse().ok());
    number.expect("a number")
}
