//! The nemesis: a short run with a fixed seed is a test; `make nemesis` has longer ones, with `MINUTES`, `SEED` and
//! `SHAPE` (`single` or `cluster`), `PRESSURE=0` without pressure, and `FAULTS` for some kinds of faults only. `src/nemesis/faults.rs` lists what breaks,
//! `src/nemesis/checker.rs` what is judged. Where a promise is broken, the history and the logs are kept under
//! `target/nemesis/SEED`, and `CHECK=target/nemesis/SEED/history.jsonl make nemesis` judges that history again.

use edgelink_tests::nemesis::{
    Options, Pressure, Promise, SHORT_SEED, Shape, Verdict, check, print, read, run,
};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Kills, cuts, a restored database and a configuration that is rolled back, for a minute.
#[tokio::test(flavor = "multi_thread")]
async fn nemesis_when_run_for_a_minute_breaks_no_promise() {
    let options = Options {
        time: Duration::from_secs(60),
        seed: SHORT_SEED,
        shape: Shape::Single,
        pressure: Pressure::Without,
        only: Vec::new(),
    };
    assert_kept(&run(options).await);
}

/// `make nemesis`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make nemesis"]
async fn nemesis() {
    if let Some(history) = variable("CHECK") {
        let events = read(Path::new(&history));
        let verdict = check(&events);
        println!("{}", print(&verdict, &events));
        return assert_kept(&verdict);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("a time after 1970").as_secs();
    let minutes: u64 = number("MINUTES", 10);
    let shape = match variable("SHAPE").as_deref() {
        None | Some("single") => Shape::Single,
        Some("cluster") => Shape::Cluster,
        Some(other) => panic!("SHAPE must be single or cluster, not '{other}'"),
    };
    let options = Options {
        time: Duration::from_secs(minutes * 60),
        seed: number("SEED", now),
        shape,
        pressure: match variable("PRESSURE").as_deref() {
            None | Some("1") => Pressure::With,
            Some("0") => Pressure::Without,
            Some(other) => panic!("PRESSURE must be 0 or 1, not '{other}'"),
        },
        only: variable("FAULTS").map_or_else(Vec::new, |names| {
            names
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect()
        }),
    };
    assert_kept(&run(options).await);
}

fn assert_kept(verdict: &Verdict) {
    let broken: Vec<String> = Promise::ALL
        .into_iter()
        .map(|promise| {
            let count = verdict.violations.iter().filter(|v| v.promise == promise);
            (promise, count.count())
        })
        .filter(|&(_, count)| count > 0)
        .map(|(promise, count)| format!("{} {count} times", promise.name()))
        .collect();
    assert!(
        broken.is_empty(),
        "promises are broken: {}",
        broken.join(", ")
    );
}

fn variable(name: &str) -> Option<String> {
    let value = std::env::var(format!("NEMESIS_{name}")).ok();
    value.filter(|value| !value.is_empty())
}

fn number(name: &str, default: u64) -> u64 {
    let Some(text) = variable(name) else {
        return default;
    };
    let number = text.parse();
    number.unwrap_or_else(|_| panic!("{name} must be a whole number, not '{text}'"))
}
