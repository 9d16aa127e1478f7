//! Settings of the server: its bounds, authentication, log, and pages for visitors.

use super::network::{Network, Origin};
use super::value::{FileText, Secret};
use edgelink_wire::settings::Problems;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// Shortest token of edges, in characters: shorter ones can be guessed.
const MIN_TOKEN_LENGTH: usize = 16;

const MAX_PAGE_BYTES: usize = 65_536;

edgelink_wire::settings! {
    snake_case;

    /// HTTP and its bounds. Each listener has the bounds on connections and requests for itself.
    pub struct ServerConfig {
        /// Address and port of the main listener: API, console, and all that no listener of its own is set for. Port 0 takes a
        /// free one, which the log line `listening` names. With 127.0.0.1 nothing outside of this machine can connect.
        pub listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8081));
        /// Address and port of a listener for the edge API alone.
        pub edge_listen: Option<SocketAddr> = None, "0.0.0.0:8082";
        /// Address and port of a listener for redirects and pages for visitors alone.
        pub public_listen: Option<SocketAddr> = None, "0.0.0.0:8083";
        /// Address and port of a listener for `/metrics` alone. `/health/*` is answered by every listener.
        pub metrics_listen: Option<SocketAddr> = None, "0.0.0.0:8084";
        /// Largest body of a request, and largest item of a bulk request, in bytes; then 413.
        pub max_body_bytes: usize = 65_536, 1_024..=16_777_216;
        /// Largest body of a bulk request, in bytes; then 413.
        pub max_bulk_body_bytes: usize = 33_554_432, 1_024..=268_435_456;
        /// Largest answer to a bulk request, in bytes, but for some hundred bytes of each item. What has no room in it is not begun,
        /// and gets 503 `overloaded` as its outcome; of an item that is refused the reasons are left out then, and of one that changes a
        /// link, or finds one, the link.
        pub max_bulk_answer_bytes: usize = 33_554_432, 65_536..=268_435_456;
        /// Bulk requests worked on at once, each of which may hold a body's worth of memory. A tenant has all but one of them,
        /// a key half of them. Four times as many wait for their turn, those first whose tenant and key have fewest; then 503.
        pub max_bulk_requests: usize = 4, 1..=1_000;
        /// Bodies of a listener that are on their way at once, for which no permit of `max_requests` or `max_bulk_requests` is taken yet. Where there are
        /// more, one of the address, key or tenant that has most gives way, of which least has come for its time: 503.
        pub max_waiting_bodies: usize = 1_024, 1..=100_000;
        /// Bytes of these bodies of a listener together, until those of bulk requests have their turn; then one gives way as well. It counts as
        /// `max_bulk_body_bytes` at least.
        pub max_waiting_body_bytes: usize = 134_217_728, 65_536..=17_179_869_184;
        /// Bytes of answers of more than 64 KiB to reads together that are being sent. Where there are more, one of the address, key or tenant
        /// that has most is cut off, of which the client has taken least for its time; a further one to a client that has most itself is 503.
        /// Those to changes have as much beside it as `max_bulk_requests` answers of `max_bulk_answer_bytes`, but no more than this; a further
        /// one keeps the permits of its request until it is sent.
        pub max_answer_bytes: usize = 268_435_456, 65_536..=17_179_869_184;
        /// Open connections of a listener. Where there are more, an idle one is closed, of the address that has most: first those that never
        /// brought a request. While requests are in flight in all of them, further ones have those of `health_connections`.
        pub max_connections: usize = 4_096, 1..=1_000_000;
        /// Open connections of one client address (IPv6: one /64) to a listener; a further one takes the place of one that is idle, and is
        /// closed if none is. Raise it where one proxy brings all the traffic.
        pub max_connections_per_address: usize = 1_024, 1..=1_000_000;
        /// Connections to a listener beyond `max_connections`, for `/health/*` and `/metrics` only; all else is 503 in them, and they
        /// are closed then. They are in HTTP/1.1 with one request each. Further connections wait in the kernel's queue.
        pub health_connections: usize = 16, 0..=1_000;
        /// Requests to a listener worked on at once, without health, metrics and polls; then 503. An address leaves an eighth of them to
        /// others, a tenant a quarter, a key half. Bodies are awaited before.
        pub max_requests: usize = 512, 1..=100_000;
        /// `/health/ready` of a listener is 503 once it has refused every request, or every connection, for so long, and none of those that
        /// it works on has ended. Under mere load some always end, so that no balancer takes a crowded fleet away.
        pub unready_after_ms: Duration = Duration::from_secs(5), 100..=600_000;
        /// Time for the head of the first request of a connection; then it is closed.
        pub first_header_timeout_ms: Duration = Duration::from_secs(10), 100..=600_000;
        /// Time for the head of a request, and for idle connections. Keep it above the idle timeout of proxies in front (Envoy's
        /// bootstrap: 30 s), because the side that sends must be the one that closes.
        pub header_timeout_ms: Duration = Duration::from_mins(1), 100..=600_000;
        /// Time for a client that reads nothing of its answer; then its connection is closed, or in HTTP/2 the stream of the answer.
        pub write_timeout_ms: Duration = Duration::from_secs(10), 100..=600_000;
        /// Time for a body; then 408. It has a second more for each 64 KiB that have come.
        pub body_timeout_ms: Duration = Duration::from_secs(5), 100..=60_000;
        /// Time for the body of a short form, of a visitor or of the console's login; at most `body_timeout_ms`.
        pub form_timeout_ms: Duration = Duration::from_secs(2), 100..=60_000;
        /// Time for a whole request, for a bulk request from the end of its body on; then 503, and it may have taken effect
        /// nevertheless.
        pub request_timeout_ms: Duration = Duration::from_secs(10), 100..=600_000;
        /// Addresses and networks of proxies in front, such as `10.0.0.0/8`, whose `X-Forwarded-For` is believed: a client's
        /// address is the last one in it that is none of these. That of others is ignored, as is their `X-Forwarded-Proto` over TLS.
        pub trusted_proxies: Vec<Network> = Vec::new();
        /// Origins of web pages that may use the API from a browser (CORS), such as `https://console.example`, or `*`. Without
        /// any, browsers let pages of the API's own origin do so alone. Cookies are never taken.
        pub cors_origins: Vec<Origin> = Vec::new();
        /// How long `/health/ready` is 503 before the listener closes, so that balancers have time to look.
        pub shutdown_delay_ms: Duration = Duration::ZERO, 0..=60_000;
        /// Time for requests in flight when the process stops; then their connections are closed.
        pub shutdown_grace_ms: Duration = Duration::from_secs(10), 0..=600_000;
        /// How often the files of `tls` and `auth.edge_token_file` are read again. What has changed in them is used from when two
        /// reads in a row agree; where it is wrong, the log says so, and what was read before stays in use.
        pub reload_ms: Duration = Duration::from_secs(2), 10..=3_600_000;
    }

    /// TLS 1.2 and 1.3, with HTTP/2 and HTTP/1.1. Without it everything is plain HTTP, for a proxy on the same machine or a
    /// network without strangers.
    pub struct TlsConfig {
        /// The certificate in PEM, and behind it those up to its root.
        pub certificate_file: Option<FileText> = None, "/etc/edgelink/tls/tls.crt";
        /// The private key of the certificate, in PEM.
        pub key_file: Option<FileText> = None, "/etc/edgelink/tls/tls.key";
        /// Certificates of authorities in PEM: `server.edge_listen` is for clients alone that have a certificate of one of them.
        /// Clients need their token as well.
        pub edge_client_ca_file: Option<FileText> = None, "/etc/edgelink/tls/edges-ca.crt";
        /// The listeners that take TLS, and TLS alone. The others stay without. What has no listener of its own is a matter of `main`.
        pub listeners: Vec<ListenerKind> = vec![ListenerKind::Main, ListenerKind::Edge, ListenerKind::Public, ListenerKind::Metrics];
        /// Time for a handshake; then its connection is closed.
        pub handshake_timeout_ms: Duration = Duration::from_secs(10), 100..=60_000;
    }

    /// Keys and tokens.
    pub struct AuthConfig {
        /// Bearer tokens of the edge API: at least 16 visible ASCII characters without commas (`openssl rand -hex 32`).
        /// Several are for rotation: add the new one, change the edges, remove the old one. With none the edge API refuses
        /// every request.
        pub edge_tokens: Vec<Secret> = Vec::new();
        /// A file with further tokens, one a line, which is read again every `server.reload_ms`. Without any token, or gone, it is wrong
        /// and revokes none: to revoke the last token, put another one in its place.
        pub edge_token_file: Option<FileText> = None, "/etc/edgelink/edge-token";
        /// Where the first start, while there are no API keys, writes the admin key that it makes (mode 0600). A file that
        /// holds a key already is used as it is. Without it no key is made; `edgelink keys create` makes one.
        pub admin_key_file: Option<PathBuf> = None, "/var/lib/edgelink/admin-key";
        /// How long an API key is not looked up again, and so a revoked one still works, as does a key of a disabled user;
        /// 0 asks the database at every request.
        pub key_cache_ms: Duration = Duration::from_secs(2), 0..=5_000;
        /// API keys in the cache. One whose name, domains and tags have more than 1 KiB counts as one more for each.
        pub key_cache_entries: u64 = 10_000, 1..=1_000_000;
        /// Unknown keys that may wait at once until this process has read the ids of new keys, which it does for all of
        /// them together; others get 401 at once, or 503 while the database does not answer. Keys in use do not count.
        pub max_key_lookups: usize = 64, 1..=1_000;
    }

    /// The log, on standard error.
    pub struct LogConfig {
        /// The form of log lines: for people, or one object a line.
        pub format: LogFormat = LogFormat::Text;
        /// A level (`error`, `warn`, `info`, `debug`, `trace`), or directives such as `info,sqlx=warn`. With `debug` every
        /// request is a line.
        pub filter: String = "info".to_owned();
    }

    /// Pages for visitors. The first three, and `robots`, are files of at most 65536 bytes each, which are read once, at the
    /// start: HTML that visitors see instead of a redirect. Without them built-in pages are sent, in the
    /// look of the domain.
    pub struct PagesConfig {
        /// For 404: there is no such link, or not yet.
        pub not_found: Option<FileText> = None, "/etc/edgelink/404.html";
        /// For 410: the link has expired or was switched off.
        pub gone: Option<FileText> = None, "/etc/edgelink/410.html";
        /// For 503: the link cannot be looked up at the moment.
        pub unavailable: Option<FileText> = None, "/etc/edgelink/503.html";
        /// `/robots.txt` of all domains. Without it robots may visit all but pages for people (`code+`, `/+/`), so that they see which
        /// links they may list.
        pub robots: Option<FileText> = None, "/etc/edgelink/robots.txt";
        /// Whether `code+` shows where a link leads, without leading there.
        pub previews: bool = true;
        /// Requests for previews, the home page and reports of abuse worked on at once; then 503.
        pub max_requests: usize = 64, 1..=10_000;
    }
}

