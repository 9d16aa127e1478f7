//! Required behaviour of the edge, written once and run on every host: the wasmtime one and real Envoy.
//!
//! A scenario is an `async fn(&mut impl Edge)` in [`lookup`], [`failure`], [`hosts`], [`request`], [`rules`], [`visits`]
//! or [`properties`]. [`for_each_scenario!`] makes a test of each of them:
//!
//! ```ignore
//! async fn edge() -> MyEdge { ... }
//! edgelink_tests::for_each_scenario!(edge);
//! ```
//!
//! Scenarios may share one edge: each uses its own codes and scripts the control plane for these only.

pub mod failure;
pub mod hosts;
pub mod lookup;
pub mod properties;
pub mod request;
pub mod rules;
pub mod visits;

use edgelink_wire::feed::FeedMessage;
use edgelink_wire::record::Extension;
use edgelink_wire::rules::{Rule, Rules, encode};
use edgelink_wire::visits::{
    RETURNS_MEDIA_TYPE, RETURNS_PATH, ReturnOutcome, VisitReturn, VisitReturns,
};
use edgelink_wire::{
    CodeFilter, CodeLength, CodeSpace, FeedBatch, FeedBatchHead, FeedPosition, LinkAnswer,
    LinkRecord, Record, Snapshot, VisitsAnswer, VisitsRequest,
};
use std::time::Duration;

/// Header by which the upstream shows that a request passed through the filter. An implementation adds it to the answer
/// of its default route.
pub const PASSED_THROUGH: &str = "x-passed-through";

/// A running edge with one worker behind one trusted proxy, the filter configured with [`DOMAIN`] alone, `tierHeader` and
/// `forwardPaths` on, [`COUNTRY_HEADER`] and [`CITY_HEADER`], and a control plane that answers as scripted. An unscripted
/// code is [`Reply::Absent`] with rev 0.
#[expect(
    async_fn_in_trait,
    reason = "the futures are awaited where they are made and need not be Send"
)]
pub trait Edge {
    /// A request in flight.
    type Visit;

    /// Sends a request, and returns as soon as the filter has seen it.
    async fn start(&mut self, request: Request) -> Self::Visit;

    /// Awaits the answer of a request.
    async fn finish(&mut self, visit: Self::Visit) -> Answer;

    /// Closes the client's connection before the answer arrives, and returns once the edge has noticed.
    async fn leave(&mut self, visit: Self::Visit);

    /// From now on the control plane answers lookups of `code` with `reply`, including the pending ones.
    async fn script(&mut self, code: &str, reply: Reply);

    /// Requests for visits of `code` that the control plane has received.
    async fn visit_requests(&mut self, code: &str) -> Vec<VisitsRequest>;

    /// Number of lookups of `code` that the control plane has received.
    async fn lookups(&mut self, code: &str) -> usize;

    /// Returns once the control plane has received at least `count` lookups of `code`.
    async fn await_lookups(&mut self, code: &str, count: usize);

    /// Lets that much time pass, ticks of the filter included: at least as much, and little more.
    async fn pass(&mut self, time: Duration);

    /// The seconds since 1970 by the filter's clock.
    fn now(&self) -> u64;

    /// Configured lifetimes of cached records.
    fn lives(&self) -> Lives;

    /// Sends a request and awaits the answer.
    async fn visit(&mut self, request: Request) -> Answer {
        let visit = self.start(request).await;
        self.finish(visit).await
    }

    /// Follows a code.
    async fn follow(&mut self, code: &str) -> Answer {
        self.visit(Request::get(&format!("/{code}"))).await
    }
}

/// The only domain of the edge under test. Requests carry it as their host unless they say otherwise.
pub const DOMAIN: &str = "go.example";

/// Header with the country of a visitor.
pub const COUNTRY_HEADER: &str = "x-country";

/// Header with the city of a visitor.
pub const CITY_HEADER: &str = "x-city";

/// Configured lifetimes of records in the edge's caches.
#[derive(Clone, Copy, Debug)]
pub struct Lives {
    /// `freshSeconds` and `absentFreshSeconds`.
    pub fresh: Duration,
    /// `staleSeconds`.
    pub stale: Duration,
    /// `controlPlane.timeoutMs`.
    pub timeout: Duration,
}

