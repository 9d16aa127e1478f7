//! The plugin configuration as it is written: the declaration of every setting.

use crate::request::{parse_path, parse_path_below};
use edgelink_wire::clicks::attributes::Attribute;
use edgelink_wire::settings::{Problems, Range, SettingValue, Value, ValueKind};
use edgelink_wire::{Domain, LinkPrefix};
use std::net::Ipv6Addr;
use std::sync::Arc;

edgelink_wire::settings! {
    camel_case;

    /// The plugin configuration.
    pub struct Written {
        /// Hosts of the links, 1 to 1000, with port where it is not the default; the first is the default domain. The ports 80 and
        /// 443 and a trailing dot in the host of a request make no difference.
        pub domains: Vec<Domain> = Vec::new(), Range::Required;
        /// Requests for other hosts: they are for the first domain (with one domain the host is never looked at); 404, counted as
        /// `unknown_host`; or they pass through.
        pub unknown_hosts: UnknownHosts = UnknownHosts::Default;
        /// What stands in front of codes in paths, as `/s/`. Paths that do not begin with it pass through untouched, whatever else is
        /// configured, and are no orphan visits. The control plane's `links.prefix` is to be the same.
        pub prefix: LinkPrefix = LinkPrefix::default();
        /// Whether `/code/` is `/code`, also for links with `forwardPath`. Otherwise it is another path.
        pub trailing_slash: bool = false;
        /// Requests for codes without a link, or whose link is not valid yet: 404; or they pass through, `notFoundUrl` of the domain
        /// has no effect on them, and they are no orphan visits. A failure is 503 none the less.
        pub unknown_codes: UnknownCodes = UnknownCodes::NotFound;
        /// Domains that the API has made are served beside `domains`, and all have the targets that the API has given them. It
        /// needs `snapshot` and `poll`, and `unknownHosts` cannot be `pass`.
        pub api_domains: bool = false;
        /// The name of this edge in reports of clicks, at most 64 characters; without it the Wasm filter takes the id of Envoy's node, and
        /// the native module, which cannot see that, the name of the host.
        pub edge_name: Option<HeaderText> = None;
        /// Access to the control plane.
        pub control_plane: ControlPlaneSection = ControlPlaneSection::default(), Range::Required;
        /// Redis is asked. It needs a feed, which says whether Redis is current; the log says so if there is none.
        pub redis: Option<RedisSection> = None;
        /// The feed is read from the control plane, by long polls.
        pub poll: Option<PollSection> = None;
        /// A worker starts from a snapshot: hot links, bound, filter of aliases. It needs a feed.
        pub snapshot: Option<SnapshotSection> = None;
        /// Codes that were never issued are 404 without a lookup. It needs `snapshot` and a feed.
        pub admission: Option<AdmissionSection> = None;
        /// Redirects are counted by link and reported, but for those of HEAD, OPTIONS and TRACE.
        pub clicks: Option<ClicksSection> = None;
        /// Visits of limited links.
        pub visits: VisitsSection = VisitsSection::default();
        /// Requests of one address are limited: further ones get 429.
        pub limit: Option<LimitSection> = None;
        /// The cache of a worker.
        pub lru: LruSection = LruSection::default();
        /// Records shared by the workers.
        pub shared_data: SharedDataSection = SharedDataSection::default();
        /// For how long a link is served without asking again. Changes are seen that much later without a feed.
        pub fresh_seconds: u64 = 5, 0..=86_400;
        /// For how long the absence of a link is served without asking again. Without a feed a new alias may be 404 for that long.
        pub absent_fresh_seconds: u64 = 5, 0..=86_400;
        /// For how long both are served without asking again while a feed covers them.
        pub fresh_with_feed_seconds: u64 = 3_600, 0..=86_400;
        /// For how long a link is served when asking fails; at least `freshSeconds` and `absentFreshSeconds`.
        pub stale_seconds: u64 = 86_400, 1..=31_536_000;
        /// `Retry-After` of 503; and for how long a failed lookup is remembered where there is a stale record to serve.
        pub retry_after_seconds: u32 = 1, 1..=3_600;
        /// Whether paths that go on behind a code (`/code/more`) are those of links with `forwardPath`, and 404 without such a link.
        /// Otherwise they pass through without a lookup, for routes of others on the same host, and `forwardPath` has no effect.
        pub forward_paths: bool = false;
        /// Whether redirects carry `X-Robots-Tag: noindex`, except of links that search engines may list.
        pub noindex: bool = false;
        /// What access logs and traces can have of a request, as filter state of Envoy: `wasm.edgelink.outcome`, `wasm.edgelink.tier` and
        /// `wasm.edgelink.key`. Each is a call of the proxy for every request that asks for a code.
        pub describe: Vec<Described> = Vec::new();
        /// The path of probes, as `/health/ready`: 503 until a worker may take visitors, which it may once it has read the feed up to
        /// its end, and has its snapshot. Then the probe passes, and what stands behind answers it. Without it none is answered.
        pub ready_path: Option<ProbePath> = None;
        /// Whether answers say in `x-edgelink-tier` where they come from.
        pub tier_header: bool = false;
        /// Between two ticks: timeouts are exact to this, and metrics are that much behind.
        pub tick_millis: u32 = 100, 10..=1_000;
        /// HTML of answers other than redirects.
        pub pages: PagesSection = PagesSection::default();
        /// Headers with the location of a visitor.
        pub geo: GeoSection = GeoSection::default();
    }

    /// Access to the control plane.
    pub struct ControlPlaneSection {
        /// Envoy's cluster of the control planes. The Wasm filter needs it; native modules connect to `servers`.
        pub cluster: Option<HeaderText> = None;
        /// Control planes that native modules connect to by HTTP/2, up to 64: each `http://host:port` or `https://host:port`, with
        /// `https` all of them. Each address of a host is a server. A native module needs it, the Wasm filter does without.
        pub servers: Vec<ServerAddress> = Vec::new();
        /// PEM file with the authorities of their certificates, with `https`. This file and the three below are read again for each
        /// connection.
        pub ca_file: Option<HeaderText> = None;
        /// The name in those certificates; without it the host of each server.
        pub server_name: Option<HeaderText> = None;
        /// PEM file with the certificate that the native module shows; only with `caFile` and `keyFile`.
        pub certificate_file: Option<HeaderText> = None;
        /// PEM file with its key.
        pub key_file: Option<HeaderText> = None;
        /// File with the token of the edge API, for native modules, in place of `token`. It is read again while it is used.
        pub token_file: Option<HeaderText> = None;
        /// Token of the edge API. Leave it out where Envoy adds it to callouts, as `bootstrap.yaml` has it do: here it shows in
        /// Envoy's `config_dump`.
        pub token: Option<HeaderText> = None;
        /// For connecting to one of `servers`, with the handshakes.
        pub connect_timeout_millis: u64 = 500, 10..=60_000;
        /// Requests in flight at one of `servers`; further ones go to another, or wait.
        pub max_streams: usize = 100, 1..=10_000;
        /// Between two resolutions of the names of `servers`. They are resolved after a failure to connect, too.
        pub resolve_seconds: u64 = 5, 1..=3_600;
        /// `:authority` of callouts.
        pub authority: HeaderText = HeaderText("control-plane".to_owned());
        /// For a callout: the longest wait of a visitor of an unknown link. A native module closes a connection to a server that has
        /// sent nothing for three fifths of it, and asks another server.
        pub timeout_millis: u32 = 800, 1..=60_000;
        /// Lookups in flight a worker; with more, requests get a stale record or 503. A quarter is for links that the caches hold, and hosts that may be domains have an eighth at most.
        pub max_pending: usize = 1_024, 1..=100_000;
        /// Requests that wait a worker; with more, as above.
        pub max_waiting: usize = 10_000, 1..=1_000_000;
    }

    /// Access to Redis.
    pub struct RedisSection {
        /// `direct`: a server behind the bridge; `pooled`: Envoy's `redis_proxy`, for Redis Cluster, where Redis counts only while the
        /// feed was read within 1.8 s.
        pub mode: RedisMode = RedisMode::Direct, Range::Required;
        /// Envoy's cluster that leads to the bridge of the Wasm filter.
        pub cluster: HeaderText = HeaderText("resp_bridge".to_owned());
        /// Servers that the native module connects to, each `host:port`: with `direct` one after the other until one answers, with
        /// `pooled` any nodes of a Redis Cluster. The native module needs it, the Wasm filter does without.
        pub servers: Vec<HeaderText> = Vec::new();
        /// The name by which Sentinels know the master, with `direct`: `servers` are Sentinels then.
        pub sentinel: Option<HeaderText> = None;
        /// PEM file with the authorities of the servers' certificates: the native module connects by TLS. This file and the three
        /// below are read again for each connection.
        pub ca_file: Option<HeaderText> = None;
        /// The name in those certificates; without it the host of each server.
        pub server_name: Option<HeaderText> = None;
        /// PEM file with the certificate that the native module shows; only with `caFile` and `keyFile`.
        pub certificate_file: Option<HeaderText> = None;
        /// PEM file with its key.
        pub key_file: Option<HeaderText> = None;
        /// File with the password for AUTH by the native module, in place of `password`.
        pub password_file: Option<HeaderText> = None;
        /// For AUTH; only with `password`.
        pub user: Option<String> = None;
        /// For AUTH. With `pooled` Envoy authenticates, and a password is refused.
        pub password: Option<String> = None;
        /// SELECT, with `direct`.
        pub database: u32 = 0, 0..=65_535;
        /// CLIENT SETNAME, with `direct`.
        pub client_name: HeaderText = HeaderText("edgelink".to_owned());
        /// For connecting and the handshake.
        pub connect_timeout_millis: u64 = 500, 10..=60_000;
        /// For a lookup; then the control plane is asked. As fine as the ticks are.
        pub timeout_millis: u64 = 150, 1..=60_000;
        /// Until a connection that answers nothing is closed; at least `timeoutMs`.
        pub dead_after_millis: u64 = 1_000, 1..=60_000;
        /// Lookups in flight a worker; further ones go to the control plane.
        pub max_pending: usize = 1_024, 1..=100_000;
        /// Bytes of them.
        pub max_buffered_bytes: usize = 1 << 20, 1_024..=64 << 20;
        /// Lookups that are gathered while others are unanswered, and sent together. It takes less CPU under load and up to a round
        /// trip longer; with 1 each is sent at once, as by the native module in a cluster and behind Sentinels.
        pub max_batch: usize = 32, 1..=1_000;
        /// Before the first attempt to connect again; doubles with each failure.
        pub backoff_millis: u64 = 50, 1..=60_000;
        /// Up to this; at least `backoffMs`.
        pub max_backoff_millis: u64 = 2_000, 1..=60_000;
    }

    /// Polling for the feed.
    pub struct PollSection {
        /// For how long the control plane may hold a poll, which times out `controlPlane.timeoutMs` later; at most half of
        /// `freshSeconds`.
        pub wait_millis: u32 = 2_000, 100..=60_000;
        /// Longest pause between attempts; the first is 50. So much later changes may be seen once a control plane answers again.
        pub max_backoff_millis: u64 = 500, 50..=60_000;
    }

    /// Fetching of the snapshot.
    pub struct SnapshotSection {
        /// For fetching it.
        pub timeout_millis: u32 = 5_000, 100..=60_000;
        /// Longest snapshot; the memory of a worker grows by about twice its length.
        pub max_bytes: usize = 16 << 20, 1_024..=64 << 20;
        /// Longest pause between attempts; the first is 200.
        pub max_backoff_millis: u64 = 30_000, 200..=600_000;
    }

    /// Conditions for admission.
    pub struct AdmissionSection {
        /// For how long the feed may be silent until everything is looked up again; at least twice
        /// `poll.waitMs`. A new alias that looks like a generated code may be 404 for that long.
        pub max_silence_seconds: u64 = 5, 1..=55;
    }

    /// Counting and reporting of clicks.
    pub struct ClicksSection {
        /// Between two batches of a worker. Clicks of that time are lost when Envoy dies or a worker ends, which cannot be waited for;
        /// when visitors stay away, as from an Envoy that drains, a batch is closed after at most 250 ms.
        pub flush_millis: u64 = 1_000, 100..=60_000;
        /// For a report.
        pub timeout_millis: u32 = 2_000, 100..=60_000;
        /// Longest pause between attempts; the first is 100.
        pub max_backoff_millis: u64 = 5_000, 100..=600_000;
        /// Clicks that are neither in the LRU nor in a batch; further ones are dropped and counted as such.
        pub max_bytes: usize = 1 << 20, 1_024..=64 << 20;
        /// Batches that wait for the control plane; of further ones those with orphan visits go first, then the oldest that were never
        /// sent are joined without their attributes, or one is dropped.
        pub max_unsent: usize = 512, 64..=100_000;
        /// Bytes of them; at least `maxBytes`, with `attributes` twice `maxEventBytes` more, and with `orphans` `maxOrphanBytes`
        /// more. Beyond it orphan visits go first, then attributes, then batches.
        pub max_unsent_bytes: usize = 8 << 20, 1 << 20..=256 << 20;
        /// Which attributes of a click are reported, with its second and its status. Each is read only if it stands here; without
        /// any, clicks are only counted. `country` and `city` are of the headers of `geo`, `referrer` is a host, `language` the
        /// first of `Accept-Language`, `utm` the five parameters of the visitor's query, `rule` the place of the rule that has
        /// chosen the target, `visitor` a hash of address and user agent by which a visitor is known within a day. `DNT: 1` and
        /// `Sec-GPC: 1` leave only the count.
        pub attributes: Vec<Attribute> = Vec::new();
        /// Bytes of clicks with attributes, or of links with `trackConversions`, that are in no batch yet; further ones are only
        /// counted, and are `undescribed`.
        pub max_event_bytes: usize = 512 << 10, 16_384..=1 << 20;
        /// Whether requests that lead to no link are reported, with the same attributes: codes that are 404, `/`, and paths that
        /// pass and are of no link or reserved word. What stands behind is thought to answer 404 for those.
        pub orphans: bool = false;
        /// Bytes of them that are in no batch yet; further ones are dropped.
        pub max_orphan_bytes: usize = 64 << 10, 16_384..=1 << 20;
    }

    /// Visits of limited links.
    pub struct VisitsSection {
        /// Links of which a worker holds visits, or knows that none are left, which gives way to others. Where visits of so many are
        /// held, a visitor of a further one gets 503.
        pub max_links: usize = 4_096, 1..=100_000;
    }

    /// The limit of requests by address.
    pub struct LimitSection {
        /// Requests of one address that are answered a second, whatever their path, also if they pass; of IPv6 each /64 is one. The native
        /// module counts them for the process, the Wasm filter in each worker, of which a connection has one. A client whose address the
        /// proxy does not know is not limited.
        pub per_second: u32 = 500, 1..=1_000_000;
        /// Requests that an address that has been quiet may make at once.
        pub burst: u32 = 2_000, 1..=1_000_000_000;
        /// Addresses that are remembered, in 16 bytes each, rounded up to a multiple of 8. Where there are more, those give way that have
        /// used the least of late, and may make as many requests again as new ones.
        pub max_addresses: usize = 65_536, 8..=16_777_216;
    }

    /// The cache of a worker.
    pub struct LruSection {
        /// Bytes of a worker's LRU; 0 is none, and with a feed at least 1048576. Its memory grows up to this and never shrinks. With a feed, up to half holds the changes of the last 30 s.
        pub max_bytes: usize = 64 << 20, 0..=1 << 30;
    }

    /// Records shared by the workers.
    pub struct SharedDataSection {
        /// Slots of the proxy; 0 is none.
        pub slots: u32 = 65_536, 0..=1 << 20;
        /// Largest value that is shared: all of it is copied under a lock of the whole process at every read.
        pub max_value_bytes: usize = 2_048, 64..=65_536;
    }

    /// Headers with the location of a visitor, for rules of links. They are trusted: a proxy in front must set them, or remove
    /// them from clients' requests.
    pub struct GeoSection {
        /// Header with the country, two letters of ISO 3166-1; without it no visitor has a country.
        pub country_header: Option<HeaderText> = None;
        /// Header with the name of the city; without it no visitor has a city.
        pub city_header: Option<HeaderText> = None;
    }

    /// HTML of answers other than redirects, at most 16384 bytes each. Without it built-in pages are sent.
    pub struct PagesSection {
        /// HTML of 404, at most 16384 bytes; without it a built-in page.
        pub not_found: Option<Html> = None;
        /// HTML of 410, the same.
        pub gone: Option<Html> = None;
        /// HTML of 503, the same.
        pub unavailable: Option<Html> = None;
    }
}

