//! Middleware in front of all pages: sessions, protection against forged forms, and the headers of answers.
//!
//! A form is our own if it has the token derived from the browser's cookie, and if the browser does not say that another site has
//! sent it. The cookie is `SameSite=Strict`, so that requests from other sites do not even have it.

use super::api::Console;
use super::cookies::{Cookie, host};
use super::form::{FORM_TOKEN, Form};
use super::signed_in::SignedIn;
use super::upload::read_upload;
use super::{errors, jobs, strings as t};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_http::app::App;
use edgelink_http::arriving::Arriving;
pub(crate) use edgelink_http::auth::{Caller, identify};
use edgelink_http::limits;
use edgelink_service::caller::Right;
use edgelink_service::oidc::{BEGIN, CALLBACK};
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::sessions::Token;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use std::sync::Arc;
use url::{Position, Url};

const COOKIE: Cookie = Cookie {
    name: "edgelink_console",
    host_name: "__Host-edgelink_console",
    path: "/console",
    same_site: "Strict",
};

/// The page for users who have not logged in.
pub(super) const LOGIN: &str = "/console/login";

/// The query of a page that reloads itself.
pub(super) const BY_ITSELF: &str = "again";

/// The stream of clicks.
pub(super) const LIVE: &str = "/console/live";

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

/// Adds the headers of all answers, and turns problems that no page has shown into pages.
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

/// Lets requests through within the limits of their addresses, whose session has not ended, with the session, and forms only if they
/// are our own.
pub(super) async fn guard(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let run = |request| within_session(&console, request, next);
    limits::guarded(&console.app, request, run).await
}

async fn within_session(console: &Console, mut request: Request, next: Next) -> Response {
    let token = token(request.headers());
    // A stream and a page that reloads itself also send requests while the user is away.
    let is_of_person = request.uri().path() != LIVE && request.uri().query() != Some(BY_ITSELF);
    let signed_in = match session(console, token.as_ref(), is_of_person).await {
        Ok(signed_in) => signed_in,
        Err(problem) => return problem.into_response(),
    };
    if let Some(signed_in) = &signed_in {
        let caller = signed_in.caller().clone();
        if let Err(refusal) = identify(&request, &caller) {
            let refusal = Problem::from(refusal).into_response();
            return errors::translate(refusal, Some(signed_in));
        }
        request.extensions_mut().insert(caller);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        if signed_in.is_none() && is_upload(&request) {
            return match check_origin(request.headers()) {
                Ok(()) => to_login(&request),
                Err(problem) => problem.into_response(),
            };
        }
        request = match with_form(console, request, token.as_ref(), signed_in.as_ref()).await {
            Ok(request) => request,
            Err(problem) => {
                return errors::translate(problem.into_response(), signed_in.as_ref());
            }
        };
    }
    let path = request.uri().path();
    let is_open = [LOGIN, BEGIN, CALLBACK].contains(&path);
    let Some(signed_in) = signed_in else {
        return if is_open {
            limits::counted(&console.app, request, |request| next.run(request)).await
        } else {
            to_login(&request)
        };
    };
    request.extensions_mut().insert(signed_in.clone());
    let response = limits::counted(&console.app, request, |request| next.run(request)).await;
    errors::translate(response, Some(&signed_in))
}

async fn session(
    console: &Console,
    token: Option<&Token>,
    is_of_person: bool,
) -> Result<Option<SignedIn>, Problem> {
    let Some(token) = token else {
        return Ok(None);
    };
    let session = console.app.keys.session(token, is_of_person).await?;
    Ok(session.map(|session| SignedIn {
        session: Arc::new(session),
        token: token.clone(),
    }))
}

/// The token in the cookie of a browser.
pub(super) fn token(headers: &HeaderMap) -> Option<Token> {
    COOKIE.values(headers).find_map(Token::parse)
}

/// The header that sets the cookie with a token, or removes it.
pub(super) fn cookie(token: Option<&Token>, headers: &HeaderMap) -> HeaderMap {
    match token {
        Some(token) => COOKIE.set(&token.expose(), None, headers),
        None => COOKIE.set("", Some(0), headers),
    }
}

/// The redirect to the login, which leads back to the page, or to the page of a form.
fn to_login(request: &Request) -> Response {
    let page = match *request.method() {
        Method::GET => request.uri().path_and_query().map(ToString::to_string),
        _ => page_of_form(request.headers()),
    };
    let page = page.filter(|page| page != "/console").unwrap_or_default();
    let to = super::api::query([("to", page.as_str())]);
    Redirect::to(&format!("{LOGIN}{to}")).into_response()
}

/// The page of the console that has sent a form.
fn page_of_form(headers: &HeaderMap) -> Option<String> {
    let page = Url::parse(headers.get(header::REFERER)?.to_str().ok()?).ok()?;
    let page = &page[Position::BeforePath..Position::AfterQuery];
    page.starts_with("/console/").then(|| page.to_owned())
}

