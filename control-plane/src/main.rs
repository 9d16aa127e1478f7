//! The command `edgelink`.

use std::process::ExitCode;

/// Every request and every link takes dozens of small allocations from several threads: with the system's allocator they were
/// a quarter of the control plane's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    edgelink_control_plane::cli::main().await
}