edgelink_wire::choice! {
    /// Handling of a request whose host is none of the domains.
    pub enum UnknownHosts {
        /// It is for the first domain.
        Default = "default",
        /// It is answered 404.
        NotFound = "notFound",
        /// It passes to the next filter, untouched.
        Pass = "pass",
    }

    /// Attribute of a request for access logs and traces.
    pub enum Described {
    /// Its outcome, in the words of the metrics, or `passed`.
        Outcome = "outcome",
        /// The tier that answered, in the words of `x-edgelink-tier`.
        Tier = "tier",
        /// `{domain}/{code}`.
        Key = "key",
    }

    /// Handling of a request for a code without a link.
    pub enum UnknownCodes {
        /// It is answered 404.
        NotFound = "notFound",
        /// It passes to the next filter, untouched.
        Pass = "pass",
    }

    /// Type of the peer at the other end of the bridge.
    pub enum RedisMode {
        /// A Redis server.
        Direct = "direct",
        /// Envoy's `redis_proxy`.
        Pooled = "pooled",
    }
}

/// Text for a header of a callout, or an argument of Redis. Its value is in no message: it may be the token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderText(pub String);

impl SettingValue for HeaderText {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = String::read(value, path, problems)?;
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_visible && (1..=1_024).contains(&text.len()) {
            return Some(Self(text));
        }
        let must = "must be 1 to 1024 visible ASCII characters without spaces";
        problems.refuse(path, must);
        None
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.0.as_str().into())
    }
}

