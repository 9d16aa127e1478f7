//! What requests hold, for the OpenAPI document. Handlers read requests field by field, so that all mistakes are named; a test
//! sends the examples.

use crate::analytics;
use crate::store::LinkEvent;
use crate::tenancy;
use edgelink_wire::rules::ConditionType;
use edgelink_wire::{LinkState, RedirectStatus};
use serde_json::Value;
use std::borrow::Cow;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

/// Declares what requests hold. The types are declarations only.
macro_rules! requests {
    ($($(#[$attribute:meta])* struct $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)+ })+) => {$(
        #[derive(ToSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        $(#[$attribute])*
        #[expect(dead_code, reason = "a declaration")]
        pub(crate) struct $name {
            $($(#[$of_field])* $field: $type,)+
        }
    )+};
}

/// Declares requests with the properties of a link.
macro_rules! links {
    ($($(#[$attribute:meta])* struct $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)+ })+) => {
        requests! {$(
            $(#[$attribute])*
            struct $name {
                $($(#[$of_field])* $field: $type,)+
                /// Visitors get 404 before this time. It counts to the second.
                #[schema(format = "date-time")]
                valid_since: Option<String>,
                /// Visitors get 410 from this time on, which must be after `validSince`.
                #[schema(format = "date-time")]
                valid_until: Option<String>,
                /// By default 302.
                redirect_status: Option<Status>,
                /// Whether the visitor's query is merged into the target; by default true.
                forward_query: Option<bool>,
                /// A title without control characters.
                #[schema(format = "line", min_length = 1, max_length = 512)]
                title: Option<String>,
                #[schema(max_items = 32)]
                tags: Option<Vec<Tag>>,
                /// Notes for those who manage the link, of control characters with tabs and line ends only.
                #[schema(format = "notes", min_length = 1, max_length = 4096)]
                notes: Option<String>,
                /// By default `active`.
                state: Option<State>,
                /// Whether the link is put away; by default false. It redirects as before.
                archived: Option<bool>,
                /// How many visits the link has; then visitors get 410, or are sent to `expiredUrl`. By default there is no limit.
                #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
                max_visits: Option<u64>,
                /// False keeps bots from using visits of a link that has `maxVisits`; by default true. They get 503 of such a link then, and
                /// use none.
                bots_use_visits: Option<bool>,
                /// Where visitors are sent from `validUntil` on, or when no visits are left; by default they get 410. As `longUrl`.
                #[schema(format = "target-url", max_length = 8000)]
                expired_url: Option<String>,
                /// Whether what follows the code in the path is appended to that of the target; by default false.
                forward_path: Option<bool>,
                /// Whether search engines may list the link; by default false.
                crawlable: Option<bool>,
                /// Whether the target gets the id of each click in the parameter `el_click`; by default false.
                track_conversions: Option<bool>,
                /// What visitors have to give before they are redirected; by default nothing. Answers say `hasPassword` only. 1 to 255
                /// bytes.
                #[schema(format = "password", min_length = 1, max_length = 255)]
                password: Option<String>,
                /// A campaign parameter, which is a part of the target.
                #[schema(format = "line", min_length = 1, max_length = 255)]
                utm_source: Option<String>,
                #[schema(format = "line", min_length = 1, max_length = 255)]
                utm_medium: Option<String>,
                #[schema(format = "line", min_length = 1, max_length = 255)]
                utm_campaign: Option<String>,
                #[schema(format = "line", min_length = 1, max_length = 255)]
                utm_term: Option<String>,
                #[schema(format = "line", min_length = 1, max_length = 255)]
                utm_content: Option<String>,
            }
        )+}
    };
}

/// Declares parameters of requests.
macro_rules! parameters {
    ($($(#[$attribute:meta])* struct $name:ident in $place:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)+ })+) => {$(
        #[derive(IntoParams)]
        #[into_params(parameter_in = $place, rename_all = "camelCase")]
        $(#[$attribute])*
        #[expect(dead_code, reason = "a declaration")]
        pub(crate) struct $name {
            $($(#[$of_field])* $field: $type,)+
        }
    )+};
}

/// Declares values by a list of them.
macro_rules! values {
    ($($(#[doc = $text:literal])+ $name:ident: $type:ident = $values:expr;)+) => {$(
        pub(crate) struct $name;

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
    Format: String = ["json", "csv", "ndjson"];
    /// Whether one of several tags is enough.
    TagsMode: String = ["any", "all"];
}

links! {
    /// A link to be created.
    #[schema(example = json!({
        "longUrl": "https://example.com/a?b=c", "customSlug": "summer-sale", "domain": "go.example:8080",
        "validSince": "2020-01-01T00:00:00Z", "validUntil": "2099-12-31T23:59:59Z", "redirectStatus": 302,
        "forwardQuery": true, "title": "Summer sale", "tags": ["summer"], "notes": "For the newsletter", "state": "active",
        "utmSource": "newsletter", "archived": false, "expiredUrl": "https://example.com/over", "forwardPath": false,
        "crawlable": true, "trackConversions": false, "maxVisits": 1000, "botsUseVisits": true, "findIfExists": false,
    }))]
    struct NewLink {
        /// Where the link goes: http or https, without user and password, and neither on a domain of this shortener nor on a
        /// blocked host. Visible ASCII is kept byte for byte; spaces inside become `%20`; other text is percent-encoded.
        #[schema(format = "target-url", max_length = 8000)]
        long_url: String,
        /// The alias, which is case-sensitive; no reserved word. Without it a code is issued.
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        custom_slug: Option<String>,
        /// One of the domains of this shortener; by default the first of them.
        #[schema(format = "short-domain")]
        domain: Option<String>,
        /// Its id in another system, which no other link has.
        #[schema(format = "line", min_length = 1, max_length = 255)]
        external_id: Option<String>,
        /// Whether a link of the same domain, target and settings is answered, with 200, instead of creating another one.
        find_if_exists: Option<bool>,
    }

    /// A link of another system, with what it had there. Fields are those of `NewLink`.
    #[schema(example = json!({
        "longUrl": "https://example.com/old", "customSlug": "old-link", "createdAt": "2016-08-21T20:34:16+02:00",
        "importedVisits": 328, "tags": ["imported"],
    }))]
    struct ImportedLink {
        #[schema(format = "target-url", max_length = 8000)]
        long_url: String,
        /// The code, which stays what it was. Where a link to the same target has it already, that link is answered, with 200.
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        custom_slug: Option<String>,
        #[schema(format = "short-domain")]
        domain: Option<String>,
        #[schema(format = "line", min_length = 1, max_length = 255)]
        external_id: Option<String>,
        find_if_exists: Option<bool>,
        /// When it was created, in the past; by default now. Admins only.
        #[schema(format = "date-time")]
        created_at: Option<String>,
        /// How often it was visited; by default 0. Admins only.
        #[schema(maximum = 9_007_199_254_740_991_i64)]
        imported_visits: Option<u64>,
        #[schema(max_items = 32)]
        redirect_rules: Option<Vec<NewRule>>,
    }

    /// A link to be created or changed: the one with this external id. Fields are those of `NewLink`.
    #[schema(example = json!({ "longUrl": "https://example.com/b", "externalId": "cms-17", "title": "Page 17" }))]
    struct LinkUpsert {
        #[schema(format = "target-url", max_length = 8000)]
        long_url: String,
        #[schema(format = "line", min_length = 1, max_length = 255)]
        external_id: String,
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        custom_slug: Option<String>,
        #[schema(format = "short-domain")]
        domain: Option<String>,
    }

    /// A JSON merge patch (RFC 7396) of a link: a field that is missing stays, null goes back to the default. Fields are those
    /// of `NewLink`.
    #[schema(example = json!({ "longUrl": "https://example.com/new", "title": null, "tags": ["summer", "autumn"] }))]
    struct LinkPatch {
        /// Not null.
        #[schema(nullable = false, format = "target-url", max_length = 8000)]
        long_url: Option<String>,
        #[schema(format = "line", min_length = 1, max_length = 255)]
        external_id: Option<String>,
    }

    /// A patch of the link that it names.
    #[schema(example = json!({ "shortCode": "summer-sale", "title": "Summer is over" }))]
    struct NamedPatch {
        /// The code or alias.
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        short_code: String,
        /// The domain of the link; by default the first of this shortener.
        #[schema(format = "short-domain")]
        domain: Option<String>,
        /// Entity tags, or `*`: the link is changed only if it has one of them.
        #[schema(format = "entity-tags")]
        if_match: Option<String>,
        /// Not null.
        #[schema(nullable = false, format = "target-url", max_length = 8000)]
        long_url: Option<String>,
        #[schema(format = "line", min_length = 1, max_length = 255)]
        external_id: Option<String>,
    }
}

requests! {
    /// A link that is to be deleted.
    #[schema(example = json!({ "shortCode": "summer-sale" }))]
    struct NamedLink {
        /// The code or alias.
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        short_code: String,
        /// The domain of the link; by default the first of this shortener.
        #[schema(format = "short-domain")]
        domain: Option<String>,
        /// Entity tags, or `*`: the link is deleted only if it has one of them.
        #[schema(format = "entity-tags")]
        if_match: Option<String>,
    }

    /// Where a link is to be: another code, another domain, or both.
    #[schema(example = json!({ "customSlug": "autumn-sale", "keepOld": false }))]
    struct Move {
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        custom_slug: Option<String>,
        #[schema(format = "short-domain")]
        domain: Option<String>,
        /// Whether the old link goes on redirecting; by default false.
        keep_old: Option<bool>,
    }

    /// All rules of a link, in the order in which they count.
    #[schema(example = json!({ "redirectRules": [{ "longUrl": "https://example.com/app", "conditions": [
        { "type": "device", "matchKey": null, "matchValue": "android" },
    ] }] }))]
    struct NewRules {
        #[schema(max_items = 32)]
        redirect_rules: Vec<NewRule>,
    }

    /// A target for visitors who meet all conditions.
    struct NewRule {
        #[schema(format = "target-url", max_length = 8000)]
        long_url: String,
        #[schema(min_items = 1, max_items = 8)]
        conditions: Vec<Condition>,
        /// Is ignored: the order of the list counts.
        priority: Option<Value>,
    }

    /// A condition, in the JSON of Shlink.
    struct Condition {
        #[serde(rename = "type")]
        kind: Kind,
        /// The name of the parameter, of conditions about the query.
        match_key: Option<String>,
        /// What it has to be; null where any value will do, or none.
        match_value: Option<String>,
    }

    /// A visitor. What is missing is not known of the visitor, but for the time, which is now.
    #[schema(example = json!({ "userAgent": "Mozilla/5.0 (Linux; Android 15)", "country": "DE", "query": "a=b" }))]
    struct Visitor {
        user_agent: Option<String>,
        accept_language: Option<String>,
        /// What follows the code in the path, from its slash on.
        #[schema(pattern = "^(/.*)?$")]
        path: Option<String>,
        /// Whether the visitor has given the password of the link; by default false.
        has_password: Option<bool>,
        query: Option<String>,
        /// An IPv4 or IPv6 address.
        #[schema(format = "ip")]
        ip: Option<String>,
        country: Option<String>,
        city: Option<String>,
        #[schema(format = "date-time")]
        at: Option<String>,
    }

    /// What a visitor did after a click.
    #[schema(example = json!({
        "clickId": "3m8pRkD0wQzT6bY1vXcN9s", "eventName": "sale", "externalId": "order-17", "value": 4999, "currency": "EUR",
    }))]
    struct NewConversion {
        /// The value of `el_click`.
        #[schema(pattern = "^[0-9A-Za-z]{22}$")]
        click_id: String,
        /// What the visitor did.
        #[schema(format = "line", min_length = 1, max_length = 64)]
        event_name: String,
        /// Its id in another system, for which it counts once of the link.
        #[schema(format = "line", min_length = 1, max_length = 255)]
        external_id: Option<String>,
        /// What it is worth, in the smallest unit of the currency; by default 0.
        #[schema(maximum = 1_000_000_000_000_u64)]
        value: Option<u64>,
        /// Three letters of ISO 4217; needed with a value.
        #[schema(pattern = "^[A-Z]{3}$")]
        currency: Option<String>,
        /// When it was; by default now.
        #[schema(format = "date-time")]
        at: Option<String>,
    }

    /// The new name of a tag.
    #[schema(example = json!({ "tag": "season", "merge": true }))]
    struct TagPatch {
        tag: Tag,
        /// Whether links may have the new name already; by default false.
        merge: Option<bool>,
    }

    /// A key to be created.
    #[schema(example = json!({ "name": "newsletter", "role": "editor", "tags": ["summer"], "quota": 1000 }))]
    struct NewKey {
        /// 1 to 100 characters without control characters.
        #[schema(format = "account-name", min_length = 1, max_length = 100)]
        name: String,
        /// The user that it belongs to; by default that of the request.
        #[schema(maximum = 9_007_199_254_740_991_i64)]
        user_id: Option<u64>,
        /// By default `editor`. The user's role bounds it.
        role: Option<Role>,
        /// The domains that it is bound to; by default none, which is all.
        #[schema(max_items = 100)]
        domains: Option<Vec<ShortDomain>>,
        /// The tags that it is bound to; by default none, which is all.
        #[schema(max_items = 32)]
        tags: Option<Vec<Tag>>,
        /// Until when it works; in the future.
        #[schema(format = "date-time")]
        expires_at: Option<String>,
        /// How many links it may create.
        #[schema(maximum = 9_007_199_254_740_991_i64)]
        quota: Option<u64>,
    }

    /// A JSON merge patch (RFC 7396) of a key. Fields are those of `NewKey`; `name` and `role` are not null.
    #[schema(example = json!({ "name": "newsletter 2", "role": "creator", "quota": null }))]
    struct KeyPatch {
        #[schema(nullable = false, format = "account-name", min_length = 1, max_length = 100)]
        name: Option<String>,
        #[schema(nullable = false)]
        role: Option<Role>,
        #[schema(max_items = 100)]
        domains: Option<Vec<ShortDomain>>,
        #[schema(max_items = 32)]
        tags: Option<Vec<Tag>>,
        #[schema(format = "date-time")]
        expires_at: Option<String>,
        #[schema(maximum = 9_007_199_254_740_991_i64)]
        quota: Option<u64>,
    }

    /// How a secret is replaced.
    #[schema(example = json!({ "overlapSeconds": 3600 }))]
    struct Rotation {
        /// How long the old secret works beside the new one; by default not at all.
        #[schema(maximum = 604_800)]
        overlap_seconds: Option<u64>,
    }

    /// A webhook to be created.
    #[schema(example = json!({ "url": "https://hooks.example/edgelink", "events": ["link.created", "link.deleted"] }))]
    struct NewWebhook {
        /// Where events are sent: https, on one of the hosts that the configuration allows.
        #[schema(format = "webhook-url", max_length = 2000)]
        url: String,
        /// By default all of them; not null.
        #[schema(nullable = false, min_items = 1)]
        events: Option<Vec<EventName>>,
        /// By default `active`; not null.
        #[schema(nullable = false)]
        state: Option<WebhookState>,
    }

    /// A JSON merge patch (RFC 7396) of a webhook; no field is null.
    #[schema(example = json!({ "events": ["link.created"], "state": "paused" }))]
    struct WebhookPatch {
        #[schema(nullable = false, format = "webhook-url", max_length = 2000)]
        url: Option<String>,
        #[schema(nullable = false, min_items = 1)]
        events: Option<Vec<EventName>>,
        #[schema(nullable = false)]
        state: Option<WebhookState>,
    }

    /// A user to be created.
    #[schema(example = json!({ "name": "ada", "role": "editor" }))]
    struct NewUser {
        /// 1 to 100 characters without control characters, in NFC and without spaces around them; unique in the tenant.
        #[schema(format = "account-name", min_length = 1, max_length = 100)]
        name: String,
        /// By default `editor`.
        role: Option<Role>,
        /// The password for the console, 8 to 255 bytes; by default none. Answers say `hasPassword` only.
        #[schema(format = "password", min_length = 8, max_length = 255)]
        password: Option<String>,
    }

    /// A JSON merge patch (RFC 7396) of a user; no field but `password` is null.
    #[schema(example = json!({ "name": "ada l", "role": "reader", "disabled": true }))]
    struct UserPatch {
        #[schema(nullable = false, format = "account-name", min_length = 1, max_length = 100)]
        name: Option<String>,
        #[schema(nullable = false)]
        role: Option<Role>,
        /// Whether its keys and its password work no more.
        #[schema(nullable = false)]
        disabled: Option<bool>,
        /// The new password for the console, 8 to 255 bytes, which ends the sessions that began with the old one; null removes it.
        #[schema(format = "password", min_length = 8, max_length = 255)]
        password: Option<String>,
        /// False makes the user forget who logs in as it by the provider of OpenID Connect; it cannot be set to true.
        #[schema(nullable = false)]
        has_identity: Option<bool>,
        /// True has the next login by the provider under the user's name become this user, for an hour.
        #[schema(nullable = false)]
        awaits_identity: Option<bool>,
    }

    /// A domain to be made.
    #[schema(example = json!({
        "name": "brand.example", "rootUrl": "https://example.com/", "notFoundUrl": "https://example.com/none",
        "expiredUrl": "https://example.com/over", "defaultStatus": 307, "brandName": "Example",
        "brandLogo": "https://example.com/logo.svg", "brandColor": "#1a2b3c",
    }))]
    struct NewDomain {
        /// A DNS name of two labels or more, without port.
        #[schema(format = "domain-name", max_length = 253)]
        name: String,
        /// Where `/` leads.
        #[schema(format = "target-url", max_length = 2048)]
        root_url: Option<String>,
        /// Where codes lead that no link has.
        #[schema(format = "target-url", max_length = 2048)]
        not_found_url: Option<String>,
        /// Where links lead that are disabled or no longer valid.
        #[schema(format = "target-url", max_length = 2048)]
        expired_url: Option<String>,
        /// The status of redirects of new links that name none.
        default_status: Option<Status>,
        /// Whose pages for visitors they are.
        #[schema(format = "line", min_length = 1, max_length = 100)]
        brand_name: Option<String>,
        /// The logo of pages for visitors: a URL of https of at most 2048 bytes, or a data URL of a picture.
        #[schema(format = "logo", max_length = 16384)]
        brand_logo: Option<String>,
        /// The colour of pages for visitors.
        #[schema(pattern = "^#[0-9A-Fa-f]{6}$")]
        brand_color: Option<String>,
    }

    /// A JSON merge patch (RFC 7396) of a domain; null sets the default.
    #[schema(example = json!({
        "rootUrl": "https://example.com/root", "notFoundUrl": null, "expiredUrl": null, "defaultStatus": null, "verified": true,
    }))]
    struct DomainPatch {
        #[schema(format = "target-url", max_length = 2048)]
        root_url: Option<String>,
        #[schema(format = "target-url", max_length = 2048)]
        not_found_url: Option<String>,
        #[schema(format = "target-url", max_length = 2048)]
        expired_url: Option<String>,
        default_status: Option<Status>,
        #[schema(format = "line", min_length = 1, max_length = 100)]
        brand_name: Option<String>,
        #[schema(format = "logo", max_length = 16384)]
        brand_logo: Option<String>,
        #[schema(pattern = "^#[0-9A-Fa-f]{6}$")]
        brand_color: Option<String>,
        /// Whether it counts as verified: for admins of the first tenant, and not of a configured domain.
        verified: Option<bool>,
    }

    /// A JSON merge patch (RFC 7396) of a report.
    #[schema(example = json!({ "state": "closed", "disableLink": true }))]
    struct ReportPatch {
        /// Whether it is still to be looked at.
        #[schema(inline)]
        state: Option<ReportState>,
        /// Whether the link is disabled.
        disable_link: Option<bool>,
    }

    /// A tenant to be created, with a user and a key of it.
    #[schema(example = json!({ "name": "acme" }))]
    struct NewTenant {
        /// 1 to 100 characters without control characters; unique.
        #[schema(format = "account-name", min_length = 1, max_length = 100)]
        name: String,
    }
}

