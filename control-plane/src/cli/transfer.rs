//! `edgelink import` and `edgelink export`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use edgelink_transfer::{
    ApiClient, ColumnMapError, Encoding, ExportOptions, Format, ImportMemory, ImportOptions,
    ImportSummary, Mapping, Peer, Survey, SurveyedFile, TransferError, export, fetch,
    import_surveyed, survey,
};
use std::fs;
use std::io::{self, IsTerminal, Write};
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
    /// The links.
    file: PathBuf,
    #[command(flatten)]
    api: Api,
    /// Where the links come from; by default it is recognised. edgelink: on every line a JSON object (the fields of POST /links,
    /// or a line of an export) or a URL. The others: see control-plane/book/docs/start/import.md.
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<Format>,
    /// The encoding of FILE by its label, as utf-8, utf-16le, windows-1252; by default it is recognised.
    #[arg(long, value_name = "LABEL", value_parser = encoding)]
    encoding: Option<&'static Encoding>,
    /// The field of a link that a column has, as short_id=customSlug, or - to leave it out. May be repeated.
    #[arg(long, value_name = "COLUMN=FIELD")]
    column: Vec<String>,
    /// The address of the other system (shlink-api, kutt, bitly), whose links are fetched into FILE first.
    #[arg(long, value_name = "URL", requires = "source_key_file")]
    source_url: Option<String>,
    /// A file that holds the API key, or token, of the other system.
    #[arg(long, value_name = "FILE", env = "EDGELINK_SOURCE_KEY_FILE")]
    source_key_file: Option<PathBuf>,
    /// Fetch the rules of Shlink's links as well: a request for each link that has some.
    #[arg(long)]
    rules: bool,
    /// Only say what would be imported.
    #[arg(long)]
    dry_run: bool,
    /// Import although something of the links is not kept, or some are refused; otherwise that is asked on a terminal, and
    /// nothing is imported elsewhere.
    #[arg(long, short)]
    yes: bool,
    /// Where items that are not imported, or not as they were, are reported. Default: <FILE>.report
    #[arg(long, value_name = "FILE", alias = "errors")]
    report: Option<PathBuf>,
    /// Where the progress of the import is stored. Default: <FILE>.checkpoint
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// How many records are sent at once, 1 to 10000.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    batch: u16,
    /// The domain of links without one, or OLD=NEW: the domain that links on another one get. May be repeated.
    #[arg(long, value_name = "DOMAIN|OLD=NEW")]
    domain: Vec<String>,
    /// Take a link that exists with the same target and settings instead of creating another one.
    #[arg(long)]
    find_if_exists: bool,
    /// Leave out dates of creation and counts of visits, which only admin keys may set.
    #[arg(long)]
    no_history: bool,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    let words = PossibleValuesParser::new(Format::ALL.map(Format::word));
    words.map(|word| Format::of_word(&word).unwrap_or_default())
}

fn encoding(label: &str) -> Result<&'static Encoding, String> {
    let encoding = Encoding::for_label(label.as_bytes());
    encoding.ok_or_else(|| "is not the label of an encoding".to_owned())
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

