//! Envoy's own stats, from its admin interface.

use std::collections::BTreeMap;

/// Prefixes of the filter's stats: of a Wasm module, and of a native one.
const PREFIXES: [&str; 2] = ["wasmcustom.edgelink.", "dynamicmodulescustom.edgelink."];
/// Prefix of its label names, which are part of the names of a native module's stats.
const LABEL: &str = "edgelink_";

/// Counters and gauges by name, as of one moment. Stats of the filter are named like `edgelink.requests.lru.redirect`,
/// for both kinds of filter.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    values: BTreeMap<String, u64>,
}

impl Stats {
    /// Regular expression that selects the filter's stats in `/stats`.
    pub const OF_FILTER: &str = "custom.edgelink";
    /// Regular expression that selects the input of [`Self::crashes`] in `/stats`.
    pub(crate) const OF_CRASHES: &str = "vm_reload|edgelink.panics";

    /// Parses the text of `/stats`; histograms are left out.
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

    /// Parses the text that nginx's module has for Prometheus, and that of `stub_status`, of whose requests `own` were for metrics.
    #[must_use]
    pub(crate) fn parse_nginx(metrics: &str, status: &str, own: u64) -> Self {
        let lines = metrics.lines().filter(|line| !line.starts_with('#'));
        let values = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let labels = labels.split('"').skip(1).step_by(2);
            let name = name.replacen("edgelink_", "edgelink.", 1);
            let parts: Vec<_> = [name.as_str()].into_iter().chain(labels).collect();
            Some((parts.join("."), value.parse().ok()?))
        });
        let mut values: BTreeMap<_, _> = values.collect();
        // "server accepts handled requests", and their numbers in the next line.
        let requests = status.lines().nth(2).and_then(|line| {
            let last = line.split_ascii_whitespace().next_back()?;
            last.parse::<u64>().ok()
        });
        let requests = requests.map(|all| all.saturating_sub(own));
        let waiting = values.get("edgelink.waiting_requests").copied();
        for (name, value) in [
            ("http.edge.downstream_rq_total", requests),
            ("http.edge.downstream_rq_active", waiting),
        ] {
            values.insert(name.to_owned(), value.unwrap_or_default());
        }
        Self { values }
    }

    /// Value of that name; 0 if Envoy has none, as for a counter that was never used.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or(0)
    }

    /// Number of restarts of the filter in a worker: VMs replaced after a trap, failed attempts included, and panics of a
    /// native module.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.sum_of("wasm.edgelink.vm_reload") + self.sum_of("edgelink.panics")
    }

    /// Requests that the filter answered from that tier, named as in `x-edgelink-tier`.
    #[must_use]
    pub fn answered_from(&self, tier: &str) -> u64 {
        let tier = tier.replace('-', "_");
        self.sum_of(&format!("edgelink.requests.{tier}."))
    }

    /// Sum of all values whose names contain `part`.
    #[must_use]
    pub fn sum_matching(&self, part: &str) -> u64 {
        let values = self.values.iter().filter(|(name, _)| name.contains(part));
        values.map(|(_, value)| value).sum()
    }

    /// Sum of all values whose names have that prefix.
    #[must_use]
    pub fn sum_of(&self, prefix: &str) -> u64 {
        let from = self.values.range(prefix.to_owned()..);
        from.take_while(|(name, _)| name.starts_with(prefix))
            .map(|(_, value)| value)
            .sum()
    }
}

/// Name without the parts that depend on the kind of the filter.
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
    fn stats_when_of_nginx_have_the_names_of_envoy() {
        let metrics = "# TYPE edgelink_requests counter\n\
                       edgelink_requests{edgelink_tier=\"shared_data\",edgelink_outcome=\"redirect\"} 3\n\
                       edgelink_admission 2\nedgelink_waiting_requests 1\n";
        let status =
            "Active connections: 1 \nserver accepts handled requests\n 7 7 9 \nReading: 0\n";
        let stats = Stats::parse_nginx(metrics, status, 4);
        assert_eq!(stats.answered_from("shared-data"), 3, "{stats:?}");
        assert_eq!(stats.get("edgelink.admission"), 2, "{stats:?}");
        assert_eq!(stats.get("http.edge.downstream_rq_total"), 5, "{stats:?}");
        assert_eq!(stats.get("http.edge.downstream_rq_active"), 1, "{stats:?}");
    }

    #[test]
    fn stats_when_filter_is_wasm_or_native_have_equal_names() {
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
