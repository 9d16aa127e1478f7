//! What a worker keeps of links: its LRU, the slots in shared data, and by what their records are judged.

pub(crate) mod changes;
pub mod freshness;
pub(crate) mod lru;
pub(crate) mod shared;