/// A request as a client sends it. Bytes may be anything that the host lets through to the filter.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// `:path`, as raw bytes.
    pub path: Vec<u8>,
    /// Further headers; `host` replaces [`DOMAIN`].
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Request {
    /// A GET without headers.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self::new("GET", path.as_bytes())
    }

    /// A request without headers.
    #[must_use]
    pub fn new(method: &str, path: &[u8]) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &[u8]) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Answer to a client.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers, names in lower case, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Value of the first header of that name, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(each, _)| each == name)?;
        std::str::from_utf8(value).ok()
    }

    /// Target of a redirect.
    #[must_use]
    pub fn location(&self) -> Option<&str> {
        self.header("location")
    }

    /// The tier that answered.
    #[must_use]
    pub fn tier(&self) -> Option<&str> {
        self.header("x-edgelink-tier")
    }

    /// True if the filter passed the request to the upstream.
    #[must_use]
    pub fn passed_through(&self) -> bool {
        self.header(PASSED_THROUGH).is_some()
    }
}

/// Answer of the control plane to a lookup.
#[derive(Clone, Debug)]
pub enum Reply {
    /// 200 with that link.
    Link(LinkRecord<String>),
    /// 200 or 404, with that record.
    Record(Record<String>),
    /// 404 with an absent entry.
    Absent {
        /// The rev of the absent record.
        rev: u64,
    },
    /// That status, content type and body, whether or not they make sense.
    Raw {
        /// The status code.
        status: u16,
        /// The content type, if there is one.
        content_type: Option<&'static str>,
        /// The body.
        body: Vec<u8>,
    },
    /// 200 with a link, but for that other key.
    OtherKey(String),
    /// Answer to each request for visits: a number of visits, leased for a number of milliseconds. Such requests are
    /// scripted under [`visits_of`] a code.
    Visits {
        /// Number of visits.
        visits: u64,
        /// Duration of the lease in milliseconds.
        millis: u64,
    },
    /// No answer until the script of the code changes.
    Hang,
    /// The connection is closed without an answer.
    Reset,
}

impl Reply {
    /// HTTP response to a lookup of `key` (`{domain}/{code}`): status, content type and body; `None` if there is no
    /// response ([`Reply::Hang`], [`Reply::Reset`]).
    #[must_use]
    pub fn http(&self, key: &str) -> Option<(u16, Option<&'static str>, Vec<u8>)> {
        let answer = |key: &str, record: Record<&str>| {
            let answer = LinkAnswer {
                age_millis: 0,
                key: key.as_bytes(),
                record: &record.to_bytes(),
            };
            answer.to_bytes()
        };
        let typed = Some(LinkAnswer::MEDIA_TYPE);
        match self {
            Self::Link(link) => {
                let record = Record::Link(link.clone());
                Some((200, typed, answer(key, record.as_deref())))
            }
            Self::Record(record) => {
                let status = if matches!(record, Record::Link(_)) {
                    200
                } else {
                    404
                };
                Some((status, typed, answer(key, record.as_deref())))
            }
            Self::OtherKey(other) => {
                let record = Record::Link(link("https://example.com/other"));
                Some((200, typed, answer(other, record.as_deref())))
            }
            Self::Absent { rev } => Some((404, typed, answer(key, Record::Absent { rev: *rev }))),
            Self::Raw {
                status,
                content_type,
                body,
            } => Some((*status, *content_type, body.clone())),
            Self::Visits { .. } | Self::Hang | Self::Reset => None,
        }
    }

    /// HTTP response to a lookup of `key`, or to a request for visits of it with that body.
    #[must_use]
    pub fn to_request(
        &self,
        key: &str,
        body: &[u8],
    ) -> Option<(u16, Option<&'static str>, Vec<u8>)> {
        let Self::Visits { visits, millis } = *self else {
            return self.http(key);
        };
        let number = VisitsRequest::decode(body).ok()?.number;
        let answer = VisitsAnswer {
            number,
            visits,
            millis,
        };
        Some((200, Some(VisitsAnswer::MEDIA_TYPE), answer.to_bytes()))
    }
}

