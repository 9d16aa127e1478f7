//! All five sources of numbers create and redirect end to end: on MariaDB, with two control planes behind an Envoy each.

use crate::clients::{client, code};
use crate::replica::Replica;
use edgelink_tests::scenario::Answer;
use edgelink_tests::servers::{MariaDb, RedisServer, ZooKeeper};
use edgelink_tests::stack::{Envoy, EnvoyOptions, until};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use tempfile::TempDir;

const LINKS: usize = 200;

/// `make issuer-sources`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a while: make issuer-sources"]
async fn sources() {
    let database = MariaDb::start();
    let zookeeper = ZooKeeper::start();
    let servers = zookeeper.address();
    println!();
    for source in ["segment", "counter", "zookeeper", "snowflake", "digest"] {
        let folder = TempDir::new().expect("a temporary folder");
        let url = database.database();
        // Each control plane gets the other's links by the feed.
        let redis = RedisServer::start().await;
        let redis_url = redis.url();
        let variables = [
            ("EDGELINK_REDIS_URL", redis_url.as_str()),
            ("EDGELINK_STORE_URL", url.as_str()),
            ("EDGELINK_NUMBERS_SOURCE", source),
            ("EDGELINK_NUMBERS_ZOOKEEPER_SERVERS", servers.as_str()),
            (
                "EDGELINK_LINKS_CODE_LENGTH",
                if source == "snowflake" { "10" } else { "7" },
            ),
        ];
        let one = Replica::start("one", folder.path(), &variables).await;
        let two = Replica::start("two", folder.path(), &variables).await;
        let options = EnvoyOptions {
            domains: vec!["go.example".to_owned()],
            ..EnvoyOptions::default()
        };
        let envoy = Envoy::start(&options, &[one.address(), two.address()]).await;
        let mut codes = HashSet::new();
        let mut links = Vec::new();
        for n in 0..LINKS {
            let maker = if n % 2 == 0 { &one } else { &two };
            let target = format!("https://example.com/{source}/{n}");
            let code = create(maker, &target).await;
            assert!(codes.insert(code.clone()), "{code} was given out twice");
            links.push((code, target));
        }
        for (code, _) in &links {
            await_link(&one, code).await;
            await_link(&two, code).await;
        }
        for (code, target) in &links {
            follow(&envoy, code, target).await;
        }
        let example = &links[0].0;
        println!(
            "{source:<10} {LINKS} links by two control planes, followed through Envoy: {example}"
        );
    }
}

async fn create(replica: &Replica, target: &str) -> String {
    let request = client().post(format!("{}/api/v1/links", replica.url()));
    let request = request.header("x-api-key", replica.key());
    let answer = request.json(&json!({ "longUrl": target })).send().await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status(), 201);
    code(&answer.json::<Value>().await.expect("a link"))
}

/// Returns when a control plane knows a link that perhaps another one has created.
async fn await_link(replica: &Replica, code: &str) {
    let url = format!("{}/{code}", replica.url());
    until("a link is known", Duration::from_secs(10), async || {
        let answer = client().get(&url).send().await;
        answer
            .is_ok_and(|answer| answer.status() == 302)
            .then_some(())
    })
    .await;
}

async fn follow(envoy: &Envoy, code: &str, target: &str) {
    let answer: Answer = envoy.follow(&format!("/{code}")).await;
    assert_eq!(answer.status, 302, "{code}");
    let location = answer.headers.iter().find(|(name, _)| name == "location");
    assert_eq!(
        location.map(|(_, value)| value.as_slice()),
        Some(target.as_bytes())
    );
}
