//! The dry run of rules that are being edited, by the code that decides at the edge.

use crate::json::Object;
use edgelink_wire::dry_run::{DescribedVisitor, DryRun, read_address, read_below, read_time};
use edgelink_wire::password::UnlockKey;
use edgelink_wire::record::{Extension, LinkRecord};
use edgelink_wire::rules::{self, ExplainedCondition, ExplainedRule, Rule, Rules};
use edgelink_wire::{LinkState, Record, RedirectStatus};
use serde_json::{Value, json};

/// Runs `rules` for a link and a visitor, both JSON: the link has the properties that affect the redirect, with the API's names
/// and defaults, and `hasPassword`; the visitor has the fields of the API's dry run. The answer is JSON, with `outcome`, `status`,
/// `location`, `matchedRule` and `rules`, each with `matches` and `conditions`, each with `matches` and `saw`.
///
/// # Errors
/// The reason why link or visitor are invalid.
pub fn run(link: &str, rules: &[Rule], visitor: &str) -> Result<String, String> {
    let link = Object::read(link)?;
    let key = [link.text("domain")?, "/", link.text("code")?].concat();
    let encoded = rules::encode(rules).unwrap_or_default();
    // The password itself makes no difference: the visitor has it or not.
    let password = link.flag("hasPassword", false)?.then_some("");
    let extension = Extension {
        rules: Rules::of_encoded(&encoded),
        expired_url: link.optional("expiredUrl")?.map(str::as_bytes),
        forward_path: link.flag("forwardPath", false)?,
        unlock_key: password.map(|hash| UnlockKey::new(hash, key.as_bytes())),
        ..Extension::default()
    };
    let extension = extension.to_bytes();
    let record = record(&link, &extension)?;
    let mut visitor = described(&Object::read(visitor)?)?;
    visitor.unlock(key.as_bytes(), password);
    Ok(as_json(&DryRun::of(&record, key.as_bytes(), &visitor)))
}

fn record<'a>(link: &'a Object, extension: &'a [u8]) -> Result<Record<&'a [u8]>, String> {
    let default = u64::from(RedirectStatus::default().code());
    let status = u16::try_from(link.number("redirectStatus", default)?).ok();
    let redirect = status.and_then(RedirectStatus::from_code);
    let state = link
        .optional("state")?
        .map(str::parse::<LinkState>)
        .transpose();
    Ok(Record::Link(LinkRecord {
        url: link.text("longUrl")?.as_bytes(),
        redirect: redirect.ok_or("redirectStatus: must be 301, 302, 307 or 308")?,
        state: state
            .map_err(|error| format!("state: {error}"))?
            .unwrap_or_default(),
        valid_since: time(link, "validSince")?,
        valid_until: time(link, "validUntil")?,
        forward_query: link.flag("forwardQuery", true)?,
        rev: 1,
        extension,
    }))
}

fn described(visitor: &Object) -> Result<DescribedVisitor, String> {
    let text = |name| visitor.text(name).map(str::to_owned);
    let named = |field: &'static str| move |reason: &str| [field, ": ", reason].concat();
    let query = visitor.text("query")?;
    let ip = visitor.optional("ip")?.map(read_address).transpose();
    Ok(DescribedVisitor {
        path: read_below(visitor.text("path")?).map_err(named("path"))?,
        query: query.strip_prefix('?').unwrap_or(query).to_owned(),
        ip: ip.map_err(named("ip"))?,
        at: time(visitor, "at")?.ok_or("at: is required")?,
        user_agent: text("userAgent")?,
        accept_language: text("acceptLanguage")?,
        country: text("country")?,
        city: text("city")?,
        has_password: visitor.flag("hasPassword", false)?,
        ..DescribedVisitor::default()
    })
}

fn time(object: &Object, field: &str) -> Result<Option<u64>, String> {
    let time = object.optional(field)?.map(read_time).transpose();
    time.map_err(|reason| [field, ": ", reason].concat())
}

fn as_json(run: &DryRun) -> String {
    let condition = |condition: &ExplainedCondition| json!({ "matches": condition.holds, "saw": condition.saw });
    let rule = |rule: &ExplainedRule| {
        let conditions: Vec<Value> = rule.conditions.iter().map(condition).collect();
        json!({ "matches": rule.holds, "conditions": conditions })
    };
    let rules: Vec<Value> = run.rules.iter().map(rule).collect();
    let run = json!({
        "outcome": run.outcome.name(),
        "status": run.status,
        "location": run.location,
        "matchedRule": run.matched_rule(),
        "rules": rules,
    });
    run.to_string()
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

    fn ran(link: &str, rules: &[Rule], visitor: &str) -> Value {
        serde_json::from_str(&run(link, rules, visitor).unwrap()).unwrap()
    }

    #[test]
    fn dry_run_when_a_rule_matches_shows_target_and_reason() {
        let from_there = visitor(r#","country":"DE","path":"/x","query":"?a=2""#);
        assert_eq!(
            ran(LINK, &rules(), &from_there),
            json!({
                "outcome": "redirect", "status": 302, "location": "https://rule.example/x?a=2", "matchedRule": 1,
                "rules": [{"matches": true, "conditions": [{"matches": true, "saw": "DE"}]}],
            })
        );
        let elsewhere = ran(LINK, &rules(), &visitor(r#","country":"fr""#));
        assert_eq!(elsewhere["location"], "https://own.example/?a=1");
        assert_eq!(elsewhere["matchedRule"], Value::Null);
        assert_eq!(elsewhere["rules"][0]["conditions"][0]["saw"], "fr");
    }

    #[test]
    fn dry_run_when_link_is_locked_or_expired_shows_the_outcome() {
        let with = |more: &str| LINK.replace("\"title\"", &format!("{more},\"title\""));
        let locked = with("\"hasPassword\":true");
        assert_eq!(ran(&locked, &[], &visitor(""))["outcome"], "locked");
        let unlocked = ran(&locked, &[], &visitor(r#","hasPassword":true"#));
        assert_eq!(unlocked["outcome"], "redirect");
        let over = with("\"validUntil\":\"2025-01-01T00:00:00Z\"");
        assert_eq!(ran(&over, &[], &visitor(""))["status"], 410);
        let disabled = with("\"state\":\"disabled\"");
        assert_eq!(ran(&disabled, &[], &visitor(""))["status"], 410);
        let moved = with("\"redirectStatus\":308");
        assert_eq!(ran(&moved, &[], &visitor(""))["status"], 308);
    }

    #[test]
    fn dry_run_when_input_is_wrong_names_the_field() {
        for (link, visitor, named) in [
            ("{", visitor(""), "EOF"),
            (r#"{"redirectStatus":200}"#, visitor(""), "redirectStatus: "),
            (r#"{"state":"lost"}"#, visitor(""), "state: "),
            (r#"{"validSince":"soon"}"#, visitor(""), "validSince: "),
            (LINK, "[]".to_owned(), "must be an object"),
            (LINK, "{}".to_owned(), "at: is required"),
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
