//! Envoy's own figures, from its admin interface.

use std::collections::BTreeMap;

/// Counters and gauges by name, as they were at one moment.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    values: BTreeMap<String, u64>,
}

impl Stats {
    /// Reads the text of `/stats`; histograms are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let values = text.lines().filter_map(|line| {
            let (name, value) = line.rsplit_once(": ")?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Self {
            values: values.collect(),
        }
    }

    /// The figure of that name; 0 where Envoy has none, which is how Envoy sees a counter that was never used.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or(0)
    }

    /// How often a VM was replaced after a trap, failed attempts included.
    #[must_use]
    pub fn vm_reloads(&self) -> u64 {
        self.sum_of("wasm.edgelink.vm_reload")
    }

    /// How many VMs were ever made.
    #[must_use]
    pub fn vms_created(&self) -> u64 {
        self.get("wasm.envoy.wasm.runtime.v8.created")
    }

    /// The requests that the filter answered from that tier, named as in `x-edgelink-tier`.
    #[must_use]
    pub fn answered_from(&self, tier: &str) -> u64 {
        let tier = tier.replace('-', "_");
        self.sum_of(&format!("wasmcustom.edgelink.requests.{tier}."))
    }

    /// The sum of all figures whose names have `part` in them.
    #[must_use]
    pub fn sum_matching(&self, part: &str) -> u64 {
        let values = self.values.iter().filter(|(name, _)| name.contains(part));
        values.map(|(_, value)| value).sum()
    }

    /// The sum of all figures whose names start like that.
    #[must_use]
    pub fn sum_of(&self, prefix: &str) -> u64 {
        let from = self.values.range(prefix.to_owned()..);
        from.take_while(|(name, _)| name.starts_with(prefix))
            .map(|(_, value)| value)
            .sum()
    }
}
