//! `GET /events`: clicks as they are reported, as server-sent events.

use super::clicks::filter;
use super::fields::Fields;
use super::list::filter_tags;
use super::{one, schema, values};
use crate::http::app::App;
use crate::http::auth::{Caller, check_again};
use crate::live::{ListenerFilter, LiveEvent, Subscription};
use crate::problem::{Kind, Problem};
use axum::extract::{Extension, RawQuery, State};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use edgelink_wire::LinkKey;
use futures_util::stream;
use http::HeaderMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a stream goes on before its key is checked again.
const CHECKED_EVERY: Duration = Duration::from_secs(15);

/// Streams clicks as they are reported, as server-sent events.
///
/// Events are named `click`, with JSON: `at`, `count`, `shortCode`, `domain`, `tags`, and what is known of the visitor, as in the
/// clicks of a link. An event `lost` says that `count` clicks or more were left out, because the listener is too slow. A comment
/// comes at least every 15 s. What was reported before is not sent: `Last-Event-ID` has no effect. The stream ends when the
/// process stops, or the key is revoked or changed.
#[utoipa::path(
    get,
    path = "/events",
    operation_id = "streamEvents",
    tag = "analytics",
    params(schema::OfEvents),
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream"))
)]
pub(crate) async fn stream(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut fields = Fields::of_query_with(query.as_deref(), &filter::LISTS)?;
    let links = app.links(&caller);
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
        let link = one::find(&app, &caller, &LinkKey::new(domain, code)).await?;
        filter.link_id = Some(link.id);
    }
    let subscription = app.live.listen(filter).await;
    let subscription = subscription
        .map_err(|error| Problem::new(Kind::Overloaded).with_detail(error.to_string()))?;
    let stream = Stream {
        app,
        caller,
        headers,
        subscription,
        checked: None,
    };
    let events = stream::unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    Ok(Sse::new(events).into_response())
}

/// A stream under way.
struct Stream {
    app: Arc<App>,
    caller: Caller,
    headers: HeaderMap,
    subscription: Subscription,
    /// When it was checked last that the key is what it was; `None` at the beginning.
    checked: Option<Instant>,
}

impl Stream {
    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        let Some(checked) = self.checked else {
            self.checked = Some(Instant::now());
            return Some(Event::default().comment("listening"));
        };
        if checked.elapsed() >= CHECKED_EVERY {
            // A key that cannot be checked now is checked again with the next event.
            match check_again(&self.app.keys, &self.headers, &self.caller).await {
                Ok(()) => self.checked = Some(Instant::now()),
                Err(problem) if problem.is_possibly_done() => {}
                Err(_) => return None,
            }
        }
        match self.subscription.next().await? {
            LiveEvent::Click(json) => Some(Event::default().event("click").data(json.as_ref())),
            LiveEvent::Lost(count) => {
                let data = format!("{{\"count\":{count}}}");
                Some(Event::default().event("lost").data(data))
            }
            LiveEvent::Beat => Some(Event::default().comment("beat")),
        }
    }
}
