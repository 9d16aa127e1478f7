//! State of servers, and the choice among them.

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{ConnectOptions, Connection, Row, raw_sql};
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::time::timeout;

/// The state of a Galera node that is in sync with the cluster, and not a donor for a joining node.
const SYNCED: &str = "4";

/// Ability of a server to take writes. The greatest is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It takes no writes: it is a replica, or a node outside the primary component of its cluster.
    Refuses,
    /// It takes writes, while a joining node copies from it.
    Donor,
    /// It takes writes.
    Ready,
}

/// Answer of a server about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its ability to take writes.
    pub standing: Standing,
    /// The Galera cluster to which it belongs.
    pub cluster: Option<String>,
}

/// Lack of an answer from a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// True if it is not running: its machine refuses connections to the port. Otherwise others may still reach it.
    pub is_down: bool,
    /// The cause.
    pub why: String,
}

/// Result of querying a server.
pub type Known = Result<ServerStatus, Silence>;

/// Choice among all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This one is to be used.
    Use(usize),
    /// Several take writes, and are not nodes of one cluster: writes to one of them do not reach the others.
    Several,
    /// One takes writes, and another one may do so too.
    Unclear,
    /// None takes writes.
    None,
}

/// Preference among equally good servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefer {
    /// The one in use.
    Used,
    /// The one named first, which other processes prefer too.
    First,
}

impl ServerStatus {
    /// True if it takes writes, even as a donor.
    #[must_use]
    pub fn takes_writes(&self) -> bool {
        self.standing > Standing::Refuses
    }
}

impl fmt::Display for ServerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.standing {
            Standing::Refuses => "takes no writes",
            Standing::Donor => "takes writes, while another node copies from it",
            Standing::Ready => "takes writes",
        })?;
        match &self.cluster {
            Some(cluster) => write!(f, " (node of the Galera cluster {cluster})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "does not answer: {}", self.why)
    }
}

/// True if a server answered with this standing.
pub(crate) fn is_standing(known: &Known, standing: Standing) -> bool {
    known
        .as_ref()
        .is_ok_and(|answer| answer.standing == standing)
}

/// True if several servers take writes that are not nodes of one cluster.
#[must_use]
pub fn are_apart(known: &[Known]) -> bool {
    let mut clusters = writers(known).map(|(_, answer)| &answer.cluster);
    let first = clusters.next();
    clusters.any(|cluster| cluster.is_none() || Some(cluster) != first)
}

fn writers(known: &[Known]) -> impl Iterator<Item = (usize, &ServerStatus)> {
    let answers = known.iter().enumerate();
    let answers = answers.filter_map(|(place, known)| Some((place, known.as_ref().ok()?)));
    answers.filter(|(_, answer)| answer.takes_writes())
}

/// Chooses a server. `used` is the one in use, if any; `was_replica` is true for servers that once refused writes, and
/// so have been promoted if they take them now.
///
/// Nodes of one cluster have the same data, and nodes cut off from it take no writes. Among other servers, a second
/// one that takes writes is never switched to, nor one while another may be taking writes unseen.
pub(crate) fn choose(
    known: &[Known],
    used: Option<usize>,
    was_replica: &[bool],
    prefer: Prefer,
) -> Choice {
    let Some((first, answer)) = writers(known).next() else {
        return Choice::None;
    };
    let is_used = |place: usize| Some(place) == used;
    if answer.cluster.is_some() && !are_apart(known) {
        let rank = |(place, answer): &(usize, &ServerStatus)| {
            let is_preferred = prefer == Prefer::Used && is_used(*place);
            (answer.standing, is_preferred, usize::MAX - place)
        };
        let best = writers(known).max_by_key(rank);
        return Choice::Use(best.map_or(first, |(place, _)| place));
    }
    if let Some((used, _)) = writers(known).find(|(place, _)| is_used(*place)) {
        return Choice::Use(used);
    }
    if are_apart(known) {
        return Choice::Several;
    }
    let may_write = |known: &Known| matches!(known, Err(silence) if !silence.is_down);
    let was_made_primary = used.is_some() && was_replica[first];
    if was_made_primary || !known.iter().any(may_write) {
        Choice::Use(first)
    } else {
        Choice::Unclear
    }
}

/// Queries a server, for no longer than `patience`.
pub(crate) async fn ask(server: &MySqlConnectOptions, patience: Duration) -> Known {
    let answer = async {
        let mut connection = server.connect().await?;
        let answer = answer(&mut connection).await?;
        connection.close().await?;
        Ok(answer)
    };
    match timeout(patience, answer).await {
        Ok(answer) => answer.map_err(|error: sqlx::Error| Silence {
            is_down: matches!(&error, sqlx::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused),
            why: error.to_string(),
        }),
        Err(_) => Err(Silence {
            is_down: false,
            why: format!("timed out after {} ms", patience.as_millis()),
        }),
    }
}

