//! What servers say of themselves, and which of them is to be used by that.

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{ConnectOptions, Connection, Row, raw_sql};
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::time::timeout;

/// The state of a Galera node that has all that the cluster has, and serves no other one that joins.
const SYNCED: &str = "4";

/// Whether a server takes writes. The greatest is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It takes no writes: it is a replica, or a node that its cluster does not count on.
    Refuses,
    /// It takes writes, and a node that joins copies from it meanwhile.
    Donor,
    /// It takes writes.
    Ready,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it takes writes.
    pub standing: Standing,
    /// The Galera cluster that it is a node of.
    pub cluster: Option<String>,
}

/// Why a server says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// Whether it does not run: its machine says that there is no such port. Otherwise others may reach it.
    pub is_down: bool,
    /// The cause.
    pub why: String,
}

/// What is known of a server.
pub type Known = Result<Answer, Silence>;

/// What follows from what is known of all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// This one is to be used.
    Use(usize),
    /// Several take writes, and are no nodes of one cluster: what is written to one of them the others do not have.
    Several,
    /// One takes writes, and of another one it is not known whether it does.
    Unclear,
    /// None takes writes.
    None,
}

/// Which server is to be preferred where several are as good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefer {
    /// The one in use.
    Used,
    /// The one that is named first, as other processes do.
    First,
}

impl Answer {
    /// Whether it takes writes, however well.
    #[must_use]
    pub fn takes_writes(&self) -> bool {
        self.standing > Standing::Refuses
    }
}

impl fmt::Display for Answer {
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

/// Whether a server says that of itself.
pub(super) fn is_standing(known: &Known, standing: Standing) -> bool {
    known
        .as_ref()
        .is_ok_and(|answer| answer.standing == standing)
}

/// Whether several servers take writes that are no nodes of one cluster.
#[must_use]
pub fn are_apart(known: &[Known]) -> bool {
    let mut clusters = writers(known).map(|(_, answer)| &answer.cluster);
    let first = clusters.next();
    clusters.any(|cluster| cluster.is_none() || Some(cluster) != first)
}

fn writers(known: &[Known]) -> impl Iterator<Item = (usize, &Answer)> {
    let answers = known.iter().enumerate();
    let answers = answers.filter_map(|(place, known)| Some((place, known.as_ref().ok()?)));
    answers.filter(|(_, answer)| answer.takes_writes())
}

/// Chooses a server. `used` is the one in use, if any is yet; `was_replica` says of each whether it once took no writes, so that
/// it was made the primary if it does now.
///
/// Nodes of one cluster have what the others have, and those that are cut off from it take no writes. Of other servers a second
/// one that takes writes is never begun with, nor one beside which another may do so unseen.
pub(super) fn choose(
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
        let rank = |(place, answer): &(usize, &Answer)| {
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

/// Asks a server, for no longer than `patience`.
pub(super) async fn ask(server: &MySqlConnectOptions, patience: Duration) -> Known {
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
            why: format!("nothing came within {} ms", patience.as_millis()),
        }),
    }
}

async fn answer(connection: &mut MySqlConnection) -> Result<Answer, sqlx::Error> {
    let read_only = shown(connection, "SHOW GLOBAL VARIABLES LIKE 'read_only'").await?;
    let takes_writes = read_only.iter().all(|(_, value)| value == "OFF");
    if !is_galera(connection).await? {
        let standing = if takes_writes {
            Standing::Ready
        } else {
            Standing::Refuses
        };
        let cluster = None;
        return Ok(Answer { standing, cluster });
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
    Ok(Answer {
        standing: match (is_ready, value("wsrep_local_state") == Some(SYNCED)) {
            (false, _) => Standing::Refuses,
            (true, false) => Standing::Donor,
            (true, true) => Standing::Ready,
        },
        cluster: value("wsrep_cluster_state_uuid").map(str::to_owned),
    })
}

/// Whether the server is a node of a Galera cluster.
pub(in crate::store) async fn is_galera(
    connection: &mut MySqlConnection,
) -> Result<bool, sqlx::Error> {
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

#[cfg(test)]
mod tests {
    use super::Choice::{Several, Unclear, Use};
    use super::Prefer::{First, Used};
    use super::*;

    fn server(standing: Standing) -> Known {
        let cluster = None;
        Ok(Answer { standing, cluster })
    }

    fn node(standing: Standing, cluster: &str) -> Known {
        let cluster = Some(cluster.to_owned());
        Ok(Answer { standing, cluster })
    }

    fn silent(is_down: bool) -> Known {
        let why = String::new();
        Err(Silence { is_down, why })
    }

    #[test]
    fn of_a_cluster_the_node_in_use_is_left_for_a_better_one_or_in_time_for_the_first() {
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
    fn of_servers_that_are_no_cluster_a_second_one_is_not_written_to() {
        let ready = || server(Standing::Ready);
        let refuses = || server(Standing::Refuses);
        let of = |cluster| node(Standing::Ready, cluster);
        for (known, used, expected) in [
            ([ready(), ready()], None, Several),
            ([of("a"), of("b")], None, Several),
            ([of("a"), ready()], None, Several),
            // What is in use stays so, even where the first one is asked for.
            ([ready(), ready()], Some(1), Use(1)),
            ([refuses(), ready()], Some(0), Use(1)),
            ([refuses(), ready()], None, Use(1)),
            ([silent(true), ready()], None, Use(1)),
            ([silent(true), ready()], Some(0), Use(1)),
            // The other one may take writes of others.
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
