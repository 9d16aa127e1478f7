//! `GET /{code}+`: shows the target of a link without redirecting or counting.

use askama::Template;
use axum::response::Response;
use edgelink_http::admitted::Admitted;
use edgelink_http::app::App;
use edgelink_http::redirect::{page, requested_domain, unknown_host};
use edgelink_http::ui::frame::Frame;
use edgelink_http::ui::strings as t;
use edgelink_model::clock;
use edgelink_model::links::model::Link;
use edgelink_model::timestamp;
use edgelink_service::visitors::StoreError;
use edgelink_settings::domains::model::Brand;
use edgelink_wire::record::Extension;
use edgelink_wire::redirect::{CACHE_CONTROL, NO_STORE};
use edgelink_wire::{Code, LinkKey, LinkPrefix, Outcome, Record};
use http::{Extensions, HeaderMap, StatusCode, Uri};
use std::sync::Arc;
use url::Url;

/// The code whose preview a path requests. The plus sign may be literal or `%2B`.
pub fn requested_code(uri: &Uri) -> Option<Code> {
    let segment = uri.path().strip_prefix('/')?;
    let code = ["+", "%2B", "%2b"]
        .iter()
        .find_map(|plus| segment.strip_suffix(plus))?;
    Code::parse(code).ok()
}

#[derive(Template)]
#[template(path = "public/preview.html")]
struct PreviewPage<'d> {
    frame: Frame<'d>,
    short_url: String,
    prefix: &'d LinkPrefix,
    code: Code,
    reports: bool,
    /// The shown properties of the link; `None` if it is locked.
    shown: Option<PreviewedLink>,
}

/// The public properties of a link.
struct PreviewedLink {
    target: String,
    /// The host of the target, as in the DNS, so that letters of other scripts do not deceive.
    site: String,
    title: Option<String>,
    created_at: String,
    ends_at: Option<String>,
    has_rules: bool,
}

impl PreviewedLink {
    fn new(link: &Link) -> Self {
        let content = &link.content;
        let target = content.target.as_str();
        let site = Url::parse(target).ok();
        let site = site.and_then(|url| url.host_str().map(str::to_owned));
        Self {
            target: target.to_owned(),
            site: site.unwrap_or_default(),
            title: content.title.clone(),
            created_at: timestamp::from_seconds(link.created_at / 1_000),
            ends_at: content.valid_until.map(timestamp::from_seconds),
            has_rules: !content.details.rules.is_empty(),
        }
    }
}

/// The result of looking up a link for its preview.
enum Seen {
    Nothing(Outcome),
    Locked,
    Link(Box<Link>),
}

/// Answers a request for the preview of a link.
pub async fn answer(
    app: &App,
    code: Code,
    (headers, extensions): (&HeaderMap, &Extensions),
) -> Response {
    let domains = app.domains.current();
    let Some(domain) = requested_domain(app, &domains, headers) else {
        return unknown_host(app);
    };
    let brand = domains.brand(domain);
    let admitted = Admitted::of(extensions);
    let Ok(_permit) = app.bounded.pages.try_take(admitted.claim()) else {
        return page(app, Outcome::Unavailable, brand);
    };
    let key = LinkKey::new(domain.clone(), code);
    match look_at(app, &key).await {
        Ok(Seen::Nothing(outcome)) => page(app, outcome, brand),
        Ok(Seen::Locked) => show(app, &key, None, brand),
        Ok(Seen::Link(link)) => show(app, &key, Some(&link), brand),
        Err(error) => {
            tracing::debug!(%key, %error, "failed to look up a link for its preview");
            page(app, Outcome::Unavailable, brand)
        }
    }
}

/// Looks up a link. An unknown code costs no more than a visit.
async fn look_at(app: &App, key: &LinkKey) -> Result<Seen, Arc<StoreError>> {
    let record = app.resolver.resolve(key).await?.record;
    let outcome = Outcome::of(&record, clock::unix_seconds());
    let Record::Link(found) = &record else {
        return Ok(Seen::Nothing(outcome));
    };
    if outcome != Outcome::Redirect {
        return Ok(Seen::Nothing(outcome));
    }
    let extension = Extension::decode_again(&found.extension);
    if extension.unlock_key.is_some() {
        return Ok(Seen::Locked);
    }
    if extension.max_visits.is_some() && !app.links.has_uses(key).await? {
        return Ok(Seen::Nothing(Outcome::Gone));
    }
    let link = app.links.stored(key).await?;
    // It may have been deleted, or locked, since.
    Ok(match link {
        Some(link) if link.content.details.password.is_some() => Seen::Locked,
        Some(link) => Seen::Link(Box::new(link)),
        None => Seen::Nothing(Outcome::NotFound),
    })
}

fn show<'d>(app: &'d App, key: &LinkKey, link: Option<&Link>, brand: Brand<'d>) -> Response {
    let page = PreviewPage {
        frame: Frame::new(t::PREVIEW, brand),
        short_url: app.config.links.short_url(&key.domain, &key.code),
        prefix: &app.config.links.prefix,
        code: key.code.clone(),
        reports: app.config.reports.enabled,
        shown: link.map(PreviewedLink::new),
    };
    let cache_control = match link {
        Some(_) => CACHE_CONTROL,
        None => NO_STORE,
    };
    page.frame.send(StatusCode::OK, cache_control, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_when_followed_by_a_plus_asks_for_its_preview() {
        for (path, code) in [
            ("/abc+", Some("abc")),
            ("/abc+?x=y", Some("abc")),
            ("/abc%2B", Some("abc")),
            ("/abc%2b", Some("abc")),
            ("/abc", None),
            ("/+", None),
            ("/abc++", None),
            ("/abc+/", None),
            ("/a/b+", None),
            ("/api+", None),
        ] {
            let uri: Uri = path.parse().unwrap();
            let found = requested_code(&uri);
            assert_eq!(found.as_ref().map(Code::as_str), code, "{path}");
        }
    }
}
