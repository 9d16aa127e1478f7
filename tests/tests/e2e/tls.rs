//! TLS between all parts, and the replacement of certificates and tokens while visitors come.

use edgelink_settings::config::StoreConfig;
use edgelink_tests::certificates::{Authority, Identity, replace};
use edgelink_tests::scenario::{DOMAIN, Request};
use edgelink_tests::servers::{MariaDb, RedisServer};
use edgelink_tests::stack::{
    Connection, ControlPlane, Envoy, EnvoyOptions, Filter, RedisOptions, free_port, root, until,
};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(20);
const OLD_TOKEN: &str = "the-old-token-of-the-edges";
const NEW_TOKEN: &str = "the-new-token-of-the-edges";
const REDIS_PASSWORD: &str = "the-password-of-redis";
const TARGET: &str = "https://example.com/target";

fn text(path: &Path) -> String {
    path.to_str().expect("a path").to_owned()
}

/// The bootstrap of an Envoy that opens another connection to control planes after every fifth request, and so shows soon
/// whether it still can.
fn often_connecting() -> String {
    if Filter::of_tests().connects_by_itself() {
        return Envoy::bootstrap_template();
    }
    let (own, more) = (
        "{ idle_timeout: 30s }",
        "{ idle_timeout: 30s, max_requests_per_connection: 5 }",
    );
    let cluster = fs::read_to_string(root().join("envoy/control-plane.yaml"));
    let cluster = cluster.expect("the template");
    assert_eq!(cluster.matches(own).count(), 1);
    let cluster = format!("\n{}", cluster.trim_end().replace(own, more));
    Envoy::bootstrap_template().replace("${CONTROL_PLANE_CLUSTER}", &cluster)
}

fn mariadb(identity: &Identity) -> MariaDb {
    MariaDb::start_with(&[
        &format!("--ssl-cert={}", text(&identity.certificate)),
        &format!("--ssl-key={}", text(&identity.key)),
        "--require-secure-transport=ON",
    ])
}

/// The URL of a new database, whose server has to have a certificate of that authority.
fn verified(database: &MariaDb, authority: &Path) -> String {
    let (url, authority) = (database.database(), text(authority));
    format!("{url}?ssl-mode=VERIFY_IDENTITY&ssl-ca={authority}")
}

#[tokio::test]
async fn database_certificate_when_of_another_authority_is_refused() {
    let (right, other) = (Authority::new(), Authority::new());
    let database = mariadb(&right.issue("mariadb"));
    let connect = async |authority: &Authority| {
        edgelink_store::connect(&StoreConfig::at(&verified(&database, &authority.file()))).await
    };
    let store = connect(&right).await.expect("a connection");
    store.ping().await.expect("an answer");
    let refused = match connect(&other).await {
        Ok(store) => store.ping().await.expect_err("no connection"),
        Err(refused) => refused,
    };
    assert!(refused.to_string().contains("certificate"), "{refused}");
}

/// All parts, with TLS between them.
struct Secured {
    servers: Authority,
    edges: Authority,
    folder: TempDir,
    database: MariaDb,
    redis: RedisServer,
    /// What the parts show, in files that are theirs.
    of_database: Identity,
    of_redis: Identity,
    of_control_plane: Identity,
    of_edge: Identity,
    control_plane: ControlPlane,
    edge_api: SocketAddr,
    /// Asks the control plane about every link.
    envoy: Envoy,
    /// Asks Redis first.
    with_redis: Envoy,
}

