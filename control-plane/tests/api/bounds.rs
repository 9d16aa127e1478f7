//! Every bound, reached.

use crate::helpers::{Running, read_all, send, until};
use futures_util::FutureExt;
use futures_util::future::select_all;
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, Executor, SqliteConnection};
use std::net::{Ipv4Addr, TcpStream as StdStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpSocket, TcpStream};

/// A request whose body does not come.
async fn hang(server: &Running) -> TcpStream {
    let mut stream = server.connect().await;
    stream
        .write_all(unfinished(server, "/links", "").as_bytes())
        .await
        .unwrap();
    stream
}

/// A connection from an address, with a request in flight whose body is waited for by now.
async fn busy(server: &Running, address: [u8; 4]) -> TcpStream {
    busy_with(server, address, "/links").await
}

async fn busy_with(server: &Running, address: [u8; 4], path: &str) -> TcpStream {
    let mut stream = connect_from(server, address).await;
    let head = unfinished(server, path, "expect: 100-continue\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut answer = [0; 25];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, expected);
    stream
}

fn unfinished(server: &Running, path: &str, header: &str) -> String {
    format!(
        "POST /api/v1{path} HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\nconnection: close\r\n{header}\r\n",
        server.admin_key
    )
}

/// A request that is worked on until the lock is gone: creating a link waits for it.
async fn work_on(server: &Arc<Running>) -> SqliteConnection {
    let mut lock = SqliteConnection::connect(&server.database()).await.unwrap();
    lock.execute("BEGIN IMMEDIATE").await.unwrap();
    let busy = server.clone();
    tokio::spawn(async move {
        busy.link("").answer().await;
    });
    lock
}

const PATIENT_STORE: (&str, &str) = ("EDGELINK_STORE_TIMEOUT_MS", "9000");

#[tokio::test]
async fn request_when_limit_is_reached_is_refused_except_health() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_REQUESTS", "1"), PATIENT_STORE]).await;
    let server = Arc::new(server);
    let mut lock = work_on(&server).await;
    let get = || send(server.plain(Method::GET, "/x"));
    until("overload", async || get().await.status == 503).await;
    get().await.problem(503, "overloaded");
    assert!(get().await.text().contains("server.max_requests"));
    for path in ["/x", "/x/y"] {
        let form = server.plain(Method::POST, path).body("password=x");
        let form = form.header("content-type", "application/x-www-form-urlencoded");
        send(form).await.problem(503, "overloaded");
    }
    assert_eq!(server.follow("/health/ready").await.status, 200);
    assert_eq!(server.follow("/metrics").await.status, 200);
    lock.execute("ROLLBACK").await.unwrap();
    until("room again", async || get().await.status == 404).await;
}

#[tokio::test]
async fn listener_when_it_refuses_all_is_unready_until_a_request_ends() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_REQUESTS", "1"),
        ("EDGELINK_SERVER_UNREADY_AFTER_MS", "300"),
        PATIENT_STORE,
    ])
    .await;
    let server = Arc::new(server);
    let mut lock = work_on(&server).await;
    let ready = async || server.follow("/health/ready").await;
    until("overload", async || server.follow("/x").await.status == 503).await;
    until("the probe", async || ready().await.status == 503).await;
    let answer = ready().await;
    assert!(
        answer.text().contains("every request is refused"),
        "{answer:?}"
    );
    assert_eq!(server.follow("/health/live").await.status, 200);
    lock.execute("ROLLBACK").await.unwrap();
    until("room again", async || ready().await.status == 200).await;
}

