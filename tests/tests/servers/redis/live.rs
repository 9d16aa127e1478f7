//! The live stream of clicks over two control planes that share a Redis.

use super::limits::{LIMIT, Replicas};
use edgelink_tests::scenario::Request;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Connection, until};
use edgelink_wire::clicks::{ClickBatch, encode};
use reqwest::Response;
use std::net::SocketAddr;

const TOKEN: &str = "token-of-the-edges-of-tests";

async fn start(redis: &str) -> Replicas {
    let variables = [
        ("EDGELINK_LINKS_DOMAINS", "go.example"),
        ("EDGELINK_AUTH_EDGE_TOKENS", TOKEN),
    ];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let replicas = Replicas::start(redis, &variables.map(owned)).await;
    let link = r#"{"longUrl":"https://example.com/","customSlug":"a"}"#;
    let create = Request::new("POST", b"/api/v1/links")
        .header("x-api-key", replicas.key.as_bytes())
        .header("content-type", b"application/json");
    let mut connection = Connection::open(replicas.addresses[0]).await.unwrap();
    let made = connection.exchange(&create, link.as_bytes()).await.unwrap();
    assert_eq!(made.status, 201);
    replicas
}

/// Reports a click; whether it was taken.
async fn report(control_plane: SocketAddr, seq: u64) {
    let batch = ClickBatch {
        worker: [1; 16],
        seq,
        clicks: vec![("go.example/a", seq)],
        ..ClickBatch::default()
    };
    let url = format!("http://{control_plane}/edge/v1/clicks");
    let report = reqwest::Client::new().post(url).bearer_auth(TOKEN);
    let answer = report.body(encode(&[batch])).send().await.unwrap();
    assert_eq!(answer.status(), 204);
}

async fn listen(replicas: &Replicas, at: usize) -> Response {
    let url = format!("http://{}/api/v1/events", replicas.addresses[at]);
    let listen = reqwest::Client::new().get(url).bearer_auth(&replicas.key);
    let mut stream = listen.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    read_until(&mut stream, ": listening").await;
    stream
}

/// Reads until the text has come.
async fn read_until(stream: &mut Response, text: &str) {
    let mut read = String::new();
    let wait = async {
        while !read.contains(text) {
            let chunk = stream.chunk().await.unwrap().expect("more of the stream");
            read += std::str::from_utf8(&chunk).unwrap();
        }
    };
    tokio::time::timeout(LIMIT, wait).await.expect(text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn click_when_reported_to_one_replica_is_streamed_by_another() {
    let redis = RedisServer::start().await;
    let replicas = start(&redis.url()).await;
    let mut streams = [listen(&replicas, 0).await, listen(&replicas, 1).await];
    report(replicas.addresses[0], 11).await;
    for stream in &mut streams {
        read_until(stream, r#""count":11,"shortCode":"a""#).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_when_it_has_listeners_follows_reports() {
    let mut redis = RedisServer::start().await;
    let replicas = start(&redis.url()).await;
    let followers = |redis: &RedisServer| redis.ask(&["PUBSUB", "NUMSUB", "edgelink:clicks"]);
    assert!(
        followers(&redis).trim_end().ends_with('0'),
        "{}",
        followers(&redis)
    );
    let mut stream = listen(&replicas, 0).await;
    assert!(
        followers(&redis).trim_end().ends_with('1'),
        "{}",
        followers(&redis)
    );
    redis.restart().await;
    until("the replica follows again", LIMIT, async || {
        followers(&redis).trim_end().ends_with('1').then_some(())
    })
    .await;
    // A report that does not reach Redis is lost to listeners.
    let seen = read_until(&mut stream, r#""shortCode":"a""#);
    let reports = async {
        for seq in 1.. {
            report(replicas.addresses[1], seq).await;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = seen => {}
        () = reports => {}
    }
    drop(stream);
    until("the replica follows no more", LIMIT, async || {
        followers(&redis).trim_end().ends_with('0').then_some(())
    })
    .await;
}
