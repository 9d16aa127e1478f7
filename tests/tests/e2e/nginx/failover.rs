//! nginx while Envoys and control planes are gone.

use edgelink_tests::certificates::Authority;
use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{ControlPlane, Envoy, EnvoyOptions, Nginx, Signal, free_port, until};
use edgelink_wire::code::RESERVED_WORDS;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(30);
const TARGET: &str = "https://example.com/known";

struct Front {
    nginx: Arc<Nginx>,
    envoy: Envoy,
    control_plane: ControlPlane,
}

impl Front {
    async fn start(variables: &[(&str, &str)]) -> Self {
        let seconds = [("EDGELINK_LINKS_SHARED_CACHE_SECONDS", "1")];
        let control_plane = ControlPlane::with_variables(&seconds).await;
        let options = EnvoyOptions {
            public_pages: true,
            ..EnvoyOptions::default()
        };
        let planes = [control_plane.address()];
        let envoy = Envoy::start(&options, &planes).await;
        // Another control plane does not answer, so that both are out of rotation once this one is gone.
        let of_nginx = [planes[0], SocketAddr::from(([127, 0, 0, 1], 9))];
        let nginx = Arc::new(Nginx::start(&[envoy.edge()], &of_nginx, variables).await);
        Self {
            nginx,
            envoy,
            control_plane,
        }
    }

    async fn create(&self, alias: &str) {
        self.control_plane.link(alias).to(TARGET).create().await;
    }

    /// Whether an Envoy has answered, which says from which tier.
    async fn is_by_envoy(&self, path: &str) -> bool {
        let answer = self.nginx.follow(path).await;
        let tier = answer.header("x-edgelink-tier");
        answer.status == 302 && tier.is_some_and(|tier| tier != "stale")
    }
}

