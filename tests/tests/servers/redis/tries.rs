//! Tries of passwords over two control planes that share a Redis.

use super::limits::{LIMIT, Replicas, limit, micros};
use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Connection, until};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;

/// A try, in the units of a bucket: an address has ten.
const PRICE: u64 = 10_000_000;
const FULL: u64 = 100_000_000;

/// A try of a link, of which sixty fit.
const LINK_PRICE: u64 = 2_000_000;
const LINK_FULL: u64 = 120_000_000;

/// Two control planes behind a proxy, which have the link `a` with a password.
async fn start(redis: &str) -> Replicas {
    let mut variables = limit("ADDRESS", 1_000_000, 1_000_000);
    for (name, value) in [
        ("EDGELINK_SERVER_TRUSTED_PROXIES", "127.0.0.1"),
        ("EDGELINK_LINKS_DOMAINS", "go.example"),
    ] {
        variables.push((name.to_owned(), value.to_owned()));
    }
    let replicas = Replicas::start(redis, &variables).await;
    let link = r#"{"longUrl":"https://example.com/","customSlug":"a","password":"open"}"#;
    let create = Request::new("POST", b"/api/v1/links")
        .header("x-api-key", replicas.key.as_bytes())
        .header("content-type", b"application/json");
    let made = exchange(replicas.addresses[0], &create, link).await;
    assert_eq!(made.status, 201);
    for address in replicas.addresses {
        until("the link", LIMIT, async || {
            let get = Request::get("/a").header("host", b"go.example");
            (exchange(address, &get, "").await.status == 200).then_some(())
        })
        .await;
    }
    replicas
}

async fn exchange(address: SocketAddr, request: &Request, body: &str) -> Answer {
    let mut connection = Connection::open(address).await.expect("a connection");
    let answer = connection.exchange(request, body.as_bytes()).await;
    answer.expect("an answer")
}

/// Tries a wrong password; whether it was checked.
async fn is_checked(control_plane: SocketAddr, visitor: &str) -> bool {
    match give(control_plane, visitor, "wrong").await {
        403 => true,
        429 => false,
        status => panic!("{status}"),
    }
}

async fn give(control_plane: SocketAddr, visitor: &str, password: &str) -> u16 {
    let form = Request::new("POST", b"/a")
        .header("host", b"go.example")
        .header("x-forwarded-for", visitor.as_bytes())
        .header("content-type", b"application/x-www-form-urlencoded");
    let body = format!("password={password}");
    exchange(control_plane, &form, &body).await.status
}

