//! The survey of a file: what is in it, and what of that is not understood, before anything is imported.

use super::columns::RowFields;
use super::format::Format;
use super::meaning::Meaning;
use super::record::RecordContent;
use super::{LinkFile, Mapping, canonical, is_malformed, is_of, recognised};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use url::Url;

/// The most columns and states, and the most domains, that a survey names.
const MAX_NAMED: usize = 256;

/// The most letters of a state that a survey names.
const MAX_STATE: usize = 64;

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The format, given or recognised.
    pub format: Format,
    /// The name of the encoding.
    pub encoding: &'static str,
    /// Records that are not blank.
    pub records: u64,
    /// Length of the text in bytes of UTF-8.
    pub bytes: u64,
    /// Links without a code, which get new ones.
    pub without_code: u64,
    /// The domains that links name, and their number, in the order of their names.
    pub domains: Vec<(String, u64)>,
    /// Losses, the more frequent first.
    pub losses: Vec<(Loss, u64)>,
}

/// A part of records that links do not keep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// The column is not understood.
    Column(String),
    /// The column is known, and nothing here corresponds to it.
    Property(String),
    /// The column has a state that is not understood: such links are refused.
    State(String, String),
}

/// The reason why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum SourceProblem {
    /// It cannot be read.
    #[error(transparent)]
    File(io::Error),
    /// It has no syntax of its format from some place on.
    #[error("it is malformed: {0}")]
    Malformed(io::Error),
    /// Its format is not recognised.
    #[error("the format is not recognised; name it, one of {}", words())]
    Unrecognised,
    /// It is not of the format that was given.
    #[error("it is not of the format {}{}", .given.word(), guessed(.guess))]
    OtherFormat {
        /// The format that was given.
        given: Format,
        /// The format that it seems to have.
        guess: Option<Format>,
    },
    /// There is no record in it.
    #[error("there is no link in it")]
    Nothing,
    /// No column is known to have the codes, while some are not understood.
    #[error(
        "no column is known to have the codes of the links, and one of these may have them: {}. Map it to customSlug, or the \
         others to -",
        .0.join(", ")
    )]
    NoCodes(Vec<String>),
}

impl From<io::Error> for SourceProblem {
    fn from(error: io::Error) -> Self {
        if is_malformed(&error) {
            Self::Malformed(error)
        } else {
            Self::File(error)
        }
    }
}

fn words() -> String {
    Format::ALL.map(Format::word).join(", ")
}

fn guessed(guess: &Option<Format>) -> String {
    match guess {
        Some(guess) => format!(": it looks like {}", guess.word()),
        None => String::new(),
    }
}

impl LinkFile {
    /// Reads a file once, to its end.
    ///
    /// # Errors
    /// The reason why nothing of it is to be imported.
    pub(in super::super) fn survey(
        path: &Path,
        mapping: &Mapping,
    ) -> Result<(Self, Survey), SourceProblem> {
        let source = Self::of(path, mapping)?.ok_or(SourceProblem::Unrecognised)?;
        let guess = source.other_format()?;
        if guess.is_some() {
            let given = source.format;
            return Err(SourceProblem::OtherFormat { given, guess });
        }
        let mut counts = SurveyCounts::default();
        let mut records = source.records(0)?;
        let rows = source.rows(0);
        while let Some(record) = records.next()? {
            counts.bytes = record.end;
            match &record.content {
                RecordContent::Row(row) => counts.add(&rows.fields(row)),
                RecordContent::Line(line) => counts.add_line(&line.bytes),
                RecordContent::Wrong(..) => counts.records += 1,
            }
        }
        if counts.records == 0 {
            return Err(SourceProblem::Nothing);
        }
        if counts.targets == 0 {
            return Err(SourceProblem::OtherFormat {
                given: source.format,
                guess: recognised(path, source.encoding)?.filter(|guess| *guess != source.format),
            });
        }
        let survey = counts.into_survey(&source);
        let has_codes = survey.without_code < survey.records;
        if !has_codes && !source.format.is_own() {
            let unknown = survey.losses.iter().filter_map(|(loss, _)| match loss {
                Loss::Column(name) => Some(name.clone()),
                Loss::Property(_) | Loss::State(..) => None,
            });
            let unknown: Vec<String> = unknown.collect();
            if !unknown.is_empty() {
                return Err(SourceProblem::NoCodes(unknown));
            }
        }
        Ok((source, survey))
    }

