//! Benchmarks. `make cpu` runs `bench cpu`.

mod cpu;
mod process_time;
mod rounds;
mod wrk;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("cpu") => cpu::run().await,
        _ => {
            eprintln!("usage: bench cpu");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
