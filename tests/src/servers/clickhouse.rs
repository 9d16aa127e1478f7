//! A private ClickHouse: PyPI's `chdb` behind a small HTTP server (`tests/clickhouse/chdb_http.py`), one request at a time.

use super::{PrivateServer, is_private_server};
use crate::stack::{Process, root};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest time for it to start, on a machine that also runs builds.
const START_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A private ClickHouse server.
#[derive(Debug)]
pub struct ClickHouseServer {
    server: PrivateServer,
    password: String,
}

is_private_server!(ClickHouseServer);

impl ClickHouseServer {
    /// Starts a server whose user `default` has no password.
    #[must_use]
    pub fn start() -> Self {
        Self::with_password("")
    }

    /// Starts a server whose user `default` has this password, which needs no escaping.
    #[must_use]
    pub fn with_password(password: &str) -> Self {
        Self {
            server: PrivateServer::start("clickhouse", |folder, port| {
                launch(folder, port, password)
            }),
            password: password.to_owned(),
        }
    }

    /// The URL of its HTTP interface.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }

    /// Runs a query and returns its output, columns separated by tabs.
    ///
    /// # Panics
    /// Panics if the server rejects it.
    #[must_use]
    pub fn ask(&self, sql: &str) -> String {
        let (status, answer) = self.post(sql).expect("an answer of ClickHouse");
        assert_eq!(status, 200, "{sql}: {answer}");
        answer
    }

    /// Restarts the server with its port and data, killing it first if it is still running.
    pub fn restart(&mut self) {
        let password = &self.password;
        self.server
            .relaunch(|folder, port| launch(folder, port, password));
    }

    fn post(&self, sql: &str) -> std::io::Result<(u16, String)> {
        post(self.port(), &self.password, sql)
    }
}

fn post(port: u16, password: &str, sql: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: clickhouse\r\nConnection: close\r\nX-ClickHouse-User: default\r\n\
         X-ClickHouse-Key: {password}\r\nContent-Length: {}\r\n\r\n{sql}",
        sql.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    Ok((status.unwrap_or(0), body.to_owned()))
}

fn launch(folder: &Path, port: u16, password: &str) -> Process {
    let mut command = Command::new(root().join(".edgelink/chdb/bin/python3"));
    command
        .arg(root().join("tests/clickhouse/chdb_http.py"))
        .arg("--folder")
        .arg(folder)
        .args(["--port", &port.to_string()])
        .arg(format!("--password={password}"))
        .current_dir(folder);
    command.process_group(0);
    let mut server = Process::start("clickhouse", command, folder.join("log"));
    fs::write(folder.join("pid"), server.id().to_string()).expect("a pid file");
    let start = Instant::now();
    while !matches!(post(port, password, "SELECT 1"), Ok((200, _))) {
        server.assert_running();
        assert!(
            start.elapsed() < START_LIMIT,
            "ClickHouse does not get ready"
        );
        std::thread::sleep(PAUSE);
    }
    server
}
