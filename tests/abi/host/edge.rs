//! The wasmtime host as a host of scenarios.

use super::fleet::Fleet;
use super::hostcalls::http_call::Callout;
use super::message::{Outcome, Response};
use super::module::{Metering, Module};
use super::plugin::Cluster;
use super::worker::StreamId;
use crate::scenario::{
    Answer, CITY_HEADER, COUNTRY_HEADER, DOMAIN, Edge, Lives, PASSED_THROUGH, Reply, Request,
    returns_of, script_of, settled, visits_of,
};
use edgelink_wire::VisitsRequest;
use edgelink_wire::visits::RETURNS_PATH;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const CLUSTER: &str = "control_plane";

/// Script of requests that are never answered here.
const BACKGROUND: &str = "background";

/// The filter on the wasmtime host, in front of a control plane that scenarios script.
pub struct WasmtimeEdge {
    fleet: Fleet,
    scripts: BTreeMap<String, Reply>,
    lookups: BTreeMap<String, usize>,
    visit_requests: BTreeMap<String, Vec<VisitsRequest>>,
    seen: BTreeSet<u32>,
    lives: Lives,
}

impl WasmtimeEdge {
    /// Starts a worker with the filter.
    ///
    /// # Panics
    /// Panics if the filter is not built or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(serde_json::json!({}))
    }

    /// Starts a worker for domains of the API, without a snapshot and without a feed.
    ///
    /// # Panics
    /// Panics if the filter is not built or does not start.
    #[must_use]
    pub fn start_with_api_domains() -> Self {
        Self::start_with(serde_json::json!({ "apiDomains": true, "snapshot": {}, "poll": {} }))
    }

    fn start_with(sections: serde_json::Value) -> Self {
        let lives = Lives {
            fresh: Duration::from_secs(5),
            stale: Duration::from_secs(3600),
            timeout: Duration::from_millis(800),
        };
        let fleet = Fleet::of(&Module::filter(Metering::Off))
            .configuration(configuration(lives, sections))
            .cluster(CLUSTER, Cluster::Healthy)
            .allow_on_headers_stop_iteration()
            .start()
            .unwrap_or_else(|error| panic!("{error}: {:#?}", error.log));
        Self {
            fleet,
            scripts: BTreeMap::new(),
            lookups: BTreeMap::new(),
            visit_requests: BTreeMap::new(),
            seen: BTreeSet::new(),
            lives,
        }
    }

    /// Sends all answers that the control plane can give by now.
    fn answer_callouts(&mut self) {
        self.take_returns();
        while let Some((callout, reply)) = self.next_answer() {
            let (_, key) = request_of(&callout);
            let worker = self.fleet.worker(0);
            match reply.to_request(&key, &callout.body) {
                Some(http) => worker.answer(&callout, response(http)),
                None => worker.refuse_callout(&callout),
            }
        }
    }

    /// Accepts blocks returned together.
    fn take_returns(&mut self) {
        for callout in self.fleet.worker(0).callouts() {
            let Some(returns) = returns_of(callout.path(), &callout.body) else {
                continue;
            };
            let http = settled(returns.len());
            for (code, request) in returns {
                *self.lookups.entry(code.clone()).or_default() += 1;
                self.visit_requests.entry(code).or_default().push(request);
            }
            self.fleet.worker(0).answer(&callout, response(http));
        }
    }

    fn next_answer(&mut self) -> Option<(Callout, Reply)> {
        for callout in self.fleet.worker(0).callouts() {
            if callout.path() == RETURNS_PATH {
                continue;
            }
            let (code, _) = request_of(&callout);
            if self.seen.insert(callout.token) {
                *self.lookups.entry(code.clone()).or_default() += 1;
                let request = VisitsRequest::decode(&callout.body);
                let requests = self.visit_requests.entry(code.clone()).or_default();
                requests.extend(request.ok());
            }
            let script = self.scripts.get(&code);
            let reply = if code == BACKGROUND {
                Reply::Reset
            } else {
                script.cloned().unwrap_or(Reply::Absent { rev: 0 })
            };
            if !matches!(reply, Reply::Hang) {
                return Some((callout, reply));
            }
        }
        None
    }
}

