//! nginx with one worker, as a reference for redirects.

use edgelink_tests::stack::{Connection, Process, free_port, root};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use tempfile::TempDir;

/// A running nginx.
pub(crate) struct Nginx {
    process: Process,
    address: SocketAddr,
    _folder: TempDir,
}

const LUA: &str = "load_module /usr/lib/nginx/modules/ndk_http_module.so;\n\
    load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;";

impl Nginx {
    /// Starts nginx with `tests/bench/nginx/{name}.conf`.
    pub(crate) async fn start(name: &str, redis_port: u16) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let configuration = folder.path().join("nginx.conf");
        let text = fill(name, &folder, address.port(), redis_port);
        fs::write(&configuration, text).expect("a file");
        let mut command = Command::new("nginx");
        // Debian installs it in sbin, which is often not on PATH.
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{path}:/usr/sbin"))
            .args(["-e", "stderr", "-c"])
            .arg(configuration)
            .arg("-p")
            .arg(folder.path());
        let mut process = Process::start("nginx", command, folder.path().join("log"));
        process
            .await_ready(async || Connection::open(address).await.is_ok())
            .await;
        Self {
            process,
            address,
            _folder: folder,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The master and its worker.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.process.family()
    }
}

fn fill(name: &str, folder: &TempDir, port: u16, redis_port: u16) -> String {
    let read = |name: &str| {
        let path = root().join(format!("tests/bench/nginx/{name}.conf"));
        fs::read_to_string(path).expect("a template")
    };
    let is_root = rustix::process::getuid().is_root();
    let http = read(name);
    let modules = if http.contains("_lua_") { LUA } else { "" };
    read("common")
        .replace("${HTTP}", &http)
        .replace("${MODULES}", modules)
        .replace("${USER}", if is_root { "user root;" } else { "" })
        .replace("${FOLDER}", &folder.path().display().to_string())
        .replace("${PORT}", &port.to_string())
        .replace("${REDIS_PORT}", &redis_port.to_string())
}