edgelink_wire::choice! {
    /// A listener, and what it serves.
    pub enum ListenerKind {
        /// `server.listen`: the API and the console.
        Main = "main",
        /// `server.edge_listen`: the edge API.
        Edge = "edge",
        /// `server.public_listen`: redirects, and pages for visitors.
        Public = "public",
        /// `server.metrics_listen`: metrics.
        Metrics = "metrics",
    }

    /// The form of log lines.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

/// A configured listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Its kind.
    pub kind: ListenerKind,
    /// The setting of its address.
    pub setting: &'static str,
    /// Its address.
    pub address: SocketAddr,
    /// Kinds of routes that it serves: its own, and on the main listener those without a separate listener.
    pub serves: Vec<ListenerKind>,
}

impl ServerConfig {
    /// The listeners, the main one first.
    #[must_use]
    pub fn listeners(&self) -> Vec<ListenerConfig> {
        let mut main = ListenerConfig {
            kind: ListenerKind::Main,
            setting: "server.listen",
            address: self.listen,
            serves: vec![ListenerKind::Main],
        };
        let mut others = Vec::new();
        for (kind, setting, address) in [
            (ListenerKind::Edge, "server.edge_listen", self.edge_listen),
            (
                ListenerKind::Public,
                "server.public_listen",
                self.public_listen,
            ),
            (
                ListenerKind::Metrics,
                "server.metrics_listen",
                self.metrics_listen,
            ),
        ] {
            match address {
                Some(address) => others.push(ListenerConfig {
                    kind,
                    setting,
                    address,
                    serves: vec![kind],
                }),
                None => main.serves.push(kind),
            }
        }
        others.insert(0, main);
        others
    }
}

