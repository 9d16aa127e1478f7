//! Private servers for tests: each in a temporary folder, on free ports, removed when the test ends.

mod clickhouse;
mod galera;
mod mariadb;
mod redis;
mod sentinel;
mod zookeeper;

use crate::stack::{Process, Signal, free_port};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub use clickhouse::ClickHouseServer;
pub use galera::GaleraCluster;
pub use mariadb::MariaDb;
pub use redis::{RedisCluster, RedisServer};
pub use sentinel::RedisSentinel;
pub use zookeeper::ZooKeeper;

/// Common part of all private servers: a process, its port, and its folder, whose file `pid` holds the process id.
#[derive(Debug)]
pub struct PrivateServer {
    process: Process,
    folder: PathBuf,
    port: u16,
    // The last field: the folder is removed when the server is dropped.
    _keeper: Keeper,
}

impl PrivateServer {
    /// Launches a server in a new folder, on a free port.
    fn start(name: &str, launch: impl FnOnce(&Path, u16) -> Process) -> Self {
        let prefix = format!("edgelink-{name}-");
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir();
        let folder = folder.expect("a temporary folder").keep();
        let keeper = Keeper::of(&folder);
        let port = free_port();
        Self {
            process: launch(&folder, port),
            folder,
            port,
            _keeper: keeper,
        }
    }

    /// Launches the server again in its folder, on its port, killing it first if it is still running.
    fn relaunch(&mut self, launch: impl FnOnce(&Path, u16) -> Process) {
        self.kill();
        self.process = launch(&self.folder, self.port);
    }

    /// The TCP port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Kills the server at once (`kill -9`). `restart` starts it again.
    pub fn kill(&mut self) {
        self.process.kill();
        // The pid may soon be reused.
        let _ = fs::remove_file(self.folder.join("pid"));
    }

    /// Suspends the server (`kill -STOP`): it keeps its connections but does not answer.
    pub fn stop(&self) {
        self.process.signal(Signal::STOP);
    }

    /// Continues a stopped server (`kill -CONT`).
    pub fn cont(&self) {
        self.process.signal(Signal::CONT);
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes a server type dereference to its private server.
macro_rules! is_private_server {
    ($server:ty) => {
        impl std::ops::Deref for $server {
            type Target = super::PrivateServer;

            fn deref(&self) -> &Self::Target {
                &self.server
            }
        }

        impl std::ops::DerefMut for $server {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.server
            }
        }
    };
}
use is_private_server;

/// Waits for the end of its input, which comes when the test process ends, in whatever way. Then it kills the servers
/// whose process ids are in the folder's files `pid` and `*.pid`, and removes the folder.
const SCRIPT: &str = r#"cat >/dev/null
for file in "$1/pid" "$1"/*.pid; do [ -s "$file" ] && kill -KILL "$(cat "$file")" 2>/dev/null; done
rm -rf "$1""#;

/// A small process that cleans up after a test process that ends without dropping anything: by `kill -9`, or because a
/// server is shared by all tests and lives in a static.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    /// Starts a keeper, which finally removes `folder` and kills the servers that wrote their process ids there into the
    /// file `pid`, or files ending in `.pid`.
    pub(crate) fn of(folder: &Path) -> Self {
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "keeper"])
            .arg(folder)
            // Ctrl-C goes to the process group of the tests, and the keeper must outlive it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a shell"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
