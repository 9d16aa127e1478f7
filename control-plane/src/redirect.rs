//! `GET /{code}`: redirects answered by the control plane itself, for those who have no Envoy yet. Visitors see the same
//! as at an edge.

use crate::app::App;
use crate::clock;
use crate::config::UnknownHosts;
use crate::pages::CACHE_CONTROL;
use crate::store::StoreError;
use crate::telemetry::LogThrottle;
use crate::telemetry::prometheus::REDIRECTS;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use edgelink_wire::{Code, Domain, LinkKey, LinkRecord, LinkState, Record, query};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use metrics::counter;
use std::sync::Arc;
use std::time::Instant;

/// What a visitor gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Redirect,
    NotFound,
    Gone,
    Unavailable,
}

impl Outcome {
    /// The same words as in the metrics of the edges.
    fn as_str(self) -> &'static str {
        match self {
            Self::Redirect => "redirect",
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Answers a visitor. The path is taken as it was sent: a code has no character that needs to be encoded.
pub(crate) async fn follow(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    let Some(key) = requested_key(&app, &uri, &headers) else {
        return page(&app, Outcome::NotFound);
    };
    match app
        .resolver
        .resolve(&key)
        .await
        .map(|resolved| resolved.record)
    {
        Ok(Record::Link(link)) => answer(&app, &link, uri.query().unwrap_or_default()),
        Ok(Record::Absent { .. }) => page(&app, Outcome::NotFound),
        Err(error) => {
            log_failure(&key, &error);
            page(&app, Outcome::Unavailable)
        }
    }
}

/// An outage meets every visitor, and one line in a while tells of it.
fn log_failure(key: &LinkKey, error: &StoreError) {
    static THROTTLE: LogThrottle = LogThrottle::new();
    if let Some(left_out) = THROTTLE.admit(Instant::now()) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(%key, error, left_out, "a link cannot be looked up");
    }
}

fn requested_key(app: &App, uri: &Uri, headers: &HeaderMap) -> Option<LinkKey> {
    let code = Code::parse(uri.path().strip_prefix('/')?).ok()?;
    Some(LinkKey::new(requested_domain(app, headers)?.clone(), code))
}

/// The domain that `Host` names. One that names none, or an unknown one, is the default domain, or `None` if the
/// configuration says so.
fn requested_domain<'a>(app: &'a App, headers: &HeaderMap) -> Option<&'a Domain> {
    let links = &app.config.links;
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    host.and_then(|host| Domain::of_host(&links.domains, host))
        .or_else(|| match links.unknown_hosts {
            UnknownHosts::Default => Some(links.default_domain()),
            UnknownHosts::NotFound => None,
        })
}

fn answer(app: &App, link: &LinkRecord<String>, query: &str) -> Response {
    match outcome(link, clock::unix_seconds()) {
        Outcome::Redirect => {
            redirect(link, query).unwrap_or_else(|| page(app, Outcome::Unavailable))
        }
        outcome => page(app, outcome),
    }
}

fn outcome(link: &LinkRecord<String>, now: u64) -> Outcome {
    if link.state == LinkState::Disabled || link.valid_until.is_some_and(|until| now >= until) {
        Outcome::Gone
    } else if link.valid_since.is_some_and(|since| now < since) {
        Outcome::NotFound
    } else {
        Outcome::Redirect
    }
}

/// Nothing where the stored target cannot stand in a header, which the checks at creation rule out.
fn redirect(link: &LinkRecord<String>, visitor_query: &str) -> Option<Response> {
    let visitor_query = if link.forward_query {
        visitor_query
    } else {
        ""
    };
    let location = query::merge(&link.url, visitor_query.as_bytes());
    let location = HeaderValue::from_str(&location).ok()?;
    let status = StatusCode::from_u16(link.redirect.code()).ok()?;
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, CACHE_CONTROL),
    ];
    counter!(REDIRECTS, "outcome" => Outcome::Redirect.as_str()).increment(1);
    Some((status, headers).into_response())
}

fn page(app: &App, outcome: Outcome) -> Response {
    counter!(REDIRECTS, "outcome" => outcome.as_str()).increment(1);
    match outcome {
        Outcome::NotFound => app.pages.not_found(),
        Outcome::Gone => app.pages.gone(),
        Outcome::Redirect | Outcome::Unavailable => app.pages.unavailable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::RedirectStatus;

    fn link(
        state: LinkState,
        valid_since: Option<u64>,
        valid_until: Option<u64>,
    ) -> LinkRecord<String> {
        LinkRecord {
            url: "https://example.com/".to_owned(),
            redirect: RedirectStatus::Found,
            state,
            valid_since,
            valid_until,
            forward_query: true,
            rev: 1,
        }
    }

    #[test]
    fn a_link_redirects_from_its_first_second_up_to_the_one_before_its_last() {
        let link = link(LinkState::Active, Some(10), Some(20));
        for (now, expected) in [
            (9, Outcome::NotFound),
            (10, Outcome::Redirect),
            (19, Outcome::Redirect),
            (20, Outcome::Gone),
        ] {
            assert_eq!(outcome(&link, now), expected, "{now}");
        }
    }

    #[test]
    fn a_disabled_link_is_gone_whatever_its_validity() {
        for (since, until) in [(None, None), (Some(99), None), (None, Some(1))] {
            let link = link(LinkState::Disabled, since, until);
            assert_eq!(outcome(&link, 10), Outcome::Gone);
        }
    }
}
