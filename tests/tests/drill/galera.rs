//! Two control planes on a Galera cluster of three nodes, creating at full speed while nodes are killed in turn and come back.

use crate::acknowledged::Answers;
use crate::clients::{Clients, client};
use crate::replica::Replica;
use crate::seconds;
use edgelink_model::links::model::LinkContent;
use edgelink_settings::config::{StoreConfig, VisitsConfig};
use edgelink_store::{NewLink, Store, connect};
use edgelink_tests::servers::{GaleraCluster, RedisServer};
use edgelink_tests::stack::until;
use edgelink_wire::target::TargetUrl;
use edgelink_wire::{LinkKey, VisitsRequest};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::{JoinSet, block_in_place};

const KILLS: usize = 10;
const CLIENTS_EACH: usize = 8;
/// Links that each control plane has to create after a kill, and after a start, before the next one.
const LINKS_BETWEEN: usize = 300;
const LIMIT: Duration = Duration::from_secs(60);
const FOLLOWERS: usize = 16;
/// How often a link may be asked for until it is answered.
const TRIES: usize = 20;
/// A time without a created link that counts as a pause.
const PAUSE: Duration = Duration::from_millis(250);
/// Links with a limit, and the workers that ask for visits of each at once. A limit of one is that which is exceeded most easily.
const LIMITED_LINKS: u64 = 200;
const WORKERS: u8 = 8;
const MAX_VISITS: u64 = 1;

/// `make galera`. The control planes name the nodes in different orders, so that they write to two nodes at once, as they may
/// after a node was away; with EDGELINK_TEST_ONE_WRITER they name them in the same one.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make galera"]
async fn galera() {
    let folder = TempDir::new().expect("a temporary folder");
    let suspect_after = seconds("EDGELINK_TEST_SUSPECT_SECONDS", 5);
    let mut cluster = GaleraCluster::start(suspect_after);
    let redis = RedisServer::start().await;
    let first = cluster.database();
    let second = match std::env::var_os("EDGELINK_TEST_ONE_WRITER") {
        Some(_) => first.clone(),
        None => rotated(&first),
    };
    let one = control_plane("one", &folder, &first, &redis).await;
    let two = control_plane("two", &folder, &second, &redis).await;
    let urls = [one.url(), two.url()];
    let each = [Arc::new(Answers::new()), Arc::new(Answers::new())];
    let clients = each.iter().zip(&urls).map(|(answers, url)| {
        Clients::start(std::slice::from_ref(url), &one.key(), CLIENTS_EACH, answers)
    });
    let clients: Vec<Clients> = clients.collect();
    created(&each).await;
    println!("\nnodes go on without a silent one after {suspect_after:?}");
    for kill in 0..KILLS {
        kill_and_restart(&mut cluster, kill, &each).await;
    }
    for clients in clients {
        clients.finish().await;
    }
    verify(&cluster, &urls, &each).await;
    for url in &urls {
        assert_eq!(
            repairs(url).await,
            0,
            "a node that was behind was taken for an old database"
        );
    }
}

/// `make galera`: workers of edges ask for visits of the same links at two nodes at once. Blocks are not given back, so that all of
/// them together are what may be served.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute: make galera"]
async fn visits() {
    let cluster = GaleraCluster::start(Duration::from_secs(5));
    let one = store(&cluster.database()).await;
    one.migrate().await.expect("a schema");
    let url = cluster.nodes()[1].url("test_0");
    let two = store(&url).await;
    for n in 1..=LIMITED_LINKS {
        let key = create_limited(&one, n).await;
        let asking = (0..WORKERS).map(|worker| {
            let store = if worker % 2 == 0 { &one } else { &two };
            let request = VisitsRequest {
                worker: [worker; 16],
                number: 1,
                settled: None,
                wants: true,
            };
            let (store, key) = (Arc::clone(store), key.clone());
            tokio::spawn(async move { lease(&store, &key, &request).await })
        });
        let mut leased = 0;
        for asking in asking.collect::<Vec<_>>() {
            leased += asking.await.expect("an answer");
        }
        assert!(leased <= MAX_VISITS, "{leased} visits of {key:?}");
    }
    println!(
        "{LIMITED_LINKS} links with {MAX_VISITS} visits each: no more were leased by two nodes"
    );
}

async fn store(url: &str) -> Arc<Store> {
    let config = StoreConfig {
        timeout_ms: Duration::from_secs(20),
        ..StoreConfig::at(url)
    };
    connect(&config).await.expect("a store")
}

async fn create_limited(store: &Store, n: u64) -> LinkKey {
    let key: LinkKey = format!("a.example/limited{n}").parse().expect("a key");
    let target = TargetUrl::from_store("https://x.example/limited");
    let mut link = NewLink::new(n, key.clone(), LinkContent::to(target));
    link.content.details.max_visits = Some(MAX_VISITS);
    let created = store.create_links(vec![link]).await.expect("a link");
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    key
}

