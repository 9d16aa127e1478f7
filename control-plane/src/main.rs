//! The command `edgelink`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    edgelink_control_plane::cli::main().await
}
