//! Conditional targets: a link may have rules, each with a target and conditions. The target of a redirect is that of the first
//! rule all of whose conditions hold, or the link's own if there is none.
//!
//! Names and JSON are compatible with Shlink 5.1: `{"type": "device", "matchKey": null, "matchValue": "android"}`. [`Rule`] is the
//! form in the API and the store; [`encode`] validates rules and converts them to the form in records; [`evaluate`] and
//! [`explain`] work on that form, at the edge, in the control plane, and in its dry runs.

mod address;
mod city;
mod criterion;
mod encoded;
mod evaluate;
mod language;
mod reading;
mod user_agent;
mod words;
mod written;

pub use encoded::Rules;
pub use evaluate::{Chosen, ExplainedCondition, ExplainedRule, Visitor, evaluate, explain};
pub use language::MIN_QUALITY;
pub use reading::{CheckTarget, FIELD, read, read_list, read_text};
pub use user_agent::is_bot;
pub use words::{Browser, ConditionType, Device};
pub use written::{
    Condition, MAX_CONDITIONS, MAX_ENCODED_LENGTH, MAX_HEADER_BYTES, MAX_QUERY_BYTES, MAX_RULES,
    MAX_TEXT_LENGTH, Rule,
};

use crate::target::{MAX_URL_LENGTH, is_target};
use crate::varint;
use criterion::Criterion;
pub(crate) use criterion::{TIME, unix_seconds};
use std::borrow::Cow;

/// An error in rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The path from the list of rules on: `[1].conditions[0].matchValue`.
    pub path: String,
    /// The reason.
    pub reason: Cow<'static, str>,
}

/// Encodes rules for a record; empty for none.
///
/// # Errors
/// Every error in the rules.
pub fn encode(rules: &[Rule]) -> Result<Vec<u8>, Vec<RuleError>> {
    let mut errors = Errors::default();
    let mut out = Vec::new();
    if rules.len() > MAX_RULES {
        errors.refuse(String::new(), "must be at most 32 rules");
        return Err(errors.0);
    }
    for (index, rule) in rules.iter().enumerate() {
        let bytes = errors.encode_rule(rule, &format!("[{index}]"));
        varint::write_bytes(&bytes, &mut out);
    }
    if out.len() > MAX_ENCODED_LENGTH {
        errors.refuse(String::new(), "must take at most 16000 bytes together");
    }
    if errors.0.is_empty() {
        Ok(out)
    } else {
        Err(errors.0)
    }
}

#[derive(Default)]
struct Errors(Vec<RuleError>);

impl Errors {
    fn refuse(&mut self, path: String, reason: &'static str) {
        let reason = Cow::Borrowed(reason);
        self.0.push(RuleError { path, reason });
    }

    fn encode_rule(&mut self, rule: &Rule, path: &str) -> Vec<u8> {
        let mut out = Vec::new();
        if !is_target(rule.target.as_bytes()) {
            const REASON: &str = "must be 1 to 8000 visible ASCII characters";
            const { assert!(MAX_URL_LENGTH == 8000) };
            self.refuse(format!("{path}.longUrl"), REASON);
        }
        if rule.conditions.is_empty() || rule.conditions.len() > MAX_CONDITIONS {
            self.refuse(format!("{path}.conditions"), "must be 1 to 8 conditions");
        }
        varint::write_bytes(rule.target.as_bytes(), &mut out);
        for (index, condition) in rule.conditions.iter().take(MAX_CONDITIONS).enumerate() {
            match Criterion::of(condition) {
                Ok(criterion) => criterion.encode(&mut out),
                Err(refusals) => {
                    for refusal in refusals {
                        let path = format!("{path}.conditions[{index}].{}", refusal.field);
                        self.refuse(path, refusal.reason);
                    }
                }
            }
        }
        out
    }
}

#[cfg(test)]
pub(crate) mod tests;
