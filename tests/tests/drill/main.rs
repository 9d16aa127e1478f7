//! Drills: what the control planes do while their database, or they themselves, are killed, and how fast they are when
//! they are not. They take minutes and are measured by people, so they are ignored by `cargo test`; the Makefile has a
//! target for each; only a minute of the nemesis is not. `EDGELINK_TEST_BIN` names the binary to drill: one built for release, where time matters.

mod acknowledged;
mod chaos;
mod clicks;
mod clients;
mod connections;
mod crowd;
mod envoy_spin;
mod failover;
mod flush;
mod galera;
mod importing;
mod nemesis;
mod pressure;
mod production;
mod propagation;
mod replica;
mod restarts;
mod restore;
mod runbook;
mod scanning;
mod soak;
mod sources;
mod stall;
mod throughput;
mod upgrade;
mod visitors;

use std::time::Duration;

/// A number of seconds from the environment, for a shorter or longer drill.
fn seconds(variable: &str, default: u64) -> Duration {
    let text = std::env::var(variable).ok();
    let seconds = text.and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(default))
}
