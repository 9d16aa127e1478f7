//! The edge API, `/edge/v1`: lookups of one key, of several, or of a host, snapshot, feed, reports of clicks, and uses of links
//! that have a limit. An edge token gives more than read access: it adds to the counts by which links are hot, and leases uses.

mod feed;
mod feed_stream;

use super::{arriving, unlock};
use crate::app::App;
use crate::auth::require_edge_token;
use crate::layers::heed_edge_timeout;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use edgelink_feed::resolve::Resolved;
use edgelink_model::clock;
use edgelink_service::problem::{Kind, Problem, method_not_allowed, nothing_here};
use edgelink_settings::telemetry::prometheus::EDGE_LOOKUPS;
use edgelink_wire::clicks::visitor_keys::VisitorKeys;
use edgelink_wire::clicks::{EDGE_HEADER, SENT_AT_HEADER, edge_name};
use edgelink_wire::domain_record::domain_key;
use edgelink_wire::health;
use edgelink_wire::password::{MAX_FORM_LENGTH, VISITOR_HEADER};
use edgelink_wire::visits::{ReturnOutcome, VisitReturns};
use edgelink_wire::{
    Code, Domain, LinkAnswer, LinkKey, LinkRecord, Record, Snapshot, VisitsAnswer, VisitsRequest,
    link_batch, visits,
};
use feed::field;
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use metrics::counter;
use percent_encoding::percent_decode;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The largest body of a report of clicks in bytes.
const MAX_CLICKS_BODY: usize = 4 << 20;

/// The routes that need an edge token, paths that do not exist included.
pub fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/links/{domain}/{code}", get(resolve))
        .route("/domains/{host}", get(domain_of_host))
        .route(
            "/links",
            with_body(post(resolve_batch), app, link_batch::MAX_LENGTH),
        )
        .route(
            "/unlock/{domain}/{code}",
            with_body(post(unlock), app, MAX_FORM_LENGTH),
        )
        .route("/snapshot", get(snapshot))
        .route("/clicks", with_body(post(report), app, MAX_CLICKS_BODY))
        .route(
            "/visits/{domain}/{code}",
            with_body(post(lease_visits), app, visits::MAX_LENGTH),
        )
        .route(
            "/visits",
            with_body(post(return_visits), app, visits::MAX_RETURNS_LENGTH),
        )
        .fallback(nothing_here)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(heed_edge_timeout))
        .layer(from_fn_with_state(app.clone(), note_worker))
        .layer(from_fn_with_state(
            app.edge_tokens.clone(),
            require_edge_token,
        ))
}

/// A route whose requests have bodies of at most `limit` bytes, which are received before its handler runs.
fn with_body(
    route: MethodRouter<Arc<App>>,
    app: &Arc<App>,
    limit: usize,
) -> MethodRouter<Arc<App>> {
    route
        .layer(DefaultBodyLimit::max(limit))
        .layer(from_fn_with_state((app.clone(), limit), arriving::ahead))
}

/// The routes on which edges wait. Waiting takes no work, so it is outside of the bounds on requests.
pub fn waiting_routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/feed", get(feed::poll))
        .route("/feed/stream", post(feed_stream::stream))
        .layer(from_fn_with_state(app.clone(), note_worker))
        .layer(from_fn_with_state(
            app.edge_tokens.clone(),
            require_edge_token,
        ))
}

/// True if a person sends the request, and not an edge.
fn wants_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("application/json"))
}

type KeyPath = Result<Path<(String, String)>, PathRejection>;

/// `GET /edge/v1/links/{domain}/{code}`: the record of a key, 200 for a link and 404 for none, both as a [`LinkAnswer`]. Any
/// other status is a failure and says nothing about the link.
///
/// The answer carries its age at the time of the request, from which the edge counts its freshness.
async fn resolve(
    State(app): State<Arc<App>>,
    path: KeyPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let key = parse(path)?;
    let (status, resolved) = look_up(&app, &key).await?;
    if wants_json(&headers) {
        Ok((status, Json(for_people(&key, &resolved.record))).into_response())
    } else {
        Ok((
            status,
            binary(LinkAnswer::MEDIA_TYPE, answer(&key.to_string(), &resolved)),
        )
            .into_response())
    }
}

