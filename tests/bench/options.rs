//! The command line.

/// Help text.
const USAGE: &str = "usage: bench TABLE [--short] [--only NAME]
tables: all, redirects, cpu, zipf, zipf-core, rows, creation, memory, startup, reloads, changes, feed, fuel, search, delay, questions, ingest
--short: few links and short rounds, to try things out; the figures say little
--only NAME: of the targets that redirect, those whose name has NAME in it, and the reference; of engines, those whose name has it";

/// The requested table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// All of them, written to `tests/bench/RESULTS.md`.
    All,
    /// Redirects of all targets side by side.
    Redirects,
    /// Only their CPU, and only Envoy.
    Cpu,
    /// Skewed traffic.
    Zipf,
    /// Skewed traffic through the filter's logic alone.
    ZipfCore,
    /// Cost as links grow.
    Rows,
    /// Links created per second, by another target of make.
    Creation,
    /// Memory by cached link.
    Memory,
    /// Start-up time.
    Startup,
    /// Reloads of nginx.
    Reloads,
    /// Redirects while links change.
    Changes,
    /// Changes at workers.
    Feed,
    /// Instructions inside the VM.
    Fuel,
    /// Lists of the API with many links.
    Search,
    /// From a redirect to its click in the stream and in the API.
    Delay,
    /// Analytics queries on many clicks.
    Questions,
    /// Clicks into each engine.
    Ingest,
}

const NAMES: [(&str, Command); 17] = [
    ("all", Command::All),
    ("redirects", Command::Redirects),
    ("cpu", Command::Cpu),
    ("zipf", Command::Zipf),
    ("zipf-core", Command::ZipfCore),
    ("rows", Command::Rows),
    ("creation", Command::Creation),
    ("memory", Command::Memory),
    ("startup", Command::Startup),
    ("reloads", Command::Reloads),
    ("changes", Command::Changes),
    ("feed", Command::Feed),
    ("fuel", Command::Fuel),
    ("search", Command::Search),
    ("delay", Command::Delay),
    ("questions", Command::Questions),
    ("ingest", Command::Ingest),
];

impl Command {
    /// The tables that it consists of.
    pub(crate) fn parts(&self) -> &[Self] {
        const ALL: [Command; 14] = [
            Command::Redirects,
            Command::Fuel,
            Command::Zipf,
            Command::Memory,
            Command::Startup,
            Command::Reloads,
            Command::Changes,
            Command::Feed,
            Command::Rows,
            Command::Creation,
            Command::Search,
            Command::Delay,
            Command::Questions,
            Command::Ingest,
        ];
        match self {
            Self::All => &ALL,
            one => std::slice::from_ref(one),
        }
    }
}

/// Size of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// For figures.
    Full,
    /// For trying things out.
    Short,
}

impl Size {
    /// One of two values.
    pub(crate) fn pick<T>(self, full: T, short: T) -> T {
        match self {
            Self::Full => full,
            Self::Short => short,
        }
    }
}

/// The requested measurement.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) command: Command,
    pub(crate) size: Size,
    only: Option<String>,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = arguments;
        let name = arguments.next().ok_or(USAGE)?;
        let command = NAMES.iter().find(|(each, _)| *each == name);
        let (_, command) = command.ok_or_else(|| format!("no table '{name}'\n{USAGE}"))?;
        let mut options = Self {
            command: *command,
            size: Size::Full,
            only: None,
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--short" => options.size = Size::Short,
                "--only" => options.only = Some(arguments.next().ok_or(USAGE)?),
                other => return Err(format!("unknown: '{other}'\n{USAGE}")),
            }
        }
        Ok(options)
    }

    /// True if a target of that name is to be measured.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| name.to_lowercase().contains(&only.to_lowercase()))
    }
}
