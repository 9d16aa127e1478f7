//! Answers to visitors while the control plane fails.

use super::{Answer, Edge, Lives, Reply, link};
use edgelink_wire::LinkAnswer;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn assert_unavailable(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 503, "{what}: {answer:?}");
    let seconds = answer.header("retry-after").unwrap_or_default();
    assert!(seconds.parse::<u32>().is_ok(), "{what}: {answer:?}");
}

/// The existence of the link is unknown, and a failure is never turned into a 404.
pub async fn lookup_when_it_fails_is_503_and_not_404(edge: &mut impl Edge) {
    edge.script("fail1", Reply::Reset).await;

    assert_unavailable(&edge.follow("fail1").await, "a closed connection");
}

/// The next visitor asks again.
pub async fn lookup_when_it_fails_is_not_remembered(edge: &mut impl Edge) {
    edge.script("fail2", Reply::Reset).await;
    edge.follow("fail2").await;
    edge.script("fail2", Reply::Link(link("https://example.com/")))
        .await;

    assert_eq!(edge.follow("fail2").await.status, 302);
}

/// An answer counts only for exactly the requested key.
pub async fn answer_when_malformed_counts_as_failure(edge: &mut impl Edge) {
    let typed = Some(LinkAnswer::MEDIA_TYPE);
    let raw = |status, content_type, body: &[u8]| Reply::Raw {
        status,
        content_type,
        body: body.to_vec(),
    };
    let absent = Reply::Absent { rev: 1 }.http("go.example/fail3");
    let (_, _, absent) = absent.expect("an HTTP answer");
    for (what, reply) in [
        ("404 of another server", raw(404, Some("text/html"), b"<p>")),
        ("404 without a type", raw(404, None, &absent)),
        ("404 with an empty body", raw(404, typed, b"")),
        ("200 with an absent entry", raw(200, typed, &absent)),
        ("200 with garbage", raw(200, typed, b"\xff\xff\xff\xff")),
        ("200 without a body", raw(200, typed, b"")),
        ("200 with JSON", raw(200, Some("application/json"), b"{}")),
        ("401", raw(401, Some("application/problem+json"), b"{}")),
        ("500", raw(500, typed, &absent)),
        ("302", raw(302, None, b"")),
        (
            "another key",
            Reply::OtherKey("go.example/other".to_owned()),
        ),
        (
            "another domain",
            Reply::OtherKey("other.example/fail3".to_owned()),
        ),
    ] {
        edge.script("fail3", reply).await;
        assert_unavailable(&edge.follow("fail3").await, what);
    }
}

/// The visitor waits only a little longer than the configured timeout.
pub async fn control_plane_when_it_hangs_is_503_in_time(edge: &mut impl Edge) {
    let Lives { timeout, .. } = edge.lives();
    edge.script("hang1", Reply::Hang).await;
    let visit = edge.start(super::Request::get("/hang1")).await;

    edge.pass(timeout + SECOND / 2).await;

    assert_unavailable(&edge.finish(visit).await, "a hanging control plane");
}

/// Known links still redirect, and the answer says that it is stale.
pub async fn link_when_lookup_fails_is_served_stale(edge: &mut impl Edge) {
    let Lives { fresh, .. } = edge.lives();
    edge.script("stale1", Reply::Link(link("https://example.com/stale")))
        .await;
    edge.follow("stale1").await;
    edge.script("stale1", Reply::Reset).await;

    edge.pass(fresh + SECOND).await;
    let answer = edge.follow("stale1").await;

    assert_eq!(answer.location(), Some("https://example.com/stale"));
    assert_eq!(answer.tier(), Some("stale"));
}

/// Even while the control plane fails, a link is not served for ever.
pub async fn link_when_older_than_stale_is_not_served(edge: &mut impl Edge) {
    let Lives { stale, .. } = edge.lives();
    edge.script("stale2", Reply::Link(link("https://example.com/")))
        .await;
    edge.follow("stale2").await;
    edge.script("stale2", Reply::Reset).await;

    edge.pass(stale + SECOND).await;

    assert_unavailable(&edge.follow("stale2").await, "older than stale");
}

/// A stale absence stays an absence: nothing newer is known.
pub async fn absence_when_control_plane_fails_is_not_served_as_link(edge: &mut impl Edge) {
    let Lives { fresh, .. } = edge.lives();
    edge.script("stale3", Reply::Absent { rev: 0 }).await;
    edge.follow("stale3").await;
    edge.script("stale3", Reply::Reset).await;

    edge.pass(fresh + SECOND).await;
    let answer = edge.follow("stale3").await;

    assert!(matches!(answer.status, 404 | 503), "{answer:?}");
}