async fn look_up(app: &App, key: &LinkKey) -> Result<(StatusCode, Resolved), Problem> {
    let resolved = app.resolver.resolve(key).await;
    let (status, outcome) = match resolved.as_ref().map(|resolved| &resolved.record) {
        Ok(Record::Link(_)) => (StatusCode::OK, "link"),
        Ok(Record::Absent { .. }) => (StatusCode::NOT_FOUND, "absent"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    counter!(EDGE_LOOKUPS, "outcome" => outcome).increment(1);
    Ok((status, resolved?))
}

/// Time for which the lines of a request wait for one of them. The edge asks for that one separately then.
const LINE_WAITS: Duration = Duration::from_millis(300);

/// Number of lines of a request that are looked up concurrently.
const LINES_AT_ONCE: usize = 16;

/// `POST /edge/v1/links`: a lookup for each line of the body, in the format of [`link_batch`]. The error or failure of a line is
/// the status of its answer; [`link_batch::LATE`] if it takes too long. If every line fails, the answer is the failure of one.
async fn resolve_batch(
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Kind::BodyTooLarge),
        _ => Problem::new(Kind::InvalidKey).with_detail("the body did not come whole"),
    })?;
    let lines: Vec<_> = body.split(|byte| *byte == b'\n').collect();
    if lines.len() > link_batch::MAX_KEYS {
        let most = format!("there are more than {} lines", link_batch::MAX_KEYS);
        return Err(Problem::new(Kind::BodyTooLarge).with_detail(most));
    }
    let end = Instant::now() + LINE_WAITS;
    let (app, lines) = (&app, &lines);
    let line_answers = (0..lines.len()).map(async |place| {
        let answer = timeout_at(end, answer_line(app, lines[place])).await;
        let late = |_| Ok((link_batch::LATE, Vec::new()));
        (place, answer.unwrap_or_else(late))
    });
    let line_answers = stream::iter(line_answers).buffer_unordered(LINES_AT_ONCE);
    let mut line_answers: Vec<_> = line_answers.collect().await;
    let is_failure = |answer: &Result<_, Problem>| matches!(answer, Err(problem) if problem.status().is_server_error());
    if line_answers.iter().all(|(_, answer)| is_failure(answer))
        && let Some((_, Err(problem))) = line_answers.pop()
    {
        return Err(problem);
    }
    line_answers.sort_unstable_by_key(|(place, _)| *place);
    let mut bytes = Vec::new();
    for (_, answer) in line_answers {
        let failure = |problem: Problem| (problem.status().as_u16(), Vec::new());
        let (status, body) = answer.unwrap_or_else(failure);
        link_batch::write(status, &body, &mut bytes);
    }
    Ok(binary(link_batch::MEDIA_TYPE, bytes).into_response())
}

async fn answer_line(app: &App, line: &[u8]) -> Result<(u16, Vec<u8>), Problem> {
    let key = parse_line(line)?;
    let (status, resolved) = look_up(app, &key).await?;
    Ok((status.as_u16(), answer(&key.to_string(), &resolved)))
}

/// `GET /edge/v1/domains/{host}`: the record of the domain that a host names, under the key `{host}/`: 200, or 404 if it names
/// none. Like a lookup of a link it carries its age, and any other status says nothing. It never queries the database: visitors
/// choose hosts.
async fn domain_of_host(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(host) = path.map_err(|_| Problem::new(Kind::InvalidKey))?;
    let host = Domain::parse(&host)
        .map_err(|error| Problem::new(Kind::InvalidKey).with_detail(format!("the host {error}")))?;
    let Some((domains, age)) = app.domains.complete() else {
        let detail = "the domains were not read lately: there may be others";
        return Err(Problem::new(Kind::StoreUnavailable).with_detail(detail));
    };
    let record = domains.record_of_host(&host);
    let status = match &record {
        Record::Link(_) => StatusCode::OK,
        Record::Absent { .. } => StatusCode::NOT_FOUND,
    };
    let answer = answer(&domain_key(&host), &Resolved { record, age });
    Ok((status, binary(LinkAnswer::MEDIA_TYPE, answer)).into_response())
}

