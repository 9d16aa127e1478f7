//! Where things are: the checkout, what was built, free ports.

use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

/// The checkout.
///
/// # Panics
/// Never in a checkout.
#[must_use]
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("the workspace").to_owned()
}

/// The control plane's binary: `EDGELINK_TEST_BIN`, or the one built with the profile of this test.
///
/// # Panics
/// Where it is not built.
#[must_use]
pub fn edgelink_binary() -> PathBuf {
    built("EDGELINK_TEST_BIN", profile_folder().join("edgelink"))
}

/// What was built of a version: control plane and edge.
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
    /// The one of this checkout.
    #[must_use]
    pub fn this() -> Self {
        Self {
            edgelink: edgelink_binary(),
            filter: filter_module(),
            bridge: bridge_module(),
            checkout: root(),
        }
    }

    /// The earlier one that `tests/upgrade.sh` has built.
    ///
    /// # Panics
    /// Where it has not.
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

/// What the filter of an Envoy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A Wasm module, with a bridge to Redis.
    Wasm,
    /// A native module, which speaks to Redis itself.
    Native,
}

impl Filter {
    /// The one that Envoys of tests have: `EDGELINK_TEST_FILTER`, or Wasm.
    ///
    /// # Panics
    /// Where the variable is neither `wasm` nor `native`.
    #[must_use]
    pub fn of_tests() -> Self {
        match env::var("EDGELINK_TEST_FILTER").as_deref() {
            Err(_) | Ok("" | "wasm") => Self::Wasm,
            Ok("native") => Self::Native,
            Ok(other) => panic!("EDGELINK_TEST_FILTER must be wasm or native, not '{other}'"),
        }
    }

    /// The variables by which `envoy/run.sh` and `envoy/up.sh` take it.
    ///
    /// # Panics
    /// Where it is not built.
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
        }
    }

    /// How many edges an Envoy with that many workers has, each with its cache, its feed and its connection to Redis.
    #[must_use]
    pub fn edges(self, workers: u16) -> u64 {
        match self {
            Self::Wasm => workers.into(),
            Self::Native => 1,
        }
    }

    /// The `EDGELINK_REDIS` that does what `mode` does with Wasm: a native module needs nothing of Envoy to pool its requests.
    pub(super) fn redis_mode(self, mode: &'static str) -> &'static str {
        match (self, mode) {
            (Self::Native, "pooled") => "direct",
            _ => mode,
        }
    }
}

/// The filter as a native module: `EDGELINK_NATIVE`, or the one that was built for release.
///
/// # Panics
/// Where it is not built.
#[must_use]
pub fn native_module() -> PathBuf {
    let profile = profile_folder();
    let target = profile.parent().expect("the target folder");
    built("EDGELINK_NATIVE", target.join("release/libedgelink.so"))
}

/// The filter: `EDGELINK_WASM`, or the one in the target folder of this test.
///
/// # Panics
/// Where it is not built.
#[must_use]
pub fn filter_module() -> PathBuf {
    module("EDGELINK_WASM", "edgelink_filter")
}

/// The bridge to Redis: `EDGELINK_BRIDGE_WASM`, or the one in the target folder of this test.
///
/// # Panics
/// Where it is not built.
#[must_use]
pub fn bridge_module() -> PathBuf {
    module("EDGELINK_BRIDGE_WASM", "edgelink_resp_bridge")
}

/// The module that misuses hostcalls: `EDGELINK_PROBE_WASM`, or the one in the target folder of this test.
///
/// # Panics
/// Where it is not built.
#[must_use]
pub fn probe_module() -> PathBuf {
    module("EDGELINK_PROBE_WASM", "edgelink_abi_probe")
}

/// The smallest redirect that benchmarks compare with, on the bare ABI (`bare`) or through the SDK (`sdk`).
///
/// # Panics
/// Where it is not built.
#[must_use]
pub fn hello_module(kind: &str) -> PathBuf {
    module("EDGELINK_HELLO_WASM", &format!("edgelink_hello_{kind}"))
}

/// The simulation of the filter's caches: `EDGELINK_SIMULATION_BIN`, or the one built for release.
///
/// # Panics
/// Where it is not built.
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

/// The Envoy that `envoy/run.sh` runs as well.
///
/// # Panics
/// Where there is none.
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

/// `target/debug`: a test runs from `deps` in it, a program from itself.
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

/// A free port, below those that the system gives to clients, so that it stays free for a restart.
///
/// # Panics
/// Where there is none.
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
