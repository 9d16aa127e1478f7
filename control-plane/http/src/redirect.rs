//! `/{code}` and paths below it: redirects answered by the control plane itself, for installations without Envoy. Visitors get the
//! answers of an edge. A POST may be the form of a link with a password, see `unlock.rs`.

use super::pages::password_page;
use crate::app::App;
use crate::counting;
use crate::visit::{Visit, behind_code, is_counted};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::visitors::StoreError;
use edgelink_settings::config::UnknownHosts;
use edgelink_settings::domains::DomainTable;
use edgelink_settings::domains::model::Brand;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_settings::telemetry::prometheus::{REDIRECTS, VISITS_LEASED};
use edgelink_wire::clicks::attributes::is_orphan;
use edgelink_wire::clicks::events::OrphanKind;
use edgelink_wire::password::Notice;
use edgelink_wire::record::Extension;
use edgelink_wire::redirect::{ALLOW, Decision, NO_STORE, SentTo, is_visit};
use edgelink_wire::rules::Visitor;
use edgelink_wire::{Code, Domain, DomainTargets, LinkKey, Outcome, Record, RedirectStatus};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use metrics::counter;
use std::sync::Arc;
use std::time::Instant;

/// Answers a visitor. The path is taken as it was sent: a code has no character that needs to be encoded.
pub async fn follow(app: &Arc<App>, request: Request) -> Response {
    let (uri, headers, method) = (request.uri(), request.headers(), request.method());
    let domains = app.domains.current();
    let domain = requested_domain(app, &domains, headers);
    let code = Code::parse(behind_code(uri.path()).0);
    let Ok(code) = code else {
        return no_code(app, &request);
    };
    let Some(domain) = domain else {
        return unknown_host(app);
    };
    let key = LinkKey::new(domain.clone(), code);
    let targets = domains.targets(domain);
    let mut visit = Visit::new(&app.config, uri, headers, request.extensions());
    visit.set_method(method);
    let counts = is_counted(method, headers);
    if counts {
        visit.set_clicks(&app.own_clicks);
    }
    let admitted = async {
        let record = app.resolver.resolve(&key).await?.record;
        let has_visits = admit(app, &key, &record, &visit, method).await?;
        Ok::<_, Arc<StoreError>>((record, has_visits))
    };
    match admitted.await {
        Ok((record, has_visits)) => {
            visit.set_used_up(!has_visits);
            let decision = decide(&key, &record, &visit);
            // An edge would pass such a request on.
            let is_orphan = decision.outcome == Outcome::NotFound;
            if counts && !(is_orphan && visit.has_other_method()) {
                counting::count(app, &visit, &key, &decision);
            }
            let brand = domains.brand(domain);
            let mut response = answer(app, &decision, &visit, (&targets, brand));
            let limit = app.config.links.shared_cache_seconds.as_secs();
            if decision.outcome == Outcome::Redirect
                && !visit.has_other_method()
                && let Some(value) = for_shared_caches(&record.as_bytes(), visit.now(), limit)
            {
                response.headers_mut().insert(header::CACHE_CONTROL, value);
            }
            response
        }
        Err(error) => {
            log_failure(&key, &error);
            page(app, Outcome::Unavailable, domains.brand(domain))
        }
    }
}

/// Seconds for which shared caches may serve a redirect after a failed revalidation: it may have changed meanwhile.
const LATE_ON_ERROR: u64 = 300;

/// The `Cache-Control` of a redirect that shared caches may keep for `seconds`, and then serve for as long while they revalidate
/// it, and for [`LATE_ON_ERROR`] if that fails (RFC 5861), but not beyond the end of the link. `None` if they must not keep it, or
/// if visitors get different answers.
fn for_shared_caches(record: &Record<&[u8]>, now: u64, seconds: u64) -> Option<HeaderValue> {
    let Record::Link(link) = record else {
        return None;
    };
    SentTo::plain(record, now).filter(|_| seconds > 0)?;
    let left = link.valid_until.map_or(u64::MAX, |until| until - now);
    let kept = seconds.min(left);
    let late = seconds.min(left - kept);
    let failed = LATE_ON_ERROR.min(left - kept);
    let text = format!(
        "max-age=0, s-maxage={kept}, stale-while-revalidate={late}, stale-if-error={failed}"
    );
    HeaderValue::from_str(&text).ok()
}

