//! `POST /track`: conversions.

use super::body::JsonObject;
use super::clicks::view::ConversionView;
use super::fields::{Fields, Reason};
use super::{schema, values};
use crate::clock;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use crate::store::{Conversion, Recorded, Store, StoreError};
use crate::tenancy::Scope;
use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::click_id::{self, ClickId};
use http::StatusCode;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The longest name of an event in characters.
const MAX_EVENT_LENGTH: usize = 64;

/// The longest name of an event in bytes.
const MAX_EVENT_BYTES: usize = 255;

/// The greatest value. The sum of a day has room for millions of them.
const MAX_VALUE: u64 = 1_000_000_000_000;

/// So long after its report a click is known, in milliseconds, unless the writer is behind.
const KNOWN_MILLIS: u64 = 5_000;

/// How far in the future a conversion may be, in seconds: clocks differ.
const MAX_AHEAD: u64 = 300;

/// Counts a conversion of a click.
///
/// `clickId` is the value of the parameter `el_click` that the target of a link with `trackConversions` gets. A conversion counts once
/// for each `externalId` of the link, and without one once for each click and event.
#[utoipa::path(
    post,
    path = "/track",
    operation_id = "trackConversion",
    tag = "analytics",
    request_body = schema::NewConversion,
    responses(
        (status = 201, description = "The conversion, which counts", body = ConversionView),
        (status = 200, description = "The conversion, which was counted before", body = ConversionView),
    )
)]
pub(crate) async fn track(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let conversion = parse(Fields::new(object))?;
    let unknown = || Problem::new(Kind::ClickNotFound);
    let found = app
        .store
        .identified_click(caller.tenant_id(), conversion.click_id);
    let Some(click) = found.await? else {
        return Err(match is_behind(&app.store).await? {
            true => Problem::new(Kind::Overloaded)
                .with_detail("clicks wait to be written, and this one may be among them"),
            false => unknown(),
        });
    };
    let scope = caller.scope().as_ref();
    let sees_all = *scope == Scope::tenant(caller.tenant_id());
    if !sees_all && !app.store.has_link(scope, click.link_id).await? {
        return Err(unknown());
    }
    let hash = hash(&conversion, click.link_id);
    let recorded = app.store.record_conversion(&click, &conversion, &hash);
    let (status, conversion) = match recorded.await? {
        Recorded::New => (StatusCode::CREATED, conversion),
        Recorded::Before(before) => (StatusCode::OK, before),
        Recorded::TooMany => return Err(Problem::new(Kind::TooManyConversions)),
    };
    Ok((status, Json(ConversionView::new(conversion))).into_response())
}

/// Whether reports of clicks wait for longer than it takes until a click is known.
async fn is_behind(store: &Store) -> Result<bool, StoreError> {
    let oldest = store.oldest_report().await?;
    Ok(oldest.is_some_and(|oldest| oldest + KNOWN_MILLIS < clock::unix_millis()))
}

fn parse(mut fields: Fields) -> Result<Conversion, Problem> {
    let now = clock::unix_seconds();
    let conversion = Conversion {
        click_id: fields.required("clickId", parse_id).unwrap_or_default(),
        event: fields.required("eventName", event).unwrap_or_default(),
        external_id: fields.optional("externalId", values::external_id),
        value: fields.optional("value", value).unwrap_or_default(),
        currency: fields.optional("currency", currency).unwrap_or_default(),
        at: fields.optional("at", values::time).unwrap_or(now),
    };
    if conversion.value > 0 && conversion.currency.is_empty() {
        fields.refuse("currency", "is required with value");
    }
    if conversion.at > now + MAX_AHEAD {
        fields.refuse("at", "must not be in the future");
    }
    fields.finish().map(|()| conversion)
}

/// What a conversion counts once for: others of the link are those of all who may see it.
fn hash(conversion: &Conversion, link_id: u64) -> [u8; 32] {
    let hash = Sha256::new().chain_update(link_id.to_be_bytes());
    let hash = match &conversion.external_id {
        Some(id) => hash.chain_update([1]).chain_update(id),
        None => hash
            .chain_update([2])
            .chain_update(conversion.click_id)
            .chain_update(&conversion.event),
    };
    hash.finalize().into()
}

fn parse_id(value: &Value) -> Result<ClickId, Reason> {
    let id = click_id::parse(values::text(value)?);
    id.ok_or(Reason::Borrowed("must be the 22 characters of el_click"))
}

fn event(value: &Value) -> Result<String, Reason> {
    let event = values::text(value)?;
    let length = event.chars().count();
    let is_short = (1..=MAX_EVENT_LENGTH).contains(&length) && event.len() <= MAX_EVENT_BYTES;
    if is_short && !event.chars().any(char::is_control) {
        Ok(event.to_owned())
    } else {
        Err("must be 1 to 64 characters, of 255 bytes at most, without control characters".into())
    }
}

fn value(value: &Value) -> Result<u64, Reason> {
    let value = value.as_u64().filter(|value| *value <= MAX_VALUE);
    value.ok_or(Reason::Borrowed(
        "must be a whole number from 0 to 1000000000000, in the smallest unit of the currency",
    ))
}

fn currency(value: &Value) -> Result<String, Reason> {
    let currency = values::text(value)?;
    match currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
        true => Ok(currency.to_owned()),
        false => Err("must be three letters of ISO 4217, such as EUR".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Result<Conversion, Vec<String>> {
        let Value::Object(object) = body else {
            panic!()
        };
        parse(Fields::new(object)).map_err(|problem| {
            let document = serde_json::to_value(problem.document()).unwrap();
            let errors = document["errors"].as_array().unwrap();
            errors
                .iter()
                .map(|error| error["field"].as_str().unwrap().to_owned())
                .collect()
        })
    }

    #[test]
    fn what_is_wrong_with_a_conversion_is_named() {
        let wrong = json!({
            "clickId": "1", "eventName": "", "value": -1, "currency": "euro", "at": "2999-01-01T00:00:00Z", "a": 1,
        });
        let fields = ["clickId", "eventName", "value", "currency", "at", "a"];
        assert_eq!(read(wrong).unwrap_err(), fields);
        let without_currency =
            json!({ "clickId": "0".repeat(22), "eventName": "sale", "value": 5 });
        assert_eq!(read(without_currency).unwrap_err(), ["currency"]);
    }

    #[test]
    fn a_conversion_counts_once_for_its_external_id_or_for_click_and_event() {
        let of = |event: &str, id: Option<&str>, click: &str| {
            let body = json!({ "clickId": click.repeat(22), "eventName": event, "externalId": id });
            hash(&read(body).unwrap(), 7)
        };
        assert_eq!(of("sale", Some("a"), "0"), of("lead", Some("a"), "1"));
        assert_ne!(of("sale", Some("a"), "0"), of("sale", Some("b"), "0"));
        assert_eq!(of("sale", None, "0"), of("sale", None, "0"));
        assert_ne!(of("sale", None, "0"), of("lead", None, "0"));
        assert_ne!(of("sale", None, "0"), of("sale", None, "1"));
        let body = json!({ "clickId": "0".repeat(22), "eventName": "sale", "externalId": "a" });
        let conversion = read(body).unwrap();
        assert_ne!(hash(&conversion, 7), hash(&conversion, 8));
    }
}
