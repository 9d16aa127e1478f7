//! The edges of a worker process.

use super::conf::SettingsFile;
use super::wake::{self, LoopWaker};
use super::zone::Zone;
use crate::metrics::{SharedMetrics, Unreported, WorkerGauges};
use crate::processes;
use crate::slots::{MAX_VALUE_BYTES, SharedSlots};
use edgelink_filter_core::edge::RootId;
use edgelink_process::SharedTable;
use edgelink_process::process::Process;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// An edge that runs.
#[derive(Clone, Copy)]
pub(crate) struct Running {
    pub(crate) process: &'static Process<LoopWaker>,
    pub(crate) root: RootId,
}

/// The state of a worker process beside its requests.
struct WorkerState {
    running: Vec<Running>,
    /// The longest time between two ticks of them.
    tick: Duration,
    metrics: Option<(&'static SharedMetrics, Option<&'static WorkerGauges>)>,
    unreported: Unreported,
}

thread_local! {
    static WORKER: RefCell<Option<WorkerState>> = const { RefCell::new(None) };
    /// Requests that wait, as the row of the worker has it.
    static WAITING: Cell<usize> = const { Cell::new(0) };
}

/// For how long a worker that ends in order waits until the control plane has counted its clicks, and has got its visits back.
const LAST_REPORTS: Duration = Duration::from_secs(10);
/// Time without requests after which clicks are reported, with a margin.
const QUIET: Duration = Duration::from_millis(300);
/// For how long one waits that nginx wants gone at once; nginx kills it after a second or two.
const LAST_REPORTS_AT_ONCE: Duration = Duration::from_millis(400);

/// A worker process begins: one edge for each file of settings, in their order.
pub(crate) fn begin(roots: &[SettingsFile], zone: Option<Zone>) -> Vec<Option<Running>> {
    let metrics = zone.map(|zone| {
        let metrics = zone.metrics();
        (
            metrics,
            metrics.take_row(processes::own(), processes::is_alive),
        )
    });
    let mut begun = Vec::new();
    for root in roots {
        let mut settings = root.settings.clone();
        let table = zone.map(|zone| {
            settings.slots = u32::try_from(zone.slots().len()).unwrap_or(u32::MAX);
            settings.max_value_bytes = MAX_VALUE_BYTES;
            let servers = format!("{:?}", settings.control_plane.servers.addresses);
            let slots = SharedSlots::of((zone.slots(), zone.feeds()), (&root.file, servers));
            // It lives as long as the process.
            &*Box::leak(Box::new(slots)) as &dyn SharedTable
        });
        let process = Process::sharing(table);
        let root_id = process.begin(settings, Box::new(wake::offer_metrics));
        if root_id.is_err() {
            log::error!(
                "the edge of {} could not begin: its requests pass",
                root.file
            );
        }
        // A reload brings new workers while visitors come.
        process.expect_requests();
        let running = root_id.ok().map(|root| Running { process, root });
        begun.push(running);
    }
    WORKER.set(Some(WorkerState {
        running: begun.iter().copied().flatten().collect(),
        tick: roots
            .iter()
            .map(|root| Duration::from_millis(root.settings.tick_millis.into()))
            .max()
            .unwrap_or_default(),
        metrics,
        unreported: Unreported::default(),
    }));
    begun
}

/// Adds the changes of metrics to those of all workers.
pub(crate) fn take_metrics() {
    WORKER.with_borrow_mut(|worker| {
        let Some(worker) = worker else {
            return;
        };
        for running in &worker.running {
            let changes = running.process.take_metrics();
            if let Some((metrics, row)) = worker.metrics {
                metrics.add(row, changes, &mut worker.unreported);
            }
        }
    });
}

/// Notes how many requests wait.
pub(crate) fn note_waiting(count: usize) {
    if WAITING.replace(count) != count {
        WORKER.with_borrow(|worker| {
            let row = worker.as_ref().and_then(|worker| worker.metrics?.1);
            if let Some(row) = row {
                row.set_waiting(count);
            }
        });
    }
}

/// The worker process ends: clicks and visits first, then the edges, their thread, and the row of metrics.
pub(crate) fn end(is_at_once: bool) {
    let limit = if is_at_once {
        LAST_REPORTS_AT_ONCE
    } else {
        LAST_REPORTS
    };
    await_last_reports(limit);
    let worker = WORKER.take();
    for running in worker.iter().flat_map(|worker| &worker.running) {
        running.process.end(running.root);
    }
    edgelink_process::end_thread();
    if let Some((_, Some(row))) = worker.and_then(|worker| worker.metrics) {
        SharedMetrics::give_back(row);
    }
}

/// Waits until the control plane has counted the clicks of the worker, and has got its visits back: its thread goes on to report them.
/// The counts of the last requests come with one tick, and are sent when there were no further ones for a moment.
fn await_last_reports(limit: Duration) {
    let settling = WORKER.with_borrow(|worker| {
        let worker = worker.as_ref().filter(|worker| !worker.running.is_empty());
        worker.map(|worker| QUIET + 2 * worker.tick)
    });
    let Some(settling) = settling else {
        return;
    };
    let start = Instant::now();
    let mut quiet_since = start;
    while start.elapsed() < limit {
        wake::await_metrics(Duration::from_millis(100));
        take_metrics();
        let has_reports = WORKER.with_borrow(|worker| {
            worker.as_ref().is_some_and(|worker| {
                let running = worker.running.iter();
                let holders = running.filter(|running| running.process.retire()).count();
                holders > 0 || worker.unreported.is_some()
            })
        });
        if has_reports {
            quiet_since = Instant::now();
        } else if quiet_since.elapsed() > settling {
            return;
        }
    }
}
