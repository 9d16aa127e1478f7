//! A control plane that answers nonsense on the wire: a 503 in bounded time each time, no trap, and the links that are
//! known still redirect.

use edgelink_tests::scenario::{Reply, Request, link};
use edgelink_tests::stack::{
    Behaviour, Envoy, EnvoyOptions, Filter, ScriptedControlPlane, request_bytes, until,
};
use edgelink_wire::LinkAnswer;
use std::time::{Duration, Instant};

/// `timeoutMs`, and a little for a slow machine.
const BOUND: Duration = Duration::from_millis(800 + 700);

fn nonsense() -> Vec<(&'static str, Behaviour)> {
    let head = |length: usize| {
        let media_type = LinkAnswer::MEDIA_TYPE;
        format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n")
    };
    let with_body = |length, body: &[u8]| [head(length).as_bytes(), body].concat();
    let (_, _, entry) = Reply::Link(link("https://example.com/"))
        .http("go.example/bad")
        .expect("an answer");
    let half = &entry[..entry.len() / 2];
    vec![
        (
            "not HTTP",
            Behaviour::Bytes(b"\x00\xff\xfe garbage \r\n\r\n".to_vec()),
        ),
        ("closed before the answer", Behaviour::Bytes(Vec::new())),
        (
            "half a head",
            Behaviour::Bytes(b"HTTP/1.1 200 OK\r\ncontent-".to_vec()),
        ),
        (
            "half a head, then silence",
            Behaviour::BytesThenSilence(b"HTTP/1.1 200 O".to_vec()),
        ),
        (
            "half a body",
            Behaviour::Bytes(with_body(entry.len(), half)),
        ),
        (
            "half a body, then silence",
            Behaviour::BytesThenSilence(with_body(entry.len(), half)),
        ),
        (
            "an entry that ends in its key",
            Behaviour::Bytes(with_body(5, &entry[..5])),
        ),
        (
            "an entry and more",
            Behaviour::Bytes(with_body(entry.len() + 1, &[&entry[..], b"\n"].concat())),
        ),
        (
            "a megabyte",
            Behaviour::Bytes(with_body(1 << 20, &vec![0xff; 1 << 20])),
        ),
        (
            "endless headers",
            Behaviour::Bytes([b"HTTP/1.1 200 OK\r\nx: ", &vec![b'a'; 1 << 20][..]].concat()),
        ),
        ("silence", Behaviour::Reply(Reply::Hang)),
        (
            "bytes above ASCII in headers",
            Behaviour::Bytes(
                b"HTTP/1.1 200 OK\r\ncontent-type: \xff\xfe\r\ncontent-length: 0\r\n\r\n".to_vec(),
            ),
        ),
    ]
}

/// Envoy says so with every callout, and the control plane refuses in time what it cannot answer in time.
#[tokio::test]
async fn lookup_when_sent_says_how_long_the_edge_waits() {
    let control_plane = ScriptedControlPlane::start().await;
    let envoy = Envoy::start(&EnvoyOptions::default(), &[control_plane.address()]).await;
    let known = Reply::Link(link("https://example.com/known"));
    control_plane.script("known", Behaviour::Reply(known));
    assert_eq!(envoy.follow("/known").await.status, 302);
    let heads = control_plane.lookup_heads("known");
    let head = heads.first().expect("a lookup").to_ascii_lowercase();
    let (_, waits) = head
        .split_once("x-envoy-expected-rq-timeout-ms: ")
        .expect("the header");
    let waits = waits.lines().next().expect("a value").parse::<u64>();
    // The native module counts the time until it sends.
    assert!(matches!(waits, Ok(1..=800)), "{head}");
}

#[tokio::test]
async fn answer_when_nonsense_is_503_in_bounded_time() {
    let control_plane = ScriptedControlPlane::start().await;
    let envoy = Envoy::start(&EnvoyOptions::default(), &[control_plane.address()]).await;
    let known = Reply::Link(link("https://example.com/known"));
    control_plane.script("known", Behaviour::Reply(known));
    assert_eq!(envoy.follow("/known").await.status, 302);

    for (what, behaviour) in nonsense() {
        control_plane.script("bad", behaviour);
        let asked = Instant::now();
        let (bad, known) = tokio::join!(envoy.follow("/bad"), envoy.follow("/known"));
        let took = asked.elapsed();
        println!("{what}: {} after {took:?}", bad.status);
        assert_eq!(bad.status, 503, "{what}: {bad:?}");
        assert!(bad.header("retry-after").is_some(), "{what}: {bad:?}");
        assert!(took < BOUND, "{what}: {took:?}");
        assert_eq!(known.status, 302, "{what}: {known:?}");
    }
    control_plane.script(
        "bad",
        Behaviour::Reply(Reply::Link(link("https://example.com/good"))),
    );
    assert_eq!(
        envoy.follow("/bad").await.location(),
        Some("https://example.com/good")
    );
    envoy.assert_unharmed().await;
}