/// Checks that the form of a request is our own, and attaches it to the request.
async fn with_form(
    console: &Console,
    request: Request,
    token: Option<&Token>,
    signed_in: Option<&SignedIn>,
) -> Result<Request, Problem> {
    let boundary = multipart_boundary(request.headers());
    let importer =
        signed_in.filter(|signed_in| is_upload(&request) && signed_in.has(Right::CreateLinks));
    let (mut head, form) = match (boundary, importer) {
        (Some(boundary), Some(importer)) => {
            check_origin(request.headers())?;
            let (mut head, body) = request.into_parts();
            let caller = (importer.caller(), &head.extensions);
            let (form, upload) = read_upload(console, caller, body, boundary).await?;
            head.extensions.insert(upload);
            (head, form)
        }
        _ => read_form(&console.app, request).await?,
    };
    let Some(token) = token else {
        return Err(Problem::new(Kind::Forbidden).with_detail(t::NO_COOKIE));
    };
    if !token.has_sent(form.get(FORM_TOKEN)) {
        return Err(Problem::new(Kind::Forbidden).with_detail(t::FORM_EXPIRED));
    }
    head.extensions.insert(form);
    Ok(Request::from_parts(head, Body::empty()))
}

/// The head of a request and its form, unless the browser says that another site has sent it.
pub(crate) async fn read_form(app: &App, request: Request) -> Result<(Parts, Form), Problem> {
    check_origin(request.headers())?;
    let server = &app.config.server;
    // Visitors who have not logged in may send short forms only.
    let time = match request.extensions().get::<Caller>() {
        Some(_) => server.body_timeout_ms,
        None => server.form_timeout_ms.min(server.body_timeout_ms),
    };
    let (head, body) = request.into_parts();
    let bounds = (server.max_body_bytes, time);
    let (body, _) = Arriving::new(&head.extensions, body, bounds)
        .whole()
        .await?;
    Ok((head, Form::parse(&body)))
}

/// True if a request may contain a file.
fn is_upload(request: &Request) -> bool {
    request.method() == Method::POST && request.uri().path() == jobs::PATH
}

fn multipart_boundary(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    multer::parse_boundary(kind).ok()
}

/// Refuses a form if the browser says that another site has sent it. Browsers without `Sec-Fetch-Site` send the origin of the form
/// instead; proxies may have changed the host with which it is compared.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let is_same_origin = |origin: &HeaderValue| {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"));
        let origin = origin.and_then(|(_, authority)| authority.parse::<Authority>().ok());
        origin.is_some() && origin == host(headers)
    };
    let is_ours = match (headers.get(SEC_FETCH_SITE), headers.get(header::ORIGIN)) {
        (Some(site), _) => site == "same-origin" || site == "none",
        (None, Some(origin)) => is_same_origin(origin),
        (None, None) => true,
    };
    if is_ours {
        Ok(())
    } else {
        Err(Problem::new(Kind::Forbidden).with_detail(t::FOREIGN_FORM))
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
    fn cookie_when_host_is_not_loopback_is_secure() {
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
            let is_of_host = cookie.starts_with("__Host-") && cookie.contains("; Path=/;");
            assert_eq!(is_of_host, is_secure, "{host}");
        }
        for (name, value, is_secure) in [
            ("x-forwarded-proto", "https", true),
            ("x-forwarded-proto", "http", false),
            ("origin", "https://go.example", true),
            ("origin", "http://localhost", false),
        ] {
            let cookie = cookie(None, &headers(&[("host", "localhost"), (name, value)]));
            let cookie = cookie[header::SET_COOKIE].to_str().unwrap();
            assert_eq!(cookie.contains("; Secure"), is_secure, "{name}: {value}");
        }
    }

    #[test]
    fn cookie_when_another_host_may_have_set_it_is_ignored() {
        let value = "0".repeat(64);
        for (host, name, is_known) in [
            ("localhost", COOKIE.name, true),
            ("go.example", COOKIE.name, false),
            ("go.example", COOKIE.host_name, true),
        ] {
            let cookie = HeaderValue::try_from(format!("a=b; {name}={value}")).unwrap();
            let mut headers = headers(&[("host", host)]);
            headers.insert(header::COOKIE, cookie);
            assert_eq!(token(&headers).is_some(), is_known, "{host} {name}");
        }
    }

    #[test]
    fn form_when_of_another_origin_is_refused() {
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
            (
                &[
                    ("sec-fetch-site", "same-origin"),
                    ("host", "127.0.0.1:8081"),
                    ("origin", "https://go.example"),
                ],
                true,
            ),
            (
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("host", "go.example"),
                    ("origin", "https://go.example"),
                ],
                false,
            ),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
        ] {
            assert_eq!(check_origin(&headers(pairs)).is_ok(), is_ours, "{pairs:?}");
        }
    }
}
