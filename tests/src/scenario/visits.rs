//! Links that have a limit of visits: leased visits are served, and no more.

use super::{Answer, Edge, Reply, Request, extended, visits_of, with_limit};
use edgelink_wire::VisitsRequest;
use edgelink_wire::record::Extension;
use edgelink_wire::visits::SettledBlock;
use std::time::Duration;

const TARGET: &str = "https://example.com/limited";
const LONG: u64 = 60_000;

/// Scripts a link with a limit, and the leases of its visits.
async fn limited(edge: &mut impl Edge, code: &str, visits: u64, millis: u64) {
    edge.script(code, Reply::Link(with_limit(TARGET))).await;
    lease(edge, code, visits, millis).await;
}

async fn lease(edge: &mut impl Edge, code: &str, visits: u64, millis: u64) {
    let reply = Reply::Visits { visits, millis };
    edge.script(&visits_of(code), reply).await;
}

/// Blocks settled by requests: their numbers, and the visits spent of each.
fn settled(requests: &[VisitsRequest]) -> Vec<Option<(u64, u64)>> {
    let pair = |SettledBlock { number, spent }| (number, spent);
    let settled = requests.iter().map(|request| request.settled.map(pair));
    settled.collect()
}

fn assert_served(answer: &Answer) {
    assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
}

/// Each request reports the visits spent of the previous block.
pub async fn block_when_spent_is_followed_by_another(edge: &mut impl Edge) {
    limited(edge, "block", 2, LONG).await;
    for _ in 0..5 {
        assert_served(&edge.follow("block").await);
    }
    let requests = edge.visit_requests("block").await;
    // A used-up block may have been returned before the next visitor arrived.
    let asked = requests.iter().filter(|request| request.wants);
    let asked: Vec<_> = asked.copied().collect();
    assert_eq!(asked.len(), 3, "{requests:?}");
    for pair in asked.windows(2) {
        assert!(pair[0].number < pair[1].number, "{requests:?}");
    }
    let spent = settled(&requests);
    for request in &asked[..2] {
        assert!(spent.contains(&Some((request.number, 2))), "{requests:?}");
    }
}

/// Like a link past its validity, until the control plane may be asked again.
pub async fn link_when_no_uses_are_left_is_gone(edge: &mut impl Edge) {
    limited(edge, "usedup", 0, 1_000).await;
    for _ in 0..3 {
        assert_eq!(edge.follow("usedup").await.status, 410);
    }
    assert_eq!(edge.lookups(&visits_of("usedup")).await, 1);
    let head = edge.visit(Request::new("HEAD", b"/usedup")).await;
    assert_eq!(head.status, 410);
    edge.pass(Duration::from_secs(1)).await;
    lease(edge, "usedup", 1, LONG).await;
    assert_served(&edge.follow("usedup").await);
}

/// Waiters without a visit in one block wait for the next.
pub async fn waiters_when_block_is_requested_share_it(edge: &mut impl Edge) {
    edge.script("sharers", Reply::Link(with_limit(TARGET)))
        .await;
    edge.script(&visits_of("sharers"), Reply::Hang).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(edge.start(Request::get("/sharers")).await);
    }
    edge.await_lookups(&visits_of("sharers"), 1).await;
    let gone = waiting.pop().expect("a visitor");
    edge.leave(gone).await;
    lease(edge, "sharers", 2, LONG).await;
    for visit in waiting {
        assert_served(&edge.finish(visit).await);
    }
    let requests = edge.visit_requests("sharers").await;
    let asked = requests.iter().filter(|request| request.wants);
    assert_eq!(asked.count(), 2, "{requests:?}");
}

/// Once its lease expires, without a visitor.
pub async fn block_when_its_lease_expires_is_returned(edge: &mut impl Edge) {
    limited(edge, "leftover", 9, 1_000).await;
    assert_served(&edge.follow("leftover").await);
    edge.pass(Duration::from_millis(1_500)).await;
    edge.await_lookups(&visits_of("leftover"), 2).await;
    let requests = edge.visit_requests("leftover").await;
    assert_eq!(settled(&requests)[1], Some((requests[0].number, 1)));
    assert!(!requests[1].wants);
    assert_served(&edge.follow("leftover").await);
    let requests = edge.visit_requests("leftover").await;
    let last = requests.last().expect("a request");
    assert_eq!((last.settled, last.wants), (None, true), "{requests:?}");
}

/// It is then unknown whether visits are left.
pub async fn lease_when_its_request_fails_is_503_and_not_410(edge: &mut impl Edge) {
    let raw = |status, content_type, body: &[u8]| Reply::Raw {
        status,
        content_type,
        body: body.to_vec(),
    };
    let typed = Some(VisitsRequest::MEDIA_TYPE);
    for (index, reply) in [
        Reply::Reset,
        raw(503, typed, b""),
        raw(409, None, b""),
        raw(200, typed, b""),
        raw(200, typed, b"\x01\x7f\x01\x01"),
        raw(200, None, b"\x01\x01\x01\x01"),
    ]
    .into_iter()
    .enumerate()
    {
        let code = format!("visitsfail{index}");
        edge.script(&code, Reply::Link(with_limit(TARGET))).await;
        edge.script(&visits_of(&code), reply).await;
        assert_eq!(edge.follow(&code).await.status, 503, "{index}");
        lease(edge, &code, 1, LONG).await;
        assert_served(&edge.follow(&code).await);
    }
}

fn assert_withheld(answer: &Answer) {
    assert_eq!(
        (answer.status, answer.location()),
        (503, None),
        "{answer:?}"
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

/// Neither if the link is cached nor if it is looked up first; the visit remains for a person.
pub async fn prefetch_when_link_is_limited_uses_nothing(edge: &mut impl Edge) {
    limited(edge, "ahead", 1, LONG).await;
    for (name, value) in [
        ("sec-purpose", "prefetch;prerender"),
        ("purpose", "prefetch"),
        ("x-moz", "prefetch"),
    ] {
        let request = Request::get("/ahead").header(name, value.as_bytes());
        assert_withheld(&edge.visit(request).await);
    }
    assert!(edge.visit_requests("ahead").await.is_empty());
    assert_served(&edge.follow("ahead").await);
}

/// Neither if the link is cached nor if it is looked up first. Others are redirected as usual.
pub async fn bot_when_spared_uses_nothing(edge: &mut impl Edge) {
    let sparing = Extension {
        max_visits: Some(1_000),
        spares_bots: true,
        ..Extension::default()
    };
    let link = extended(TARGET, &sparing);
    edge.script("sparing", Reply::Link(link)).await;
    lease(edge, "sparing", 1, LONG).await;
    let bot = || Request::get("/sparing").header("user-agent", b"Slackbot-LinkExpanding 1.0");
    for _ in 0..2 {
        assert_withheld(&edge.visit(bot()).await);
    }
    assert!(edge.visit_requests("sparing").await.is_empty());
    let person = Request::get("/sparing").header("user-agent", b"Mozilla/5.0 Firefox/127.0");
    assert_served(&edge.visit(person).await);
    assert_withheld(&edge.visit(bot()).await);
    let requests = edge.visit_requests("sparing").await;
    assert_eq!(settled(&requests)[0], None, "{requests:?}");
}