async fn answer(connection: &mut MySqlConnection) -> Result<ServerStatus, sqlx::Error> {
    let read_only = shown(connection, "SHOW GLOBAL VARIABLES LIKE 'read_only'").await?;
    let takes_writes = read_only.iter().all(|(_, value)| value == "OFF");
    if !is_galera(connection).await? {
        let standing = if takes_writes {
            Standing::Ready
        } else {
            Standing::Refuses
        };
        let cluster = None;
        return Ok(ServerStatus { standing, cluster });
    }
    let state = "SHOW GLOBAL STATUS WHERE Variable_name IN \
        ('wsrep_ready', 'wsrep_local_state', 'wsrep_cluster_state_uuid')";
    let state = shown(connection, state).await?;
    let value = |name| {
        state
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    };
    let is_ready = takes_writes && value("wsrep_ready") == Some("ON");
    Ok(ServerStatus {
        standing: match (is_ready, value("wsrep_local_state") == Some(SYNCED)) {
            (false, _) => Standing::Refuses,
            (true, false) => Standing::Donor,
            (true, true) => Standing::Ready,
        },
        cluster: value("wsrep_cluster_state_uuid").map(str::to_owned),
    })
}

/// True if the server is a node of a Galera cluster.
pub(crate) async fn is_galera(connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
    let on = shown(connection, "SHOW SESSION VARIABLES LIKE 'wsrep_on'").await?;
    Ok(on.iter().any(|(_, value)| value == "ON"))
}

/// Names and values, requested by a text query, which even a node that refuses all other statements answers.
async fn shown(
    connection: &mut MySqlConnection,
    statement: &'static str,
) -> Result<Vec<(String, String)>, sqlx::Error> {
    let rows: Vec<MySqlRow> = raw_sql(statement).fetch_all(connection).await?;
    let pair = |row: &MySqlRow| Ok((row.try_get_unchecked(0)?, row.try_get_unchecked(1)?));
    rows.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::Choice::{Several, Unclear, Use};
    use super::Prefer::{First, Used};
    use super::*;

    fn server(standing: Standing) -> Known {
        let cluster = None;
        Ok(ServerStatus { standing, cluster })
    }

    fn node(standing: Standing, cluster: &str) -> Known {
        let cluster = Some(cluster.to_owned());
        Ok(ServerStatus { standing, cluster })
    }

    fn silent(is_down: bool) -> Known {
        let why = String::new();
        Err(Silence { is_down, why })
    }

    #[test]
    fn node_when_a_better_one_is_ready_is_replaced() {
        let ready = || node(Standing::Ready, "c");
        let donor = || node(Standing::Donor, "c");
        let refuses = || node(Standing::Refuses, "c");
        for (known, used, prefer, expected) in [
            ([ready(), ready(), ready()], Some(1), Used, Use(1)),
            ([ready(), ready(), ready()], Some(1), First, Use(0)),
            ([donor(), ready(), ready()], Some(2), First, Use(1)),
            ([silent(false), ready(), ready()], Some(0), Used, Use(1)),
            ([ready(), donor(), ready()], Some(1), Used, Use(0)),
            ([refuses(), donor(), silent(false)], Some(0), Used, Use(1)),
            ([refuses(), silent(false), donor()], Some(2), First, Use(2)),
            ([silent(false), silent(true), ready()], None, First, Use(2)),
            (
                [refuses(), silent(true), refuses()],
                Some(0),
                Used,
                Choice::None,
            ),
        ] {
            assert_eq!(
                choose(&known, used, &[false; 3], prefer),
                expected,
                "{known:?}"
            );
        }
    }

    #[test]
    fn server_when_not_of_a_cluster_is_written_to_alone() {
        let ready = || server(Standing::Ready);
        let refuses = || server(Standing::Refuses);
        let of = |cluster| node(Standing::Ready, cluster);
        for (known, used, expected) in [
            ([ready(), ready()], None, Several),
            ([of("a"), of("b")], None, Several),
            ([of("a"), ready()], None, Several),
            // The one in use stays in use, even if the first one is preferred.
            ([ready(), ready()], Some(1), Use(1)),
            ([refuses(), ready()], Some(0), Use(1)),
            ([refuses(), ready()], None, Use(1)),
            ([silent(true), ready()], None, Use(1)),
            ([silent(true), ready()], Some(0), Use(1)),
            // Others may be writing to the other one.
            ([silent(false), ready()], None, Unclear),
            ([silent(false), ready()], Some(0), Unclear),
            ([silent(false), refuses()], Some(0), Choice::None),
        ] {
            let chosen = choose(&known, used, &[false; 2], First);
            assert_eq!(chosen, expected, "{known:?} {used:?}");
        }
        let promoted = [silent(false), ready()];
        assert_eq!(choose(&promoted, Some(0), &[false, true], Used), Use(1));
        assert_eq!(choose(&promoted, None, &[false, true], Used), Unclear);
    }
}
