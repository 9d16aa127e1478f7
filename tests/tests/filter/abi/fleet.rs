//! Behaviour of a fleet that no request to one Envoy shows.

use edgelink_tests::abi::host::{
    Cluster, FailurePolicy, Fleet, FleetBuilder, Level, Metering, Metric, Module, Outcome,
    RELOAD_BACKOFF, Thread,
};
use std::time::Duration;

fn builder() -> FleetBuilder {
    Fleet::of(&Module::probe()).cluster("peer", Cluster::Healthy)
}

fn start(builder: FleetBuilder) -> Fleet {
    builder.start().unwrap_or_else(|error| panic!("{error}"))
}

fn journal(fleet: &mut Fleet, worker: usize) -> String {
    fleet.worker(worker).get("/journal").local_response().text()
}

fn status(fleet: &mut Fleet, path: &str) -> u16 {
    fleet.worker(0).get(path).local_response().status()
}

#[test]
fn vm_when_it_traps_fails_its_worker_alone() {
    let mut fleet = start(builder().workers(2));
    fleet.advance(RELOAD_BACKOFF);
    let paused = fleet.worker(0).request("GET", "/pause").send();

    assert_eq!(status(&mut fleet, "/trap"), 503);

    let failures = fleet.worker(0).failures();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].callback, "proxy_on_request_headers");
    assert_eq!(fleet.worker(0).outcome(paused), Outcome::Paused);
    assert_eq!(
        fleet.worker(1).get("/run/timer").local_response().status(),
        200
    );
    assert_eq!(status(&mut fleet, "/run/timer"), 200);
    assert_eq!(
        (fleet.worker(0).reloads(), fleet.worker(1).reloads()),
        (1, 0)
    );
}

#[test]
fn vm_when_backoff_has_not_passed_is_not_replaced() {
    let mut fleet = start(builder());
    fleet.advance(RELOAD_BACKOFF);
    status(&mut fleet, "/trap");
    status(&mut fleet, "/trap");
    assert_eq!(fleet.worker(0).reloads(), 1);
    assert_eq!(status(&mut fleet, "/run/timer"), 503);
    fleet.advance(RELOAD_BACKOFF);
    assert_eq!(status(&mut fleet, "/run/timer"), 200);
}

#[test]
fn vm_when_reloading_is_off_stays_failed() {
    let mut fleet = start(builder().failure_policy(FailurePolicy::Closed));
    status(&mut fleet, "/trap");
    fleet.advance(10 * RELOAD_BACKOFF);
    assert_eq!(status(&mut fleet, "/run/timer"), 503);
}

#[test]
fn callout_when_its_vm_has_failed_gets_no_callback() {
    let mut fleet = start(builder());
    let stream = fleet.worker(0).request("GET", "/callout/peer/ok").send();
    status(&mut fleet, "/trap");
    let worker = fleet.worker(0);
    let callout = worker.callout();
    let before = worker.usage();
    worker.refuse_callout(&callout);
    assert_eq!(worker.usage().since(&before).callbacks.len(), 0);
    assert_eq!(worker.outcome(stream), Outcome::Paused);
}

#[test]
fn hostcall_when_unknown_is_named_by_trap() {
    let mut fleet = start(builder());
    assert_eq!(status(&mut fleet, "/run/unknown"), 503);
    let message = &fleet.worker(0).failures()[0].message;
    assert!(
        message.contains("unknown import: `env::proxy_done`"),
        "{message}"
    );
}

#[test]
fn shared_data_and_metrics_when_vm_is_replaced_persist() {
    let mut fleet = start(builder());
    fleet.advance(RELOAD_BACKOFF);
    fleet.worker(0).get("/run/shared-data");
    fleet.worker(0).get("/run/metric");
    status(&mut fleet, "/trap");
    fleet.worker(0).get("/run/metric");

    assert_eq!(fleet.worker(0).reloads(), 1);
    assert!(fleet.shared_data(b"with-cas").is_some());
    assert_eq!(fleet.shared_data_size().0, 3);
    assert_eq!(fleet.metric("probe.counter"), Some(Metric::Counter(18)));
    assert_eq!(fleet.metric("probe.gauge"), Some(Metric::Gauge(5)));
    assert_eq!(
        fleet.metric("probe.histogram"),
        Some(Metric::Histogram(vec![7, 7]))
    );
}

#[test]
fn timer_when_time_is_only_advanced_does_not_tick() {
    let mut fleet = start(builder());
    let start = fleet.now();
    fleet.worker(0).get("/run/tick");
    assert_eq!(
        fleet.worker(0).tick_period(),
        Some(Duration::from_millis(1))
    );
    fleet.advance(Duration::from_secs(1));
    assert!(!journal(&mut fleet, 0).contains("tick"));
    fleet.pass(Duration::from_millis(5));
    // The module has stopped its timer in the first tick.
    assert_eq!(journal(&mut fleet, 0).matches("tick").count(), 1);
    assert_eq!(fleet.now(), start + Duration::from_millis(1_005));
}

#[test]
fn callout_when_its_time_has_passed_times_out() {
    let mut fleet = start(builder());
    let stream = fleet.worker(0).request("GET", "/callout/peer/hang").send();
    fleet.advance(Duration::from_millis(499));
    assert_eq!(fleet.worker(0).outcome(stream), Outcome::Paused);
    fleet.advance(Duration::from_millis(1));
    let report = fleet.worker(0).outcome(stream).local_response().text();
    assert!(report.contains("get 6 :status=Ok \"504\""), "{report}");
}

#[test]
fn fleet_when_started_configures_main_thread_and_workers() {
    let mut fleet = start(builder().workers(2).configuration("a configuration"));
    assert_eq!(fleet.main().thread(), Thread::Main);
    assert!(fleet.main().failures().is_empty());
    for worker in 0..2 {
        assert!(journal(&mut fleet, worker).contains("configure 15"));
    }
}

#[test]
fn log_line_when_written_has_level_and_thread() {
    let mut fleet = start(builder().workers(2));
    fleet.worker(1).get("/run/log");
    let log = fleet.log();
    let line = log
        .iter()
        .find(|line| line.level == Level::Warn)
        .expect("a warning");
    assert_eq!(line.thread, Thread::Worker(1));
    assert_eq!(line.message, "a line of the probe");
}

#[test]
fn fuel_when_module_is_not_metered_is_zero() {
    let mut fleet = start(builder());
    fleet.worker(0).get("/run/timer");
    let usage = fleet.worker(0).usage();
    assert_eq!(usage.fuel, 0);
    assert_eq!(usage.hostcall("proxy_set_tick_period_milliseconds"), 3);
    assert_eq!(usage.hostcall("proxy_send_local_response"), 1);
    assert!(usage.bytes_given > 0 && usage.bytes_taken > 0 && usage.allocations > 0);
}

#[test]
fn fuel_when_work_repeats_is_equal() {
    let module = Module::compile(&edgelink_tests::stack::probe_module(), Metering::Fuel);
    let burn = || {
        let mut fleet = start(Fleet::of(&module));
        fleet.worker(0).get("/run/timer");
        fleet.worker(0).usage().fuel
    };
    let fuel = burn();
    assert!(fuel > 0);
    assert_eq!(burn(), fuel);
}
