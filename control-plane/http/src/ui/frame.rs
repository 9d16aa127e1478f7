//! The frame of pages for visitors: their domain's look, the headers, and sending a page.
//!
//! Pages load styles below `/+/`, so a proxy in front has to route that path here along with the pages.

use crate::ui::assets;
use crate::ui::strings as t;
use askama::Template;
use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use edgelink_service::problem::{Kind, Problem};
use edgelink_settings::domains::model::Brand;
use edgelink_wire::Outcome;
use edgelink_wire::password::{Notice, REFERRER_POLICY};
use edgelink_wire::redirect::NO_STORE;
use http::{HeaderName, HeaderValue, StatusCode, header};
use std::borrow::Cow;
use url::Url;

const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

/// Headers of all pages, except the policy. With `no-referrer` browsers would send forms without their origin.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (X_ROBOTS_TAG, "noindex"),
];

/// Caching of the style sheet of a colour, which never changes.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// The frame around the content of a page.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'d> {
    /// The heading.
    pub title: &'static str,
    /// Look of the domain.
    pub brand: Brand<'d>,
}

impl<'d> Frame<'d> {
    /// Creates the frame of a page with this heading.
    pub fn new(title: &'static str, brand: Brand<'d>) -> Self {
        Self { title, brand }
    }

    /// URLs of the style sheets: two built-in ones, and one of the accent colour if the domain has one.
    pub fn styles(&self) -> Vec<String> {
        let own = ["console.css", "public.css"].map(assets::public_url);
        let color = self.brand.color.and_then(|color| color.strip_prefix('#'));
        let color = color.map(|digits| format!("/+/color/{digits}.css"));
        own.into_iter().chain(color).collect()
    }

    /// The content security policy: own files, and the logo.
    fn policy(&self) -> String {
        let logo = self.brand.logo.and_then(|logo| Url::parse(logo).ok());
        let logo = logo.filter(|logo| logo.scheme() == "https");
        let origin = logo.map_or(String::new(), |logo| {
            format!(" {}", logo.origin().ascii_serialization())
        });
        format!(
            "default-src 'none'; style-src 'self'; img-src 'self' data:{origin}; base-uri 'none'; frame-ancestors 'none'"
        )
    }

    /// Sends a page.
    pub fn send(
        &self,
        status: StatusCode,
        cache_control: &'static str,
        page: &impl Template,
    ) -> Response {
        let html = match page.render() {
            Ok(html) => html,
            Err(error) => {
                tracing::error!(%error, "failed to render a page; answering 500");
                return Problem::new(Kind::Internal).into_response();
            }
        };
        let mut response = (status, Html(html)).into_response();
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let cache_control = HeaderValue::from_static(cache_control);
        headers.insert(header::CACHE_CONTROL, cache_control);
        if let Ok(policy) = HeaderValue::try_from(self.policy()) {
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        response
    }
}

/// A page with a message.
#[derive(Template)]
#[template(path = "public/message.html")]
pub struct Message<'d> {
    frame: Frame<'d>,
    text: Cow<'static, str>,
}

impl<'d> Message<'d> {
    /// Creates a page with a heading and a paragraph of text.
    pub fn new(title: &'static str, text: impl Into<Cow<'static, str>>, brand: Brand<'d>) -> Self {
        Self {
            frame: Frame::new(title, brand),
            text: text.into(),
        }
    }

    /// 429 with the seconds until the next attempt.
    pub fn too_many(seconds: u64, brand: Brand<'d>) -> Response {
        let page = Self::new(t::TOO_MANY, t::TOO_MANY_TEXT, brand);
        let mut response = page.send(StatusCode::TOO_MANY_REQUESTS, NO_STORE);
        let seconds = HeaderValue::from(seconds);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
        response
    }

    /// The page for a problem.
    pub fn of_problem(problem: &Problem, brand: Brand<'d>) -> Response {
        let page = Self::new(t::FAILED, problem.text().to_owned(), brand);
        page.send(problem.status(), NO_STORE)
    }

    /// The page for an outcome other than a redirect.
    pub(crate) fn of(outcome: Outcome, brand: Brand<'d>) -> Self {
        let (title, text) = match outcome {
            Outcome::NotFound => (t::NOT_FOUND, t::NOT_FOUND_TEXT),
            Outcome::Gone => (t::GONE, t::GONE_TEXT),
            _ => (t::UNAVAILABLE, t::UNAVAILABLE_TEXT),
        };
        Self::new(title, text, brand)
    }

    /// Sends the page with this status and `cache-control` header.
    pub fn send(&self, status: StatusCode, cache_control: &'static str) -> Response {
        self.frame.send(status, cache_control, self)
    }
}

/// The page with the password form of a link. It reveals nothing about the link, and posts to its own address.
#[derive(Template)]
#[template(path = "public/password.html")]
pub(crate) struct PasswordPage<'d> {
    frame: Frame<'d>,
    notice: Notice,
}

impl<'d> PasswordPage<'d> {
    pub(crate) fn new(notice: Notice, brand: Brand<'d>) -> Self {
        Self {
            frame: Frame::new(t::PASSWORD, brand),
            notice,
        }
    }

    pub(crate) fn send(&self, status: StatusCode, cache_control: &'static str) -> Response {
        let mut response = self.frame.send(status, cache_control, self);
        let policy = HeaderValue::from_static(REFERRER_POLICY);
        response
            .headers_mut()
            .insert(header::REFERRER_POLICY, policy);
        response
    }
}

/// `GET /+/color/{name}`: the style sheet of a colour, such as `1a2b3c.css`, because no page has styles in it.
pub async fn color(Path(name): Path<String>) -> Response {
    let digits = name.strip_suffix(".css").filter(|digits| {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.len() == 6 && digits.bytes().all(is_hex)
    });
    let Some(digits) = digits else {
        return Problem::new(Kind::NotFound).into_response();
    };
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/css; charset=utf-8"),
        ),
        (header::CACHE_CONTROL, IMMUTABLE),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, format!(":root {{ --brand: #{digits}; }}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_when_logo_is_remote_allows_its_host_alone() {
        for (logo, pictures) in [
            (None, "img-src 'self' data:;"),
            (Some("data:image/png;base64,aaaa"), "img-src 'self' data:;"),
            (
                Some("https://cdn.example/a/b.png?c"),
                "img-src 'self' data: https://cdn.example;",
            ),
            (
                Some("https://cdn.example:8443/x"),
                "img-src 'self' data: https://cdn.example:8443;",
            ),
        ] {
            let brand = Brand {
                logo,
                ..Brand::default()
            };
            let policy = Frame::new("x", brand).policy();
            assert!(policy.contains(pictures), "{logo:?}: {policy}");
        }
    }
}
