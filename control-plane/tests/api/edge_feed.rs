//! Feed, snapshot and clicks of the edge API.

use crate::helpers::{Answer, Running, send, until};
use edgelink_settings::config::StoreConfig;
use edgelink_store::connect;
use edgelink_wire::clicks::visitor_keys::VisitorKeys;
use edgelink_wire::clicks::{ClickBatch, encode};
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::feed_batch::POLLER_HEADER;
use edgelink_wire::{
    CodeLength, FeedBatch, FeedBatchHead, FeedPoint, FeedPosition, Record, Snapshot,
};
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};

const TOKEN: &str = "first-token-of-the-edges";

async fn edge(server: &Running, path: &str) -> Answer {
    let request = server.plain(Method::GET, &format!("/edge/v1{path}"));
    send(request.bearer_auth(TOKEN)).await
}

/// Waits until the feed is current.
async fn await_feed(server: &Running) {
    until("the feed", async || {
        edge(server, "/feed").await.status == 200
    })
    .await;
}

/// Follows the feed.
struct Follower<'a> {
    server: &'a Running,
    generation: u64,
    position: FeedPosition,
}

impl<'a> Follower<'a> {
    /// From now on.
    async fn start(server: &'a Running) -> Self {
        await_feed(server).await;
        let answer = edge(server, "/feed").await;
        assert_eq!(answer.header("content-type"), FeedBatch::MEDIA_TYPE);
        let FeedBatchHead {
            generation,
            age_millis,
            next,
            gap,
            ..
        } = FeedBatch::decode(&answer.body).unwrap().head;
        assert!(gap && age_millis < 4000, "{age_millis}");
        Self {
            server,
            generation,
            position: next,
        }
    }

    fn path(&self) -> String {
        let (generation, position) = (self.generation, self.position);
        format!("/feed?after={position}&generation={generation}&waitMs=20000")
    }

    /// The next changes of links: key, and the revision, negative for a deletion.
    async fn next(&mut self) -> Vec<(String, i64)> {
        loop {
            let answer = edge(self.server, &self.path()).await;
            let batch = FeedBatch::decode(&answer.body).unwrap();
            assert!(!batch.head.gap);
            self.position = batch.head.next;
            let messages = batch.messages.into_iter().map(Result::unwrap);
            let changes: Vec<_> = messages.filter_map(change).collect();
            if !changes.is_empty() {
                return changes;
            }
        }
    }
}

fn change(message: FeedMessage<'_>) -> Option<(String, i64)> {
    match message {
        FeedMessage::Put { key, record, .. } => {
            Some((key.to_owned(), i64::try_from(record.rev).unwrap()))
        }
        FeedMessage::Del { key, rev } => Some((key.to_owned(), -i64::try_from(rev).unwrap())),
        FeedMessage::Changed { .. } | FeedMessage::Flush | FeedMessage::Beat(_) => None,
    }
}

async fn snapshot(server: &Running) -> Vec<u8> {
    until("a snapshot", async || {
        edge(server, "/snapshot").await.status == 200
    })
    .await;
    let answer = edge(server, "/snapshot").await;
    assert_eq!(answer.header("content-type"), Snapshot::MEDIA_TYPE);
    answer.body.to_vec()
}

#[tokio::test]
async fn feed_when_a_link_changes_carries_changes_in_order() {
    let server = Running::start().await;
    let mut follower = Follower::start(&server).await;
    let mut last = 0;
    // The key, whether it is a link, and that the revision has grown.
    let mut next = async || {
        let changes = follower.next().await;
        let [(key, rev)] = changes.as_slice() else {
            panic!("{changes:?}");
        };
        assert_eq!(key, "go.example:8080/x");
        assert!(rev.abs() > last, "{rev} after {last}");
        last = rev.abs();
        *rev > 0
    };
    server.link("x").create().await;
    assert!(next().await);
    let change = json!({ "longUrl": "https://example.com/2" });
    server.patch("/links/x", &change).await.expect(200);
    assert!(next().await);
    assert_eq!(server.delete("/links/x").await.status, 204);
    assert!(!next().await);
    server.link("x").create().await;
    assert!(next().await);
}

/// A poll of a worker that names itself, after a position of the feed.
async fn poll_as(server: &Running, worker: &str, place: FeedPoint) -> Answer {
    let (generation, position) = place;
    let path = format!("/edge/v1/feed?after={position}&generation={generation}&waitMs=0");
    let request = server.plain(Method::GET, &path).bearer_auth(TOKEN);
    send(request.header(POLLER_HEADER, worker)).await
}

