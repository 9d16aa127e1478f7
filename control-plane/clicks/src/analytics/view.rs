//! The view of a click in APIs.

use super::model::Described;
use edgelink_wire::click_id;
use serde::Serialize;
use utoipa::ToSchema;

/// What is known of a click, without address and token of the visitor.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ClickVisitor)]
pub struct VisitorView<'a> {
    /// The status of the answer; null where a click is only counted, and nothing else is known of it.
    pub status: Option<u16>,
    /// The priority of the rule that matched.
    pub rule: Option<u8>,
    /// Two letters of ISO 3166-1.
    pub country: Option<&'a str>,
    pub city: Option<&'a str>,
    /// desktop, mobile, tablet or other.
    pub device: Option<&'static str>,
    pub browser: Option<&'a str>,
    pub os: Option<&'a str>,
    /// Whether the user agent is that of a bot or another program; null where it is not known.
    pub bot: Option<bool>,
    /// The host that has referred.
    pub referrer: Option<&'a str>,
    pub language: Option<&'a str>,
    pub utm_source: Option<&'a str>,
    pub utm_medium: Option<&'a str>,
    pub utm_campaign: Option<&'a str>,
    pub utm_term: Option<&'a str>,
    pub utm_content: Option<&'a str>,
    pub user_agent: Option<&'a str>,
    /// The id that the target was given, of links that track conversions.
    pub click_id: Option<String>,
}

fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

impl<'a> VisitorView<'a> {
    /// Builds the view of a click; empty texts and zeros become `None`.
    pub fn new(described: &'a Described) -> Self {
        let [source, medium, campaign, term, content] = &described.utm;
        let agent = &described.agent;
        let device = agent.device.as_str();
        Self {
            status: (described.status > 0).then_some(described.status),
            rule: (described.rule > 0).then_some(described.rule),
            country: known(&described.country),
            city: known(&described.city),
            device: (!device.is_empty()).then_some(device),
            browser: known(&agent.browser),
            os: known(&agent.os),
            bot: (!described.user_agent.is_empty()).then_some(agent.is_bot),
            referrer: known(&described.referrer),
            language: known(&described.language),
            utm_source: known(source),
            utm_medium: known(medium),
            utm_campaign: known(campaign),
            utm_term: known(term),
            utm_content: known(content),
            user_agent: known(&described.user_agent),
            click_id: described.id.map(click_id::to_text),
        }
    }
}
