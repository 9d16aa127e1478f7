//! Values shared by several requests, for the OpenAPI document.

use edgelink_clicks::analytics;
use edgelink_model::tenancy;
use edgelink_store::LinkEvent;
use edgelink_wire::rules::ConditionType;
use edgelink_wire::{LinkState, RedirectStatus};
use serde_json::Value;
use std::borrow::Cow;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Declares values by a list of them.
macro_rules! values {
    ($($(#[doc = $text:literal])+ $name:ident: $type:ident = $values:expr;)+) => {$(
        $(#[doc = $text])+
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let values = $values.into_iter().map(Value::from);
                let schema = ObjectBuilder::new().schema_type(Type::$type);
                let schema = schema.description(Some(concat!($($text),+).trim()));
                schema.enum_values(Some(values)).build().into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )+};
}

values! {
    /// The status of a redirect.
    Status: Integer = (300..400).filter(|code| RedirectStatus::from_code(*code).is_some());
    /// Whether visitors are redirected, or get 410.
    State: String = [LinkState::Active, LinkState::Disabled].map(LinkState::as_str);
    /// What a user or a key may do.
    Role: String = tenancy::Role::ALL.map(tenancy::Role::word);
    /// What a condition looks at.
    Kind: String = ConditionType::ALL.iter().map(|kind| kind.word());
    /// What happens to a link.
    EventName: String = LinkEvent::ALL.map(LinkEvent::word);
    /// Whether a webhook gets events.
    WebhookState: String = ["active", "paused"];
    /// By what clicks are accounted for.
    AccountGroup: String = ["edge", "worker", "hour", "day"];
    /// In which state a listed link is.
    ListedState: String = ["active", "disabled", "expired", "scheduled", "archived"];
    /// Whether a report was dealt with.
    ReportState: String = ["open", "closed"];
    /// The order of a list.
    Order: String = ["createdAt-desc", "createdAt-asc", "shortCode-asc", "shortCode-desc"];
    /// By what clicks are grouped.
    GroupBy: String = analytics::GroupBy::ALL.map(|(_, word)| word);
    /// By what orphan visits are grouped.
    OrphanGroup: String = analytics::OrphanGroup::ALL.map(|(_, word)| word);
    /// An interval that ends now.
    Period: String = analytics::Period::ALL.map(|(_, word)| word);
    /// How long the parts of a series are.
    Granularity: String = analytics::Granularity::ALL.map(analytics::Granularity::word);
    /// Whether bots count.
    Bots: String = ["included", "excluded", "only"];
    /// As what single clicks are sent.
    Format: String = ["json", "csv", "excel", "ndjson"];
    /// Whether one of several tags is enough.
    TagsMode: String = ["any", "all"];
}

/// All rules of a link, in the order in which they count.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "redirectRules": [{ "longUrl": "https://example.com/app", "conditions": [
    { "type": "device", "matchKey": null, "matchValue": "android" },
] }] }))]
#[expect(dead_code, reason = "a declaration: edgelink_wire reads rules")]
pub struct NewRules {
    #[schema(max_items = 32)]
    redirect_rules: Vec<NewRule>,
}

/// A target for visitors who meet all conditions.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "a declaration: edgelink_wire reads rules")]
pub(crate) struct NewRule {
    #[schema(format = "target-url", max_length = 8000)]
    long_url: String,
    #[schema(min_items = 1, max_items = 8)]
    conditions: Vec<Condition>,
    /// Is ignored: the order of the list counts.
    priority: Option<Value>,
}

/// A condition, in the JSON of Shlink.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "a declaration: edgelink_wire reads rules")]
pub struct Condition {
    #[serde(rename = "type")]
    kind: Kind,
    /// The name of the parameter, of conditions about the query.
    match_key: Option<String>,
    /// What it has to be; null where any value will do, or none.
    match_value: Option<String>,
}

/// A tag of 1 to 64 characters without control characters.
#[derive(ToSchema)]
#[schema(format = "line", min_length = 1, max_length = 64)]
#[expect(dead_code, reason = "a declaration")]
pub struct Tag(String);

/// A domain of this shortener.
#[derive(ToSchema)]
#[schema(format = "short-domain")]
#[expect(dead_code, reason = "a declaration")]
pub(crate) struct ShortDomain(String);
