//! Waiting for what can only be asked for.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(10);

/// Asks `probe` again and again until it answers something.
///
/// # Panics
/// With `what` when there is no answer within `limit`.
pub async fn until<T>(what: &str, limit: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = probe().await {
            return answer;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
