//! What was found: checks with their verdicts, for people and as JSON.

use serde::Serialize;
use std::fmt::{self, Display};

/// How a check came out. The greater one is the worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    #[default]
    Ok,
    /// It works, and something is to be done.
    Warning,
    /// It does not work, or what was promised is not held.
    Error,
}

impl Verdict {
    /// A warning unless it is so.
    pub(super) fn warning_unless(is_so: bool) -> Self {
        if is_so { Self::Ok } else { Self::Warning }
    }

    /// An error unless it is so.
    pub(super) fn error_unless(is_so: bool) -> Self {
        if is_so { Self::Ok } else { Self::Error }
    }

    /// By what a value has reached.
    pub(super) fn of<T: PartialOrd + Copy>(value: T, warning: T, error: T) -> Self {
        match value {
            _ if value >= error => Self::Error,
            _ if value >= warning => Self::Warning,
            _ => Self::Ok,
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, such as `database.clock`.
    pub name: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do; `None` where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
}

/// All checks, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The worst of the verdicts.
    pub verdict: Verdict,
    /// The checks.
    pub checks: Vec<Check>,
}

impl Report {
    /// Notes that something is as it should be.
    pub(super) fn ok(&mut self, name: &'static str, found: impl Display) {
        self.add(name, Verdict::Ok, found, None);
    }

    /// Notes that something is to be done.
    pub(super) fn warn(&mut self, name: &'static str, found: impl Display, advice: &'static str) {
        self.add(name, Verdict::Warning, found, Some(advice));
    }

    /// Notes that something does not work.
    pub(super) fn error(&mut self, name: &'static str, found: impl Display, advice: &'static str) {
        self.add(name, Verdict::Error, found, Some(advice));
    }

    /// Notes a check that comes out by a rule; the advice is that of its failure.
    pub(super) fn judge(
        &mut self,
        name: &'static str,
        verdict: Verdict,
        found: impl Display,
        advice: &'static str,
    ) {
        let advice = Some(advice).filter(|_| verdict > Verdict::Ok);
        self.add(name, verdict, found, advice);
    }

    /// How many checks came out like that.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        let checks = self.checks.iter();
        checks.filter(|check| check.verdict == verdict).count()
    }

    fn add(
        &mut self,
        name: &'static str,
        verdict: Verdict,
        found: impl Display,
        advice: Option<&'static str>,
    ) {
        self.verdict = self.verdict.max(verdict);
        self.checks.push(Check {
            name,
            verdict,
            found: found.to_string(),
            advice,
        });
    }
}

/// A line for each check, and one for what is to be done.
impl Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            let verdict = match check.verdict {
                Verdict::Ok => "ok",
                Verdict::Warning => "WARNING",
                Verdict::Error => "ERROR",
            };
            writeln!(formatter, "{verdict:<8} {:<24} {}", check.name, check.found)?;
            if let Some(advice) = check.advice {
                writeln!(formatter, "         {:<24} {advice}", "")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_verdict_is_that_of_the_report() {
        let mut report = Report::default();
        assert_eq!(report.verdict, Verdict::Ok);
        report.judge("one", Verdict::Ok, "well", "not said");
        report.error("two", 2, "Do something.");
        report.warn("three", "odd", "Do something else.");
        assert_eq!(report.verdict, Verdict::Error);
        assert_eq!(report.count(Verdict::Warning), 1);
        let text = report.to_string();
        assert!(!text.contains("not said"), "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["verdict"], "error");
        assert_eq!(json["checks"][0]["advice"], serde_json::Value::Null);
        assert_eq!(json["checks"][1]["found"], "2");
    }
}
