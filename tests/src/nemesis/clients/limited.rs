//! Links that have a limit of visits: one client creates them, watches their counts and raises limits, others visit them.

use super::link::{self, request};
use super::{Client, ClientContext, TARGET, TRIES, failed};
use crate::nemesis::deployment::ENVOYS;
use crate::nemesis::history::{Ask, OperationOutcome, Purpose, Via, What};
use crate::scenario::Request;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedMutRandom, IndexedRandom};
use serde_json::{Value as Json, json};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Links that are being used up at the same time.
const OPEN: usize = 3;
/// Used-up links that are still visited.
const CLOSED: usize = 4;
/// Pause between rounds of visits at the end.
const USE_PAUSE: Duration = Duration::from_millis(20);
const WATCH: Duration = Duration::from_millis(300);
/// Visits after which a new connection is opened, which may reach another worker.
const VISITS: usize = 20;
/// Time at the end to use up all visits. A moved clock may keep a block for 90 s longer, and after a restore of the
/// database an edge considers a link used up for a minute.
const USE_LIMIT: Duration = Duration::from_secs(150);

/// A link with a limit.
#[derive(Clone, Debug)]
struct Limited {
    code: String,
    tag: String,
    target: u64,
    expired: Option<u64>,
    max: u64,
    is_used_up: bool,
}

/// Codes of the visited links.
#[derive(Debug, Default)]
pub(super) struct LimitedCodes(RwLock<Vec<String>>);

impl LimitedCodes {
    fn pick(&self, rng: &mut StdRng) -> Option<String> {
        let codes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        codes.choose(rng).cloned()
    }

    fn set(&self, links: &[Limited]) {
        let mut codes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *codes = links.iter().map(|link| link.code.clone()).collect();
    }
}

/// Visits links that have a limit.
pub(super) async fn visit(shared: Arc<ClientContext>, via: Via, mut rng: StdRng) {
    let mut client = Client::new(via);
    let mut count = 0;
    while !shared.is_over() {
        sleep(Duration::from_millis(rng.random_range(10..60))).await;
        let Some(code) = shared.limited.pick(&mut rng) else {
            continue;
        };
        let purpose = if shared.presses(&mut rng, 0.1) {
            Purpose::Prefetch
        } else {
            Purpose::Click
        };
        client.visit(&shared, &code, purpose).await;
        count += 1;
        if count % VISITS == 0 {
            client = Client::new(via);
        }
    }
}

/// Result of reading a link's count.
enum Count {
    Counted {
        used: u64,
        leased: u64,
        /// The limit: a restored database may have lost a raise.
        max: u64,
        tag: String,
    },
    Absent,
    Unknown,
}

/// Creates such links, and watches them.
pub(super) struct Limiter {
    shared: Arc<ClientContext>,
    rng: StdRng,
    clients: Vec<Client>,
    links: Vec<Limited>,
}

impl Limiter {
    pub(super) fn new(shared: &Arc<ClientContext>, rng: StdRng) -> Self {
        Self {
            shared: shared.clone(),
            rng,
            clients: Client::of_control_planes(),
            links: Vec::new(),
        }
    }

    pub(super) async fn run(mut self) {
        while !self.shared.is_over() {
            if self.links.iter().filter(|link| !link.is_used_up).count() < OPEN {
                self.create().await;
            }
            self.look().await;
            self.shared.limited.set(&self.links);
            sleep(WATCH).await;
        }
        self.use_up().await;
    }

    async fn create(&mut self) {
        let number = self.shared.history.number();
        let max = self.rng.random_range(30..250);
        let code = format!("limit-{number}");
        let expired = self.shared.history.number();
        let expired = self.rng.random_bool(0.5).then_some(expired);
        let url = |number: u64| format!("{TARGET}{number}");
        let body = json!({
            "longUrl": url(number),
            "expiredUrl": expired.map(url),
            "customSlug": code,
            "maxVisits": max,
        });
        let op = self.shared.history.invoke(Ask::Limit {
            code: code.clone(),
            target: number,
            max,
            expired,
        });
        let request = request(&self.shared, "POST", "/links");
        let request = request.header("idempotency-key", format!("nemesis-{op}").as_bytes());
        if let Some(tag) = self.write(op, &code, &request, &body).await {
            if self.links.iter().filter(|link| link.is_used_up).count() > CLOSED {
                let first = self.links.iter().position(|link| link.is_used_up);
                self.links.remove(first.unwrap_or_default());
            }
            let is_used_up = false;
            self.links.push(Limited {
                code,
                tag,
                target: number,
                expired,
                max,
                is_used_up,
            });
        }
    }