impl TlsConfig {
    /// Checks that settings are complete. The files are parsed when the server starts.
    pub(super) fn check(&self, server: &ServerConfig, problems: &mut Problems) {
        let needs = |field: &str, is_there: bool, other: &str, problems: &mut Problems| {
            if !is_there {
                problems.refuse(field, format!("needs {other} as well"));
            }
        };
        if self.certificate_file.is_some() != self.key_file.is_some() {
            let (has_key, has_certificate) =
                (self.key_file.is_some(), self.certificate_file.is_some());
            needs("tls.certificate_file", has_key, "tls.key_file", problems);
            needs(
                "tls.key_file",
                has_certificate,
                "tls.certificate_file",
                problems,
            );
        }
        if self.certificate_file.is_some() {
            self.check_listeners(server, problems);
        }
        if self.edge_client_ca_file.is_none() {
            return;
        }
        let field = "tls.edge_client_ca_file";
        let has_listener = server.edge_listen.is_some();
        needs(field, has_listener, "server.edge_listen", problems);
        let has_certificate = self.certificate_file.is_some();
        needs(field, has_certificate, "tls.certificate_file", problems);
        let is_tls = self.listeners.contains(&ListenerKind::Edge);
        needs(field, is_tls, "'edge' in tls.listeners", problems);
    }