/// The decision for a visitor.
fn decide<'a>(key: &LinkKey, record: &'a Record<String>, visit: &Visit<'_>) -> Decision<'a> {
    Decision::of(&record.as_bytes(), key.to_string().as_bytes(), visit)
}

/// True unless the link has a limit and no uses left, where that matters for the decision. A redirect takes one use if its request
/// counts as a visit.
async fn admit(
    app: &App,
    key: &LinkKey,
    record: &Record<String>,
    visit: &Visit<'_>,
    method: &Method,
) -> Result<bool, StoreError> {
    let Record::Link(link) = record else {
        return Ok(true);
    };
    let max_visits = Extension::decode_again(&link.extension).max_visits;
    if max_visits.is_none() {
        return Ok(true);
    }
    match decide(key, record, visit).outcome {
        Outcome::Redirect => {}
        Outcome::Withheld => return app.links.has_uses(key).await,
        _ => return Ok(true),
    }
    let is_visit = is_visit(method.as_str().as_bytes());
    let has_one = if is_visit {
        app.links.take_use(key).await?
    } else {
        app.links.has_uses(key).await?
    };
    counter!(VISITS_LEASED).increment(u64::from(is_visit && has_one));
    Ok(has_one)
}

/// Logs a failed lookup, throttled, because an outage meets every visitor.
fn log_failure(key: &LinkKey, error: &StoreError) {
    static THROTTLE: LogThrottle = LogThrottle::new();
    if let Some(left_out) = THROTTLE.admit(Instant::now()) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(%key, error, left_out, "looking up a link failed: the visitor gets 503");
    }
}

/// True if a path may be the path of a link, or continue one.
pub fn may_be_link(uri: &Uri) -> bool {
    Code::parse(behind_code(uri.path()).0).is_ok()
}

/// Answers a visitor of a path that cannot belong to a link.
pub fn no_code(app: &App, request: &Request) -> Response {
    let domains = app.domains.current();
    let Some(domain) = requested_domain(app, &domains, request.headers()) else {
        return page(app, Outcome::NotFound, Brand::default());
    };
    if is_orphan(request.uri().path().as_bytes()) {
        note_orphan(app, request, domain, OrphanKind::Regular404);
        let elsewhere = domains.targets(domain).not_found;
        if let Some(elsewhere) = elsewhere.and_then(|target| found(target, Outcome::NotFound)) {
            return elsewhere;
        }
    }
    page(app, Outcome::NotFound, domains.brand(domain))
}

/// Counts an orphan visit. Only a GET can be one, as at an edge.
fn note_orphan(app: &App, request: &Request, domain: &Domain, kind: OrphanKind) {
    let (uri, headers) = (request.uri(), request.headers());
    if request.method() == Method::GET && is_counted(request.method(), headers) {
        let visit = Visit::new(&app.config, uri, headers, request.extensions());
        counting::orphan(app, &visit, domain, kind);
    }
}

/// Answers a visitor of `/`, with the home page if there is one and the domain has no target.
pub fn root(app: &App, request: &Request, home: Option<Response>) -> Response {
    let domains = app.domains.current();
    let Some(domain) = requested_domain(app, &domains, request.headers()) else {
        return unknown_host(app);
    };
    note_orphan(app, request, domain, OrphanKind::BaseUrl);
    let root = domains.targets(domain).root;
    let redirect = root.and_then(|root| found(root, Outcome::Redirect));
    let answer = redirect.or(home);
    answer.unwrap_or_else(|| page(app, Outcome::NotFound, domains.brand(domain)))
}