parameters! {
    /// Which link is meant.
    struct OfCode in Path {
        /// The code or alias.
        #[param(example = "summer-sale")]
        code: String,
    }

    /// On which domain it is.
    struct OfDomain in Query {
        /// The domain of the link; by default the first of this shortener.
        #[param(format = "short-domain")]
        domain: Option<String>,
    }

    /// Whether anything is done.
    struct DryRun in Query {
        /// Whether nothing is created, and the answer is what it would be; by default false.
        #[param(nullable = false)]
        dry_run: Option<bool>,
    }

    /// Which tag is meant.
    struct OfTag in Path {
        /// The tag, percent-encoded.
        #[param(example = "summer")]
        tag: String,
    }

    /// Which domain is meant.
    struct OfDomainName in Path {
        /// The name of the domain.
        #[param(example = "brand.example")]
        name: String,
    }

    /// A request that is safe to repeat.
    struct Idempotency in Header {
        /// For 24 hours the same request with the same key has the same answer and creates nothing.
        #[param(rename = "Idempotency-Key", nullable = false, format = "idempotency-key", min_length = 1, max_length = 255)]
        key: Option<String>,
    }

    /// A change of certain revisions only.
    struct IfMatch in Header {
        /// Entity tags, or `*`: the link is changed only if it has one of them.
        #[param(rename = "If-Match", nullable = false, format = "entity-tags")]
        if_match: Option<String>,
    }

    /// An answer about other revisions only.
    struct UnlessMatch in Header {
        /// Entity tags, or `*`: if the link has one of them, the answer is 304 without it.
        #[param(rename = "If-None-Match", nullable = false, format = "entity-tags")]
        if_none_match: Option<String>,
    }

    /// Which links are listed: those that meet all parameters.
    struct LinkQuery in Query {
        /// The `nextCursor` of the page before; it holds the order.
        #[param(pattern = "^([0-9a-f]{2})+$")]
        cursor: Option<String>,
        /// How many links at most; by default 20.
        #[param(minimum = 1, maximum = 100)]
        limit: Option<u32>,
        /// By default `createdAt-desc`. By code within a domain only.
        #[param(inline)]
        order_by: Option<Order>,
        /// 1 to 4 words. Each must begin the code, the host of the target, or a word of title or tags; or be a host with a
        /// path of the target.
        search_term: Option<String>,
        /// On this domain.
        #[param(format = "short-domain")]
        domain: Option<String>,
        /// With one of these tags.
        #[param(max_items = 10)]
        tags: Option<Vec<Tag>>,
        /// `all`: with all of these tags. By default `any`.
        #[param(inline)]
        tags_mode: Option<TagsMode>,
        /// With none of these tags.
        #[param(max_items = 10)]
        exclude_tags: Option<Vec<Tag>>,
        /// Without any tag.
        without_tags: Option<bool>,
        /// In this state.
        #[param(inline)]
        state: Option<ListedState>,
        /// Created at this time or later.
        #[param(format = "date-time")]
        created_after: Option<String>,
        /// Created before this time.
        #[param(format = "date-time")]
        created_before: Option<String>,
        /// With this id in another system.
        #[param(min_length = 1, max_length = 255)]
        external_id: Option<String>,
        /// Whether each link has its `redirectRules`; by default false.
        with_rules: Option<bool>,
    }

    /// What is asked about clicks.
    struct AnalyticsQuery in Query {
        /// By default `count`.
        #[param(inline)]
        group_by: Option<GroupBy>,
        /// `previous`: the interval before as well, of the same length.
        #[param(pattern = "^previous$")]
        compare: Option<String>,
        /// By default `included`.
        #[param(inline)]
        bots: Option<Bots>,
        /// How many values at most; by default 100. The clicks of the others are in `other`.
        #[param(minimum = 1, maximum = 1000)]
        limit: Option<u32>,
    }

    /// What is asked about orphan visits.
    struct OrphansQuery in Query {
        /// By default `paths`.
        #[param(inline)]
        group_by: Option<OrphanGroup>,
        /// By default `included`.
        #[param(inline)]
        bots: Option<Bots>,
        /// How many values at most; by default 100.
        #[param(minimum = 1, maximum = 1000)]
        limit: Option<u32>,
        /// On this domain.
        #[param(format = "short-domain")]
        domain: Option<String>,
    }

    /// The interval: one that ends now, or one from a time to another.
    struct OfTimes in Query {
        /// By default `24h`. Days begin at midnight of the time zone, and the interval ends with the present hour.
        #[param(inline)]
        interval: Option<Period>,
        /// From the hour of this time on.
        #[param(format = "date-time")]
        from: Option<String>,
        /// To the end of the hour before this time; by default now.
        #[param(format = "date-time")]
        to: Option<String>,
        /// An IANA name, such as Europe/Berlin; by default UTC. Clicks are kept by the hour of UTC: where a day begins within one,
        /// it has all of it.
        timezone: Option<String>,
        /// By default one that suits the length of the interval; 1,000 parts at most.
        #[param(inline)]
        granularity: Option<Granularity>,
    }

    /// Which reports of clicks are counted, and by what.
    struct OfAccounting in Query {
        /// From the hour of this time on; by default from the first one.
        #[param(format = "date-time")]
        from: Option<String>,
        /// To the end of the hour before this time; by default to the last one.
        #[param(format = "date-time")]
        to: Option<String>,
        /// By what `data` is, which is left out by default.
        #[param(inline)]
        group_by: Option<AccountGroup>,
    }

    /// Of which links: those that meet all parameters. Where they, or the bounds of the key, choose among links, the newest 10,000
    /// of them are looked at.
    struct OfLinks in Query {
        /// On this domain.
        #[param(format = "short-domain")]
        domain: Option<String>,
        /// The link of this code, on the domain or the default one.
        #[param(pattern = "^[0-9A-Za-z_-]{1,64}$")]
        short_code: Option<String>,
        /// The link with this id in another system.
        #[param(min_length = 1, max_length = 255)]
        external_id: Option<String>,
        /// With one of these tags.
        #[param(max_items = 10)]
        tags: Option<Vec<Tag>>,
        /// `all`: with all of these tags. By default `any`.
        #[param(inline)]
        tags_mode: Option<TagsMode>,
    }

    /// Which clicks are streamed: those that meet all parameters.
    struct OfEvents in Query {
        /// On this domain.
        #[param(format = "short-domain")]
        domain: Option<String>,
        /// Of the link of this code, on the domain or the default one.
        #[param(pattern = "^[0-9A-Za-z_-]{1,64}$")]
        short_code: Option<String>,
        /// Of links with one of these tags.
        #[param(max_items = 10)]
        tags: Option<Vec<Tag>>,
    }

    /// Which single clicks, and as what.
    struct OfRawClicks in Query {
        /// The `nextCursor` of the page before, or the `id` of a click.
        #[param(pattern = "^[0-9a-f]{32}$")]
        cursor: Option<String>,
        /// How many at most; by default 20, of a file 100,000. A page has 100 at most.
        #[param(minimum = 1, maximum = 100_000)]
        limit: Option<u32>,
        /// From this time on.
        #[param(format = "date-time")]
        from: Option<String>,
        /// Before this time.
        #[param(format = "date-time")]
        to: Option<String>,
        /// By default `included`.
        #[param(inline)]
        bots: Option<Bots>,
        /// By default what the header `Accept` names, or `json`.
        #[param(inline)]
        format: Option<Format>,
    }

    /// Which page.
    struct Page in Query {
        /// The `nextCursor` of the page before.
        #[param(pattern = "^[0-7][0-9a-f]{15}$")]
        cursor: Option<String>,
        /// How many at most; by default 20.
        #[param(minimum = 1, maximum = 100)]
        limit: Option<u32>,
    }

    /// Which reports.
    struct OfReports in Query {
        /// By default both.
        #[param(inline)]
        state: Option<ReportState>,
    }

    /// Which page of domains.
    struct DomainsPage in Query {
        /// The `nextCursor` of the page before.
        #[param(pattern = "^([0-9a-f]{2})+$")]
        cursor: Option<String>,
        /// How many at most; by default 20.
        #[param(minimum = 1, maximum = 100)]
        limit: Option<u32>,
    }

    /// Which page of keys.
    struct KeysPage in Query {
        /// The `nextCursor` of the page before.
        #[param(pattern = "^[0-9a-f]{32}$")]
        cursor: Option<String>,
        /// How many at most; by default 20.
        #[param(minimum = 1, maximum = 100)]
        limit: Option<u32>,
    }

    /// Which page of tags.
    struct TagQuery in Query {
        /// Tags that begin so.
        #[param(format = "line", min_length = 1, max_length = 64)]
        prefix: Option<String>,
        /// The `nextCursor` of the page before.
        #[param(pattern = "^([0-9a-f]{2})+$")]
        cursor: Option<String>,
        /// How many at most; by default 20.
        #[param(minimum = 1, maximum = 100)]
        limit: Option<u32>,
    }

    /// Which entries of the audit log.
    struct OfAudit in Query {
        /// What was changed, such as `key:0123456789abcdef`.
        subject: Option<String>,
        /// The id of the key that changed it.
        actor: Option<String>,
        /// What was done, such as `key.rotate`.
        action: Option<String>,
    }
}

/// A tag of 1 to 64 characters without control characters.
#[derive(ToSchema)]
#[schema(format = "line", min_length = 1, max_length = 64)]
#[expect(dead_code, reason = "a declaration")]
pub(crate) struct Tag(String);

/// A domain of this shortener.
#[derive(ToSchema)]
#[schema(format = "short-domain")]
#[expect(dead_code, reason = "a declaration")]
pub(crate) struct ShortDomain(String);
