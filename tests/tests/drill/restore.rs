//! A database is lost, and restored by the runbook.

use crate::production::{alias, create, edges, target};
use crate::runbook::{Runbook, write_client_settings};
use crate::visitors::{Journey, Pace, Visitors};
use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::servers::{ClickHouseServer, RedisServer};
use edgelink_tests::stack::{Connection, ControlPlane, Production, ProductionOptions, until};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Links that stay as they are, which visitors follow all the time.
const KEPT: usize = 500;
/// Links that are changed, and links that are deleted, after the backup.
const CHANGED: usize = 200;
/// Links with codes of the system that are created in each step.
const CODES: usize = 2_000;
/// How often the link of a tenant is followed.
const CLICKS: u64 = 20;
/// Numbers that each issuer has drawn since the backup, beside those of these links: more than are skipped where it is not said how
/// many they are.
const DRAWN: u64 = 650_000;
/// What the operator says of them.
const LINKS_SINCE: &str = "700000";
const READS: Pace = Pace {
    connections: 32,
    rate: Some(500),
};
/// Connections to each Envoy, so that each worker has some.
const CONNECTIONS: usize = 8;
const LIMIT: Duration = Duration::from_secs(120);

/// `make restore`: once with Redis as it was, once with an empty one.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make restore"]
async fn restore() {
    let redis = RedisServer::start().await;
    let clickhouse = ClickHouseServer::start();
    let options = ProductionOptions {
        variables: vec![
            ("EDGELINK_ANALYTICS_ENGINE", "clickhouse".to_owned()),
            ("EDGELINK_ANALYTICS_CLICKHOUSE_URL", clickhouse.url()),
        ],
        ..ProductionOptions::direct(&redis)
    };
    let mut production = Production::start(&options).await;
    let home = TempDir::new().expect("a temporary folder");
    let mut drill = Drill::new(&production, &redis, home.path());
    let control_plane = &production.control_planes[0];
    create(control_plane, "kept", KEPT).await;
    create(control_plane, "changed", CHANGED).await;
    create(control_plane, "deleted", CHANGED).await;
    drill.create_codes(control_plane).await;
    let tour = Arc::new(Kept::default());
    let visitors = Visitors::start(&edges(&production), READS, &tour);
    visitors.await_sent(4 * KEPT as u64).await;
    for is_redis_empty in [false, true] {
        println!(
            "\nwith {} Redis:",
            if is_redis_empty {
                "an empty"
            } else {
                "the same"
            }
        );
        drill.round(&mut production, &redis, is_redis_empty).await;
    }
    let mut seen = visitors.finish().await;
    seen.print("links that never changed, followed all the time");
    let unavailable = tour.unavailable.load(Ordering::Relaxed);
    println!("    {unavailable} of them were 503, while caches were filled again");
    assert_eq!(seen.wrong + seen.unanswered, 0);
}

/// Links that lead where they did, or nowhere for a moment: a flush has dropped what was stale, and each link is looked up again.
#[derive(Default)]
struct Kept {
    unavailable: AtomicU64,
}

impl Journey for Kept {
    fn path(&self, n: u64) -> String {
        format!(
            "/{}",
            alias("kept", usize::try_from(n).expect("a number") % KEPT)
        )
    }

    fn is_right(&self, path: &str, answer: &Answer, _sent: Instant) -> bool {
        if answer.status == 503 {
            self.unavailable.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        answer.location() == Some(target(&path[1..]).as_str())
    }
}

/// What the drill knows.
struct Drill {
    runbook: Runbook,
    /// All codes that were ever given out.
    codes: HashSet<String>,
    /// Tenants that were lost with their database.
    lost: Vec<Tenant>,
    /// How often the database was lost.
    rounds: usize,
}

/// A tenant, and the key of its admin.
struct Tenant {
    id: u64,
    key: String,
}

impl Tenant {
    async fn make(control_plane: &ControlPlane, name: &str) -> Self {
        let made = control_plane
            .api("POST", "/tenants", &json!({ "name": name }))
            .await;
        assert_eq!(made.status, 201, "{made:?}");
        let key = made.body["adminKey"]["key"].as_str();
        Self {
            id: made.body["id"].as_u64().expect("an id"),
            key: key.expect("a key").to_owned(),
        }
    }

