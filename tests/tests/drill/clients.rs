//! Clients that create links as fast as they are answered.

use crate::acknowledged::Answers;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a client waits before it tries a control plane again that has not answered.
const PAUSE: Duration = Duration::from_millis(10);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Clients of one or more control planes.
pub(crate) struct Clients {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
}

impl Clients {
    /// Starts so many for each of `urls`.
    pub(crate) fn start(urls: &[String], key: &str, each: usize, answers: &Arc<Answers>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for (replica, url) in urls.iter().enumerate() {
            for client in 0..each {
                let name = format!("{replica}/{client}");
                tasks.spawn(create(
                    url.clone(),
                    key.to_owned(),
                    name,
                    Arc::clone(answers),
                    Arc::clone(&stop),
                ));
            }
        }
        Self { tasks, stop }
    }

    /// Lets every client have its last answer.
    pub(crate) async fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

async fn create(
    url: String,
    key: String,
    name: String,
    answers: Arc<Answers>,
    stop: Arc<AtomicBool>,
) {
    let http = client();
    let url = format!("{url}/api/v1/links");
    for n in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let target = format!("https://example.com/{name}/{n}");
        let request = http.post(&url).header("x-api-key", &key);
        match request.json(&json!({ "longUrl": target })).send().await {
            Ok(answer) if answer.status() == 201 => match answer.json::<Value>().await {
                Ok(link) => answers.created(code(&link), target),
                Err(_) => answers.failed(),
            },
            Ok(_) => {
                answers.refused();
                tokio::time::sleep(PAUSE).await;
            }
            Err(_) => {
                answers.failed();
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

pub(crate) fn client() -> reqwest::Client {
    let client = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none());
    client.build().expect("a client")
}

pub(crate) fn code(link: &Value) -> String {
    link["shortCode"].as_str().expect("a code").to_owned()
}
