//! The servers that `store.url` names, of which a process uses one at a time: the nodes of a Galera cluster, or a primary and
//! those that may follow it.
//!
//! The one in use is kept as long as it takes writes. A failure that may be its end makes the next call ask all of them.

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlRow};
use sqlx::{ConnectOptions, Connection, Row, raw_sql};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A server has this part of `store.timeout_ms` to say whether it takes writes.
const SHARE_OF_TIMEOUT: u32 = 3;

/// The state of a Galera node that has all that the cluster has, and serves no other one that joins.
const SYNCED: &str = "4";

/// The servers of a database.
#[derive(Debug)]
pub(super) struct Nodes {
    servers: Vec<MySqlConnectOptions>,
    /// How long one may take to say whether it takes writes.
    patience: Duration,
    /// Whether the one in use is to be asked before the next call.
    is_suspected: AtomicBool,
    choosing: Mutex<()>,
    used: StdMutex<Used>,
}

/// The server in use.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    place: usize,
    /// When it took the place of another one.
    since: Option<Instant>,
}

/// What a server says of itself. The greatest is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It takes no writes: it is a replica, or a node that its cluster does not count on.
    Refuses,
    /// It takes writes, and a node that joins copies from it meanwhile.
    Donor,
    /// It takes writes.
    Ready,
}

impl Nodes {
    /// The servers of a URL, of which each begins with `options`. Several have commas in between.
    pub(super) fn of_url(
        url: &str,
        timeout: Duration,
        options: impl Fn(MySqlConnectOptions) -> MySqlConnectOptions,
    ) -> Result<Arc<Self>, sqlx::Error> {
        let servers = split(url)
            .iter()
            .map(|url| MySqlConnectOptions::from_str(url).map(&options))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Self {
            is_suspected: AtomicBool::new(servers.len() > 1),
            servers,
            patience: timeout / SHARE_OF_TIMEOUT,
            choosing: Mutex::new(()),
            used: StdMutex::default(),
        }))
    }

    /// The server in use.
    pub(super) fn used(&self) -> &MySqlConnectOptions {
        &self.servers[self.state().place]
    }

    /// Whether a connection of that age goes to the server in use, as far as can be said.
    pub(super) fn is_current(&self, age: Duration) -> bool {
        let since = self.state().since;
        since.is_none_or(|since| age <= since.elapsed())
    }

    /// Has the next call ask the servers, as the one in use may have failed.
    pub(super) fn suspect(&self) {
        self.is_suspected
            .store(self.servers.len() > 1, Ordering::Release);
    }

    /// Chooses a server where the one in use is suspected. `pool` connects to it from now on.
    pub(super) async fn settle(&self, pool: Option<&MySqlPool>) {
        if !self.is_suspected.load(Ordering::Acquire) {
            return;
        }
        let _turn = self.choosing.lock().await;
        if !self.is_suspected.load(Ordering::Acquire) {
            return;
        }
        let used = self.state().place;
        let Some(place) = best(&self.standings().await, used) else {
            return;
        };
        if place != used {
            let since = Some(Instant::now());
            *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Used { place, since };
            let server = &self.servers[place];
            tracing::warn!(
                from = name(&self.servers[used]),
                to = name(server),
                "another server of the database is used from now on"
            );
            if let Some(pool) = pool {
                pool.set_connect_options(server.clone());
            }
        }
        self.is_suspected.store(false, Ordering::Release);
    }

    fn state(&self) -> Used {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each server says; `None` if it does not answer in time.
    async fn standings(&self) -> Vec<Option<Standing>> {
        let mut asked = JoinSet::new();
        for (place, server) in self.servers.iter().enumerate() {
            let (server, patience) = (server.clone(), self.patience);
            asked.spawn(async move {
                let answer = timeout(patience, ask(&server)).await;
                (place, answer.ok().and_then(Result::ok))
            });
        }
        let mut standings = vec![None; self.servers.len()];
        while let Some(answer) = asked.join_next().await {
            if let Ok((place, standing)) = answer {
                standings[place] = standing;
            }
        }
        standings
    }
}