/// The error that stopped a transfer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("give an API key: --key, --key-file, EDGELINK_API_KEY or EDGELINK_AUTH_ADMIN_KEY_FILE")]
    NoKey,
    #[error("--source-url goes with --from shlink-api, kutt or bitly")]
    NoPeer,
    #[error("{}: {source}", path.display())]
    KeyFile { path: PathBuf, source: io::Error },
    #[error("{0}\nRun the same command again to go on from where it stopped.")]
    Transfer(#[from] TransferError),
    #[error("--column {0}")]
    Column(#[from] ColumnMapError),
    #[error("{failed} were not imported: see {}", report.display())]
    Incomplete { failed: u64, report: PathBuf },
    #[error("nothing was imported: see above and {}; --yes imports the rest", report.display())]
    NotWhole { report: PathBuf },
}

impl ImportArguments {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let client = self.api.client()?;
        if let Some(peer) = self.peer()? {
            let links = fetch(&peer, &self.file, &beside(&self.file, ".fetched")).await?;
            println!("{links} links fetched into {}", self.file.display());
        }
        let options = ImportOptions {
            mapping: self.mapping()?,
            report: self.report.unwrap_or_else(|| beside(&self.file, ".report")),
            checkpoint: self
                .checkpoint
                .unwrap_or_else(|| beside(&self.file, ".checkpoint")),
            file: self.file,
            batch: self.batch.into(),
            memory: ImportMemory::default(),
            is_dry_run: self.dry_run,
        };
        let file = survey(&options.file, &options.mapping)?;
        show_survey(&file.survey, &options.file);
        // An import that goes on was agreed to when it began.
        if !options.is_dry_run && !options.checkpoint.exists() {
            let is_whole = try_out(&client, &file, &options).await?;
            if !is_whole && !self.yes && !confirmed() {
                let report = options.report;
                return Err(CommandError::NotWhole { report });
            }
        }
        let summary = import_surveyed(&client, &file, &options).await?;
        println!("{}", description(&summary, options.is_dry_run));
        if summary.noted > 0 {
            println!("see {}", options.report.display());
        }
        match summary.failed() {
            0 => Ok(()),
            failed => Err(CommandError::Incomplete {
                failed,
                report: options.report,
            }),
        }
    }

    /// The system that is asked for its links; `None` if FILE has them.
    fn peer(&self) -> Result<Option<Peer>, CommandError> {
        let (Some(url), Some(path)) = (&self.source_url, &self.source_key_file) else {
            return Ok(None);
        };
        let format = self.from.filter(|format| format.has_peers());
        Ok(Some(Peer {
            format: format.ok_or(CommandError::NoPeer)?,
            url: url.clone(),
            key: key_of(path)?,
            has_rules: self.rules,
        }))
    }

    fn mapping(&self) -> Result<Mapping, CommandError> {
        let mut mapping = Mapping {
            format: self.from,
            encoding: self.encoding,
            find_if_exists: self.find_if_exists,
            is_without_history: self.no_history,
            ..Mapping::default()
        };
        for column in &self.column {
            mapping.columns.add(column)?;
        }
        for domain in &self.domain {
            mapping.add_domain(domain);
        }
        Ok(mapping)
    }
}

/// Prints what is in the file.
fn show_survey(survey: &Survey, file: &Path) {
    println!("{}: {survey}", file.display());
    for warning in survey.warnings() {
        println!("  {warning}");
    }
}

/// Tries the import out, prints its outcome, and returns whether all would be imported and kept.
async fn try_out(
    client: &ApiClient,
    file: &SurveyedFile,
    options: &ImportOptions,
) -> Result<bool, CommandError> {
    let trial = ImportOptions {
        is_dry_run: true,
        ..options.clone()
    };
    let summary = import_surveyed(client, file, &trial).await?;
    println!("{}", description(&summary, true));
    let is_whole = file.survey.warnings().next().is_none();
    Ok(is_whole && summary.failed() == 0 && summary.noted == 0)
}

/// Asks on a terminal whether to go on; `false` elsewhere.
fn confirmed() -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    print!("Import the rest? [y/N] ");
    let mut answer = String::new();
    let is_read = io::stdout().flush().is_ok() && io::stdin().read_line(&mut answer).is_ok();
    is_read && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Describes an import in one line.
fn description(summary: &ImportSummary, is_dry_run: bool) -> String {
    let ImportSummary {
        records,
        created,
        visits,
        existing,
        conflicts,
        refused,
        noted,
    } = summary;
    let would = if is_dry_run { "would be " } else { "" };
    format!(
        "{records} records: {created} {would}created with {visits} visits, {existing} existing, {conflicts} conflicts, \
         {refused} refused; of {noted} something is not kept"
    )
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
            (None, Some(path)) => key_of(path)?,
            (None, None) => return Err(CommandError::NoKey),
        };
        let client = ApiClient::new(&self.url, key.trim());
        Ok(client.map_err(TransferError::from)?)
    }
}

fn key_of(path: &Path) -> Result<String, CommandError> {
    let key = fs::read_to_string(path).map_err(|source| CommandError::KeyFile {
        path: path.to_owned(),
        source,
    })?;
    Ok(key.trim().to_owned())
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
