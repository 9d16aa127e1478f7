//! A redis-server that belongs to one test: on a Unix socket in a directory of its own, gone with the test.

use edgelink_filter_core::resp::decode::Decoder;
use edgelink_filter_core::resp::scan::Limits;
use edgelink_filter_core::resp::{Reply, encode};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub(crate) const LIMITS: Limits = Limits {
    bulk_bytes: 1 << 20,
    array_elements: 1 << 16,
    reply_bytes: 4 << 20,
};

pub(crate) struct Server {
    directory: TempDir,
    process: Option<Child>,
    options: Vec<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with_options(&[])
    }

    /// Options as on redis-server's command line.
    pub(crate) fn with_options(options: &[&str]) -> Self {
        let mut server = Self {
            directory: tempfile::tempdir().unwrap(),
            process: None,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        };
        server.run();
        server
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Starts it and waits until it accepts connections.
    fn run(&mut self) {
        let mut process = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(self.socket())
            .arg("--dir")
            .arg(self.directory.path())
            .args(&self.options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server must be installed");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let is_ready = lines.any(|line| line.unwrap().contains("eady to accept connections"));
        assert!(is_ready, "redis-server did not start");
        // Its output is read on, or it would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        self.process = Some(process);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Kills it and starts it again; it keeps nothing.
    pub(crate) fn restart_empty(&mut self) {
        self.kill();
        self.run();
    }

    pub(crate) fn stop(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().unwrap().id().to_string();
        let status = Command::new("kill").args([signal, &process]).status();
        assert!(status.unwrap().success());
    }

    /// Runs a command on a connection of its own, and returns the reply as text.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        command(&self.socket(), words)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(socket: &Path, words: &[&str]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
    let mut command = Vec::new();
    encode::words(&words, &mut command);
    stream.write_all(&command).unwrap();
    let (mut decoder, mut buffer) = (Decoder::new(LIMITS), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "redis closed the connection");
        if let Some(reply) = decoder.next(&mut &buffer[..read]).unwrap() {
            return text(reply);
        }
    }
}

fn text(reply: Reply<'_>) -> String {
    match reply {
        Reply::Simple(text) | Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Array(array) => array.map(text).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    }
}
