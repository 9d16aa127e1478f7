//! `POST /links/bulk`: many links in one request, each with an outcome of its own.
//!
//! Either the body is refused as a whole and creates nothing, or every item has its outcome. The body is parsed as it arrives:
//! one item and the orders read so far are held, both bounded.

use super::body::is_json;
use super::create;
use super::idempotency::{RequestId, Route, WholeRequest};
use super::items::Items;
use super::quota;
use super::view::LinkView;
use crate::config::LinksConfig;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::order::{Order, OrderOutcome};
use crate::problem::{Document, Kind, Problem};
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_body_util::BodyExt;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The most links of one request.
const MAX_ITEMS: usize = 10_000;

/// The slowest rate of a large body, in bytes a second.
const MIN_BODY_RATE: usize = 65_536;

type Parsed = Result<Order, Problem>;

#[derive(Serialize)]
struct BulkView<'a> {
    created: usize,
    existing: usize,
    failed: usize,
    results: Vec<ItemView<'a>>,
}

#[derive(Serialize)]
struct ItemView<'a> {
    index: usize,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<LinkView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Document<'a>>,
}

pub(crate) async fn create_many(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    if !is_json(request.headers()) {
        return Err(Problem::new(Kind::UnsupportedMediaType)
            .with_detail("send the body with 'Content-Type: application/json'"));
    }
    let id = RequestId::of(request.headers(), &caller, Route::Bulk)?;
    let Ok(_permit) = app.bulk_permits.try_acquire() else {
        return Err(Problem::new(Kind::Overloaded));
    };
    let reader = Reader::new(&app, &caller, id.clone());
    let (parsed, whole) = reader.read(request.into_body()).await?;
    if let Some(id) = &id {
        id.claim(app.store.as_ref(), whole).await?;
    }
    let is_alias = |item: &Parsed| matches!(item, Ok(order) if order.alias.is_some());
    let are_aliases: Vec<bool> = parsed.iter().map(is_alias).collect();
    let from = app.feed.end();
    // Counted from the end of the body, which may be large.
    let limit = app.config.server.request_timeout_ms;
    let outcomes = tokio::time::timeout(limit, carry_out(&app, &caller, parsed, limit))
        .await
        .map_err(|_| Problem::new(Kind::RequestTimeout))?;
    let aliases = outcomes.iter().zip(are_aliases).filter(|(_, is)| *is);
    let created = aliases.filter_map(|(outcome, _)| outcome.as_ref().ok()?.new_link());
    let awaited = AwaitedChanges::new(from, created);
    Ok(awaited.attach_to(answer(&outcomes, &app.config.links)))
}

/// Carries out the valid orders; the outcomes are in the order of the items, refused ones included.
async fn carry_out(
    app: &App,
    caller: &Caller,
    parsed: Vec<Parsed>,
    limit: Duration,
) -> Vec<OrderOutcome> {
    let mut orders = Vec::with_capacity(parsed.len());
    let refused: Vec<Option<Problem>> = parsed
        .into_iter()
        .map(|item| item.map(|order| orders.push(order)).err())
        .collect();
    // A little before the request times out, so that the answer names what was created.
    let now = Instant::now();
    let (deadline, end) = (now + limit.mul_f32(0.8), now + limit.mul_f32(0.95));
    let mut made = quota::create_many(app, caller, &orders, deadline, end)
        .await
        .into_iter();
    let outcome = |refusal: Option<Problem>| match refusal {
        Some(problem) => Err(problem),
        None => made.next().unwrap_or(Err(Problem::new(Kind::Internal))),
    };
    refused.into_iter().map(outcome).collect()
}

/// Reads the body of a bulk request.
struct Reader<'a> {
    app: &'a App,
    caller: &'a Caller,
    id: Option<RequestId>,
    parsed: Vec<Parsed>,
    whole: WholeRequest,
    bytes: usize,
}

impl<'a> Reader<'a> {
    fn new(app: &'a App, caller: &'a Caller, id: Option<RequestId>) -> Self {
        Self {
            app,
            caller,
            id,
            parsed: Vec::new(),
            whole: WholeRequest::default(),
            bytes: 0,
        }
    }

    async fn read(mut self, mut body: Body) -> Result<(Vec<Parsed>, WholeRequest), Problem> {
        let mut items = Items::new(self.app.config.server.max_body_bytes);
        let start = Instant::now();
        while let Some(frame) = timeout_at(start + self.allowed(), body.frame())
            .await
            .map_err(|_| Problem::new(Kind::BodyTimeout))?
        {
            let frame = frame.map_err(|_| {
                Problem::new(Kind::InvalidBody).with_detail("the body ended too early")
            })?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            self.count(data.len())?;
            items.feed(data, |element| self.item(element))?;
        }
        items.finish()?;
        Ok((self.parsed, self.whole))
    }

    /// How long the body may take, by the bytes that have come.
    fn allowed(&self) -> Duration {
        let seconds = u64::try_from(self.bytes / MIN_BODY_RATE).unwrap_or(u64::MAX);
        self.app.config.server.body_timeout_ms + Duration::from_secs(seconds)
    }

    fn count(&mut self, more: usize) -> Result<(), Problem> {
        self.bytes += more;
        let limit = self.app.config.server.max_bulk_body_bytes;
        if self.bytes > limit {
            return Err(Problem::new(Kind::BodyTooLarge)
                .with_detail(format!("the body may have at most {limit} bytes")));
        }
        Ok(())
    }

    fn item(&mut self, element: &[u8]) -> Result<(), Problem> {
        if self.parsed.len() == MAX_ITEMS {
            return Err(Problem::new(Kind::BodyTooLarge)
                .with_detail(format!("at most {MAX_ITEMS} links may be created at once")));
        }
        let index = self.parsed.len();
        let value = serde_json::from_slice(element).map_err(|error| {
            Problem::new(Kind::InvalidBody).with_detail(format!("item {index}: {error}"))
        })?;
        if self.id.is_some() {
            self.whole.add(&value);
        }
        let parsed = self.order(value);
        self.parsed.push(parsed);
        Ok(())
    }

    fn order(&self, value: Value) -> Parsed {
        let Value::Object(object) = value else {
            return Err(Problem::new(Kind::Validation).with_detail("the item must be an object"));
        };
        let item = u32::try_from(self.parsed.len()).unwrap_or(u32::MAX);
        let receipt = self.id.as_ref().map(|id| id.receipt(item, &object));
        create::parse(object, &self.app.config.links, self.caller, receipt)
    }
}

fn answer(outcomes: &[OrderOutcome], links: &LinksConfig) -> Response {
    let is_new = |outcome: &&OrderOutcome| matches!(outcome, Ok(made) if !made.is_found);
    let created = outcomes.iter().filter(is_new).count();
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let view = |(index, outcome)| item_view(index, outcome, links);
    let answer = BulkView {
        created,
        existing: outcomes.len() - created - failed,
        failed,
        results: outcomes.iter().enumerate().map(view).collect(),
    };
    Json(answer).into_response()
}

fn item_view<'a>(index: usize, outcome: &'a OrderOutcome, links: &LinksConfig) -> ItemView<'a> {
    let (status, link, error) = match outcome {
        Ok(made) if made.is_found => (StatusCode::OK.as_u16(), Some(&made.link), None),
        Ok(made) => (StatusCode::CREATED.as_u16(), Some(&made.link), None),
        Err(problem) => {
            let document = problem.document();
            (document.status, None, Some(document))
        }
    };
    ItemView {
        index,
        status,
        link: link.map(|link| LinkView::new(link, links)),
        error,
    }
}
