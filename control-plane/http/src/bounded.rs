//! Bounds on everything that requests share, and on the part that an address, a key or a tenant may have, all in one place.

use edgelink_clicks::live::MAX_LISTENERS;
use edgelink_settings::admission::{Admission, Bounds};
use edgelink_settings::config::{AnalyticsConfig, Config, PagesConfig, ServerConfig};
use std::time::Duration;

/// Number of waiting requests for each one that is worked on.
const WAITING_FOR_EACH: usize = 4;

/// Least limit on waiting queries of clicks: each waits only for a second.
const MIN_WAITING_QUESTIONS: usize = 64;

/// Limits on the files of clicks sent at once: in all, for a tenant, and for a key.
const EXPORTS: Bounds = Bounds {
    of_tenant: 4,
    of_key: 2,
    ..Bounds::new("the number of files of clicks that are sent at once", 20)
};

/// Limits on the streams of clicks.
const STREAMS: Bounds = Bounds {
    of_tenant: MAX_LISTENERS / 2,
    of_key: 10,
    ..Bounds::new("the number of streams of clicks", MAX_LISTENERS)
};

/// Limits on passwords being checked. An address may have fewer at once than it has tries, so that visitors with the right
/// password, whose try is returned, do not use up the tries of their address.
const fn tried(name: &'static str) -> Bounds {
    Bounds {
        waiting: 512,
        of_address: 2,
        ..Bounds::new(name, 64)
    }
}

/// The bounds that all listeners share.
pub struct Bounded {
    /// Waiting polls of edges.
    pub(crate) polls: Admission,
    /// Large answers to reads that are being sent.
    pub(crate) answers: Admission,
    /// Large answers to changes that are being sent.
    pub(crate) changed: Admission,
    /// Requests for pages for visitors.
    pub pages: Admission,
    /// Passwords of links that visitors give.
    pub(crate) unlocks: Admission,
    /// Logins by password.
    pub logins: Admission,
    /// Bulk requests.
    pub bulk: Admission,
    /// Queries of clicks.
    pub(crate) questions: Admission,
    /// Files of clicks.
    pub(crate) exports: Admission,
    /// Clients that listen to clicks.
    pub(crate) streams: Admission,
}

impl Bounded {
    /// The bounds of a process with this configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            polls: Admission::new(Bounds::new("feed.max_polls", config.feed.max_polls)),
            answers: Admission::new(answers(config.server.max_answer_bytes)),
            changed: Admission::new(answers(of_changes(&config.server))),
            pages: Admission::new(pages(&config.pages)),
            unlocks: Admission::new(tried(
                "the number of passwords of links that are given at once",
            )),
            logins: Admission::new(tried("the number of logins at once")),
            bulk: Admission::new(bulk(&config.server)),
            questions: Admission::new(questions(&config.analytics)),
            exports: Admission::new(EXPORTS),
            streams: Admission::new(STREAMS),
        }
    }

    /// The bounds on queries and on exports of clicks.
    #[must_use]
    pub fn asking(&self) -> (Admission, Admission) {
        (self.questions.clone(), self.exports.clone())
    }
}

/// The bounds of a listener. Each has its own, so that visitors shut out neither edges nor operators.
#[derive(Clone)]
pub struct ListenerAdmission {
    /// Requests that are worked on.
    pub requests: Admission,
    /// Bodies of requests that are still arriving.
    pub(super) bodies: Admission,
    /// Open connections.
    pub connections: Admission,
    /// Further connections, for probes.
    pub health: Admission,
}

impl ListenerAdmission {
    /// Creates the bounds of one listener, with all permits free.
    pub fn new(config: &ServerConfig) -> Self {
        Self {
            requests: Admission::new(requests(config)),
            bodies: Admission::new(bodies(config)),
            connections: Admission::new(connections(config)),
            health: Admission::new(health_connections(config)),
        }
    }

    /// Time for which every request, or every connection, has been refused while none ended.
    pub(super) fn stuck_for(&self) -> Duration {
        self.requests.stuck_for().max(self.connections.stuck_for())
    }
}

/// The requests of a listener. No address, key or tenant can have all of them.
fn requests(server: &ServerConfig) -> Bounds {
    let requests = server.max_requests;
    let but = |part: usize| (requests - requests.div_ceil(part)).max(1);
    Bounds {
        of_address: but(8),
        of_tenant: but(4),
        of_key: requests.div_ceil(2),
        ..Bounds::new("server.max_requests", requests)
    }
}

