//! Clicks with attributes reach the control plane, from Envoy.

use edgelink_tests::scenario::{
    CITY_HEADER, COUNTRY_HEADER, DOMAIN, Reply, Request, link, tracking,
};
use edgelink_tests::stack::{
    Behaviour, Envoy, EnvoyOptions, Filter, REPORTS, ScriptedControlPlane, until,
};
use edgelink_wire::click_id;
use edgelink_wire::clicks::events::{Event, Events, Kind, OrphanKind};
use edgelink_wire::clicks::{self, VisitorKey, VisitorKeys, visitor_token};
use edgelink_wire::{ClickBatch, RedirectStatus};
use std::collections::BTreeSet;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);
const SECRET: [u8; 16] = *b"a secret of one.";

/// An Envoy that reports clicks with these attributes.
async fn edge(click_attributes: &'static str) -> (Envoy, ScriptedControlPlane) {
    let control_plane = ScriptedControlPlane::start().await;
    let options = EnvoyOptions {
        clicks: "true",
        click_attributes,
        orphans: "true",
        trusted_hops: 1,
        geo_headers: [COUNTRY_HEADER, CITY_HEADER],
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    (envoy, control_plane)
}

/// What `look` says of all batches, each once, once it says something.
async fn reported<R>(
    control_plane: &ScriptedControlPlane,
    what: &str,
    look: impl Fn(&[ClickBatch<'_>]) -> Option<R>,
) -> R {
    until(what, LIMIT, async || {
        let bodies = control_plane.bodies(REPORTS);
        let batches = bodies
            .iter()
            .flat_map(|body| clicks::decode(body).expect("batches"));
        let mut batches: Vec<_> = batches.collect();
        batches.sort_by_key(|batch| (batch.worker, batch.seq));
        batches.dedup_by_key(|batch| (batch.worker, batch.seq));
        look(&batches)
    })
    .await
}

fn events<'a>(batches: &[ClickBatch<'a>]) -> Vec<Event<&'a str>> {
    let events = batches.iter().flat_map(|batch| {
        let events = Events::decode(batch.events.bytes).expect("events");
        events.map(|event| event.expect("an event"))
    });
    events.collect()
}

#[tokio::test]
async fn click_when_reported_has_attributes_and_a_visitor_token() {
    let all = "country,city,userAgent,referrer,language,utm,rule,visitor";
    let (envoy, control_plane) = edge(all).await;
    let key = VisitorKey {
        from: 0,
        until: u64::MAX,
        secret: Box::new(SECRET.into()),
    };
    let body = VisitorKeys::new(vec![key]).to_bytes();
    let (media_type, length) = (VisitorKeys::MEDIA_TYPE, body.len());
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n"
    );
    let secrets = [head.as_bytes(), body.as_slice()].concat();
    control_plane.script(REPORTS, Behaviour::Bytes(secrets));
    control_plane.script(
        "a",
        Behaviour::Reply(Reply::Link(link("https://example.com/"))),
    );
    let visit = Request::get("/a?utm_source=mail&utm_term=a%20b")
        .header("user-agent", b"curl/8")
        .header("referer", b"https://News.example/today")
        .header("accept-language", b"de-DE,de;q=0.5")
        .header("x-forwarded-for", b"192.0.2.7")
        .header(COUNTRY_HEADER, b"de")
        .header(CITY_HEADER, b"Bonn");
    let token = visitor_token(&SECRET, "192.0.2.7".parse().unwrap(), b"curl/8");
    // The secret comes with the answer to a report.
    until("a click with a token", LIMIT, async || {
        assert_eq!(envoy.visit(&visit).await.status, 302);
        let bodies = control_plane.bodies(REPORTS);
        let batches = bodies
            .iter()
            .flat_map(|body| clicks::decode(body).expect("batches"));
        let batches: Vec<_> = batches.collect();
        let events = events(&batches);
        let event = events.iter().find(|event| event.visitor.is_some())?;
        assert_eq!(event.visitor, Some(token));
        assert_eq!(event.key, format!("{DOMAIN}/a"));
        assert_eq!(event.kind, Kind::Redirect(RedirectStatus::Found));
        let attributes = event.attributes;
        assert_eq!((attributes.country, attributes.city), ("DE", "Bonn"));
        assert_eq!(
            (attributes.user_agent, attributes.language),
            ("curl/8", "de-DE")
        );
        assert_eq!(attributes.referrer, "news.example");
        assert_eq!(attributes.utm, ["mail", "", "", "a b", ""]);
        Some(())
    })
    .await;
    envoy.assert_unharmed().await;
}