impl Secured {
    async fn start() -> Self {
        let (servers, edges) = (Authority::new(), Authority::new());
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("tokens"), OLD_TOKEN).expect("a file");
        fs::write(folder.path().join("redis-password"), REDIS_PASSWORD).expect("a file");
        fs::copy(edges.file(), folder.path().join("edges.pem")).expect("a file");
        fs::copy(servers.file(), folder.path().join("servers.pem")).expect("a file");
        let of_database = servers.issue("mariadb");
        let of_redis = servers.issue("redis");
        let of_control_plane = servers.issue("control-plane");
        let of_edge = edges.issue("edge");
        let database = mariadb(&of_database);
        let redis = RedisServer::with_tls(REDIS_PASSWORD, &of_redis, &servers.file()).await;
        let [edge_api, pages] =
            [(); 2].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        let file = |name: &str| text(&folder.path().join(name));
        let control_plane = ControlPlane::with_variables(&[
            ("EDGELINK_STORE_URL", &verified(&database, &servers.file())),
            ("EDGELINK_REDIS_URL", &redis.url()),
            ("EDGELINK_REDIS_CA_FILE", &text(&servers.file())),
            ("EDGELINK_SERVER_EDGE_LISTEN", &edge_api.to_string()),
            ("EDGELINK_SERVER_PUBLIC_LISTEN", &pages.to_string()),
            ("EDGELINK_SERVER_RELOAD_MS", "50"),
            ("EDGELINK_TLS_LISTENERS", "edge,public"),
            (
                "EDGELINK_TLS_CERTIFICATE_FILE",
                &text(&of_control_plane.certificate),
            ),
            ("EDGELINK_TLS_KEY_FILE", &text(&of_control_plane.key)),
            ("EDGELINK_TLS_EDGE_CLIENT_CA_FILE", &file("edges.pem")),
            ("EDGELINK_AUTH_EDGE_TOKENS", ""),
            ("EDGELINK_AUTH_EDGE_TOKEN_FILE", &file("tokens")),
        ])
        .await;
        let options = EnvoyOptions {
            fresh_seconds: 1,
            // nginx knows control planes by a name, and these have an address.
            public_pages: Filter::of_tests() != Filter::Nginx,
            bootstrap: Some(often_connecting()),
            variables: vec![
                ("EDGELINK_EDGE_TOKEN", String::new()),
                ("EDGELINK_EDGE_TOKEN_FILE", file("tokens")),
                ("EDGELINK_CONTROL_PLANE_CA", file("servers.pem")),
                ("EDGELINK_CLIENT_CERTIFICATE", text(&of_edge.certificate)),
                ("EDGELINK_CLIENT_KEY", text(&of_edge.key)),
                ("EDGELINK_PAGES", pages.to_string()),
                ("EDGELINK_REDIS_CA", file("servers.pem")),
                ("EDGELINK_REDIS_PASSWORD_FILE", file("redis-password")),
            ],
            ..EnvoyOptions::default()
        };
        let envoy = Envoy::start(&options, &[edge_api]).await;
        let options = EnvoyOptions {
            fresh_seconds: 5,
            feed: "poll",
            redis: Some(RedisOptions {
                mode: "pooled",
                ports: vec![redis.port()],
            }),
            ..options
        };
        let with_redis = Envoy::start(&options, &[edge_api]).await;
        Self {
            servers,
            edges,
            folder,
            database,
            redis,
            of_database,
            of_redis,
            of_control_plane,
            of_edge,
            control_plane,
            edge_api,
            envoy,
            with_redis,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Whether the edge API knows that client and that token.
    async fn takes(&self, identity: &Identity, token: &str) -> bool {
        let connected = self
            .servers
            .connect(self.edge_api, "http/1.1", Some(identity))
            .await;
        let Ok(stream) = connected else {
            return false;
        };
        let path = format!("/edge/v1/links/{DOMAIN}/nowhere");
        let bearer = format!("Bearer {token}");
        let request = Request::get(&path).header("authorization", bearer.as_bytes());
        let answer = Connection::over(stream).exchange(&request, b"").await;
        answer.is_ok_and(|answer| answer.status == 404)
    }

    /// Returns when Envoy has made further connections to the control planes, of which none has failed.
    async fn connects_again(&self) {
        if Filter::of_tests().connects_by_itself() {
            return self.asks_again().await;
        }
        let before = handshakes(&self.envoy, "control_plane").await;
        until("Envoy connects to the control plane", LIMIT, async || {
            (handshakes(&self.envoy, "control_plane").await > before + 5).then_some(())
        })
        .await;
        for envoy in [&self.envoy, &self.with_redis] {
            let stats = envoy.stats("cluster.control_plane").await;
            for failure in [
                "ssl.connection_error",
                "ssl.fail_verify_error",
                "upstream_cx_connect_fail",
            ] {
                let failed = stats.get(&format!("cluster.control_plane.{failure}"));
                assert_eq!(failed, 0, "{failure}");
            }
        }
    }

    /// Returns when edges have had answers about links that they did not know: the native module connects by itself, and counts no
    /// handshakes.
    async fn asks_again(&self) {
        for envoy in [&self.envoy, &self.with_redis] {
            let path = self.create().await;
            until("the edge has an answer", LIMIT, async || {
                (envoy.follow(&path).await.status == 302).then_some(())
            })
            .await;
        }
    }

    /// Creates a link, and gives its path.
    async fn create(&self) -> String {
        let link = self.control_plane.link("").to(TARGET).create().await;
        format!("/{}", link.code())
    }

    async fn replace_the_certificate_of_the_control_plane(&self) {
        let next = self.servers.issue("control-plane-next");
        self.of_control_plane.replace(&next);
        until(
            "the control plane shows the new certificate",
            LIMIT,
            async || {
                let stream = self.servers.connect(self.edge_api, "h2", None).await;
                let stream = stream.expect("a handshake");
                let shown = stream.get_ref().1.peer_certificates()?[0].clone();
                (shown == next.shown()).then_some(())
            },
        )
        .await;
    }

    /// The authority first, then the certificate, and at last the old authority is gone.
    async fn replace_the_certificate_and_the_authority_of_edges(&self) {
        let authority = Authority::new();
        let next = authority.issue("edge");
        let [old, new] =
            [&self.edges, &authority].map(|authority| fs::read(authority.file()).expect("a file"));
        replace(&self.file("edges.pem"), &[&old[..], &new].concat());
        until("both authorities are known", LIMIT, async || {
            self.takes(&next, OLD_TOKEN).await.then_some(())
        })
        .await;
        let old = self.edges.issue("old-edge");
        self.until_read("client", || self.of_edge.replace(&next))
            .await;
        self.connects_again().await;
        replace(&self.file("edges.pem"), &new);
        until("the old authority is unknown", LIMIT, async || {
            (!self.takes(&old, OLD_TOKEN).await).then_some(())
        })
        .await;
    }

    /// In one file, which edges and control planes share.
    async fn replace_the_token(&self) {
        let identity = self.of_edge.clone();
        replace(
            &self.file("tokens"),
            format!("{OLD_TOKEN}\n{NEW_TOKEN}\n").as_bytes(),
        );
        until("both tokens are known", LIMIT, async || {
            self.takes(&identity, NEW_TOKEN).await.then_some(())
        })
        .await;
        // An edge that starts, or connects, meanwhile takes the first of them.
        self.connects_again().await;
        replace(
            &self.file("tokens"),
            format!("{NEW_TOKEN}\n{OLD_TOKEN}\n").as_bytes(),
        );
        let replace_tokens = || {
            self.envoy.replace_token();
            self.with_redis.replace_token();
        };
        self.until_read("edge-token", replace_tokens).await;
        // Every worker has it, a moment later.
        self.connects_again().await;
        replace(&self.file("tokens"), format!("{NEW_TOKEN}\n").as_bytes());
        until("the old token is unknown", LIMIT, async || {
            (!self.takes(&identity, OLD_TOKEN).await).then_some(())
        })
        .await;
    }

    /// Changes files, and returns when both Envoys have read the secret again for it.
    async fn until_read(&self, secret: &str, change: impl FnOnce()) {
        if Filter::of_tests().connects_by_itself() {
            // The module reads the files as it connects, and the token where one is refused.
            return change();
        }
        let envoys = [&self.envoy, &self.with_redis];
        let mut before = Vec::new();
        for envoy in envoys {
            before.push(updated(envoy, secret).await);
        }
        change();
        for (envoy, before) in envoys.into_iter().zip(before) {
            until("Envoy reads a secret again", LIMIT, async || {
                (updated(envoy, secret).await != before).then_some(())
            })
            .await;
        }
    }

    async fn replace_the_certificate_of_redis(&self) {
        let next = self.servers.issue("redis-next");
        self.of_redis.replace(&next);
        let [certificate, key] =
            [&self.of_redis.certificate, &self.of_redis.key].map(|file| text(file));
        let answer = self.redis.ask(&[
            "CONFIG",
            "SET",
            "tls-cert-file",
            &certificate,
            "tls-key-file",
            &key,
        ]);
        assert_eq!(answer.trim(), "OK");
        let before = connections_to_redis(&self.with_redis).await;
        let killed = self
            .redis
            .ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        assert_ne!(killed.trim(), "0");
        until("Envoy connects to Redis again", LIMIT, async || {
            let answer = self.with_redis.follow(&self.create().await).await;
            assert_eq!(answer.header("location"), Some(TARGET), "{answer:?}");
            (connections_to_redis(&self.with_redis).await > before).then_some(())
        })
        .await;
    }

    async fn replace_the_certificate_of_the_database(&self) {
        let next = self.servers.issue("mariadb-next");
        self.of_database.replace(&next);
        self.database.execute("FLUSH SSL");
        let url = verified(&self.database, &self.servers.file());
        let store = edgelink_store::connect(&StoreConfig::at(&url))
            .await
            .expect("a connection");
        store.ping().await.expect("an answer");
    }
}

/// How often the edge has connected to Redis.
async fn connections_to_redis(envoy: &Envoy) -> u64 {
    match envoy.filter() {
        Filter::Wasm => handshakes(envoy, "redis").await,
        Filter::Native | Filter::Nginx => {
            envoy.figures().await.get("edgelink.redis_attempts.lookup")
        }
    }
}

/// How often Envoy has opened TLS to that cluster.
async fn handshakes(envoy: &Envoy, cluster: &str) -> u64 {
    let name = format!("cluster.{cluster}.ssl.handshake");
    envoy.stats(&name).await.get(&name)
}

/// When Envoy has read a secret.
async fn updated(envoy: &Envoy, secret: &str) -> String {
    let dump = envoy
        .admin("/config_dump?resource=dynamic_active_secrets")
        .await;
    let dump: Value = serde_json::from_str(&dump).expect("JSON");
    let secrets = dump["configs"].as_array().expect("secrets");
    let found = secrets.iter().find(|each| each["name"] == secret);
    found.expect("a secret")["last_updated"].to_string()
}

/// Visitors who come one after the other, until they are stopped.
struct Visitors {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    task: JoinHandle<Vec<String>>,
}

impl Visitors {
    /// They ask for links that are there, each known to Envoy for a second only, and for codes that were not asked for before.
    fn of(envoy: &Envoy, links: Vec<String>) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let address = envoy.edge();
        let task = tokio::spawn(come(address, links, stop.clone(), answered.clone()));
        Self {
            stop,
            answered,
            task,
        }
    }

