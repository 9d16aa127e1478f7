//! Reads rules from JSON, and collects all errors with their paths.

use super::words::ConditionType;
use super::written::{Condition, MAX_CONDITIONS, MAX_RULES, Rule};
use super::{RuleError, encode};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The field with the list of rules.
pub const FIELD: &str = "redirectRules";

/// Checks the target of a rule: returns it in the form in which it is sent, or the reason why it is refused.
pub type CheckTarget<'a> = dyn Fn(&str) -> Result<String, Cow<'static, str>> + 'a;

/// Reads the rules of an object that has no other field than [`FIELD`].
///
/// # Errors
/// Every error, with its path in the object.
pub fn read(
    mut object: Map<String, Value>,
    check_target: &CheckTarget<'_>,
) -> Result<Vec<Rule>, Vec<RuleError>> {
    let mut reader = RuleReader::new(check_target);
    let rules = reader.list(object.remove(FIELD));
    reader.refuse_unknown(object, "");
    let (rules, errors) = reader.finish(rules);
    if errors.is_empty() {
        Ok(rules)
    } else {
        Err(errors)
    }
}

/// Reads rules from JSON text: the object of [`read`], or only its list.
///
/// # Errors
/// Every error, with its path in the object.
pub fn read_text(text: &str, check_target: &CheckTarget<'_>) -> Result<Vec<Rule>, Vec<RuleError>> {
    let object = match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(list @ Value::Array(_)) => Ok(Map::from_iter([(FIELD.to_owned(), list)])),
        Ok(_) => Err("must be a list of rules".into()),
        Err(error) => Err(Cow::Owned(format!("must be JSON: {error}"))),
    };
    match object {
        Ok(object) => read(object, check_target),
        Err(reason) => Err(vec![RuleError {
            path: FIELD.to_owned(),
            reason,
        }]),
    }
}

/// Reads the list in the field [`FIELD`] of an object that has other fields too; returns it with all errors.
#[must_use]
pub fn read_list(
    value: Option<Value>,
    check_target: &CheckTarget<'_>,
) -> (Vec<Rule>, Vec<RuleError>) {
    let mut reader = RuleReader::new(check_target);
    let rules = reader.list(value);
    reader.finish(rules)
}

/// Reads rules. Invalid parts are replaced by valid placeholders, so that the indices of the others do not change.
struct RuleReader<'a> {
    check_target: &'a CheckTarget<'a>,
    errors: Vec<RuleError>,
}

impl<'a> RuleReader<'a> {
    fn new(check_target: &'a CheckTarget<'a>) -> Self {
        let errors = Vec::new();
        Self {
            check_target,
            errors,
        }
    }

    /// Reads the rules of a list; errors are collected.
    fn list(&mut self, value: Option<Value>) -> Vec<Rule> {
        match value {
            Some(Value::Array(rules)) if rules.len() <= MAX_RULES => {
                let rules = rules.into_iter().enumerate();
                rules
                    .map(|(index, rule)| self.rule(rule, &format!("{FIELD}[{index}]")))
                    .collect()
            }
            other => {
                let is_there = other.is_some();
                let must = "must be a list of at most 32 rules";
                self.refuse(
                    FIELD.to_owned(),
                    if is_there { must } else { "is required" },
                );
                Vec::new()
            }
        }
    }

    /// Checks the rules together; returns them with all errors.
    fn finish(mut self, rules: Vec<Rule>) -> (Vec<Rule>, Vec<RuleError>) {
        if let Err(errors) = encode(&rules) {
            for error in errors {
                self.refuse(format!("{FIELD}{}", error.path), error.reason);
            }
        }
        (rules, self.errors)
    }

    fn rule(&mut self, rule: Value, path: &str) -> Rule {
        let Value::Object(mut object) = rule else {
            self.refuse(path.to_owned(), "must be an object");
            let (target, conditions) = (PLACEHOLDER.to_owned(), vec![placeholder()]);
            return Rule { target, conditions };
        };
        let target = self.target(object.remove("longUrl").as_ref(), format!("{path}.longUrl"));
        let path_of = |name: &str| format!("{path}.{name}");
        let conditions = match object.remove("conditions") {
            Some(Value::Array(list)) if (1..=MAX_CONDITIONS).contains(&list.len()) => {
                let list = list.into_iter().enumerate();
                let at = |index| path_of(&format!("conditions[{index}]"));
                list.map(|(index, condition)| self.condition(condition, &at(index)))
                    .collect()
            }
            _ => {
                self.refuse(path_of("conditions"), "must be a list of 1 to 8 conditions");
                vec![placeholder()]
            }
        };
        // Answers of `GET` can be sent back; only the order of the list counts.
        object.remove("priority");
        self.refuse_unknown(object, &format!("{path}."));
        Rule { target, conditions }
    }

    fn target(&mut self, value: Option<&Value>, path: String) -> String {
        let text = value.and_then(Value::as_str);
        let text = text.ok_or(Cow::Borrowed("must be a string"));
        text.and_then(self.check_target).unwrap_or_else(|reason| {
            self.refuse(path, reason);
            PLACEHOLDER.to_owned()
        })
    }

    fn condition(&mut self, condition: Value, path: &str) -> Condition {
        let Value::Object(mut object) = condition else {
            self.refuse(path.to_owned(), "must be an object");
            return placeholder();
        };
        let kind = object.remove("type");
        let kind = kind
            .as_ref()
            .and_then(Value::as_str)
            .and_then(ConditionType::named);
        let match_key = self.text(object.remove("matchKey"), format!("{path}.matchKey"));
        let match_value = self.text(object.remove("matchValue"), format!("{path}.matchValue"));
        self.refuse_unknown(object, &format!("{path}."));
        let (Ok(match_key), Ok(match_value)) = (match_key, match_value) else {
            return placeholder();
        };
        let Some(kind) = kind else {
            let words = ConditionType::ALL.iter().map(|kind| kind.word());
            let words = words.collect::<Vec<_>>().join(", ");
            self.refuse(format!("{path}.type"), format!("must be one of {words}"));
            return placeholder();
        };
        Condition {
            kind,
            match_key,
            match_value,
        }
    }

    fn text(&mut self, value: Option<Value>, path: String) -> Result<Option<String>, ()> {
        match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => {
                self.refuse(path, "must be a string or null");
                Err(())
            }
        }
    }

    fn refuse_unknown(&mut self, object: Map<String, Value>, path: &str) {
        for (name, _) in object {
            self.refuse(format!("{path}{name}"), "is not known");
        }
    }

    fn refuse(&mut self, path: String, reason: impl Into<Cow<'static, str>>) {
        let reason = reason.into();
        self.errors.push(RuleError { path, reason });
    }
}

/// A valid target in place of an invalid one.
const PLACEHOLDER: &str = "http://a/";

/// A valid condition in place of an invalid one.
fn placeholder() -> Condition {
    Condition {
        kind: ConditionType::Weight,
        match_key: None,
        match_value: Some("1".to_owned()),
    }
}
