//! `edgelink import` and `edgelink export`.

use crate::transfer::{ApiClient, ExportOptions, ImportOptions, TransferError, export, import};
use clap::Args;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Address and key of the API.
#[derive(Debug, Args)]
struct Api {
    /// The control plane.
    #[arg(
        long = "api",
        env = "EDGELINK_API_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8081"
    )]
    url: String,
    /// An API key.
    #[arg(
        long,
        env = "EDGELINK_API_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    key: Option<String>,
    /// A file that holds an API key.
    #[arg(long, env = "EDGELINK_AUTH_ADMIN_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    /// A JSON object (the fields of POST /links, or a line of an export) or a URL on every line.
    file: PathBuf,
    #[command(flatten)]
    api: Api,
    /// Where lines that cannot be imported are reported. Default: <FILE>.errors
    #[arg(long, value_name = "FILE")]
    errors: Option<PathBuf>,
    /// Where the progress of the import is stored. Default: <FILE>.checkpoint
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// How many lines are sent at once, 1 to 10000.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    batch: u16,
    /// The domain of links without one.
    #[arg(long)]
    domain: Option<String>,
    /// Take a link that exists with the same target and settings instead of creating another one.
    #[arg(long)]
    find_if_exists: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExportArguments {
    /// The file to write, a link a line, newest first.
    file: PathBuf,
    #[command(flatten)]
    api: Api,
    /// Where the progress of the export is stored. Default: <FILE>.checkpoint
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Only links on this domain.
    #[arg(long)]
    domain: Option<String>,
}

/// Why a transfer has stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("give an API key: --key, --key-file, EDGELINK_API_KEY or EDGELINK_AUTH_ADMIN_KEY_FILE")]
    NoKey,
    #[error("{}: {source}", path.display())]
    KeyFile { path: PathBuf, source: io::Error },
    #[error("{0}\nRun the same command again to go on from where it stopped.")]
    Transfer(#[from] TransferError),
}

impl ImportArguments {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let client = self.api.client()?;
        let options = ImportOptions {
            errors: self.errors.unwrap_or_else(|| beside(&self.file, ".errors")),
            checkpoint: self
                .checkpoint
                .unwrap_or_else(|| beside(&self.file, ".checkpoint")),
            file: self.file,
            batch: self.batch.into(),
            domain: self.domain,
            find_if_exists: self.find_if_exists,
        };
        let summary = import(&client, &options).await?;
        println!(
            "{} lines: {} created, {} existing, {} failed",
            summary.lines, summary.created, summary.existing, summary.failed
        );
        if summary.failed > 0 {
            println!("see {}", options.errors.display());
        }
        Ok(())
    }
}

impl ExportArguments {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let client = self.api.client()?;
        let options = ExportOptions {
            checkpoint: self
                .checkpoint
                .unwrap_or_else(|| beside(&self.file, ".checkpoint")),
            file: self.file,
            domain: self.domain,
        };
        let links = export(&client, &options).await?;
        println!("{links} links");
        Ok(())
    }
}

impl Api {
    fn client(&self) -> Result<ApiClient, CommandError> {
        let key = match (&self.key, &self.key_file) {
            (Some(key), _) => key.clone(),
            (None, Some(path)) => {
                fs::read_to_string(path).map_err(|source| CommandError::KeyFile {
                    path: path.clone(),
                    source,
                })?
            }
            (None, None) => return Err(CommandError::NoKey),
        };
        let client = ApiClient::new(&self.url, key.trim());
        Ok(client.map_err(TransferError::from)?)
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
