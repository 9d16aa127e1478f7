//! A Redis that misbehaves, behind real Envoy: the control plane answers, nothing traps, and it is logged once.

use edgelink_tests::stack::{Deployment, EnvoyOptions, RedisOptions, until};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LINKS: usize = 20;
/// A line of a kind comes no more often.
const SECONDS_BETWEEN_LINES: u64 = 10;
const LIMIT: Duration = Duration::from_secs(20);

/// Answers every piece that comes with the same bytes.
async fn answer_always(mut stream: TcpStream, reply: &'static [u8]) {
    let mut piece = [0; 4096];
    while let Ok(length) = stream.read(&mut piece).await {
        if length == 0 || stream.write_all(reply).await.is_err() {
            return;
        }
    }
}

/// A server that answers like this, and its port.
async fn misbehaving(reply: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_always(stream, reply));
        }
    });
    port
}

/// Follows links, all of which the control plane has to answer, until Redis was tried twice.
async fn assert_survived(reply: &'static [u8]) {
    let options = EnvoyOptions {
        redis: Some(RedisOptions::direct(misbehaving(reply).await)),
        ..EnvoyOptions::default()
    };
    let start = Instant::now();
    let mut edgelink = Deployment::start(&options).await;
    for n in 0..LINKS {
        let target = format!("https://example.com/{n}");
        let path = edgelink.link("").to(&target).create().await.path();
        let answer = edgelink.envoy.follow(&path).await;
        assert_eq!(answer.location(), Some(target.as_str()), "{answer:?}");
        assert_eq!(answer.tier(), Some("control-plane"));
    }
    until("Redis is tried again", LIMIT, async || {
        let stats = edgelink.envoy.stats("redis_attempts").await;
        (stats.get("edgelink.redis_attempts.lookup") >= 2).then_some(())
    })
    .await;
    edgelink.envoy.assert_unharmed().await;
    let log = edgelink.envoy.process().log();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("redis cannot be asked"))
        .collect();
    let most = 1 + start.elapsed().as_secs() / SECONDS_BETWEEN_LINES;
    assert!((1..=most).contains(&(lines.len() as u64)), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_when_it_wants_a_password_is_survived() {
    assert_survived(b"-NOAUTH Authentication required.\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_when_it_answers_errors_is_survived() {
    assert_survived(b"-LOADING Redis is loading the dataset in memory\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_when_it_answers_garbage_is_survived() {
    assert_survived(b"\xff\x00 HTTP/1.1 400 Bad Request\r\n\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_when_it_answers_half_a_reply_is_survived() {
    assert_survived(b"$100\r\nhalf").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_when_it_answers_nothing_is_survived() {
    assert_survived(b"").await;
}
