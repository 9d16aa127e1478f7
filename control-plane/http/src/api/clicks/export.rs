//! Single clicks as a page, or as a file that is streamed while it is read.

use super::view::{self, ClickView};
use crate::app::App;
use crate::auth::Caller;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use edgelink_clicks::analytics::{EngineError, RawPlace, RawQuery};
use edgelink_model::counts::{Bots, ClickScope};
use edgelink_service::click_filter as filter;
use edgelink_service::cursor;
use edgelink_service::fields::{Fields, Reason};
use edgelink_service::page;
use edgelink_service::problem::Problem;
use edgelink_service::values;
use edgelink_settings::admission::Permit;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use utoipa::ToSchema;

/// Limit on the number of clicks in a file.
pub(crate) const MAX_EXPORTED: u32 = 100_000;

/// Time limit for sending a file.
const LONGEST: Duration = Duration::from_mins(10);

/// Number of clicks read at once for a file.
const BATCH: u32 = 1_000;

/// The format of an answer with clicks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportFormat {
    /// A page.
    Json,
    /// A table (RFC 4180).
    Csv,
    /// Such a table with a byte order mark, without which Excel takes UTF-8 for another encoding.
    Excel,
    /// An object a line.
    Ndjson,
}

/// The parameters of a request for single clicks.
pub(crate) struct RawAsked {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) bots: Bots,
    limit: u32,
    after: Option<RawPlace>,
    format: ExportFormat,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ClickPage)]
pub(crate) struct ClicksView<'a> {
    clicks: Vec<ClickView<'a>>,
    next_cursor: Option<String>,
}

impl RawAsked {
    /// Reads the parameters `from`, `to`, `bots`, `cursor`, `limit` and `format`; the header `Accept` sets the default of `format`.
    pub(crate) fn read(fields: &mut Fields, headers: &HeaderMap) -> Self {
        let from = fields.optional("from", values::time);
        let to = fields.optional("to", values::time);
        let format = fields.optional("format", format);
        let format = format.unwrap_or_else(|| accepted(headers));
        let limit = match format {
            ExportFormat::Json => page::limit(fields),
            _ => fields.optional("limit", limit).unwrap_or(MAX_EXPORTED),
        };
        Self {
            from: from.unwrap_or_default(),
            to: to.unwrap_or(u32::MAX.into()),
            bots: fields.optional("bots", filter::bots).unwrap_or_default(),
            limit,
            after: fields.optional("cursor", place),
            format,
        }
    }

    /// Answers the caller with clicks of the scope.
    pub(crate) async fn answer(
        self,
        app: &Arc<App>,
        caller: &Caller,
        scope: ClickScope,
        orphans: bool,
    ) -> Result<Response, Problem> {
        let query = RawQuery {
            scope,
            from: self.from,
            to: self.to,
            bots: self.bots,
            orphans,
            after: self.after,
            skip: 0,
            limit: BATCH,
        };
        match self.format {
            ExportFormat::Json => one_page(app, caller, query, self.limit).await,
            format => {
                let permit = app.analytics.export(caller)?;
                export(app, permit, query, format, self.limit).await
            }
        }
    }
}

async fn one_page(
    app: &App,
    caller: &Caller,
    query: RawQuery,
    limit: u32,
) -> Result<Response, Problem> {
    let query = RawQuery {
        limit: limit + 1,
        ..query
    };
    let mut clicks = app.analytics.ask(caller).await?.raw(&query).await?;
    let next_cursor = page::cut(&mut clicks, limit).map(view::id);
    let conversions = app.analytics.conversions_of(&clicks).await?;
    let view = |click| ClickView::new(click, &conversions);
    let clicks = clicks.iter().map(view).collect();
    let view = ClicksView {
        clicks,
        next_cursor,
    };
    Ok(Json(view).into_response())
}

/// A file that is being sent.
struct Export {
    app: Arc<App>,
    query: RawQuery,
    format: ExportFormat,
    left: u32,
    /// Set until the first part has been read.
    is_first: bool,
    until: Instant,
    _permit: Permit,
}

/// Sends a file. The first part is read before the answer begins, so that a failure becomes a problem; later failures close the
/// connection.
async fn export(
    app: &Arc<App>,
    permit: Permit,
    query: RawQuery,
    format: ExportFormat,
    most: u32,
) -> Result<Response, Problem> {
    let mut export = Export {
        app: Arc::clone(app),
        query,
        format,
        left: most,
        is_first: true,
        until: Instant::now() + LONGEST,
        _permit: permit,
    };
    let first = export.next().await?.unwrap_or_default();
    let rest = stream::try_unfold(export, async |mut export: Export| {
        let next = export.next().await.inspect_err(|error| {
            tracing::warn!(%error, "export of clicks failed; closing the connection");
        })?;
        Ok::<_, EngineError>(next.map(|part| (part, export)))
    });
    let first = stream::iter([Ok(first)]);
    let body = Body::from_stream(stream::StreamExt::chain(first, rest));
    let (media_type, name) = match format {
        ExportFormat::Csv | ExportFormat::Excel => (
            "text/csv; charset=utf-8",
            "attachment; filename=\"clicks.csv\"",
        ),
        _ => (
            "application/x-ndjson",
            "attachment; filename=\"clicks.ndjson\"",
        ),
    };
    let head = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static(name)),
    ];
    Ok((head, body).into_response())
}

