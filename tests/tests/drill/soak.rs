//! An Envoy under mixed load whose listener is changed again and again, or an nginx that is reloaded: it does not grow, and its answers
//! are right.

mod load;
mod samples;

use crate::production::create;
use crate::seconds;
use crate::visitors::Visitors;
use edgelink_tests::scenario::{CITY_HEADER, COUNTRY_HEADER, DOMAIN};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{
    ControlPlane, Envoy, EnvoyOptions, Filter, Listener, RedisOptions, await_workers, free_port,
    native_module,
};
use load::{
    COLD, HOT, LIMITED, LOCKED, Links, MOVING, PACE, PASSWORD, ROUTED, RULED, SIZE_OF_CACHE,
    TARGET_OF_APPS, VISITS,
};
use samples::{Sample, Samples, Verdict};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::interval;

/// From one change of the listener to the next. Until then the one before has drained, and its configuration has ended.
const BETWEEN_CHANGES: Duration = Duration::from_secs(10);
const DRAIN_SECONDS: u32 = 4;
const BETWEEN_SAMPLES: Duration = Duration::from_secs(2);
/// How often the figures are printed meanwhile.
const LINES: u32 = 12;

/// `make soak`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make soak"]
async fn soak() {
    let time = seconds("EDGELINK_TEST_DRILL_SECONDS", 3_600);
    let redis = RedisServer::start().await;
    let control_plane = control_plane(&redis).await;
    let links = Links::new();
    create_links(&control_plane).await;
    let mut envoy = envoy(&redis, &control_plane).await;
    await_workers(&envoy).await;

    let parts = Arc::new(Parts {
        edge: envoy.edge(),
        redis,
        control_plane,
        links: Arc::clone(&links),
        is_over: AtomicBool::new(false),
    });
    let visitors = Visitors::start(&[parts.edge], PACE, &links);
    let others = load::start_others(&parts);
    let (verdict, changes) = watch(&mut envoy, &visitors, time).await;
    let mut seen = visitors.finish().await;
    parts.is_over.store(true, Ordering::Relaxed);
    others.join_all().await;
    envoy.await_drained().await;
    let crashes = envoy.crashes().await;
    seen.print("visitors");
    println!(
        "{} requests were sent again over another connection",
        seen.again
    );
    links.print();
    let (made, refused) = (changes.made, changes.refused);
    println!(
        "{made} changes of the configuration, {refused} of which were refused; {crashes} panics or traps"
    );
    println!("{verdict}");

    assert_eq!(seen.wrong + seen.unanswered, 0);
    links.assert();
    assert_eq!(crashes, 0);
    envoy.assert_unharmed().await;
    verdict.assert();
}

/// Changes the configuration again and again, and looks at what the proxy takes.
async fn watch(envoy: &mut Envoy, visitors: &Visitors, time: Duration) -> (Verdict, Changes) {
    let process = envoy.process().id();
    let mut samples = Samples::new(time);
    let mut changes = Changes::new(envoy);
    let mut ticks = interval(BETWEEN_SAMPLES);
    let mut shown = 0;
    println!("\n{}", Sample::HEAD);
    let start = Instant::now();
    while start.elapsed() < time {
        ticks.tick().await;
        if changes.are_due(start.elapsed()) {
            changes.make(envoy).await;
        }
        let sample = Sample::take(envoy, process).await;
        let elapsed = start.elapsed();
        if elapsed >= time * shown / LINES {
            println!("{}", sample.line(elapsed, changes.made, visitors.sent()));
            shown += 1;
        }
        samples.add(elapsed, sample);
    }
    (samples.verdict(), changes)
}

/// What load needs.
struct Parts {
    edge: std::net::SocketAddr,
    redis: RedisServer,
    control_plane: ControlPlane,
    links: Arc<Links>,
    is_over: AtomicBool,
}

async fn control_plane(redis: &RedisServer) -> ControlPlane {
    ControlPlane::with_variables(&[
        ("EDGELINK_LINKS_DOMAINS", DOMAIN),
        ("EDGELINK_REDIS_URL", &redis.url()),
        ("EDGELINK_SERVER_TRUSTED_PROXIES", "127.0.0.1"),
    ])
    .await
}

