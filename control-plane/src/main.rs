//! The command `edgelink`.

use edgelink_model::memory::Wiping;
use std::process::ExitCode;

/// mimalloc: a request takes dozens of small allocations from several threads, a quarter of the time with the system's allocator.
#[global_allocator]
static ALLOCATOR: Wiping<mimalloc::MiMalloc> = Wiping(mimalloc::MiMalloc);

#[tokio::main]
async fn main() -> ExitCode {
    edgelink_control_plane::cli::main().await
}
