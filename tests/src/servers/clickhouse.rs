//! A private ClickHouse: Debian's server, or a current engine behind a small HTTP server.

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

/// Edition of ClickHouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClickHouseKind {
    /// Debian's `clickhouse-server`, of 2018.
    Debian,
    /// PyPI's current `chdb` (`tests/clickhouse/chdb_http.py`). It answers one request at a time.
    Chdb,
}

impl ClickHouseKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Debian, Self::Chdb];
}

/// A private ClickHouse server.
#[derive(Debug)]
pub struct ClickHouseServer {
    server: PrivateServer,
    kind: ClickHouseKind,
    password: String,
}

is_private_server!(ClickHouseServer);

impl ClickHouseServer {
    /// Starts a server whose user `default` has no password.
    #[must_use]
    pub fn start(kind: ClickHouseKind) -> Self {
        Self::with_password(kind, "")
    }

    /// Starts a server whose user `default` has this password, which needs no escaping.
    #[must_use]
    pub fn with_password(kind: ClickHouseKind, password: &str) -> Self {
        Self {
            server: PrivateServer::start("clickhouse", |folder, port| {
                launch(kind, folder, port, password)
            }),
            kind,
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
        let (kind, password) = (self.kind, self.password.clone());
        self.server
            .relaunch(|folder, port| launch(kind, folder, port, &password));
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
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        unchunked(body)
    } else {
        body.to_owned()
    };
    Ok((status.unwrap_or(0), body))
}

/// Decodes a chunked body.
fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        text.push_str(rest.get(..size).unwrap_or_default());
        body = rest.get(size + 2..).unwrap_or_default();
    }
    text
}

fn launch(kind: ClickHouseKind, folder: &Path, port: u16, password: &str) -> Process {
    let mut command = match kind {
        ClickHouseKind::Debian => debian(folder, port, password),
        ClickHouseKind::Chdb => chdb(folder, port, password),
    };
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

fn debian(folder: &Path, port: u16, password: &str) -> Command {
    let path = folder.display();
    let configuration = format!(
        "<yandex><logger><level>warning</level><console>true</console></logger>\
         <http_port>{port}</http_port><listen_host>127.0.0.1</listen_host>\
         <path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path>\
         <user_files_path>{path}/files/</user_files_path><format_schema_path>{path}/files/</format_schema_path>\
         <mark_cache_size>67108864</mark_cache_size><users_config>users.xml</users_config>\
         <default_profile>default</default_profile><default_database>default</default_database></yandex>"
    );
    let users = format!(
        "<yandex><profiles><default/></profiles><quotas><default/></quotas><users><default>\
         <password>{password}</password><networks><ip>127.0.0.1</ip></networks>\
         <profile>default</profile><quota>default</quota></default></users></yandex>"
    );
    fs::write(folder.join("config.xml"), configuration).expect("a configuration");
    fs::write(folder.join("users.xml"), users).expect("a file of users");
    let mut command = Command::new("clickhouse-server");
    command
        .env("PATH", path_with_sbin())
        .arg(format!("--config-file={path}/config.xml"))
        .current_dir(folder);
    command
}

fn chdb(folder: &Path, port: u16, password: &str) -> Command {
    let mut command = Command::new(root().join(".edgelink/chdb/bin/python3"));
    command
        .arg(root().join("tests/clickhouse/chdb_http.py"))
        .arg("--folder")
        .arg(folder)
        .args(["--port", &port.to_string()])
        .arg(format!("--password={password}"))
        .current_dir(folder);
    command
}

/// Debian installs the server where only root's search path looks.
fn path_with_sbin() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}