/// The URL of each server: `mysql://user:password@one:3306,two:3306/links` names two.
fn split(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return vec![url.to_owned()];
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let hosts = authority.rfind('@').map_or(0, |at| at + 1);
    let (user, hosts) = authority.split_at(hosts);
    let url = |host| format!("{scheme}://{user}{host}{path}");
    hosts.split(',').map(url).collect()
}

/// The best server: of equals the one in use, then the first.
fn best(standings: &[Option<Standing>], used: usize) -> Option<usize> {
    let takes_writes = |(place, standing): (usize, &Option<Standing>)| {
        let standing = standing.filter(|standing| *standing > Standing::Refuses)?;
        Some((standing, place == used, usize::MAX - place))
    };
    let best = standings.iter().enumerate().filter_map(takes_writes).max();
    best.map(|(.., place)| usize::MAX - place)
}

async fn ask(server: &MySqlConnectOptions) -> Result<Standing, sqlx::Error> {
    let mut connection = server.connect().await?;
    let standing = standing(&mut connection).await?;
    connection.close().await?;
    Ok(standing)
}

async fn standing(connection: &mut MySqlConnection) -> Result<Standing, sqlx::Error> {
    if is_galera(connection).await? {
        let state =
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_local_state')";
        let state = shown(connection, state).await?;
        let is = |name, value| state.iter().any(|(n, v)| n == name && v == value);
        return Ok(
            match (is("wsrep_ready", "ON"), is("wsrep_local_state", SYNCED)) {
                (false, _) => Standing::Refuses,
                (true, false) => Standing::Donor,
                (true, true) => Standing::Ready,
            },
        );
    }
    let is_replica = shown(connection, "SHOW GLOBAL VARIABLES LIKE 'read_only'").await?;
    let takes_writes = is_replica.iter().all(|(_, value)| value == "OFF");
    Ok(if takes_writes {
        Standing::Ready
    } else {
        Standing::Refuses
    })
}

/// Whether the server is a node of a Galera cluster.
pub(super) async fn is_galera(connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
    let on = shown(connection, "SHOW SESSION VARIABLES LIKE 'wsrep_on'").await?;
    Ok(on.iter().any(|(_, value)| value == "ON"))
}

/// Names and values. They are asked for as text, which a node answers that refuses all else.
async fn shown(
    connection: &mut MySqlConnection,
    statement: &'static str,
) -> Result<Vec<(String, String)>, sqlx::Error> {
    let rows: Vec<MySqlRow> = raw_sql(statement).fetch_all(connection).await?;
    let pair = |row: &MySqlRow| Ok((row.try_get_unchecked(0)?, row.try_get_unchecked(1)?));
    rows.iter().map(pair).collect()
}

/// How the log names a server.
fn name(server: &MySqlConnectOptions) -> String {
    format!("{}:{}", server.get_host(), server.get_port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_name_several_servers() {
        for (url, expected) in [
            ("mysql://h/d", &["mysql://h/d"][..]),
            (
                "mysql://u:a,b@one:1,two,[::1]:3/d?ssl-mode=REQUIRED",
                &[
                    "mysql://u:a,b@one:1/d?ssl-mode=REQUIRED",
                    "mysql://u:a,b@two/d?ssl-mode=REQUIRED",
                    "mysql://u:a,b@[::1]:3/d?ssl-mode=REQUIRED",
                ],
            ),
            ("mysql://one,two", &["mysql://one", "mysql://two"]),
            ("mysql:odd", &["mysql:odd"]),
        ] {
            assert_eq!(split(url), expected);
        }
    }

    #[test]
    fn the_server_in_use_is_left_for_a_better_one_only() {
        use Standing::{Donor, Ready, Refuses};
        for (standings, used, expected) in [
            ([Some(Ready), Some(Ready), Some(Ready)], 1, Some(1)),
            ([None, Some(Ready), Some(Ready)], 0, Some(1)),
            ([Some(Ready), Some(Donor), Some(Ready)], 1, Some(0)),
            ([Some(Refuses), Some(Donor), None], 0, Some(1)),
            ([Some(Refuses), None, Some(Donor)], 2, Some(2)),
            ([Some(Refuses), None, None], 0, None),
        ] {
            assert_eq!(best(&standings, used), expected, "{standings:?}");
        }
    }
}
