//! An earlier version becomes this one and this one the earlier one again, a process at a time, while links are created and followed.

mod traffic;

use crate::visitors::{Pace, Visitors};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Production, ProductionOptions, Version, await_workers, until};
use std::sync::Arc;
use std::time::{Duration, Instant};
use traffic::{Creators, Links, Rotation};

/// Redirects and creations a second: 1,000 together.
const REDIRECTS: u32 = 960;
const CREATIONS: u32 = 40;
const VISITORS: usize = 32;
/// Redirects between two steps, so that each state is seen for 5 s.
const BETWEEN: u64 = 5 * REDIRECTS as u64;
const LIMIT: Duration = Duration::from_secs(60);

/// `make upgrade`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make upgrade"]
async fn upgrade() {
    let (earlier, this) = (Version::earlier(), Version::this());
    let redis = RedisServer::start().await;
    let options = ProductionOptions {
        version: Some(earlier.clone()),
        variables: vec![("EDGELINK_SERVER_SHUTDOWN_DELAY_MS", "3000".to_owned())],
        ..ProductionOptions::direct(&redis)
    };
    let mut roll = Roll::start(Production::start(&options).await).await;
    println!("\nto this version:");
    roll.migrate(&this).await;
    for place in 0..2 {
        roll.control_plane(place, &this).await;
    }
    for place in 0..2 {
        roll.edge(place, &this).await;
    }
    // In the same order, so that edges of this version meet control planes of the earlier one as well.
    println!("and back:");
    for place in 0..2 {
        roll.control_plane(place, &earlier).await;
    }
    for place in 0..2 {
        roll.edge(place, &earlier).await;
    }
    roll.finish().await;
}

/// A deployment under load, of which one process at a time is replaced.
struct Roll {
    production: Production,
    edges: Arc<Rotation>,
    control_planes: Arc<Rotation>,
    links: Arc<Links>,
    creators: Creators,
    visitors: Visitors,
}

impl Roll {
    async fn start(production: Production) -> Self {
        let edges = Rotation::of(production.envoys.iter().map(|envoy| envoy.edge()));
        let addresses = production.control_planes.iter();
        let control_planes = Rotation::of(addresses.map(|control_plane| control_plane.address()));
        let links = Arc::<Links>::default();
        let key = production.control_planes[0].admin_key().to_owned();
        let creators = Creators::start(&control_planes, &key, CREATIONS, &links);
        until("there are links", LIMIT, async || {
            (links.count() > 0).then_some(())
        })
        .await;
        let pace = Pace {
            connections: VISITORS,
            rate: Some(REDIRECTS),
        };
        let visitors = Visitors::start(std::slice::from_ref(&edges), pace, &links);
        let roll = Self {
            production,
            edges,
            control_planes,
            links,
            creators,
            visitors,
        };
        roll.pass().await;
        roll
    }

    /// Lets the load go on for a while.
    async fn pass(&self) {
        self.visitors
            .await_sent(self.visitors.sent() + BETWEEN)
            .await;
    }

    /// As the runbook says: before the first process of the later version.
    async fn migrate(&mut self, version: &Version) {
        let began = Instant::now();
        let control_plane = &mut self.production.control_planes[0];
        control_plane.set_version(version);
        let output = control_plane.run(&["migrate"]).await;
        assert!(output.status.success(), "{output:?}");
        println!("    the schema is migrated     {:>8.1?}", began.elapsed());
        self.pass().await;
    }

    async fn control_plane(&mut self, place: usize, version: &Version) {
        let began = Instant::now();
        let control_plane = &mut self.production.control_planes[place];
        self.control_planes.leave(control_plane.address()).await;
        let status = control_plane.process().terminate().await;
        assert!(status.success(), "{status:?}");
        control_plane.set_version(version);
        control_plane.restart().await;
        self.control_planes.join(control_plane.address());
        println!(
            "    control plane {} is replaced {:>8.1?}",
            place + 1,
            began.elapsed()
        );
        self.pass().await;
    }

    async fn edge(&mut self, place: usize, version: &Version) {
        let began = Instant::now();
        let envoy = &mut self.production.envoys[place];
        self.edges.leave(envoy.edge()).await;
        // Connections end with their next answer.
        envoy.admin_post("/healthcheck/fail").await;
        until("the edge has no connections", LIMIT, async || {
            let stats = envoy.stats("^http.edge.downstream_cx_active$").await;
            (stats.get("http.edge.downstream_cx_active") == 0).then_some(())
        })
        .await;
        envoy.process().terminate().await;
        envoy.set_version(version);
        envoy.restart().await;
        await_workers(envoy).await;
        self.edges.join(envoy.edge());
        println!(
            "    edge {} is replaced          {:>8.1?}",
            place + 1,
            began.elapsed()
        );
        self.pass().await;
    }

    async fn finish(self) {
        let mut seen = self.visitors.finish().await;
        let errors = self.creators.finish().await;
        seen.print("redirects");
        println!(
            "{} links created; {} errors {:?}",
            self.links.count(),
            errors.len(),
            errors.first()
        );
        let mut lost = Vec::new();
        for envoy in &self.production.envoys {
            let mut connection = envoy.connect().await;
            lost.extend(self.links.not_right(&mut connection).await);
        }
        println!(
            "{} links that do not lead where they have to: {:?}",
            lost.len(),
            lost.first()
        );
        assert_eq!(self.links.twice(), 0, "codes came twice");
        assert!(errors.is_empty() && lost.is_empty());
        assert_eq!(seen.wrong + seen.unanswered, 0);
    }
}
