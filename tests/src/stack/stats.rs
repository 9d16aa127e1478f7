//! Envoy's own figures, from its admin interface.

use std::collections::BTreeMap;

/// What the names of the filter's figures begin with: in a Wasm module, and in a native one.
const PREFIXES: [&str; 2] = ["wasmcustom.edgelink.", "dynamicmodulescustom.edgelink."];
/// What the names of its labels begin with, which the names of a native module's figures have in them.
const LABEL: &str = "edgelink_";

/// Counters and gauges by name, as they were at one moment. Those of the filter are `edgelink.requests.lru.redirect` and the like,
/// whatever the filter is.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    values: BTreeMap<String, u64>,
}

impl Stats {
    /// Of `/stats`, the figures of the filter: a regular expression.
    pub const OF_FILTER: &str = "custom.edgelink";
    /// Of `/stats`, what [`Self::crashes`] needs.
    pub(crate) const OF_CRASHES: &str = "vm_reload|edgelink.panics";

    /// Reads the text of `/stats`; histograms are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let values = text.lines().filter_map(|line| {
            let (name, value) = line.rsplit_once(": ")?;
            Some((plain(name), value.parse().ok()?))
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

    /// How often the filter of a worker has begun again: VMs that were replaced after a trap, failed attempts included, and panics of a
    /// native module.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.sum_of("wasm.edgelink.vm_reload") + self.sum_of("edgelink.panics")
    }

    /// The requests that the filter answered from that tier, named as in `x-edgelink-tier`.
    #[must_use]
    pub fn answered_from(&self, tier: &str) -> u64 {
        let tier = tier.replace('-', "_");
        self.sum_of(&format!("edgelink.requests.{tier}."))
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

/// A name without what depends on what the filter is.
fn plain(name: &str) -> String {
    let Some(own) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) else {
        return name.to_owned();
    };
    let parts = own.split('.').filter(|part| !part.starts_with(LABEL));
    let parts: Vec<_> = ["edgelink"].into_iter().chain(parts).collect();
    parts.join(".").replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_same_names_whatever_the_filter_is() {
        let of_wasm = "wasmcustom.edgelink.requests.shared_data.redirect: 3\nwasmcustom.edgelink.admission: 2\n";
        let of_native = "dynamicmodulescustom.edgelink.requests.edgelink_tier.shared-data.edgelink_outcome.redirect: 3\n\
                         dynamicmodulescustom.edgelink.admission: 2\n";
        for text in [of_wasm, of_native] {
            let stats = Stats::parse(text);
            assert_eq!(stats.answered_from("shared-data"), 3, "{stats:?}");
            assert_eq!(stats.get("edgelink.admission"), 2, "{stats:?}");
        }
        let others = Stats::parse("http.edge.downstream_rq-total: 1\n");
        assert_eq!(others.get("http.edge.downstream_rq-total"), 1);
    }
}