/// What the bucket of that name held when it was used last.
fn level(server: &RedisServer, name: &str) -> u64 {
    let bucket = server.ask(&["GET", &format!("{{limits}}:try:{name}")]);
    let level = bucket.split_whitespace().next().expect("a level");
    level.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_when_over_two_control_planes_count_together() {
    let server = RedisServer::start().await;
    let replicas = start(&server.url()).await;
    let ask = |command: &[&str]| server.ask(command);
    assert!(is_checked(replicas.addresses[0], "192.0.2.9").await);
    assert_eq!(level(&server, "192.0.2.9"), FULL - PRICE);
    let digest = Sha256::digest("go.example/a");
    let of_link: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(level(&server, &of_link), LINK_FULL - LINK_PRICE);
    let start = micros(&ask);
    let mut checked = 0;
    while is_checked(replicas.addresses[checked % 2], "192.0.2.1").await {
        checked += 1;
    }
    let gained = usize::try_from((micros(&ask) - start) / PRICE).expect("few");
    assert!((10..=10 + gained).contains(&checked), "{checked}, {gained}");
    // One that is refused takes nothing, neither of the address nor of the link.
    let left = level(&server, "192.0.2.1");
    assert!(left < PRICE, "{left}");
    assert!(is_checked(replicas.addresses[1], "192.0.2.2").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn try_when_the_password_is_right_is_given_back() {
    let server = RedisServer::start().await;
    let replicas = start(&server.url()).await;
    for attempt in 0..30 {
        let address = replicas.addresses[attempt % 2];
        assert_eq!(give(address, "192.0.2.1", "open").await, 303, "{attempt}");
    }
    // A bucket that is full is not kept.
    let bucket = server.ask(&["GET", "{limits}:try:192.0.2.1"]);
    assert_eq!(bucket.trim(), "");
    assert!(is_checked(replicas.addresses[0], "192.0.2.1").await);
    assert_eq!(level(&server, "192.0.2.1"), FULL - PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_when_of_one_ipv6_network_count_together() {
    let server = RedisServer::start().await;
    let replicas = start(&server.url()).await;
    let ask = |command: &[&str]| server.ask(command);
    let start = micros(&ask);
    let visitor = |number: usize| format!("2001:db8::{:x}:{number:x}", number * 7 + 1);
    let mut checked = 0;
    while is_checked(replicas.addresses[0], &visitor(checked)).await {
        checked += 1;
    }
    let gained = usize::try_from((micros(&ask) - start) / PRICE).expect("few");
    assert!((10..=10 + gained).contains(&checked), "{checked}, {gained}");
    assert!(level(&server, "2001:db8::") < PRICE);
    assert!(is_checked(replicas.addresses[0], "2001:db8:0:1::1").await);
    assert_eq!(level(&server, "2001:db8:0:1::"), FULL - PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_when_redis_is_away_are_counted_by_each_control_plane() {
    let mut server = RedisServer::start().await;
    let replicas = start(&server.url()).await;
    server.kill();
    for address in replicas.addresses {
        let before = replicas.degraded(address).await;
        let mut checked = 0;
        until("a refusal without Redis", LIMIT, async || {
            if is_checked(address, "192.0.2.1").await {
                checked += 1;
                None
            } else {
                Some(())
            }
        })
        .await;
        assert!(checked >= 10, "{checked}");
        assert_ne!(replicas.degraded(address).await, before);
    }
}

/// Logs in to the console by an API key, from an address; whether it was right.
async fn log_in(control_plane: SocketAddr, key: &str, from: &str) -> bool {
    let page = exchange(control_plane, &Request::get("/console/login"), "").await;
    let cookie = page.header("set-cookie").expect("a cookie");
    let (cookie, _) = cookie.split_once(';').expect("flags");
    let text = String::from_utf8_lossy(&page.body);
    let (_, token) = text
        .split_once("name=\"csrf\" value=\"")
        .expect("a form with a token");
    let form = Request::new("POST", b"/console/login")
        .header("cookie", cookie.as_bytes())
        .header("x-forwarded-for", from.as_bytes())
        .header("content-type", b"application/x-www-form-urlencoded");
    let body = format!("csrf={}&key={key}", &token[..64]);
    match exchange(control_plane, &form, &body).await.status {
        303 => true,
        403 => false,
        status => panic!("{status}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn try_when_the_login_is_right_is_given_back() {
    let server = RedisServer::start().await;
    let replicas = start(&server.url()).await;
    let bucket = |from: &str| {
        let text = server.ask(&["GET", &format!("{{limits}}:login:{from}")]);
        let level = text.split_whitespace().next().map(str::to_owned);
        level.filter(|level| !level.is_empty())
    };
    let [one, other] = replicas.addresses;
    for address in [one, other, one] {
        assert!(log_in(address, &replicas.key, "192.0.2.1").await);
        assert_eq!(bucket("192.0.2.1"), None, "full again");
    }
    assert!(!log_in(one, "wrong", "192.0.2.2").await);
    assert_eq!(bucket("192.0.2.2"), Some((FULL - PRICE).to_string()));
    for address in [one, other, one] {
        assert!(log_in(address, &replicas.key, "192.0.2.2").await);
        // Full again, if it has taken ten seconds.
        let level = bucket("192.0.2.2").map(|level| level.parse::<u64>());
        assert!(level.is_none_or(|level| level.expect("a level") >= FULL - PRICE));
    }
}
