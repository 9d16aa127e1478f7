//! Who comes meanwhile: visitors of all kinds of links, those who give passwords, those who leave, and those who change links.

use super::Parts;
use crate::production::{alias, target};
use crate::scanning;
use crate::visitors::{Journey, Pace};
use edgelink_simulation::random;
use edgelink_tests::scenario::{Answer, COUNTRY_HEADER, DOMAIN, Request};
use edgelink_tests::stack::{Connection, request_bytes};
use edgelink_wire::redis::{STATE_KEY, link_key};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{Interval, interval, sleep};

/// Links that every cache holds.
pub(super) const HOT: usize = 64;
/// More than caches hold.
pub(super) const COLD: usize = 16_000;
pub(super) const SIZE_OF_CACHE: u32 = 1 << 20;
/// Links whose targets change.
pub(super) const MOVING: usize = 32;
/// Links with a rule.
pub(super) const RULED: usize = 16;
/// Links with a limit of visits, and the visits of each, to which more are added again and again.
pub(super) const LIMITED: usize = 8;
pub(super) const VISITS: u64 = 100;
/// Links with a password.
pub(super) const LOCKED: usize = 20;
/// Links on a route that has a configuration of its own.
pub(super) const ROUTED: usize = 16;

pub(super) const PASSWORD: &str = "open sesame";
pub(super) const TARGET_OF_APPS: &str = "https://example.com/app";
pub(super) const PACE: Pace = Pace {
    connections: 32,
    rate: Some(400),
};

const LIMIT: Duration = Duration::from_secs(60);
/// What an answer may be behind a change.
const TOO_LATE: Duration = Duration::from_secs(5);
const BETWEEN_CHANGES: Duration = Duration::from_millis(200);
const BETWEEN_RAISES: Duration = Duration::from_secs(2);
const BETWEEN_FORMS: Duration = Duration::from_millis(500);
const BETWEEN_LEAVERS: Duration = Duration::from_millis(50);
const BETWEEN_DELETIONS: Duration = Duration::from_secs(1);
/// Records that Redis loses at a time, so that the control plane is asked for them.
const DELETED: u64 = 50;

/// What is known of the links, and what was seen of them.
pub(super) struct Links {
    /// Of each that moves, the changes that were acknowledged, and when.
    moves: [Mutex<Vec<(u64, Instant)>>; MOVING],
    served: AtomicU64,
    limit: AtomicU64,
    /// What was done beside visits.
    done: Mutex<BTreeMap<&'static str, u64>>,
    wrong: AtomicU64,
}

impl Links {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            moves: std::array::from_fn(|_| Mutex::default()),
            served: AtomicU64::new(0),
            limit: AtomicU64::new(VISITS * LIMITED as u64),
            done: Mutex::default(),
            wrong: AtomicU64::new(0),
        })
    }

    pub(super) fn print(&self) {
        println!("beside them: {:?}", self.done.lock().expect("a lock"));
        let (served, limit) = self.visits();
        println!("limited visits: {served} of {limit} served");
    }

    /// # Panics
    /// If an answer to anyone but the visitors was wrong, or there were more visits than there may be.
    pub(super) fn assert(&self) {
        assert_eq!(self.wrong.load(Ordering::Relaxed), 0, "wrong answers");
        let (served, limit) = self.visits();
        assert!(
            VISITS < served && served <= limit,
            "{served} of {limit} visits"
        );
    }

    /// The limited visits that were served, and as many as there may be.
    fn visits(&self) -> (u64, u64) {
        [&self.served, &self.limit]
            .map(|count| count.load(Ordering::Relaxed))
            .into()
    }

    fn note(&self, what: &'static str) {
        *self.done.lock().expect("a lock").entry(what).or_default() += 1;
    }

    /// Notes what was asked for in vain.
    fn wrong_answer(&self, what: &str, answer: &impl std::fmt::Debug) {
        println!("    wrong: {what}: {answer:?}");
        self.wrong.fetch_add(1, Ordering::Relaxed);
    }

    fn moved(&self, link: usize, change: u64) {
        let mut moves = self.moves[link].lock().expect("a lock");
        moves.push((change, Instant::now()));
    }

    /// Whether a link may lead there for one who has asked at `sent`.
    fn may_lead(&self, link: usize, location: Option<&str>, sent: Instant) -> bool {
        let moves = self.moves[link].lock().expect("a lock");
        let mut known = moves.iter().rev();
        let least = known.find(|(_, at)| *at + TOO_LATE < sent);
        let least = least.map_or(0, |(change, _)| *change);
        by_change(link, location).is_some_and(|change| change >= least)
    }
}

/// Where a link leads after a change.
fn moved_to(link: usize, change: impl std::fmt::Display) -> String {
    format!("https://example.com/moved/{link}/{change}")
}