/// A server of control planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// True with `https`.
    pub is_encrypted: bool,
    /// The name, or the address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl ServerAddress {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let is_encrypted = match scheme {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let (host, port) = authority.rsplit_once(':')?;
        let literal = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_host = match literal {
            Some(literal) => literal.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains(['/', ':', '@', '[', ']', '?', '#']),
        };
        let port = port.parse().ok().filter(|port| is_host && *port > 0)?;
        let host = literal.unwrap_or(host).to_owned();
        Some(Self {
            is_encrypted,
            host,
            port,
        })
    }
}

impl SettingValue for ServerAddress {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let HeaderText(text) = HeaderText::read(value, path, problems)?;
        let address = Self::parse(&text);
        if address.is_none() {
            problems.refuse(path, "must be as http://host:port or https://host:port");
        }
        address
    }

    fn written(&self, _: &str) -> Option<Value> {
        None
    }
}

/// The path of a readiness probe, which no link can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbePath(pub String);

impl SettingValue for ProbePath {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let HeaderText(text) = HeaderText::read(value, path, problems)?;
        let bytes = text.as_bytes();
        let is_of_link = parse_path(bytes).is_some() || parse_path_below(bytes).is_some();
        if text.starts_with('/') && text.len() > 1 && !text.contains('?') && !is_of_link {
            return Some(Self(text));
        }
        problems.refuse(
            path,
            "must be a path that no link can have, such as /health/ready",
        );
        None
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.0.as_str().into())
    }
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Html(pub Arc<str>);

impl SettingValue for Html {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let html = String::read(value, path, problems)?;
        if html.len() <= 16_384 {
            return Some(Self(html.into()));
        }
        problems.refuse(path, "must be at most 16384 bytes long");
        None
    }

    fn written(&self, _: &str) -> Option<Value> {
        None
    }
}