/// The connections of a listener. Idle ones give way.
fn connections(server: &ServerConfig) -> Bounds {
    Bounds {
        waiting: 1,
        of_address: server.max_connections_per_address,
        ..Bounds::new("server.max_connections", server.max_connections)
    }
}

/// The further connections of a listener, for probes.
fn health_connections(server: &ServerConfig) -> Bounds {
    Bounds {
        waiting: 1,
        ..Bounds::new("server.health_connections", server.health_connections)
    }
}

fn bodies(server: &ServerConfig) -> Bounds {
    Bounds {
        bytes: server
            .max_waiting_body_bytes
            .max(server.max_bulk_body_bytes),
        bytes_name: "server.max_waiting_body_bytes",
        ..Bounds::new("server.max_waiting_bodies", server.max_waiting_bodies)
    }
}

/// Answers are bounded by their bytes alone.
fn answers(bytes: usize) -> Bounds {
    Bounds {
        bytes,
        ..Bounds::new("server.max_answer_bytes", usize::MAX)
    }
}

/// The bytes of answers to changes: enough for all bulk requests that run at once.
fn of_changes(server: &ServerConfig) -> usize {
    let bytes = server
        .max_bulk_answer_bytes
        .saturating_mul(server.max_bulk_requests);
    bytes.min(server.max_answer_bytes)
}

fn pages(pages: &PagesConfig) -> Bounds {
    let requests = pages.max_requests;
    Bounds {
        of_address: (requests - requests.div_ceil(8)).max(1),
        ..Bounds::new("pages.max_requests", requests)
    }
}

fn bulk(server: &ServerConfig) -> Bounds {
    let requests = server.max_bulk_requests;
    Bounds {
        waiting: WAITING_FOR_EACH * requests,
        ..Bounds::new("server.max_bulk_requests", requests).shared()
    }
}

fn questions(analytics: &AnalyticsConfig) -> Bounds {
    let queries = analytics.max_queries;
    Bounds {
        waiting: MIN_WAITING_QUESTIONS.max(WAITING_FOR_EACH * queries),
        ..Bounds::new("analytics.max_queries", queries).shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_settings::admission::{Claim, Permit, Refusal};

    /// Takes a permit for each claim until one is refused. Returns the number of permits.
    fn taken(bounds: Bounds, claims: impl Iterator<Item = Claim>) -> usize {
        let room = Admission::new(bounds);
        let mut permits: Vec<Permit> = Vec::new();
        for claim in claims {
            match room.try_take(claim) {
                Ok(permit) => permits.push(permit),
                Err(refusal) => {
                    assert!(matches!(refusal, Refusal::Share(_)), "{refusal:?}");
                    break;
                }
            }
        }
        permits.len()
    }

    fn of_address(last: u8) -> Claim {
        Claim::of_address([192, 0, 2, last].into())
    }

    #[test]
    fn request_when_of_one_party_leaves_permits_to_others() {
        let server = ServerConfig {
            max_requests: 8,
            ..ServerConfig::default()
        };
        let of = |claims: &dyn Fn(u8) -> Claim| taken(requests(&server), (0..8).map(claims));
        assert_eq!(of(&|_| of_address(1)), 7);
        assert_eq!(of(&|n| of_address(n).by(1, "key")), 4);
        assert_eq!(of(&|n| of_address(n).by(1, &n.to_string())), 6);
    }

    #[test]
    fn answer_room_when_changes_run_fits_each_bulk_request() {
        let mut server = ServerConfig {
            max_bulk_requests: 2,
            max_bulk_answer_bytes: 70_000,
            ..ServerConfig::default()
        };
        assert_eq!(of_changes(&server), 140_000);
        server.max_answer_bytes = 100_000;
        assert_eq!(of_changes(&server), 100_000);
    }

    #[test]
    fn bulk_request_when_of_one_party_leaves_permits_to_others() {
        let server = ServerConfig {
            max_bulk_requests: 4,
            ..ServerConfig::default()
        };
        let of = |claims: &dyn Fn(u8) -> Claim| taken(bulk(&server), (0..4).map(claims));
        assert_eq!(of(&|n| of_address(n).by(1, "key")), 2);
        assert_eq!(of(&|n| of_address(n).by(1, &n.to_string())), 3);
    }
}
