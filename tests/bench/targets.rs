//! All servers that redirect, side by side.

use crate::edges::{
    Feed, SMALLEST_WITH_FEED, Tiers, as_shipped, hello, static_not_found, static_redirect,
};
use crate::fill::Pipe;
use crate::links::{never_issued, write_paths};
use crate::nginx::Nginx;
use crate::options::Options;
use crate::process::{others, pin};
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{ControlPlane, Envoy, Filter};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const TARGET: &str = "https://example.com/a?b=1";

/// Links requested in turn: more than there are connections, so that no two request one link at the same time, enough
/// that the one kept by a tiny cache does not matter, and few enough that hardly any share a slot of shared data.
const LINKS: usize = 1_000;

/// Links requested in turn where Redis is to answer: many times as many as fit into the smallest cache of an edge with a
/// feed, without which Redis is not trusted.
const MANY_LINKS: u64 = 200_000;

/// Links requested in turn where the control plane is to answer: many times as many as fit into the smallest zone of nginx.
const ASKED_FOR: usize = 100_000;

/// Upper limit of `sharedData.slots`.
const SLOTS: u32 = 1 << 20;

/// A server that answers redirects.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// The tier that must answer.
    pub(crate) tier: Option<&'static str>,
    pub(crate) status: u16,
    pub(crate) paths: PathBuf,
    /// Headers of visitors beside the host.
    pub(crate) headers: &'static [&'static str],
    pub(crate) address: SocketAddr,
    pub(crate) processes: Vec<u32>,
    pub(crate) server: Server,
}

/// The running server.
pub(crate) enum Server {
    Envoy(Box<Envoy>),
    Nginx { _server: Nginx },
}

/// All targets, and the servers they need.
pub(crate) struct Field {
    pub(crate) targets: Vec<Target>,
    pub(crate) folder: TempDir,
    control_plane: ControlPlane,
    redis: RedisServer,
    paths: PathBuf,
    /// Paths of links with rules.
    with_rules: PathBuf,
    /// Paths of links that are only in Redis.
    in_redis: PathBuf,
    /// Paths of links that the control plane is asked for.
    asked_for: PathBuf,
}

/// Name of the reference that all are compared with.
pub(crate) const REFERENCE: &str = "Envoy, static redirect";

/// Headers of a visitor with a browser, on a network that adds the location. No rule of [`rules`] matches them.
const BROWSER: &[&str] = &[
    "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 \
     Safari/537.36",
    "Accept-Language: en-GB,en;q=0.9,fr;q=0.5",
    "Referer: https://news.example/today",
    "X-Country: DE",
    "X-City: Bonn",
];

/// Three rules, each of which looks at a different header.
fn rules() -> Value {
    let rule = |kind: &str, value: &str| {
        json!({
            "longUrl": format!("https://example.com/{value}"),
            "conditions": [{ "type": kind, "matchKey": null, "matchValue": value }],
        })
    };
    json!({ "redirectRules": [rule("device", "ios"), rule("device", "android"), rule("language", "de")] })
}

/// Name of the reference for the filter's 404 page.
pub(crate) const STATIC_NOT_FOUND: &str = "Envoy, static 404 with a page";

/// Names of the native module's tiers, and of its answer to codes never issued.
pub(crate) const NATIVE_LRU: &str = "native, LRU hit";
pub(crate) const NATIVE_REDIS: &str = "native, Redis hit";
pub(crate) const NATIVE_CONTROL_PLANE: &str = "native, control plane";
pub(crate) const NATIVE_ABSENT: &str = "native, absent by admission";

/// Names of its cache with more workers than the processor that they share can run at once.
pub(crate) const NATIVE_OF_4: &str = "native, LRU hit, 4 workers";
pub(crate) const NATIVE_OF_16: &str = "native, LRU hit, 16 workers";

/// Names of Envoy's own redirect by as many: threads that share a processor cost Envoy itself more.
pub(crate) const STATIC_OF_4: &str = "Envoy, static redirect, 4 workers";
pub(crate) const STATIC_OF_16: &str = "Envoy, static redirect, 16 workers";

