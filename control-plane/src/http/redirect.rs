//! `GET /{code}`: redirects answered by the control plane itself, for installations without Envoy. Visitors see the same as at
//! an edge.

use crate::config::UnknownHosts;
use crate::http::app::App;
use crate::http::visit::Visit;
use crate::store::StoreError;
use crate::telemetry::LogThrottle;
use crate::telemetry::prometheus::{REDIRECTS, VISITS_LEASED};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::record::Extension;
use edgelink_wire::rules::Visitor;
use edgelink_wire::{Code, Domain, LinkKey, LinkRecord, Outcome, Record};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use metrics::counter;
use std::sync::Arc;
use std::time::Instant;

/// Answers a visitor. The path is taken as it was sent: a code has no character that needs to be encoded.
pub(crate) async fn follow(State(app): State<Arc<App>>, request: Request) -> Response {
    let (uri, headers, method) = (request.uri(), request.headers(), request.method());
    let Some(key) = requested_key(&app, uri, headers) else {
        return page(&app, Outcome::NotFound);
    };
    let visit = Visit::new(&app.config, uri, headers, request.extensions());
    let decided = async {
        let record = app.resolver.resolve(&key).await?.record;
        let outcome = Outcome::of(&record, visit.now());
        let outcome = admit(&app, &key, &record, outcome, method).await?;
        Ok::<_, Arc<StoreError>>((record, outcome))
    };
    match decided.await {
        Ok((record, outcome)) => answer(&app, &key, &record, outcome, &visit),
        Err(error) => {
            log_failure(&key, &error);
            page(&app, Outcome::Unavailable)
        }
    }
}

/// The outcome for a visitor of a link that may have a limit of visits. A redirect uses one, unless it is for HEAD, which is no
/// visit.
async fn admit(
    app: &App,
    key: &LinkKey,
    record: &Record<String>,
    outcome: Outcome,
    method: &Method,
) -> Result<Outcome, StoreError> {
    let Record::Link(link) = record else {
        return Ok(outcome);
    };
    let max_visits = Extension::decode_again(&link.extension).max_visits;
    if outcome != Outcome::Redirect || max_visits.is_none() {
        return Ok(outcome);
    }
    let is_visit = method != Method::HEAD;
    let has_one = match is_visit {
        true => app.store.take_visit(key, &app.config.visits).await?,
        false => app.store.has_visits(key).await?,
    };
    counter!(VISITS_LEASED).increment(u64::from(is_visit && has_one));
    Ok(if has_one {
        outcome
    } else {
        outcome.without_visits()
    })
}

/// Logs a failed lookup, throttled, because an outage meets every visitor.
fn log_failure(key: &LinkKey, error: &StoreError) {
    static THROTTLE: LogThrottle = LogThrottle::new();
    if let Some(left_out) = THROTTLE.admit(Instant::now()) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(%key, error, left_out, "looking up a link failed: the visitor gets 503");
    }
}

fn requested_key(app: &App, uri: &Uri, headers: &HeaderMap) -> Option<LinkKey> {
    let code = Code::parse(uri.path().strip_prefix('/')?).ok()?;
    Some(LinkKey::new(requested_domain(app, headers)?.clone(), code))
}

/// The domain that `Host` names. For a missing or unknown one it is the default domain, or `None` if `links.unknown_hosts` is
/// `not_found`.
fn requested_domain<'a>(app: &'a App, headers: &HeaderMap) -> Option<&'a Domain> {
    let links = &app.config.links;
    let host = headers
        .get(header::HOST)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let default = match links.unknown_hosts {
        UnknownHosts::Default => Some(links.default_domain()),
        UnknownHosts::NotFound => None,
    };
    Domain::requested(&links.domains, host, default)
}

fn answer(
    app: &App,
    key: &LinkKey,
    record: &Record<String>,
    outcome: Outcome,
    visit: &Visit<'_>,
) -> Response {
    match (outcome, record.as_bytes()) {
        (Outcome::Redirect, Record::Link(mut link)) => {
            if !link.extension.is_empty() {
                link = link.for_visitor(key.to_string().as_bytes(), visit);
            }
            redirect(&link, visit.query()).unwrap_or_else(|| page(app, Outcome::Unavailable))
        }
        (outcome, _) => page(app, outcome),
    }
}

/// The redirect; `None` if the stored target is no header value, which the checks at creation rule out.
fn redirect(link: &LinkRecord<&[u8]>, visitor_query: &[u8]) -> Option<Response> {
    let location = HeaderValue::from_bytes(&link.location(visitor_query)).ok()?;
    let status = StatusCode::from_u16(link.redirect.code()).ok()?;
    let cache_control = HeaderValue::from_static(Outcome::Redirect.cache_control());
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, cache_control),
    ];
    count(Outcome::Redirect);
    Some((status, headers).into_response())
}

/// Counts a visit, under the outcomes of the edges' metrics.
fn count(outcome: Outcome) {
    counter!(REDIRECTS, "outcome" => outcome.name()).increment(1);
}

fn page(app: &App, outcome: Outcome) -> Response {
    count(outcome);
    match outcome {
        Outcome::NotFound => app.pages.not_found(),
        Outcome::Gone => app.pages.gone(),
        Outcome::Redirect | Outcome::Unavailable => app.pages.unavailable(),
    }
}
