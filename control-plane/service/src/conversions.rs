//! The use case of conversions: visitors' actions after a click.

use super::caller::{Caller, Right};
use super::fields::{Fields, Reason};
use super::links::Links;
use super::request::request;
use super::values;
use crate::problem::{Kind, Problem};
pub use edgelink_click_store::Conversion;
use edgelink_click_store::Recorded;
use edgelink_model::clock;
use edgelink_model::tenancy::Scope;
use edgelink_store::{Store, StoreError};
use edgelink_wire::click_id::{self, ClickId};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The longest name of an event in characters.
const MAX_EVENT_LENGTH: usize = 64;

/// The longest name of an event in bytes.
const MAX_EVENT_BYTES: usize = 255;

/// The greatest value. The sum of a day has room for millions of them.
const MAX_VALUE: u64 = 1_000_000_000_000;

/// Milliseconds from the report of a click until it can be found, unless the writer is behind.
const KNOWN_MILLIS: u64 = 5_000;

/// Seconds that a conversion may be in the future: clocks differ.
const MAX_AHEAD: u64 = 300;

request! {
    /// What a visitor did after a click.
    #[schema(example = json!({
        "clickId": "3m8pRkD0wQzT6bY1vXcN9s", "eventName": "sale", "externalId": "order-17", "value": 4999, "currency": "EUR",
    }))]
    pub struct NewConversion() {
        /// The value of `el_click`.
        #[schema(pattern = "^[0-9A-Za-z]{22}$")]
        "clickId" click_id: needed ClickId as String = click_id_of;
        /// What the visitor did.
        #[schema(format = "line", min_length = 1, max_length = 64)]
        "eventName" event: needed String as String = event;
        /// Its id in another system, for which it counts once of the link.
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "externalId" external_id: optional String as String = values::external_id;
        /// What it is worth, in the smallest unit of the currency; by default 0.
        #[schema(maximum = 1_000_000_000_000_u64)]
        "value" value: optional u64 as u64 = value;
        /// Three letters of ISO 4217; needed with a value.
        #[schema(pattern = "^[A-Z]{3}$")]
        "currency" currency: optional String as String = currency;
        /// When it was; by default now.
        #[schema(format = "date-time")]
        "at" at: optional u64 as String = values::time;
    }
}

/// Reads a conversion.
///
/// # Errors
/// A problem that names each wrong field.
pub fn read(object: Map<String, Value>) -> Result<Conversion, Problem> {
    let now = clock::unix_seconds();
    let mut fields = Fields::new(object);
    let new = NewConversion::of(&mut fields);
    if let Some(new) = &new {
        if new.value.is_some_and(|value| value > 0) && new.currency.is_none() {
            fields.refuse("currency", "is required with value");
        }
        if new.at.is_some_and(|at| at > now + MAX_AHEAD) {
            fields.refuse("at", "must not be in the future");
        }
    }
    fields.finish()?;
    let new = new.ok_or_else(|| Problem::new(Kind::Internal))?;
    Ok(Conversion {
        click_id: new.click_id.unwrap_or_default(),
        event: new.event.unwrap_or_default(),
        external_id: new.external_id,
        value: new.value.unwrap_or_default(),
        currency: new.currency.unwrap_or_default(),
        at: new.at.unwrap_or(now),
    })
}

/// A counted conversion.
pub enum Tracked {
    /// Counted by this request.
    New(Conversion),
    /// Counted by an earlier request.
    Before(Conversion),
}

impl Links {
    /// Counts a conversion of a click on a link that the caller may see.
    pub async fn track(&self, caller: &Caller, conversion: Conversion) -> Result<Tracked, Problem> {
        caller.require(Right::ChangeLinks)?;
        let unknown = || Problem::new(Kind::ClickNotFound);
        let found = self
            .store
            .clicks()
            .identified_click(caller.tenant_id(), conversion.click_id);
        let Some(click) = found.await? else {
            return Err(if is_behind(&self.store).await? {
                Problem::new(Kind::Overloaded)
                    .with_detail("clicks wait to be written, and this one may be among them")
            } else {
                unknown()
            });
        };
        let scope = caller.scope().as_ref();
        let sees_all = *scope == Scope::tenant(caller.tenant_id());
        if !sees_all && !self.store.has_link(scope, click.link_id).await? {
            return Err(unknown());
        }
        let hash = hash(&conversion, click.link_id);
        let recorded = self
            .store
            .clicks()
            .record_conversion(&click, &conversion, &hash);
        match recorded.await? {
            Recorded::New => Ok(Tracked::New(conversion)),
            Recorded::Before(before) => Ok(Tracked::Before(before)),
            Recorded::TooMany => Err(Problem::new(Kind::TooManyConversions)),
        }
    }
}

/// True if reports of clicks have waited for longer than [`KNOWN_MILLIS`].
async fn is_behind(store: &Store) -> Result<bool, StoreError> {
    let oldest = store.clicks().oldest_report().await?;
    Ok(oldest.is_some_and(|oldest| oldest + KNOWN_MILLIS < clock::unix_millis()))
}

/// The identity of a conversion, which counts once: its external id, or its click and event, within the link.
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

fn click_id_of(value: &Value) -> Result<ClickId, Reason> {
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
    if currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
        Ok(currency.to_owned())
    } else {
        Err("must be three letters of ISO 4217, such as EUR".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_body(body: Value) -> Result<Conversion, Vec<String>> {
        let Value::Object(object) = body else {
            panic!()
        };
        read(object).map_err(|problem| {
            let document = serde_json::to_value(problem.document()).unwrap();
            let errors = document["errors"].as_array().unwrap();
            errors
                .iter()
                .map(|error| error["field"].as_str().unwrap().to_owned())
                .collect()
        })
    }

    #[test]
    fn conversion_when_wrong_names_its_fields() {
        let wrong = json!({
            "clickId": "1", "eventName": "", "value": -1, "currency": "euro", "at": "2999-01-01T00:00:00Z", "a": 1,
        });
        let fields = ["clickId", "eventName", "value", "currency", "at", "a"];
        assert_eq!(read_body(wrong).unwrap_err(), fields);
        let without_currency =
            json!({ "clickId": "0".repeat(22), "eventName": "sale", "value": 5 });
        assert_eq!(read_body(without_currency).unwrap_err(), ["currency"]);
    }

    #[test]
    fn conversion_when_repeated_has_an_equal_hash() {
        let of = |event: &str, id: Option<&str>, click: &str| {
            let body = json!({ "clickId": click.repeat(22), "eventName": event, "externalId": id });
            hash(&read_body(body).unwrap(), 7)
        };
        assert_eq!(of("sale", Some("a"), "0"), of("lead", Some("a"), "1"));
        assert_ne!(of("sale", Some("a"), "0"), of("sale", Some("b"), "0"));
        assert_eq!(of("sale", None, "0"), of("sale", None, "0"));
        assert_ne!(of("sale", None, "0"), of("lead", None, "0"));
        assert_ne!(of("sale", None, "0"), of("sale", None, "1"));
        let body = json!({ "clickId": "0".repeat(22), "eventName": "sale", "externalId": "a" });
        let conversion = read_body(body).unwrap();
        assert_ne!(hash(&conversion, 7), hash(&conversion, 8));
    }
}