/// Names of nginx without the module, and of the module's tiers.
pub(crate) const NGINX_STATIC: &str = "nginx, static 302";
pub(crate) const NGINX_LUA: &str = "nginx, Lua and LRU, Redis behind";
pub(crate) const NGINX_LRU: &str = "nginx module, LRU hit";
pub(crate) const NGINX_REDIS: &str = "nginx module, Redis hit";
pub(crate) const NGINX_CONTROL_PLANE: &str = "nginx module, control plane";
pub(crate) const NGINX_ABSENT: &str = "nginx module, absent by admission";

/// Names of the targets of such visitors: without rules, with rules, with another build, and with all attributes of
/// clicks.
pub(crate) const OF_A_BROWSER: &str = "edgelink, LRU hit, of a browser";
pub(crate) const THREE_RULES: &str = "edgelink, LRU hit, three rules";
pub(crate) const OTHER_BUILD: &str = "edgelink, LRU hit, of a browser, the other build";
pub(crate) const ALL_ATTRIBUTES: &str = "edgelink, LRU hit, all attributes";

/// Names of the edges of `make run`.
pub(crate) const AS_SHIPPED: &str = "edgelink, as shipped";
pub(crate) const NATIVE_AS_SHIPPED: &str = "native, as shipped";
pub(crate) const NGINX_AS_SHIPPED: &str = "nginx module, as shipped";

/// Name of Envoy's own redirect for visitors with browsers, by two workers.
const STATIC_AS_SHIPPED: &str = "Envoy, static redirect, as shipped";

/// Name, tier, and the settings that make that tier answer.
fn tiers(redis: u16) -> [(&'static str, &'static str, Tiers); 16] {
    let bare = Tiers::BARE;
    let from = |mode| Tiers {
        lru_bytes: SMALLEST_WITH_FEED,
        redis: Some((mode, redis)),
        feed: Feed::Changes,
        ..bare
    };
    let shared = Tiers {
        slots: SLOTS,
        ..bare
    };
    let native = |tiers| Tiers {
        filter: Filter::Native,
        ..tiers
    };
    let of_workers = |workers| Tiers {
        workers,
        ..native(Tiers::USUAL)
    };
    let nginx = |tiers| Tiers {
        filter: Filter::Nginx,
        ..tiers
    };
    [
        // Its one cache corresponds to both of the Wasm filter's.
        (NATIVE_LRU, "lru", native(Tiers::USUAL)),
        (NATIVE_REDIS, "redis", native(from("direct"))),
        (NATIVE_CONTROL_PLANE, "control-plane", native(bare)),
        (NATIVE_ABSENT, "admission", native(Tiers::USUAL)),
        (NATIVE_OF_4, "lru", of_workers(4)),
        (NATIVE_OF_16, "lru", of_workers(16)),
        (NGINX_LRU, "lru", nginx(Tiers::USUAL)),
        (NGINX_REDIS, "redis", nginx(from("direct"))),
        (NGINX_CONTROL_PLANE, "control-plane", nginx(bare)),
        (NGINX_ABSENT, "admission", nginx(Tiers::USUAL)),
        ("edgelink, LRU hit", "lru", Tiers::USUAL),
        ("edgelink, shared-data hit", "shared-data", shared),
        ("edgelink, Redis hit, direct", "redis", from("direct")),
        ("edgelink, Redis hit, pooled", "redis", from("pooled")),
        ("edgelink, control plane", "control-plane", bare),
        ("edgelink, absent by admission", "admission", Tiers::USUAL),
    ]
}

