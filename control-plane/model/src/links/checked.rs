//! Link contents with checked targets: links take no other content.
//!
//! A target gets into one by [`CheckedTarget`] or [`CheckedRules`], which only the checks create, or from an existing link: that
//! keeps its targets, even if new links may no longer have them.

use super::model::{Link, LinkContent};
use super::utm;
use edgelink_wire::rules::{self, Rule, RuleError};
use edgelink_wire::target::{TargetError, TargetRules, TargetUrl};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::ops::Deref;

/// A target that passed the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedTarget(TargetUrl);

impl CheckedTarget {
    /// Checks a text.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(text: &str, rules: &TargetRules<'_>) -> Result<Self, TargetError> {
        rules.check(text).map(Self)
    }

    /// The target as it is sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// Conditional targets that passed the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedRules(Vec<Rule>);

impl CheckedRules {
    /// Reads the object of a request.
    ///
    /// # Errors
    /// Everything that is wrong, with its path in the object.
    pub fn read(
        object: Map<String, Value>,
        rules: &TargetRules<'_>,
    ) -> Result<Self, Vec<RuleError>> {
        rules::read(object, &check_in_rule(rules)).map(Self)
    }

    /// Reads the list of such an object: the valid rules, and all errors.
    #[must_use]
    pub fn read_list(list: Option<Value>, rules: &TargetRules<'_>) -> (Self, Vec<RuleError>) {
        let (read, errors) = rules::read_list(list, &check_in_rule(rules));
        (Self(read), errors)
    }
}

/// Checks a target of a rule like that of a link.
fn check_in_rule<'a>(
    rules: &'a TargetRules<'_>,
) -> impl Fn(&str) -> Result<String, Cow<'static, str>> + 'a {
    |text| match rules.check(text) {
        Ok(target) => Ok(target.as_str().to_owned()),
        Err(error) => Err(error.to_string().into()),
    }
}

/// A target that links may no longer have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {error}")]
pub struct WrongTarget {
    /// Its field, in the API's spelling.
    pub field: &'static str,
    /// The rule that it breaks.
    pub error: TargetError,
}

/// The content of a link with checked targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedContent(LinkContent);

impl Deref for CheckedContent {
    type Target = LinkContent;

    fn deref(&self) -> &LinkContent {
        &self.0
    }
}

impl CheckedContent {
    /// Creates the content of a link to `target` without other properties.
    #[must_use]
    pub fn to(target: CheckedTarget) -> Self {
        Self(LinkContent::to(target.0))
    }

    /// Creates a content without a target, for checking the other properties of a link whose target was refused.
    #[must_use]
    pub fn without_target() -> Self {
        Self(LinkContent::to(TargetUrl::from_store("")))
    }

    /// Takes the content of an existing link.
    #[must_use]
    pub fn existing(link: &Link) -> Self {
        Self(link.content.clone())
    }

    /// Takes the content of a link that is recreated, and checks all of its targets again.
    ///
    /// # Errors
    /// The first target that links may no longer have.
    pub fn renewed(content: &LinkContent, rules: &TargetRules<'_>) -> Result<Self, WrongTarget> {
        for (field, target) in content.targets() {
            let checked = rules.check(target);
            checked.map_err(|error| WrongTarget { field, error })?;
        }
        Ok(Self(content.clone()))
    }

    /// Replaces the target.
    pub fn set_target(&mut self, target: CheckedTarget) {
        self.0.target = target.0;
    }

    /// Replaces the target for the time after expiry.
    pub fn set_expired_url(&mut self, target: Option<CheckedTarget>) {
        self.0.details.expired_url = target.map(|target| target.as_str().to_owned());
    }

    /// Replaces the conditional targets.
    pub fn set_rules(&mut self, rules: CheckedRules) {
        self.0.details.rules = rules.0;
    }

    /// Replaces campaign parameters of the target, which otherwise stays the same.
    ///
    /// # Errors
    /// [`TargetError::Length`] if the target becomes too long.
    pub fn set_campaign(
        &mut self,
        parameters: &[Option<Option<String>>; 5],
    ) -> Result<(), TargetError> {
        self.0.target = utm::with(&self.0.target, parameters)?;
        Ok(())
    }

    /// Changes properties other than targets, which `change` gets emptied and cannot replace.
    pub fn change_others<R>(&mut self, change: impl FnOnce(&mut LinkContent) -> R) -> R {
        let content = &mut self.0;
        let target = std::mem::replace(&mut content.target, TargetUrl::from_store(""));
        let rules = std::mem::take(&mut content.details.rules);
        let expired_url = content.details.expired_url.take();
        let result = change(content);
        content.target = target;
        content.details.rules = rules;
        content.details.expired_url = expired_url;
        result
    }

    /// The content.
    #[must_use]
    pub fn into_content(self) -> LinkContent {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> TargetRules<'static> {
        TargetRules {
            own_domains: &[],
            is_made: &|_| false,
            blocked_hosts: &[],
        }
    }

    fn closed() -> TargetRules<'static> {
        TargetRules {
            is_made: &|host| host == "later.example",
            ..open()
        }
    }

    fn target(text: &str) -> CheckedTarget {
        CheckedTarget::check(text, &open()).unwrap()
    }

    fn rules(text: &str) -> CheckedRules {
        let rule = serde_json::json!({ "longUrl": text, "conditions": [{ "type": "device", "matchValue": "ios" }] });
        let (rules, errors) = CheckedRules::read_list(Some(serde_json::json!([rule])), &open());
        assert!(errors.is_empty(), "{errors:?}");
        rules
    }

    /// A content with a target in each place, of which one leads to `later.example`.
    fn content(later: usize) -> CheckedContent {
        let text = |place| {
            if place == later {
                "https://later.example/"
            } else {
                "https://example.com/"
            }
        };
        let mut content = CheckedContent::to(target(text(0)));
        content.set_expired_url(Some(target(text(1))));
        content.set_rules(rules(text(2)));
        content
    }

    #[test]
    fn content_when_renewed_checks_each_target_again() {
        let fields = ["longUrl", "expiredUrl", "redirectRules"];
        assert_eq!(content(9).targets().count(), fields.len());
        for (place, field) in fields.into_iter().enumerate() {
            let content = content(place).into_content();
            assert!(CheckedContent::renewed(&content, &open()).is_ok());
            let refused = CheckedContent::renewed(&content, &closed()).unwrap_err();
            assert_eq!(
                (refused.field, refused.error),
                (field, TargetError::OwnDomain)
            );
        }
        assert!(CheckedContent::renewed(&content(9), &closed()).is_ok());
    }

    #[test]
    fn target_when_refused_enters_no_content() {
        assert!(CheckedTarget::check("https://later.example/", &closed()).is_err());
        let rule = serde_json::json!([{ "longUrl": "https://later.example/", "conditions": [] }]);
        let (rules, errors) = CheckedRules::read_list(Some(rule), &closed());
        assert!(!errors.is_empty());
        assert!(
            rules
                .0
                .iter()
                .all(|rule| !rule.target.contains("later.example"))
        );
    }
}
