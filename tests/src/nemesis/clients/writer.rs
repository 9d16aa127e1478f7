//! A client who manages links: a set of aliases and of generated codes that is its own.
//!
//! A change names the revision that it is made to (`If-Match`), and a creation has an `Idempotency-Key`, so that both may
//! be tried until there is an answer that says whether they have happened. A creation without a key is tried once; the
//! alias is left alone for as long as the request may still be on its way.

use super::{ALIASES, Client, ClientContext, LIMIT, TARGET, version};
use crate::nemesis::deployment::CONTROL_PLANES;
use crate::nemesis::history::{Ask, Micros, OperationOutcome, Value, Via, What};
use crate::scenario::{Answer, Request};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than all timeouts and faults that may hold up a request together.
const LINGER: Duration = Duration::from_secs(75);
/// Generated codes of a client at the same time.
const MOST_GENERATED: usize = 14;
/// How many tries an operation has that is refused for a reason that goes away.
const TRIES: u32 = 60;

/// A link as its client knows it.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Absent,
    Link {
        tag: String,
        is_disabled: bool,
        target: u64,
    },
    /// Read it before anything else.
    Unread,
    /// A creation may still be on its way.
    Unclear {
        op: u64,
        value: Value,
        until: Instant,
    },
}

impl Known {
    fn value(&self) -> Option<Value> {
        match self {
            Self::Absent => Some(Value::Absent),
            Self::Link {
                is_disabled: true, ..
            } => Some(Value::Disabled),
            Self::Link { target, .. } => Some(Value::Target(*target)),
            Self::Unread | Self::Unclear { .. } => None,
        }
    }
}

#[derive(Debug)]
struct Slot {
    code: String,
    known: Known,
}

/// What an attempt said.
enum Said {
    Yes(Answer),
    /// It did not happen by this attempt.
    No,
    Nothing,
}

