//! Faults that only add load: on a row, by a client, or by a transaction that takes shared resources. They excuse no
//! missing answer, and no wrong one.

use super::{Fault, FaultKind, Names, PAUSE_MS, Planned, choose, kind};
use crate::nemesis::deployment::{CONTROL_PLANES, ENVOYS};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

/// Code of the link whose row is crowded, and name of its resource.
pub(in crate::nemesis) const CROWDED: &str = "crowded";
/// Salt of the seed, so that the schedule of load differs from that of the faults.
const SALT: u64 = 0x7072_6573_7375_7265;
/// Length of one schedule of load.
const PHASE: Duration = Duration::from_secs(30);

pub(super) const KINDS: &[FaultKind] = &[
    kind("row crowded", 2, 5..=12, |_, _| Fault::CrowdedRow),
    kind("row locked", 3, 8..=25, |_, _| Fault::LockedRow),
    kind("bodies silent", 3, 8..=20, |rng, _| {
        let parts = CONTROL_PLANES + ENVOYS;
        Fault::SilentBodies(match rng.random_range(0..parts) {
            number if number < CONTROL_PLANES => format!("cp-{number}"),
            number => format!("envoy-{}", number - CONTROL_PLANES),
        })
    }),
    kind("snapshot open", 2, 10..=30, |_, _| Fault::OpenSnapshot),
    kind("edge far", 2, 8..=20, |rng, _| {
        Fault::FarEdge(rng.random_range(0..ENVOYS))
    }),
    // At least as long as its visits take.
    kind("limited links crowd", 3, 24..=24, |rng, _| {
        Fault::LimitedCrowd(rng.random_range(0..ENVOYS))
    }),
];

/// True if faults of that kind only add load.
pub(in crate::nemesis) fn is_pressure(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.name == name)
}

/// Schedule of load, one after another, beside the lanes of faults of that time.
pub(in crate::nemesis) fn plan_pressure(
    seed: u64,
    phase: u64,
    names: &Names,
    lanes: &[Vec<Planned>],
) -> Vec<Planned> {
    let seed = (seed ^ SALT).wrapping_add(phase.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut rng = StdRng::seed_from_u64(seed);
    let mut planned = Vec::new();
    let mut free = Duration::ZERO;
    loop {
        let at = free + Duration::from_millis(rng.random_range(PAUSE_MS));
        if at >= PHASE {
            return planned;
        }
        free = at;
        if let Some(next) = choose(KINDS, &mut rng, names, (at, lanes)) {
            free += next.lasts;
            planned.push(next);
        }
    }
}
