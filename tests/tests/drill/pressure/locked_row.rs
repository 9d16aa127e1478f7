//! A row that is locked from outside, and a crowd that changes it.

use crate::clients::client;
use crate::production::{Tour, alias, create, edges, target};
use crate::seconds;
use crate::visitors::{Pace, Visitors};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{ControlPlane, Production, ProductionOptions, until};
use serde_json::json;
use sqlx::{Connection, MySqlConnection, raw_sql};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

const CROWD: usize = 64;
const CREATORS: usize = 4;
/// How often each of them creates a link.
const CREATION_PERIOD: Duration = Duration::from_millis(50);
/// Links that are followed once each, so that edges have to ask for them.
const OTHERS: usize = 2_000;
const PACE: Pace = Pace {
    connections: 8,
    rate: Some(40),
};

/// The statuses of answers, and how long they took.
#[derive(Debug, Default)]
struct Answers(Vec<(u16, Duration)>);

impl Answers {
    fn count(&self, is_counted: impl Fn(u16) -> bool) -> usize {
        let statuses = self.0.iter().filter(|(status, _)| is_counted(*status));
        statuses.count()
    }

    fn quantile(&self, share: f64) -> Duration {
        let mut times: Vec<Duration> = self.0.iter().map(|(_, time)| *time).collect();
        times.sort_unstable();
        let at = (times.len().saturating_sub(1) as f64 * share) as usize;
        times.get(at).copied().unwrap_or_default()
    }
}

/// Requests that are sent again and again until the drill says so.
struct Requests {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Answers>,
}

impl Requests {
    /// Starts so many clients, which send a request each `period`, or as fast as they are answered.
    fn start(
        clients: usize,
        period: Option<Duration>,
        request: impl Fn(&reqwest::Client) -> reqwest::RequestBuilder + Clone + Send + Sync + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let (stop, request) = (Arc::clone(&stop), request.clone());
            tasks.spawn(async move {
                let (http, mut answers) = (client(), Answers::default());
                let mut ticks = period.map(interval);
                if let Some(ticks) = &mut ticks {
                    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
                }
                while !stop.load(Ordering::Relaxed) {
                    if let Some(ticks) = &mut ticks {
                        ticks.tick().await;
                    }
                    let sent = Instant::now();
                    let answer = request(&http).send().await;
                    let status = answer.map_or(0, |answer| answer.status().as_u16());
                    answers.0.push((status, sent.elapsed()));
                }
                answers
            });
        }
        Self { stop, tasks }
    }

    async fn finish(self) -> Answers {
        self.stop.store(true, Ordering::Relaxed);
        let answers = self.tasks.join_all().await;
        Answers(answers.into_iter().flat_map(|one| one.0).collect())
    }
}

/// `SELECT ... FOR UPDATE` on one link, which 64 clients change meanwhile: links are created and followed as ever.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn locked_row() {
    let time = seconds("EDGELINK_TEST_DRILL_SECONDS", 25);
    let redis = RedisServer::start().await;
    let production = Production::start(&ProductionOptions::direct(&redis)).await;
    let control_plane = &production.control_planes[0];
    create(control_plane, "crowded", 1).await;
    create(control_plane, "other", OTHERS).await;
    let mut outsider = MySqlConnection::connect(&production.database.url("test_0"))
        .await
        .expect("a connection");
    // A scan of the table would keep the locks of all rows, and of the gaps between them, in the server's default isolation.
    let lock = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; SELECT * FROM links WHERE code = 'crowded-0' FOR UPDATE";
    let locked = raw_sql(lock).fetch_all(&mut outsider).await;
    assert_eq!(locked.expect("a lock").len(), 1);

    let crowd = changes(control_plane);
    let creators = creations(control_plane);
    // What exists is refused at once, though the link is locked.
    let aliases = taken_aliases(control_plane);
    let tour = Tour::of("other", OTHERS);
    let visitors = Visitors::start(&edges(&production), PACE, &tour);
    let rate = u64::from(PACE.rate.unwrap_or_default());
    visitors.await_sent(rate * time.as_secs()).await;
    let mut seen = visitors.finish().await;
    let created = creators.finish().await;
    let aliases = aliases.finish().await;
    let begun = Instant::now();
    raw_sql("ROLLBACK")
        .execute(&mut outsider)
        .await
        .expect("an end of the lock");
    let patch = json!({ "title": "free" });
    let path = format!("/links/{}", alias("crowded", 0));
    until("the link is changed", Duration::from_secs(30), async || {
        let answer = control_plane.api("PATCH", &path, &patch).await;
        (answer.status == 200).then_some(())
    })
    .await;
    let freed = begun.elapsed();
    let crowd = crowd.finish().await;

    let refused = created.count(|status| status == 503);
    let p99 = created.quantile(0.99);
    println!("\none link locked for {time:?}, {CROWD} clients that PATCH it");
    println!(
        "    PATCH of it: {} answers, {} of them 503",
        crowd.0.len(),
        crowd.count(|status| status == 503)
    );
    println!(
        "    POST /links: {} answers, {refused} of them 503 (goal: 1 % at most); p99 {p99:.1?} (goal: 250 ms)",
        created.0.len()
    );
    println!(
        "    POST /links with its alias: {} answers, {} of them 409",
        aliases.0.len(),
        aliases.count(|status| status == 409)
    );
    seen.print("    other links followed (goal: none wrong)");
    println!("    the link is changed {freed:.1?} after it was freed");
    assert!(refused * 100 <= created.0.len());
    let others = created.count(|status| status != 201 && status != 503);
    assert_eq!(others, 0, "answers that are none of 201 and 503");
    assert_eq!(aliases.count(|status| status != 409), 0);
    assert_eq!(seen.wrong + seen.unanswered, 0);
}

fn changes(control_plane: &ControlPlane) -> Requests {
    let path = format!("/links/{}", alias("crowded", 0));
    let (url, key) = (
        url(control_plane, &path),
        control_plane.admin_key().to_owned(),
    );
    let body = json!({ "longUrl": target("new") });
    Requests::start(CROWD, None, move |http| {
        http.patch(&url).header("x-api-key", &key).json(&body)
    })
}

fn creations(control_plane: &ControlPlane) -> Requests {
    let (url, key) = (
        url(control_plane, "/links"),
        control_plane.admin_key().to_owned(),
    );
    let body = json!({ "longUrl": target("new") });
    Requests::start(CREATORS, Some(CREATION_PERIOD), move |http| {
        http.post(&url).header("x-api-key", &key).json(&body)
    })
}

fn taken_aliases(control_plane: &ControlPlane) -> Requests {
    let (url, key) = (
        url(control_plane, "/links"),
        control_plane.admin_key().to_owned(),
    );
    let body = json!({ "longUrl": target("new"), "customSlug": alias("crowded", 0) });
    Requests::start(1, Some(CREATION_PERIOD), move |http| {
        http.post(&url).header("x-api-key", &key).json(&body)
    })
}

fn url(control_plane: &ControlPlane, path: &str) -> String {
    format!("http://{}/api/v1{path}", control_plane.address())
}
