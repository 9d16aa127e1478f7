//! `GET /events`: clicks as they are reported, as server-sent events.

use super::schema;
use crate::app::{ApiCall, App};
use crate::auth::{Caller, check_again};
use axum::extract::RawQuery;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use edgelink_clicks::live::{ListenerFilter, LiveEvent, Subscription};
pub use edgelink_service::caller::Right;
use edgelink_service::click_filter as filter;
use edgelink_service::fields::Fields;
use edgelink_service::link_list::filter_tags;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::values;
use edgelink_settings::admission::Permit;
use edgelink_wire::LinkKey;
use futures_util::stream;
use http::{HeaderMap, HeaderName};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval after which the key is checked again, before the next event.
const CHECKED_EVERY: Duration = Duration::from_secs(5);

/// Time for which a stream continues while its key cannot be checked.
const UNCHECKED: Duration = Duration::from_mins(1);

/// Streams clicks as they are reported, as server-sent events.
///
/// Events are named `click`, with JSON: `at`, `count`, `shortCode`, `domain`, `tags`, and what is known of the visitor, as in the
/// clicks of a link. An event `lost` says that `count` clicks or more were left out, because the listener is too slow, or, with 0, that some
/// may be missing. A comment
/// comes at least every 10 s. What was reported before is not sent: `Last-Event-ID` has no effect. The stream ends when the
/// process stops, or the key is revoked or changed.
#[utoipa::path(
    get,
    path = "/events",
    operation_id = "streamEvents",
    tag = "analytics",
    params(schema::OfEvents),
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream"))
)]
pub async fn stream(
    ApiCall { app, caller }: ApiCall,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    caller.require(Right::ReadLinks)?;
    let mut fields = Fields::of_query_with(query.as_deref(), &filter::LISTS)?;
    let links = app.links.of_tenant(&caller);
    let code = fields.optional("shortCode", filter::code);
    let mut filter = ListenerFilter {
        scope: caller.scope().as_ref().clone(),
        link_id: None,
        domain: fields.optional("domain", |value| values::domain(value, &links)),
        tags: fields.optional("tags", filter_tags).unwrap_or_default(),
    };
    fields.finish()?;
    if let Some(code) = code {
        let domain = filter.domain.take();
        let domain = domain.unwrap_or_else(|| links.default_domain().clone());
        let link = app.links.find(&caller, &LinkKey::new(domain, code)).await?;
        filter.link_id = Some(link.id);
    }
    let permit = app.bounded.streams.try_take(caller.claim())?;
    let subscription = app.live.listen(filter).await;
    let subscription = subscription
        .map_err(|error| Problem::new(Kind::Overloaded).with_detail(error.to_string()))?;
    let stream = ClickStream {
        app,
        caller,
        headers,
        subscription,
        checked: None,
        tried: Instant::now(),
        _permit: permit,
    };
    let events = stream::unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    // Otherwise a proxy would buffer events.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((unbuffered, Sse::new(events)).into_response())
}

/// An open stream.
struct ClickStream {
    app: Arc<App>,
    caller: Caller,
    headers: HeaderMap,
    subscription: Subscription,
    /// Time of the last successful check of the key; `None` at the beginning.
    checked: Option<Instant>,
    /// Time of the last attempt to check the key.
    tried: Instant,
    _permit: Permit,
}

impl ClickStream {
    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        let Some(checked) = self.checked else {
            self.checked = Some(Instant::now());
            return Some(Event::default().comment("listening"));
        };
        let event = self.subscription.next().await?;
        if self.tried.elapsed() >= CHECKED_EVERY {
            self.tried = Instant::now();
            match check_again(&self.app.keys, &self.headers, &self.caller).await {
                Ok(()) => self.checked = Some(self.tried),
                Err(problem) if problem.is_possibly_done() && checked.elapsed() < UNCHECKED => {}
                Err(_) => return None,
            }
        }
        Some(match event {
            LiveEvent::Click(json) => Event::default().event("click").data(json.as_ref()),
            LiveEvent::Lost(count) => {
                let data = format!("{{\"count\":{count}}}");
                Event::default().event("lost").data(data)
            }
            LiveEvent::Beat => Event::default().comment("beat"),
        })
    }
}
