//! Rate limits around the API: counting of requests, and the header fields of their answers.
//!
//! The fields are defined in draft-ietf-httpapi-ratelimit-headers-11: `RateLimit-Policy` names the limits, `RateLimit` the
//! remaining requests.

use super::client_address::{Peer, client_address, network};
use crate::app::App;
use crate::auth::Caller;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use edgelink_service::limits::{Standing, Subject, Verdict};
use edgelink_service::problem::{Kind, Problem};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Marks the response to a counted request.
#[derive(Clone, Copy)]
struct Counted;

/// Refuses requests of addresses that are over their limit before anything is looked up for them. Requests without a valid key,
/// which do not reach [`count`], are counted by their address here.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(limiter) = &app.limiter else {
        return next.run(request).await;
    };
    let address = address(&app, &request);
    let at_once = limiter.refuse_at_once(address);
    if let Some(response) = at_once.as_ref().and_then(refused) {
        return response;
    }
    let response = next.run(request).await;
    if response.extensions().get::<Counted>().is_some() {
        return response;
    }
    let verdict = limiter.take(Subject { address, key: None }).await;
    refused(&verdict).unwrap_or_else(|| with_fields(response, &verdict))
}

/// Counts requests with a valid key.
pub async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(limiter) = &app.limiter else {
        return next.run(request).await;
    };
    let caller = request.extensions().get::<Caller>().cloned();
    let subject = Subject {
        address: address(&app, &request),
        key: caller.as_ref().map(Caller::id),
    };
    let verdict = limiter.take(subject).await;
    let mut response = match refused(&verdict) {
        Some(response) => response,
        None => with_fields(next.run(request).await, &verdict),
    };
    response.extensions_mut().insert(Counted);
    response
}

/// The address, or the network, by which the client of a request is counted.
pub fn address(app: &App, request: &Request) -> IpAddr {
    let peer = request.extensions().get().copied();
    address_of(app, peer, request.headers())
}

/// The address, or the network, by which a client is counted, from its peer and headers.
pub fn address_of(app: &App, peer: Option<Peer>, headers: &HeaderMap) -> IpAddr {
    let peer = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let trusted = &app.config.server.trusted_proxies;
    network(client_address(peer, headers, trusted))
}

/// 429 if a limit is exceeded.
fn refused(verdict: &Verdict) -> Option<Response> {
    let standing = verdict.refused_by.as_ref()?;
    let (policy, rate) = (standing.policy.name(), standing.rate);
    let (capacity, per_second) = (rate.capacity, rate.per_second);
    let detail =
        format!("the limit '{policy}' is {capacity} requests at once and {per_second} a second");
    let problem = Problem::new(Kind::RateLimited).with_detail(detail);
    let mut response = with_fields(problem.into_response(), verdict);
    let seconds = HeaderValue::from(standing.window_seconds());
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    Some(response)
}

fn with_fields(mut response: Response, verdict: &Verdict) -> Response {
    let policy = |standing: &Standing| {
        let (capacity, window) = (standing.rate.capacity, standing.rate.window_seconds());
        format!("\"{}\";q={capacity};w={window}", standing.policy.name())
    };
    let limit = |standing: &Standing| {
        let (remaining, window) = (standing.remaining(), standing.window_seconds());
        format!("\"{}\";r={remaining};t={window}", standing.policy.name())
    };
    for (name, value) in [
        (POLICY, list(&verdict.standings, policy)),
        (LIMIT, list(&verdict.standings, limit)),
    ] {
        if let Some(value) = value {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// A list of structured fields (RFC 9651); `None` if it is empty.
fn list(standings: &[Standing], item: impl Fn(&Standing) -> String) -> Option<HeaderValue> {
    let items: Vec<String> = standings.iter().map(item).collect();
    let value = HeaderValue::try_from(items.join(", ")).ok()?;
    (!items.is_empty()).then_some(value)
}
