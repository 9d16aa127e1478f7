//! Targets that take turns, so that what else the machine does hits all of them alike.

use crate::{process_time, wrk};
use std::process::Command;
use std::time::Duration;

/// Something that answers redirects.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    pub(crate) process: u32,
}

/// Microseconds of processor time a request, round by round.
pub(crate) struct Costs {
    pub(crate) name: &'static str,
    pub(crate) rounds: Vec<f64>,
}

/// Measures all targets, in turns: servers on the first processor, load on the others.
pub(crate) fn measure(targets: &[Target], rounds: usize, time: Duration) -> Vec<Costs> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let others = if processors > 1 {
        format!("1-{}", processors - 1)
    } else {
        "0".to_owned()
    };
    for target in targets {
        pin_to_first_processor(target.process);
        wrk::load(&target.url, Duration::from_secs(1), &others);
    }
    let mut costs: Vec<Costs> = targets.iter().map(Costs::none).collect();
    for round in 0..rounds {
        for (target, costs) in targets.iter().zip(&mut costs) {
            let cost = cost_of(target, time, &others);
            println!("round {round}: {:<24} {cost:7.2} us", target.name);
            costs.rounds.push(cost);
        }
    }
    costs
}

fn cost_of(target: &Target, time: Duration, processors: &str) -> f64 {
    let before = process_time::of(target.process);
    let answers = wrk::load(&target.url, time, processors);
    let used = process_time::of(target.process) - before;
    used.as_secs_f64() * 1e6 / answers as f64
}

fn pin_to_first_processor(process: u32) {
    let status = Command::new("taskset")
        .args(["-a", "-c", "-p", "0", &process.to_string()])
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.expect("taskset").success());
}

impl Costs {
    fn none(target: &Target) -> Self {
        Self {
            name: target.name,
            rounds: Vec::new(),
        }
    }

    pub(crate) fn median(&self) -> f64 {
        median(&self.rounds)
    }

    /// The least and the largest.
    pub(crate) fn spread(&self) -> (f64, f64) {
        let least = self.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        (least, self.rounds.iter().copied().fold(0.0, f64::max))
    }

    /// The median of the ratios to `reference` in the same round.
    pub(crate) fn ratio(&self, reference: &Self) -> f64 {
        let pairs = self.rounds.iter().zip(&reference.rounds);
        median(&pairs.map(|(own, other)| own / other).collect::<Vec<_>>())
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