/// Script under which requests for visits of a code are answered.
#[must_use]
pub fn visits_of(code: &str) -> String {
    format!("visits:{code}")
}

/// Blocks of several links returned by one request: for each the script of its link, and the equivalent request for that
/// link alone. `None` if the path is another one.
///
/// # Panics
/// Panics if the body has no returns.
#[must_use]
pub fn returns_of(path: &str, body: &[u8]) -> Option<Vec<(String, VisitsRequest)>> {
    if path != RETURNS_PATH {
        return None;
    }
    let VisitReturns { worker, returns } = VisitReturns::decode(body).expect("returns");
    let returned = |returned: VisitReturn<'_>| {
        let key = String::from_utf8_lossy(returned.key).into_owned();
        let code = key.rsplit('/').next().unwrap_or_default();
        let request = VisitsRequest {
            worker,
            number: returned.number,
            settled: returned.settled,
            wants: false,
        };
        (visits_of(code), request)
    };
    Some(returns.into_iter().map(returned).collect())
}

/// The response that settles that many returns.
#[must_use]
pub fn settled(returns: usize) -> (u16, Option<&'static str>, Vec<u8>) {
    let outcomes = vec![ReturnOutcome::Settled; returns];
    let body = ReturnOutcome::to_bytes(&outcomes);
    (200, Some(RETURNS_MEDIA_TYPE), body)
}

/// Script under which lookups of a host are answered.
#[must_use]
pub fn host_of(host: &str) -> String {
    format!("host:{host}")
}

/// Script of a request by its path, and the link key in it; `None` for other kinds of request.
#[must_use]
pub fn script_of(path: &str) -> Option<(String, String)> {
    let code = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    if let Some(key) = path.strip_prefix("/edge/v1/links/") {
        return Some((code(key), key.to_owned()));
    }
    if let Some(host) = path.strip_prefix("/edge/v1/domains/") {
        return Some((host_of(host), format!("{host}/")));
    }
    let key = path.strip_prefix("/edge/v1/visits/")?;
    Some((visits_of(&code(key)), key.to_owned()))
}

/// An ordinary link of rev 1: 302, active, without a validity period, with the query forwarded.
#[must_use]
pub fn link(url: &str) -> LinkRecord<String> {
    LinkRecord::ordinary(url.to_owned(), 1)
}

/// An ordinary link with an extension.
#[must_use]
pub fn extended(url: &str, extension: &Extension<'_>) -> LinkRecord<String> {
    LinkRecord {
        extension: extension.to_bytes(),
        ..link(url)
    }
}

/// An ordinary link with rules, given in the API's JSON.
///
/// # Panics
/// Panics if they are invalid.
#[must_use]
pub fn with_rules(url: &str, json: &str) -> LinkRecord<String> {
    let rules: Vec<Rule> = serde_json::from_str(json).expect("rules");
    let encoded = encode(&rules).expect("valid rules");
    let extension = Extension {
        rules: Rules::of_encoded(&encoded),
        ..Extension::default()
    };
    extended(url, &extension)
}

/// An ordinary link that tracks conversions.
#[must_use]
pub fn tracking(url: &str) -> LinkRecord<String> {
    let extension = Extension {
        track_conversions: true,
        ..Extension::default()
    };
    extended(url, &extension)
}

/// An ordinary link with a limit of visits.
#[must_use]
pub fn with_limit(url: &str) -> LinkRecord<String> {
    let extension = Extension {
        max_visits: Some(1_000),
        ..Extension::default()
    };
    extended(url, &extension)
}

/// Path of the code of a number, where codes are plain numbers.
///
/// # Panics
/// Panics if the number has no code.
#[must_use]
pub fn path_of(number: u64) -> String {
    let space = CodeSpace::new(CodeLength::DEFAULT, None);
    format!("/{}", space.mint(number).expect("a number with a code"))
}

/// A snapshot at the position 5-0 of the feed, without hot links and aliases.
///
/// # Panics
/// Does not panic.
#[must_use]
pub fn snapshot(generation: u64, bound: u64) -> Vec<u8> {
    let snapshot = Snapshot {
        generation,
        position: FeedPosition::new(5, 0),
        bound,
        length: CodeLength::DEFAULT,
        key: None,
        domains: vec![DOMAIN],
        codes: CodeFilter::with_capacity(0).expect("a small filter"),
        hot: Vec::new(),
    };
    snapshot.to_bytes()
}