#[tokio::test]
async fn change_when_a_worker_has_yet_to_acknowledge_it_waits_without_a_permit() {
    const WORKER: &str = "000102030405060708090a0b0c0d0e0f";
    let server = Running::with(&[("EDGELINK_SERVER_MAX_REQUESTS", "1")]).await;
    let mut follower = Follower::start(&server).await;
    let begun = poll_as(&server, WORKER, (follower.generation, follower.position)).await;
    assert_eq!(begun.status, 200);
    let target = json!({ "longUrl": "https://example.com/2" });
    let alias = json!({ "longUrl": "https://example.com/", "customSlug": "x" });
    let bulk = json!([{ "longUrl": "https://example.com/", "customSlug": "y" }, target]);
    let domain = json!({ "name": "acknowledged.example" });
    for (method, path, body) in [
        (Method::POST, "/links", &alias),
        (Method::PATCH, "/links/x", &target),
        (Method::DELETE, "/links/x", &json!(null)),
        (Method::POST, "/links/bulk", &bulk),
        (Method::POST, "/domains", &domain),
    ] {
        let request = || server.api(method.clone(), path).json(body);
        let mut answer = std::pin::pin!(send(request()));
        let pause = Duration::from_millis(100);
        let early = tokio::time::timeout(pause, &mut answer).await;
        assert!(early.is_err(), "{method} {path}: {early:?}");
        let meanwhile = send(server.api(Method::GET, "/domains")).await;
        assert_eq!(meanwhile.status, 200, "{meanwhile:?}");
        let (generation, before) = (follower.generation, follower.position);
        let batch = edge(&server, &follower.path()).await;
        follower.position = FeedBatch::decode(&batch.body).unwrap().head.next;
        // Neither a position that it was not given, nor the one that it had, says that it has the change.
        let far = FeedPosition::new(u64::MAX, 0);
        let lying = poll_as(&server, WORKER, (generation, far)).await;
        assert_eq!(lying.status, 503);
        poll_as(&server, WORKER, (generation, before)).await;
        let early = tokio::time::timeout(pause, &mut answer).await;
        assert!(early.is_err(), "{method} {path}: {early:?}");
        poll_as(&server, WORKER, (generation, follower.position)).await;
        let answer = answer.await;
        assert!(answer.status.is_success(), "{method} {path}: {answer:?}");
        assert!(answer.header("preference-applied").is_empty());
    }
    // One that does not wait.
    let request = server.api(Method::PATCH, "/links/y").json(&target);
    let answer = send(request.header("prefer", "respond-async")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("preference-applied"), "respond-async");
}

/// Such a batch is not copied for each waiter.
#[tokio::test]
async fn feed_batch_when_long_comes_whole() {
    let server = Running::start().await;
    let follower = Follower::start(&server).await;
    let long = format!("https://example.com/{}", "x".repeat(7_000));
    for slug in ["a", "b"] {
        server.link(slug).to(&long).create().await;
    }
    let answer = edge(&server, &follower.path()).await;
    let length: usize = answer.header("content-length").parse().unwrap();
    assert_eq!(length, answer.body.len());
    let batch = FeedBatch::decode(&answer.body).unwrap();
    let messages = batch.messages.into_iter().map(Result::unwrap);
    let changed = messages.filter_map(change).map(|(key, _)| key);
    let wanted = ["a", "b"].map(|slug| format!("go.example:8080/{slug}"));
    assert_eq!(changed.collect::<Vec<_>>(), wanted);
}

#[tokio::test]
async fn beat_when_published_carries_bound_and_growing_number() {
    let server = Running::with(&[("EDGELINK_PUBLISHER_HEARTBEAT_MS", "100")]).await;
    let mut follower = Follower::start(&server).await;
    let mut last = 0;
    for _ in 0..5 {
        let answer = edge(&server, &follower.path()).await;
        let batch = FeedBatch::decode(&answer.body).unwrap();
        assert!(batch.head.age_millis < 1000);
        follower.position = batch.head.next;
        let messages = batch.messages.into_iter().map(Result::unwrap);
        for message in messages {
            if let FeedMessage::Beat(beat) = message {
                assert_eq!(beat.bound, 1_000_000_000);
                assert_eq!(beat.generation, batch.head.generation);
                assert!(beat.number > last, "{} after {last}", beat.number);
                last = beat.number;
            }
        }
    }
    assert!(last > 0);
}

