//! Requests to the control plane, with all of their headers.

use super::callout::LookupCallout;
use super::callout::{UNLOCK_TIMEOUT_MILLIS, UnlockCallout};
use super::{BackgroundCallout, Callout};
use crate::metrics::BackgroundKind;
use crate::settings::Settings;
use edgelink_wire::clicks::{EDGE_HEADER, SENT_AT_HEADER};
use edgelink_wire::feed_batch::POLLER_HEADER;
use edgelink_wire::password::{FORM_MEDIA_TYPE, VISITOR_HEADER};
use edgelink_wire::{TRACEPARENT, health, link_batch, visits};

/// Name and value.
type Header<'a> = (&'a str, &'a str);

/// Makes the proxy retry a request within its timeout if the connection broke before the answer: another control plane may be
/// available.
const RETRY: [Header<'static>; 2] = [
    ("x-envoy-retry-on", "connect-failure,refused-stream,reset"),
    ("x-envoy-max-retries", "2"),
];

/// Retries of requests that the control plane must not receive twice: only if it cannot have seen the first attempt.
const RETRY_UNSEEN: [Header<'static>; 2] = [
    ("x-envoy-retry-on", "connect-failure,refused-stream"),
    ("x-envoy-max-retries", "2"),
];

/// A request to the cluster of the control planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Names, in lower case, and values.
    pub headers: Vec<Header<'a>>,
    /// The body; empty for a GET.
    pub body: &'a [u8],
    /// Timeout in milliseconds.
    pub timeout_millis: u32,
}

impl<'a> Outgoing<'a> {
    /// The request of a callout. `trace` is the `traceparent` of a request that waits for it; `host_name` is the host's name for the
    /// edge, used unless a setting names it.
    #[must_use]
    pub fn of(
        settings: &'a Settings,
        callout: &'a Callout,
        trace: Option<&'a str>,
        host_name: Option<&'a str>,
    ) -> Self {
        match callout {
            Callout::Lookup(callout) => Self::lookup(settings, callout, trace),
            Callout::Background(callout) => Self::background(settings, callout, host_name),
            Callout::Form(callout) => Self::form(settings, callout),
        }
    }

    fn lookup(settings: &'a Settings, callout: &'a LookupCallout, trace: Option<&'a str>) -> Self {
        let media_type = callout.media_type();
        let is_post = !callout.body.is_empty();
        let method = if is_post { "POST" } else { "GET" };
        let mut request = Self::new(settings, method, &callout.path);
        request.headers.push(("accept", media_type));
        request.headers.extend(RETRY);
        let content_type = is_post.then_some(("content-type", media_type));
        request.headers.extend(content_type);
        request
            .headers
            .extend(trace.map(|trace| (TRACEPARENT, trace)));
        request.body = &callout.body;
        request
    }

    /// Lookups of several keys, whose lines are the body.
    #[must_use]
    pub fn lookups(settings: &'a Settings, lines: &'a [u8]) -> Self {
        let mut request = Self::new(settings, "POST", link_batch::PATH);
        request.headers.extend([
            ("accept", link_batch::MEDIA_TYPE),
            ("content-type", link_batch::MEDIA_TYPE),
        ]);
        request.headers.extend(RETRY);
        request.body = lines;
        request
    }

    fn background(
        settings: &'a Settings,
        callout: &'a BackgroundCallout,
        host_name: Option<&'a str>,
    ) -> Self {
        let edge_name = settings.edge_name.as_deref().or(host_name);
        let edge_name = edge_name.filter(|_| callout.kind == BackgroundKind::Clicks);
        let further = [
            ("accept", Some(callout.accept)),
            ("content-type", callout.content_type),
            (EDGE_HEADER, edge_name),
            (SENT_AT_HEADER, callout.sent_at.as_deref()),
            (health::HEADER, callout.health.as_deref()),
            (visits::WORKER_HEADER, callout.worker.as_deref()),
            (POLLER_HEADER, callout.poller.as_deref()),
        ];
        let further = further
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let mut request = Self::new(settings, callout.method, &callout.path);
        request.headers.extend(further);
        request.body = &callout.body;
        request.timeout_millis = callout.timeout_millis;
        request
    }

    fn form(settings: &'a Settings, callout: &'a UnlockCallout) -> Self {
        let mut request = Self::new(settings, "POST", &callout.path);
        request.headers.extend([
            ("content-type", FORM_MEDIA_TYPE),
            (VISITOR_HEADER, callout.visitor.as_str()),
        ]);
        request.headers.extend(RETRY_UNSEEN);
        request.body = &callout.body;
        request.timeout_millis = UNLOCK_TIMEOUT_MILLIS;
        request
    }

    fn new(settings: &'a Settings, method: &'a str, path: &'a str) -> Self {
        let control_plane = &settings.control_plane;
        let authority = control_plane.authority.as_str();
        let authorization = control_plane.authorization.as_deref();
        let mut headers = Vec::with_capacity(10);
        headers.extend([
            (":method", method),
            (":path", path),
            (":authority", authority),
        ]);
        headers.extend(authorization.map(|value| ("authorization", value)));
        Self {
            headers,
            body: &[],
            timeout_millis: control_plane.timeout_millis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edge_name_when_set_replaces_that_of_the_host() {
        let name = |setting: &str, kind| {
            let json = format!(
                r#"{{"domains":["go.example"],"controlPlane":{{"cluster":"c"}}{setting}}}"#
            );
            let settings = Settings::parse(json.as_bytes()).unwrap();
            let callout = BackgroundCallout {
                kind,
                method: "POST",
                path: "/".to_owned(),
                accept: "a/b",
                content_type: None,
                sent_at: None,
                health: None,
                worker: None,
                poller: None,
                body: Vec::new(),
                timeout_millis: 1,
            };
            let request = Outgoing::background(&settings, &callout, Some("host"));
            let mut headers = request.headers.iter();
            let found = headers.find(|(name, _)| *name == EDGE_HEADER);
            found.map(|(_, value)| (*value).to_owned())
        };
        let named = r#","edgeName":"paris-1""#;
        let clicks = BackgroundKind::Clicks;
        assert_eq!(name("", clicks).as_deref(), Some("host"));
        assert_eq!(name(named, clicks).as_deref(), Some("paris-1"));
        assert_eq!(name(named, BackgroundKind::Poll), None);
    }
}