/// By which change a link leads there, 0 if by none. `None` if it is no target of that link.
fn by_change(link: usize, location: Option<&str>) -> Option<u64> {
    let location = location?;
    match location.strip_prefix(&moved_to(link, "")) {
        Some(change) => change.parse().ok(),
        None => (location == target(&alias("moving", link))).then_some(0),
    }
}

/// The kinds of requests, of 100.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Hot,
    NeverIssued,
    Cold,
    Moving,
    Ruled,
    Limited,
    Routed,
}

impl Kind {
    /// Of the `n`th request. Kinds alternate as if by chance, so that each connection has all of them.
    fn of(n: u64) -> Self {
        match random(n) % 100 {
            0..40 => Self::Hot,
            40..55 => Self::NeverIssued,
            55..80 => Self::Cold,
            80..86 => Self::Moving,
            86..92 => Self::Ruled,
            92..96 => Self::Limited,
            _ => Self::Routed,
        }
    }
}

/// One of so many, by chance, as it seems.
fn one_of(count: usize, n: u64) -> usize {
    (random(n ^ 0x5eed) % count as u64) as usize
}

fn cold(n: u64) -> String {
    alias("cold", one_of(COLD, n))
}

impl Journey for Links {
    fn path(&self, n: u64) -> String {
        let code = match Kind::of(n) {
            Kind::Hot => alias("hot", one_of(HOT, n)),
            Kind::NeverIssued => scanning::code(n),
            Kind::Cold => cold(n),
            Kind::Moving => alias("moving", one_of(MOVING, n)),
            Kind::Ruled if n.is_multiple_of(2) => alias("ruled", one_of(RULED, n)) + "?from=app",
            Kind::Ruled => alias("ruled", one_of(RULED, n)),
            Kind::Limited => alias("limited", one_of(LIMITED, n)),
            Kind::Routed => alias("routed", one_of(ROUTED, n)),
        };
        format!("/{code}")
    }

    fn request(&self, n: u64) -> Request {
        Request::get(&self.path(n))
            .header("user-agent", b"Mozilla/5.0 (Linux; Android 16)")
            .header("referer", b"https://news.example/article")
            .header("accept-language", b"en-GB")
            .header(COUNTRY_HEADER, b"DE")
            .header("x-forwarded-for", address(n).as_bytes())
    }

    fn is_right(&self, path: &str, answer: &Answer, sent: Instant) -> bool {
        let code = path.strip_prefix('/').unwrap_or_default();
        let (kind, number) = code.split_once('-').unwrap_or_default();
        let leads = |to: &str| answer.status == 302 && answer.location() == Some(to);
        match kind {
            "" => answer.status == 404,
            "moving" => {
                let link = number.parse().expect("a link");
                let is_stale = answer.tier() == Some("stale");
                answer.status == 302
                    && if is_stale {
                        by_change(link, answer.location()).is_some()
                    } else {
                        self.may_lead(link, answer.location(), sent)
                    }
            }
            "ruled" if number.ends_with("?from=app") => leads(TARGET_OF_APPS),
            "limited" => {
                let is_served = leads(&target(code));
                self.served
                    .fetch_add(u64::from(is_served), Ordering::Relaxed);
                is_served || answer.status == 410
            }
            _ => leads(&target(code)),
        }
    }

    fn asks_again(&self) -> bool {
        true
    }
}

