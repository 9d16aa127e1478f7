//! Inflicting faults and repairing them.

use super::{CROWDED, Fault, Names, Planned, SECRETS};
use crate::nemesis::clicks::Clicks;
use crate::nemesis::clients::{ClientContext, crowd};
use crate::nemesis::deployment::{
    CONTROL_PLANES, DisturbedDeployment, Listener, START_LIMIT, redis_cli,
};
use crate::nemesis::history::{History, What};
use crate::nemesis::proxy::{Direction, Flow};
use crate::stack::Signal;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Seconds since the deletion of a link from which its tombstone is purged.
const TOMBSTONE_SECONDS: u64 = 8;
const GRACE: Duration = Duration::from_secs(15);
const FAILOVER_LIMIT: Duration = Duration::from_secs(30);
const CLUSTER_LIMIT: Duration = Duration::from_secs(40);
/// One-way delay of a distant edge.
const FAR: Duration = Duration::from_millis(80);

/// Inflicts faults on the deployment and repairs them.
pub(in crate::nemesis) struct Nemesis {
    pub(in crate::nemesis) deployment: Arc<DisturbedDeployment>,
    pub(in crate::nemesis) history: Arc<History>,
    pub(in crate::nemesis) clicks: Arc<Clicks>,
    clients: Arc<ClientContext>,
    names: Names,
    locks: HashMap<String, Arc<tokio::sync::Mutex<()>>>,
    /// Copies of the database, with the clicks counted in each.
    copies: Mutex<Vec<u64>>,
}

impl Nemesis {
    pub(in crate::nemesis) fn new(
        clients: &Arc<ClientContext>,
        clicks: &Arc<Clicks>,
        only: &[String],
    ) -> Self {
        let names = Names::of(&clients.deployment, only);
        let resources = names.parts.iter().chain(&names.links).cloned();
        let resources = resources.chain(["stray", SECRETS, CROWDED].map(str::to_owned));
        Self {
            deployment: clients.deployment.clone(),
            history: clients.history.clone(),
            clicks: clicks.clone(),
            clients: clients.clone(),
            locks: resources.map(|name| (name, Arc::default())).collect(),
            names,
            copies: Mutex::default(),
        }
    }

    pub(in crate::nemesis) fn names(&self) -> &Names {
        &self.names
    }

    /// Runs one lane of a storm.
    pub(in crate::nemesis) async fn run(self: Arc<Self>, lane: Vec<Planned>) {
        let start = Instant::now();
        for planned in lane {
            sleep_until(start + planned.at).await;
            let _mine = self.lock(&planned.resources).await;
            let number = self.history.number();
            self.history.add(What::Break {
                fault: number,
                kind: planned.kind.to_owned(),
                detail: planned.fault.to_string(),
            });
            self.inflict(number, &planned.fault, planned.lasts).await;
            self.history.add(What::Heal { fault: number });
        }
    }

    /// Locks in the order of names, so that lanes do not deadlock.
    async fn lock(&self, resources: &[String]) -> Vec<OwnedMutexGuard<()>> {
        let mut guards = Vec::new();
        for name in resources {
            if let Some(lock) = self.locks.get(name) {
                guards.push(lock.clone().lock_owned().await);
            }
        }
        guards
    }

    fn note(&self, fault: u64, text: &str) {
        let text = text.to_owned();
        self.history.add(What::Note { fault, text });
    }

