//! Locations: the checkout, build products, free ports.

use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

/// The checkout.
///
/// # Panics
/// Does not panic in a checkout.
#[must_use]
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("the workspace").to_owned()
}

/// The control plane's binary: `EDGELINK_TEST_BIN`, or the one built with the profile of this test.
///
/// # Panics
/// Panics if it is not built.
#[must_use]
pub fn edgelink_binary() -> PathBuf {
    built("EDGELINK_TEST_BIN", profile_folder().join("edgelink"))
}

/// Build products of a version: control plane and edge.
#[derive(Clone, Debug)]
pub struct Version {
    /// The control plane's binary.
    pub edgelink: PathBuf,
    /// The filter.
    pub filter: PathBuf,
    /// The bridge to Redis.
    pub bridge: PathBuf,
    /// The checkout, which has `envoy/run.sh`.
    pub checkout: PathBuf,
}

impl Version {
    /// This checkout's version.
    #[must_use]
    pub fn this() -> Self {
        Self {
            edgelink: edgelink_binary(),
            filter: filter_module(),
            bridge: bridge_module(),
            checkout: root(),
        }
    }

    /// The earlier version built by `tests/upgrade.sh`.
    ///
    /// # Panics
    /// Panics if there is none.
    #[must_use]
    pub fn earlier() -> Self {
        let folder = root().join(".edgelink/upgrade");
        assert!(
            folder.join("built").is_file(),
            "there is no earlier version: tests/upgrade.sh builds it"
        );
        Self {
            edgelink: folder.join("edgelink"),
            filter: folder.join("edgelink_filter.wasm"),
            bridge: folder.join("edgelink_resp_bridge.wasm"),
            checkout: folder.join("source"),
        }
    }
}

/// Kind of an edge: of an Envoy's filter, or nginx with the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A Wasm module, with a bridge to Redis.
    Wasm,
    /// A native module, which connects to Redis itself.
    Native,
    /// The module of nginx, with an edge for each worker process. There is no Envoy.
    Nginx,
}

impl Filter {
    /// The kind used in tests: `EDGELINK_TEST_FILTER`, or Wasm.
    ///
    /// # Panics
    /// Panics if the variable is none of `wasm`, `native` and `nginx`.
    #[must_use]
    pub fn of_tests() -> Self {
        match env::var("EDGELINK_TEST_FILTER").as_deref() {
            Err(_) | Ok("" | "wasm") => Self::Wasm,
            Ok("native") => Self::Native,
            Ok("nginx") => Self::Nginx,
            Ok(other) => {
                panic!("EDGELINK_TEST_FILTER must be wasm, native or nginx, not '{other}'")
            }
        }
    }

    /// True if tests run on nginx, which does not have this thing of Envoy: the test is skipped.
    #[must_use]
    pub fn lacks(of_envoy: &str) -> bool {
        let lacks = Self::of_tests() == Self::Nginx;
        if lacks {
            println!("skipped: nginx does not have {of_envoy}");
        }
        lacks
    }

    /// Environment variables that select it in `envoy/run.sh` and `envoy/up.sh`.
    ///
    /// # Panics
    /// Panics if it is not built.
    #[must_use]
    pub fn variables(self) -> Vec<(&'static str, PathBuf)> {
        match self {
            Self::Wasm => vec![
                ("EDGELINK_FILTER", "wasm".into()),
                ("EDGELINK_WASM", filter_module()),
                ("EDGELINK_BRIDGE_WASM", bridge_module()),
            ],
            Self::Native => vec![
                ("EDGELINK_FILTER", "native".into()),
                ("EDGELINK_NATIVE", native_module()),
            ],
            Self::Nginx => vec![
                ("EDGELINK_FILTER", "nginx".into()),
                ("EDGELINK_NGINX_MODULE", nginx_module()),
            ],
        }
    }

    /// True if it connects to control planes and Redis by itself, and not by clusters of Envoy.
    #[must_use]
    pub fn connects_by_itself(self) -> bool {
        self != Self::Wasm
    }

    /// The script that starts it, in a checkout.
    pub(crate) fn script(self) -> &'static str {
        match self {
            Self::Wasm | Self::Native => "envoy/run.sh",
            Self::Nginx => "nginx/module/run.sh",
        }
    }

    /// Number of edges in a proxy with that many workers, each with its cache, its feed and its connection to Redis.
    #[must_use]
    pub fn edges(self, workers: u16) -> u64 {
        match self {
            Self::Wasm | Self::Nginx => workers.into(),
            Self::Native => 1,
        }
    }

    /// The `EDGELINK_REDIS` equivalent to `mode` with Wasm: native modules pool its requests without Envoy.
    pub(super) fn redis_mode(self, mode: &'static str) -> &'static str {
        match (self, mode) {
            (Self::Native | Self::Nginx, "pooled") => "direct",
            _ => mode,
        }
    }
}

