//! Measurements of targets in turn, so that other load on the machine affects all of them alike.

use crate::load::{Latencies, keep_rate_with, saturate};
use crate::process::{cpu_time, pin};
use crate::targets::{Server, Target};
use edgelink_tests::stack::{Stats, until};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(10);

/// Results of a target, round by round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Microseconds of processor time per request.
    pub(crate) costs: Vec<f64>,
    /// Costs as multiples of the reference's, as it was measured right before and after.
    relative: Vec<f64>,
    /// Requests per second.
    pub(crate) rates: Vec<f64>,
    /// The share of its processor that the target used.
    pub(crate) busy: Vec<f64>,
    /// Share of answers from the expected tier.
    pub(crate) from_tier: Option<f64>,
    /// Latencies at a fixed rate.
    pub(crate) paced: Vec<Latencies>,
}

/// Number and duration of rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) time: Duration,
}

/// Measures all targets at saturation, in turn. The first one is the reference, which is measured between any two others: the
/// speed of a machine with other guests changes within a round.
pub(crate) async fn measure(targets: &[Target], plan: Plan) -> Vec<Figures> {
    for target in targets {
        pin(&target.processes, "0");
        saturate(target, Duration::from_secs(1));
    }
    let mut before = Vec::new();
    for target in targets {
        before.push(target.settled_stats().await);
    }
    let mut answers = vec![0; targets.len()];
    let mut figures = vec![Figures::default(); targets.len()];
    let (reference, others) = targets.split_first().expect("a reference");
    for round in 0..plan.rounds {
        let mut before = reference.round(plan.time, &mut answers[0], &mut figures[0]);
        for (index, target) in (1..).zip(others) {
            let own = target.round(plan.time, &mut answers[index], &mut figures[index]);
            let after = reference.round(plan.time, &mut answers[0], &mut figures[0]);
            let relative = own / f64::midpoint(before, after);
            figures[index].relative.push(relative);
            eprintln!(
                "round {round}: {:<34} {own:7.2} us, {relative:.2}",
                target.name
            );
            before = after;
        }
        figures[0].relative.push(1.0);
    }
    for ((target, figures), (before, answers)) in targets
        .iter()
        .zip(&mut figures)
        .zip(before.iter().zip(answers))
    {
        figures.from_tier = target.share_of_tier(before.as_ref(), answers).await;
    }
    figures
}

/// Highest rate at which latency is measured: the client takes half of its processor for it.
const HIGHEST_PACE: f64 = 10_000.0;

/// Measures latency at half of each target's saturated rate, or at [`HIGHEST_PACE`], in turn.
pub(crate) fn pace(targets: &[Target], figures: &mut [Figures], plan: Plan) {
    for _ in 0..plan.rounds {
        for (target, figures) in targets.iter().zip(figures.iter_mut()) {
            let rate = (median(&figures.rates) / 2.0).min(HIGHEST_PACE);
            let count = (rate * plan.time.as_secs_f64()) as u64;
            let latencies = keep_rate_with(
                target.address,
                &target.paths,
                target.status,
                rate,
                count,
                target.headers,
            );
            eprintln!("{rate:.0}/s: {:<34} {latencies:?}", target.name);
            figures.paced.push(latencies);
        }
    }
}

impl Target {
    /// Runs one round, and returns the cost of a request.
    fn round(&self, time: Duration, answers: &mut u64, figures: &mut Figures) -> f64 {
        let (before, start) = (cpu_time(&self.processes), Instant::now());
        let load = saturate(self, time);
        let used = (cpu_time(&self.processes) - before).as_secs_f64();
        let cost = used * 1e6 / load.answers as f64;
        figures.costs.push(cost);
        figures.rates.push(load.rate);
        figures.busy.push(used / start.elapsed().as_secs_f64());
        *answers += load.answers;
        cost
    }

    /// The filter's counts of answers, once all workers have reported theirs; `None` without a filter.
    async fn settled_stats(&self) -> Option<Stats> {
        let (Server::Envoy(envoy), Some(_)) = (&self.server, self.tier) else {
            return None;
        };
        let mut last = None;
        let stats = until("the figures rest", LIMIT, async || {
            // Workers report with their ticks.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let stats = envoy.stats("edgelink.requests").await;
            let total = stats.sum_of(REQUESTS);
            (last.replace(total) == Some(total)).then_some(stats)
        });
        Some(stats.await)
    }

    async fn share_of_tier(&self, before: Option<&Stats>, answers: u64) -> Option<f64> {
        let (after, before, tier) = (self.settled_stats().await?, before?, self.tier?);
        let total = after.sum_of(REQUESTS) - before.sum_of(REQUESTS);
        assert!(total >= answers, "{total} counted of {answers}");
        let own = after.answered_from(tier) - before.answered_from(tier);
        Some(own as f64 / total as f64)
    }
}

const REQUESTS: &str = "edgelink.requests.";

impl Figures {
    pub(crate) fn cost(&self) -> f64 {
        median(&self.costs)
    }

    /// The median of the ratios to `other` in the same round, each by way of the reference.
    pub(crate) fn ratio(&self, other: &Self) -> f64 {
        let pairs = self.relative.iter().zip(&other.relative);
        median(&pairs.map(|(own, other)| own / other).collect::<Vec<_>>())
    }

    /// The lowest and the highest ratio to the reference.
    pub(crate) fn spread(&self) -> (f64, f64) {
        (
            least(&self.relative),
            self.relative.iter().copied().fold(0.0, f64::max),
        )
    }

    /// A latency in the round with the least other load, in milliseconds.
    pub(crate) fn latency(&self, of: impl Fn(&Latencies) -> f64) -> f64 {
        least(&self.paced.iter().map(of).collect::<Vec<_>>())
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The middle value.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The value that this share of all values, in percent, does not exceed. Sorts the values.
pub(crate) fn percentile(values: &mut [f64], share: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * share / 100]
}
