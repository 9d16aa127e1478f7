//! Tables, and the claims that must hold for them to be meaningful.

use crate::machine;
use crate::options::{Options, Size};
use edgelink_tests::stack::root;
use std::fmt;

/// Rows under a header.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<'a>(head: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            head: head.into_iter().map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.head.len(), "{cells:?}");
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "| {} |", self.head.join(" | "))?;
        writeln!(to, "|{}", "---|".repeat(self.head.len()))?;
        for row in &self.rows {
            writeln!(to, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }
}

/// A table with comments on it.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    title: &'static str,
    parts: Vec<String>,
    failures: Vec<String>,
}

impl Section {
    pub(crate) fn new(title: &'static str) -> Self {
        Self {
            title,
            parts: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn text(&mut self, text: &impl fmt::Display) {
        self.parts
            .push(format!("{}\n", text.to_string().trim_end()));
    }

    /// Appends the parts of another section, under this one's title.
    pub(crate) fn parts_of(&mut self, other: Self) {
        self.parts.extend(other.parts);
        self.failures.extend(other.failures);
    }

    /// Adds a claim that must hold, or the run fails.
    pub(crate) fn claim(&mut self, claim: Claim, text: String) {
        let word = match claim {
            Claim::Kept => "holds",
            Claim::Broken => "FAILED",
        };
        self.parts.push(format!("- {word}: {text}"));
        if claim == Claim::Broken {
            self.failures.push(text);
        }
    }

    /// Adds a goal.
    pub(crate) fn goal(&mut self, value: f64, limit: Limit, what: &str) {
        let (reached, sign, limit) = match limit {
            Limit::AtMost(limit) => (value <= limit, "at most", limit),
            Limit::AtLeast(limit) => (value >= limit, "at least", limit),
        };
        let reached = if reached { "reached" } else { "not reached" };
        self.parts.push(format!(
            "- goal {reached}: {what} {value:.3}, {sign} {limit}"
        ));
    }
}

/// Outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Kept,
    Broken,
}

impl From<bool> for Claim {
    fn from(holds: bool) -> Self {
        if holds { Self::Kept } else { Self::Broken }
    }
}

/// Bound of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl fmt::Display for Section {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "## {}\n", self.title)?;
        self.parts
            .iter()
            .try_for_each(|part| writeln!(to, "{part}"))
    }
}

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Report {
    /// Of the sources before the report itself is written among them.
    headline: String,
    sections: Vec<Section>,
}

impl Report {
    pub(crate) fn start() -> Self {
        Self {
            headline: machine::headline(),
            sections: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    pub(crate) fn failures(&self) -> impl Iterator<Item = &String> {
        self.sections.iter().flat_map(|section| &section.failures)
    }

    /// Writes `tests/bench/RESULTS.md`, but not after a short run.
    pub(crate) fn write(&self, options: &Options) {
        if options.size == Size::Short {
            return;
        }
        let sections: Vec<String> = self.sections.iter().map(ToString::to_string).collect();
        let text = format!("{}\n{}", self.headline, sections.join("\n"));
        let path = root().join("tests/bench/RESULTS.md");
        std::fs::write(&path, text).expect("a file");
        println!("written: {}", path.display());
    }
}