/// Response to a poll: one message, with `next`-0 as the position after it.
#[must_use]
pub fn feed_batch(generation: u64, next: u64, message: FeedMessage<'_>) -> Vec<u8> {
    let head = FeedBatchHead {
        generation,
        next: FeedPosition::new(next, 0),
        ..FeedBatchHead::default()
    };
    FeedBatch::encode(head, [message].iter())
}

/// Defines a `#[tokio::test]` for every scenario of [`hosts`]. `$edge` is as in
/// [`for_each_scenario!`](crate::for_each_scenario).
#[macro_export]
macro_rules! for_each_host_scenario {
    ($edge:ident) => {
        $crate::for_each_scenario! { @ $edge;
            hosts {
                host_when_unknown_is_looked_up_once_and_serves_default,
                host_when_it_is_a_domain_has_its_targets,
                host_when_its_lookup_fails_is_503_and_not_404,
                host_when_requested_by_several_is_looked_up_once,
                host_when_no_domain_name_is_not_looked_up,
            }
        }
    };
}

/// Defines a `#[tokio::test]` for every scenario. `$edge` is an `async fn() -> impl Edge` of the calling module.
#[macro_export]
macro_rules! for_each_scenario {
    ($edge:ident) => {
        $crate::for_each_scenario! { @ $edge;
            lookup {
                link_when_followed_is_cached,
                redirect_when_answered_has_status_of_its_link,
                link_when_absent_is_404_and_cached,
                link_when_disabled_is_gone,
                link_when_expired_is_gone,
                link_when_not_yet_valid_is_404,
                link_when_no_longer_fresh_is_looked_up_again,
                absence_when_no_longer_fresh_is_looked_up_again,
                record_when_older_never_replaces_newer,
                lookup_when_several_wait_is_shared,
                waiter_when_another_leaves_is_not_harmed,
                lookup_when_its_only_waiter_leaves_completes,
            }
            failure {
                lookup_when_it_fails_is_503_and_not_404,
                lookup_when_it_fails_is_not_remembered,
                answer_when_malformed_counts_as_failure,
                control_plane_when_it_hangs_is_503_in_time,
                link_when_lookup_fails_is_served_stale,
                link_when_older_than_stale_is_not_served,
                absence_when_control_plane_fails_is_not_served_as_link,
            }
            request {
                path_when_no_code_passes_through,
                method_when_there_is_no_link_passes_through,
                method_when_status_keeps_it_is_redirected,
                head_when_answered_equals_get_without_body,
                target_when_sent_is_unchanged,
                query_when_link_forwards_it_is_merged,
                header_when_bytes_are_arbitrary_does_no_harm,
                answer_when_sent_is_private_and_not_cached,
            }
            rules {
                condition_when_met_chooses_target,
                query_parameter_when_matched_chooses_target,
                date_when_condition_holds_chooses_target,
                weight_when_visitor_returns_is_stable,
                waiter_when_woken_is_sent_by_its_own_headers,
                rules_when_stale_are_served_and_then_replaced,
                rules_when_bytes_are_arbitrary_do_no_harm,
            }
            visits {
                block_when_spent_is_followed_by_another,
                link_when_no_uses_are_left_is_gone,
                waiters_when_block_is_requested_share_it,
                block_when_its_lease_expires_is_returned,
                lease_when_its_request_fails_is_503_and_not_410,
                prefetch_when_link_is_limited_uses_nothing,
                bot_when_spared_uses_nothing,
            }
            properties {
                link_when_expired_redirects_to_its_expired_url,
                path_when_link_forwards_it_joins_target,
                path_when_forwarded_never_leaves_target,
                path_when_below_any_other_code_is_404,
            }
        }
    };
    (@ $edge:ident; $($module:ident { $($name:ident,)* })*) => {
        $(mod $module {
            $(
                #[tokio::test]
                async fn $name() {
                    let mut edge = super::$edge().await;
                    $crate::scenario::$module::$name(&mut edge).await;
                }
            )*
        })*
    };
}
