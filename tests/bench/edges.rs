//! Envoys to measure: as in production, with one worker by default, and with the settings that force a tier to answer.

use edgelink_tests::stack::{Envoy, EnvoyOptions, Filter, RedisOptions, hello_module, until};
use std::cmp::Ordering;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// Settings of the filter's tiers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiers {
    /// `lru.maxBytes`.
    pub(crate) lru_bytes: u32,
    /// `sharedData.slots`.
    pub(crate) slots: u32,
    /// The feed to follow; snapshot and admission need it.
    pub(crate) feed: Feed,
    /// `redis.mode` and the port of a server.
    pub(crate) redis: Option<(&'static str, u16)>,
    /// The section `clicks`.
    pub(crate) clicks: &'static str,
    /// Kind of the filter.
    pub(crate) filter: Filter,
    /// Number of Envoy's workers.
    pub(crate) workers: u16,
    /// Another build of the Wasm filter.
    pub(crate) module: Option<&'static str>,
}

/// Clicks with all their attributes.
const DESCRIBED: &str = r#"{
    "attributes": ["country", "city", "userAgent", "referrer", "language", "utm", "rule", "visitor"]
  },
  "geo": { "countryHeader": "x-country", "cityHeader": "x-city" }"#;

/// Source of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feed {
    None,
    /// The control plane, so that Redis is trusted.
    Changes,
    /// The control plane, with the snapshot and admission as well.
    Poll,
}

/// Codes stored in Redis for the first requests, one of which is answered from there once Redis is trusted.
pub(crate) fn first_requests() -> impl Iterator<Item = String> {
    (0..2_000).map(|number| format!("first-request{number}"))
}

/// Lower limit of `lru.maxBytes` with a feed.
pub(crate) const SMALLEST_WITH_FEED: u32 = 1 << 20;

impl Tiers {
    /// No tier but the control plane: with room for one link, and slots for an eighth of the links requested in turn,
    /// every record is inserted into both caches, as in production, and has been evicted when its link is requested
    /// again.
    pub(crate) const BARE: Self = Self {
        lru_bytes: 200,
        slots: 128,
        feed: Feed::None,
        redis: None,
        clicks: "{}",
        filter: Filter::Wasm,
        workers: 1,
        module: None,
    };

    /// The configuration of `make run`, with a feed.
    pub(crate) const USUAL: Self = Self {
        lru_bytes: 64 << 20,
        slots: 65_536,
        feed: Feed::Poll,
        redis: None,
        clicks: "{}",
        filter: Filter::Wasm,
        workers: 1,
        module: None,
    };

    /// The usual settings, with all attributes of clicks.
    pub(crate) const DESCRIBED: Self = Self {
        clicks: DESCRIBED,
        ..Self::USUAL
    };

    /// The filter's configuration. Clicks are counted, whichever tier answers.
    fn plugin(&self) -> String {
        let feed = match self.feed {
            Feed::None => "",
            Feed::Changes => r#", "poll": {}"#,
            Feed::Poll => r#", "poll": {}, "snapshot": {}, "admission": {}"#,
        };
        let (lru_bytes, slots, clicks) = (self.lru_bytes, self.slots, self.clicks);
        format!(
            r#"{{
  "domains": ${{DOMAINS}},
  "controlPlane": {{ ${{CONTROL_PLANE}}, "authority": "control-plane" }},
  "lru": {{ "maxBytes": {lru_bytes} }},
  "sharedData": {{ "slots": {slots} }},
  "freshSeconds": 3600,
  "absentFreshSeconds": 3600,
  "clicks": {clicks}${{REDIS}}{feed}
}}"#
        )
    }

    /// The memory that nginx's workers share, which has slots of its own.
    fn variables(&self) -> Vec<(&'static str, String)> {
        let zone = match self.slots.cmp(&Self::USUAL.slots) {
            Ordering::Less => "1m",
            Ordering::Equal => return Vec::new(),
            Ordering::Greater => "1024m",
        };
        vec![("EDGELINK_NGINX_ZONE", zone.to_owned())]
    }

    /// Starts an Envoy with these settings, and returns when it has its initial state.
    pub(crate) async fn start(&self, control_plane: SocketAddr) -> Envoy {
        let envoy = self.launch(control_plane).await;
        self.await_ready(&envoy).await;
        envoy
    }

    /// Starts an Envoy with these settings, and returns when it answers.
    pub(crate) async fn launch(&self, control_plane: SocketAddr) -> Envoy {
        let options = EnvoyOptions {
            plugin: Some(self.plugin()),
            filter: self.filter,
            workers: self.workers,
            module: self.module.map(PathBuf::from),
            variables: self.variables(),
            redis: self.redis.map(|(mode, port)| RedisOptions {
                mode,
                ..RedisOptions::direct(port)
            }),
            ..EnvoyOptions::default()
        };
        Envoy::start(&options, &[control_plane]).await
    }

    /// A worker connects, and fetches its initial state, with its first request.
    async fn await_ready(&self, envoy: &Envoy) {
        let mut wanted = Vec::new();
        if self.redis.is_some() {
            wanted.push("edgelink.redis.ok");
        }
        if self.feed == Feed::Poll {
            wanted.push("edgelink.admission");
        }
        let mut codes = first_requests();
        until("the edge is ready", LIMIT, async || {
            let code = codes.next().expect("a code");
            envoy.follow(&format!("/{code}")).await;
            let stats = envoy.figures().await;
            wanted.iter().all(|name| stats.get(name) >= 1).then_some(())
        })
        .await;
    }
}