impl Export {
    /// The next part of the file; `None` after the last one.
    async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        let is_first = std::mem::take(&mut self.is_first);
        if self.left == 0 {
            return Ok(None);
        }
        if Instant::now() > self.until {
            return Err(EngineError::Unsupported("the client is too slow"));
        }
        let limit = self.left.min(BATCH);
        self.query.limit = limit;
        let clicks = self.app.engine.raw(&self.query).await?;
        self.query.after = clicks.last().map(|click| click.place);
        self.left = if clicks.len() < limit as usize {
            0
        } else {
            self.left - limit
        };
        let conversions = self.app.analytics.conversions_of(&clicks).await?;
        let view = |click| ClickView::new(click, &conversions);
        let views = clicks.iter().map(view);
        let bytes = match self.format {
            ExportFormat::Csv => table(views, is_first.then_some(self.query.orphans)),
            ExportFormat::Excel => {
                let mark = if is_first { "\u{feff}" } else { "" };
                let table = table(views, is_first.then_some(self.query.orphans));
                [mark.as_bytes(), &table].concat()
            }
            _ => lines(views),
        };
        Ok((is_first || !clicks.is_empty()).then(|| bytes.into()))
    }
}

/// Clicks as rows of a table, after the column names if this is the beginning. Writing to memory does not fail.
fn table<'a>(clicks: impl Iterator<Item = ClickView<'a>>, heads: Option<bool>) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    if let Some(are_orphans) = heads {
        let _ = writer.write_record(ClickView::heads(are_orphans));
    }
    for click in clicks {
        let _ = writer.write_record(click.cells());
    }
    writer.into_inner().unwrap_or_else(|_| Vec::new())
}

fn lines<'a>(clicks: impl Iterator<Item = ClickView<'a>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for click in clicks {
        let _ = serde_json::to_writer(&mut bytes, &click);
        bytes.push(b'\n');
    }
    bytes
}

/// The format that the header `Accept` asks for: a page unless it names the media type of a file.
fn accepted(headers: &HeaderMap) -> ExportFormat {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let types = accept.unwrap_or_default().split(',');
    let mut formats = types.filter_map(|text| {
        let name = text.split(';').next().unwrap_or_default().trim();
        match name.to_ascii_lowercase().as_str() {
            "text/csv" => Some(ExportFormat::Csv),
            "application/x-ndjson" | "application/ndjson" => Some(ExportFormat::Ndjson),
            "application/json" | "*/*" => Some(ExportFormat::Json),
            _ => None,
        }
    });
    formats.next().unwrap_or(ExportFormat::Json)
}

fn format(value: &Value) -> Result<ExportFormat, Reason> {
    match values::text(value)? {
        "json" => Ok(ExportFormat::Json),
        "csv" => Ok(ExportFormat::Csv),
        "excel" => Ok(ExportFormat::Excel),
        "ndjson" => Ok(ExportFormat::Ndjson),
        _ => Err("must be json, csv, excel or ndjson".into()),
    }
}

/// Parses the limit on the number of clicks.
fn limit(value: &Value) -> Result<u32, Reason> {
    let number = values::text(value)?.parse().ok();
    number
        .filter(|number| (1..=MAX_EXPORTED).contains(number))
        .ok_or(Reason::Borrowed("must be a number of 1 to 100000"))
}

fn place(value: &Value) -> Result<RawPlace, Reason> {
    let (at, number) = cursor::parse_created(value)?;
    Ok(RawPlace { at, number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_when_named_first_is_sent_as_a_file() {
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            accepted(&headers)
        };
        assert_eq!(of("text/csv"), ExportFormat::Csv);
        assert_eq!(of("Text/CSV;q=0.9, */*"), ExportFormat::Csv);
        assert_eq!(of("application/x-ndjson"), ExportFormat::Ndjson);
        assert_eq!(of("application/json, text/csv"), ExportFormat::Json);
        assert_eq!(of("*/*"), ExportFormat::Json);
        assert_eq!(of("text/html"), ExportFormat::Json);
        assert_eq!(accepted(&HeaderMap::new()), ExportFormat::Json);
    }
}
