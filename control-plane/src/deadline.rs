//! Until when the client of a request waits for its answer.
//!
//! Envoy says so with every request that it sends, callouts of edges among them: `x-envoy-expected-rq-timeout-ms` is how long it
//! waits still. An answer that comes later is of no use, so calls of the database give their places up in time, and the client gets
//! a refusal rather than a timeout, by which edges take the control plane for dead.

use http::{HeaderMap, HeaderName};
use std::time::Duration;
use tokio::time::Instant;

/// The header by which Envoy says for how many milliseconds it waits.
pub(crate) const EXPECTED_TIMEOUT: HeaderName =
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms");

/// The longest time that counts: clients that wait longer wait for what the settings say.
const LONGEST: Duration = Duration::from_mins(1);

tokio::task_local! {
    /// It is not set where no client waits, or it has not said for how long.
    static CLIENT_WAITS_UNTIL: Instant;
}

/// When a request that has just come with these headers is to be answered at the latest; `None` if the client has not said so. An
/// eighth of the time is left for the way back.
pub(crate) fn of_request(headers: &HeaderMap) -> Option<Instant> {
    let millis = headers.get(EXPECTED_TIMEOUT)?.to_str().ok()?.parse().ok()?;
    let waits = Duration::from_millis(millis).min(LONGEST);
    Some(Instant::now() + waits - waits / 8)
}

/// Runs a future for a client that waits until then.
pub(crate) async fn within<T>(until: Option<Instant>, future: impl Future<Output = T>) -> T {
    match until {
        Some(until) => CLIENT_WAITS_UNTIL.scope(until, future).await,
        None => future.await,
    }
}

/// Until when the client of the task waits; `None` if that is not known.
pub(crate) fn of_task() -> Option<Instant> {
    CLIENT_WAITS_UNTIL.try_with(|until| *until).ok()
}

/// That time, or until when the client of the task waits, if that is sooner.
pub(crate) fn or_sooner(time: Instant) -> Instant {
    of_task().map_or(time, |until| until.min(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[tokio::test(start_paused = true)]
    async fn a_client_waits_for_as_long_as_its_proxy_says() {
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
    async fn a_task_without_a_client_has_no_deadline() {
        let until = Instant::now();
        assert_eq!(of_task(), None);
        assert_eq!(within(Some(until), async { of_task() }).await, Some(until));
        assert_eq!(within(None, async { of_task() }).await, None);
    }
}
