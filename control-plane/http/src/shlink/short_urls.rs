//! `/short-urls`: one short URL, and its redirect rules.

use super::failure::Failure;
use super::fields::{NamedLink, query as parameters, take_foreign, unless_wrong};
use super::view;
use crate::api::body::{JsonObject, PhpObject};
use crate::api::if_match::IfMatch;
use crate::api::one::RequestedLink;
use crate::api::{one, rules as admin_rules};
use crate::app::ApiCall;
use crate::auth::sends_key;
use axum::extract::{RawQuery, Request};
use axum::response::{IntoResponse, Response};
use edgelink_service::create_link::CreateLink;
use edgelink_service::fields::Reason;
use edgelink_service::link_patch::LinkPatch;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::values;
use http::{HeaderValue, Uri};
use serde_json::{Map, Value};

/// `POST /short-urls`: 200 with the short URL, new or found.
pub(super) async fn create(
    ApiCall { app, caller }: ApiCall,
    JsonObject(mut object): JsonObject,
) -> Result<Response, Failure> {
    let links = &app.links.of_tenant(&caller);
    let slug = object.get("customSlug").cloned();
    let foreign = take_foreign(&mut object, links);
    let request = CreateLink::read(object, links, &caller);
    let request = unless_wrong(foreign, request)?;
    let taken = |problem: Problem| match problem.kind() {
        Kind::SlugTaken => Failure::from(problem).with("customSlug", slug.unwrap_or_default()),
        _ => problem.into(),
    };
    let made = app.links.create(&caller, request).await.map_err(taken)?;
    let view = view::found(&app, &made.value.link).await?;
    Ok(made.answer(|_| view))
}

/// `GET /short-urls/shorten`: 200 with the short URL of `longUrl`, as JSON, or as text by `format=txt`. An equal one is found.
pub(super) async fn shorten(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let mut fields = parameters(query.as_deref(), &[])?;
    let target = fields.required("longUrl", values::string);
    let is_text = fields.optional("format", format).unwrap_or_default();
    fields.finish()?;
    let links = &app.links.of_tenant(&caller);
    let mut object = Map::new();
    object.insert("longUrl".to_owned(), target.unwrap_or_default().into());
    object.insert("findIfExists".to_owned(), true.into());
    let request = CreateLink::read(object, links, &caller)?;
    let made = app.links.create(&caller, request).await?;
    if is_text {
        let link = &made.value.link;
        let url = app.config.links.short_url(&link.domain, &link.code);
        return Ok(made.answer(|_| url.into_response()));
    }
    let view = view::found(&app, &made.value.link).await?;
    Ok(made.answer(|_| view))
}

/// True for text.
fn format(value: &Value) -> Result<bool, Reason> {
    match values::text(value)? {
        "txt" => Ok(true),
        "json" => Ok(false),
        _ => Err("must be json or txt".into()),
    }
}

/// Moves the key of a request to shorten from its query to its header: a bookmark has no headers.
pub(super) async fn key_of_query(mut request: Request) -> Request {
    let uri = request.uri();
    let Some(query) = uri.query().filter(|_| uri.path().ends_with("/shorten")) else {
        return request;
    };
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let (keys, others): (Vec<_>, Vec<_>) = pairs.partition(|(name, _)| name == "apiKey");
    let Some((_, key)) = keys.first().filter(|_| !sends_key(request.headers())) else {
        return request;
    };
    let rest = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(&others)
        .finish();
    let path = format!("{}?{rest}", uri.path());
    if let (Ok(key), Ok(path)) = (HeaderValue::try_from(key.as_ref()), path.parse()) {
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
            request.headers_mut().insert("x-api-key", key);
        }
    }
    request
}

/// `GET /short-urls/{code}`.
pub(super) async fn get(
    ApiCall { app, caller }: ApiCall,
    NamedLink(key, fields): NamedLink,
) -> Result<Response, Failure> {
    fields.finish()?;
    let link = app.links.find(&caller, &key).await?;
    view::found(&app, &link).await
}

/// `PATCH /short-urls/{code}`: missing fields stay, null sets the default.
pub(super) async fn patch(
    ApiCall { app, caller }: ApiCall,
    NamedLink(key, fields): NamedLink,
    IfMatch(revisions): IfMatch,
    PhpObject(mut object): PhpObject,
) -> Result<Response, Failure> {
    fields.finish()?;
    let links = &app.links.of_tenant(&caller);
    let foreign = take_foreign(&mut object, links);
    let patch = unless_wrong(foreign, LinkPatch::read(object, links))?;
    let changed = app.links.change(&caller, key, revisions, patch).await?;
    let view = view::found(&app, &changed.value).await?;
    Ok(changed.answer(|_| view))
}

/// `DELETE /short-urls/{code}`.
pub(super) async fn delete(
    call: ApiCall,
    NamedLink(key, fields): NamedLink,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    fields.finish()?;
    Ok(one::delete(call, RequestedLink(key), if_match).await?)
}

/// `GET /short-urls/{code}/redirect-rules`.
pub(super) async fn rules(
    call: ApiCall,
    NamedLink(key, fields): NamedLink,
) -> Result<Response, Failure> {
    fields.finish()?;
    Ok(admin_rules::get(call, RequestedLink(key)).await?)
}

/// `POST /short-urls/{code}/redirect-rules`: replaces all rules.
pub(super) async fn replace_rules(
    call: ApiCall,
    NamedLink(key, fields): NamedLink,
    if_match: IfMatch,
    body: JsonObject,
) -> Result<Response, Failure> {
    fields.finish()?;
    let key = RequestedLink(key);
    Ok(admin_rules::replace(call, key, if_match, body).await?)
}
