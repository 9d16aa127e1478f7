//! Real Envoy as a host of scenarios.

use super::http::request_bytes;
use super::{Behaviour, Connection, Envoy, EnvoyOptions, ScriptedControlPlane, until};
use crate::scenario::{
    Answer, CITY_HEADER, COUNTRY_HEADER, Edge, Lives, PASSED_THROUGH, Reply, Request, visits_of,
};
use edgelink_wire::VisitsRequest;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Body of the default route of `envoy/bootstrap.yaml`.
const DEFAULT_ROUTE: &[u8] = b"Not found.\n";
const LIMIT: Duration = Duration::from_secs(10);

/// Envoy with one worker in front of a control plane that scenarios script.
#[derive(Debug)]
pub struct EnvoyEdge {
    envoy: Envoy,
    control_plane: ScriptedControlPlane,
    lives: Lives,
    under_way: u64,
}

/// A request in flight, on its own connection.
#[derive(Debug)]
pub struct EnvoyVisit {
    connection: Connection,
    method: String,
}

impl EnvoyEdge {
    /// Starts both. Records are fresh for one second only, so that scenarios need not wait long.
    pub async fn start() -> Self {
        Self::start_with(EnvoyOptions {
            fresh_seconds: 1,
            stale_seconds: 4,
            ..EnvoyOptions::default()
        })
        .await
    }

    /// Starts both for domains of the API, without a snapshot and without a feed.
    pub async fn start_with_api_domains() -> Self {
        Self::start_with(EnvoyOptions {
            feed: "poll",
            ..EnvoyOptions::default()
        })
        .await
    }

    async fn start_with(options: EnvoyOptions) -> Self {
        let control_plane = ScriptedControlPlane::start().await;
        let options = EnvoyOptions {
            trusted_hops: 1,
            geo_headers: [COUNTRY_HEADER, CITY_HEADER],
            ..options
        };
        let lives = Lives {
            fresh: Duration::from_secs(options.fresh_seconds.into()),
            stale: Duration::from_secs(options.stale_seconds.into()),
            timeout: Duration::from_millis(options.callout_timeout_ms.into()),
        };
        Self {
            envoy: Envoy::start(&options, &[control_plane.address()]).await,
            control_plane,
            lives,
            under_way: 0,
        }
    }

    /// The Envoy.
    #[must_use]
    pub fn envoy(&self) -> &Envoy {
        &self.envoy
    }

    /// The control plane.
    #[must_use]
    pub fn control_plane(&self) -> &ScriptedControlPlane {
        &self.control_plane
    }

    async fn figure(&self, name: &str) -> u64 {
        let stats = self.envoy.stats(&format!("^{name}$")).await;
        stats.get(name)
    }
}

impl Edge for EnvoyEdge {
    type Visit = EnvoyVisit;

    async fn start(&mut self, request: Request) -> EnvoyVisit {
        let requests = "http.edge.downstream_rq_total";
        let before = self.figure(requests).await;
        let mut connection = self.envoy.connect().await;
        let sent = connection.send(&request_bytes(&request, b"")).await;
        sent.expect("a connection that takes a request");
        self.under_way += 1;
        until("Envoy sees the request", LIMIT, async || {
            (self.figure(requests).await > before).then_some(())
        })
        .await;
        EnvoyVisit {
            connection,
            method: request.method,
        }
    }

    async fn finish(&mut self, mut visit: EnvoyVisit) -> Answer {
        let answer = visit.connection.receive(&visit.method).await;
        self.under_way -= 1;
        let mut answer = answer.expect("an answer");
        if answer.status == 404 && answer.body == DEFAULT_ROUTE {
            answer
                .headers
                .push((PASSED_THROUGH.to_owned(), b"yes".to_vec()));
        }
        answer
    }

    async fn leave(&mut self, visit: EnvoyVisit) {
        drop(visit);
        self.under_way -= 1;
        until("Envoy sees that the client left", LIMIT, async || {
            let active = self.figure("http.edge.downstream_rq_active").await;
            (active <= self.under_way).then_some(())
        })
        .await;
    }

    async fn script(&mut self, code: &str, reply: Reply) {
        self.control_plane.script(code, Behaviour::Reply(reply));
    }

    async fn visit_requests(&mut self, code: &str) -> Vec<VisitsRequest> {
        let bodies = self.control_plane.bodies(&visits_of(code));
        let request = |body: Vec<u8>| VisitsRequest::decode(&body).expect("a request for visits");
        bodies.into_iter().map(request).collect()
    }

    async fn lookups(&mut self, code: &str) -> usize {
        self.control_plane.lookups(code)
    }

    async fn await_lookups(&mut self, code: &str, count: usize) {
        self.control_plane.await_lookups(code, count).await;
    }

    async fn pass(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.expect("a time after 1970").as_secs()
    }

    fn lives(&self) -> Lives {
        self.lives
    }
}
