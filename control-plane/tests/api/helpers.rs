//! A server of one's own for every test, and a client for it.

use edgelink_control_plane::server::Server;
use edgelink_settings::config::{Config, Environment, ListenerConfig};
use edgelink_tests::link::{LinkApi, LinkBuilder};
use edgelink_tests::servers::ClickHouseServer;
use edgelink_wire::link_batch;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, StatusCode, redirect};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The default domain and another one.
pub(crate) const DOMAINS: &str = "go.example:8080,other.example";
pub(crate) const EDGE_TOKENS: &str = "first-token-of-the-edges,second-token-of-the-edges";
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs inside of the test.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) listeners: Vec<ListenerConfig>,
    pub(crate) admin_key: String,
    pub(crate) folder: Arc<TempDir>,
    stop: CancellationToken,
    task: JoinHandle<()>,
    client: reqwest::Client,
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With further environment variables.
    pub(crate) async fn with(variables: &[(&str, &str)]) -> Self {
        Self::inside(Arc::new(tempfile::tempdir().unwrap()), variables).await
    }

    /// With clicks in a ClickHouse that the tests share.
    pub(crate) async fn with_clickhouse() -> Self {
        static SERVER: OnceLock<ClickHouseServer> = OnceLock::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = SERVER.get_or_init(ClickHouseServer::start);
        let database = format!("edgelink_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self::with(&[
            ("EDGELINK_ANALYTICS_ENGINE", "clickhouse"),
            ("EDGELINK_ANALYTICS_CLICKHOUSE_URL", &server.url()),
            ("EDGELINK_ANALYTICS_CLICKHOUSE_DATABASE", &database),
        ])
        .await
    }

    async fn inside(folder: Arc<TempDir>, variables: &[(&str, &str)]) -> Self {
        let config = Config::load(None, &environment(folder.path(), variables)).unwrap();
        let server = Server::start(config).await.unwrap();
        let listeners: Vec<_> = server.listeners().cloned().collect();
        let stop = CancellationToken::new();
        let task = tokio::spawn(server.run(stop.clone().cancelled_owned()));
        Self {
            address: listeners[0].address,
            listeners,
            admin_key: read_key(folder.path()),
            folder,
            stop,
            task,
            client: client(),
        }
    }

    /// Begins to stop the server.
    pub(crate) fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the server has stopped.
    pub(crate) async fn stopped(self) -> Arc<TempDir> {
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .unwrap()
            .unwrap();
        self.folder
    }

    /// Another server on the same database.
    pub(crate) async fn another(&self) -> Self {
        self.another_with(&[]).await
    }

    /// Starts another server in the folder of this one, with further environment variables.
    pub(crate) async fn another_with(&self, variables: &[(&str, &str)]) -> Self {
        Self::inside(self.folder.clone(), variables).await
    }

    /// Stops the server and starts one on the same database.
    pub(crate) async fn restart(self) -> Self {
        self.restart_with(&[]).await
    }

    /// Stops the server and starts one on its database, with further environment variables.
    pub(crate) async fn restart_with(self, variables: &[(&str, &str)]) -> Self {
        self.begin_stop();
        let folder = self.stopped().await;
        Self::inside(folder, variables).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A request without any key.
    pub(crate) fn plain(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    /// A request with the admin key.
    pub(crate) fn api(&self, method: Method, path: &str) -> RequestBuilder {
        self.plain(method, &format!("/api/v1{path}"))
            .header("x-api-key", &self.admin_key)
    }

    /// Starts a link with that code; see [`LinkBuilder::new`].
    pub(crate) fn link(&self, code: &str) -> LinkBuilder<'_, Self> {
        LinkBuilder::new(self, code)
    }

    pub(crate) async fn post(&self, body: &Value) -> Answer {
        send(self.api(Method::POST, "/links").json(body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.api(Method::GET, path)).await
    }

    /// All links, the newest first.
    pub(crate) async fn all_links(&self) -> Vec<Value> {
        let (mut links, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/links?limit=100{cursor}");
            let page = self.get(&path).await.expect(200);
            links.extend(page["links"].as_array().unwrap().iter().cloned());
            let Some(next) = page["nextCursor"].as_str() else {
                return links;
            };
            cursor = format!("&cursor={next}");
        }
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        send(self.api(Method::PATCH, path).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        send(self.api(Method::DELETE, path)).await
    }

    /// What a visitor gets.
    pub(crate) async fn follow(&self, path: &str) -> Answer {
        send(self.plain(Method::GET, path)).await
    }

    /// What an edge gets for `{domain}/{code}`.
    pub(crate) async fn resolve(&self, key: &str) -> Answer {
        let request = self.plain(Method::GET, &format!("/edge/v1/links/{key}"));
        send(request.bearer_auth("first-token-of-the-edges")).await
    }

    /// What an edge gets for several of them.
    pub(crate) async fn resolve_lines(&self, lines: &str) -> Answer {
        let request = self.plain(Method::POST, link_batch::PATH);
        let request = request.body(lines.to_owned());
        send(request.bearer_auth("first-token-of-the-edges")).await
    }

    /// A connection of its own, for bytes that no client library would send.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads all that comes back until the server closes.
    pub(crate) async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await
    }

    pub(crate) fn database(&self) -> String {
        format!(
            "sqlite://{}",
            self.folder.path().join("edgelink.db").display()
        )
    }
}

impl LinkApi for Running {
    type Answer = Answer;

    async fn post_link(&self, link: &Value) -> Answer {
        self.post(link).await
    }

    fn created(answer: &Answer) -> Result<Value, String> {
        match answer.status.as_u16() {
            201 => Ok(answer.expect(201)),
            status => Err(format!("{status}: {}", answer.text())),
        }
    }
}

/// Why a server with these variables does not start.
pub(crate) async fn refusal(folder: &Path, variables: &[(&str, &str)]) -> String {
    match Config::load(None, &environment(folder, variables)) {
        Ok(config) => Server::start(config).await.err().unwrap().to_string(),
        Err(error) => error.to_string(),
    }
}

/// The variables that every server of these tests has, and then `variables`.
pub(crate) fn environment(folder: &Path, variables: &[(&str, &str)]) -> Environment {
    let database = format!("sqlite://{}", folder.join("edgelink.db").display());
    let key_file = folder.join("admin-key").display().to_string();
    let common = [
        ("EDGELINK_SERVER_LISTEN", "127.0.0.1:0"),
        ("EDGELINK_STORE_URL", database.as_str()),
        ("EDGELINK_LINKS_DOMAINS", DOMAINS),
        ("EDGELINK_AUTH_EDGE_TOKENS", EDGE_TOKENS),
        ("EDGELINK_AUTH_ADMIN_KEY_FILE", key_file.as_str()),
    ];
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    common.iter().chain(variables).map(owned).collect()
}

pub(crate) fn read_key(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("admin-key")).unwrap();
    text.trim_end().to_owned()
}

pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .redirect(redirect::Policy::none())
        .timeout(PATIENCE)
        .build()
        .unwrap()
}

pub(crate) async fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A server that closes with our bytes unread resets the connection, after its answer.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// That many seconds from now, as the API writes moments; in the past if they are negative.
pub(crate) fn in_seconds(seconds: i64) -> String {
    let moment = time::OffsetDateTime::now_utc() + time::Duration::seconds(seconds);
    let rfc3339 = &time::format_description::well_known::Rfc3339;
    moment.format(rfc3339).unwrap()
}

pub(crate) async fn send(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    Answer {
        status: response.status(),
        headers: response.headers().clone(),
        body: response.bytes().await.unwrap().into(),
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON of an answer with that status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/json");
        self.json()
    }

    /// The JSON of a problem with that status.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        self.json()
    }

    /// The fields of a problem, after a check of what all problems share.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, name: &str) -> Vec<String> {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:edgelink:problem:{name}"));
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string(), "{problem}");
        let is_set = |name: &str| !self.header(name).is_empty();
        assert_eq!(is_set("retry-after"), matches!(status, 429 | 503));
        assert_eq!(is_set("www-authenticate"), status == 401);
        assert_eq!(problem["requestId"], self.header("x-request-id"));
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        let field = |error: &Value| error["field"].as_str().unwrap().to_owned();
        let fields: Vec<String> = errors.iter().map(field).collect();
        let named = problem["invalidElements"].as_array().cloned();
        assert_eq!(fields, named.unwrap_or_default());
        fields
    }

    /// A page for people.
    #[track_caller]
    pub(crate) fn page(&self, status: u16, part: &str) {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header("content-type"), "text/html; charset=utf-8");
        let cache_control = if status == 503 {
            "no-store"
        } else {
            "private, max-age=0"
        };
        assert_eq!(self.header("cache-control"), cache_control);
        assert_eq!(!self.header("retry-after").is_empty(), status == 503);
        assert!(self.text().contains(part), "{}", self.text());
    }

    #[track_caller]
    pub(crate) fn redirects(&self, status: u16, location: &str) {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.header("location"), location);
        assert_eq!(self.header("cache-control"), "private, max-age=0");
        assert!(self.body.is_empty());
    }
}

/// Makes a test of each function for each engine of analytics, `sql::name` and `clickhouse::name`, with a server of its own.
macro_rules! on_every_engine {
    ($($name:ident),+ $(,)?) => {
        mod sql {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::helpers::Running::start().await).await;
                }
            )+
        }

        mod clickhouse {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name($crate::helpers::Running::with_clickhouse().await).await;
                }
            )+
        }
    };
}
pub(crate) use on_every_engine;
