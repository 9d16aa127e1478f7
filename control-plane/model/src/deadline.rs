//! Deadline of a request: the time until which its client waits for the answer.
//!
//! Envoy sends the remaining time with every request, callouts of edges included, as `x-envoy-expected-rq-timeout-ms`. A later
//! answer is useless, so database calls give up their permits in time, and the client gets a refusal rather than a timeout, after
//! which edges would consider the control plane dead.

use http::{HeaderMap, HeaderName};
use std::time::Duration;
use tokio::time::Instant;

/// The header with the milliseconds for which Envoy still waits.
pub(crate) const EXPECTED_TIMEOUT: HeaderName =
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms");

/// Longest deadline that is used; beyond it the timeouts of the settings apply.
const LONGEST: Duration = Duration::from_mins(1);

tokio::task_local! {
    /// Unset if no client waits, or if it has sent no timeout.
    static CLIENT_WAITS_UNTIL: Instant;
}

/// Deadline of a request that has just come in with these headers; `None` if the client has sent no timeout. An eighth of the time
/// is reserved for the way back.
pub fn of_request(headers: &HeaderMap) -> Option<Instant> {
    let millis = headers.get(EXPECTED_TIMEOUT)?.to_str().ok()?.parse().ok()?;
    let waits = Duration::from_millis(millis).min(LONGEST);
    Some(Instant::now() + waits - waits / 8)
}

/// Runs a future with `until` as the deadline of its task.
pub async fn within<T>(until: Option<Instant>, future: impl Future<Output = T>) -> T {
    match until {
        Some(until) => CLIENT_WAITS_UNTIL.scope(until, future).await,
        None => future.await,
    }
}

/// Deadline of the current task; `None` if unknown.
pub fn of_task() -> Option<Instant> {
    CLIENT_WAITS_UNTIL.try_with(|until| *until).ok()
}

/// Earlier one of `time` and the deadline of the current task.
pub fn or_sooner(time: Instant) -> Instant {
    of_task().map_or(time, |until| until.min(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[tokio::test(start_paused = true)]
    async fn deadline_when_proxy_names_a_timeout_follows_it() {
        let of = |value: Option<&'static str>| {
            let value = value.map(|value| (EXPECTED_TIMEOUT, HeaderValue::from_static(value)));
            let left = of_request(&value.into_iter().collect())?;
            Some(left - Instant::now())
        };
        assert_eq!(of(None), None);
        assert_eq!(of(Some("800")), Some(Duration::from_millis(700)));
        assert_eq!(of(Some("0")), Some(Duration::ZERO));
        assert_eq!(of(Some("soon")), None);
        let longest = of(Some("18446744073709551615"));
        assert_eq!(longest, Some(LONGEST - LONGEST / 8));
    }

    #[tokio::test]
    async fn deadline_when_task_has_no_client_is_none() {
        let until = Instant::now();
        assert_eq!(of_task(), None);
        assert_eq!(within(Some(until), async { of_task() }).await, Some(until));
        assert_eq!(within(None, async { of_task() }).await, None);
    }
}