/// Answers for an unknown host, which may be the host of a domain that was just made.
pub fn unknown_host(app: &App) -> Response {
    let outcome = if app.domains.is_outdated() {
        Outcome::Unavailable
    } else {
        Outcome::NotFound
    };
    page(app, outcome, Brand::default())
}

/// The key of the link that a request is for. `None` if its path names no code, or its host no domain.
pub(super) fn requested_key(app: &App, uri: &Uri, headers: &HeaderMap) -> Option<LinkKey> {
    let code = Code::parse(behind_code(uri.path()).0).ok()?;
    let domains = app.domains.current();
    let domain = requested_domain(app, &domains, headers)?;
    Some(LinkKey::new(domain.clone(), code))
}

/// The domain that `Host` names. For a missing or unknown one it is the default domain, or `None` if `links.unknown_hosts` is
/// `not_found`.
pub fn requested_domain<'a>(
    app: &'a App,
    domains: &'a DomainTable,
    headers: &HeaderMap,
) -> Option<&'a Domain> {
    let links = &app.config.links;
    let host = headers
        .get(header::HOST)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let default = match links.unknown_hosts {
        UnknownHosts::Default => Some(links.default_domain()),
        UnknownHosts::NotFound => None,
    };
    domains.requested(host, default)
}

fn answer(
    app: &App,
    decision: &Decision<'_>,
    visit: &Visit<'_>,
    (targets, brand): (&DomainTargets<&str>, Brand<'_>),
) -> Response {
    let Some(sent_to) = &decision.sent_to else {
        let target = targets.instead_of(decision.outcome);
        let elsewhere = target.and_then(|target| found(target, decision.outcome));
        return elsewhere.unwrap_or_else(|| page(app, decision.outcome, brand));
    };
    let Some(mut response) = redirect(decision.outcome, sent_to.status, &sent_to.location) else {
        return page(app, Outcome::Unavailable, brand);
    };
    let headers = response.headers_mut();
    if decision.is_unlocked {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(NO_STORE));
    }
    for &(name, value) in decision.headers(visit.asks_not_to_list()) {
        let value = HeaderValue::from_static(value);
        headers.insert(HeaderName::from_static(name), value);
    }
    response
}

/// The redirect; `None` if the stored target is not a valid header value, which the checks rule out.
fn redirect(outcome: Outcome, status: RedirectStatus, location: &[u8]) -> Option<Response> {
    let location = HeaderValue::from_bytes(location).ok()?;
    let status = StatusCode::from_u16(status.code()).ok()?;
    let cache_control = HeaderValue::from_static(outcome.cache_control());
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, cache_control),
    ];
    count(outcome);
    Some((status, headers).into_response())
}

/// The redirect to a target of the domain.
fn found(target: &str, outcome: Outcome) -> Option<Response> {
    redirect(outcome, RedirectStatus::Found, target.as_bytes())
}

/// Counts a request, by the outcomes of the edges' metrics.
fn count(outcome: Outcome) {
    counter!(REDIRECTS, "outcome" => outcome.name()).increment(1);
}

/// Counts the outcome of a request, and returns its page; 405 for a method other than GET and HEAD.
pub fn page(app: &App, outcome: Outcome, brand: Brand<'_>) -> Response {
    count(outcome);
    match outcome {
        Outcome::NotFound => app.pages.not_found(brand),
        Outcome::Gone => app.pages.gone(brand),
        Outcome::Locked => password_page(Notice::Locked, brand),
        Outcome::NotAllowed => {
            let allow = [(header::ALLOW, HeaderValue::from_static(ALLOW))];
            (allow, Problem::new(Kind::MethodNotAllowed)).into_response()
        }
        Outcome::Redirect
        | Outcome::Expired
        | Outcome::Unavailable
        | Outcome::Withheld
        | Outcome::Limited => app.pages.unavailable(brand),
    }
}