#[tokio::test]
async fn feed_when_position_is_unknown_answers_a_gap() {
    let server = Running::start().await;
    let follower = Follower::start(&server).await;
    let generation = follower.generation;
    for place in [
        format!("after=1-1&generation={generation}"),
        "after=1-1".to_owned(),
        format!("after={}&generation=1", follower.position),
        format!("after={}", follower.position),
        "after=99999999999999-0&generation=1".to_owned(),
    ] {
        let answer = edge(&server, &format!("/feed?{place}&waitMs=20000")).await;
        assert!(FeedBatch::decode(&answer.body).unwrap().head.gap, "{place}");
    }
    // Another control plane is ahead: that is no gap.
    let ahead = format!("/feed?after=99999999999999-0&generation={generation}");
    edge(&server, &ahead).await.problem(503, "overloaded");
    for query in ["after=x", "generation=x", "waitMs=x", "since=1-1"] {
        let answer = edge(&server, &format!("/feed?{query}")).await;
        answer.problem(422, "validation");
    }
    let request = server.plain(Method::GET, "/edge/v1/feed");
    send(request).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn feed_when_json_is_accepted_comes_as_json() {
    let server = Running::start().await;
    await_feed(&server).await;
    let request = server
        .plain(Method::GET, "/edge/v1/feed")
        .bearer_auth(TOKEN);
    let answer = send(request.header("accept", "application/json")).await;
    assert_eq!(answer.json()["gap"], true);
    assert_eq!(answer.json()["messages"], json!([]));
    assert!(answer.json()["generation"].as_u64().unwrap() > 0);
    assert!(answer.json()["ageMs"].as_u64().unwrap() < 4000);
}

#[tokio::test]
async fn feed_poll_when_waiting_is_bounded_and_answered_at_a_stop() {
    let variables = [
        ("EDGELINK_FEED_MAX_POLLS", "1"),
        ("EDGELINK_SERVER_MAX_REQUESTS", "1"),
        ("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "100"),
        ("EDGELINK_PUBLISHER_HEARTBEAT_MS", "2000"),
    ];
    let server = Running::with(&variables).await;
    let mut follower = Follower::start(&server).await;
    // Right behind a beat, so that the next one is far away.
    let answer = edge(&server, &follower.path()).await;
    follower.position = FeedBatch::decode(&answer.body).unwrap().head.next;
    let path = format!("/edge/v1{}", follower.path());
    let waiting = tokio::spawn(send(server.plain(Method::GET, &path).bearer_auth(TOKEN)));
    until("the bound on polls", async || {
        edge(&server, "/feed").await.status == 503
    })
    .await;
    // Others are served meanwhile.
    assert_eq!(server.follow("/nothing").await.status, 404);
    let start = Instant::now();
    server.begin_stop();
    let answer = waiting.await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(FeedBatch::decode(&answer.body).unwrap().messages.is_empty());
    server.stopped().await;
}

#[tokio::test]
async fn snapshot_when_requested_has_all_an_edge_starts_from() {
    let server = Running::with(&[(
        "EDGELINK_LINKS_CODE_KEY",
        "000102030405060708090a0b0c0d0e0f",
    )])
    .await;
    server.link("Aliases").create().await;
    server.link("other-shape").create().await;
    let batch = ClickBatch {
        worker: [1; 16],
        seq: 1,
        at: 0,
        total: 5,
        dropped: 0,
        clicks: vec![("go.example:8080/Aliases", 5), ("go.example:8080/none", 9)],
        ..ClickBatch::default()
    };
    report(&server, &encode(&[batch])).await;
    let store = connect(&StoreConfig::at(&server.database())).await.unwrap();
    until("the hot link", async || {
        !store.clicks().hot_keys(1).await.unwrap().is_empty()
    })
    .await;
    until("the alias", async || {
        let bytes = snapshot(&server).await;
        let snapshot = Snapshot::decode(&bytes).unwrap();
        let codes = &snapshot.codes;
        codes.may_contain(b"Aliases")
            && codes.may_contain(b"other-shape")
            && snapshot.hot.len() == 1
    })
    .await;
    let bytes = snapshot(&server).await;
    let snapshot = Snapshot::decode(&bytes).unwrap();
    assert_eq!(snapshot.length, CodeLength::DEFAULT);
    assert!(snapshot.key.is_some());
    assert_eq!(snapshot.domains, ["go.example:8080", "other.example"]);
    // As it is at the start, or raised once since.
    assert!((1_000_000_000..1_200_000_000).contains(&snapshot.bound));
    assert_eq!(snapshot.hot[0].key, b"go.example:8080/Aliases");
    assert!(matches!(snapshot.hot[0].record, Record::Link(_)));
    assert!(!snapshot.codes.may_contain(b"never-made"));
    let (position, generation) = (snapshot.position, snapshot.generation);
    let path = format!("/feed?after={position}&generation={generation}");
    let answer = edge(&server, &path).await;
    assert!(!FeedBatch::decode(&answer.body).unwrap().head.gap);
}

#[tokio::test]
async fn snapshot_when_server_restarts_knows_earlier_aliases() {
    let server = Running::start().await;
    server.link("Aliases").create().await;
    let server = server.restart().await;
    let bytes = snapshot(&server).await;
    let snapshot = Snapshot::decode(&bytes).unwrap();
    assert!(snapshot.codes.may_contain(b"Aliases"));
}

async fn report(server: &Running, body: &[u8]) -> Answer {
    let request = server.plain(Method::POST, "/edge/v1/clicks");
    send(request.bearer_auth(TOKEN).body(body.to_vec())).await
}

#[tokio::test]
async fn click_batch_when_sent_again_counts_once() {
    let server = Running::start().await;
    let batch = |worker, seq, clicks, total, dropped| ClickBatch {
        worker: [worker; 16],
        seq,
        at: 0,
        total,
        dropped,
        clicks: vec![("go.example:8080/x", clicks), ("go.example:8080/y", 1)],
        ..ClickBatch::default()
    };
    let first = [batch(1, 1, 2, 3, 0), batch(2, 1, 4, 5, 0)];
    let second = [batch(1, 2, 9, 20, 7), batch(2, 1, 4, 5, 0)];
    for batches in [&first, &first, &second, &first, &second] {
        assert_eq!(report(&server, &encode(batches)).await.status, 204);
    }
    let accounts = server.get("/clicks/accounting").await.expect(200);
    let expected = json!({ "sent": 25, "counted": 18, "dropped": 7, "undescribed": 0 });
    assert_eq!(accounts, expected);
}

async fn report_for_keys(server: &Running, query: &str) -> Answer {
    let request = server.plain(Method::POST, &format!("/edge/v1/clicks?{query}"));
    send(request.bearer_auth(TOKEN).body(encode(&[]))).await
}

#[tokio::test]
async fn worker_when_it_lacks_visitor_keys_gets_them_with_the_answer() {
    let server = Running::start().await;
    let first = report_for_keys(&server, "visitorKeys=0").await;
    assert_eq!(first.status, 200);
    assert_eq!(first.header("content-type"), VisitorKeys::MEDIA_TYPE);
    let keys = VisitorKeys::decode(&first.body).unwrap();
    let until = keys.until();
    assert_eq!(until % 86_400, 0);
    let server = server.restart().await;
    let again = report_for_keys(&server, "visitorKeys=1").await;
    let again = VisitorKeys::decode(&again.body).unwrap();
    assert_eq!(again.all()[0].secret, keys.all()[0].secret);
    // Two days later is later than the next day, whose secret comes an hour before it begins.
    let later = until + 2 * 86_400;
    let up_to_date = report_for_keys(&server, &format!("visitorKeys={later}")).await;
    assert_eq!(up_to_date.status, 204);
    assert_eq!(up_to_date.body.len(), 0);
    assert_eq!(report(&server, &encode(&[])).await.status, 204);
    for query in ["visitorKeys=x", "visitorKeys", "other=1"] {
        let answer = report_for_keys(&server, query).await;
        answer.problem(422, "validation");
    }
}

#[tokio::test]
async fn click_batch_when_malformed_is_refused_for_good() {
    let server = Running::start().await;
    let batch = ClickBatch {
        worker: [1; 16],
        seq: 1,
        at: 0,
        total: 1,
        dropped: 0,
        clicks: vec![("a.example/x", u64::MAX)],
        ..ClickBatch::default()
    };
    for body in [b"".to_vec(), b"garbage".to_vec(), encode(&[batch])] {
        report(&server, &body).await.problem(400, "invalid-batches");
    }
    let large = vec![1; (4 << 20) + 1];
    report(&server, &large).await.problem(413, "body-too-large");
    let request = server.plain(Method::POST, "/edge/v1/clicks");
    send(request).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn link_when_it_becomes_hot_comes_by_the_feed() {
    let server = Running::with(&[("EDGELINK_CLICKS_HOT_PERIOD_MS", "100")]).await;
    server.link("x").create().await;
    let mut follower = Follower::start(&server).await;
    let batch = ClickBatch {
        worker: [1; 16],
        seq: 1,
        at: 0,
        total: 5,
        dropped: 0,
        clicks: vec![("go.example:8080/x", 5)],
        ..ClickBatch::default()
    };
    report(&server, &encode(&[batch])).await;
    until("the hot link", async || {
        let changes = follower.next().await;
        changes
            .iter()
            .any(|(key, rev)| key == "go.example:8080/x" && *rev > 0)
    })
    .await;
}

#[tokio::test]
async fn change_when_answered_is_seen_by_its_client_at_once() {
    let server = Running::start().await;
    server.link("x").create().await;
    for round in 0..50 {
        let target = format!("https://example.com/{round}");
        server
            .patch("/links/x", &json!({ "longUrl": target }))
            .await
            .expect(200);
        server.follow("/x").await.redirects(302, &target);
    }
    assert_eq!(server.delete("/links/x").await.status, 204);
    assert_eq!(server.follow("/x").await.status, 404);
}