pub(super) struct Writer {
    shared: Arc<ClientContext>,
    rng: StdRng,
    aliases: Vec<Slot>,
    generated: Vec<Slot>,
    clients: Vec<Client>,
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
            shared.codes.add(&code);
            let known = Known::Absent;
            Slot { code, known }
        };
        Self {
            shared: shared.clone(),
            rng,
            aliases: (0..ALIASES).map(alias).collect(),
            generated: Vec::new(),
            clients: (0..CONTROL_PLANES)
                .map(|number| Client::new(Via::ControlPlane(number)))
                .collect(),
        }
    }

    pub(super) async fn run(mut self) {
        while !self.shared.is_over() {
            tokio::time::sleep(Duration::from_millis(self.rng.random_range(20..180))).await;
            if self.generated.len() < MOST_GENERATED && self.rng.random_bool(0.12) {
                self.generate().await;
                continue;
            }
            let count = self.aliases.len() + self.generated.len();
            let index = self.rng.random_range(0..count);
            let is_alias = index < self.aliases.len();
            let mut slot = if is_alias {
                self.aliases.swap_remove(index)
            } else {
                self.generated.swap_remove(index - self.aliases.len())
            };
            self.step(&mut slot).await;
            if is_alias {
                self.aliases.push(slot);
            } else if slot.known != Known::Absent {
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

    async fn step(&mut self, slot: &mut Slot) {
        match slot.known.clone() {
            Known::Absent => self.create(slot).await,
            Known::Unread => slot.known = self.read(&slot.code).await.0,
            Known::Unclear { op, value, until } => {
                if Instant::now() >= until {
                    self.clear_up(slot, op, value).await;
                }
            }
            Known::Link {
                tag,
                is_disabled,
                target,
            } => {
                self.change(slot, &tag, is_disabled, target).await;
            }
        }
    }

    /// Says what became of a creation that cannot be on its way any more.
    async fn clear_up(&mut self, slot: &mut Slot, op: u64, value: Value) {
        let (known, since) = self.read(&slot.code).await;
        if known == Known::Unread {
            return;
        }
        let outcome = if known.value() == Some(value) {
            OperationOutcome::Done {
                code: slot.code.clone(),
                since,
            }
        } else {
            OperationOutcome::Undone { since }
        };
        self.shared.history.complete(op, outcome);
        slot.known = known;
    }

    async fn create(&mut self, slot: &mut Slot) {
        let target = self.shared.history.number();
        let value = Value::Target(target);
        let op = self.shared.history.invoke(Ask::Write {
            kind: "create".to_owned(),
            code: Some(slot.code.clone()),
            value,
        });
        let body = json!({ "longUrl": format!("{TARGET}{target}"), "customSlug": slot.code });
        let has_key = self.rng.random_bool(0.5);
        let mut request = self.request("POST", "/links");
        if has_key {
            request = request.header("idempotency-key", format!("nemesis-{op}").as_bytes());
        }
        self.shared.codes.touch(&slot.code);
        for _ in 0..TRIES {
            let (since, said) = self.attempt(op, &request, &body).await;
            match said {
                Said::Yes(answer) => {
                    self.done(op, &slot.code, since);
                    slot.known = link(&answer);
                    return;
                }
                Said::No => {
                    if self.settle(slot, op, value).await {
                        return;
                    }
                }
                Said::Nothing if !has_key => {
                    let until = Instant::now() + LINGER;
                    slot.known = Known::Unclear { op, value, until };
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
                self.done(op, &code, since);
                let known = link(&answer);
                self.generated.push(Slot { code, known });
                return;
            }
            if !has_key {
                break; // another try would be another link
            }
            self.pause().await;
        }
        self.shared.history.complete(op, OperationOutcome::Unknown);
    }

    async fn change(&mut self, slot: &mut Slot, tag: &str, is_disabled: bool, target: u64) {
        let next = self.shared.history.number();
        let url = format!("{TARGET}{next}");
        let dice = self.rng.random_range(0..100);
        let (kind, value, body) = match (dice, is_disabled) {
            (0..25, _) => ("delete", Value::Absent, Json::Null),
            (25..60, true) => (
                "enable",
                Value::Target(target),
                json!({ "state": "active" }),
            ),
            (60.., true) => (
                "enable",
                Value::Target(next),
                json!({ "state": "active", "longUrl": url }),
            ),
            (25..45, false) => ("disable", Value::Disabled, json!({ "state": "disabled" })),
            (45.., false) => ("change", Value::Target(next), json!({ "longUrl": url })),
            _ => unreachable!("dice have no negative sides"),
        };
        let op = self.shared.history.invoke(Ask::Write {
            kind: kind.to_owned(),
            code: Some(slot.code.clone()),
            value,
        });
        let method = if kind == "delete" { "DELETE" } else { "PATCH" };
        let request = self
            .request(method, &format!("/links/{}", slot.code))
            .header("if-match", tag.as_bytes());
        self.shared.codes.touch(&slot.code);
        for _ in 0..TRIES {
            let (since, said) = self.attempt(op, &request, &body).await;
            match said {
                Said::Yes(answer) => {
                    self.done(op, &slot.code, since);
                    slot.known = if kind == "delete" {
                        Known::Absent
                    } else {
                        link(&answer)
                    };
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
        slot.known = Known::Unread;
    }

    fn done(&self, op: u64, code: &str, since: Micros) {
        let code = code.to_owned();
        let outcome = OperationOutcome::Done { code, since };
        self.shared.history.complete(op, outcome);
    }

    /// Reads a link whose write was refused; says whether that shows what became of the write.
    async fn settle(&mut self, slot: &mut Slot, op: u64, value: Value) -> bool {
        let (known, since) = self.read(&slot.code).await;
        if known.value() == Some(value) {
            self.done(op, &slot.code, since);
        } else if known == Known::Unread || known == Known::Absent && slot.known == Known::Absent {
            return false; // not known, or a creation of what is not there yet: once more
        } else {
            self.shared
                .history
                .complete(op, OperationOutcome::Undone { since });
        }
        slot.known = known;
        true
    }

    /// Reads a link until there is an answer, and says when that reading began; [`Known::Unread`] if none comes.
    async fn read(&mut self, code: &str) -> (Known, Micros) {
        let request = self.request("GET", &format!("/links/{code}"));
        for _ in 0..TRIES {
            let index = self.rng.random_range(0..self.clients.len());
            let (known, since) = read(&self.shared, &mut self.clients[index], &request, code).await;
            if known != Known::Unread {
                return (known, since);
            }
            self.pause().await;
        }
        (Known::Unread, 0)
    }

    async fn attempt(&mut self, op: u64, request: &Request, body: &Json) -> (Micros, Said) {
        let index = self.rng.random_range(0..self.clients.len());
        let client = &mut self.clients[index];
        let via = client.via;
        let bytes = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let since = self.shared.history.now();
        let answer = client.ask(&self.shared, request, bytes.as_bytes()).await;
        let end = match &answer {
            Ok(answer) => answer.status.to_string(),
            Err(error) if super::is_closed(error) => format!("499 {error}"),
            Err(error) => error.clone(),
        };
        self.shared.history.add(What::Attempt {
            op,
            since,
            via,
            end,
        });
        let said = match answer {
            Ok(answer) if matches!(answer.status, 200 | 201 | 204) => Said::Yes(answer),
            Ok(answer) if matches!(answer.status, 404 | 409 | 412 | 422) => Said::No,
            _ => Said::Nothing,
        };
        (since, said)
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(self.rng.random_range(50..400))).await;
    }

    fn request(&self, method: &str, path: &str) -> Request {
        request(&self.shared, method, path)
    }
}

fn request(shared: &ClientContext, method: &str, path: &str) -> Request {
    Request::new(method, format!("/api/v1{path}").as_bytes())
        .header("x-api-key", shared.deployment.admin_key().as_bytes())
        .header("content-type", b"application/json")
}

/// A link as an answer of the API shows it.
fn link(answer: &Answer) -> Known {
    let body: Json = serde_json::from_slice(&answer.body).unwrap_or_default();
    let Some(target) = version(body["longUrl"].as_str()) else {
        return Known::Unread;
    };
    Known::Link {
        tag: answer.header("etag").unwrap_or_default().to_owned(),
        is_disabled: body["state"] == "disabled",
        target,
    }
}

async fn read(
    shared: &ClientContext,
    client: &mut Client,
    request: &Request,
    code: &str,
) -> (Known, Micros) {
    let op = shared.history.invoke(Ask::Read {
        code: code.to_owned(),
        via: client.via,
    });
    let since = shared.history.now();
    let answer = client.ask(shared, request, b"").await;
    let (known, outcome) = match answer {
        Ok(answer) if answer.status == 200 => {
            let known = link(&answer);
            let outcome = known.value().map_or_else(
                || OperationOutcome::Strange {
                    answer: String::from_utf8_lossy(&answer.body).into_owned(),
                },
                |value| OperationOutcome::Answer { value, tier: None },
            );
            (known, outcome)
        }
        Ok(answer) if answer.status == 404 => {
            let value = Value::Absent;
            (
                Known::Absent,
                OperationOutcome::Answer { value, tier: None },
            )
        }
        Ok(answer) => {
            let status = answer.status;
            (Known::Unread, OperationOutcome::Unavailable { status })
        }
        // A kept connection was closed meanwhile: nothing is wrong with the part that is asked.
        Err(error) if super::is_closed(&error) => (Known::Unread, OperationOutcome::Unknown),
        Err(error) => (Known::Unread, OperationOutcome::NoAnswer { error }),
    };
    shared.history.complete(op, outcome);
    (known, since)
}

/// Reads a link once, as each client does at the end.
pub(in crate::nemesis) async fn read_back(shared: &ClientContext, client: &mut Client, code: &str) {
    let request = request(shared, "GET", &format!("/links/{code}"));
    let (known, _) = read(shared, client, &request, code).await;
    if known == Known::Unread {
        tokio::time::sleep(LIMIT / 50).await;
        read(shared, client, &request, code).await;
    }
}
