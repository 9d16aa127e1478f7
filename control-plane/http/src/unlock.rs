//! Passwords of links that visitors enter: `POST /{code}` here, and `POST /edge/v1/unlock/{domain}/{code}` from an edge whose
//! visitor has entered one.

use super::client_address::{PeerIp, client_address, network};
use super::pages::password_page;
use super::redirect::{may_be_link, requested_key};
use crate::app::App;
use crate::arriving::{Arriving, BodyError};
use crate::visit::{SentPath, behind_code};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use edgelink_model::clock;
use edgelink_model::deadline;
use edgelink_service::problem::{Kind, Problem};
use edgelink_settings::admission::Claim;
use edgelink_settings::domains::model::Brand;
use edgelink_settings::telemetry::prometheus::UNLOCKS;
use edgelink_wire::LinkKey;
use edgelink_wire::password::{
    COOKIE_SECONDS, MAX_FORM_LENGTH, Notice, UnlockKey, address_of_form, is_form, password_of_form,
    set_cookie,
};
use edgelink_wire::redirect::{NO_STORE, is_locked};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use metrics::counter;
use std::net::{IpAddr, Ipv4Addr};
use tokio::time::Instant;

/// The outcome of an attempt to unlock a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unlocking {
    /// The password is right; the value of the cookie.
    Opened(String),
    /// The password is wrong.
    Wrong,
    /// There were too many tries; the seconds until another one is allowed.
    Limited(u64),
    /// There is no such link, it has expired, or it has no password.
    NotLocked,
}

/// Checks the password in a form for a link, or for a path that continues after its code. The form is received only if the link has
/// a password. `address` is the visitor's.
pub(super) async fn unlock(
    app: &App,
    (key, is_below): (&LinkKey, bool),
    form: impl Future<Output = Result<Bytes, BodyError>>,
    address: IpAddr,
) -> Result<Unlocking, Problem> {
    let unlocking = check(app, (key, is_below), form, address).await;
    let outcome = match unlocking {
        Ok(Unlocking::Opened(_)) => "opened",
        Ok(Unlocking::Wrong) => "wrong",
        Ok(Unlocking::Limited(_)) => "limited",
        Ok(Unlocking::NotLocked) => "not_locked",
        Err(_) => "failed",
    };
    counter!(UNLOCKS, "outcome" => outcome).increment(1);
    unlocking
}

async fn check(
    app: &App,
    (key, is_below): (&LinkKey, bool),
    form: impl Future<Output = Result<Bytes, BodyError>>,
    address: IpAddr,
) -> Result<Unlocking, Problem> {
    // A link without a password costs no more than a lookup.
    let record = app.resolver.resolve(key).await?.record;
    if !is_locked(&record.as_bytes(), is_below, clock::unix_seconds()) {
        return Ok(Unlocking::NotLocked);
    }
    let form = form.await?;
    // A try is taken before the password is checked, and returned if it is right. Few tries of an address run at once, so that
    // visitors with the right password do not use up its tries.
    let address = network(address);
    let giver = Claim::of_address(address);
    let deadline = deadline::or_sooner(Instant::now() + app.config.server.request_timeout_ms);
    let _permit = app.bounded.unlocks.take(giver.clone(), deadline).await?;
    let taken = match app.tries.take(key, address).await {
        Ok(taken) => taken,
        Err(seconds) => return Ok(Unlocking::Limited(seconds)),
    };
    let unlocking = compare(app, key, &form, giver).await;
    // A failure on our side costs the sender no try.
    if !matches!(unlocking, Ok(Unlocking::Wrong)) {
        taken.give_back().await;
    }
    unlocking
}

