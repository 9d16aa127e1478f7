//! Redis away, silent, refusing, and back again.

use crate::redis::fixture::{GENERATION, KEY, LIMIT, client, connected, looked_up, start};
use edgelink_redis::{Redis, RedisError, RedisLookup};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::until;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The pause after a failed lookup.
const COOL_OFF: Duration = Duration::from_millis(250);
const AWAIT_ANSWERS: &str = "Redis answers again";

async fn answers(redis: &Redis) {
    until(AWAIT_ANSWERS, LIMIT, async || {
        redis.look_up(GENERATION, KEY).await.ok()
    })
    .await;
}

#[tokio::test]
async fn redis_when_absent_fails_at_once() {
    let mut server = RedisServer::start().await;
    let url = server.url();
    server.kill();
    let redis = client(&url);
    let start = Instant::now();
    for _ in 0..100 {
        assert!(redis.look_up(GENERATION, KEY).await.is_err());
    }
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    server.restart().await;
    answers(&redis).await;
}

#[tokio::test]
async fn redis_when_it_comes_back_empty_is_used_again() {
    let mut server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    answers(&redis).await;
    server.kill();
    until("failures", LIMIT, async || {
        redis.look_up(GENERATION, KEY).await.err()
    })
    .await;
    server.restart().await;
    answers(&redis).await;
    assert_eq!(looked_up(&redis).await, RedisLookup::Unknown);
}

#[tokio::test]
async fn redis_when_silent_is_asked_once_in_a_while() {
    let server = RedisServer::start().await;
    let redis = connected(&server.url()).await;
    answers(&redis).await;
    server.stop();
    // From here on time passes only while all tasks wait for it.
    tokio::time::pause();
    for _ in 0..3 {
        let error = redis.look_up(GENERATION, KEY).await.unwrap_err();
        assert!(matches!(error, RedisError::Away(_)), "{error}");
        for _ in 0..100 {
            let error = redis.look_up(GENERATION, KEY).await.unwrap_err();
            assert!(matches!(error, RedisError::Skipped), "{error}");
        }
        tokio::time::advance(COOL_OFF).await;
    }
    tokio::time::resume();
    server.cont();
    answers(&redis).await;
}

#[tokio::test]
async fn redis_when_the_password_is_wrong_refuses() {
    let server = RedisServer::with_password("right").await;
    let wrong = client(&server.url().replace("right", "wrong"));
    let missing = client(&server.url().replace(":right@", ""));
    let right = connected(&server.url()).await;
    answers(&right).await;
    for redis in [wrong, missing] {
        assert!(redis.look_up(GENERATION, KEY).await.is_err());
        assert!(redis.newest().await.is_err());
    }
}

#[tokio::test]
async fn redis_url_when_malformed_is_refused() {
    for url in ["", "127.0.0.1:6379", "redis-sentinel://127.0.0.1:26379"] {
        assert!(matches!(start(url), Err(RedisError::Url(_))), "{url}");
    }
}

/// A host between a client and Redis that can vanish: the connections through it stay open, and carry nothing.
struct Between {
    port: u16,
    vanishes: Arc<Mutex<CancellationToken>>,
}

impl Between {
    async fn start(server: &RedisServer) -> Self {
        let url = server.url();
        let redis = url.trim_start_matches("redis://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let vanishes = Arc::new(Mutex::new(CancellationToken::new()));
        let current = Arc::clone(&vanishes);
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let vanished = current.lock().unwrap().clone();
                let redis = redis.clone();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(redis).await.unwrap();
                    let carried = copy_bidirectional(&mut client, &mut server);
                    if vanished.run_until_cancelled(carried).await.is_none() {
                        // Both ends stay open.
                        pending::<()>().await;
                    }
                });
            }
        });
        Self { port, vanishes }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Vanishes, with all connections so far. New ones are carried.
    fn vanish(&self) {
        std::mem::take(&mut *self.vanishes.lock().unwrap()).cancel();
    }
}

#[tokio::test]
async fn nudge_connection_when_its_peer_vanishes_is_opened_again() {
    let server = RedisServer::start().await;
    let between = Between::start(&server).await;
    let redis = connected(&between.url()).await;
    let other = connected(&server.url()).await;
    let nudged = async || {
        let mut nudges = redis.nudges();
        until("a nudge", LIMIT, async || {
            other.nudge().await.unwrap();
            let came = timeout(Duration::from_millis(100), nudges.next());
            came.await.ok()
        })
        .await;
    };
    nudged().await;
    between.vanish();
    nudged().await;
}