impl Field {
    /// Starts the reference only, and creates links.
    pub(crate) async fn start() -> Self {
        let redis = RedisServer::start().await;
        let control_plane = publishing_to(&redis).await;
        let folder = TempDir::new().expect("a temporary folder");
        let codes = create_links(&control_plane, &redis).await;
        let paths = write_paths(folder.path(), "links", codes);
        let with_rules = create_links_with_rules(&control_plane).await;
        let with_rules = write_paths(folder.path(), "with-rules", with_rules);
        let in_redis = write_paths(folder.path(), "in-redis", fill_redis(&redis).await);
        let asked_for = create_many(&control_plane, ASKED_FOR).await;
        let asked_for = write_paths(folder.path(), "asked-for", asked_for);
        let mut field = Self {
            targets: Vec::new(),
            folder,
            control_plane,
            redis,
            paths,
            with_rules,
            in_redis,
            asked_for,
        };
        let envoy = static_redirect(field.control_plane.address(), 1).await;
        field.add_envoy(REFERENCE, None, envoy);
        let helpers = [field.control_plane.process().id(), field.redis.process_id()];
        pin(&helpers, &others());
        field
    }

    /// Adds the filter, by tiers.
    pub(crate) async fn add_edgelink(&mut self, options: &Options) {
        if options.wants(NATIVE_ABSENT) {
            let envoy = static_not_found(self.control_plane.address()).await;
            let mut target = Target::of(STATIC_NOT_FOUND, None, &self.paths, envoy);
            target.status = 404;
            self.targets.push(target);
        }
        for (native, name, workers) in [
            (NATIVE_OF_4, STATIC_OF_4, 4),
            (NATIVE_OF_16, STATIC_OF_16, 16),
        ] {
            if options.wants(native) {
                let envoy = static_redirect(self.control_plane.address(), workers).await;
                self.add_envoy(name, None, envoy);
            }
        }
        for (name, tier, tiers) in tiers(self.redis.port()) {
            if options.wants(name) {
                let envoy = tiers.start(self.control_plane.address()).await;
                self.add_envoy(name, Some(tier), envoy);
            }
        }
        let with_rules = self.with_rules.clone();
        let plain = self.paths.clone();
        let mut of_browsers = vec![
            (OF_A_BROWSER, plain.clone(), Tiers::USUAL),
            (THREE_RULES, with_rules, Tiers::USUAL),
            (ALL_ATTRIBUTES, plain.clone(), Tiers::DESCRIBED),
        ];
        if let Ok(module) = std::env::var("EDGELINK_OTHER_WASM") {
            let module = Some(&*module.leak());
            let tiers = Tiers {
                module,
                ..Tiers::USUAL
            };
            of_browsers.push((OTHER_BUILD, plain, tiers));
        }
        for (name, paths, tiers) in of_browsers {
            if options.wants(name) {
                let envoy = tiers.start(self.control_plane.address()).await;
                let mut target = Target::of(name, Some("lru"), &paths, envoy);
                target.headers = BROWSER;
                self.targets.push(target);
            }
        }
    }

    /// Adds the edges of `make run`, for visitors with browsers.
    pub(crate) async fn add_shipped(&mut self, options: &Options) {
        if options.wants(STATIC_AS_SHIPPED) {
            let envoy = static_redirect(self.control_plane.address(), 2).await;
            let mut target = Target::of(STATIC_AS_SHIPPED, None, &self.paths, envoy);
            target.headers = BROWSER;
            self.targets.push(target);
        }
        for (name, filter) in [
            (NATIVE_AS_SHIPPED, Filter::Native),
            (AS_SHIPPED, Filter::Wasm),
            (NGINX_AS_SHIPPED, Filter::Nginx),
        ] {
            if options.wants(name) {
                let envoy = as_shipped(filter, self.control_plane.address()).await;
                let mut target = Target::of(name, Some("lru"), &self.paths, envoy);
                target.headers = BROWSER;
                self.targets.push(target);
            }
        }
    }

    /// Adds the smallest filters.
    pub(crate) async fn add_hello(&mut self, options: &Options) {
        for (name, kind) in [
            ("wasm hello world, Rust SDK", "sdk"),
            ("wasm hello world, bare ABI", "bare"),
            ("wasm, host calls of an LRU hit only", "hostcalls"),
        ] {
            if options.wants(name) {
                let envoy = hello(kind, self.control_plane.address()).await;
                self.add_envoy(name, None, envoy);
            }
        }
    }

