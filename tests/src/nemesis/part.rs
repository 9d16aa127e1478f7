//! A process of the deployment, which faults kill, stop and restart.

use super::clock::MovableClock;
use crate::scenario::Request;
use crate::stack::{Connection, Process, Signal};
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

const PROBE_LIMIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Test for readiness of a part.
#[derive(Clone, Copy, Debug)]
pub(super) enum Probe {
    /// A GET is answered with 200.
    Http(SocketAddr, &'static str),
    /// Each connection is greeted.
    MariaDb(u16),
    /// PING is answered.
    Redis(u16),
}

/// A process of the deployment.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) clock: MovableClock,
    probe: Probe,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    folder: PathBuf,
    is_wanted: AtomicBool,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    process: Option<Process>,
    starts: u64,
}

impl Part {
    /// Creates a part that is not running yet. Its log is in `folder`.
    pub(super) fn new(
        name: &str,
        folder: &Path,
        probe: Probe,
        command: impl Fn() -> Command + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            clock: MovableClock::of(folder, name),
            probe,
            command: Box::new(command),
            folder: folder.to_owned(),
            is_wanted: AtomicBool::new(false),
            running: Mutex::default(),
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join(format!("{}.pid", self.name))
    }

    /// Starts it, unless it is running.
    pub(super) fn start(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
        let mut running = self.running();
        self.start_if_ended(&mut running);
    }

    /// Restarts it if it exited on its own; returns whether it had.
    pub(super) fn supervise(&self) -> bool {
        let mut running = self.running();
        self.is_wanted.load(Ordering::Relaxed) && self.start_if_ended(&mut running)
    }

    fn start_if_ended(&self, running: &mut Running) -> bool {
        if running.process.as_mut().is_some_and(Process::is_running) {
            return false;
        }
        let mut command = (self.command)();
        self.clock.apply(&mut command);
        let log = self.folder.join(format!("{}.log", self.name));
        let process = Process::start(&self.name, command, log).with_children();
        fs::write(self.pid_file(), process.id().to_string()).expect("a file");
        running.process = Some(process);
        running.starts += 1;
        true
    }

    /// Number of its starts.
    pub(super) fn starts(&self) -> u64 {
        self.running().starts
    }

    /// `kill -9`.
    pub(super) fn kill(&self) {
        self.is_wanted.store(false, Ordering::Relaxed);
        let mut running = self.running();
        // Its pid may soon be reused.
        let _ = fs::remove_file(self.pid_file());
        if let Some(mut process) = running.process.take() {
            process.kill();
        }
    }

    /// Asks it to end, and waits until it has; kills it after `limit`.
    pub(super) async fn terminate(&self, limit: Duration) {
        self.is_wanted.store(false, Ordering::Relaxed);
        self.signal(Signal::TERM);
        let ended = timeout(limit, async {
            while self
                .running()
                .process
                .as_mut()
                .is_some_and(Process::is_running)
            {
                tokio::time::sleep(PAUSE).await;
            }
        });
        let _ = ended.await; // killed if it has not
        self.kill();
    }

    /// Sends a signal, if it is running.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(process) = &mut self.running().process
            && process.is_running()
        {
            process.signal(signal);
        }
    }

    /// Waits until it serves, at most for `limit`; returns whether it does.
    pub(super) async fn await_ready(&self, limit: Duration) -> bool {
        let ready = timeout(limit, async {
            while !self.is_ready().await {
                tokio::time::sleep(PAUSE).await;
            }
        });
        ready.await.is_ok()
    }

    /// True if it serves.
    pub(super) async fn is_ready(&self) -> bool {
        match self.probe {
            Probe::Http(address, path) => {
                let answer = timeout(PROBE_LIMIT, get(address, path)).await;
                matches!(answer, Ok(Ok(answer)) if answer.status == 200)
            }
            Probe::MariaDb(port) => tokio::task::spawn_blocking(move || is_greeting(port))
                .await
                .unwrap_or(false),
            Probe::Redis(port) => {
                super::deployment::redis_cli(port, &["PING"]).await.trim() == "PONG"
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a GET over a new connection.
pub(super) async fn get(
    address: SocketAddr,
    path: &str,
) -> std::io::Result<crate::scenario::Answer> {
    let mut connection = Connection::open(address).await?;
    connection.exchange(&Request::get(path), b"").await
}

fn is_greeting(port: u16) -> bool {
    let greeting = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(PROBE_LIMIT))?;
        stream.read_exact(&mut [0])
    });
    greeting.is_ok()
}