/// The filter as a native module: `EDGELINK_NATIVE`, or the release build.
///
/// # Panics
/// Panics if it is not built.
#[must_use]
pub fn native_module() -> PathBuf {
    let profile = profile_folder();
    let target = profile.parent().expect("the target folder");
    built("EDGELINK_NATIVE", target.join("release/libedgelink.so"))
}

/// The module of nginx: `EDGELINK_NGINX_MODULE`, or the one that `nginx/module/build.sh` has built for the nginx that is installed.
///
/// # Panics
/// Panics if it is not built.
#[must_use]
pub fn nginx_module() -> PathBuf {
    let found = built_nginx_module();
    found.expect("the module of nginx is not built: `make nginx-module` builds it, or set EDGELINK_NGINX_MODULE")
}

/// The module of nginx if it is built. Tests of it are skipped otherwise, but not where the variable names one.
///
/// # Panics
/// Panics if the variable names none.
#[must_use]
pub fn built_nginx_module() -> Option<PathBuf> {
    const VARIABLE: &str = "EDGELINK_NGINX_MODULE";
    if env::var_os(VARIABLE).is_some() {
        return Some(built(VARIABLE, PathBuf::new()));
    }
    let output = std::process::Command::new("nginx").arg("-v").output();
    let version = String::from_utf8(output.ok()?.stderr).expect("a version");
    let version = version.trim().rsplit_once('/')?.1;
    let end = format!("-nginx-{version}.so");
    let folder = profile_folder().parent()?.join("nginx-module");
    let files = std::fs::read_dir(folder).ok()?.flatten();
    let mut files = files.map(|file| file.path());
    files.find(|file| file.to_string_lossy().ends_with(&end))
}

/// The filter: `EDGELINK_WASM`, or the one in the target folder of this test.
///
/// # Panics
/// Panics if it is not built.
#[must_use]
pub fn filter_module() -> PathBuf {
    module("EDGELINK_WASM", "edgelink_filter")
}

/// The bridge to Redis: `EDGELINK_BRIDGE_WASM`, or the one in the target folder of this test.
///
/// # Panics
/// Panics if it is not built.
#[must_use]
pub fn bridge_module() -> PathBuf {
    module("EDGELINK_BRIDGE_WASM", "edgelink_resp_bridge")
}

/// The module that misuses hostcalls: `EDGELINK_PROBE_WASM`, or the one in the target folder of this test.
///
/// # Panics
/// Panics if it is not built.
#[must_use]
pub fn probe_module() -> PathBuf {
    module("EDGELINK_PROBE_WASM", "edgelink_abi_probe")
}

/// The minimal redirect that benchmarks compare with, on the bare ABI (`bare`) or through the SDK (`sdk`).
///
/// # Panics
/// Panics if it is not built.
#[must_use]
pub fn hello_module(kind: &str) -> PathBuf {
    module("EDGELINK_HELLO_WASM", &format!("edgelink_hello_{kind}"))
}

/// The simulation of the filter's caches: `EDGELINK_SIMULATION_BIN`, or the release build.
///
/// # Panics
/// Panics if it is not built.
#[must_use]
pub fn simulation_binary() -> PathBuf {
    let profile = profile_folder();
    let target = profile.parent().expect("the target folder");
    built(
        "EDGELINK_SIMULATION_BIN",
        target.join("release/edgelink-simulation"),
    )
}

fn module(variable: &str, name: &str) -> PathBuf {
    let profile = profile_folder();
    let target = profile.parent().expect("the target folder");
    let file = format!("wasm32-wasip1/wasm/{name}.wasm");
    built(variable, target.join(file))
}

/// The Envoy that `envoy/run.sh` uses.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn envoy_binary() -> PathBuf {
    let output = std::process::Command::new(root().join("envoy/find.sh"))
        .output()
        .expect("envoy/find.sh");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "envoy/find.sh: {errors}");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

fn built(variable: &str, default: PathBuf) -> PathBuf {
    let path = env::var_os(variable).map_or(default, PathBuf::from);
    assert!(
        path.is_file(),
        "{} is not built: `make test` builds it, or set {variable}",
        path.display()
    );
    path
}

/// The profile's folder, such as `target/debug`: tests run from its `deps`, programs from itself.
fn profile_folder() -> PathBuf {
    let program = env::current_exe().expect("the path of this program");
    let folder = program.parent().expect("a folder");
    let is_test = folder.ends_with("deps");
    let profile = if is_test {
        folder.parent()
    } else {
        Some(folder)
    };
    profile.expect("a profile").to_owned()
}

/// Finds a free port below the system's ephemeral ports, so that it stays free for a restart.
///
/// # Panics
/// Panics if there is none.
#[must_use]
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = (std::process::id() as u16).wrapping_mul(97);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + process.wrapping_add(step) % COUNT;
        if TcpListener::bind(local(port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// 127.0.0.1 with that port.
pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
