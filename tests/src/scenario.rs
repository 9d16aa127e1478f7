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
    BatchHead, CodeFilter, CodeLength, CodeSpace, FeedBatch, FeedPosition, LinkAnswer, LinkRecord,
    Record, Snapshot, VisitsAnswer, VisitsRequest,
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
    let head = BatchHead {
        generation,
        next: FeedPosition::new(next, 0),
        ..BatchHead::default()
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
                an_unknown_host_is_asked_for_once_and_stands_for_the_default_domain,
                a_host_that_is_a_domain_is_served_as_one,
                a_host_of_which_the_control_plane_says_nothing_is_503_and_not_404,
                visitors_of_one_host_share_one_lookup_of_it,
                what_no_domain_can_be_called_is_not_asked_for,
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
                a_link_is_followed_and_then_known,
                redirect_statuses_are_those_of_the_link,
                an_absent_link_is_404_and_that_is_known,
                a_disabled_link_is_gone,
                an_expired_link_is_gone,
                a_link_that_is_not_valid_yet_is_404,
                a_known_link_is_asked_for_again_when_it_is_no_longer_fresh,
                a_known_absence_is_asked_for_again_when_it_is_no_longer_fresh,
                an_older_record_never_replaces_a_newer_one,
                visitors_of_one_code_share_one_lookup,
                a_visitor_who_leaves_harms_no_waiter,
                a_lookup_outlives_its_only_waiter,
            }
            failure {
                a_failed_lookup_is_503_and_not_404,
                a_failed_lookup_is_not_remembered,
                what_is_no_answer_is_a_failure,
                a_control_plane_that_hangs_is_503_in_time,
                a_known_link_is_served_stale_when_the_lookup_fails,
                a_link_is_not_served_when_it_is_older_than_stale,
                a_known_absence_is_not_served_as_a_link_while_the_control_plane_is_down,
            }
            request {
                paths_that_are_no_code_pass_through,
                other_methods_pass_through_where_there_is_no_link,
                a_link_redirects_other_methods_if_its_status_keeps_them,
                head_is_answered_as_get_without_a_body,
                the_target_goes_out_byte_for_byte,
                the_visitors_query_is_merged_where_the_link_says_so,
                any_bytes_in_headers_are_survived,
                an_answer_is_private_and_must_be_asked_for_again,
            }
            rules {
                each_type_of_condition_chooses_the_target,
                parameters_of_the_query_choose_the_target,
                dates_choose_the_target,
                a_share_of_the_visitors_is_always_the_same,
                waiters_are_sent_by_their_own_headers,
                rules_are_served_stale_and_replaced,
                any_bytes_in_what_rules_look_at_are_survived,
            }
            visits {
                a_block_is_spent_and_then_the_next_is_asked_for,
                a_link_without_visits_left_is_gone,
                waiters_share_the_requests_for_blocks,
                what_is_left_of_a_block_comes_back,
                a_request_for_visits_that_fails_is_503_and_not_410,
                what_is_loaded_ahead_uses_no_visit,
                bots_that_are_spared_use_no_visit,
            }
            properties {
                a_link_that_is_over_leads_to_where_its_owner_says,
                what_follows_the_code_joins_the_target_where_the_link_says_so,
                nothing_leads_out_of_the_target,
                a_path_below_any_other_code_is_404,
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