/// Requests whose bodies do not come, one for each of these paths.
async fn silent(server: &Running, paths: &[&str], times: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for path in paths.iter().cycle().take(paths.len() * times) {
        let mut stream = connect_from(server, [127, 0, 0, 2]).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\n{}\r\ncontent-length: 64\r\n\r\n[",
            headers(server, path)
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    streams
}

/// What a request to a path has to have, so that its body is waited for.
fn headers(server: &Running, path: &str) -> String {
    match path {
        path if path.starts_with("/api/") => format!(
            "x-api-key: {}\r\ncontent-type: application/json",
            server.admin_key
        ),
        path if path.starts_with("/edge/") => {
            "authorization: Bearer first-token-of-the-edges".to_owned()
        }
        _ => "content-type: application/x-www-form-urlencoded".to_owned(),
    }
}

#[tokio::test]
async fn bodies_when_silent_take_no_permit_and_oldest_give_way() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_REQUESTS", "16"),
        ("EDGELINK_SERVER_MAX_BULK_REQUESTS", "1"),
        ("EDGELINK_PAGES_MAX_REQUESTS", "4"),
        ("EDGELINK_SERVER_MAX_WAITING_BODIES", "20"),
        ("EDGELINK_SERVER_BODY_TIMEOUT_MS", "60000"),
        ("EDGELINK_SERVER_FORM_TIMEOUT_MS", "60000"),
        ("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "60000"),
        ("EDGELINK_REPORTS_PER_HOUR", "1000"),
        ("EDGELINK_REPORTS_ALL_PER_HOUR", "1000"),
    ])
    .await;
    server.link("locked").password("p").create().await;
    let paths = [
        "/api/v1/links",
        "/api/v1/links/bulk",
        "/locked",
        "/nothing",
        "/console/login",
        "/+/report",
        "/edge/v1/links",
        "/edge/v1/clicks",
        "/edge/v1/visits",
    ];
    let mut silent = silent(&server, &paths, 5).await;
    // Those of no link, and of no lock, are answered without their body. Of the others as many wait as may.
    let refused = async |stream: &mut TcpStream| {
        let mut answer = vec![0; 4_096];
        let length = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    let first = refused(&mut silent[0]).await;
    assert!(first.starts_with("HTTP/1.1 503 "), "{first}");
    assert!(
        first.contains("server.max_waiting_bodies is reached"),
        "{first}"
    );
    let nothing = refused(&mut silent[3]).await;
    assert!(nothing.starts_with("HTTP/1.1 404 "), "{nothing}");
    for _ in 0..5 {
        server.get("/links").await.expect(200);
        assert_eq!(server.follow("/console/login").await.status, 200);
        assert_eq!(server.follow("/nothing").await.status, 404);
        assert_eq!(server.follow("/locked+").await.status, 200);
        assert_eq!(server.resolve("go.example:8080/nothing").await.status, 404);
        server.link("").create().await;
        let items = json!([{ "longUrl": "https://example.com/" }]);
        send(server.api(Method::POST, "/links/bulk").json(&items))
            .await
            .expect(200);
    }
}

#[tokio::test]
async fn bulk_body_when_silent_takes_no_bulk_permit() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_BULK_REQUESTS", "1"),
        ("EDGELINK_SERVER_BODY_TIMEOUT_MS", "60000"),
    ])
    .await;
    let waiting = busy_with(&server, [127, 0, 0, 2], "/links/bulk").await;
    let items = json!([{ "longUrl": "https://example.com/" }]);
    let other = send(server.api(Method::POST, "/links/bulk").json(&items)).await;
    other.expect(200);
    drop(waiting);
}