impl Drop for WasmtimeEdge {
    /// No scenario may trap the filter.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.fleet.assert_unharmed();
        }
    }
}

fn configuration(lives: Lives, sections: serde_json::Value) -> String {
    let mut configuration = serde_json::json!({
        "domains": [DOMAIN],
        "controlPlane": {
            "cluster": CLUSTER,
            "authority": "control-plane",
            "token": "token",
            "timeoutMs": lives.timeout.as_millis() as u64,
        },
        "freshSeconds": lives.fresh.as_secs(),
        "absentFreshSeconds": lives.fresh.as_secs(),
        "staleSeconds": lives.stale.as_secs(),
        "tierHeader": true,
        "forwardPaths": true,
        "geo": {"countryHeader": COUNTRY_HEADER, "cityHeader": CITY_HEADER},
    });
    if let (Some(all), serde_json::Value::Object(more)) = (configuration.as_object_mut(), sections)
    {
        all.extend(more);
    }
    configuration.to_string()
}

/// Script and key of a request; requests for a snapshot or the feed have neither.
fn request_of(callout: &Callout) -> (String, String) {
    let path = callout.path();
    let is_background = ["/edge/v1/snapshot", "/edge/v1/feed"].map(|of| path.starts_with(of));
    match script_of(path) {
        Some(request) => request,
        None if is_background.contains(&true) => (BACKGROUND.to_owned(), String::new()),
        None => panic!("not a lookup: {path}"),
    }
}

fn response((status, content_type, body): (u16, Option<&str>, Vec<u8>)) -> Response {
    let response = Response::new(status).body(body);
    match content_type {
        Some(content_type) => response.header("content-type", content_type),
        None => response,
    }
}

impl Edge for WasmtimeEdge {
    type Visit = StreamId;

    async fn start(&mut self, request: Request) -> StreamId {
        let worker = self.fleet.worker(0);
        let mut builder = worker.request(&request.method, &request.path);
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let stream = builder.send();
        self.answer_callouts();
        stream
    }

    async fn finish(&mut self, stream: StreamId) -> Answer {
        self.answer_callouts();
        match self.fleet.worker(0).outcome(stream) {
            Outcome::LocalResponse(response) => response.into(),
            Outcome::PassedThrough { .. } => {
                let behind = Response::new(404).header(PASSED_THROUGH, "yes");
                self.fleet.worker(0).respond(stream, &behind);
                behind.into()
            }
            other => panic!("the request is not answered: {other:?}"),
        }
    }

    async fn leave(&mut self, stream: StreamId) {
        self.fleet.worker(0).close_stream(stream);
    }

    async fn script(&mut self, code: &str, reply: Reply) {
        self.scripts.insert(code.to_owned(), reply);
        self.answer_callouts();
    }

    async fn visit_requests(&mut self, code: &str) -> Vec<VisitsRequest> {
        let requests = self.visit_requests.get(&visits_of(code));
        requests.cloned().unwrap_or_default()
    }

    async fn lookups(&mut self, code: &str) -> usize {
        self.lookups.get(code).copied().unwrap_or(0)
    }

    async fn await_lookups(&mut self, code: &str, count: usize) {
        assert!(
            self.lookups(code).await >= count,
            "nothing happens by waiting here"
        );
    }

    async fn pass(&mut self, time: Duration) {
        let end = self.fleet.now() + time;
        while self.fleet.now() < end {
            let left = end - self.fleet.now();
            self.fleet.step(left);
            self.answer_callouts();
        }
    }

    fn now(&self) -> u64 {
        self.fleet.now().as_secs()
    }

    fn lives(&self) -> Lives {
        self.lives
    }
}