/// The address of a visitor, of whom there are many.
fn address(n: u64) -> String {
    let [.., a, b, c] = random(n).to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

/// All but the visitors, until it is over.
pub(super) fn start_others(parts: &Arc<Parts>) -> JoinSet<()> {
    let mut others = JoinSet::new();
    others.spawn(change(Arc::clone(parts)));
    others.spawn(raise_limits(Arc::clone(parts)));
    others.spawn(give_passwords(Arc::clone(parts)));
    others.spawn(leave(Arc::clone(parts)));
    others.spawn(delete_from_redis(Arc::clone(parts)));
    others
}

/// When it is time to do something again.
struct Turns {
    ticks: Interval,
    taken: u64,
}

impl Turns {
    fn each(period: Duration) -> Self {
        Self {
            ticks: interval(period),
            taken: 0,
        }
    }

    /// The number of the next one; `None` when it is over.
    async fn next(&mut self, parts: &Parts) -> Option<u64> {
        self.ticks.tick().await;
        self.taken += 1;
        (!parts.is_over.load(Ordering::Relaxed)).then_some(self.taken)
    }
}

async fn change(parts: Arc<Parts>) {
    let mut turns = Turns::each(BETWEEN_CHANGES);
    while let Some(n) = turns.next(&parts).await {
        let link = one_of(MOVING, n);
        let path = format!("/links/{}", alias("moving", link));
        let body = json!({ "longUrl": moved_to(link, n) });
        patch(&parts, &path, &body).await;
        parts.links.moved(link, n);
        parts.links.note("links changed");
    }
}

/// Changes a link, however often that takes: a disk that is slow for a while makes it 503.
async fn patch(parts: &Parts, path: &str, body: &Value) {
    let start = Instant::now();
    loop {
        let answer = parts.control_plane.api("PATCH", path, body).await;
        if answer.status == 200 {
            return;
        }
        let may_fail = answer.status == 503 && start.elapsed() < LIMIT;
        assert!(may_fail, "{answer:?}");
        parts.links.note("changes that were 503");
        sleep(BETWEEN_CHANGES).await;
    }
}

async fn raise_limits(parts: Arc<Parts>) {
    let mut limits = [VISITS; LIMITED];
    let mut turns = Turns::each(BETWEEN_RAISES);
    while let Some(n) = turns.next(&parts).await {
        const MORE: u64 = 30;
        let link = one_of(LIMITED, n);
        limits[link] += MORE;
        // Visits may be served before the answer is here.
        parts.links.limit.fetch_add(MORE, Ordering::Relaxed);
        let path = format!("/links/{}", alias("limited", link));
        let body = json!({ "maxVisits": limits[link] });
        patch(&parts, &path, &body).await;
        parts.links.note("limits raised");
    }
}

/// Half of the passwords are wrong; a right one opens the link.
async fn give_passwords(parts: Arc<Parts>) {
    let mut turns = Turns::each(BETWEEN_FORMS);
    while let Some(n) = turns.next(&parts).await {
        let code = alias("locked", one_of(LOCKED, n));
        let path = format!("/{code}");
        let is_known = n.is_multiple_of(2);
        let password = if is_known { PASSWORD } else { "wrong" };
        let form = Request::new("POST", path.as_bytes())
            .header("content-type", b"application/x-www-form-urlencoded")
            .header("x-forwarded-for", address(n).as_bytes());
        let body = format!("password={}", password.replace(' ', "+"));
        let answer = ask(&parts, &form, body.as_bytes()).await;
        let expected = if is_known { 303 } else { 403 };
        if answer.status != expected {
            parts.links.wrong_answer("a form", &answer);
            continue;
        }
        parts.links.note("forms");
        let Some(cookie) = answer.header("set-cookie") else {
            continue;
        };
        let cookie = cookie.split(';').next().unwrap_or_default();
        let visit = Request::get(&path).header("cookie", cookie.as_bytes());
        let answer = ask(&parts, &visit, b"").await;
        if answer.location() != Some(target(&code).as_str()) {
            parts.links.wrong_answer("a link that is open", &answer);
        }
    }
}

/// Over a connection of its own.
async fn ask(parts: &Parts, request: &Request, body: &[u8]) -> Answer {
    let connection = Connection::open(parts.edge).await;
    let mut connection = connection.expect("a connection");
    let answer = connection.exchange(request, body).await;
    answer.expect("an answer")
}

/// Clients that are gone before their answer: a request for a link that is to be looked up, a form whose body does not come, half a head.
async fn leave(parts: Arc<Parts>) {
    let mut turns = Turns::each(BETWEEN_LEAVERS);
    while let Some(n) = turns.next(&parts).await {
        let bytes = match n % 4 {
            0 => {
                let path = format!("/{}", alias("locked", one_of(LOCKED, n)));
                let form = Request::new("POST", path.as_bytes())
                    .header("content-type", b"application/x-www-form-urlencoded")
                    .header("content-length", b"20");
                request_bytes(&form, b"")
            }
            1 => b"GET /cold-1 HTTP/1.1\r\nhost:".to_vec(),
            _ => request_bytes(&Request::get(&format!("/{}", cold(n << 32))), b""),
        };
        let connection = Connection::open(parts.edge).await;
        let mut connection = connection.expect("a connection");
        connection.send(&bytes).await.expect("a connection");
        parts.links.note("clients that leave");
    }
}

async fn delete_from_redis(parts: Arc<Parts>) {
    let mut turns = Turns::each(BETWEEN_DELETIONS);
    while let Some(n) = turns.next(&parts).await {
        let generation = parts.redis.ask(&["HGET", STATE_KEY, "generation"]);
        let Ok(generation) = generation.trim().parse() else {
            continue;
        };
        let keys = (0..DELETED).map(|key| cold(n * DELETED + key));
        let keys = keys.map(|code| link_key(generation, &format!("{DOMAIN}/{code}")));
        let keys: Vec<String> = keys.collect();
        let command = ["DEL"].into_iter().chain(keys.iter().map(String::as_str));
        let _count = parts.redis.ask(&command.collect::<Vec<_>>());
        parts.links.note("deletions in Redis");
    }
}
