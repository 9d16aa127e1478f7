//! The production shape: MariaDB, Redis, two control planes, and Envoys with two workers each.

use super::{ControlPlane, Envoy, EnvoyOptions, RedisOptions, Version, until};
use crate::scenario::{CITY_HEADER, COUNTRY_HEADER};
use crate::servers::{MariaDb, RedisServer};
use std::time::Duration;

const WORKERS: u16 = 2;
const LIMIT: Duration = Duration::from_secs(30);

/// Options of the deployment.
#[derive(Clone, Debug)]
pub struct ProductionOptions {
    /// Number of Envoys.
    pub envoys: usize,
    /// URL of Redis for control planes.
    pub redis_url: String,
    /// Access of Envoys to Redis.
    pub redis: RedisOptions,
    /// Attributes in the click reports of Envoys: `EDGELINK_CLICKS_ATTRIBUTES`.
    pub click_attributes: &'static str,
    /// Text of a template in place of `envoy/plugin.json`, which then configures clicks itself.
    pub plugin: Option<String>,
    /// Build of control plane and edge, if it is not this checkout's.
    pub version: Option<Version>,
    /// Further environment variables of control planes.
    pub variables: Vec<(&'static str, String)>,
}

impl ProductionOptions {
    /// Two Envoys that query one Redis directly.
    #[must_use]
    pub fn direct(redis: &RedisServer) -> Self {
        Self {
            envoys: 2,
            redis_url: redis.url(),
            redis: RedisOptions::direct(redis.port()),
            click_attributes: "",
            plugin: None,
            version: None,
            variables: Vec::new(),
        }
    }
}

/// The whole deployment except Redis, which belongs to the test.
#[derive(Debug)]
pub struct Production {
    /// The Envoys.
    pub envoys: Vec<Envoy>,
    /// The two control planes.
    pub control_planes: Vec<ControlPlane>,
    /// The database.
    pub database: MariaDb,
}

impl Production {
    /// Starts it, and returns when every worker has read its snapshot and uses it for admission.
    pub async fn start(options: &ProductionOptions) -> Self {
        let database = MariaDb::start();
        let url = database.database();
        let mut variables = vec![
            ("EDGELINK_STORE_URL", url.as_str()),
            ("EDGELINK_REDIS_URL", &options.redis_url),
        ];
        variables.extend(
            options
                .variables
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
        );
        let first = match &options.version {
            None => ControlPlane::with_variables(&variables).await,
            Some(version) => ControlPlane::of_version(version, &variables).await,
        };
        let second = first.replica().await;
        let mut production = Self {
            envoys: Vec::new(),
            control_planes: vec![first, second],
            database,
        };
        for _ in 0..options.envoys {
            production.add_envoy(options).await;
        }
        production
    }

    /// Starts another Envoy, which has only its snapshot.
    pub async fn add_envoy(&mut self, options: &ProductionOptions) {
        let envoy_options = EnvoyOptions {
            workers: WORKERS,
            redis: Some(options.redis.clone()),
            feed: "poll",
            clicks: if options.plugin.is_none() {
                "true"
            } else {
                "false"
            },
            click_attributes: options.click_attributes,
            plugin: options.plugin.clone(),
            version: options.version.clone(),
            geo_headers: [COUNTRY_HEADER, CITY_HEADER],
            ..EnvoyOptions::default()
        };
        let addresses: Vec<_> = self
            .control_planes
            .iter()
            .map(ControlPlane::address)
            .collect();
        let envoy = Envoy::start(&envoy_options, &addresses).await;
        await_workers(&envoy).await;
        self.envoys.push(envoy);
    }

    /// Number of edges in the Envoys: workers, or processes with the native module.
    #[must_use]
    pub fn edges(&self) -> u64 {
        let edges = self
            .envoys
            .iter()
            .map(|envoy| envoy.filter().edges(WORKERS));
        edges.sum()
    }

    /// Sum of `edgelink.NAME` over all Envoys.
    pub async fn figure(&self, name: &str) -> u64 {
        let mut sum = 0;
        for envoy in &self.envoys {
            let stats = envoy.figures().await;
            sum += stats.sum_of(&format!("edgelink.{name}"));
        }
        sum
    }
}

/// Waits until every worker has read its snapshot and uses it for admission. A worker connects, and fetches its initial
/// state, with its first request; the kernel chooses which worker gets a request.
pub async fn await_workers(envoy: &Envoy) {
    let edges = envoy.filter().edges(WORKERS);
    until("every worker has started", LIMIT, async || {
        envoy.follow("/first-request").await;
        let stats = envoy.figures().await;
        let is_connected = stats.get("edgelink.redis_connected.lookup") >= edges;
        let is_admitting = stats.get("edgelink.admission") == edges;
        (is_connected && is_admitting).then_some(())
    })
    .await;
}