/// The Envoy of `make run`, with its limit of requests by address so high that load does not reach it.
pub(crate) async fn as_shipped(filter: Filter, control_plane: SocketAddr) -> Envoy {
    let options = EnvoyOptions {
        filter,
        workers: 2,
        feed: "poll",
        clicks: "true",
        click_attributes: "userAgent,referrer,language,utm,rule,visitor",
        orphans: "true",
        public_pages: true,
        rate: Some((999_999, 999_999_999)),
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane]).await;
    Tiers::USUAL.await_ready(&envoy).await;
    envoy
}

/// Envoy without the filter, with that many workers, and with a redirect in place of the default route.
pub(crate) async fn static_redirect(control_plane: SocketAddr, workers: u16) -> Envoy {
    let redirect = "redirect: { https_redirect: true, host_redirect: example.com, path_redirect: '/a?b=1', response_code: FOUND }";
    static_answer(redirect, control_plane, workers).await
}

/// Envoy without the filter, and with a page as long as the filter's for missing links.
pub(crate) async fn static_not_found(control_plane: SocketAddr) -> Envoy {
    let page = "<!doctype html><html lang=en><meta charset=utf-8><title>Not found</title><h1>Not found</h1><p>There is no such short link.";
    let answer = format!("direct_response: {{ status: 404, body: {{ inline_string: '{page}' }} }}");
    static_answer(&answer, control_plane, 1).await
}

async fn static_answer(answer: &str, control_plane: SocketAddr, workers: u16) -> Envoy {
    let template = Envoy::bootstrap_template();
    let filter = template
        .find("          - name: edgelink\n")
        .expect("the filter");
    let router = template
        .find("          - name: envoy.filters.http.router\n")
        .expect("the router");
    let (start, rest) = (&template[..filter], &template[router..]);
    // The health check is cut out together with the filter that it follows, and so are its routes.
    let (routes, probes) = rest
        .split_once("              # Probes are answered")
        .expect("the routes of probes");
    let (_, route) = probes
        .split_once("direct_response: { status: 404, body")
        .expect("the answer of the default route");
    let (_, after) = route.split_once('\n').expect("the end of the line");
    let health = "              - match: { path: /health/live }\n                direct_response: { status: 200 }\n";
    let default = "              - match: { prefix: / }\n                ";
    let options = EnvoyOptions {
        bootstrap: Some(format!("{start}{routes}{health}{default}{answer}\n{after}")),
        workers,
        ..EnvoyOptions::default()
    };
    Envoy::start(&options, &[control_plane]).await
}

/// Envoy with a minimal filter, which redirects every request.
pub(crate) async fn hello(kind: &str, control_plane: SocketAddr) -> Envoy {
    let template = Envoy::bootstrap_template();
    // Its own readiness check must not be redirected.
    let health = "          - name: edgelink\n";
    let answered_before = concat!(
        "          - name: envoy.filters.http.health_check\n",
        "            disabled: true\n",
        "            typed_config:\n",
        "              \"@type\": type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck\n",
        "              pass_through_mode: false\n",
        "              headers: [{ name: ':path', string_match: { exact: /health/live } }]\n",
        "          - name: edgelink\n",
    );
    assert!(template.contains(health));
    let options = EnvoyOptions {
        bootstrap: Some(template.replace(health, answered_before)),
        module: Some(hello_module(kind)),
        ..EnvoyOptions::default()
    };
    Envoy::start(&options, &[control_plane]).await
}
