//! TLS: certificates of the server and of edges, and how they and the tokens of edges are replaced while it runs.

use crate::helpers::{Running, refusal, until};
use edgelink_settings::config::ListenerKind;
use edgelink_tests::certificates::{Authority, Identity, replace};
use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::stack::{Connection, Http2Answer, Http2Connection};
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(20);

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The variables of a server with that certificate, which reads its files again all the time.
fn variables(identity: &Identity) -> Vec<(&str, &str)> {
    vec![
        ("EDGELINK_TLS_CERTIFICATE_FILE", text(&identity.certificate)),
        ("EDGELINK_TLS_KEY_FILE", text(&identity.key)),
        ("EDGELINK_SERVER_RELOAD_MS", "10"),
    ]
}

async fn ask(
    authority: &Authority,
    address: SocketAddr,
    request: &Request,
    identity: Option<&Identity>,
) -> io::Result<Answer> {
    let stream = authority.connect(address, "http/1.1", identity).await?;
    Connection::over(stream).exchange(request, b"").await
}

async fn is_live(authority: &Authority, address: SocketAddr, identity: Option<&Identity>) -> bool {
    let answer = ask(authority, address, &Request::get("/health/live"), identity).await;
    answer.is_ok_and(|answer| answer.status == 200)
}

/// The certificate that the server shows.
async fn shown(authority: &Authority, address: SocketAddr) -> Vec<u8> {
    let stream = authority.connect(address, "h2", None).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn request_when_over_tls_is_answered_by_http_1_and_2() {
    let authority = Authority::new();
    let identity = authority.issue("server");
    let mut variables = variables(&identity);
    variables.push(("EDGELINK_LINKS_UNKNOWN_HOSTS", "not_found"));
    let server = Running::with(&variables).await;
    let key = server.admin_key.as_bytes();
    let create = Request::new("POST", b"/api/v1/links")
        .header("x-api-key", key)
        .header("content-type", b"application/json");
    let link = json!({ "longUrl": "https://example.com/", "customSlug": "here" }).to_string();
    let stream = authority
        .connect(server.address, "http/1.1", None)
        .await
        .unwrap();
    let mut connection = Connection::over(stream);
    let made = connection.exchange(&create, link.as_bytes()).await.unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    let visit = Request::get("/here").header("host", b"go.example:8080");
    let answer = connection.exchange(&visit, b"").await.unwrap();
    assert_eq!(answer.header("location"), Some("https://example.com/"));
    let stream = authority.connect(server.address, "h2", None).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut connection = Http2Connection::over(stream);
    for (host, status) in [(&b"go.example:8080"[..], 302), (b"unknown.example", 404)] {
        let fields: [(&str, &[u8]); 4] = [
            (":method", b"GET"),
            (":scheme", b"https"),
            (":authority", host),
            (":path", b"/here"),
        ];
        let answer = connection.request(&fields).await.unwrap();
        assert_eq!(answer, Http2Answer::Status(status));
    }
}

#[tokio::test]
async fn request_when_in_clear_is_answered_by_http_1_and_2() {
    let server = Running::with(&[("EDGELINK_LINKS_UNKNOWN_HOSTS", "not_found")]).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let mut connection = Http2Connection::over(stream);
    for _ in 0..2 {
        let answer = connection.request(&PAGE).await.unwrap();
        assert_eq!(answer, Http2Answer::Status(404));
    }
    // The beginning of what HTTP/2 begins with, and a method that HTTP/1.1 may have.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for part in [
        "PR",
        "OPFIND /absent HTTP/1.1\r\nhost: go.example\r\nconnection: close\r\n\r\n",
    ] {
        stream.write_all(part.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

/// The fields of a request over HTTP/2 for a page that no link has.
const PAGE: [(&str, &[u8]); 4] = [
    (":method", b"GET"),
    (":scheme", b"https"),
    (":authority", b"go.example:8080"),
    (":path", b"/absent"),
];

#[tokio::test]
async fn stream_when_its_client_takes_nothing_is_reset() {
    let authority = Authority::new();
    let identity = authority.issue("server");
    let mut variables = variables(&identity);
    variables.push(("EDGELINK_SERVER_WRITE_TIMEOUT_MS", "100"));
    let server = Running::with(&variables).await;
    // With a window of 1 all of the answer is handed on, and one byte of it is sent.
    for window in [0, 1] {
        let stream = authority.connect(server.address, "h2", None).await.unwrap();
        let mut connection = Http2Connection::with_window(stream, window);
        for _ in 0..2 {
            let answer = connection.request(&PAGE).await.unwrap();
            assert_eq!(answer, Http2Answer::Status(404), "{window}");
            assert_eq!(connection.end().await.unwrap(), Http2Answer::Reset);
        }
    }
}

#[tokio::test]
async fn cookie_when_trusted_proxy_reports_http_is_not_secure() {
    let authority = Authority::new();
    let identity = authority.issue("server");
    for (proxies, is_secure) in [("192.0.2.0/24", true), ("127.0.0.0/8", false)] {
        let mut variables = variables(&identity);
        variables.push(("EDGELINK_SERVER_TRUSTED_PROXIES", proxies));
        let server = Running::with(&variables).await;
        let create = Request::new("POST", b"/api/v1/links")
            .header("x-api-key", server.admin_key.as_bytes())
            .header("content-type", b"application/json");
        let link = json!({ "longUrl": "https://example.com/", "customSlug": "here", "password": "sesame" });
        let link = link.to_string();
        let stream = authority.connect(server.address, "http/1.1", None).await;
        let mut connection = Connection::over(stream.unwrap());
        let made = connection.exchange(&create, link.as_bytes()).await.unwrap();
        assert_eq!(made.status, 201);
        let unlock = Request::new("POST", b"/here")
            .header("host", b"go.example:8080")
            .header("x-forwarded-proto", b"http")
            .header("content-type", b"application/x-www-form-urlencoded");
        let opened = connection.exchange(&unlock, b"password=sesame").await;
        let opened = opened.unwrap();
        let cookie = opened.header("set-cookie").unwrap();
        assert_eq!(cookie.ends_with("; Secure"), is_secure, "{cookie}");
    }
}

#[tokio::test]
async fn listener_when_it_has_tls_refuses_plain_http() {
    let authority = Authority::new();
    let identity = authority.issue("server");
    let mut variables = variables(&identity);
    variables.push(("EDGELINK_SERVER_METRICS_LISTEN", "127.0.0.1:0"));
    variables.push(("EDGELINK_TLS_LISTENERS", "main"));
    let server = Running::with(&variables).await;
    let answer = server
        .exchange(b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert!(!answer.contains("HTTP/1.1"), "{answer}");
    let metrics = server.listeners[1].address;
    let text = async || {
        let plain = reqwest::get(format!("http://{metrics}/metrics")).await;
        plain.unwrap().text().await.unwrap()
    };
    let end = "edgelink_certificate_expiry_timestamp_seconds{certificate=\"server\"}";
    assert!(text().await.contains(end));
    let failures = "edgelink_tls_handshake_failures_total{listener=\"main\",cause=\"refused\"}";
    until("the failure is counted", async || {
        text().await.contains(failures)
    })
    .await;
}

#[tokio::test]
async fn connection_when_idle_is_given_up() {
    let authority = Authority::new();
    let identity = authority.issue("server");
    let mut variables = variables(&identity);
    variables.push(("EDGELINK_SERVER_HEADER_TIMEOUT_MS", "100"));
    let server = Running::with(&variables).await;
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    for (protocol, sent) in [("http/1.1", &b""[..]), ("h2", b""), ("h2", preface)] {
        let stream = authority.connect(server.address, protocol, None).await;
        let mut idle = stream.unwrap();
        idle.write_all(sent).await.unwrap();
        let ended = tokio::time::timeout(PATIENCE, idle.read_to_end(&mut Vec::new())).await;
        // Cleanly or not.
        assert!(ended.is_ok(), "{protocol}: {sent:?}");
    }
}

#[tokio::test]
async fn connections_when_server_stops_end_with_handshakes() {
    let authority = Authority::new();
    let identity = authority.issue("server");
    let mut variables = variables(&identity);
    variables.push(("EDGELINK_SERVER_SHUTDOWN_GRACE_MS", "600000"));
    let server = Running::with(&variables).await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    let mut open = Vec::new();
    for protocol in ["http/1.1", "h2"] {
        let stream = authority.connect(server.address, protocol, None).await;
        open.push(stream.unwrap());
    }
    // It does not acknowledge that it is asked to go.
    let stream = authority.connect(server.address, "h2", None).await.unwrap();
    let mut used = Http2Connection::over(stream);
    let answer = used.request(&PAGE).await.unwrap();
    assert_eq!(answer, Http2Answer::Status(404));
    server.begin_stop();
    server.stopped().await;
    drop((silent, open, used));
}

#[tokio::test]
async fn connection_when_server_stops_is_asked_to_go_and_not_cut_off() {
    let authority = Authority::new();
    let identity = authority.issue("server");
    let server = Running::with(&variables(&identity)).await;
    let stream = authority.connect(server.address, "h2", None).await.unwrap();
    let mut connection = Http2Connection::over(stream);
    connection.begin().await.unwrap();
    server.begin_stop();
    assert_eq!(connection.end().await.unwrap(), Http2Answer::GoAway);
    // The server waits for what the client has sent before it knew.
    let answer = connection.request(&PAGE).await.unwrap();
    assert_eq!(answer, Http2Answer::Status(404));
    drop(connection);
    server.stopped().await;
}

#[tokio::test]
async fn connection_when_for_probes_is_offered_http_1_only() {
    let authority = Authority::new();
    let identity = authority.issue("server");
    let mut variables = variables(&identity);
    variables.push(("EDGELINK_SERVER_MAX_CONNECTIONS", "1"));
    variables.push(("EDGELINK_SERVER_BODY_TIMEOUT_MS", "60000"));
    variables.push(("EDGELINK_SERVER_FORM_TIMEOUT_MS", "60000"));
    let server = Running::with(&variables).await;
    // A request that is in flight: an idle connection would make room.
    let connected = authority.connect(server.address, "http/1.1", None).await;
    let mut first = connected.unwrap();
    let head = b"POST /+/report HTTP/1.1\r\nhost: go.example:8080\r\nexpect: 100-continue\r\n\
        content-type: application/x-www-form-urlencoded\r\ncontent-length: 100\r\n\r\n";
    first.write_all(head).await.unwrap();
    let mut answer = [0; 25];
    first.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert!(authority.connect(server.address, "h2", None).await.is_err());
    assert!(is_live(&authority, server.address, None).await);
    drop(first);
}

#[tokio::test]
async fn certificate_when_replaced_is_shown_unless_wrong() {
    let authority = Authority::new();
    let (identity, next) = (authority.issue("server"), authority.issue("next"));
    let server = Running::with(&variables(&identity)).await;
    let first = shown(&authority, server.address).await;
    assert_eq!(first, identity.shown().to_vec());
    // Connections that are open stay so.
    let stream = authority
        .connect(server.address, "http/1.1", None)
        .await
        .unwrap();
    let mut before = Connection::over(stream);
    let key = std::fs::read(&identity.key).unwrap();
    replace(&identity.key, b"no key");
    replace(
        &identity.certificate,
        &std::fs::read(&next.certificate).unwrap(),
    );
    for _ in 0..3 {
        assert_eq!(shown(&authority, server.address).await, first);
    }
    replace(&identity.key, &std::fs::read(&next.key).unwrap());
    until("the other certificate", async || {
        shown(&authority, server.address).await == next.shown().to_vec()
    })
    .await;
    replace(&identity.key, &key);
    for _ in 0..3 {
        assert_eq!(
            shown(&authority, server.address).await,
            next.shown().to_vec()
        );
    }
    let answer = before.exchange(&Request::get("/health/live"), b"").await;
    assert_eq!(answer.unwrap().status, 200);
}

#[tokio::test]
async fn edge_when_its_certificate_is_not_trusted_is_refused() {
    let (authority, edges) = (Authority::new(), Authority::new());
    let identity = authority.issue("server");
    let mut variables = variables(&identity);
    let trusted = edges.file();
    variables.push(("EDGELINK_TLS_EDGE_CLIENT_CA_FILE", text(&trusted)));
    variables.push(("EDGELINK_SERVER_EDGE_LISTEN", "127.0.0.1:0"));
    let server = Running::with(&variables).await;
    let edge = &server.listeners[1];
    assert_eq!(edge.kind, ListenerKind::Edge);
    let (edge, main) = (edge.address, server.address);
    let own = edges.issue("edge");
    let stranger = authority.issue("stranger");
    assert!(is_live(&authority, edge, Some(&own)).await);
    assert!(!is_live(&authority, edge, None).await);
    assert!(!is_live(&authority, edge, Some(&stranger)).await);
    assert!(is_live(&authority, main, None).await);
    // A certificate does not replace the token.
    let request = Request::get("/edge/v1/links/go.example:8080/a");
    let answer = ask(&authority, edge, &request, Some(&own)).await.unwrap();
    assert_eq!(answer.status, 401);
    // The authority of edges is replaced: first both, then the new one.
    let both = [&trusted, &authority.file()].map(|file| std::fs::read(file).unwrap());
    replace(&trusted, &both.concat());
    until("both authorities are known", async || {
        is_live(&authority, edge, Some(&stranger)).await
    })
    .await;
    assert!(is_live(&authority, edge, Some(&own)).await);
    replace(&trusted, &both[1]);
    until("the old authority is unknown", async || {
        !is_live(&authority, edge, Some(&own)).await
    })
    .await;
    assert!(is_live(&authority, edge, Some(&stranger)).await);
}

#[tokio::test]
async fn edge_tokens_when_their_file_changes_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "the-old-token-of-edges\n").unwrap();
    let server = Running::with(&[
        ("EDGELINK_AUTH_EDGE_TOKEN_FILE", text(&file)),
        ("EDGELINK_SERVER_RELOAD_MS", "10"),
    ])
    .await;
    let is_known = async |token: &str| {
        let request = server.plain(reqwest::Method::GET, "/edge/v1/links/go.example:8080/a");
        let status = request.bearer_auth(token).send().await.unwrap().status();
        assert!(status == 404 || status == 401, "{status}");
        status == 404
    };
    assert!(is_known("the-old-token-of-edges").await);
    assert!(!is_known("the-new-token-of-edges").await);
    replace(&file, b"the-old-token-of-edges\nthe-new-token-of-edges\n");
    until("the new token is known", async || {
        is_known("the-new-token-of-edges").await
    })
    .await;
    assert!(is_known("the-old-token-of-edges").await);
    // A file that is wrong changes nothing, nor does one that is away.
    replace(&file, b"short\n");
    std::fs::remove_file(&file).unwrap();
    assert!(is_known("the-new-token-of-edges").await);
    replace(&file, b"the-new-token-of-edges\n");
    until("the old token is unknown", async || {
        !is_known("the-old-token-of-edges").await
    })
    .await;
    assert!(is_known("the-new-token-of-edges").await);
    assert!(is_known("first-token-of-the-edges").await);
}

#[tokio::test]
async fn tls_file_when_wrong_stops_the_start_and_names_its_setting() {
    let authority = Authority::new();
    let (identity, other) = (authority.issue("server"), authority.issue("other"));
    let (certificate, key) = (text(&identity.certificate), text(&identity.key));
    let with_ca = |file| {
        [
            ("EDGELINK_TLS_CERTIFICATE_FILE", certificate),
            ("EDGELINK_TLS_KEY_FILE", key),
            ("EDGELINK_TLS_EDGE_CLIENT_CA_FILE", file),
            ("EDGELINK_SERVER_EDGE_LISTEN", "127.0.0.1:0"),
        ]
    };
    let pair = |certificate, key| {
        [
            ("EDGELINK_TLS_CERTIFICATE_FILE", certificate),
            ("EDGELINK_TLS_KEY_FILE", key),
        ]
    };
    let listeners = |names| {
        let listeners = [("EDGELINK_TLS_LISTENERS", names)];
        [&pair(certificate, key)[..], &listeners].concat()
    };
    let redis = |url, file| {
        [
            ("EDGELINK_REDIS_URL", url),
            ("EDGELINK_REDIS_CA_FILE", file),
        ]
    };
    let folder = tempfile::tempdir().unwrap();
    for (variables, setting) in [
        (
            &redis("redis://127.0.0.1:1", certificate)[..],
            "redis.ca_file: needs a redis.url",
        ),
        (&redis("rediss://127.0.0.1:1", key), "redis.ca_file has no"),
        (&pair(key, key), "tls.certificate_file"),
        (&pair(certificate, certificate), "tls.key_file"),
        (
            &pair(certificate, text(&other.key)),
            "cannot be used together",
        ),
        (&pair(certificate, "/nowhere/key"), "/nowhere/key"),
        (
            &pair(certificate, key)[..1],
            "tls.certificate_file: needs tls.key_file",
        ),
        (&with_ca(key), "tls.edge_client_ca_file"),
        (&with_ca(certificate)[..3], "needs server.edge_listen"),
        (
            &listeners("metrics,edge"),
            "tls.listeners: has 'edge', which server.listen serves without TLS: set server.edge_listen",
        ),
        (&listeners("metrics"), "set server.metrics_listen"),
    ] {
        let error = refusal(folder.path(), variables).await;
        assert!(error.contains(setting), "{setting}: {error}");
    }
}

#[tokio::test]
async fn client_when_it_begins_no_handshake_loses_its_connection() {
    let authority = Authority::new();
    let identity = authority.issue("server");
    let mut variables = variables(&identity);
    variables.push(("EDGELINK_SERVER_MAX_CONNECTIONS", "1"));
    variables.push(("EDGELINK_SERVER_HEALTH_CONNECTIONS", "0"));
    variables.push(("EDGELINK_TLS_HANDSHAKE_TIMEOUT_MS", "100"));
    let server = Running::with(&variables).await;
    let _silent = TcpStream::connect(server.address).await.unwrap();
    assert!(is_live(&authority, server.address, None).await);
}
