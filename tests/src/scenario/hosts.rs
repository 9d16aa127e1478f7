//! Hosts that the edge cannot tell apart from domains: [`for_each_host_scenario!`](crate::for_each_host_scenario) runs
//! these on edges that serve [domains of the API](edgelink_wire::domain_record), without a snapshot and without a feed.

use super::{DOMAIN, Edge, Reply, Request, host_of, link};
use edgelink_wire::{Domain, DomainTargets};
use std::time::Duration;

/// Longer than the start-up time in which nothing counts as fresh because a feed is expected.
const FEED_IS_AWAITED: Duration = Duration::from_millis(2_500);

const TARGET: &str = "https://example.com/target";

fn to(host: &str, code: &str) -> Request {
    Request::get(&format!("/{code}")).header("host", host.as_bytes())
}

/// One lookup of the host, then one of the link of the default domain.
pub async fn host_when_unknown_is_looked_up_once_and_serves_default(edge: &mut impl Edge) {
    edge.script("hosts1", Reply::Link(link(TARGET))).await;
    // From here on the feed is overdue.
    edge.visit(to(DOMAIN, "hosts1")).await;
    edge.pass(FEED_IS_AWAITED).await;
    for _ in 0..3 {
        let answer = edge.visit(to("unknown1.example", "hosts1")).await;
        assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
    }
    assert_eq!(edge.lookups(&host_of("unknown1.example")).await, 1);
    let answer = edge.visit(to("unknown1.example", "hosts1-none")).await;
    assert_eq!(answer.status, 404, "{answer:?}");
}

/// It has the targets of the domain, under each of its names.
pub async fn host_when_it_is_a_domain_has_its_targets(edge: &mut impl Edge) {
    let brand = Domain::parse("brand2.example").expect("a domain");
    let targets = DomainTargets {
        not_found: Some("https://brand.example/none"),
        ..DomainTargets::default()
    };
    let host = host_of("brand2.example:443");
    edge.script(&host, Reply::Record(targets.record(&brand, 3)))
        .await;
    for host in ["Brand2.example:443", "brand2.example"] {
        let answer = edge.visit(to(host, "hosts2-none")).await;
        let elsewhere = Some("https://brand.example/none");
        assert_eq!(answer.location(), elsewhere, "{host}: {answer:?}");
    }
    assert_eq!(edge.lookups(&host).await, 1);
    assert_eq!(edge.lookups(&host_of("brand2.example")).await, 0);
}

/// A failure is not mistaken for an unknown host.
pub async fn host_when_its_lookup_fails_is_503_and_not_404(edge: &mut impl Edge) {
    for (host, reply) in [
        ("failed3a.example", Reply::Reset),
        (
            "failed3b.example",
            Reply::Raw {
                status: 503,
                content_type: None,
                body: Vec::new(),
            },
        ),
        // Like a control plane that does not support such requests.
        (
            "failed3c.example",
            Reply::Raw {
                status: 404,
                content_type: Some("application/problem+json"),
                body: b"{}".to_vec(),
            },
        ),
    ] {
        edge.script(&host_of(host), reply).await;
        let visit = edge.start(to(host, "hosts3")).await;
        // It waits for a snapshot then.
        edge.pass(FEED_IS_AWAITED).await;
        let answer = edge.finish(visit).await;
        assert_eq!(answer.status, 503, "{host}: {answer:?}");
    }
}

/// A visitor who arrives during the lookup waits for its answer.
pub async fn host_when_requested_by_several_is_looked_up_once(edge: &mut impl Edge) {
    // The last failure of another scenario is forgotten by then.
    edge.pass(FEED_IS_AWAITED).await;
    let host = host_of("shared4.example");
    edge.script(&host, Reply::Hang).await;
    edge.script("hosts4", Reply::Link(link(TARGET))).await;
    let one = edge.start(to("shared4.example", "hosts4")).await;
    let other = edge.start(to("shared4.example", "hosts4")).await;
    edge.await_lookups(&host, 1).await;
    edge.script(&host, Reply::Absent { rev: 0 }).await;
    for visit in [one, other] {
        let answer = edge.finish(visit).await;
        assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
    }
    assert_eq!(edge.lookups(&host).await, 1);
}

/// It is treated as an unknown host without a lookup.
pub async fn host_when_no_domain_name_is_not_looked_up(edge: &mut impl Edge) {
    edge.script("hosts5", Reply::Link(link(TARGET))).await;
    let answer = edge.visit(to("no_domain", "hosts5")).await;
    assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
    assert_eq!(edge.lookups(&host_of("no_domain")).await, 0);
}
