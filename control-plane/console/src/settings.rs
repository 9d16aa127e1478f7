//! The settings of an installation that affect the validity of links, and the checks by them.

use crate::json::Object;
use edgelink_wire::domain_name;
use edgelink_wire::rules::{self, Rule, RuleError};
use edgelink_wire::target::{HostPattern, TargetRules, TargetUrl};
use edgelink_wire::{Code, Domain};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The checked settings of the installation, embedded in a page.
///
/// Domains of other tenants are not among them: only the API can refuse links to these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsoleSettings {
    /// The domains of the configuration.
    domains: Vec<Domain>,
    /// The verified domains created by the tenant.
    made_domains: Vec<Domain>,
    /// Hosts that are refused as targets.
    blocked_hosts: Vec<HostPattern>,
}

impl ConsoleSettings {
    /// Reads settings from JSON.
    ///
    /// # Errors
    /// The reason why they are invalid.
    pub fn read(json: &str) -> Result<Self, String> {
        let object = Object::read(json)?;
        object.only(&["domains", "madeDomains", "blockedHosts"])?;
        let domains = |field: &str| -> Result<Vec<Domain>, String> {
            let parse = |name| Domain::parse(name).map_err(|error| format!("{field}: {error}"));
            object.texts(field)?.into_iter().map(parse).collect()
        };
        let host = |text| HostPattern::parse(text).ok_or("blockedHosts: must be hosts");
        let blocked_hosts = object.texts("blockedHosts")?.into_iter().map(host);
        Ok(Self {
            domains: domains("domains")?,
            made_domains: domains("madeDomains")?,
            blocked_hosts: blocked_hosts.collect::<Result<_, _>>()?,
        })
    }

    /// Checks the domain of a new link; returns its normal form.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn check_domain(&self, text: &str) -> Result<String, String> {
        let domain = domain_name::parse(text).map_err(|error| error.to_string())?;
        if self.domains.contains(&domain) || self.made_domains.contains(&domain) {
            Ok(domain.to_string())
        } else {
            Err(edgelink_wire::domain::UNKNOWN.to_owned())
        }
    }

    /// Checks a target; returns it in the form sent to visitors.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn check_target(&self, text: &str) -> Result<String, String> {
        let rules = TargetRules {
            own_domains: &self.domains,
            is_made: &|host| self.made_domains.iter().any(|made| made.as_str() == host),
            blocked_hosts: &self.blocked_hosts,
        };
        let checked = rules.check(text);
        checked
            .map(|target: TargetUrl| target.as_str().to_owned())
            .map_err(|error| error.to_string())
    }

    /// Reads rules: a list, or an object with one, as JSON.
    ///
    /// # Errors
    /// Every error in the rules.
    pub fn read_rules(&self, text: &str) -> Result<Vec<Rule>, Vec<RuleError>> {
        let check = |target: &str| self.check_target(target).map_err(Cow::Owned);
        rules::read_text(text, &check)
    }
}

/// Checks an alias.
///
/// # Errors
/// The reason why it is refused.
pub fn check_slug(text: &str) -> Result<(), String> {
    Code::parse(text)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// All errors in rules, as JSON.
pub(crate) fn as_json(errors: &[RuleError]) -> String {
    let error = |error: &RuleError| json!({ "path": error.path, "reason": error.reason });
    Value::Array(errors.iter().map(error).collect()).to_string()
}

/// The first error in rules, with its path.
pub(crate) fn first_reason(errors: &[RuleError]) -> String {
    let first = errors.first();
    let text = first.map(|error| [&error.path, " ", &*error.reason].concat());
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ConsoleSettings {
        let json = r#"{"domains":["go.example","127.0.0.1:8080"],"madeDomains":["brand.example"],"blockedHosts":["*.evil.example"]}"#;
        ConsoleSettings::read(json).unwrap()
    }

    #[test]
    fn settings_when_wrong_are_refused_by_name() {
        for (json, named) in [
            ("", "EOF"),
            ("[]", "must be an object"),
            (r#"{"domain":[]}"#, "domain: is not known"),
            (r#"{"domains":["a b"]}"#, "domains: must be a host"),
            (r#"{"madeDomains":["/"]}"#, "madeDomains: must be a host"),
            (r#"{"blockedHosts":["*"]}"#, "blockedHosts: must be hosts"),
        ] {
            let refused = ConsoleSettings::read(json).unwrap_err();
            assert!(refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn target_when_of_own_domain_or_blocked_host_is_refused() {
        let settings = settings();
        for (text, verdict) in [
            ("https://a.example/ä", Ok("https://a.example/%C3%A4")),
            ("", Err("must not be empty")),
            (
                "https://GO.example./x",
                Err("must not point to a domain of this shortener"),
            ),
            (
                "https://brand.example/x",
                Err("must not point to a domain of this shortener"),
            ),
            (
                "https://brand.example:8443/x",
                Ok("https://brand.example:8443/x"),
            ),
            (
                "https://x.evil.example",
                Err("must not point to a blocked host"),
            ),
        ] {
            let verdict = verdict.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(settings.check_target(text), verdict, "{text}");
        }
    }

    #[test]
    fn domain_when_not_of_the_installation_is_refused() {
        let settings = settings();
        assert_eq!(
            settings.check_domain("GO.example").as_deref(),
            Ok("go.example")
        );
        assert_eq!(
            settings.check_domain("brand.example").as_deref(),
            Ok("brand.example")
        );
        let unknown = "is not a domain of this shortener";
        assert_eq!(
            settings.check_domain("other.example"),
            Err(unknown.to_owned())
        );
        assert!(
            settings
                .check_domain("a b")
                .unwrap_err()
                .starts_with("must be a host")
        );
    }

    #[test]
    fn rules_when_a_list_or_an_object_with_one_are_read() {
        let settings = settings();
        let list = r#"[{"longUrl":"https://a.example/","conditions":[{"type":"weight","matchValue":"5"}]}]"#;
        let rules = settings.read_rules(list).unwrap();
        assert_eq!(rules.len(), 1);
        let object = format!(r#"{{"redirectRules":{list}}}"#);
        assert_eq!(settings.read_rules(&object), Ok(rules));
        let wrong = list.replace("a.example", "go.example").replace('5', "500");
        let json = Checks(settings.clone()).rules(&wrong);
        assert_eq!(
            json,
            r#"[{"path":"redirectRules[0].longUrl","reason":"must not point to a domain of this shortener"},{"path":"redirectRules[0].conditions[0].matchValue","reason":"must be a share in per cent, 1 to 99"}]"#
        );
        for text in ["", "[", "7", r#"{"rules":[]}"#] {
            assert!(settings.read_rules(text).is_err(), "{text}");
        }
        assert_eq!(settings.read_rules("[]"), Ok(vec![]));
    }

    use crate::Checks;
}
