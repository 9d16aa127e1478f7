//! Start-up times.

use crate::edges::{Tiers, static_redirect};
use crate::options::Options;
use crate::report::{Section, Table};
use crate::rounds::median;
use edgelink_tests::stack::{ControlPlane, Envoy, Filter};
use std::time::Instant;

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let rounds = options.size.pick(7, 3);
    let peer = ControlPlane::start().await;
    let mut times: [Vec<f64>; 5] = Default::default();
    for _ in 0..rounds {
        let started = [
            seconds(async || static_redirect(peer.address(), 1).await).await,
            seconds(async || start(Filter::Wasm, &peer).await).await,
            seconds(async || start(Filter::Native, &peer).await).await,
            seconds(async || start(Filter::Nginx, &peer).await).await,
            seconds(async || ControlPlane::start().await).await,
        ];
        for (times, time) in times.iter_mut().zip(started) {
            times.push(time);
        }
    }
    let mut section = Section::new("Starting");
    section.text(&format!(
        "{rounds} starts in turns; from the command to the first answer of its own health check, asked every 10 ms. For \
         Envoy that has `envoy/run.sh` and the compilation of the Wasm module in it. How long a control plane takes with many \
         links is in the table of cost as links grow."
    ));
    let mut table = Table::new(["what", "median, s", "least, s", "largest, s"]);
    let names = [
        "Envoy, static redirect",
        "Envoy with the Wasm filter",
        "Envoy with the native module",
        "nginx with the module",
        "control plane, empty SQLite",
    ];
    for (name, times) in names.iter().zip(&times) {
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = times.iter().copied().fold(0.0, f64::max);
        table.row([
            (*name).to_owned(),
            format!("{:.3}", median(times)),
            format!("{least:.3}"),
            format!("{largest:.3}"),
        ]);
    }
    section.text(&table);
    section
}

async fn start(filter: Filter, peer: &ControlPlane) -> Envoy {
    let tiers = Tiers {
        filter,
        ..Tiers::USUAL
    };
    tiers.launch(peer.address()).await
}

async fn seconds<T>(start: impl AsyncFnOnce() -> T) -> f64 {
    let begin = Instant::now();
    let _started = start().await;
    begin.elapsed().as_secs_f64()
}