fn parse(path: KeyPath) -> Result<LinkKey, Problem> {
    let Path((domain, code)) = path.map_err(|_| Problem::new(Kind::InvalidKey))?;
    key_of(&domain, &code)
}

fn parse_line(line: &[u8]) -> Result<LinkKey, Problem> {
    let invalid = || Problem::new(Kind::InvalidKey);
    let line = percent_decode(line).decode_utf8().map_err(|_| invalid())?;
    let (domain, code) = line.split_once('/').ok_or_else(invalid)?;
    key_of(domain, code)
}

fn key_of(domain: &str, code: &str) -> Result<LinkKey, Problem> {
    let invalid = |detail| Problem::new(Kind::InvalidKey).with_detail(detail);
    let domain = Domain::parse(domain).map_err(|error| invalid(format!("the domain {error}")))?;
    let code = Code::parse(code).map_err(|error| invalid(format!("the code {error}")))?;
    Ok(LinkKey::new(domain, code))
}

fn answer(key: &str, Resolved { record, age }: &Resolved) -> Vec<u8> {
    // Rounded up, so that the record never seems younger than it is.
    let age_millis = u64::try_from(age.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
    LinkAnswer {
        age_millis,
        key: key.as_bytes(),
        record: &record.as_deref().to_bytes(),
    }
    .to_bytes()
}

/// An answer in one of the formats of `edgelink_wire`.
fn binary(media_type: &'static str, bytes: impl Into<Bytes>) -> impl IntoResponse {
    let content_type = HeaderValue::from_static(media_type);
    ([(header::CONTENT_TYPE, content_type)], bytes.into())
}

fn for_people(key: &LinkKey, record: &Record<String>) -> Value {
    match record {
        Record::Absent { rev } => json!({ "key": key.to_string(), "state": "absent", "rev": rev }),
        Record::Link(link) => link_for_people(key, link),
    }
}

fn link_for_people(key: &LinkKey, link: &LinkRecord<String>) -> Value {
    json!({
        "key": key.to_string(),
        "state": link.state.as_str(),
        "rev": link.rev,
        "url": link.url,
        "redirect": link.redirect.code(),
        "validSince": link.valid_since,
        "validUntil": link.valid_until,
        "forwardQuery": link.forward_query,
    })
}

/// `POST /edge/v1/unlock/{domain}/{code}`: checks the password in the form of an edge's visitor, whose address is in the header
/// `x-edgelink-visitor`. 200 with the value of a cookie, 403, 429, or 404 where the link has no password.
async fn unlock(
    State(app): State<Arc<App>>,
    path: KeyPath,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let key = parse(path)?;
    let form = body.map_err(|_| Problem::new(Kind::BodyTooLarge))?;
    let address = headers.get(VISITOR_HEADER);
    let address = address.and_then(|address| address.to_str().ok()?.parse().ok());
    let address = address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let unlocking = unlock::unlock(&app, (&key, false), async { Ok(form) }, address).await?;
    Ok(unlock::for_edge(unlocking))
}

/// `GET /edge/v1/snapshot`: the snapshot from which a worker starts. 503 while there is none; workers then start without one.
async fn snapshot(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let bytes = app.snapshots.get().await?;
    Ok(binary(Snapshot::MEDIA_TYPE, bytes).into_response())
}

/// `POST /edge/v1/clicks`: batches of clicks. 204 when they are in the queue of the database; a batch counts once however often it
/// is sent. 400 if a retry is useless, 503 while the queue is full. With `?visitorKeys=U`, 200 and [`VisitorKeys`] if there are
/// secrets of visitor tokens that are valid beyond U (unix seconds). The header `x-edgelink-edge` names the edge,
/// `x-edgelink-sent-at` is the time of the report by its clock, and `x-edgelink-health` the health of the worker.
async fn report(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let until = visitor_keys_until(&uri)?;
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Kind::BodyTooLarge),
        _ => Problem::new(Kind::InvalidBatches),
    })?;
    let edge = headers.get(EDGE_HEADER);
    let edge = edge
        .and_then(|name| edge_name(name.as_bytes()))
        .unwrap_or_default();
    if let Some(header) = headers.get(health::HEADER) {
        app.edge_health.note(edge, header.as_bytes());
    }
    let sent_at = headers.get(SENT_AT_HEADER);
    let sent_at = sent_at.and_then(|at| at.to_str().ok()?.parse().ok());
    app.reports.count(body, edge.into(), sent_at).await?;
    let keys = match until {
        Some(until) => app.visitors.later_than(until, clock::unix_seconds()).await,
        None => None,
    };
    Ok(keys.map_or_else(
        || StatusCode::NO_CONTENT.into_response(),
        |keys| hand_out(&keys),
    ))
}