#[tokio::test]
async fn waiting_bodies_when_bytes_exceed_the_bound_lose_the_largest() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_WAITING_BODY_BYTES", "65536"),
        ("EDGELINK_SERVER_MAX_BULK_BODY_BYTES", "65536"),
        ("EDGELINK_SERVER_BODY_TIMEOUT_MS", "60000"),
    ])
    .await;
    let head = format!(
        "POST /api/v1/links/bulk HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: 65000\r\nconnection: close\r\n\r\n[",
        server.admin_key
    );
    let mut first = server.connect().await;
    first.write_all(head.as_bytes()).await.unwrap();
    let mut second = connect_from(&server, [127, 0, 0, 2]).await;
    second.write_all(head.as_bytes()).await.unwrap();
    first.write_all(&vec![b' '; 50_000]).await.unwrap();
    second.write_all(&vec![b' '; 20_000]).await.unwrap();
    // It holds more.
    let answer = read_all(&mut first).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let limit = "server.max_waiting_body_bytes is reached";
    assert!(answer.contains(limit), "{answer}");
    let rest = vec![b' '; 65_000 - 20_001 - 1];
    second.write_all(&rest).await.unwrap();
    second.write_all(b"]").await.unwrap();
    let answer = read_all(&mut second).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn answer_when_bytes_exceed_bound_is_refused_unless_to_a_change() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_ANSWER_BYTES", "500000")]).await;
    let url = format!("https://example.com/{}", "x".repeat(7_900));
    let link = |number| json!({ "longUrl": format!("{url}{number}") });
    let items: Vec<_> = (0..150).map(link).collect();
    let made = send(server.api(Method::POST, "/links/bulk").json(&items)).await;
    assert!(made.body.len() > 1 << 20, "{}", made.body.len());
    assert_eq!(made.header("content-length"), made.body.len().to_string());
    assert_eq!(made.expect(200)["created"], 150);
    let refused = server.get("/links?limit=100").await;
    refused.problem(503, "overloaded");
    assert!(
        refused
            .text()
            .contains("server.max_answer_bytes is reached")
    );
    let answer = server.get("/links?limit=50").await;
    assert_eq!(answer.expect(200)["links"].as_array().unwrap().len(), 50);
}

#[tokio::test]
async fn body_when_silent_times_out() {
    let server = Running::with(&[("EDGELINK_SERVER_BODY_TIMEOUT_MS", "100")]).await;
    let answer = read_all(&mut hang(&server).await).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(
        answer.contains("urn:edgelink:problem:body-timeout"),
        "{answer}"
    );
}

/// Forms of strangers are short: they have less time than other bodies.
#[tokio::test]
async fn form_when_silent_and_of_a_stranger_times_out_early() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_FORM_TIMEOUT_MS", "100"),
        ("EDGELINK_SERVER_BODY_TIMEOUT_MS", "60000"),
        ("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "60000"),
    ])
    .await;
    for stream in &mut silent(&server, &["/console/login", "/+/report"], 1).await {
        let answer = read_all(stream).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
}

