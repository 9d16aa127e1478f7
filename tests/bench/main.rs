//! Benchmarks: `bench all` (`make bench`), or one table by its name. See [`options`] for the arguments.

mod changes;
mod creation;
mod delay;
mod edges;
mod feed;
mod fill;
mod fuel;
mod ingest;
mod links;
mod load;
mod machine;
mod memory;
mod nginx;
mod options;
mod process;
mod questions;
mod redirects;
mod reloads;
mod report;
mod rounds;
mod rows;
mod search;
mod startup;
mod targets;
mod zipf;

use options::{Command, Options};
use report::{Report, Section};
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut report = Report::start();
    for command in options.command.parts() {
        let section = run(*command, &options).await;
        println!("\n{section}");
        report.add(section);
        // Written after each table: results are kept if a later one fails.
        if options.command == Command::All {
            report.write(&options);
        }
    }
    for failure in report.failures() {
        eprintln!("failed: {failure}");
    }
    if report.failures().next().is_none() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn run(command: Command, options: &Options) -> Section {
    match command {
        Command::Redirects => redirects::run(options).await,
        Command::Cpu => redirects::quick(options).await,
        Command::Zipf => zipf::run(options).await,
        Command::ZipfCore => zipf::simulated(options),
        Command::Rows => rows::run(options).await,
        Command::Memory => memory::run(options).await,
        Command::Startup => startup::run(options).await,
        Command::Reloads => reloads::run(options).await,
        Command::Changes => changes::run(options).await,
        Command::Feed => feed::run(options).await,
        Command::Creation => creation::run(options),
        Command::Fuel => fuel::run(),
        Command::Search => search::run(options).await,
        Command::Delay => delay::run(options).await,
        Command::Questions => questions::run(options).await,
        Command::Ingest => ingest::run(options).await,
        Command::All => unreachable!("a command of parts"),
    }
}