/// Time until which a worker has secrets of visitor tokens, unix seconds; `None` if it wants none.
fn visitor_keys_until(uri: &Uri) -> Result<Option<u64>, Problem> {
    let query = uri.query().unwrap_or_default();
    let mut until = None;
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        until = match &*name {
            "visitorKeys" => Some(field("visitorKeys", &value)?),
            _ => return Err(Problem::of_field(name.into_owned(), "is not known")),
        };
    }
    Ok(until)
}

/// The answer with secrets. It is sent without a copy of the bytes, which are overwritten afterwards.
fn hand_out(keys: &VisitorKeys) -> Response {
    binary(VisitorKeys::MEDIA_TYPE, Bytes::from_owner(keys.to_bytes())).into_response()
}

/// `POST /edge/v1/visits/{domain}/{code}`: leases uses of a link that has a limit to a worker, and notes the uses it returns.
/// 409 if the worker has sent a later request.
async fn lease_visits(
    State(app): State<Arc<App>>,
    path: KeyPath,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let key = parse(path)?;
    let invalid = || Problem::new(Kind::InvalidVisits);
    let body = body.map_err(|_| invalid())?;
    let request =
        VisitsRequest::decode(&body).map_err(|error| invalid().with_detail(error.to_string()))?;
    app.visit_workers.note(&request.worker);
    let answer = app.links.lease_uses(&key, &request).await?;
    Ok(binary(VisitsAnswer::MEDIA_TYPE, answer.to_bytes()).into_response())
}

/// `POST /edge/v1/visits`: notes the uses of several links that a worker returns. The answer has an outcome for each link.
async fn return_visits(
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let invalid = || Problem::new(Kind::InvalidVisits);
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Kind::BodyTooLarge),
        _ => invalid(),
    })?;
    let VisitReturns { worker, returns } =
        VisitReturns::decode(&body).map_err(|error| invalid().with_detail(error.to_string()))?;
    app.visit_workers.note(&worker);
    let mut outcomes = vec![ReturnOutcome::Later; returns.len()];
    // A key that this version cannot read is left for a version that can, and does not hold up the others.
    let readable = returns.iter().enumerate().filter_map(|(place, returned)| {
        let key = parse_line(returned.key).ok()?;
        let request = VisitsRequest {
            worker,
            number: returned.number,
            settled: returned.settled,
            wants: false,
        };
        Some((place, (key, request)))
    });
    let (places, readable): (Vec<_>, Vec<_>) = readable.unzip();
    let noted = app.links.return_uses(worker, &readable).await?;
    for (place, outcome) in places.into_iter().zip(noted) {
        if let Some(of_place) = outcomes.get_mut(place) {
            *of_place = outcome;
        }
    }
    let outcomes = ReturnOutcome::to_bytes(&outcomes);
    Ok(binary(visits::RETURNS_MEDIA_TYPE, outcomes).into_response())
}

/// Notes the worker that a request of the edge API names.
async fn note_worker(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let worker = request.headers().get(visits::WORKER_HEADER);
    if let Some(worker) = worker.and_then(|worker| visits::worker_of(worker.as_bytes())) {
        app.visit_workers.note(&worker);
    }
    next.run(request).await
}
