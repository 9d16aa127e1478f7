//! Parts shared by all bulk requests: a body that is read as it arrives, and an answer for each item.

use super::body::is_json;
use super::items::Items;
use super::view::LinkView;
use crate::admitted::Admitted;
use crate::app::App;
use crate::arriving::{Arrived, Arriving};
use crate::auth::Caller;
use axum::body::Body;
use edgelink_model::links::model::Link;
use edgelink_service::bulk::{MAX_ITEMS, too_many_items};
use edgelink_service::problem::{Document, Kind, Problem};
use edgelink_settings::config::LinksConfig;
use http::{Extensions, HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use utoipa::ToSchema;

/// Checks the type of the body.
pub(super) fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    if is_json(headers) {
        Ok(())
    } else {
        Err(Problem::new(Kind::UnsupportedMediaType)
            .with_detail("send the body with 'Content-Type: application/json'"))
    }
}

/// Reads a body that is an array, and parses each item with its index by `parse`. Either the body is refused as a whole, or every
/// item is parsed. Only one unparsed item and the parsed ones are held in memory, both bounded. After the whole body has arrived,
/// this waits for the permit to work on it, so that no client holds a permit by sending slowly.
pub(super) async fn read<T>(
    app: &App,
    extensions: &Extensions,
    body: Body,
    parse: impl FnMut(usize, Value) -> T,
) -> Result<(Vec<T>, Admitted), Problem> {
    let server = &app.config.server;
    let bounds = (server.max_bulk_body_bytes, server.body_timeout_ms);
    let arriving = Arriving::new(extensions, body, bounds);
    let mut items = Items::new(server.max_body_bytes);
    let parsed = Vec::new();
    let (parsed, arrived) = Reader { parse, parsed }.read(arriving, &mut items).await?;
    let admitted = Admitted::of(extensions);
    let claim = match extensions.get::<Caller>() {
        Some(caller) => caller.claim(),
        None => admitted.claim(),
    };
    let deadline = Instant::now() + server.request_timeout_ms;
    let bulk = &app.bounded.bulk;
    let permit = arrived.wait_for(bulk.take(claim.clone(), deadline)).await?;
    admitted.add(bulk, claim, permit);
    Ok((parsed, admitted))
}

struct Reader<T, F> {
    parse: F,
    parsed: Vec<T>,
}

impl<T, F: FnMut(usize, Value) -> T> Reader<T, F> {
    async fn read(
        mut self,
        mut arriving: Arriving,
        items: &mut Items,
    ) -> Result<(Vec<T>, Arrived), Problem> {
        while let Some(bytes) = arriving.next().await? {
            items.feed(&bytes, |element| self.item(element))?;
        }
        items.finish()?;
        Ok((self.parsed, arriving.arrived()?))
    }

    fn item(&mut self, element: &[u8]) -> Result<(), Problem> {
        let index = self.parsed.len();
        if index == MAX_ITEMS {
            return Err(too_many_items());
        }
        let value = serde_json::from_slice(element).map_err(|error| {
            Problem::new(Kind::InvalidBody).with_detail(format!("item {index}: {error}"))
        })?;
        let parsed = (self.parse)(index, value);
        self.parsed.push(parsed);
        Ok(())
    }
}

/// The answer for an item.
#[derive(Serialize, ToSchema)]
#[schema(as = BulkItem)]
pub(super) struct BulkItem<'a> {
    index: usize,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<LinkView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Document<'a>>,
}

impl<'a> BulkItem<'a> {
    /// An item that has succeeded; without a link if it was deleted.
    pub(super) fn done(
        index: usize,
        status: StatusCode,
        link: Option<&'a Link>,
        links: &LinksConfig,
    ) -> Self {
        Self {
            index,
            status: status.as_u16(),
            link: link.map(|link| LinkView::new(link, links)),
            error: None,
        }
    }

    /// Its status code.
    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// An item that was refused.
    pub(super) fn refused(index: usize, problem: &'a Problem) -> Self {
        let document = problem.document();
        Self {
            index,
            status: document.status,
            link: None,
            error: Some(document),
        }
    }
}
