//! The dry run of rules that are being written, by the code that decides at the edge.

use edgelink_wire::dry_run::{DescribedVisitor, DryRun, read_address, read_below, read_time};
use edgelink_wire::password::UnlockKey;
use edgelink_wire::record::{Extension, LinkRecord};
use edgelink_wire::rules::{self, ExplainedRule, Rule, Rules};
use edgelink_wire::{LinkState, Record, RedirectStatus};
use serde::{Deserialize, Serialize};

/// The link that the rules are for: what of it the redirect depends on, with the API's names and defaults.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Link {
    domain: String,
    code: String,
    long_url: String,
    redirect_status: u16,
    state: String,
    valid_since: Option<String>,
    valid_until: Option<String>,
    forward_query: bool,
    forward_path: bool,
    expired_url: Option<String>,
    has_password: bool,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            domain: String::new(),
            code: String::new(),
            long_url: String::new(),
            redirect_status: RedirectStatus::default().code(),
            state: "active".to_owned(),
            valid_since: None,
            valid_until: None,
            forward_query: true,
            forward_path: false,
            expired_url: None,
            has_password: false,
        }
    }
}

/// A visitor, with the names of the API's dry run; all but the time may be missing or empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Visitor {
    user_agent: String,
    accept_language: String,
    path: String,
    query: String,
    ip: String,
    country: String,
    city: String,
    at: String,
    has_password: bool,
}

/// Where the visitor would be sent, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    outcome: &'static str,
    status: u16,
    location: Option<String>,
    matched_rule: Option<usize>,
    rules: Vec<RunRule>,
}

/// What a rule is to the visitor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct RunRule {
    matches: bool,
    conditions: Vec<RunCondition>,
}

/// What a condition is to the visitor, and what it looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct RunCondition {
    matches: bool,
    saw: Option<String>,
}

/// Runs `rules` for a link and a visitor, both JSON.
///
/// # Errors
/// What is wrong with link or visitor.
pub fn run(link: &str, rules: &[Rule], visitor: &str) -> Result<Run, String> {
    let link: Link = serde_json::from_str(link).map_err(|error| format!("link: {error}"))?;
    let visitor: Visitor =
        serde_json::from_str(visitor).map_err(|error| format!("visitor: {error}"))?;
    let key = format!("{}/{}", link.domain, link.code);
    let encoded = rules::encode(rules).unwrap_or_default();
    // Which password it is makes no difference: the visitor has it or not.
    let password = link.has_password.then_some("");
    let extension = Extension {
        rules: Rules::of_encoded(&encoded),
        expired_url: link.expired_url.as_deref().map(str::as_bytes),
        forward_path: link.forward_path,
        unlock_key: password.map(|hash| UnlockKey::new(hash, key.as_bytes())),
        ..Extension::default()
    };
    let extension = extension.to_bytes();
    let record = link.record(&extension)?;
    let mut visitor = visitor.described()?;
    visitor.unlock(key.as_bytes(), password);
    Ok(Run::of(DryRun::of(&record, key.as_bytes(), &visitor)))
}

impl Link {
    fn record<'a>(&'a self, extension: &'a [u8]) -> Result<Record<&'a [u8]>, String> {
        let state: LinkState = self
            .state
            .parse()
            .map_err(|error| format!("state: {error}"))?;
        let redirect = RedirectStatus::from_code(self.redirect_status);
        Ok(Record::Link(LinkRecord {
            url: self.long_url.as_bytes(),
            redirect: redirect.ok_or("redirectStatus: must be 301, 302, 307 or 308")?,
            state,
            valid_since: time("validSince", self.valid_since.as_deref())?,
            valid_until: time("validUntil", self.valid_until.as_deref())?,
            forward_query: self.forward_query,
            rev: 1,
            extension,
        }))
    }
}

fn time(field: &str, text: Option<&str>) -> Result<Option<u64>, String> {
    let time = text.map(read_time).transpose();
    time.map_err(|reason| format!("{field}: {reason}"))
}