    /// Checks that the certificate is used, and that no listener lacks the TLS that another setting asks for.
    fn check_listeners(&self, server: &ServerConfig, problems: &mut Problems) {
        if self.listeners.is_empty() {
            let reason = "is empty, so that no listener uses tls.certificate_file: name one, or leave both out";
            problems.refuse("tls.listeners", reason);
        }
        if self.listeners.contains(&ListenerKind::Main) {
            return;
        }
        let main = server.listeners().swap_remove(0);
        for kind in main
            .serves
            .into_iter()
            .filter(|kind| self.listeners.contains(kind))
        {
            let name = kind.word();
            let reason = format!(
                "has '{name}', which server.listen serves without TLS: set server.{name}_listen, or add 'main'"
            );
            problems.refuse("tls.listeners", reason);
        }
    }
}

impl AuthConfig {
    /// Checks the tokens.
    pub(super) fn check(&self, problems: &mut Problems) {
        if !self.edge_tokens.iter().all(is_token) {
            problems.refuse("auth.edge_tokens", TOKEN_RULE);
        }
        if let Err(reason) = self.tokens_with(self.edge_token_file.as_ref()) {
            problems.refuse("auth.edge_token_file", reason);
        }
    }

    /// The tokens of edges, from the configuration and from `file`.
    ///
    /// # Errors
    /// The rule that a token of the file breaks.
    pub fn tokens_with(&self, file: Option<&FileText>) -> Result<Vec<Secret>, &'static str> {
        let mut tokens = self.edge_tokens.clone();
        if let Some(file) = file {
            let lines = file.text().lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty()).map(Secret::new);
            let of_file: Vec<Secret> = lines.collect();
            if of_file.is_empty() || !of_file.iter().all(is_token) {
                return Err(TOKEN_RULE);
            }
            tokens.extend(of_file);
        }
        Ok(tokens)
    }
}

const TOKEN_RULE: &str = "must hold tokens of at least 16 visible ASCII characters without commas, for example from: openssl rand -hex 32";

fn is_token(token: &Secret) -> bool {
    let token = token.expose();
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    token.len() >= MIN_TOKEN_LENGTH && token.bytes().all(is_allowed)
}

impl LogConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        let filter = &self.filter;
        if let Err(error) = EnvFilter::try_new(filter) {
            let must = "must be a level or directives such as 'info,sqlx=warn'";
            problems.refuse("log.filter", format!("is '{filter}', {must}: {error}"));
        }
    }
}

impl PagesConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        for (field, page) in [
            ("pages.not_found", &self.not_found),
            ("pages.gone", &self.gone),
            ("pages.unavailable", &self.unavailable),
            ("pages.robots", &self.robots),
        ] {
            let length = page.as_ref().map_or(0, |page| page.text().len());
            if length > MAX_PAGE_BYTES {
                let reason =
                    format!("names a file of {length} bytes, must be at most {MAX_PAGE_BYTES}");
                problems.refuse(field, reason);
            }
        }
    }
}