/// Visitors of a link who count what they get.
struct Load {
    visitors: JoinSet<()>,
    answers: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    fn start(nginx: &Arc<Nginx>, path: &'static str) -> Self {
        let mut load = Self {
            visitors: JoinSet::new(),
            answers: Arc::default(),
            is_over: Arc::default(),
        };
        for _ in 0..4 {
            let (answers, is_over) = (Arc::clone(&load.answers), Arc::clone(&load.is_over));
            let nginx = Arc::clone(nginx);
            load.visitors.spawn(async move {
                let mut connection = nginx.connect().await.expect("TLS");
                while !is_over.load(Ordering::Relaxed) {
                    let answer = connection.exchange(&Request::get(path), b"").await;
                    let answer = answer.expect("an answer");
                    assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
                    // nginx closes a connection after 1,000 requests.
                    if answer.header("connection") == Some("close") {
                        connection = nginx.connect().await.expect("TLS");
                    }
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        load
    }

    async fn await_answers(&self, more: usize) {
        let before = self.answers.load(Ordering::Relaxed);
        until("answers", LIMIT, async || {
            (self.answers.load(Ordering::Relaxed) >= before + more).then_some(())
        })
        .await;
    }

    /// Ends it; each visitor was answered right each time.
    async fn end(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.visitors.join_all().await;
        self.answers.load(Ordering::Relaxed)
    }
}

/// By a name, for nginx checks no address in a certificate.
#[tokio::test]
async fn control_plane_when_its_certificate_is_for_the_name_answers() {
    let authority = Authority::new();
    let own = authority.issue("control-plane");
    let public = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = |path: &Path| path.to_str().expect("a path").to_owned();
    let control_plane = ControlPlane::with_variables(&[
        ("EDGELINK_SERVER_PUBLIC_LISTEN", &public.to_string()),
        ("EDGELINK_TLS_LISTENERS", "public"),
        ("EDGELINK_TLS_CERTIFICATE_FILE", &file(&own.certificate)),
        ("EDGELINK_TLS_KEY_FILE", &file(&own.key)),
    ])
    .await;
    control_plane.link("known").to(TARGET).create().await;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let (ours, others) = (file(&authority.file()), Authority::new());
    let others = file(&others.file());
    for (authority, name, status) in [
        (&ours, "localhost", 302),
        (&ours, "other.example", 503),
        (&others, "localhost", 503),
    ] {
        let variables = [
            ("EDGELINK_CONTROL_PLANE_CA", &**authority),
            ("EDGELINK_CONTROL_PLANE_NAME", name),
        ];
        let nginx = Nginx::start(&[nowhere], &[public], &variables).await;
        let answer = nginx.follow("/known").await;
        assert_eq!(answer.status, status, "{name}: {}", nginx.log());
    }
}

#[tokio::test]
async fn links_when_envoy_and_control_plane_are_gone_are_followed() {
    let mut front = Front::start(&[]).await;
    for alias in ["known", "other", "late"] {
        front.create(alias).await;
    }
    let load = Load::start(&front.nginx, "/known");
    load.await_answers(200).await;
    front.envoy.process().kill();
    load.await_answers(400).await;
    let answer = front.nginx.follow("/other").await;
    assert_eq!((answer.status, answer.location()), (302, Some(TARGET)));
    assert_eq!(answer.header("cache-control"), Some("private, max-age=0"));
    assert_eq!(answer.header("x-edgelink-tier"), None);
    front.envoy.restart().await;
    until("Envoy answers again", LIMIT, async || {
        front.is_by_envoy("/known").await.then_some(())
    })
    .await;
    println!("{} answers, none lost", load.end().await);
    let noted = r#""answered_by":"control_planes","status":"302""#;
    until("the failover is noted", LIMIT, async || {
        front.nginx.events().contains(noted).then_some(())
    })
    .await;

    front.envoy.process().kill();
    assert_eq!(front.nginx.follow("/known").await.status, 302);
    front.control_plane.process().kill();
    until("a cached link is said to be stale", LIMIT, async || {
        let answer = front.nginx.follow("/known").await;
        assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
        (answer.header("x-edgelink-tier") == Some("stale")).then_some(())
    })
    .await;
    let answer = front.nginx.follow("/late").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(answer.header("strict-transport-security").is_some());
    assert!(String::from_utf8_lossy(&answer.body).contains("Not available"));
    assert_eq!(front.nginx.follow("/503.html").await.status, 404);

    front.control_plane.restart().await;
    until("the control plane answers", LIMIT, async || {
        (front.nginx.follow("/late").await.status == 302).then_some(())
    })
    .await;
    front.envoy.restart().await;
    until("Envoy answers", LIMIT, async || {
        front.is_by_envoy("/late").await.then_some(())
    })
    .await;
}

#[tokio::test]
async fn envoy_when_it_hangs_is_passed_over_until_it_answers() {
    let mut front = Front::start(&[("EDGELINK_FRONT_ANSWER_SECONDS", "1")]).await;
    front.create("known").await;
    assert!(front.is_by_envoy("/known").await);
    front.envoy.process().signal(Signal::STOP);
    let out_of_rotation = "upstream server temporarily disabled while reading response header";
    until("Envoy is out of rotation", LIMIT, async || {
        assert_eq!(front.nginx.follow("/known").await.status, 302);
        front.nginx.log().contains(out_of_rotation).then_some(())
    })
    .await;
    front.envoy.process().signal(Signal::CONT);
    until("Envoy answers", LIMIT, async || {
        front.is_by_envoy("/known").await.then_some(())
    })
    .await;
}

/// A change is seen, however often the link is followed; only what is public is reached; and a link that not every visitor may
/// follow alike is not kept.
#[tokio::test]
async fn nginx_when_envoy_is_gone_shows_only_public_pages() {
    let mut front = Front::start(&[]).await;
    front.create("known").await;
    let limited = front.control_plane.link("limited").to(TARGET).max_visits(2);
    limited.create().await;
    front.envoy.process().kill();
    let nginx = &front.nginx;

    assert_eq!(nginx.follow("/known").await.location(), Some(TARGET));
    let changed = json!({ "longUrl": "https://example.com/changed" });
    let answer = front
        .control_plane
        .api("PATCH", "/links/known", &changed)
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    until("the change is seen", LIMIT, async || {
        let answer = nginx.follow("/known").await;
        (answer.location() == Some("https://example.com/changed")).then_some(())
    })
    .await;
    for _ in 0..3 {
        let head = nginx.visit(&Request::new("HEAD", b"/limited")).await;
        assert_eq!(head.unwrap().status, 302, "HEAD is no visit");
    }
    let mut visits = Vec::new();
    for _ in 0..3 {
        visits.push(nginx.follow("/limited").await.status);
    }
    assert_eq!(visits, [302, 302, 410]);
    for (path, status) in [("/known+", 200), ("/robots.txt", 200), ("/+/report", 200)] {
        assert_eq!(nginx.follow(path).await.status, status, "{path}");
    }
    let mut hidden: Vec<String> = [
        "/openapi.json",
        "/rest/v3/health",
        "/%6detrics",
        "//metrics",
    ]
    .map(str::to_owned)
    .into();
    for word in RESERVED_WORDS.iter().filter(|word| **word != "robots.txt") {
        hidden.extend(
            ["", "/", "/live", "/v1/links", "?a", "+"].map(|rest| format!("/{word}{rest}")),
        );
        hidden.push(format!("/{}", word.to_uppercase()));
    }
    let admin_key = front.control_plane.admin_key().as_bytes().to_vec();
    for path in hidden {
        let request = Request::get(&path).header("x-api-key", &admin_key);
        let answer = nginx.visit(&request).await.expect("an answer");
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.body.starts_with(b"<html>"), "{path}: of nginx");
    }
}
