//! The queries.

use super::number;
use crate::links::code_of;

/// All groups of clicks.
pub(super) const GROUPS: [&str; 21] = [
    "count",
    "timeseries",
    "countries",
    "cities",
    "devices",
    "browsers",
    "os",
    "referrers",
    "languages",
    "utm_sources",
    "utm_mediums",
    "utm_campaigns",
    "utm_terms",
    "utm_contents",
    "rules",
    "statuses",
    "links",
    "tags",
    "domains",
    "bots",
    "conversions",
];

/// Groups that are queried for all intervals.
const SOME: [&str; 6] = [
    "count",
    "timeseries",
    "countries",
    "cities",
    "links",
    "tags",
];

/// An interval.
pub(super) struct Span {
    pub(super) name: &'static str,
    pub(super) query: &'static str,
    all: bool,
}

impl Span {
    /// True if a group is queried for the interval.
    pub(super) fn has(&self, group: &str) -> bool {
        self.all || SOME.contains(&group)
    }
}

pub(super) const INTERVALS: [Span; 6] = [
    Span {
        name: "24h",
        query: "interval=24h",
        all: true,
    },
    Span {
        name: "30d",
        query: "interval=30d",
        all: true,
    },
    Span {
        name: "1y",
        query: "interval=1y",
        all: true,
    },
    Span {
        name: "30d, Europe/Berlin",
        query: "interval=30d&timezone=Europe/Berlin",
        all: false,
    },
    Span {
        name: "1y, Europe/Berlin",
        query: "interval=1y&timezone=Europe/Berlin",
        all: false,
    },
    Span {
        name: "30d and the 30 days before",
        query: "interval=30d&compare=previous",
        all: false,
    },
];

/// Scope of the clicks.
pub(super) struct Whose {
    pub(super) name: &'static str,
    pub(super) query: fn(u64, u64) -> String,
}

pub(super) const SCOPES: [Whose; 4] = [
    Whose {
        name: "tenant",
        query: |_, _| String::new(),
    },
    Whose {
        name: "domain",
        query: |_, _| format!("domain={}", edgelink_tests::scenario::DOMAIN),
    },
    Whose {
        name: "hot link",
        query: |n, links| format!("shortCode={}", code_of(number(n % 3, links))),
    },
    Whose {
        name: "tag",
        query: |n, _| format!("tags=large{}", n % 10),
    },
];

/// A request that is not a query about an interval.
pub(super) struct Other {
    pub(super) name: &'static str,
    pub(super) path: fn(u64, u64) -> String,
}

pub(super) const OTHERS: [Other; 8] = [
    Other {
        name: "orphan visits by path, 30d",
        path: |_, _| "/api/v1/analytics/orphans?interval=30d".to_owned(),
    },
    Other {
        name: "page of orphan visits",
        path: |_, _| "/api/v1/analytics/orphans/visits".to_owned(),
    },
    Other {
        name: "page of a hot link's clicks",
        path: |n, links| format!("/api/v1/links/{}/clicks", code_of(number(n % 3, links))),
    },
    Other {
        name: "page of a cold link's clicks",
        path: |n, links| {
            format!(
                "/api/v1/links/{}/clicks",
                code_of(number(links / 2 + n, links))
            )
        },
    },
    Other {
        name: "Shlink: overview of visits",
        path: |_, _| "/rest/v3/visits".to_owned(),
    },
    Other {
        name: "Shlink: 20 visits of a hot link",
        path: |n, links| {
            let code = code_of(number(n % 3, links));
            format!("/rest/v3/short-urls/{code}/visits?itemsPerPage=20")
        },
    },
    Other {
        name: "Shlink: 20 visits of a tag",
        path: |n, _| format!("/rest/v3/tags/large{}/visits?itemsPerPage=20", n % 10),
    },
    Other {
        name: "Shlink: 20 visits of all links",
        path: |n, _| {
            format!(
                "/rest/v3/visits/non-orphan?itemsPerPage=20&page={}",
                1 + n % 10
            )
        },
    },
];