async fn create_links(control_plane: &ControlPlane) {
    for (prefix, count) in [
        ("hot", HOT),
        ("cold", COLD),
        ("moving", MOVING),
        ("routed", ROUTED),
    ] {
        create(control_plane, prefix, count).await;
    }
    let link = |prefix: &str, n: usize| {
        let alias = format!("{prefix}-{n}");
        let target = format!("https://example.com/{alias}");
        control_plane.link(&alias).to(&target)
    };
    for n in 0..RULED {
        let ruled = link("ruled", n).with("forwardQuery", false);
        ruled.create().await;
    }
    for n in 0..LIMITED {
        link("limited", n).max_visits(VISITS).create().await;
    }
    for n in 0..LOCKED {
        link("locked", n).password(PASSWORD).create().await;
    }
    let rules = json!({ "redirectRules": [{ "longUrl": TARGET_OF_APPS, "conditions": [
        { "type": "query-param", "matchKey": "from", "matchValue": "app" },
    ] }] });
    for n in 0..RULED {
        let path = format!("/links/ruled-{n}/rules");
        let answer = control_plane.api("POST", &path, &rules).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

async fn envoy(redis: &RedisServer, control_plane: &ControlPlane) -> Envoy {
    const SLOTS: &str = r#""slots": 65536"#;
    let plugin = std::fs::read_to_string(edgelink_tests::stack::root().join("envoy/plugin.json"));
    let plugin = plugin.expect("a template");
    assert!(plugin.contains(SLOTS));
    let options = EnvoyOptions {
        workers: 2,
        redis: Some(RedisOptions::direct(redis.port())),
        feed: "poll",
        clicks: "true",
        click_attributes: "country,city,userAgent,referrer,language,utm,rule,visitor",
        orphans: "true",
        // Fewer than there are links, so that Redis and the control plane are asked for the others.
        lru_bytes: SIZE_OF_CACHE,
        plugin: Some(plugin.replace(SLOTS, r#""slots": 256"#)),
        bootstrap: Some(bootstrap()),
        listener_file: Filter::of_tests() != Filter::Nginx,
        drain_seconds: DRAIN_SECONDS,
        trusted_hops: 1,
        geo_headers: [COUNTRY_HEADER, CITY_HEADER],
        // A machine that does something else as well may be slow; how fast answers are is not what this is about.
        callout_timeout_ms: 5_000,
        ..EnvoyOptions::default()
    };
    Envoy::start(&options, &[control_plane.address()]).await
}

/// The bootstrap with a route that has a configuration of its own where the filter is native.
fn bootstrap() -> String {
    const ROUTES: &str = "              routes:${PUBLIC_PAGES}\n";
    let template = Envoy::bootstrap_template();
    assert!(template.contains(ROUTES));
    if Filter::of_tests() != Filter::Native {
        return template;
    }
    let module = native_module().display().to_string();
    let route = format!(
        r#"{ROUTES}              - match: {{ prefix: /routed- }}
                typed_per_filter_config:
                  edgelink:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute
                    dynamic_module_config:
                      module: {{ local: {{ filename: "{module}" }} }}
                      do_not_close: true
                    filter_config:
                      "@type": type.googleapis.com/google.protobuf.StringValue
                      value: '{{"domains":["{DOMAIN}"]}}'
                direct_response: {{ status: 404 }}
"#
    );
    template.replacen(ROUTES, &route, 1)
}

/// The configuration at the beginning, for variants of it.
enum Original {
    Listener(Listener),
    /// The settings of nginx's module, and a folder for a file with others.
    Settings(Value, TempDir),
}

/// The changes of the configuration.
struct Changes {
    original: Original,
    /// A port for a second listener.
    beside: u16,
    made: u32,
    refused: u32,
}

impl Changes {
    fn new(envoy: &Envoy) -> Self {
        let original = if envoy.filter() == Filter::Nginx {
            let folder = TempDir::new().expect("a temporary folder");
            Original::Settings(envoy.settings(), folder)
        } else {
            Original::Listener(envoy.listener().clone())
        };
        Self {
            original,
            beside: free_port(),
            made: 0,
            refused: 0,
        }
    }

    fn are_due(&self, elapsed: Duration) -> bool {
        elapsed >= BETWEEN_CHANGES * (self.made + 1)
    }

    /// Each differs from the one before. In turns: another configuration, another one for Redis as well, a second listener beside the
    /// first, without it, one that is refused.
    async fn make(&mut self, envoy: &Envoy) {
        self.made += 1;
        let is_right = self.made % 5 != 4;
        self.refused += u32::from(!is_right);
        let is_taken = match &self.original {
            Original::Listener(listener) => envoy.put_listeners(&self.listeners(listener)).await,
            Original::Settings(settings, folder) => {
                let variables = self.variables(settings.clone(), folder.path());
                envoy.reload(&variables).status.success()
            }
        };
        assert_eq!(is_taken, is_right);
    }

    fn retry_after_seconds(&self) -> u32 {
        1 + self.made % 3_000
    }

    fn timeout_of_redis(&self) -> u32 {
        150 + self.made % 50
    }

    fn listeners(&self, original: &Listener) -> Vec<Listener> {
        let changed = original.plugin("retryAfterSeconds", self.retry_after_seconds());
        match self.made % 5 {
            1 => {
                let mut redis = changed.plugin_configuration()["redis"].clone();
                redis["timeoutMs"] = json!(self.timeout_of_redis());
                vec![changed.plugin("redis", redis)]
            }
            2 => {
                let beside = changed.beside("beside", self.beside);
                vec![changed, beside]
            }
            4 => vec![changed.refused()],
            _ => vec![changed],
        }
    }

    /// Writes a file with the settings, and returns the variables of the script that have nginx read it.
    fn variables(&self, mut settings: Value, folder: &Path) -> Vec<(&'static str, String)> {
        settings["retryAfterSeconds"] = json!(self.retry_after_seconds());
        let mut variables = Vec::new();
        match self.made % 5 {
            1 => settings["redis"]["timeoutMs"] = json!(self.timeout_of_redis()),
            2 => {
                let listen = format!("listen 127.0.0.1:{};", self.beside);
                variables.push(("EDGELINK_NGINX_SERVER", listen));
            }
            4 => settings["retryAfterSeconds"] = json!("soon"),
            _ => {}
        }
        let file = folder.join("settings.json");
        std::fs::write(&file, settings.to_string()).expect("a file");
        let file = file.display().to_string();
        variables.push(("EDGELINK_NGINX_SETTINGS", file));
        variables
    }
}
