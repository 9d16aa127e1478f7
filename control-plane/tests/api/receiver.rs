//! A receiver of webhooks, which checks signatures and can fail.

use crate::helpers::{Running, send};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Redirect;
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Settings with which events go to this machine, and failures are retried soon.
pub(crate) const SETTINGS: [(&str, &str); 5] = [
    ("EDGELINK_WEBHOOKS_ALLOWED_HOSTS", "127.0.0.1,localhost"),
    ("EDGELINK_WEBHOOKS_ALLOWED_NETWORKS", "127.0.0.0/8,::1"),
    ("EDGELINK_WEBHOOKS_ALLOW_HTTP", "true"),
    ("EDGELINK_WEBHOOKS_FIRST_PAUSE_MS", "10"),
    ("EDGELINK_WEBHOOKS_LONGEST_PAUSE_MS", "50"),
];

/// What a receiver has got.
#[derive(Default)]
pub(crate) struct Received {
    /// Messages that it has accepted: id and body.
    accepted: Mutex<Vec<(String, Value)>>,
    /// How many requests it refuses from now on.
    pub(crate) refuses: Mutex<usize>,
    /// The secret that signs.
    pub(crate) secret: Mutex<String>,
}

impl Received {
    pub(crate) fn accepted(&self) -> Vec<(String, Value)> {
        self.accepted.lock().unwrap().clone()
    }

    pub(crate) fn has(&self, event: &str, code: &str) -> bool {
        let is_it = |(_, body): &(String, Value)| {
            body["type"] == event && body["data"]["shortCode"] == code
        };
        self.accepted().iter().any(is_it)
    }
}

pub(crate) struct Receiver {
    pub(crate) received: Arc<Received>,
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), Arc::default()).await
    }

    pub(crate) async fn at(address: SocketAddr, received: Arc<Received>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new()
            .route("/", post(receive))
            .route("/elsewhere", post(async || Redirect::temporary("/")))
            .route("/silence", post(std::future::pending::<()>));
        let routes = routes.with_state(Arc::clone(&received));
        let task = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self {
            received,
            address,
            task,
        }
    }

    /// Kills the receiver; what it has received and its address.
    pub(crate) async fn kill(self) -> (SocketAddr, Arc<Received>) {
        self.task.abort();
        let _ = self.task.await;
        (self.address, self.received)
    }
}

async fn receive(
    State(received): State<Arc<Received>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
    let text = String::from_utf8(body.to_vec()).unwrap();
    let secret = received.secret.lock().unwrap().clone();
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.{text}").as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    if !header("webhook-signature")
        .split(' ')
        .any(|one| one == expected)
    {
        return StatusCode::UNAUTHORIZED;
    }
    {
        let mut refuses = received.refuses.lock().unwrap();
        if *refuses > 0 {
            *refuses -= 1;
            return StatusCode::INTERNAL_SERVER_ERROR;
        }
    }
    let body = serde_json::from_str(&text).unwrap();
    received.accepted.lock().unwrap().push((id, body));
    StatusCode::NO_CONTENT
}

/// Makes a webhook to the receiver; its path.
pub(crate) async fn subscribe(server: &Running, receiver: &Receiver, events: &Value) -> String {
    let url = format!("http://{}/", receiver.address);
    let body = json!({ "url": url, "events": events });
    let made = send(server.api(Method::POST, "/webhooks").json(&body)).await;
    let webhook = made.expect(201);
    *receiver.received.secret.lock().unwrap() = webhook["secret"].as_str().unwrap().to_owned();
    format!("/webhooks/{}", webhook["id"])
}

pub(crate) async fn deliveries(server: &Running, path: &str) -> Vec<Value> {
    let page = server.get(&format!("{path}/deliveries")).await.expect(200);
    page["deliveries"].as_array().unwrap().clone()
}
