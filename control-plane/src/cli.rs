//! The command line: `edgelink serve | migrate | keys | sweep | doctor | flush | import | export`.

mod flush;
mod keys;
mod transfer;

use crate::doctor::{Report, Verdict, examine};
use crate::server::{self, Server, StartError};
use clap::{Parser, Subcommand};
use edgelink_service::purge::Purger;
use edgelink_settings::config::{Config, ConfigError, Environment, StoreConfig};
use edgelink_settings::telemetry;
use edgelink_store::{Store, StoreError};
use flush::FlushArguments;
use keys::KeysCommand;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use transfer::{CommandError, ExportArguments, ImportArguments};

/// The control plane of edgelink.
#[derive(Debug, Parser)]
#[command(name = "edgelink", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// The configuration file (TOML). Environment variables (EDGELINK_*) override it.
    #[arg(long, global = true, env = "EDGELINK_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve API, edge API and redirects until SIGTERM or SIGINT.
    Serve {
        /// Only check the configuration: exit code 0 if it is valid, 2 if it is not.
        #[arg(long)]
        check_config: bool,
    },
    /// Bring the schema of the database up to date.
    Migrate {
        /// Make the file of SQLite where there is none, which is otherwise an error.
        #[arg(long)]
        create: bool,
    },
    /// Make, list and revoke API keys.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Purge links past their validity, old tombstones, receipts and clicks, once and now.
    Sweep,
    /// Have Redis, control planes and edges drop all that they have cached, and ask the database again.
    Flush(FlushArguments),
    /// Examine configuration, database, Redis, feed, edges and analytics, and say what to do. Exit code 0 if all is well, 1 with
    /// warnings, 2 with errors.
    Doctor {
        /// Print the checks as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Import links from a file, of this or of another system, through the API.
    Import(ImportArguments),
    /// Write all links to a file, through the API.
    Export(ExportArguments),
}

/// The error of a command.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the database (store.url) cannot be used: {0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Keys(#[from] keys::KeyError),
    #[error(transparent)]
    Transfer(#[from] transfer::CommandError),
    #[error("{} and {}", plural(.0.count(Verdict::Error) as u64, "error"), plural(.0.count(Verdict::Warning) as u64, "warning"))]
    Unwell(Report),
    #[error("another process is purging right now")]
    Busy,
    #[error("the flush is noted, but not published within {} s: see the log of the control plane that publishes", .0.as_secs())]
    NotFlushed(Duration),
    #[error("failed to register signal handlers: {0}")]
    Signals(#[source] io::Error),
}

/// Runs the command that the process was started with. Exit code 0 is success, 2 a wrong command line or configuration,
/// 3 an import that has left something out, 1 any other failure; of `doctor` 1 is warnings and 2 errors; the reason goes to standard error.
pub async fn main() -> ExitCode {
    match Box::pin(run(Arguments::parse())).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("edgelink: {failure}");
            match failure {
                CliError::Config(_) => ExitCode::from(2),
                CliError::Unwell(report) if report.verdict == Verdict::Error => ExitCode::from(2),
                CliError::Transfer(
                    CommandError::Incomplete { .. } | CommandError::NotWhole { .. },
                ) => ExitCode::from(3),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), CliError> {
    let environment = Environment::of_process();
    // Read on demand: clients of the API have no configuration.
    let config = || Config::load(arguments.config.as_deref(), &environment);
    match arguments.command {
        Command::Serve { check_config: true } => {
            config()?;
            println!("The configuration is valid.");
            Ok(())
        }
        Command::Serve {
            check_config: false,
        } => Box::pin(serve(config()?, &environment)).await,
        Command::Migrate { create } => migrate(&config()?, create).await,
        Command::Keys(command) => Ok(command.run(&config()?).await?),
        Command::Sweep => sweep(&config()?).await,
        Command::Doctor { json } => {
            print_report(Box::pin(examine(config(), &environment)).await, json)
        }
        Command::Flush(flush) => flush.run(&config()?).await,
        Command::Import(import) => Ok(import.run().await?),
        Command::Export(export) => Ok(export.run().await?),
    }
}

async fn serve(config: Config, environment: &Environment) -> Result<(), CliError> {
    // It fails only if a test runs several commands in one process.
    let _ = telemetry::init_log(&config.log);
    for name in Config::unknown_variables(environment) {
        tracing::warn!(name, "unknown EDGELINK_ variable: it is ignored");
    }
    let signals = signals().map_err(CliError::Signals)?;
    Server::start(config).await?.run(signals).await;
    Ok(())
}

/// Opens the database for a command that changes it, and prints its name: if the command lacks the settings of the control planes,
/// it is not their database.
async fn open(config: &StoreConfig) -> Result<Arc<Store>, StoreError> {
    say_database(config);
    edgelink_store::open(&patient(config)).await
}

/// Least timeout of a command's database calls: people can wait for a busy database, visitors cannot.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// The settings of the database with the timeout of a command.
fn patient(config: &StoreConfig) -> StoreConfig {
    StoreConfig {
        timeout_ms: config.timeout_ms.max(CALL_TIMEOUT),
        ..config.clone()
    }
}

/// Prints to standard error, because standard output is for programs.
fn say_database(config: &StoreConfig) {
    eprintln!(
        "edgelink: the database is {}",
        edgelink_database::name(config)
    );
}

async fn migrate(config: &Config, may_create: bool) -> Result<(), CliError> {
    say_database(&config.store);
    if !may_create {
        edgelink_database::require_file(&config.store)?;
    }
    let store = edgelink_store::connect(&patient(&config.store)).await?;
    Ok(store.migrate().await?)
}

/// Prints the findings of the doctor. If standard output is closed, the exit code remains.
fn print_report(report: Report, as_json: bool) -> Result<(), CliError> {
    let text = if as_json {
        serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"
    } else {
        report.to_string()
    };
    let _ = io::stdout().write_all(text.as_bytes());
    match report.verdict {
        Verdict::Ok => Ok(()),
        _ => Err(CliError::Unwell(report)),
    }
}

/// Purges once, now.
async fn sweep(config: &Config) -> Result<(), CliError> {
    let store = open(&config.store).await?;
    let store = server::with_events(config, store);
    let mut purger = Purger::new(store, &config.purge, &config.analytics);
    let purged = purger.purge().await?.ok_or(CliError::Busy)?;
    println!(
        "removed {} links past their validity, {} tombstones, {} receipts, {} counts of clicks",
        purged.links, purged.tombstones, purged.receipts, purged.clicks
    );
    Ok(())
}

/// "1 worker", "2 workers".
fn plural(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// Completes with the first SIGTERM or SIGINT.
fn signals() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_when_checked_is_consistent() {
        Arguments::command().debug_assert();
    }
}
