//! A client that creates, changes and removes domains, and visitors of these.
//!
//! Changes of domains name no revision, so each is tried once; without an answer the domain is left alone for as long as
//! the request may still be in flight. In the history a domain is the code `{name}/`: visitors of `/` see its root, and
//! visitors of unknown codes its target for these, like visitors who meet the condition of a rule.

use super::link::request;
use super::{Client, ClientContext, LINGER, TARGET, TRIES, failed, version};
use crate::nemesis::history::{Ask, Micros, OperationOutcome, Value, Via};
use crate::scenario::Answer;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const DOMAINS: usize = 6;

/// The codes of all domains.
pub(in crate::nemesis) fn codes() -> impl Iterator<Item = String> {
    (0..DOMAINS).map(|number| format!("d{number}.nemesis.example/"))
}

/// Visits domains.
pub(super) async fn visit(shared: Arc<ClientContext>, via: Via, mut rng: StdRng) {
    let codes: Vec<String> = codes().collect();
    let mut client = Client::new(via);
    let mut count = 0;
    while !shared.is_over() {
        sleep(Duration::from_millis(rng.random_range(20..100))).await;
        let code = &codes[rng.random_range(0..codes.len())];
        client.follow(&shared, code, rng.random_bool(0.5)).await;
        count += 1;
        if count % 30 == 0 {
            client = Client::new(via);
        }
    }
}

struct Slot {
    code: String,
    value: Option<Value>,
    /// A change that may still be in flight.
    unclear: Option<(u64, Value, Instant)>,
}

/// Request for a change of a domain.
struct Change {
    kind: &'static str,
    method: &'static str,
    /// The path after `/domains`.
    path: String,
    body: String,
    /// Value of the domain afterwards.
    value: Value,
}

/// Creates, changes and removes domains.
pub(super) struct DomainWriter {
    shared: Arc<ClientContext>,
    rng: StdRng,
    clients: Vec<Client>,
    slots: Vec<Slot>,
}

impl DomainWriter {
    pub(super) fn new(shared: &Arc<ClientContext>, rng: StdRng) -> Self {
        let slot = |code| Slot {
            code,
            value: Some(Value::Absent),
            unclear: None,
        };
        Self {
            shared: shared.clone(),
            rng,
            clients: Client::of_control_planes(),
            slots: codes().map(slot).collect(),
        }
    }

    pub(super) async fn run(mut self) {
        while !self.shared.is_over() {
            sleep(Duration::from_millis(self.rng.random_range(100..500))).await;
            let index = self.rng.random_range(0..self.slots.len());
            let mut slot = self.slots.swap_remove(index);
            self.step(&mut slot).await;
            self.slots.push(slot);
        }
        for (op, ..) in self.slots.iter().filter_map(|slot| slot.unclear) {
            self.shared.history.complete(op, OperationOutcome::Unknown);
        }
    }

    async fn step(&mut self, slot: &mut Slot) {
        match slot.unclear {
            Some((_, _, until)) if Instant::now() < until => {}
            Some((op, value, _)) => {
                if self.settle(slot, op, value).await {
                    slot.unclear = None;
                }
            }
            None => match slot.value {
                None => slot.value = self.read(&slot.code).await.0,
                Some(value) => self.write(slot, value).await,
            },
        }
    }

    async fn write(&mut self, slot: &mut Slot, before: Value) {
        let change = self.choose(slot.code.trim_end_matches('/'), before);
        let op = self.shared.history.invoke(Ask::Write {
            kind: change.kind.to_owned(),
            code: Some(slot.code.clone()),
            value: change.value,
        });
        let path = format!("/domains{}", change.path);
        let request = request(&self.shared, change.method, &path);
        let index = self.rng.random_range(0..self.clients.len());
        let client = &mut self.clients[index];
        let attempt = client.attempt(&self.shared, op, &request, change.body.as_bytes());
        let (since, answer) = attempt.await;
        match answer {
            Ok(answer) if matches!(answer.status, 200 | 201 | 204) => {
                let done = OperationOutcome::done(&slot.code, since, true);
                self.shared.history.complete(op, done);
                slot.value = Some(change.value);
            }
            Ok(answer) if matches!(answer.status, 404 | 409) => {
                if !self.settle(slot, op, change.value).await {
                    self.shared.history.complete(op, OperationOutcome::Unknown);
                }
            }
            _ => slot.unclear = Some((op, change.value, Instant::now() + LINGER)),
        }
    }

    fn choose(&mut self, name: &str, before: Value) -> Change {
        let [plain, picked] = [(); 2].map(|()| self.shared.history.number());
        let url = |number| format!("{TARGET}{number}");
        let mut urls = json!({ "rootUrl": url(plain), "notFoundUrl": url(picked) });
        let (kind, method) = match before {
            Value::Absent => ("make domain", "POST"),
            _ if self.rng.random_bool(0.2) => ("remove domain", "DELETE"),
            _ => ("change domain", "PATCH"),
        };
        let is_removal = method == "DELETE";
        let mut path = format!("/{name}");
        if before == Value::Absent {
            path.clear();
            urls["name"] = Json::from(name);
        }
        Change {
            kind,
            method,
            path,
            body: if is_removal {
                String::new()
            } else {
                urls.to_string()
            },
            value: if is_removal {
                Value::Absent
            } else {
                Value::Ruled { plain, picked }
            },
        }
    }

    /// Reads a domain and completes a pending change by it; `false` if it cannot be read.
    async fn settle(&mut self, slot: &mut Slot, op: u64, value: Value) -> bool {
        let (found, since) = self.read(&slot.code).await;
        slot.value = found;
        let outcome = match found {
            None => return false,
            Some(found) if found == value => OperationOutcome::done(&slot.code, since, false),
            Some(_) => OperationOutcome::Undone { since },
        };
        self.shared.history.complete(op, outcome);
        true
    }

    async fn read(&mut self, code: &str) -> (Option<Value>, Micros) {
        for _ in 0..TRIES {
            let index = self.rng.random_range(0..self.clients.len());
            let (value, since) = read(&self.shared, &mut self.clients[index], code).await;
            if value.is_some() {
                return (value, since);
            }
            sleep(Duration::from_millis(self.rng.random_range(50..400))).await;
        }
        (None, 0)
    }
}

/// Reads a domain; also returns when the reading began.
async fn read(shared: &ClientContext, client: &mut Client, code: &str) -> (Option<Value>, Micros) {
    let op = shared.history.invoke(Ask::Read {
        code: code.to_owned(),
        via: client.via,
    });
    let since = shared.history.now();
    let request = request(
        shared,
        "GET",
        &format!("/domains/{}", code.trim_end_matches('/')),
    );
    let (value, outcome) = match client.ask(shared, &request, b"").await {
        Ok(answer) if answer.status == 200 => match shown(&answer) {
            Some(value) => (Some(value), OperationOutcome::Answer { value, tier: None }),
            None => (None, super::link::strange(&answer)),
        },
        Ok(answer) if answer.status == 404 => {
            let value = Value::Absent;
            (Some(value), OperationOutcome::Answer { value, tier: None })
        }
        answer => (None, failed(answer)),
    };
    shared.history.complete(op, outcome);
    (value, since)
}

fn shown(answer: &Answer) -> Option<Value> {
    let body: Json = serde_json::from_slice(&answer.body).ok()?;
    Some(Value::Ruled {
        plain: version(body["rootUrl"].as_str())?,
        picked: version(body["notFoundUrl"].as_str())?,
    })
}
