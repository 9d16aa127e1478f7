//! Clients that take as much of a shared resource as they can: a row, permits for requests, leased visits.

use super::link::request;
use super::{Client, ClientContext, TARGET};
use crate::nemesis::deployment::{CONTROL_PLANES, ENVOYS, VISITS_GRACE, VISITS_LEASE};
use crate::nemesis::faults::CROWDED;
use crate::nemesis::history::{Ask, OperationOutcome, Purpose, Via};
use serde_json::{Value as Json, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Clients that change one link concurrently.
const PATCHING: usize = 64;
/// Keeps them crowding a row rather than the processors, which other parts need.
const PATCH_PAUSE: Duration = Duration::from_millis(200);
/// Concurrent requests without a body.
const SILENT: usize = 600;
const REOPEN_PAUSE: Duration = Duration::from_millis(100);
/// Links with a limit of one visit.
const LIMITED: usize = 600;
/// Time in which all of them are followed.
const FOLLOWED_IN: Duration = Duration::from_secs(8);
/// Concurrent visitors of these links.
const VISITORS: usize = 48;

/// Creates the link whose row is crowded, unless it exists.
pub(in crate::nemesis) async fn make_link(shared: &ClientContext) {
    let body = json!({ "longUrl": format!("{TARGET}0"), "customSlug": CROWDED }).to_string();
    let request = request(shared, "POST", "/links");
    let mut client = Client::new(Via::ControlPlane(0));
    // It usually exists already, which is 409; without it nothing is crowded.
    let _ = client.ask(shared, &request, body.as_bytes()).await;
}

/// Changes that link from many clients for that time. Most name a stale revision: checking it locks the row.
pub(in crate::nemesis) async fn patch(shared: &Arc<ClientContext>, time: Duration) {
    make_link(shared).await;
    let end = Instant::now() + time;
    let mut clients = JoinSet::new();
    for number in 0..PATCHING {
        let shared = shared.clone();
        clients.spawn(async move {
            let mut client = Client::new(Via::ControlPlane(number % CONTROL_PLANES));
            let mut request = request(&shared, "PATCH", &format!("/links/{CROWDED}"));
            if number % 8 > 0 {
                request = request.header("if-match", b"\"0\"");
            }
            while Instant::now() < end {
                let body = json!({ "title": format!("of client {number}") }).to_string();
                // Others must be answered, these need not be.
                let _ = client.ask(&shared, &request, body.as_bytes()).await;
                sleep(PATCH_PAUSE).await;
            }
        });
    }
    clients.join_all().await;
}

/// For that time, keeps requests open at a part whose body never arrives.
pub(in crate::nemesis) async fn hold_bodies(
    shared: &Arc<ClientContext>,
    part: &str,
    time: Duration,
) {
    let (address, head) = silent_request(shared, part);
    let end = Instant::now() + time;
    let mut clients = JoinSet::new();
    for _ in 0..SILENT {
        let head = head.clone();
        clients.spawn(async move {
            while Instant::now() < end {
                let _ = timeout_at(end, hold_body(address, &head)).await; // until the part gives up, or the run ends
                sleep_until(end.min(Instant::now() + REOPEN_PAUSE)).await;
            }
        });
    }
    clients.join_all().await;
}

/// Address of a part, and the head of a form without its body: of the login, or of a link.
fn silent_request(shared: &ClientContext, part: &str) -> (SocketAddr, String) {
    let number = part.split_once('-').and_then(|(_, text)| text.parse().ok());
    let number = number.unwrap_or_default();
    // From anonymous clients control planes wait only for forms: requests that need a key are refused before the body.
    let (via, path) = if part.starts_with("cp-") {
        (Via::ControlPlane(number), "/console/login")
    } else {
        (Via::Envoy(number), "/crowded")
    };
    let address = shared.address(via).expect("a part that listens");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: 100\r\n\r\n",
        crate::scenario::DOMAIN
    );
    (address, head)
}

/// Returns once the part has answered, or closed the connection.
async fn hold_body(address: SocketAddr, head: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.read(&mut [0]).await.map(|_| ())
}

/// Creates many links with a limit of one visit, follows each at one Envoy, and once more at the other one, by when a
/// block that was leased and not returned would have come back. The returned text is for people.
pub(in crate::nemesis) async fn visit_limited(
    shared: &Arc<ClientContext>,
    envoy: usize,
    time: Duration,
) -> String {
    let codes = make_limited(shared).await;
    let start = Instant::now();
    visit_all(shared, Via::Envoy(envoy), &codes).await;
    let again = start + VISITS_LEASE + VISITS_GRACE + FOLLOWED_IN / 2;
    sleep_until(again).await;
    visit_all(shared, Via::Envoy((envoy + 1) % ENVOYS), &codes).await;
    sleep_until(start + time).await;
    format!("{} links", codes.len())
}

/// Codes of the links whose creation is acknowledged.
async fn make_limited(shared: &ClientContext) -> Vec<String> {
    let mut made = Vec::new();
    let mut links = Vec::new();
    for _ in 0..LIMITED {
        let target = shared.history.number();
        let code = format!("once-{target}");
        let op = shared.history.invoke(Ask::Limit {
            code: code.clone(),
            target,
            max: 1,
            expired: None,
        });
        let url = format!("{TARGET}{target}");
        links.push(json!({ "longUrl": url, "customSlug": code, "maxVisits": 1 }));
        made.push((op, code));
    }
    let request = request(shared, "POST", "/links/bulk");
    let mut client = Client::new(Via::ControlPlane(0));
    let body = Json::from(links).to_string();
    let results = match client.ask(shared, &request, body.as_bytes()).await {
        Ok(answer) if answer.status == 200 => {
            let body: Json = serde_json::from_slice(&answer.body).unwrap_or_default();
            body["results"].as_array().cloned().unwrap_or_default()
        }
        _ => Vec::new(),
    };
    let mut codes = Vec::new();
    for (index, (op, code)) in made.into_iter().enumerate() {
        let is_made = results.get(index).is_some_and(|one| one["status"] == 201);
        let outcome = if is_made {
            OperationOutcome::done(&code, shared.history.now(), true)
        } else {
            OperationOutcome::Unknown
        };
        shared.history.complete(op, outcome);
        if is_made {
            codes.push(code);
        }
    }
    codes
}

/// Visits each of the links once, at an even pace.
async fn visit_all(shared: &Arc<ClientContext>, via: Via, codes: &[String]) {
    let mut visitors = JoinSet::new();
    let pause = FOLLOWED_IN / u32::try_from(codes.len().max(1)).unwrap_or(1);
    let start = Instant::now();
    for visitor in 0..VISITORS {
        let mine = codes
            .iter()
            .cloned()
            .enumerate()
            .skip(visitor)
            .step_by(VISITORS);
        let (shared, mine) = (shared.clone(), mine.collect::<Vec<_>>());
        visitors.spawn(async move {
            let mut client = Client::new(via);
            for (index, code) in mine {
                let at = start + pause * u32::try_from(index).unwrap_or(u32::MAX);
                sleep_until(at).await;
                client.visit(&shared, &code, Purpose::Click).await;
            }
        });
    }
    visitors.join_all().await;
}
