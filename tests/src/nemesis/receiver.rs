//! The receiver of a webhook, which records the messages. Faults do not reach it, but it has its own: it refuses some
//! messages, and answers others too late.

use super::deployment::{CONTROL_PLANES, DisturbedDeployment, WEBHOOK_TIMEOUT};
use super::history::{History, Value, What};
use crate::scenario::{DOMAIN, Request};
use crate::stack::{Connection, local, until};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const START_LIMIT: Duration = Duration::from_secs(30);
/// Time after the last fault within which every event must have arrived. A moved clock may delay an attempt by 90 s.
const DELIVERY_LIMIT: Duration = Duration::from_secs(150);

/// The running receiver.
pub(super) struct Receiver {
    task: JoinHandle<()>,
}

struct Shared {
    history: Arc<History>,
    secret: OnceLock<Vec<u8>>,
    /// Codes of links with at least one received event.
    codes: Mutex<HashSet<String>>,
    rng: Mutex<StdRng>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// Creates the webhook, and waits until every control plane knows it.
    ///
    /// # Panics
    /// Panics if that fails.
    pub(super) async fn start(
        deployment: &DisturbedDeployment,
        history: &Arc<History>,
        seed: u64,
    ) -> Self {
        let listener = TcpListener::bind(local(0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            history: history.clone(),
            secret: OnceLock::new(),
            codes: Mutex::default(),
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
        });
        let app = Router::new().fallback(receive).with_state(shared.clone());
        let task = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("a receiver");
        });
        let body = json!({ "url": format!("http://{address}/") });
        let made = post(deployment, 0, "/webhooks", &body).await;
        let secret = made["secret"].as_str().and_then(|text| {
            let text = text.strip_prefix("whsec_")?;
            STANDARD.decode(text).ok()
        });
        let secret = secret.unwrap_or_else(|| panic!("no secret: {made}"));
        shared.secret.set(secret).expect("one webhook");
        for number in 0..CONTROL_PLANES {
            await_event(deployment, number, &shared).await;
        }
        history.add(What::Subscribed);
        Self { task }
    }
}

/// Creates links until an event of one of them arrives: control planes reload the list of webhooks only now and then.
async fn await_event(deployment: &DisturbedDeployment, number: usize, shared: &Shared) {
    let body = json!({ "longUrl": "https://example.com/probe" });
    until("a webhook is in effect", START_LIMIT, async || {
        let link = post(deployment, number, "/links", &body).await;
        let code = link["shortCode"].as_str().unwrap_or_default();
        let arrives = until_heard(shared, code);
        timeout(WEBHOOK_TIMEOUT, arrives).await.ok()
    })
    .await;
}

async fn until_heard(shared: &Shared, code: &str) {
    while !lock(&shared.codes).contains(code) {
        sleep(Duration::from_millis(20)).await;
    }
}

async fn post(deployment: &DisturbedDeployment, number: usize, path: &str, body: &Json) -> Json {
    let request = Request::new("POST", format!("/api/v1{path}").as_bytes())
        .header("x-api-key", deployment.admin_key().as_bytes())
        .header("content-type", b"application/json");
    let address: SocketAddr = deployment.control_plane(number);
    let mut connection = Connection::open(address).await.expect("a control plane");
    let body = body.to_string();
    let answer = connection.exchange(&request, body.as_bytes()).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 201, "{path}");
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// Waits until no delivery is pending, or for the longest time that one may take.
pub(super) async fn await_deliveries(deployment: &DisturbedDeployment) {
    let none_waits = async {
        let count = "SELECT COUNT(*) FROM nemesis.webhook_deliveries WHERE waiting IS NOT NULL";
        while deployment.sql(count).await.as_deref().map(str::trim) != Ok("0") {
            sleep(Duration::from_millis(100)).await;
        }
    };
    if timeout(DELIVERY_LIMIT, none_waits).await.is_err() {
        println!("events still wait for their delivery after {DELIVERY_LIMIT:?}");
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let (dice, late) = {
        let mut rng = lock(&shared.rng);
        (rng.random_range(0..100), rng.random_range(100..400))
    };
    let status = match dice {
        0..15 => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::NO_CONTENT,
    };
    if dice >= 97 {
        sleep(WEBHOOK_TIMEOUT + Duration::from_millis(late)).await;
    }
    let message: Json = serde_json::from_slice(&body).unwrap_or_default();
    let data = &message["data"];
    let code = data["shortCode"].as_str().unwrap_or_default();
    let code = match data["domain"].as_str() {
        Some(domain) if domain != DOMAIN => format!("{domain}/{code}"),
        _ => code.to_owned(),
    };
    lock(&shared.codes).insert(code.clone());
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let id = header("webhook-id").unwrap_or_default().to_owned();
    let target = super::clients::version(data["longUrl"].as_str());
    let value = match data["state"].as_str() {
        Some("disabled") => Some(Value::Disabled),
        _ => target.map(Value::Target),
    };
    shared.history.add(What::Delivered {
        event: message["type"].as_str().unwrap_or_default().to_owned(),
        code,
        value,
        digest: STANDARD.encode(Sha256::digest(&body)),
        is_signed: shared.is_signed(&id, &headers, &body).is_some(),
        status: status.as_u16(),
        id,
    });
    status
}

impl Shared {
    /// `None` if no signature is correct.
    fn is_signed(&self, id: &str, headers: &HeaderMap, body: &[u8]) -> Option<()> {
        let timestamp = headers.get("webhook-timestamp")?.to_str().ok()?;
        let _seconds: u64 = timestamp.parse().ok()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.get()?).ok()?;
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        let right = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let signatures = headers.get("webhook-signature")?.to_str().ok()?;
        signatures.split(' ').any(|one| one == right).then_some(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
