//! A defect of Envoy that the filter stays away from. It costs a core for a second, and says when Envoy has mended it.

use edgelink_tests::abi::{ProbedEnvoy, ProbedHost};
use edgelink_tests::scenario::Request;
use std::time::Duration;

/// A second gRPC stream that fails at once, in one callback, is where Envoy's worker spins: it defers the
/// first one's callback, and runs what was deferred inside of the second's metadata callback. A module without a callback for
/// metadata never gets there, and so the filter has none.
#[tokio::test]
#[ignore = "a drill: make envoy-spin"]
async fn envoy_never_returns_from_a_second_grpc_stream_that_fails_at_once() {
    let mut envoy = ProbedEnvoy::start().await;
    let visit = envoy.visit(Request::get("/run/grpc-twice"));
    let answer = tokio::time::timeout(Duration::from_secs(1), visit).await;
    assert!(answer.is_err(), "Envoy has mended it: {answer:?}");
}
