//! A private MariaDB.

use super::galera::give_away;
use super::{PrivateServer, is_private_server};
use crate::stack::Process;
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest time for it to start, with recovery after a crash, on a machine that also runs builds.
const START_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A private MariaDB with the settings that matter left at their defaults, above all `innodb_flush_log_at_trx_commit =
/// 1`.
#[derive(Debug)]
pub struct MariaDb {
    server: PrivateServer,
    options: Vec<String>,
    databases: AtomicU32,
}

is_private_server!(MariaDb);

impl MariaDb {
    /// Starts a server.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further options, for example `--innodb-lock-wait-timeout=1`.
    #[must_use]
    pub fn start_with(options: &[&str]) -> Self {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Self::start_node(options, None)
    }

    /// Starts a server with further options, and one option for its first start only.
    pub(super) fn start_node(options: Vec<String>, first: Option<&str>) -> Self {
        let server = PrivateServer::start("mariadb", |folder, port| {
            install(folder, &options);
            let first = first.map(str::to_owned);
            let options: Vec<String> = options.iter().cloned().chain(first).collect();
            launch(folder, port, &options)
        });
        Self {
            server,
            options,
            databases: AtomicU32::new(0),
        }
    }

    /// Creates a new database and returns its URL.
    #[must_use]
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.execute(&format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// The URL of a database by its name.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port())
    }

    /// The folder of its files.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        data(&self.server.folder)
    }

    /// Runs SQL as root and returns its output: columns separated by tabs, without a header.
    ///
    /// # Panics
    /// Panics if the server rejects it.
    pub fn execute(&self, sql: &str) -> String {
        let output = Command::new("mariadb")
            .args([
                "--no-defaults",
                "--batch",
                "--skip-column-names",
                "--user=root",
            ])
            .arg(format!(
                "--socket={}",
                socket(&self.server.folder).display()
            ))
            .arg(format!("--execute={sql}"))
            .output();
        checked("mariadb", &output.expect("the client of MariaDB"))
    }

    /// Destroys the server and all its data, and starts an empty one on the same port.
    ///
    /// # Panics
    /// Panics if its files cannot be removed.
    pub fn replace(&mut self) {
        self.server.kill();
        std::fs::remove_dir_all(self.data()).expect("the files of MariaDB");
        install(&self.server.folder, &self.options);
        self.restart();
    }

    /// Restarts the server with its port and data, killing it first if it is still running.
    pub fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// Restarts the server with options for this start only.
    pub(super) fn restart_with(&mut self, more: &[String]) {
        let options = [&self.options, more].concat();
        self.server
            .relaunch(|folder, port| launch(folder, port, &options));
    }

    /// Recovers the files of a killed node of a cluster, and returns the log of it.
    pub(super) fn recover(&self) -> String {
        let mut command = command(&self.server.folder, self.server.port(), &self.options);
        let output = command.arg("--wsrep-recover").output();
        let output = output.expect("MariaDB is installed");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// Size of the redo log from the first start on. If the first start had to resize the installed log, a server killed a
/// second later came back, twice in a thousand times, with a committed row missing or an AUTO_INCREMENT value assigned
/// again.
const LOG_SIZE: &str = "--innodb-log-file-size=64M";

/// Creates the system tables.
fn install(folder: &Path, options: &[String]) {
    let user = user(options);
    if user.as_deref() == Some(AS_OTHER) {
        give_away(folder);
    }
    let output = Command::new("mariadb-install-db")
        .args([
            "--no-defaults",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
            LOG_SIZE,
        ])
        .arg(format!("--datadir={}", data(folder).display()))
        // In a shared folder, servers that start together delete each other's temporary tables.
        .arg(format!("--tmpdir={}", folder.display()))
        .args(user)
        .output();
    checked("mariadb-install-db", &output.expect("MariaDB is installed"));
}

fn launch(folder: &Path, port: u16, options: &[String]) -> Process {
    let command = command(folder, port, options);
    let mut server = Process::start("mariadbd", command, folder.join("log"));
    await_greeting(&mut server, port);
    server
}

fn command(folder: &Path, port: u16, options: &[String]) -> Command {
    let mut command = Command::new("mariadbd");
    command
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data(folder).display()))
        .arg(format!("--tmpdir={}", folder.display()))
        .arg(format!("--socket={}", socket(folder).display()))
        .arg(format!("--pid-file={}", folder.join("pid").display()))
        .arg(format!("--port={port}"))
        .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
        .args(["--innodb-buffer-pool-size=64M", LOG_SIZE])
        .args(user(options))
        .args(options)
        .process_group(0);
    command
}

/// Waits for the first byte that a server sends to a client.
fn await_greeting(server: &mut Process, port: u16) {
    let start = Instant::now();
    loop {
        let greeted = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .and_then(|mut stream| {
                stream.set_read_timeout(Some(START_LIMIT))?;
                stream.read_exact(&mut [0])
            })
            .is_ok();
        if greeted {
            return;
        }
        server.assert_running();
        assert!(start.elapsed() < START_LIMIT, "mariadbd does not get ready");
        std::thread::sleep(PAUSE);
    }
}

fn checked(name: &str, output: &Output) -> String {
    assert!(
        output.status.success(),
        "{name}: {}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout),
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// User that servers started by root run as where root does not work.
pub(super) const AS_OTHER: &str = "--user=mysql";

/// MariaDB refuses to run as root without `--user`, whose first occurrence counts.
fn user(options: &[String]) -> Option<String> {
    let is_said = options.iter().any(|option| option == AS_OTHER);
    let user = if is_said { AS_OTHER } else { "--user=root" };
    user_is_root().then(|| user.to_owned())
}

pub(super) fn user_is_root() -> bool {
    rustix::process::getuid().is_root()
}
