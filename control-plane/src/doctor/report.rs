//! The report: checks with their verdicts, for people and as JSON.

use serde::Serialize;
use std::fmt::{self, Display};

/// Verdict of a check; the greater one is worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The check passed.
    #[default]
    Ok,
    /// It works, but needs attention.
    Warning,
    /// It does not work, or a guarantee does not hold.
    Error,
}

impl Verdict {
    /// A warning unless the condition holds.
    pub(super) fn warning_unless(is_so: bool) -> Self {
        if is_so { Self::Ok } else { Self::Warning }
    }

    /// An error unless the condition holds.
    pub(super) fn error_unless(is_so: bool) -> Self {
        if is_so { Self::Ok } else { Self::Error }
    }

    /// Judges a value by the thresholds of a warning and an error.
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
    /// Its verdict.
    pub verdict: Verdict,
    /// The finding.
    pub found: String,
    /// Advice; `None` if all is well.
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
    /// Adds a check that passed.
    pub(super) fn ok(&mut self, name: &'static str, found: impl Display) {
        self.add(name, Verdict::Ok, found, None);
    }

    /// Adds a warning.
    pub(super) fn warn(&mut self, name: &'static str, found: impl Display, advice: &'static str) {
        self.add(name, Verdict::Warning, found, Some(advice));
    }

    /// Adds an error.
    pub(super) fn error(&mut self, name: &'static str, found: impl Display, advice: &'static str) {
        self.add(name, Verdict::Error, found, Some(advice));
    }

    /// Adds a check with a computed verdict; the advice applies unless it passed.
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

    /// Number of checks with that verdict.
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

/// A line for each check, and one for its advice.
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
    fn report_when_checks_differ_has_the_worst_verdict() {
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