    async fn go_on(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        until("visitors are answered", LIMIT, async || {
            (self.answered.load(Ordering::Relaxed) > before + 200).then_some(())
        })
        .await;
    }

    async fn assert_all_were_answered(self) {
        self.stop.store(true, Ordering::Relaxed);
        let wrong = self.task.await.expect("the visitors");
        assert!(wrong.is_empty(), "{wrong:?}");
        let answered = self.answered.load(Ordering::Relaxed);
        println!("{answered} visitors were answered, all of them right");
    }
}

async fn come(
    address: SocketAddr,
    links: Vec<String>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
) -> Vec<String> {
    let mut connection = Connection::open(address).await.expect("a connection");
    let mut wrong = Vec::new();
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let unknown = format!("/unknown{count}");
        let known = &links[count % links.len()];
        for (path, status) in [(known, 302), (&unknown, 404)] {
            match connection.exchange(&Request::get(path), b"").await {
                Ok(answer)
                    if answer.status == status
                        && (status == 404 || answer.header("location") == Some(TARGET)) => {}
                other => wrong.push(format!("{path}: {other:?}")),
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
        count += 1;
    }
    wrong
}

#[tokio::test]
async fn certificates_and_tokens_when_replaced_lose_no_visitor() {
    let secured = Secured::start().await;
    let mut links = Vec::new();
    for _ in 0..20 {
        links.push(secured.create().await);
    }
    let visitors =
        [&secured.envoy, &secured.with_redis].map(|envoy| Visitors::of(envoy, links.clone()));
    let go_on = async || {
        for visitors in &visitors {
            visitors.go_on().await;
        }
        secured.connects_again().await;
    };
    go_on().await;
    secured.replace_the_certificate_of_the_control_plane().await;
    go_on().await;
    secured
        .replace_the_certificate_and_the_authority_of_edges()
        .await;
    go_on().await;
    secured.replace_the_token().await;
    go_on().await;
    secured.replace_the_certificate_of_redis().await;
    go_on().await;
    secured.replace_the_certificate_of_the_database().await;
    go_on().await;
    for visitors in visitors {
        visitors.assert_all_were_answered().await;
    }
    if Filter::lacks("config_dump") {
        return;
    }
    let preview = secured.envoy.follow(&format!("{}+", links[0])).await;
    assert_eq!(preview.status, 200, "{preview:?}");
    for envoy in [&secured.envoy, &secured.with_redis] {
        let dump = envoy.admin("/config_dump?include_eds").await;
        assert!(dump.contains("edge-token"), "{dump}");
        let key = fs::read_to_string(&secured.of_edge.key).expect("a key");
        let key = key.lines().nth(1).expect("a line of the key");
        for secret in [OLD_TOKEN, NEW_TOKEN, REDIS_PASSWORD, key] {
            assert!(!dump.contains(secret), "{secret} is in {dump}");
        }
    }
}