/// An address has no more forms on their way than it may send.
#[tokio::test]
async fn report_when_its_form_is_still_on_the_way_counts() {
    let server = Running::with(&[
        ("EDGELINK_REPORTS_PER_HOUR", "2"),
        ("EDGELINK_SERVER_FORM_TIMEOUT_MS", "60000"),
        ("EDGELINK_SERVER_BODY_TIMEOUT_MS", "60000"),
        ("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "60000"),
    ])
    .await;
    let mut waiting = silent(&server, &["/+/report"], 3).await;
    let answers = waiting.iter_mut().map(|stream| Box::pin(read_all(stream)));
    let (first, ..) = select_all(answers).await;
    assert!(first.starts_with("HTTP/1.1 429 "), "{first}");
}

#[tokio::test]
async fn request_when_it_outlasts_the_timeout_is_given_up() {
    let server = Running::with(&[("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "100")]).await;
    let answer = read_all(&mut hang(&server).await).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.contains("urn:edgelink:problem:request-timeout"),
        "{answer}"
    );
    assert!(answer.contains("retry-after: 1"), "{answer}");
}

#[tokio::test]
async fn request_head_when_silent_ends_the_connection() {
    let server = Running::with(&[("EDGELINK_SERVER_HEADER_TIMEOUT_MS", "100")]).await;
    let answer = server.exchange(b"GET /x HTTP/1.1\r\nhost: ").await;
    assert_eq!(answer, "");
}

#[tokio::test]
async fn request_head_when_too_large_is_refused() {
    let server = Running::start().await;
    let request = |length: usize| {
        let filler = "a".repeat(length);
        format!("GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: {filler}\r\n\r\n")
    };
    let answer = server.exchange(request(32_000).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    let answer = server.exchange(request(33_000).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn connection_when_beyond_the_bound_waits() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_CONNECTIONS", "1"),
        ("EDGELINK_SERVER_HEALTH_CONNECTIONS", "0"),
    ])
    .await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut answer = [0; 512];
    let mut first = busy(&server, [127, 0, 0, 1]).await;
    let mut second = server.connect().await;
    second.write_all(request).await.unwrap();
    assert!(
        second.try_read(&mut answer).is_err(),
        "the second connection has to wait"
    );
    first.write_all(&[b'x'; 100]).await.unwrap();
    assert!(read_all(&mut first).await.starts_with("HTTP/1.1 400 "));
    assert!(second.read(&mut answer).await.unwrap() > 0);
}

#[tokio::test]
async fn idle_connections_when_full_give_way_silent_ones_first() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_CONNECTIONS", "3"),
        ("EDGELINK_SERVER_HEALTH_CONNECTIONS", "0"),
        // They end by giving way alone.
        ("EDGELINK_SERVER_FIRST_HEADER_TIMEOUT_MS", "60000"),
        ("EDGELINK_SERVER_HEADER_TIMEOUT_MS", "60000"),
    ])
    .await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut answer = [0; 512];
    let mut used = connect_from(&server, [127, 0, 0, 2]).await;
    used.write_all(request).await.unwrap();
    assert!(used.read(&mut answer).await.unwrap() > 0);
    let mut silent = Vec::new();
    for _ in 0..2 {
        silent.push(connect_from(&server, [127, 0, 0, 2]).await);
    }
    // The silent connections go one after another, and each new connection is served.
    for address in [[127, 0, 0, 3], [127, 0, 0, 4]] {
        let mut other = connect_from(&server, address).await;
        other.write_all(request).await.unwrap();
        assert!(other.read(&mut answer).await.unwrap() > 0);
        silent.push(other);
    }
    assert_eq!(silent[0].read(&mut answer).await.unwrap(), 0);
    assert_eq!(silent[1].read(&mut answer).await.unwrap(), 0);
    used.write_all(request).await.unwrap();
    assert!(used.read(&mut answer).await.unwrap() > 0);
}

#[tokio::test]
async fn connection_when_no_request_comes_is_closed_early() {
    let server = Running::with(&[("EDGELINK_SERVER_FIRST_HEADER_TIMEOUT_MS", "100")]).await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut answer = [0; 512];
    let mut used = server.connect().await;
    used.write_all(request).await.unwrap();
    assert!(used.read(&mut answer).await.unwrap() > 0);
    let mut silent = server.connect().await;
    assert_eq!(silent.read(&mut answer).await.unwrap(), 0);
    used.write_all(request).await.unwrap();
    assert!(used.read(&mut answer).await.unwrap() > 0);
}

#[tokio::test]
async fn connections_when_many_come_at_once_wait_to_be_accepted() {
    let server = Running::start().await;
    // The server has no other thread: it accepts none meanwhile.
    let mut waiting = Vec::new();
    for number in 0..1_000 {
        let connected = StdStream::connect_timeout(&server.address, Duration::from_secs(10));
        waiting.push(connected.unwrap_or_else(|error| panic!("{number}: {error}")));
    }
    assert_eq!(server.follow("/health/live").await.status, 200);
}

/// A connection from another address of this machine, with a small buffer for what comes back.
async fn connect_from(server: &Running, address: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    socket.bind((Ipv4Addr::from(address), 0).into()).unwrap();
    socket.connect(server.address).await.unwrap()
}