/// How many visits a worker gets. One that was undone five times in favour of others asks again.
async fn lease(store: &Store, key: &LinkKey, request: &VisitsRequest) -> u64 {
    let config = VisitsConfig::default();
    loop {
        match store.lease_visits(key, request, &config).await {
            Ok(answer) => return answer.expect("a request that is new").visits,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

async fn control_plane(name: &str, folder: &TempDir, url: &str, redis: &RedisServer) -> Replica {
    let redis = redis.url();
    let variables = [
        ("EDGELINK_STORE_URL", url),
        ("EDGELINK_REDIS_URL", &redis),
        (
            "EDGELINK_LINKS_CODE_KEY",
            "000102030405060708090a0b0c0d0e0f",
        ),
    ];
    Replica::start(name, folder.path(), &variables).await
}

/// The URL with the first of its nodes at the end.
fn rotated(url: &str) -> String {
    let (hosts, database) = url.rsplit_once('/').expect("a database");
    let (user, hosts) = hosts.split_once('@').expect("a user");
    let (first, rest) = hosts.split_once(',').expect("several nodes");
    format!("{user}@{rest},{first}/{database}")
}

async fn kill_and_restart(cluster: &mut GaleraCluster, kill: usize, each: &[Arc<Answers>; 2]) {
    let victim = kill % cluster.nodes().len();
    let writes = block_in_place(|| cluster.writes());
    let start = Instant::now();
    block_in_place(|| cluster.kill(victim));
    created(each).await;
    let went_on = start.elapsed();
    let start = Instant::now();
    block_in_place(|| cluster.restart(victim));
    let joined = start.elapsed();
    created(each).await;
    println!(
        "node {victim} killed (transactions of each node since its start: {writes:?}): {LINKS_BETWEEN} more links by each control plane \
         after {went_on:.1?}; back after {joined:.1?}"
    );
}

/// Returns when each control plane has created some more links.
async fn created(each: &[Arc<Answers>; 2]) {
    let before = each.each_ref().map(|answers| answers.count());
    until("links are created", LIMIT, async || {
        let mut counts = each.iter().zip(before);
        let is_enough = counts.all(|(answers, before)| answers.count() >= before + LINKS_BETWEEN);
        is_enough.then_some(())
    })
    .await;
}

async fn verify(cluster: &GaleraCluster, urls: &[String; 2], each: &[Arc<Answers>; 2]) {
    let all = Answers::together(each);
    block_in_place(|| all.verify(&cluster.nodes()[0], "test_0"));
    for (answers, name) in each.iter().zip(["one", "two"]) {
        let (count, longest, sum) = answers.pauses(PAUSE);
        println!(
            "control plane {name}: {count} pauses over {PAUSE:?}, the longest {longest:.2?}, together {sum:.2?}"
        );
    }
    let links = all.links();
    let count = links.len();
    follow(urls, links).await;
    println!("{count} links followed at both control planes");
    // Whatever was committed before is there when the statement begins.
    let checksum = "SET SESSION wsrep_sync_wait = 1; CHECKSUM TABLE test_0.links";
    let sums = block_in_place(|| {
        cluster
            .nodes()
            .iter()
            .map(|node| node.execute(checksum))
            .collect::<HashSet<_>>()
    });
    assert_eq!(sums.len(), 1, "the nodes differ: {sums:?}");
    println!("the table of links is the same on all nodes");
}

/// Every link leads where it is to, at both control planes.
async fn follow(urls: &[String; 2], links: Vec<(String, String)>) {
    let http = client();
    let mut followers = JoinSet::new();
    for part in links.chunks(links.len().div_ceil(FOLLOWERS)) {
        let (http, urls, part) = (http.clone(), urls.clone(), part.to_vec());
        followers.spawn(async move {
            for (code, target) in &part {
                for url in &urls {
                    assert_leads_to(&http, &format!("{url}/{code}"), target).await;
                }
            }
        });
    }
    followers.join_all().await;
}

/// A control plane may say a few times that it cannot tell now (503), and nothing else but the target.
async fn assert_leads_to(http: &reqwest::Client, url: &str, target: &str) {
    for _ in 0..TRIES {
        let answer = http.get(url).header("host", "go.example").send().await;
        let answer = answer.expect("an answer");
        let location = answer.headers().get("location");
        if location.is_some_and(|location| location == target) {
            return;
        }
        assert_eq!(answer.status(), 503, "{url}: {answer:?}");
    }
    panic!("{url} is not answered");
}

/// How often a control plane found that the database went back.
async fn repairs(url: &str) -> u64 {
    let text = reqwest::get(format!("{url}/metrics"))
        .await
        .expect("metrics");
    let text = text.text().await.expect("text");
    let is_repair = |line: &&str| {
        line.starts_with("edgelink_feed_generations_total") && line.contains("reason=\"database\"")
    };
    let lines = text.lines().filter(is_repair);
    let counts = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    counts.sum()
}
