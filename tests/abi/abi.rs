//! The proxy-wasm ABI as implemented by Envoy: a [`host`] for tests, and the cases in which it must match real Envoy.
//!
//! Both run the module of `probe/`, which misuses hostcalls as selected by a request's path and reports the host's
//! answers. A [`Case`] is a few requests; their results form a transcript, which must be equal on both (`tests/filter/abi`).
//! `answers/` has the transcripts of Envoy.

mod cases;
mod envoy;
pub mod host;
mod peer;
mod wasmtime;

pub use cases::{Case, Step, cases};
pub use envoy::ProbedEnvoy;
pub use wasmtime::ProbedFleet;

use crate::scenario::{Answer, Request};

/// The configuration of the probe.
const CONFIGURATION: &str = "plugin-configuration";

/// A host that runs the probe.
#[expect(
    async_fn_in_trait,
    reason = "the futures are awaited where they are made and need not be Send"
)]
pub trait ProbedHost {
    /// Sends a request and returns the answer.
    async fn visit(&mut self, request: Request) -> Answer;

    /// Sends a request that is never answered, and closes the connection once the filter has seen it.
    async fn leave(&mut self, request: Request);

    /// Waits until a failed VM may be replaced.
    async fn await_reload(&mut self);

    /// Lets a little time pass, for ticks, timeouts and posted events.
    async fn idle(&mut self);
}

/// Runs a case, and returns its transcript.
pub async fn transcript(host: &mut impl ProbedHost, case: &Case) -> String {
    journal(host, "").await; // discards the callbacks before this case
    let mut lines = Vec::new();
    for step in &case.steps {
        match step {
            Step::Visit(request) => {
                lines.push(format!("> {} {}", request.method, text(&request.path)));
                lines.push(describe(&host.visit(request.clone()).await));
            }
            Step::Leave(request) => {
                lines.push(format!("> {}, and leave", text(&request.path)));
                host.leave(request.clone()).await;
            }
            Step::Journal { until } => {
                lines.push("> the callbacks since".to_owned());
                lines.push(journal(host, until).await);
            }
            Step::AwaitReload => host.await_reload().await,
        }
    }
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// Reads the journal until a line contains `until`.
async fn journal(host: &mut impl ProbedHost, until: &str) -> String {
    const TRIES: usize = 500;
    let mut lines: Vec<String> = Vec::new();
    for _ in 0..TRIES {
        let answer = host.visit(Request::get("/journal")).await;
        lines.extend(text(&answer.body).lines().map(str::to_owned));
        if until.is_empty() || lines.iter().any(|line| line.contains(until)) {
            return lines.join("\n");
        }
        host.idle().await;
    }
    panic!("'{until}' never happened: {lines:#?}");
}

/// Status, headers in the order of their names, and body. Headers added by the connection manager are left out.
fn describe(answer: &Answer) -> String {
    const OF_THE_CONNECTION_MANAGER: [&str; 4] =
        ["connection", "date", "server", "transfer-encoding"];
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !name.starts_with(':'))
        .filter(|(name, _)| !OF_THE_CONNECTION_MANAGER.contains(&name.as_str()))
        // Envoy adds `content-length: 0` to an empty local response when it writes it as HTTP/1.
        .filter(|(name, value)| !(name == "content-length" && value == b"0"))
        .map(|(name, value)| format!("{name}: {}", text(value)))
        .collect();
    headers.sort();
    let mut lines = vec![answer.status.to_string()];
    lines.extend(headers);
    lines.push(text(&answer.body));
    lines.join("\n").trim_end().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
