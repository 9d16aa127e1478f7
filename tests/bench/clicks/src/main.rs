//! Fills a database with clicks as specified by a [`FillSpec`] on standard input, in JSON: hour by hour, with days rolled
//! up as they end.

mod random;

use edgelink_click_store::ClickRetention;
use edgelink_clicks::analytics::{Chunk, Engine, SqlEngine};
use edgelink_settings::config::{AnalyticsConfig, StoreConfig};
use edgelink_store::{Store, connect};
use random::{Link, Random};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::spawn_blocking;

const HOUR: u64 = 3_600;

const DAY: u64 = 24 * HOUR;

/// Rows purged at once.
const PURGED: u32 = 100_000;

/// Clicks of many links and days.
#[derive(Clone, Debug, Deserialize)]
struct FillSpec {
    /// The URL of the database.
    url: String,
    /// The number of the links' domain.
    domain_id: u32,
    /// The numbers of the links, the most popular one first.
    links: Vec<u64>,
    /// All clicks.
    clicks: u64,
    /// Number of days, including the present one. `click_state` marks the first one as the next to roll up.
    days: u64,
    /// Orphan visits of the present day.
    orphans: u64,
}

#[tokio::main]
async fn main() {
    let spec: FillSpec = serde_json::from_reader(std::io::stdin()).expect("what to fill in");
    let settings = StoreConfig {
        timeout_ms: Duration::from_secs(60),
        ..StoreConfig::at(&spec.url)
    };
    let store = connect(&settings).await.expect("a store");
    fill(&spec, store).await;
}

async fn fill(spec: &FillSpec, store: Arc<Store>) {
    let settings = AnalyticsConfig::default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("a clock after 1970").as_secs();
    let today = now / DAY;
    let first = (today + 1 - spec.days) * DAY;
    let hours: Vec<u64> = (first..now)
        .step_by(usize::try_from(HOUR).expect("an hour"))
        .collect();
    let count = spec.clicks / hours.len() as u64;
    // Single clicks of past days would be purged.
    let sums = AnalyticsConfig {
        raw_days: 0,
        ..settings.clone()
    };
    let sums = SqlEngine::new(store.clone(), sums);
    let all = SqlEngine::new(store.clone(), settings.clone());
    let mut random = Random::new(spec.domain_id, links(spec, &store).await);
    for at in hours {
        let made = spawn_blocking(move || {
            let clicks = random.clicks(count, at, now);
            (random, clicks)
        });
        let clicks;
        (random, clicks) = made.await.expect("clicks");
        let orphans = if at + HOUR > now {
            random.orphans(spec.orphans, now)
        } else {
            Vec::new()
        };
        let engine = if at / DAY + settings.raw_days > today {
            &all
        } else {
            &sums
        };
        let chunk = Chunk::of(Vec::new(), &clicks, orphans);
        engine.write(&chunk).await.expect("written clicks");
        let day = at / DAY;
        if (at + HOUR).is_multiple_of(DAY) && day < today {
            while sums.upkeep(at + 3 * HOUR).await.expect("a day") {}
            let old = day + settings.hours_days < today;
            if old {
                purge(&store, &settings).await;
            }
            eprintln!("{} days are filled", day + 1 + spec.days - today - 1);
        }
    }
}

/// The links, the most popular one first.
async fn links(spec: &FillSpec, store: &Store) -> Vec<Link> {
    let found = store.keys_and_tags(&spec.links).await.expect("links");
    let found = found.into_iter().map(|(id, key, tags)| {
        let link = Link {
            id,
            key: key.into(),
            tags: tags.into(),
        };
        (id, link)
    });
    let mut found: HashMap<u64, Link> = found.collect();
    let links = spec.links.iter().map(|id| found.remove(id));
    links.collect::<Option<_>>().expect("all links")
}

async fn purge(store: &Store, settings: &AnalyticsConfig) {
    let kept = ClickRetention {
        hours: settings.hours_days,
        days: settings.days,
        raw: settings.raw_days,
    };
    while store
        .clicks()
        .purge_clicks(kept, PURGED)
        .await
        .expect("a purge")
        >= PURGED.into()
    {}
}