    async fn inflict(&self, number: u64, fault: &Fault, lasts: Duration) {
        match fault {
            Fault::Kill(name) => self.kill(name, lasts).await,
            Fault::Stop(name) => {
                self.deployment.part(name).signal(Signal::STOP);
                sleep(lasts).await;
                self.deployment.part(name).signal(Signal::CONT);
            }
            Fault::Cut(name, directions) => {
                let links = std::slice::from_ref(name);
                self.cut(links, directions, lasts).await;
            }
            Fault::Refuse(name) => {
                self.deployment.proxy(name).refuse(true);
                sleep(lasts).await;
                self.deployment.proxy(name).heal();
            }
            Fault::Delay(name, direction, millis) => {
                let flow = Flow::Delayed(Duration::from_millis(*millis));
                self.deployment.proxy(name).set(*direction, flow);
                sleep(lasts).await;
                self.deployment.proxy(name).heal();
            }
            Fault::Isolate(name) => {
                let links = self.names.links_of(name);
                let both = [Direction::Requests, Direction::Answers];
                self.cut(&links, &both, lasts).await;
            }
            Fault::NoReplicas => {
                self.configure("min-replicas-to-write", "9").await;
                sleep(lasts).await;
                self.configure("min-replicas-to-write", "0").await;
            }
            Fault::FullRedis => {
                self.configure("maxmemory", "1mb").await;
                sleep(lasts).await;
                self.configure("maxmemory", "0").await;
            }
            Fault::ReadOnly => {
                let port = self.deployment.redis_port(self.deployment.master());
                redis_cli(port, &["REPLICAOF", "127.0.0.1", "1"]).await;
                sleep(lasts).await;
                redis_cli(port, &["REPLICAOF", "NO", "ONE"]).await;
            }
            Fault::EmptyRedis => {
                for master in self.deployment.masters().await {
                    redis_cli(self.deployment.redis_port(master), &["FLUSHALL"]).await;
                }
                sleep(lasts).await;
            }
            Fault::OlderRedis(choice) => self.older(number, *choice, lasts).await,
            Fault::Failover(choice) => self.failover(number, *choice, lasts).await,
            Fault::RestoreDatabase(choice) => self.restore(number, *choice, lasts).await,
            Fault::Purge => {
                let purged = self.deployment.purge_tombstones(TOMBSTONE_SECONDS).await;
                self.note(number, &purged.unwrap_or_else(|error| error));
                sleep(lasts).await;
            }
            Fault::Flush => {
                let flushed = self.deployment.edgelink("flush").await;
                self.note(number, &flushed.unwrap_or_else(|error| error));
                sleep(lasts).await;
            }
            Fault::Rolling => self.roll(lasts).await,
            Fault::Stray => self.stray(lasts).await,
            Fault::Reconfigure(envoy, steps) => self.reconfigure(*envoy, steps, lasts).await,
            Fault::MovableClock(name, seconds) => {
                let clock = &self.deployment.part(name).clock;
                clock.move_by(seconds * 1_000_000);
                sleep(lasts).await;
                clock.reset();
            }
            Fault::RotateCertificates(side) => {
                self.deployment.rotate_certificates(*side, lasts / 3).await;
            }
            Fault::RotateToken => self.deployment.rotate_token(lasts / 3).await,
            Fault::WrongCertificate(name) => {
                self.deployment.show_wrong_certificate(name).await;
                sleep(lasts).await;
                self.deployment.show_right_certificate(name).await;
            }
            Fault::CrowdedRow => crowd::patch(&self.clients, lasts).await,
            Fault::LockedRow => {
                crowd::make_link(&self.clients).await;
                let locked = self.deployment.lock_link(CROWDED, lasts);
                let (locked, ()) = tokio::join!(locked, crowd::patch(&self.clients, lasts));
                self.note(number, &locked.err().unwrap_or_default());
            }
            Fault::SilentBodies(part) => crowd::hold_bodies(&self.clients, part, lasts).await,
            Fault::OpenSnapshot => {
                let start = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
                let sql = "SELECT COUNT(*) FROM links";
                let open = self.deployment.hold_transaction(start, sql, lasts).await;
                self.note(number, &open.err().unwrap_or_default());
            }
            Fault::FarEdge(envoy) => {
                self.set_far(*envoy, Flow::Delayed(FAR));
                sleep(lasts).await;
                self.set_far(*envoy, Flow::Open);
            }
            Fault::LimitedCrowd(envoy) => {
                self.set_far(*envoy, Flow::Delayed(FAR));
                let visited = crowd::visit_limited(&self.clients, *envoy, lasts).await;
                self.note(number, &visited);
                self.set_far(*envoy, Flow::Open);
            }
        }
    }

    fn set_far(&self, envoy: usize, flow: Flow) {
        for name in self.names.links_of(&format!("envoy-{envoy}")) {
            for direction in [Direction::Requests, Direction::Answers] {
                self.deployment.proxy(&name).set(direction, flow);
            }
        }
    }

    /// Starts a part, and records when it serves.
    async fn start(&self, name: &str) {
        let part = self.deployment.part(name);
        let since = self.history.now();
        part.start();
        let is_ready = part.await_ready(START_LIMIT).await;
        self.history.add(What::Started {
            part: name.to_owned(),
            since,
            is_ready,
        });
    }

    async fn kill(&self, name: &str, lasts: Duration) {
        let part = self.deployment.part(name);
        part.kill();
        sleep(lasts).await;
        self.start(name).await;
    }

    async fn cut(&self, links: &[String], directions: &[Direction], lasts: Duration) {
        for name in links {
            for &direction in directions {
                self.deployment.proxy(name).set(direction, Flow::Cut);
            }
        }
        sleep(lasts).await;
        for name in links {
            self.deployment.proxy(name).heal();
        }
    }

    async fn configure(&self, setting: &str, value: &str) {
        for number in 0..self.deployment.redis_count() {
            let port = self.deployment.redis_port(number);
            redis_cli(port, &["CONFIG", "SET", setting, value]).await;
        }
    }

    async fn older(&self, number: u64, choice: usize, lasts: Duration) {
        let masters = self.deployment.masters().await;
        let Some(&master) = masters.get(choice % masters.len().max(1)) else {
            return self.note(number, "there is no master");
        };
        let port = self.deployment.redis_port(master);
        redis_cli(port, &["SAVE"]).await;
        self.note(number, &format!("redis-{master}, saved"));
        sleep(lasts).await;
        let part = self.deployment.part(&format!("redis-{master}"));
        part.kill();
        part.start();
        part.await_ready(START_LIMIT).await;
        self.deployment.remove_dump(master);
        self.note(number, "started again");
    }

