//! Rate limits around the API: counting of requests, and the header fields of their answers.
//!
//! The fields are defined in draft-ietf-httpapi-ratelimit-headers-11: `RateLimit-Policy` names the limits, `RateLimit` the
//! remaining requests.

use super::client_address::{PeerIp, client_address, network};
use crate::app::App;
use crate::auth::Caller;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use edgelink_service::limits::{LimitSubject, LimitVerdict, Standing};
use edgelink_service::problem::{Kind, Problem};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::net::{IpAddr, Ipv4Addr};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Marks the response to a counted request.
#[derive(Clone, Copy)]
struct CountedRequest;

/// Runs a request unless its address is over its limit, before anything is looked up for it. A request without a valid key, which
/// does not reach [`counted`], is counted by its address here.
pub async fn guarded<F>(app: &App, request: Request, run: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let Some(limiter) = &app.limiter else {
        return run(request).await;
    };
    let address = address(app, &request);
    let at_once = limiter.refuse_at_once(address);
    if let Some(response) = at_once.as_ref().and_then(refused) {
        return response;
    }
    let response = run(request).await;
    if response.extensions().get::<CountedRequest>().is_some() {
        return response;
    }
    let verdict = limiter.take(LimitSubject { address, key: None }).await;
    refused(&verdict).unwrap_or_else(|| with_fields(response, &verdict))
}

/// Runs a request with a valid key unless it is over a limit, and counts it.
pub async fn counted<F>(app: &App, request: Request, run: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let Some(limiter) = &app.limiter else {
        return run(request).await;
    };
    let caller = request.extensions().get::<Caller>().cloned();
    let subject = LimitSubject {
        address: address(app, &request),
        key: caller.as_ref().map(Caller::id),
    };
    let verdict = limiter.take(subject).await;
    let mut response = match refused(&verdict) {
        Some(response) => response,
        None => with_fields(run(request).await, &verdict),
    };
    response.extensions_mut().insert(CountedRequest);
    response
}

/// The address, or the network, by which the client of a request is counted.
pub fn address(app: &App, request: &Request) -> IpAddr {
    let peer = request.extensions().get().copied();
    address_of(app, peer, request.headers())
}

/// The address, or the network, by which a client is counted, from its peer and headers.
pub fn address_of(app: &App, peer: Option<PeerIp>, headers: &HeaderMap) -> IpAddr {
    let peer = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let trusted = &app.config.server.trusted_proxies;
    network(client_address(peer, headers, trusted))
}

/// 429 if a limit is exceeded.
fn refused(verdict: &LimitVerdict) -> Option<Response> {
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

fn with_fields(mut response: Response, verdict: &LimitVerdict) -> Response {
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
