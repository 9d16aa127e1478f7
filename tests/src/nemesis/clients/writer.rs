//! A client that manages its own set of links: aliases and generated codes.
//!
//! A change names the revision that it applies to (`If-Match`), and a creation has an `Idempotency-Key`, so that both may
//! be retried until an answer shows whether they have happened. Writes with neither are tried once: a creation without a
//! key, a restoration, a move that keeps the old link. The alias is then left alone for as long as the request may still
//! be in flight.

mod moves;

use super::hosts::{self, Hosts};
use super::link::{Known, Link, link_path, read, request, rules};
use super::{ALIASES, Client, ClientContext, LINGER, TARGET, TRIES};
use crate::nemesis::history::{Ask, Micros, OperationOutcome, Value};
use crate::scenario::{Answer, Request};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most generated codes of a client at the same time.
const MOST_GENERATED: usize = 14;

#[derive(Debug)]
struct Slot {
    code: String,
    known: Known,
    /// The last deleted link, while it can be restored.
    buried: Option<Link>,
}

impl Slot {
    /// Creates a slot for a code without a link.
    fn new(shared: &ClientContext, code: String) -> Self {
        shared.codes.add(&code);
        Self {
            code,
            known: Known::Absent,
            buried: None,
        }
    }

    /// Updates the knowledge of the link. An existing one cannot be restored.
    fn know(&mut self, known: Known) {
        if known != Known::Absent {
            self.buried = None;
        }
        self.known = known;
    }

    /// Leaves the link alone while a write that was tried once may still be in flight.
    fn linger(&mut self, op: u64, value: Value) {
        let until = Instant::now() + LINGER;
        self.known = Known::Unclear { op, value, until };
    }
}

/// A change of an existing link.
struct Change {
    kind: &'static str,
    method: &'static str,
    /// Path after the code.
    path: &'static str,
    body: Json,
    /// The link afterwards, with the old tag; `None` if it is deleted.
    link: Option<Link>,
}

/// Result of an attempt.
enum Said {
    Yes(Answer),
    /// This attempt did not make it happen.
    No,
    Nothing,
}

pub(super) struct Writer {
    shared: Arc<ClientContext>,
    rng: StdRng,
    aliases: Vec<Slot>,
    generated: Vec<Slot>,
    clients: Vec<Client>,
    /// For links on domains created by the API: these domains, and the links still to come.
    hosts: Option<Hosts>,
    later: VecDeque<Slot>,
    next_later: Instant,
}

impl Writer {
    pub(super) fn new(shared: &Arc<ClientContext>, number: u64, rng: StdRng) -> Self {
        let alias = |index: u64| {
            // Neither longer nor shorter than generated codes, whose shape the second kind has.
            let code = match index % 3 {
                0 => format!("nemesis-{number}-{index}"),
                1 => format!("Al{number}as{index:02}"),
                _ => format!("n{number}x{index}"),
            };
            Slot::new(shared, code)
        };
        let aliases = (0..ALIASES).map(alias).collect();
        Self::with(shared, rng, aliases)
    }

    /// Creates a writer of links on domains of the API, which it creates one after another: some are younger than any
    /// copy of the database, and are recreated, in another order, after a restore.
    pub(super) fn of_hosts(shared: &Arc<ClientContext>, rng: StdRng) -> Self {
        Self {
            hosts: Some(Hosts::default()),
            later: hosts::codes().map(|code| Slot::new(shared, code)).collect(),
            ..Self::with(shared, rng, Vec::new())
        }
    }