    async fn failover(&self, number: u64, choice: usize, lasts: Duration) {
        let deployment = &self.deployment;
        let masters = deployment.masters().await;
        let Some(&master) = masters.get(choice % masters.len().max(1)) else {
            return self.note(number, "there is no master");
        };
        let Some(replica) = deployment.replica_of(master).await else {
            return self.note(number, "there is no replica");
        };
        self.note(number, &format!("redis-{master} to redis-{replica}"));
        let name = |number: usize| format!("redis-{number}");
        if deployment.is_single() {
            let link = deployment.proxy("redis>redis");
            link.refuse(true);
            sleep(lasts).await;
            deployment.change_places().await;
            self.note(number, "promoted");
            deployment.part(&name(master)).kill();
            link.heal();
        } else {
            deployment.part(&name(replica)).signal(Signal::STOP);
            let port = deployment.redis_port(master);
            redis_cli(port, &["CLIENT", "KILL", "TYPE", "replica"]).await;
            sleep(lasts).await;
            deployment.part(&name(master)).kill();
            deployment.part(&name(replica)).signal(Signal::CONT);
            let promoted = timeout(FAILOVER_LIMIT, async {
                while deployment.masters().await.contains(&master)
                    || !deployment.masters().await.contains(&replica)
                {
                    sleep(Duration::from_millis(100)).await;
                }
            });
            let is_promoted = promoted.await.is_ok();
            self.note(
                number,
                if is_promoted {
                    "promoted"
                } else {
                    "not promoted"
                },
            );
        }
        deployment.part(&name(master)).start();
        deployment
            .part(&name(master))
            .await_ready(START_LIMIT)
            .await;
        if deployment.is_single() {
            deployment.await_replica().await;
        }
    }

    async fn restore(&self, number: u64, choice: usize, lasts: Duration) {
        let copies = self
            .copies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // One of the latest copies, so that at most some minutes are lost.
        let Some(&copy) = copies
            .iter()
            .rev()
            .nth(choice.min(copies.len().saturating_sub(1)))
        else {
            return self.note(number, "there is no copy yet");
        };
        let since = self.history.now();
        self.deployment.restore_database(copy).await;
        self.clicks.restored(&self.deployment).await;
        self.history.add(What::Restored { copy, since });
        self.deployment.open_database();
        // Copies made since then are no longer part of this history.
        self.discard_copies_after(copy);
        sleep(lasts).await;
    }

    fn discard_copies_after(&self, copy: u64) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|&other| other <= copy);
    }

    async fn roll(&self, lasts: Duration) {
        for number in 0..CONTROL_PLANES {
            let part = self.deployment.part(&format!("cp-{number}"));
            part.terminate(GRACE).await;
            self.start(&part.name).await;
            sleep(lasts).await;
        }
    }

    async fn stray(&self, lasts: Duration) {
        let stray = self.deployment.part("stray");
        stray.start();
        stray.await_ready(START_LIMIT).await;
        self.deployment.set_stray(true);
        self.roll(lasts / 4).await;
        sleep(lasts / 2).await;
        self.deployment.set_stray(false);
        stray.kill();
    }

    /// The fault lasts until the replaced listeners have drained.
    async fn reconfigure(&self, envoy: usize, steps: &[(Listener, u64)], lasts: Duration) {
        for &(listener, millis) in steps {
            self.deployment.set_listener(envoy, listener);
            sleep(Duration::from_millis(millis)).await;
        }
        self.deployment.set_listener(envoy, Listener::First);
        sleep(lasts).await;
    }

    /// Waits until every part serves, or for a limited time.
    pub(in crate::nemesis) async fn await_all(&self) {
        for part in self.deployment.parts().filter(|part| part.name != "stray") {
            part.await_ready(START_LIMIT).await;
        }
        if !self.deployment.is_single() {
            let whole = timeout(CLUSTER_LIMIT, async {
                while !self.deployment.is_cluster_whole().await {
                    sleep(Duration::from_millis(100)).await;
                }
            });
            let _ = whole.await; // the harm it does is visible
        }
    }
}

/// Copies the database, which is stopped meanwhile.
pub(in crate::nemesis) async fn copy(nemesis: &Nemesis) {
    let (fault, copy) = (nemesis.history.number(), nemesis.history.number());
    nemesis.history.add(What::Break {
        fault,
        kind: "database copied".to_owned(),
        detail: format!("copy {copy}"),
    });
    let since = nemesis.history.now();
    nemesis.deployment.copy_database(copy).await;
    nemesis.history.add(What::Copied { copy, since });
    nemesis.history.add(What::Heal { fault });
    let mut copies = nemesis
        .copies
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    copies.push(copy);
    if copies.len() > 3 {
        let old = copies.remove(0);
        nemesis.deployment.remove_copy(old);
    }
}