    /// The format that the file shows, if it does not show the one that was given. A table may be given as what it is alone.
    fn other_format(&self) -> io::Result<Option<Format>> {
        let (path, encoding) = (&self.path, self.encoding);
        if self.mapping.format.is_none()
            || self.format == Format::Csv
            || is_of(path, encoding, self.format)?
        {
            return Ok(None);
        }
        let shown = recognised(path, encoding)?;
        let is_any = |format: &Format| matches!(format, Format::Csv | Format::Edgelink);
        Ok(shown.filter(|format| *format != self.format && !is_any(format)))
    }
}

#[derive(Debug, Default)]
struct SurveyCounts {
    records: u64,
    bytes: u64,
    targets: u64,
    without_code: u64,
    domains: BTreeMap<String, u64>,
    losses: BTreeMap<Loss, u64>,
}

impl SurveyCounts {
    fn add_line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        self.records += 1;
        let is_url = || str::from_utf8(line).is_ok_and(|line| Url::parse(line).is_ok());
        self.targets += u64::from(line.starts_with(b"{") || is_url());
        if let Ok(Value::Object(link)) = serde_json::from_slice(line)
            && let Some(Value::String(domain)) = link.get("domain")
        {
            add(&mut self.domains, canonical(domain));
        }
    }

    fn add(&mut self, fields: &RowFields<'_>) {
        if fields.is_blank() {
            return;
        }
        self.records += 1;
        self.without_code += u64::from(!fields.has_code());
        for domain in fields.domains() {
            add(&mut self.domains, canonical(&domain));
        }
        let mut lose = |loss| add(&mut self.losses, loss);
        for field in fields.iter().filter(|field| !field.is_empty()) {
            let name = || field.name.clone();
            match field.meaning {
                Some(Meaning::Target) => self.targets += 1,
                Some(Meaning::HasRules) if fields.lacks_rules() => {
                    lose(Loss::Property(name()));
                }
                Some(Meaning::Lost) if !field.is_off() => lose(Loss::Property(name())),
                Some(Meaning::State) if field.state().is_none() => {
                    let state = field.text().chars().take(MAX_STATE).collect();
                    lose(Loss::State(name(), state));
                }
                None => lose(Loss::Column(name())),
                Some(_) => {}
            }
        }
    }

    fn into_survey(self, source: &LinkFile) -> Survey {
        let mut losses: Vec<(Loss, u64)> = self.losses.into_iter().collect();
        losses.sort_by_key(|(_, records)| std::cmp::Reverse(*records));
        Survey {
            format: source.format,
            encoding: source.encoding.name(),
            records: self.records,
            bytes: self.bytes,
            without_code: self.without_code,
            domains: self.domains.into_iter().collect(),
            losses,
        }
    }
}

/// Counts a value, unless too many others are counted.
fn add<T: Ord>(counts: &mut BTreeMap<T, u64>, value: T) {
    if counts.len() < MAX_NAMED || counts.contains_key(&value) {
        *counts.entry(value).or_default() += 1;
    }
}

/// One line: format, encoding, number of links, domains.
impl fmt::Display for Survey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (format, encoding, records) = (self.format.word(), self.encoding, self.records);
        write!(to, "{format}, {encoding}, {records} links")?;
        for (domain, links) in &self.domains {
            write!(to, ", {links} on {domain}")?;
        }
        Ok(())
    }
}

impl Survey {
    /// Reasons to ask before the import.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let new = (self.without_code > 0 && !self.format.rules().names_codes)
            .then(|| format!("{} links have no code, and get new ones", self.without_code));
        let losses = self.losses.iter().map(|(loss, records)| match loss {
            Loss::Column(name) => {
                format!("{name} is not understood, and not kept, of {records} links")
            }
            Loss::Property(name) => format!("{name} is not kept of {records} links"),
            Loss::State(name, state) => {
                format!("{name} is not understood: {state}; {records} links are refused")
            }
        });
        new.into_iter().chain(losses)
    }
}