    async fn raise(&mut self, link: &mut Limited) {
        let max = link.max + self.rng.random_range(10..60);
        let op = self.shared.history.invoke(Ask::Limit {
            code: link.code.clone(),
            target: link.target,
            max,
            expired: link.expired,
        });
        let request = request(&self.shared, "PATCH", &format!("/links/{}", link.code));
        let request = request.header("if-match", link.tag.as_bytes());
        let body = json!({ "maxVisits": max });
        if let Some(tag) = self.write(op, &link.code, &request, &body).await {
            (link.tag, link.max, link.is_used_up) = (tag, max, false);
        }
    }

    /// Repeats a write until it is known to have happened; returns its entity tag. `None` if that never becomes known:
    /// the link is then left alone.
    async fn write(
        &mut self,
        op: u64,
        code: &str,
        request: &Request,
        body: &Json,
    ) -> Option<String> {
        let bytes = body.to_string();
        for _ in 0..TRIES {
            let client = self.clients.choose_mut(&mut self.rng)?;
            let answer = client.ask(&self.shared, request, bytes.as_bytes()).await;
            match answer {
                Ok(answer) if matches!(answer.status, 200 | 201) => {
                    let done = OperationOutcome::done(code, self.shared.history.now(), true);
                    self.shared.history.complete(op, done);
                    return Some(answer.header("etag").unwrap_or_default().to_owned());
                }
                Ok(answer) if matches!(answer.status, 404 | 409 | 412 | 422) => break,
                _ => sleep(WATCH).await,
            }
        }
        self.shared.history.complete(op, OperationOutcome::Unknown);
        None
    }

    /// Reads the count of each link; some limits are raised when they are reached.
    async fn look(&mut self) {
        for mut link in std::mem::take(&mut self.links) {
            let counted = self.count(&link.code).await;
            match counted {
                Count::Absent => continue, // a restored database has lost it
                Count::Counted {
                    used,
                    leased,
                    max,
                    tag,
                } if !link.is_used_up => {
                    (link.max, link.tag) = (max, tag);
                    link.is_used_up = used >= max && leased == 0;
                    if link.is_used_up && self.rng.random_bool(0.3) && !self.shared.is_over() {
                        self.raise(&mut link).await;
                    }
                }
                _ => {}
            }
            self.links.push(link);
        }
    }

    async fn count(&mut self, code: &str) -> Count {
        let index = self.rng.random_range(0..self.clients.len());
        let client = &mut self.clients[index];
        let (code, via) = (code.to_owned(), client.via);
        let path = format!("/links/{code}");
        let op = self.shared.history.invoke(Ask::Count { code, via });
        let request = request(&self.shared, "GET", &path);
        let (count, outcome) = match client.ask(&self.shared, &request, b"").await {
            Ok(answer) if answer.status == 200 => {
                let body: Json = serde_json::from_slice(&answer.body).unwrap_or_default();
                let figure = |name: &str| body["visits"][name].as_u64();
                let tag = answer.header("etag").unwrap_or_default().to_owned();
                match (figure("used"), figure("leased"), body["maxVisits"].as_u64()) {
                    (Some(used), Some(leased), Some(max)) => (
                        Count::Counted {
                            used,
                            leased,
                            max,
                            tag,
                        },
                        OperationOutcome::Counted { used, leased },
                    ),
                    _ => (Count::Unknown, link::strange(&answer)),
                }
            }
            Ok(answer) if answer.status == 404 => (Count::Absent, OperationOutcome::Unknown),
            answer => (Count::Unknown, failed(answer)),
        };
        self.shared.history.complete(op, outcome);
        count
    }

    /// Visits every link until its visits are used up, and a few times more.
    async fn use_up(&mut self) {
        let is_open = |links: &[Limited]| links.iter().any(|link| !link.is_used_up);
        let mut clients: Vec<Client> = (0..ENVOYS)
            .map(|number| Client::new(Via::Envoy(number)))
            .collect();
        let all_used = async {
            while is_open(&self.links) {
                for link in self.links.iter().filter(|link| !link.is_used_up) {
                    for client in &mut clients {
                        client.visit(&self.shared, &link.code, Purpose::Click).await;
                    }
                }
                self.look().await;
                sleep(USE_PAUSE).await;
            }
        };
        if timeout(USE_LIMIT, all_used).await.is_err() {
            let open = self.links.iter().filter(|link| !link.is_used_up);
            let open: Vec<&str> = open.map(|link| link.code.as_str()).collect();
            let text = format!("visits that visitors do not get: {}", open.join(", "));
            self.shared.history.add(What::Unexpected { text });
        }
        for link in &self.links {
            for client in &mut clients {
                client.visit(&self.shared, &link.code, Purpose::Click).await;
            }
        }
    }
}