#[tokio::test]
async fn visitors_when_they_leave_harm_no_waiter() {
    let control_plane = ScriptedControlPlane::start().await;
    let envoy = Envoy::start(&EnvoyOptions::default(), &[control_plane.address()]).await;
    control_plane.script("slow", Behaviour::Reply(Reply::Hang));
    let request = b"GET /slow HTTP/1.1\r\nhost: go.example\r\n\r\n";

    let mut leaving = Vec::new();
    let mut staying = Vec::new();
    for _ in 0..50 {
        for visitors in [&mut leaving, &mut staying] {
            let mut connection = envoy.connect().await;
            connection.send(request).await.expect("a connection");
            visitors.push(connection);
        }
    }
    control_plane.await_lookups("slow", 1).await;
    drop(leaving);
    control_plane.script(
        "slow",
        Behaviour::Reply(Reply::Link(link("https://example.com/"))),
    );

    for mut connection in staying {
        let answer = connection.receive("GET").await.expect("an answer");
        assert_eq!(answer.location(), Some("https://example.com/"));
    }
    envoy.assert_unharmed().await;
}

/// A link that many visitors follow at the same moment. What the proxy does for one waiter must not be
/// stacked upon what it does for the others.
#[tokio::test]
async fn crowd_when_waiting_for_one_link_is_answered() {
    const CROWD: usize = 2_000;
    let control_plane = ScriptedControlPlane::start().await;
    let options = EnvoyOptions {
        callout_timeout_ms: 20_000,
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    control_plane.script("crowd", Behaviour::Reply(Reply::Hang));
    let mut visitors = Vec::new();
    for _ in 0..CROWD {
        let mut connection = envoy.connect().await;
        let request = b"GET /crowd HTTP/1.1\r\nhost: go.example\r\n\r\n";
        connection.send(request).await.expect("a connection");
        visitors.push(connection);
    }
    until("all of them wait", Duration::from_secs(10), async || {
        let waiting = "http.edge.downstream_rq_active";
        (envoy.stats(waiting).await.get(waiting) == CROWD as u64).then_some(())
    })
    .await;

    let answered = Instant::now();
    let target = Reply::Link(link("https://example.com/"));
    control_plane.script("crowd", Behaviour::Reply(target));

    for mut connection in visitors {
        let answer = connection.receive("GET").await.expect("an answer");
        assert_eq!(answer.status, 302, "{answer:?}");
    }
    println!("{CROWD} visitors answered in {:?}", answered.elapsed());
    assert_eq!(control_plane.lookups("crowd"), 1);
    envoy.assert_unharmed().await;
}

/// As when the control plane that was asked has just been killed, and another one is there.
#[tokio::test]
async fn lookup_when_its_connection_breaks_is_sent_again() {
    let control_plane = ScriptedControlPlane::start().await;
    let envoy = Envoy::start(&EnvoyOptions::default(), &[control_plane.address()]).await;
    let reply = Reply::Link(link("https://example.com/"));
    control_plane.script("again", Behaviour::Reply(reply));
    for _ in 0..2 {
        control_plane.script_next("again", Behaviour::Bytes(Vec::new()));
    }
    assert_eq!(envoy.follow("/again").await.status, 302);
    assert_eq!(control_plane.lookups("again"), 3);

    control_plane.script("never", Behaviour::Bytes(Vec::new()));
    assert_eq!(envoy.follow("/never").await.status, 503);
    assert_eq!(control_plane.lookups("never"), 3);

    let refused = b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n".to_vec();
    control_plane.script("refused", Behaviour::Bytes(refused));
    assert_eq!(envoy.follow("/refused").await.status, 503);
    assert_eq!(control_plane.lookups("refused"), 1, "that is an answer");
    envoy.assert_unharmed().await;
}

/// A GET may have a body. With `allow_on_headers_stop_iteration` Envoy sends it on by itself where a filter does not say that it
/// has to wait.
#[tokio::test]
async fn get_when_it_has_a_body_waits_with_it() {
    let control_plane = ScriptedControlPlane::start().await;
    let envoy = Envoy::start(&EnvoyOptions::default(), &[control_plane.address()]).await;
    if envoy.filter() == Filter::Wasm {
        let option = r#""allow_on_headers_stop_iteration": true"#;
        assert!(
            envoy.admin("/config_dump").await.contains(option),
            "the option"
        );
    }
    control_plane.script("body", Behaviour::Reply(Reply::Hang));

    let mut connection = envoy.connect().await;
    let request = Request::get("/body");
    let sent = connection.send(&request_bytes(&request, b"a body")).await;
    sent.expect("a connection that takes a request");
    control_plane.await_lookups("body", 1).await;
    let reply = Reply::Link(link("https://example.com/"));
    control_plane.script("body", Behaviour::Reply(reply));

    let answer = connection.receive("GET").await.expect("an answer");
    assert_eq!(answer.status, 302, "{answer:?}");
}
