//! Reports of visits to links, distributed by Zipf's law, by many kinds of browsers.

use edgelink_tests::scenario::{DOMAIN, Request};
use edgelink_tests::stack::{ControlPlane, EDGE_TOKEN, request_bytes};
use edgelink_wire::RedirectStatus;
use edgelink_wire::clicks::events::{Attributes, Event, EventsBuilder, Kind, MAX_BYTES};
use edgelink_wire::clicks::{BatchEvents, ClickBatch, MEDIA_TYPE, encode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

/// Clicks in a batch.
pub(crate) const EVENTS_OF_BATCH: usize = 10_000;

/// Links, a tenth of which has tags.
pub(crate) const LINKS: usize = 5_000;

/// Seconds for which an edge collects a batch.
const SECONDS_OF_BATCH: usize = 10;

const VISITORS: usize = 1_000_000;
const COUNTRIES: usize = 50;
const CITIES_OF_COUNTRY: usize = 20;
const USER_AGENTS: usize = 200;
const REFERRERS: usize = 100;

const LANGUAGES: [&str; 12] = [
    "en-us", "de-de", "fr-fr", "es-es", "en-gb", "pt-br", "it-it", "nl-nl", "pl-pl", "ja-jp",
    "de-at", "zh-cn",
];
const SOURCES: [&str; 6] = [
    "newsletter",
    "google",
    "facebook",
    "linkedin",
    "x",
    "partner",
];
const MEDIA: [&str; 4] = ["email", "cpc", "social", "banner"];

/// Creates the links, and returns their keys.
pub(crate) async fn create(plane: &ControlPlane) -> Vec<String> {
    let links: Vec<_> = (0..LINKS)
        .map(|n| {
            let tags: &[String] = match n % 10 {
                0 => &[format!("tag-{}", n % 70)],
                _ => &[],
            };
            json!({ "longUrl": format!("https://example.com/{n}"), "customSlug": slug(n), "tags": tags })
        })
        .collect();
    let answer = plane.api("POST", "/links/bulk", &json!(links)).await;
    assert_eq!(answer.body["created"], LINKS, "{answer:?}");
    (0..LINKS)
        .map(|n| format!("{DOMAIN}/{}", slug(n)))
        .collect()
}

fn slug(n: usize) -> String {
    format!("link-{n:04}")
}

/// Draws visits.
pub(crate) struct Visits {
    random: StdRng,
    hasher: RandomState,
    keys: Vec<String>,
    countries: Vec<String>,
    cities: Vec<String>,
    user_agents: Vec<String>,
    referrers: Vec<String>,
    campaigns: Vec<String>,
    workers: u8,
}

impl Visits {
    /// Prepares visits of these links.
    pub(crate) fn new(keys: Vec<String>) -> Self {
        let letters = |n: usize| [n / 26, n % 26].map(|n| char::from(b'A' + n as u8));
        Self {
            random: StdRng::seed_from_u64(7),
            hasher: RandomState::new(),
            keys,
            countries: (0..COUNTRIES)
                .map(|n| letters(n).iter().collect())
                .collect(),
            cities: (0..COUNTRIES * CITIES_OF_COUNTRY)
                .map(|n| format!("City of {}", n * 7919))
                .collect(),
            user_agents: (0..USER_AGENTS).map(user_agent).collect(),
            referrers: (0..REFERRERS)
                .map(|n| format!("www.site-{n}.example"))
                .collect(),
            campaigns: (0..40).map(|n| format!("campaign-2026-{n}")).collect(),
            workers: 0,
        }
    }

    /// Requests of a worker, each with one batch.
    pub(crate) fn requests(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.workers += 1;
        let worker = [self.workers; 16];
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
        let mut builder = EventsBuilder::new(RandomState::new(), MAX_BYTES);
        let mut request = |seq: usize| {
            for n in 0..EVENTS_OF_BATCH {
                let after = n * SECONDS_OF_BATCH / EVENTS_OF_BATCH;
                let at = now - SECONDS_OF_BATCH as u64 + after as u64;
                assert!(builder.push(&self.event(at)), "there is room");
            }
            let encoded = builder.take();
            let batch = ClickBatch {
                worker,
                seq: seq as u64,
                at: now,
                total: (seq * EVENTS_OF_BATCH) as u64,
                events: BatchEvents {
                    bytes: &encoded.bytes,
                    clicks: encoded.clicks,
                },
                ..ClickBatch::default()
            };
            let token = format!("Bearer {EDGE_TOKEN}");
            let request = Request::new("POST", b"/edge/v1/clicks")
                .header("authorization", token.as_bytes())
                .header("content-type", MEDIA_TYPE.as_bytes());
            request_bytes(&request, &encode(&[batch]))
        };
        (1..=count).map(&mut request).collect()
    }

    fn event(&mut self, at: u64) -> Event<&[u8]> {
        let country = self.zipf(COUNTRIES);
        let city = country * CITIES_OF_COUNTRY + self.zipf(CITIES_OF_COUNTRY);
        let key = self.zipf(self.keys.len());
        let visitor = self.zipf(VISITORS);
        let user_agent = self.zipf(USER_AGENTS);
        let referrer = self.zipf(REFERRERS);
        let has_referrer = self.random.random_bool(0.6);
        let language = LANGUAGES[self.zipf(LANGUAGES.len())];
        let mut utm: [&[u8]; 5] = [b""; 5];
        if self.random.random_bool(0.15) {
            let (source, medium) = (self.zipf(SOURCES.len()), self.zipf(MEDIA.len()));
            let campaign = self.zipf(self.campaigns.len());
            utm[..3].copy_from_slice(&[
                SOURCES[source].as_bytes(),
                MEDIA[medium].as_bytes(),
                self.campaigns[campaign].as_bytes(),
            ]);
        }
        let referrer = if has_referrer {
            self.referrers[referrer].as_bytes()
        } else {
            b""
        };
        Event {
            key: self.keys[key].as_bytes(),
            at,
            kind: Kind::Redirect(RedirectStatus::Found),
            rule: 0,
            attributes: Attributes {
                country: self.countries[country].as_bytes(),
                city: self.cities[city].as_bytes(),
                user_agent: self.user_agents[user_agent].as_bytes(),
                referrer,
                language: language.as_bytes(),
                utm,
            },
            visitor: Some(self.hasher.hash_one(visitor)),
            id: None,
        }
    }

    /// A number below `count` by Zipf's law with exponent 1: the n-th is n times as rare as the first.
    fn zipf(&mut self, count: usize) -> usize {
        let drawn = (count as f64 + 1.0).powf(self.random.random::<f64>());
        (drawn as usize).clamp(1, count) - 1
    }
}

fn user_agent(n: usize) -> String {
    const SYSTEMS: [&str; 5] = [
        "Windows NT 10.0; Win64; x64",
        "Linux; Android 15; SM-S931B",
        "Macintosh; Intel Mac OS X 10_15_7",
        "X11; Linux x86_64",
        "Linux; Android 14; Pixel 8",
    ];
    let (system, version) = (SYSTEMS[n % SYSTEMS.len()], 110 + n / 10);
    match n % 20 {
        3 => format!("Mozilla/5.0 (compatible; Googlebot/2.{n}; +http://www.google.com/bot.html)"),
        7 | 13 => format!(
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_{n} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
             Version/18.{n} Mobile/15E148 Safari/604.1"
        ),
        5 | 11 => {
            format!("Mozilla/5.0 ({system}; rv:{version}.0) Gecko/20100101 Firefox/{version}.0")
        }
        9 => format!(
            "Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.0.0 Safari/537.36 Edg/{version}.0.{n}.0"
        ),
        _ => format!(
            "Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.{n}.0 Mobile Safari/537.36"
        ),
    }
}