    fn with(shared: &Arc<ClientContext>, rng: StdRng, aliases: Vec<Slot>) -> Self {
        Self {
            shared: shared.clone(),
            rng,
            aliases,
            generated: Vec::new(),
            clients: Client::of_control_planes(),
            hosts: None,
            later: VecDeque::new(),
            next_later: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) {
        while !self.shared.is_over() {
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(20..180))).await;
            self.take_later();
            let generates = self.hosts.is_none() && self.rng.random_bool(0.12);
            if generates && self.generated.len() < MOST_GENERATED {
                self.generate().await;
                continue;
            }
            let count = self.aliases.len() + self.generated.len();
            if count == 0 {
                continue;
            }
            let index = self.rng.random_range(0..count);
            let is_alias = index < self.aliases.len();
            let mut slot = if is_alias {
                self.aliases.swap_remove(index)
            } else {
                self.generated.swap_remove(index - self.aliases.len())
            };
            self.step(&mut slot, is_alias).await;
            if is_alias {
                self.aliases.push(slot);
            } else if slot.known != Known::Absent || slot.buried.is_some() {
                self.generated.push(slot);
            }
        }
        let unclear = self.aliases.iter().filter_map(|slot| match slot.known {
            Known::Unclear { op, .. } => Some(op),
            _ => None,
        });
        for op in unclear {
            self.shared.history.complete(op, OperationOutcome::Unknown);
        }
    }

    /// Starts to use the next code of a domain, now and then.
    fn take_later(&mut self) {
        if Instant::now() >= self.next_later
            && let Some(slot) = self.later.pop_front()
        {
            self.aliases.push(slot);
            self.next_later = Instant::now() + hosts::PAUSE;
        }
    }

    async fn step(&mut self, slot: &mut Slot, is_alias: bool) {
        match slot.known.clone() {
            Known::Absent => self.create_or_restore(slot, is_alias).await,
            Known::Unread => slot.known = self.read(&slot.code).await.0,
            Known::Unclear { op, value, until } => {
                if Instant::now() >= until {
                    self.clear_up(slot, op, value).await;
                }
            }
            Known::Link(link) => match self.rng.random_range(0..100) {
                0..8 if self.hosts.is_none() => self.relocate(slot, &link).await,
                _ => self.change(slot, &link).await,
            },
        }
    }

    /// Completes a creation that cannot be in flight any more.
    async fn clear_up(&mut self, slot: &mut Slot, op: u64, value: Value) {
        let (known, since) = self.read(&slot.code).await;
        if known == Known::Unread {
            return;
        }
        match known.value() {
            Some(found) if found == value => self.done(op, &slot.code, since),
            // By a restoration, from an older tombstone.
            Some(found) if slot.buried.is_some() && found != Value::Absent => {
                self.restored_to(op, &slot.code, (since, found), false);
            }
            _ => self.undone(op, since),
        }
        slot.know(known);
    }

    async fn create(&mut self, slot: &mut Slot) {
        let target = self.shared.history.number();
        let value = Value::Target(target);
        let op = self.invoke("create", &slot.code, value);
        let (domain, alias) = hosts::split(&slot.code);
        let url = format!("{TARGET}{target}");
        let mut body = json!({ "longUrl": url, "customSlug": alias });
        if let Some(domain) = domain {
            body["domain"] = Json::from(domain);
        }
        let has_key = self.rng.random_bool(0.5);
        let mut request = self.request("POST", "/links");
        if has_key {
            request = request.header("idempotency-key", format!("nemesis-{op}").as_bytes());
        }
        self.shared.codes.touch(&slot.code);
        for _ in 0..TRIES {
            self.make_domain(&slot.code).await;
            let (since, said) = self.attempt(op, &request, &body).await;
            match said {
                Said::Yes(answer) => {
                    self.acknowledged(op, &slot.code, since);
                    slot.know(Link::of(&answer, None).into());
                    return;
                }
                Said::No => {
                    self.doubt_domain(&slot.code);
                    if self.settle(slot, op, value).await {
                        return;
                    }
                }
                Said::Nothing if !has_key => {
                    slot.buried = None;
                    slot.linger(op, value);
                    return;
                }
                Said::Nothing => {}
            }
            self.pause().await;
        }
        self.shared.history.complete(op, OperationOutcome::Unknown);
        slot.known = Known::Unread;
    }

    async fn generate(&mut self) {
        let target = self.shared.history.number();
        let op = self.shared.history.invoke(Ask::Write {
            kind: "create".to_owned(),
            code: None,
            value: Value::Target(target),
        });
        let body = json!({ "longUrl": format!("{TARGET}{target}") });
        let has_key = self.rng.random_bool(0.5);
        let mut request = self.request("POST", "/links");
        if has_key {
            request = request.header("idempotency-key", format!("nemesis-{op}").as_bytes());
        }
        for _ in 0..TRIES {
            let (since, said) = self.attempt(op, &request, &body).await;
            if let Said::Yes(answer) = said {
                let body: Json = serde_json::from_slice(&answer.body).unwrap_or_default();
                let code = body["shortCode"].as_str().unwrap_or_default().to_owned();
                self.shared.codes.add(&code);
                self.shared.codes.touch(&code);
                self.acknowledged(op, &code, since);
                let known = Link::of(&answer, None).into();
                let buried = None;
                self.generated.push(Slot {
                    code,
                    known,
                    buried,
                });
                return;
            }
            if !has_key {
                break; // a retry would create another link
            }
            self.pause().await;
        }
        self.shared.history.complete(op, OperationOutcome::Unknown);
    }

    async fn change(&mut self, slot: &mut Slot, link: &Link) {
        let change = self.choose(link);
        let value = change.link.as_ref().map_or(Value::Absent, Link::value);
        let op = self.invoke(change.kind, &slot.code, value);
        let path = link_path(&slot.code, change.path);
        let request = self.request(change.method, &path);
        let request = request.header("if-match", link.tag.as_bytes());
        self.shared.codes.touch(&slot.code);
        for _ in 0..TRIES {
            let (since, said) = self.attempt(op, &request, &change.body).await;
            match said {
                Said::Yes(answer) => {
                    self.acknowledged(op, &slot.code, since);
                    let Some(changed) = change.link else {
                        slot.buried = Some(link.clone());
                        slot.known = Known::Absent;
                        return;
                    };
                    let tag = answer.header("etag").unwrap_or_default().to_owned();
                    slot.know(Known::Link(Link { tag, ..changed }));
                    return;
                }
                Said::No => {
                    if self.settle(slot, op, value).await {
                        return;
                    }
                }
                Said::Nothing => {}
            }
            self.pause().await;
        }
        self.shared.history.complete(op, OperationOutcome::Unknown);
        slot.know(Known::Unread);
    }

    fn choose(&mut self, link: &Link) -> Change {
        let next = self.shared.history.number();
        let url = format!("{TARGET}{next}");
        let patch = |kind, link: Link, body| Change {
            kind,
            method: "PATCH",
            path: "",
            body,
            link: Some(link),
        };
        let mut changed = link.clone();
        match (self.rng.random_range(0..100), link.is_disabled) {
            (0..22, _) => Change {
                kind: "delete",
                method: "DELETE",
                path: "",
                body: Json::Null,
                link: None,
            },
            (22..40, _) => {
                // Adds a rule if there is none; otherwise, half of the time, replaces it.
                let is_removed = link.picked.is_some() && self.rng.random_bool(0.5);
                changed.picked = (!is_removed).then_some(next);
                let body = rules(changed.picked);
                Change {
                    method: "POST",
                    path: "/rules",
                    ..patch("rules", changed, body)
                }
            }
            (40..65, true) => {
                changed.is_disabled = false;
                patch("enable", changed, json!({ "state": "active" }))
            }
            (65.., true) => {
                (changed.is_disabled, changed.target) = (false, next);
                let body = json!({ "state": "active", "longUrl": url });
                patch("enable", changed, body)
            }
            (40..55, false) => {
                changed.is_disabled = true;
                patch("disable", changed, json!({ "state": "disabled" }))
            }
            (55.., false) => {
                changed.target = next;
                patch("change", changed, json!({ "longUrl": url }))
            }
            _ => unreachable!("dice have no negative sides"),
        }
    }

    fn invoke(&self, kind: &str, code: &str, value: Value) -> u64 {
        self.shared.history.invoke(Ask::Write {
            kind: kind.to_owned(),
            code: Some(code.to_owned()),
            value,
        })
    }

    /// Completes a write that a reading has confirmed.
    fn done(&self, op: u64, code: &str, since: Micros) {
        let outcome = OperationOutcome::done(code, since, false);
        self.shared.history.complete(op, outcome);
    }

    /// Completes a write that an answer has confirmed.
    fn acknowledged(&self, op: u64, code: &str, since: Micros) {
        let outcome = OperationOutcome::done(code, since, true);
        self.shared.history.complete(op, outcome);
    }

    fn undone(&self, op: u64, since: Micros) {
        self.shared
            .history
            .complete(op, OperationOutcome::Undone { since });
    }

    /// Reads a link whose write was refused; returns whether that shows the outcome of the write.
    async fn settle(&mut self, slot: &mut Slot, op: u64, value: Value) -> bool {
        let (known, since) = self.read(&slot.code).await;
        if known.value() == Some(value) {
            self.done(op, &slot.code, since);
        } else if known == Known::Unread || known == Known::Absent && slot.known == Known::Absent {
            return false; // unknown, or a creation that has not happened yet: retry
        } else {
            self.undone(op, since);
        }
        slot.know(known);
        true
    }

    /// Reads a link until there is an answer; also returns when that reading began. [`Known::Unread`] if none comes.
    async fn read(&mut self, code: &str) -> (Known, Micros) {
        for _ in 0..TRIES {
            self.make_domain(code).await;
            let index = self.rng.random_range(0..self.clients.len());
            let (known, since) = read(&self.shared, &mut self.clients[index], code).await;
            if known != Known::Unread {
                return (known, since);
            }
            self.doubt_domain(code);
            self.pause().await;
        }
        (Known::Unread, 0)
    }

    async fn attempt(&mut self, op: u64, request: &Request, body: &Json) -> (Micros, Said) {
        let index = self.rng.random_range(0..self.clients.len());
        let client = &mut self.clients[index];
        let bytes = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let attempt = client.attempt(&self.shared, op, request, bytes.as_bytes());
        let (since, answer) = attempt.await;
        let said = match answer {
            Ok(answer) if matches!(answer.status, 200 | 201 | 204) => Said::Yes(answer),
            Ok(answer) if matches!(answer.status, 404 | 409 | 412 | 422) => Said::No,
            _ => Said::Nothing,
        };
        (since, said)
    }

    /// Creates the domain of a code, unless it is known to exist.
    async fn make_domain(&mut self, code: &str) {
        let index = self.rng.random_range(0..self.clients.len());
        if let Some(hosts) = &mut self.hosts {
            hosts
                .make(&self.shared, &mut self.clients[index], code)
                .await;
        }
    }

    /// Forgets the domain of a code, which a restored database may have lost.
    fn doubt_domain(&mut self, code: &str) {
        if let Some(hosts) = &mut self.hosts {
            hosts.doubt(code);
        }
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.rng.random_range(50..400))).await;
    }

    fn request(&self, method: &str, path: &str) -> Request {
        request(&self.shared, method, path)
    }
}
