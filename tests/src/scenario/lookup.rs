//! Lookup, caching and sharing of codes.

use super::{Edge, Lives, Reply, Request, link};
use edgelink_wire::{LinkState, RedirectStatus};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The control plane is asked once, then the worker has the link cached.
pub async fn link_when_followed_is_cached(edge: &mut impl Edge) {
    edge.script("known1", Reply::Link(link("https://example.com/a?b=1")))
        .await;

    let first = edge.follow("known1").await;
    let second = edge.follow("known1").await;

    for answer in [&first, &second] {
        assert_eq!(answer.status, 302, "{answer:?}");
        assert_eq!(answer.location(), Some("https://example.com/a?b=1"));
    }
    assert_eq!(first.tier(), Some("control-plane"));
    assert_eq!(second.tier(), Some("lru"));
    assert_eq!(edge.lookups("known1").await, 1);
}

/// 301, 302, 307 and 308.
pub async fn redirect_when_answered_has_status_of_its_link(edge: &mut impl Edge) {
    for status in [301, 302, 307, 308] {
        let code = format!("status{status}");
        let mut link = link("https://example.com/");
        link.redirect = RedirectStatus::from_code(status).expect("a redirect status");
        edge.script(&code, Reply::Link(link)).await;

        assert_eq!(edge.follow(&code).await.status, status);
        assert_eq!(edge.follow(&code).await.status, status, "from the cache");
    }
}

/// Absence is an answer, and is cached like one.
pub async fn link_when_absent_is_404_and_cached(edge: &mut impl Edge) {
    edge.script("absent1", Reply::Absent { rev: 0 }).await;

    assert_eq!(edge.follow("absent1").await.status, 404);
    let second = edge.follow("absent1").await;

    assert_eq!(second.status, 404);
    assert_eq!(second.tier(), Some("lru"));
    assert_eq!(edge.lookups("absent1").await, 1);
}

/// 410, first and from the cache.
pub async fn link_when_disabled_is_gone(edge: &mut impl Edge) {
    let mut link = link("https://example.com/");
    link.state = LinkState::Disabled;
    edge.script("disabled1", Reply::Link(link)).await;

    assert_eq!(edge.follow("disabled1").await.status, 410);
    assert_eq!(edge.follow("disabled1").await.status, 410);
    assert_eq!(edge.lookups("disabled1").await, 1);
}

/// A cached link expires by the clock, without a lookup at the control plane.
pub async fn link_when_expired_is_gone(edge: &mut impl Edge) {
    let mut link = link("https://example.com/");
    link.valid_until = Some(edge.now() + 2);
    edge.script("expiring1", Reply::Link(link)).await;

    assert_eq!(edge.follow("expiring1").await.status, 302);
    edge.pass(3 * SECOND).await;

    assert_eq!(edge.follow("expiring1").await.status, 410);
}

/// For visitors it does not exist until it is valid.
pub async fn link_when_not_yet_valid_is_404(edge: &mut impl Edge) {
    let mut link = link("https://example.com/soon");
    link.valid_since = Some(edge.now() + 2);
    edge.script("early1", Reply::Link(link)).await;

    assert_eq!(edge.follow("early1").await.status, 404);
    edge.pass(3 * SECOND).await;

    assert_eq!(edge.follow("early1").await.status, 302);
}

/// A change reaches visitors once the record is no longer fresh, with or without a feed.
pub async fn link_when_no_longer_fresh_is_looked_up_again(edge: &mut impl Edge) {
    let Lives { fresh, .. } = edge.lives();
    edge.script("fresh1", Reply::Link(link("https://example.com/old")))
        .await;
    edge.follow("fresh1").await;
    let mut changed = link("https://example.com/new");
    changed.rev = 2;
    edge.script("fresh1", Reply::Link(changed)).await;

    edge.pass(fresh + SECOND).await;
    let answer = edge.follow("fresh1").await;

    assert_eq!(answer.location(), Some("https://example.com/new"));
    assert_eq!(edge.lookups("fresh1").await, 2);
}

/// A link that is created after a lookup for it is found.
pub async fn absence_when_no_longer_fresh_is_looked_up_again(edge: &mut impl Edge) {
    let Lives { fresh, .. } = edge.lives();
    assert_eq!(edge.follow("late1").await.status, 404);
    edge.script("late1", Reply::Link(link("https://example.com/")))
        .await;

    edge.pass(fresh + SECOND).await;

    assert_eq!(edge.follow("late1").await.status, 302);
}

/// A control plane that answers from an outdated replica does not undo newer records.
pub async fn record_when_older_never_replaces_newer(edge: &mut impl Edge) {
    let Lives { fresh, .. } = edge.lives();
    let mut newer = link("https://example.com/newer");
    newer.rev = 7;
    edge.script("rev1", Reply::Link(newer)).await;
    edge.follow("rev1").await;
    let mut older = link("https://example.com/older");
    older.rev = 6;
    edge.script("rev1", Reply::Link(older)).await;

    edge.pass(fresh + SECOND).await;
    edge.follow("rev1").await;
    let answer = edge.follow("rev1").await;

    assert_eq!(answer.location(), Some("https://example.com/newer"));
}

/// Single flight: one lookup, however many waiters.
pub async fn lookup_when_several_wait_is_shared(edge: &mut impl Edge) {
    edge.script("shared1", Reply::Hang).await;
    let mut visits = Vec::new();
    for _ in 0..5 {
        visits.push(edge.start(Request::get("/shared1")).await);
    }
    edge.await_lookups("shared1", 1).await;

    edge.script("shared1", Reply::Link(link("https://example.com/")))
        .await;

    for visit in visits {
        assert_eq!(edge.finish(visit).await.status, 302);
    }
    assert_eq!(edge.lookups("shared1").await, 1);
}

/// Not even if it was that visitor's request that started the lookup.
pub async fn waiter_when_another_leaves_is_not_harmed(edge: &mut impl Edge) {
    edge.script("leaving1", Reply::Hang).await;
    let first = edge.start(Request::get("/leaving1")).await;
    edge.await_lookups("leaving1", 1).await;
    let second = edge.start(Request::get("/leaving1")).await;
    let third = edge.start(Request::get("/leaving1")).await;

    edge.leave(first).await;
    edge.leave(second).await;
    edge.script("leaving1", Reply::Link(link("https://example.com/")))
        .await;

    assert_eq!(edge.finish(third).await.status, 302);
    assert_eq!(edge.lookups("leaving1").await, 1);
}

/// Its answer has no waiter and does no harm, and the next visitor is served.
pub async fn lookup_when_its_only_waiter_leaves_completes(edge: &mut impl Edge) {
    edge.script("alone1", Reply::Hang).await;
    let visit = edge.start(Request::get("/alone1")).await;
    edge.await_lookups("alone1", 1).await;
    edge.leave(visit).await;

    edge.script("alone1", Reply::Link(link("https://example.com/")))
        .await;

    assert_eq!(edge.follow("alone1").await.status, 302);
}
