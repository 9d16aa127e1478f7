//! A private Galera cluster: MariaDB on three nodes, each of which accepts writes and replicates them to the others.

use super::MariaDb;
use super::mariadb::{AS_OTHER, user_is_root};
use crate::stack::free_port;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const NODES: usize = 3;
const PROVIDER: &str = "/usr/lib/galera/libgalera_smm.so";

/// Longest time for a node to catch up with the others.
const JOIN_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// Three nodes with Galera's defaults, except for the time they wait for a silent node.
#[derive(Debug)]
pub struct GaleraCluster {
    nodes: Vec<MariaDb>,
}

impl GaleraCluster {
    /// Starts the cluster. Nodes exclude one that is silent for `suspect_after`; Galera's default is 5 seconds.
    ///
    /// # Panics
    /// Panics if the packages galera-4, mariadb-server (for its scripts) and rsync are not installed.
    #[must_use]
    pub fn start(suspect_after: Duration) -> Self {
        let ports: Vec<u16> = (0..NODES).map(|_| free_port()).collect();
        let nodes = (0..NODES).map(|place| {
            let first = (place == 0).then_some("--wsrep-new-cluster");
            let node = MariaDb::start_node(options(&ports, place, suspect_after), first);
            await_synced(&node);
            node
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Creates a new database and returns its URL, which names all nodes, the first one first.
    #[must_use]
    pub fn database(&self) -> String {
        let url = self.nodes[0].database();
        let (_, name) = url.rsplit_once('/').expect("a database");
        let hosts: Vec<String> = self.nodes.iter().map(host).collect();
        format!("mysql://root@{}/{name}", hosts.join(","))
    }

    /// The nodes, each of which has all data.
    #[must_use]
    pub fn nodes(&self) -> &[MariaDb] {
        &self.nodes
    }

    /// Number of write sets replicated from each node since it started.
    #[must_use]
    pub fn writes(&self) -> Vec<u64> {
        let replicated = "SHOW GLOBAL STATUS LIKE 'wsrep_replicated'";
        let count = |node: &MariaDb| value(node, replicated).parse().unwrap_or_default();
        self.nodes.iter().map(count).collect()
    }

    /// Kills a node at once (`kill -9`).
    pub fn kill(&mut self, place: usize) {
        self.nodes[place].kill();
    }

    /// Starts a killed node, and returns when it has caught up. Like the systemd unit, it first passes the node its
    /// recovered position, so that the node fetches only what it missed.
    pub fn restart(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        let position = recovered(&node.recover());
        node.restart_with(&[format!("--wsrep-start-position={position}")]);
        await_synced(node);
    }
}

fn host(node: &MariaDb) -> String {
    format!("127.0.0.1:{}", node.port())
}

fn options(ports: &[u16], place: usize, suspect_after: Duration) -> Vec<String> {
    assert!(Path::new(PROVIDER).exists(), "galera-4 is not installed");
    let members: Vec<String> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let (here, transfers) = (&members[place], format!("127.0.0.1:{}", free_port()));
    let provider = format!(
        "gmcast.listen_addr=tcp://{here};ist.recv_addr=127.0.0.1:{};evs.suspect_timeout=PT{}S",
        free_port(),
        suspect_after.as_secs_f64(),
    );
    let mut options = vec![
        "--wsrep-on=ON".to_owned(),
        format!("--wsrep-provider={PROVIDER}"),
        format!("--wsrep-provider-options={provider}"),
        format!("--wsrep-cluster-address=gcomm://{}", members.join(",")),
        format!("--wsrep-node-name=node{place}"),
        format!("--wsrep-node-address={here}"),
        "--wsrep-sst-method=rsync".to_owned(),
        format!("--wsrep-sst-receive-address={transfers}"),
        "--binlog-format=ROW".to_owned(),
        "--innodb-autoinc-lock-mode=2".to_owned(),
    ];
    if user_is_root() {
        // An rsync daemon started by root serves only files of other users.
        options.push(AS_OTHER.to_owned());
    }
    options
}

/// Waits until a node has caught up with the cluster.
fn await_synced(node: &MariaDb) {
    let start = Instant::now();
    while value(node, "SHOW GLOBAL STATUS LIKE 'wsrep_local_state'") != "4" {
        assert!(start.elapsed() < JOIN_LIMIT, "a node does not join");
        std::thread::sleep(PAUSE);
    }
}

/// The second column of the only row.
fn value(node: &MariaDb, statement: &str) -> String {
    let row = node.execute(statement);
    let (_, value) = row.trim().split_once('\t').unwrap_or_default();
    value.to_owned()
}

/// Position of a node, from its recovery log.
fn recovered(log: &str) -> String {
    let mut lines = log.lines().rev();
    let position = lines.find_map(|line| line.split_once("Recovered position:"));
    let (_, position) = position.unwrap_or_else(|| panic!("no position: {log}"));
    position.trim().to_owned()
}

/// Changes the owner of a folder to the user that servers started by root run as.
pub(super) fn give_away(folder: &Path) {
    let done = Command::new("chown").arg("mysql").arg(folder).status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "{}",
        folder.display()
    );
}