/// Compares the password of a form with the link's.
async fn compare(
    app: &App,
    key: &LinkKey,
    form: &[u8],
    giver: Claim,
) -> Result<Unlocking, Problem> {
    let link = app.links.stored(key).await?;
    let Some(hash) = link.and_then(|link| link.content.details.password) else {
        return Ok(Unlocking::NotLocked);
    };
    let Some(password) = password_of_form(form) else {
        return Ok(Unlocking::Wrong);
    };
    if !app.passwords.check(hash.clone(), password, giver).await? {
        return Ok(Unlocking::Wrong);
    }
    let key = key.to_string();
    let end = clock::unix_seconds() + COOKIE_SECONDS;
    let cookie = UnlockKey::new(&hash, key.as_bytes()).cookie(key.as_bytes(), end);
    Ok(Unlocking::Opened(cookie))
}

/// Answers a form that a visitor has sent to the address of a link. `None` if it is not a form, does not arrive, or is for a link
/// that has no password, or has expired.
pub async fn answer(app: &App, request: Request) -> Option<Response> {
    let (head, body) = request.into_parts();
    let media_type = head.headers.get(header::CONTENT_TYPE);
    let is_form = media_type.is_some_and(|value| is_form(value.as_bytes()));
    if !is_form || !may_be_link(&head.uri) {
        return None;
    }
    let Some(key) = requested_key(app, &head.uri, &head.headers) else {
        // The host may belong to a domain that was just made.
        let unavailable = || app.pages.unavailable(Brand::default());
        return app.domains.is_outdated().then(unavailable);
    };
    let domains = app.domains.current();
    let brand = domains.brand(&key.domain);
    let peer = head.extensions.get::<PeerIp>();
    let peer = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let address = client_address(peer, &head.headers, &app.config.server.trusted_proxies);
    let server = &app.config.server;
    let time = server.form_timeout_ms.min(server.body_timeout_ms);
    let arriving = Arriving::new(&head.extensions, body, (MAX_FORM_LENGTH, time));
    let form = async { Ok(arriving.whole().await?.0) };
    let sent = head.extensions.get::<SentPath>();
    let path = sent.map_or(&head.uri, |sent| &sent.0).path_and_query();
    let path = path.map_or("/", |path| path.as_str());
    let is_below = !behind_code(head.uri.path()).1.is_empty();
    match unlock(app, (&key, is_below), form, address).await {
        Ok(Unlocking::Opened(cookie)) => {
            let proto = head.headers.get("x-forwarded-proto");
            let is_secure = proto.is_some_and(|proto| proto == "https");
            let cookie = set_cookie(
                key.to_string().as_bytes(),
                &cookie,
                app.config.links.prefix.as_str(),
                is_secure,
            );
            Some(see_again(path, &cookie))
        }
        Ok(Unlocking::Wrong) => Some(password_page(Notice::Wrong, brand)),
        Ok(Unlocking::Limited(seconds)) => {
            let mut response = password_page(Notice::Limited, brand);
            let seconds = HeaderValue::from(seconds);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            Some(response)
        }
        Ok(Unlocking::NotLocked) => None,
        // It is not a form, or has not arrived.
        Err(problem) if problem.status().is_client_error() => None,
        Err(_) => Some(app.pages.unavailable(brand)),
    }
}

/// 303 to the address of the form.
fn see_again(path: &str, cookie: &str) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(NO_STORE));
    let location = address_of_form(path.as_bytes());
    for (name, value) in [
        (header::LOCATION, location),
        (header::SET_COOKIE, cookie.as_bytes()),
    ] {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.insert(name, value);
        }
    }
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// The answer to an edge for a form of its visitor.
pub(super) fn for_edge(unlocking: Unlocking) -> Response {
    match unlocking {
        Unlocking::Opened(cookie) => {
            let media_type = edgelink_wire::password::COOKIE_MEDIA_TYPE;
            let media_type = HeaderValue::from_static(media_type);
            ([(header::CONTENT_TYPE, media_type)], cookie).into_response()
        }
        Unlocking::Wrong => StatusCode::FORBIDDEN.into_response(),
        Unlocking::Limited(seconds) => {
            let mut response = Problem::new(Kind::RateLimited).into_response();
            let seconds = HeaderValue::from(seconds);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            response
        }
        Unlocking::NotLocked => Problem::new(Kind::LinkNotFound).into_response(),
    }
}
