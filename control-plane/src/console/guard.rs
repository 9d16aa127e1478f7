//! What stands in front of all pages: who has logged in, whether a form is our own, and the headers of answers.
//!
//! A form is our own if it has the token that follows from the browser's cookie, and if the browser does not say that another site has
//! sent it. The cookie is `SameSite=Strict`, so that other sites do not even send it.

use super::api::Console;
use super::form::{FORM_TOKEN, Form};
use super::signed_in::SignedIn;
use super::{errors, strings as t};
use crate::config::ServerConfig;
use crate::http::auth::sessions::Token;
use crate::problem::{Kind, Problem};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::net::IpAddr;
use std::sync::Arc;

const COOKIE: &str = "edgelink_console";

/// The page that those see who have not logged in.
pub(super) const LOGIN: &str = "/console/login";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The headers of all answers. With `no-referrer` browsers would send forms without their origin.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; \
         connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Adds the headers of all answers, and makes pages of problems that no page has shown.
pub(super) async fn finish(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let mut response = errors::translate(response, None);
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

/// Lets requests through whose session has not ended, with the session, and forms that are our own.
pub(super) async fn guard(
    State(console): State<Console>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = token(request.headers());
    let signed_in = match session(&console, token.as_ref()).await {
        Ok(signed_in) => signed_in,
        Err(problem) => return problem.into_response(),
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        request = match with_form(&console, request, token.as_ref()).await {
            Ok(request) => request,
            Err(problem) => {
                return errors::translate(problem.into_response(), signed_in.as_ref());
            }
        };
    }
    let is_login = request.uri().path() == LOGIN;
    let Some(signed_in) = signed_in else {
        return match is_login {
            true => next.run(request).await,
            false => to_login(&request),
        };
    };
    let caller = signed_in.caller().clone();
    let extensions = request.extensions_mut();
    extensions.insert(caller);
    extensions.insert(signed_in.clone());
    let response = next.run(request).await;
    errors::translate(response, Some(&signed_in))
}

async fn session(console: &Console, token: Option<&Token>) -> Result<Option<SignedIn>, Problem> {
    let Some(token) = token else {
        return Ok(None);
    };
    let session = console.app.keys.session(token).await?;
    Ok(session.map(|session| SignedIn {
        session: Arc::new(session),
        token: token.clone(),
    }))
}

/// The token in the cookie of a browser.
pub(super) fn token(headers: &HeaderMap) -> Option<Token> {
    let lines = headers.get_all(header::COOKIE).iter();
    let cookies = lines.filter_map(|line| line.to_str().ok());
    let mut cookies = cookies.flat_map(|line| line.split(';'));
    cookies.find_map(|cookie| {
        let (name, value) = cookie.trim().split_once('=')?;
        Token::parse(value).filter(|_| name == COOKIE)
    })
}

/// The header that makes a browser keep a token, or forget it.
pub(super) fn cookie(token: Option<&Token>, headers: &HeaderMap) -> HeaderMap {
    let value = token.map(Token::expose).unwrap_or_default();
    let age = if token.is_some() { "" } else { "; Max-Age=0" };
    let secure = if is_loopback(headers) { "" } else { "; Secure" };
    let cookie = format!("{COOKIE}={value}; Path=/console; HttpOnly; SameSite=Strict{secure}{age}");
    let cookie = HeaderValue::try_from(cookie).ok();
    cookie
        .map(|cookie| (header::SET_COOKIE, cookie))
        .into_iter()
        .collect()
}

/// Whether the browser is on this machine, where there is no TLS as a rule.
fn is_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = host(headers) else {
        return false;
    };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    let is_local = |address: IpAddr| address.is_loopback();
    name == "localhost" || name.ends_with(".localhost") || name.parse().is_ok_and(is_local)
}

fn host(headers: &HeaderMap) -> Option<Authority> {
    headers.get(header::HOST)?.to_str().ok()?.parse().ok()
}

/// The login, which leads back to the page.
fn to_login(request: &Request) -> Response {
    let path = request
        .uri()
        .path_and_query()
        .map_or("", |path| path.as_str());
    let is_page = request.method() == Method::GET && path != "/console";
    let to = if is_page { path } else { "" };
    let to = super::api::query([("to", to)]);
    Redirect::to(&format!("{LOGIN}{to}")).into_response()
}

/// The request with its form, which is our own.
async fn with_form(
    console: &Console,
    request: Request,
    token: Option<&Token>,
) -> Result<Request, Problem> {
    let (mut head, form) = read_form(&console.app.config.server, request).await?;
    let is_ours = token.is_some_and(|token| token.has_sent(form.get(FORM_TOKEN)));
    if !is_ours {
        return Err(Problem::new(Kind::Forbidden).with_detail(t::FORM_EXPIRED));
    }
    head.extensions.insert(form);
    Ok(Request::from_parts(head, Body::empty()))
}

/// The head of a request and its form, of which the browser does not say that another site has sent it.
pub(crate) async fn read_form(
    server: &ServerConfig,
    request: Request,
) -> Result<(Parts, Form), Problem> {
    check_origin(request.headers())?;
    let (head, body) = request.into_parts();
    let body = read(body, server.max_body_bytes);
    let body = tokio::time::timeout(server.body_timeout_ms, body).await;
    let form = Form::parse(&body.map_err(|_| Problem::new(Kind::BodyTimeout))??);
    Ok((head, form))
}

async fn read(body: Body, limit: usize) -> Result<Bytes, Problem> {
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::new(Kind::BodyTooLarge)),
        Err(_) => Err(Problem::new(Kind::InvalidBody)),
    }
}

/// Refuses a form of which the browser says that another site has sent it.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let site = headers.get(SEC_FETCH_SITE);
    let is_same_site = site.is_none_or(|site| site == "same-origin" || site == "none");
    let is_same_origin = headers.get(header::ORIGIN).is_none_or(|origin| {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"));
        let origin = origin.and_then(|(_, authority)| authority.parse::<Authority>().ok());
        origin.is_some() && origin == host(headers)
    });
    match is_same_site && is_same_origin {
        true => Ok(()),
        false => Err(Problem::new(Kind::Forbidden).with_detail(t::FOREIGN_FORM)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn cookies_are_secure_but_on_loopback() {
        for (host, is_secure) in [
            ("localhost:8081", false),
            ("a.localhost", false),
            ("127.0.0.1:8081", false),
            ("[::1]:8081", false),
            ("go.example", true),
            ("127.0.0.1.example", true),
            ("10.0.0.1", true),
            ("", true),
        ] {
            let cookie = cookie(None, &headers(&[("host", host)]));
            let cookie = cookie[header::SET_COOKIE].to_str().unwrap();
            assert_eq!(cookie.contains("; Secure"), is_secure, "{host}");
        }
    }

    #[test]
    fn forms_of_other_origins_are_refused() {
        for (pairs, is_ours) in [
            (&[("host", "go.example")][..], true),
            (
                &[("host", "go.example"), ("origin", "https://go.example")],
                true,
            ),
            (
                &[
                    ("host", "go.example:81"),
                    ("origin", "http://go.example:81"),
                ],
                true,
            ),
            (
                &[("host", "go.example"), ("origin", "https://evil.example")],
                false,
            ),
            (
                &[("host", "go.example"), ("origin", "https://go.example:81")],
                false,
            ),
            (&[("host", "go.example"), ("origin", "null")], false),
            (&[("origin", "https://go.example")], false),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
        ] {
            assert_eq!(check_origin(&headers(pairs)).is_ok(), is_ours, "{pairs:?}");
        }
    }
}