    /// How many clicks its links have, by ClickHouse.
    async fn clicks(&self, control_plane: &ControlPlane) -> u64 {
        let path = "/analytics?groupBy=links";
        let answer = control_plane
            .api_as(&self.key, "GET", path, &Value::Null)
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["totals"]["clicks"].as_u64().expect("a number")
    }
}

impl Drill {
    fn new(production: &Production, redis: &RedisServer, home: &Path) -> Self {
        write_client_settings(home, production.database.port());
        let runbook = Runbook::with(&[
            ("HOME", &home.display().to_string()),
            ("DATABASE", "test_0"),
            ("LINKS_SINCE", LINKS_SINCE),
            ("BACKUP", &home.join("backup.sql.gz").display().to_string()),
            ("EDGELINK_STORE_URL", &production.database.url("test_0")),
            ("EDGELINK_REDIS_URL", &redis.url()),
            ("EDGELINK_LINKS_DOMAINS", edgelink_tests::scenario::DOMAIN),
        ]);
        Self {
            runbook,
            codes: HashSet::new(),
            lost: Vec::new(),
            rounds: 0,
        }
    }

    async fn round(
        &mut self,
        production: &mut Production,
        redis: &RedisServer,
        is_redis_empty: bool,
    ) {
        self.rounds += 1;
        self.print_step("backup");
        let late = format!("late{}", self.rounds);
        self.change(production, &late).await;
        let issued = issuers(production, "MAX");
        let lost = Instant::now();
        production.database.replace();
        for control_plane in &mut production.control_planes {
            control_plane.process().terminate().await;
        }
        if is_redis_empty {
            assert_eq!(redis.ask(&["FLUSHALL"]).trim(), "OK");
        }
        for step in ["load", "forget"] {
            self.print_step(step);
        }
        let least = issuers(production, "MIN");
        assert!(
            least >= issued,
            "{least} is next, and {issued} were drawn before"
        );
        let started = Instant::now();
        for control_plane in &mut production.control_planes {
            control_plane.restart().await;
        }
        print_time("two control planes started", started);
        self.await_everywhere(production, &late).await;
        print_time("from their start until all is right at all edges", started);
        print_time("from the loss until then", lost);
        self.runbook.run("check");
        self.check_tenants(&production.control_planes[0]).await;
        let (before, began) = (self.codes.len(), Instant::now());
        for control_plane in &production.control_planes {
            self.create_codes(control_plane).await;
        }
        let new = self.codes.len() - before;
        print_time(
            &format!("{new} new codes, none of the {before} from before"),
            began,
        );
    }

    /// Runs a step of the runbook.
    fn print_step(&self, step: &str) {
        let began = Instant::now();
        let text = self.runbook.run(step);
        print_time(step, began);
        print!("{text}");
    }

    /// What the backup does not have, known to every worker.
    async fn change(&mut self, production: &mut Production, late: &str) {
        let draw = format!("UPDATE test_0.issuers SET next = next + {DRAWN}");
        production.database.execute(&draw);
        let control_plane = &mut production.control_planes[1];
        // It draws from there on.
        control_plane.process().terminate().await;
        control_plane.restart().await;
        self.create_codes(control_plane).await;
        let production = &*production;
        let control_plane = &production.control_planes[1];
        let mut api = control_plane.connect().await;
        for n in 0..CHANGED {
            let body = json!({ "longUrl": "https://example.com/since" });
            let path = format!("/links/{}", alias("changed", n));
            let answer = control_plane
                .api_over(&mut api, "PATCH", &path, &body)
                .await;
            assert_eq!(answer.expect("an answer").status, 200);
            let path = format!("/links/{}", alias("deleted", n));
            let answer = control_plane
                .api_over(&mut api, "DELETE", &path, &Value::Null)
                .await;
            assert_eq!(answer.expect("an answer").status, 204);
        }
        create(control_plane, late, CHANGED).await;
        self.create_codes(control_plane).await;
        let tenant = Tenant::make(control_plane, late).await;
        follow_link_of(&tenant, production, late).await;
        self.lost.push(tenant);
        let since = |path: &str| match path.split('-').next() {
            Some("/changed") => Some("https://example.com/since".to_owned()),
            Some("/deleted") => None,
            _ => Some(target(&path[1..])),
        };
        for prefix in ["changed", "deleted", late] {
            await_answers(production, prefix, since).await;
        }
    }

