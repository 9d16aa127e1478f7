//! Random numbers for the name of a worker. Rust's own hasher draws its keys from the system.

use edgelink_wire::clicks::WorkerId;
use std::hash::{BuildHasher, RandomState};

/// A random number.
#[must_use]
pub fn number() -> u64 {
    RandomState::new().hash_one(())
}

/// A name that no other worker has.
#[must_use]
pub fn name() -> WorkerId {
    let halves = [number(), number()].map(u64::to_le_bytes);
    let mut name = [0; 16];
    for (to, from) in name.iter_mut().zip(halves.as_flattened()) {
        *to = *from;
    }
    name
}