impl Visitor {
    fn described(self) -> Result<DescribedVisitor, String> {
        let named = |field: &'static str| move |reason: &str| format!("{field}: {reason}");
        let ip = Some(self.ip.as_str()).filter(|ip| !ip.is_empty());
        let query = self.query.strip_prefix('?');
        Ok(DescribedVisitor {
            path: read_below(&self.path).map_err(named("path"))?,
            query: query.unwrap_or(&self.query).to_owned(),
            ip: ip.map(read_address).transpose().map_err(named("ip"))?,
            at: read_time(&self.at).map_err(named("at"))?,
            user_agent: self.user_agent,
            accept_language: self.accept_language,
            country: self.country,
            city: self.city,
            has_password: self.has_password,
            ..DescribedVisitor::default()
        })
    }
}

impl Run {
    fn of(run: DryRun) -> Self {
        let matched_rule = run.matched_rule();
        let rule = |rule: ExplainedRule| RunRule {
            matches: rule.holds,
            conditions: rule
                .conditions
                .into_iter()
                .map(|condition| RunCondition {
                    matches: condition.holds,
                    saw: condition.saw,
                })
                .collect(),
        };
        Self {
            outcome: run.outcome.name(),
            status: run.status,
            location: run.location,
            matched_rule,
            rules: run.rules.into_iter().map(rule).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::rules::{Condition, ConditionType};

    const LINK: &str = r#"{"domain":"go.example","code":"a","longUrl":"https://own.example/?a=1","forwardPath":true,"title":"x"}"#;

    fn rules() -> Vec<Rule> {
        vec![Rule {
            target: "https://rule.example/".to_owned(),
            conditions: vec![Condition {
                kind: ConditionType::Country,
                match_key: None,
                match_value: Some("de".to_owned()),
            }],
        }]
    }

    fn visitor(more: &str) -> String {
        format!(r#"{{"at":"2026-01-01T00:00:00Z"{more}}}"#)
    }

    #[test]
    fn a_visitor_is_sent_where_the_edge_would_send_him_and_told_why() {
        let from_there = visitor(r#","country":"DE","path":"/x","query":"?a=2""#);
        let run = run(LINK, &rules(), &from_there).unwrap();
        assert_eq!(run.location.as_deref(), Some("https://rule.example/x?a=2"));
        assert_eq!(
            (run.outcome, run.status, run.matched_rule),
            ("redirect", 302, Some(1))
        );
        let elsewhere = super::run(LINK, &rules(), &visitor(r#","country":"fr""#)).unwrap();
        assert_eq!(
            elsewhere.location.as_deref(),
            Some("https://own.example/?a=1")
        );
        assert_eq!(elsewhere.matched_rule, None);
        assert_eq!(elsewhere.rules[0].conditions[0].saw.as_deref(), Some("fr"));
    }

    #[test]
    fn password_and_validity_count() {
        let locked = LINK.replace("\"title\"", "\"hasPassword\":true,\"title\"");
        assert_eq!(run(&locked, &[], &visitor("")).unwrap().outcome, "locked");
        let unlocked = run(&locked, &[], &visitor(r#","hasPassword":true"#)).unwrap();
        assert_eq!(unlocked.outcome, "redirect");
        let over = LINK.replace(
            "\"title\"",
            "\"validUntil\":\"2025-01-01T00:00:00Z\",\"title\"",
        );
        assert_eq!(run(&over, &[], &visitor("")).unwrap().status, 410);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (link, visitor, named) in [
            ("{", visitor(""), "link: "),
            (r#"{"redirectStatus":200}"#, visitor(""), "redirectStatus: "),
            (r#"{"state":"lost"}"#, visitor(""), "state: "),
            (r#"{"validSince":"soon"}"#, visitor(""), "validSince: "),
            (LINK, "[".to_owned(), "visitor: "),
            (LINK, "{}".to_owned(), "at: must be a time"),
            (LINK, visitor(r#","ip":"x""#), "ip: must be an IPv4"),
            (
                LINK,
                visitor(r#","path":"x""#),
                "path: must be what follows",
            ),
        ] {
            let refused = run(link, &[], &visitor).unwrap_err();
            assert!(refused.starts_with(named), "{refused}");
        }
    }
}