#[tokio::test]
async fn client_when_it_reads_no_answers_is_cut_off() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_MAX_CONNECTIONS", "2"),
        ("EDGELINK_SERVER_HEALTH_CONNECTIONS", "0"),
        ("EDGELINK_SERVER_WRITE_TIMEOUT_MS", "500"),
    ])
    .await;
    let requests = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2_000);
    let mut silent = Vec::new();
    for _ in 0..2 {
        let (unread, mut write) = connect_from(&server, [127, 0, 0, 1]).await.into_split();
        let requests = requests.clone();
        let sending = tokio::spawn(async move {
            let _ = write.write_all(&requests).await; // until the server takes no more, or has closed
        });
        silent.push((unread, sending));
    }
    // Both have a connection before others come.
    until("requests are served", async || {
        let is_served =
            |unread: &OwnedReadHalf| unread.ready(Interest::READABLE).now_or_never().is_some();
        silent.iter().all(|(unread, _)| is_served(unread))
    })
    .await;
    assert_eq!(server.follow("/health/live").await.status, 200);
    for (_, sending) in silent {
        sending.await.unwrap();
    }
}

#[tokio::test]
async fn address_when_at_its_connection_limit_is_refused_more() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_CONNECTIONS_PER_ADDRESS", "1")]).await;
    let request = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut answer = [0; 512];
    let first = busy(&server, [127, 0, 0, 2]).await;

    let mut second = connect_from(&server, [127, 0, 0, 2]).await;
    let _ = second.write_all(request).await; // perhaps it is closed already
    assert!(!matches!(second.read(&mut answer).await, Ok(1..)));
    let mut other = connect_from(&server, [127, 0, 0, 3]).await;
    other.write_all(request).await.unwrap();
    assert!(other.read(&mut answer).await.unwrap() > 0);

    let metrics = server.follow("/metrics").await;
    assert!(
        metrics
            .text()
            .contains("edgelink_http_connections_refused_total ")
    );

    drop(first);
    until("room again", async || {
        let mut again = connect_from(&server, [127, 0, 0, 2]).await;
        let _ = again.write_all(request).await;
        again.read(&mut answer).await.is_ok_and(|length| length > 0)
    })
    .await;
}

#[tokio::test]
async fn health_when_all_connections_are_taken_is_answered() {
    let server = Running::with(&[("EDGELINK_SERVER_MAX_CONNECTIONS", "1")]).await;
    let _first = busy(&server, [127, 0, 0, 1]).await;
    // No `connection: close`: the server ends these connections after one answer.
    for (path, status) in [
        ("/health/live", "200"),
        ("/health/ready", "200"),
        ("/metrics", "200"),
        ("/x", "503"),
        ("/api/v1/links", "503"),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        let answer = server.exchange(request.as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{path}: {answer}"
        );
        assert_eq!(
            answer.contains("urn:edgelink:problem:overloaded"),
            status == "503",
            "{path}: {answer}"
        );
    }
}

/// A bulk request whose body comes in pieces of almost 16 KiB, one in 100 ms, and its answer.
async fn send_slowly(server: &Running, pieces: usize) -> String {
    let item = r#"[{"longUrl":"https://example.com/"}"#;
    let link = format!(
        r#",{{"longUrl":"https://example.com/{}"}}"#,
        "x".repeat(7_960)
    );
    let piece = link.repeat(2);
    let length = item.len() + pieces * piece.len() + 1;
    let mut stream = server.connect().await;
    let head = format!(
        "POST /api/v1/links/bulk HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{item}",
        server.admin_key
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..pieces {
        if stream.write_all(piece.as_bytes()).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let _ = stream.write_all(b"]").await;
    read_all(&mut stream).await
}

#[tokio::test]
async fn bulk_body_when_large_and_slow_is_waited_for() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_BODY_TIMEOUT_MS", "1000"),
        ("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "1500"),
    ])
    .await;
    let answer = send_slowly(&server, 20).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains(r#""created":41"#), "{answer}");
}

#[tokio::test]
async fn bulk_body_when_it_stops_coming_times_out() {
    let server = Running::with(&[("EDGELINK_SERVER_BODY_TIMEOUT_MS", "300")]).await;
    let head = format!(
        "POST /api/v1/links/bulk HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: 1000000\r\nconnection: close\r\n\r\n[",
        server.admin_key
    );
    let start = Instant::now();
    let answer = server.exchange(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(start.elapsed() >= Duration::from_millis(300));
}
