//! What a proxy takes of the system, and whether it grows.

use edgelink_tests::stack::{Envoy, Filter, descriptor_count, resident_bytes, thread_count};
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// By how much the memory of the last quarter may be more than that of the second: what the allocator and the time of a sample
/// make of it.
const MAX_GROWTH: u64 = 4 << 20;
/// Growth of the descriptors beside those of Envoy's connections that is allowed: the two are not read at one moment.
const MAX_MORE_DESCRIPTORS: u64 = 3;

/// What a proxy takes at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Memory in RAM, bytes.
    resident: u64,
    /// Bytes that are allocated in Envoy's allocator.
    allocated: u64,
    threads: u64,
    /// Without those of connections of Envoy's listeners and clusters, which come and go.
    descriptors: u64,
}

impl Sample {
    pub(super) const HEAD: &str =
        "   after     RSS MiB  allocated MiB  threads  descriptors  changes   requests";

    pub(super) async fn take(envoy: &Envoy, process: u32) -> Self {
        if envoy.filter() == Filter::Nginx {
            return Self::take_of_nginx(envoy, process).await;
        }
        let memory: Value = serde_json::from_str(&envoy.admin("/memory").await).expect("JSON");
        let allocated = memory["allocated"].as_str().expect("a number");
        let active = envoy.stats("_cx_active$").await;
        let connections = active.sum_of("http.") + active.sum_of("cluster.");
        Self {
            resident: resident_bytes(process),
            allocated: allocated.parse().expect("a number"),
            threads: thread_count(process),
            descriptors: descriptor_count(process).saturating_sub(connections),
        }
    }

    /// Of the master and its workers, once those from before the last reload have ended. Memory that they share counts for each, and
    /// there is no allocator to ask.
    async fn take_of_nginx(envoy: &Envoy, master: u32) -> Self {
        envoy.await_drained().await;
        let status = envoy.admin("/stub_status").await;
        let active = status.strip_prefix("Active connections: ");
        let active = active.and_then(|rest| rest.lines().next()?.trim().parse::<u64>().ok());
        let workers = envoy.workers();
        let sum = |figure: fn(u32) -> u64| {
            let processes = [master].into_iter().chain(workers.iter().copied());
            processes.map(figure).sum::<u64>()
        };
        Self {
            resident: sum(resident_bytes),
            allocated: 0,
            threads: sum(thread_count),
            descriptors: sum(descriptor_count).saturating_sub(active.expect("a number")),
        }
    }

    pub(super) fn line(self, after: Duration, changes: u32, requests: u64) -> String {
        format!(
            "{:>6} s  {:>10.1}  {:>13.1}  {:>7}  {:>11}  {changes:>7}  {requests:>9}",
            after.as_secs(),
            mib(self.resident),
            mib(self.allocated),
            self.threads,
            self.descriptors,
        )
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// All samples, by the quarter of the time in which they were taken.
pub(super) struct Samples {
    time: Duration,
    quarters: [Vec<Sample>; 4],
}

impl Samples {
    pub(super) fn new(time: Duration) -> Self {
        Self {
            time,
            quarters: Default::default(),
        }
    }

    pub(super) fn add(&mut self, after: Duration, sample: Sample) {
        let quarter = (4 * after.as_micros() / self.time.as_micros()).min(3);
        self.quarters[quarter as usize].push(sample);
    }

    /// The first quarter is for caches to fill.
    pub(super) fn verdict(&self) -> Verdict {
        let [_, second, _, last] = &self.quarters;
        Verdict {
            second: medians(second),
            last: medians(last),
        }
    }
}

fn medians(samples: &[Sample]) -> Sample {
    let median = |figure: fn(&Sample) -> u64| {
        let mut figures: Vec<_> = samples.iter().map(figure).collect();
        figures.sort_unstable();
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    };
    Sample {
        resident: median(|sample| sample.resident),
        allocated: median(|sample| sample.allocated),
        threads: median(|sample| sample.threads),
        descriptors: median(|sample| sample.descriptors),
    }
}

/// The medians of two quarters.
pub(super) struct Verdict {
    second: Sample,
    last: Sample,
}

impl Verdict {
    /// # Panics
    /// If Envoy has grown.
    pub(super) fn assert(&self) {
        let Self { second, last } = self;
        let memory = [
            ("RSS", second.resident, last.resident),
            ("allocated memory", second.allocated, last.allocated),
        ];
        for (what, before, after) in memory {
            assert!(after <= before + MAX_GROWTH, "{what} grows");
        }
        assert!(last.threads <= second.threads, "there are more threads");
        let descriptors = second.descriptors + MAX_MORE_DESCRIPTORS;
        assert!(
            last.descriptors <= descriptors,
            "there are more descriptors"
        );
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { second, last } = self;
        write!(
            f,
            "medians of the second and of the last quarter: RSS {:.1} and {:.1} MiB, allocated {:.1} and {:.1} MiB (at most {:.0} more), \
             threads {} and {}, descriptors {} and {} (at most {MAX_MORE_DESCRIPTORS} more)",
            mib(second.resident),
            mib(last.resident),
            mib(second.allocated),
            mib(last.allocated),
            mib(MAX_GROWTH),
            second.threads,
            last.threads,
            second.descriptors,
            last.descriptors,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(grow: impl Fn(u64, &mut Sample)) -> Verdict {
        let mut samples = Samples::new(Duration::from_secs(400));
        for second in 0..400 {
            let mut sample = Sample {
                resident: 100 << 20,
                allocated: 50 << 20,
                threads: 10,
                descriptors: 100,
            };
            grow(second, &mut sample);
            samples.add(Duration::from_secs(second), sample);
        }
        samples.verdict()
    }

    #[test]
    fn what_fills_in_the_first_quarter_or_goes_up_and_down_is_no_growth() {
        verdict(|second, sample| {
            if second < 100 {
                sample.resident = 0;
            }
            sample.descriptors += second % 20;
            sample.allocated += (second % 10) << 20;
        })
        .assert();
    }

    #[test]
    #[should_panic = "RSS grows"]
    fn memory_that_grows_is_noticed() {
        verdict(|second, sample| sample.resident += second * 30_000).assert();
    }

    #[test]
    #[should_panic = "there are more threads"]
    fn a_thread_more_is_noticed() {
        verdict(|second, sample| sample.threads += second / 300).assert();
    }

    #[test]
    #[should_panic = "there are more descriptors"]
    fn descriptors_that_are_not_closed_are_noticed() {
        verdict(|second, sample| sample.descriptors += second / 40).assert();
    }
}
