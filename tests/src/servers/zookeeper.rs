//! A private ZooKeeper.

use super::{PrivateServer, is_private_server};
use crate::stack::Process;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest time for it to start, on a machine that also runs builds.
const START_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// Files of Debian's libzookeeper-java; its manifest names its dependencies.
const JARS: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar";

/// A single private ZooKeeper server.
#[derive(Debug)]
pub struct ZooKeeper {
    server: PrivateServer,
}

is_private_server!(ZooKeeper);

impl ZooKeeper {
    /// Starts a server.
    #[must_use]
    pub fn start() -> Self {
        let server = PrivateServer::start("zookeeper", |folder, port| {
            let configuration = format!(
                "tickTime=500\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
                 admin.enableServer=false\n4lw.commands.whitelist=ruok\n",
                folder.join("data").display()
            );
            fs::write(folder.join("zoo.cfg"), configuration).expect("a configuration");
            launch(folder, port)
        });
        Self { server }
    }

    /// `host:port`, as clients take it.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Restarts the server with its port and data, killing it first if it is still running.
    pub fn restart(&mut self) {
        self.server.relaunch(launch);
    }
}

fn launch(folder: &Path, port: u16) -> Process {
    let mut command = Command::new("java");
    command
        .args(["-Xmx128m", "-cp", JARS])
        .arg("org.apache.zookeeper.server.ZooKeeperServerMain")
        .arg(folder.join("zoo.cfg"))
        .process_group(0);
    let mut server = Process::start("zookeeper", command, folder.join("log"));
    fs::write(folder.join("pid"), server.id().to_string()).expect("a pid file");
    let start = Instant::now();
    while !is_ok(port) {
        server.assert_running();
        assert!(
            start.elapsed() < START_LIMIT,
            "ZooKeeper does not get ready"
        );
        std::thread::sleep(PAUSE);
    }
    server
}

/// Checks whether the server is healthy; while it is starting it does not answer.
fn is_ok(port: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"ruok")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        std::io::Result::Ok(answer == b"imok")
    };
    ask().unwrap_or(false)
}