#[tokio::test]
async fn request_when_hostile_is_a_click_or_an_orphan_visit() {
    let (envoy, control_plane) = edge("country,userAgent,referrer,language,utm").await;
    control_plane.script(
        "a",
        Behaviour::Reply(Reply::Link(link("https://example.com/"))),
    );
    let long = "x".repeat(8_192);
    for value in [&b"\xff\xfe\xc3"[..], long.as_bytes(), b"https://\xff/", b""] {
        for name in ["user-agent", "referer", "accept-language", COUNTRY_HEADER] {
            let visit = Request::get("/a?utm_source=%ff%00&utm_term=%");
            let answer = envoy.visit(&visit.header(name, value)).await;
            assert_eq!(answer.status, 302, "{name}");
        }
    }
    let prefetch = Request::get("/a").header("sec-purpose", b"prefetch;prerender");
    assert_eq!(envoy.visit(&prefetch).await.status, 302);
    let opted_out = Request::get("/a").header("dnt", b"1");
    assert_eq!(envoy.visit(&opted_out).await.status, 302);
    for path in ["/", "/none?x", "/wp-admin/%ff?x"] {
        assert_eq!(envoy.follow(path).await.status, 404);
    }
    let found = reported(&control_plane, "all events", |batches| {
        let events = events(batches);
        (events.len() >= 16 + 3).then(|| {
            let counted: u64 = batches.iter().map(ClickBatch::sum).sum();
            let orphans = events.iter().filter_map(|event| match event.kind {
                Kind::Orphan(kind) => Some((kind, event.key.to_owned())),
                Kind::Redirect(_) => None,
            });
            (counted, orphans.collect::<Vec<_>>())
        })
    })
    .await;
    assert_eq!(found.0, 16 + 1);
    let expected = [
        (OrphanKind::BaseUrl, "/"),
        (OrphanKind::InvalidShortUrl, "/none"),
        (OrphanKind::Regular404, "/wp-admin/%ff"),
    ];
    let expected = expected.map(|(kind, path)| (kind, format!("{DOMAIN}{path}")));
    assert_eq!(found.1, expected);
    envoy.assert_unharmed().await;
}

#[tokio::test]
async fn tracked_link_when_followed_reports_the_id_in_its_target() {
    let (envoy, control_plane) = edge("").await;
    control_plane.script(
        "a",
        Behaviour::Reply(Reply::Link(tracking("https://example.com/?a#b"))),
    );
    let mut locations = Vec::new();
    for _ in 0..3 {
        let answer = envoy.follow("/a").await;
        locations.push(answer.location().expect("a location").to_owned());
    }
    let ids = reported(&control_plane, "three events", |batches| {
        let ids = events(batches).into_iter().filter_map(|event| event.id);
        let ids: Vec<_> = ids.collect();
        (ids.len() == 3).then_some(ids)
    })
    .await;
    let expected = ids.into_iter().map(|id| {
        let id = click_id::to_text(id);
        format!("https://example.com/?a&el_click={id}#b")
    });
    let mut expected: Vec<_> = expected.collect();
    // Threads of an edge report theirs one after the other.
    expected.sort();
    locations.sort();
    assert_eq!(locations, expected);
}

#[tokio::test]
async fn ids_when_of_several_workers_differ() {
    const VISITS: usize = 64;
    let control_plane = ScriptedControlPlane::start().await;
    let target = "https://example.com/";
    control_plane.script("a", Behaviour::Reply(Reply::Link(tracking(target))));
    let options = EnvoyOptions {
        clicks: "true",
        workers: 2,
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    let mut locations = BTreeSet::new();
    for _ in 0..VISITS {
        let answer = envoy.follow("/a").await;
        locations.insert(answer.location().expect("a location").to_owned());
    }
    assert_eq!(locations.len(), VISITS);
}

#[tokio::test]
async fn report_when_sent_names_its_edge() {
    let (envoy, control_plane) = edge("").await;
    assert_eq!(envoy.follow("/nothing").await.status, 404);
    let head = until("a report", LIMIT, async || {
        control_plane.report_heads().pop()
    })
    .await;
    let name = match envoy.filter() {
        Filter::Wasm => "edgelink-edge".to_owned(), // the id of the node in envoy/bootstrap.yaml
        Filter::Native | Filter::Nginx => {
            std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host")
        }
    };
    let header = format!("{}: {}\r\n", clicks::EDGE_HEADER, name.trim_end());
    assert!(head.contains(&header), "{head}");
}

/// A minute stands between two batches, so that these are closed because no visitors come.
#[tokio::test]
async fn clicks_when_the_edge_drains_are_reported_before_it_ends() {
    if Filter::lacks("a drain") {
        return;
    }
    let control_plane = ScriptedControlPlane::start().await;
    let template = include_str!("../../../envoy/plugin.json");
    let plugin = template.replace("${SECTIONS}", r#", "clicks": {"flushMs": 60000}"#);
    let options = EnvoyOptions {
        plugin: Some(plugin),
        ..EnvoyOptions::default()
    };
    let mut envoy = Envoy::start(&options, &[control_plane.address()]).await;
    control_plane.script(
        "a",
        Behaviour::Reply(Reply::Link(link("https://example.com/"))),
    );
    for _ in 0..20 {
        assert_eq!(envoy.follow("/a").await.status, 302);
    }
    envoy.admin_post("/healthcheck/fail").await;
    envoy.admin_post("/drain_listeners?graceful").await;
    for _ in 0..10 {
        assert_eq!(envoy.follow("/a").await.status, 302);
    }
    reported(&control_plane, "all clicks", |batches| {
        let counted: u64 = batches.iter().map(ClickBatch::sum).sum();
        (counted == 30).then_some(())
    })
    .await;
    envoy.process().terminate().await;
}