    /// Adds nginx without the module, in three variants.
    pub(crate) async fn add_nginx(&mut self, options: &Options) {
        for (name, file) in [
            (NGINX_STATIC, "static"),
            (NGINX_LUA, "lru"),
            ("nginx, Lua and a Redis GET each", "redis"),
        ] {
            if !options.wants(name) {
                continue;
            }
            let server = Nginx::start(file, self.redis.port()).await;
            self.targets.push(Target {
                name,
                tier: None,
                status: 302,
                paths: self.paths.clone(),
                headers: &[],
                address: server.address(),
                processes: server.processes(),
                server: Server::Nginx { _server: server },
            });
        }
    }

    fn add_envoy(&mut self, name: &'static str, tier: Option<&'static str>, envoy: Envoy) {
        let (status, paths) = match tier {
            Some("admission") => {
                let codes = never_issued(LINKS as u64);
                (404, write_paths(self.folder.path(), "absent", codes))
            }
            Some("redis") => (302, self.in_redis.clone()),
            Some("control-plane") => (302, self.asked_for.clone()),
            _ => (302, self.paths.clone()),
        };
        let mut target = Target::of(name, tier, &paths, envoy);
        target.status = status;
        self.targets.push(target);
    }
}

impl Target {
    /// Creates a target of an Envoy that redirects.
    pub(crate) fn of(
        name: &'static str,
        tier: Option<&'static str>,
        paths: &Path,
        mut envoy: Envoy,
    ) -> Self {
        Self {
            name,
            tier,
            status: 302,
            paths: paths.to_owned(),
            headers: &[],
            address: envoy.edge(),
            processes: envoy.process().family(),
            server: Server::Envoy(Box::new(envoy)),
        }
    }
}

/// A control plane that publishes changes to a Redis; otherwise edges would not trust that Redis.
pub(crate) async fn publishing_to(redis: &RedisServer) -> ControlPlane {
    let url = format!("redis://127.0.0.1:{}", redis.port());
    ControlPlane::with_variables(&[
        ("EDGELINK_LINKS_DOMAINS", DOMAIN),
        ("EDGELINK_REDIS_URL", &url),
    ])
    .await
}

/// Creates links in the control plane, and in Redis both as a control plane writes them and as nginx reads them.
async fn create_links(control_plane: &ControlPlane, redis: &RedisServer) -> Vec<String> {
    let mut pipe = Pipe::open(redis).await;
    let mut codes = Vec::new();
    for _ in 0..LINKS {
        let link = control_plane.link("").to(TARGET).create().await;
        let code = link.code().to_owned();
        pipe.link(&code, TARGET);
        pipe.plain(&code, TARGET);
        codes.push(code);
    }
    pipe.flush();
    codes
}

/// Creates at least that many links, by thousands, in the control plane only; their codes.
pub(crate) async fn create_many(control_plane: &ControlPlane, count: usize) -> Vec<String> {
    const AT_ONCE: usize = 1_000;
    let mut codes = Vec::new();
    while codes.len() < count {
        let links = json!(vec![json!({ "longUrl": TARGET }); AT_ONCE]);
        let answer = control_plane.api("POST", "/links/bulk", &links).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let results = answer.body["results"].as_array().expect("results");
        let code = |result: &Value| result["link"]["shortCode"].as_str().map(str::to_owned);
        codes.extend(results.iter().map(|result| code(result).expect("a link")));
    }
    codes
}

async fn create_links_with_rules(control_plane: &ControlPlane) -> Vec<String> {
    let mut codes = Vec::new();
    for _ in 0..LINKS {
        let link = control_plane.link("").to(TARGET).create().await;
        let code = link.code().to_owned();
        let path = format!("/links/{code}/rules");
        let answer = control_plane.api("POST", &path, &rules()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        codes.push(code);
    }
    codes
}

/// Creates links in Redis only.
async fn fill_redis(redis: &RedisServer) -> Vec<String> {
    let mut pipe = Pipe::open(redis).await;
    let codes = never_issued(MANY_LINKS);
    for code in &codes {
        pipe.link(code, TARGET);
    }
    pipe.flush();
    codes
}