    /// Lost tenants have no key, and what ClickHouse has of them belongs to no other one.
    async fn check_tenants(&self, control_plane: &ControlPlane) {
        for lost in &self.lost {
            let answer = control_plane
                .api_as(&lost.key, "GET", "/analytics", &Value::Null)
                .await;
            assert_eq!(answer.status, 401, "tenant {}", lost.id);
        }
        let name = format!("new{}", self.rounds);
        let new = Tenant::make(control_plane, &name).await;
        let greatest = self.lost.iter().map(|lost| lost.id).max();
        assert!(Some(new.id) > greatest, "{} was out before", new.id);
        assert_eq!(new.clicks(control_plane).await, 0);
        let lost: Vec<u64> = self.lost.iter().map(|lost| lost.id).collect();
        println!(
            "a new tenant has the id {}, the lost ones had {lost:?}: 0 of their clicks are its own",
            new.id
        );
    }

    /// Waits until everything is as in the backup at every worker.
    async fn await_everywhere(&self, production: &Production, late: &str) {
        for prefix in ["changed", "deleted"] {
            await_answers(production, prefix, |path| Some(target(&path[1..]))).await;
        }
        await_answers(production, late, |_| None).await;
    }

    /// Creates links with codes of the system, none of which was there before.
    async fn create_codes(&mut self, control_plane: &ControlPlane) {
        for _ in 0..CODES / 1000 {
            let links: Vec<Value> = (0..1000)
                .map(|n| json!({ "longUrl": format!("https://example.com/code/{n}") }))
                .collect();
            // The numbers may be used up until the bound has risen, which takes a minute.
            let links = json!(links);
            let answer = until("links can be created", LIMIT, async || {
                let answer = control_plane.api("POST", "/links/bulk", &links).await;
                (answer.body["created"] == 1000).then_some(answer)
            })
            .await;
            for item in answer.body["results"].as_array().expect("results") {
                let code = item["link"]["shortCode"].as_str().expect("a code");
                assert!(
                    self.codes.insert(code.to_owned()),
                    "{code} was given out twice"
                );
            }
        }
    }
}

/// Has a link of a tenant followed, until ClickHouse has all of it.
async fn follow_link_of(tenant: &Tenant, production: &Production, name: &str) {
    let control_plane = &production.control_planes[1];
    let code = format!("{name}-of-tenant");
    let link = json!({ "longUrl": target(&code), "customSlug": code });
    let made = control_plane
        .api_as(&tenant.key, "POST", "/links", &link)
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    let mut connection = production.envoys[0].connect().await;
    for _ in 0..CLICKS {
        let answer = follow(&mut connection, &format!("/{code}")).await;
        assert_eq!(answer.location(), Some(target(&code).as_str()));
    }
    until("ClickHouse has the clicks", LIMIT, async || {
        (tenant.clicks(control_plane).await == CLICKS).then_some(())
    })
    .await;
}

/// The least or the greatest of the next numbers of issuers.
fn issuers(production: &Production, which: &str) -> u64 {
    let next = format!("SELECT {which}(next) FROM test_0.issuers");
    let next = production.database.execute(&next);
    next.trim().parse().expect("a number")
}

fn print_time(what: &str, since: Instant) {
    println!("{what:<52}{:>8.1?}", since.elapsed());
}

/// Waits until the links of a prefix lead where they have to on all connections to all edges; `None` is 404.
async fn await_answers(
    production: &Production,
    prefix: &str,
    expected: impl Fn(&str) -> Option<String>,
) {
    for envoy in &production.envoys {
        for _ in 0..CONNECTIONS {
            let mut connection = envoy.connect().await;
            for n in 0..CHANGED {
                let path = format!("/{}", alias(prefix, n));
                let expected = expected(&path);
                until(
                    &format!("{path} leads to {expected:?}"),
                    LIMIT,
                    async || {
                        let answer = follow(&mut connection, &path).await;
                        let is_right = match &expected {
                            Some(target) => answer.location() == Some(target),
                            None => answer.status == 404,
                        };
                        is_right.then_some(())
                    },
                )
                .await;
            }
        }
    }
}

async fn follow(connection: &mut Connection, path: &str) -> Answer {
    let answer = connection.exchange(&Request::get(path), b"").await;
    answer.expect("an answer")
}
