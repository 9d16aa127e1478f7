//! What goes on to the edge of the headers of clients.

use axum::Router;
use axum::extract::Request as Received;
use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Connection, Nginx, free_port};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// A server in the place of Envoy that notes the headers of requests.
#[derive(Debug)]
struct Recorder {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Recorder {
    async fn start() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let listener = TcpListener::bind(address).await.expect("a free port");
        let heads = Arc::new(Mutex::default());
        let notes = Arc::clone(&heads);
        let router = Router::new().fallback(async move |request: Received| note(&notes, &request));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, heads }
    }

    /// The headers of the last request, in order.
    fn last(&self) -> Vec<String> {
        let mut head = self.heads.lock().expect("heads").pop().expect("a request");
        head.sort();
        head
    }
}

fn note(heads: &Mutex<Vec<Vec<String>>>, request: &Received) {
    let headers = request.headers().iter();
    let lines = headers.map(|(name, value)| format!("{name}: {}", value.as_bytes().escape_ascii()));
    heads.lock().expect("heads").push(lines.collect());
}

/// All headers by which proxies speak to each other, or that tell a server another request than the one that came.
const FORGED: [(&str, &[u8]); 24] = [
    ("x-forwarded-for", b"203.0.113.7"),
    ("x-real-ip", b"203.0.113.7"),
    ("forwarded", b"for=203.0.113.7;host=evil.example;proto=http"),
    ("x-forwarded-proto", b"http"),
    ("x-forwarded-host", b"evil.example"),
    ("x-forwarded-port", b"80"),
    ("x-forwarded-server", b"evil.example"),
    ("x-client-ip", b"203.0.113.7"),
    ("x-cluster-client-ip", b"203.0.113.7"),
    ("true-client-ip", b"203.0.113.7"),
    ("cf-connecting-ip", b"203.0.113.7"),
    ("via", b"1.1 evil"),
    ("cf-ipcountry", b"XX"),
    ("cf-ipcity", b"Nowhere"),
    ("x-envoy-external-address", b"203.0.113.7"),
    ("x-envoy-internal", b"true"),
    ("x-envoy-original-path", b"/metrics"),
    ("x-envoy-retry-on", b"5xx"),
    ("x-original-url", b"/metrics"),
    ("x-rewrite-url", b"/metrics"),
    ("x-http-method-override", b"DELETE"),
    ("x-edgelink-anything", b"1"),
    ("authorization", b"Bearer of-an-edge"),
    ("x-api-key", b"a-key"),
];

fn forged() -> Request {
    let request = Request::get("/abc")
        .header("user-agent", b"Mozilla/5.0")
        .header("traceparent", b"00-0-0-01")
        .header("tracestate", b"a=b");
    let forged = FORGED.iter();
    forged.fold(request, |request, (name, value)| {
        request.header(name, value)
    })
}

#[tokio::test]
async fn headers_when_passed_to_the_edge_are_only_known_ones() {
    let edge = Recorder::start().await;
    let variables = [
        ("EDGELINK_PROXIES", "127.0.0.2"),
        ("EDGELINK_COUNTRY_HEADER", "CF-IPCountry"),
        ("EDGELINK_CITY_HEADER", "cf-ipcity"),
    ];
    let nginx = Nginx::start(&[edge.address], &[edge.address], &variables).await;

    assert_eq!(nginx.visit(&forged()).await.expect("an answer").status, 200);
    let direct = [
        "host: go.example",
        "user-agent: Mozilla/5.0",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-proto: https",
    ];
    assert_eq!(edge.last(), direct);

    let stream = nginx.connect_from([127, 0, 0, 2], "http/1.1").await;
    let mut connection = Connection::over(stream.expect("TLS"));
    let answer = connection
        .exchange(&forged(), b"")
        .await
        .expect("an answer");
    assert_eq!(answer.status, 200);
    let through_proxy = [
        "cf-ipcity: Nowhere",
        "cf-ipcountry: XX",
        "host: go.example",
        "traceparent: 00-0-0-01",
        "tracestate: a=b",
        "user-agent: Mozilla/5.0",
        "x-forwarded-for: 203.0.113.7",
        "x-forwarded-proto: https",
    ];
    assert_eq!(edge.last(), through_proxy);
}

/// The host is the one that was asked for, with its port, which may belong to the domain, and without a dot at its end.
#[tokio::test]
async fn host_when_passed_to_the_edge_is_as_requested() {
    let edge = Recorder::start().await;
    let nginx = Nginx::start(&[edge.address], &[edge.address], &[]).await;
    for (sent, seen) in [
        (
            "GET /a HTTP/1.1\r\nhost: Go.Example:8443",
            "go.example:8443",
        ),
        ("GET /a HTTP/1.1\r\nhost: go.example.", "go.example"),
        (
            "GET https://go.example/a HTTP/1.1\r\nhost: other.example",
            "go.example",
        ),
    ] {
        let mut connection = nginx.connect().await.expect("TLS");
        let bytes = format!("{sent}\r\n\r\n");
        connection
            .send(bytes.as_bytes())
            .await
            .expect("a connection");
        assert_eq!(
            connection.receive("GET").await.expect("an answer").status,
            200
        );
        assert!(edge.last().contains(&format!("host: {seen}")), "{sent}");
    }
}
