//! Cost of a VM so far.

use std::collections::BTreeMap;

/// Counts since the start of a VM. The difference of two of them is the cost of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Calls from the host into the module, by the name of the callback.
    pub callbacks: BTreeMap<&'static str, u64>,
    /// Calls of the module to the host, by the name of the hostcall.
    pub hostcalls: BTreeMap<&'static str, u64>,
    /// Allocations made by hostcalls in the module's memory to return data.
    pub allocations: u64,
    /// Bytes that hostcalls read from the module's memory.
    pub bytes_taken: u64,
    /// Bytes that hostcalls wrote into the module's memory.
    pub bytes_given: u64,
    /// Fuel burnt, about one unit per instruction; 0 if the module is not metered.
    pub fuel: u64,
}

impl Usage {
    /// Difference from `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            callbacks: difference(&self.callbacks, &earlier.callbacks),
            hostcalls: difference(&self.hostcalls, &earlier.hostcalls),
            allocations: self.allocations - earlier.allocations,
            bytes_taken: self.bytes_taken - earlier.bytes_taken,
            bytes_given: self.bytes_given - earlier.bytes_given,
            fuel: self.fuel - earlier.fuel,
        }
    }

    /// Number of all hostcalls.
    #[must_use]
    pub fn hostcall_total(&self) -> u64 {
        self.hostcalls.values().sum()
    }

    /// Number of hostcalls of that name.
    #[must_use]
    pub fn hostcall(&self, name: &str) -> u64 {
        self.hostcalls.get(name).copied().unwrap_or(0)
    }
}

fn difference(
    now: &BTreeMap<&'static str, u64>,
    earlier: &BTreeMap<&'static str, u64>,
) -> BTreeMap<&'static str, u64> {
    now.iter()
        .map(|(name, count)| (*name, count - earlier.get(name).unwrap_or(&0)))
        .filter(|(_, count)| *count > 0)
        .collect()
}
