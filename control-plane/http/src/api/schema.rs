//! Parameters of paths, queries and headers, for the OpenAPI document.

use edgelink_service::schemas::{
    AccountGroup, Bots, Format, Granularity, GroupBy, ListedState, Order, OrphanGroup, Period,
    ReportState, Tag, TagsMode,
};
use utoipa::IntoParams;

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
