//! The metric hostcalls.
//!
//! Ids belong to a VM, and encode the kind; the counts belong to the process, by name.

use crate::abi::host::call::{Call, HostcallResult, Status, link_hostcalls};
use crate::abi::host::state::VmState;
use std::collections::BTreeMap;
use wasmtime::Linker;

const ID_STEP: u32 = 4;

/// A metric as in Envoy's stats, without the prefix `wasmcustom.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The sum of all increments.
    Counter(u64),
    /// The value set last, adjusted by later additions and subtractions.
    Gauge(u64),
    /// The values recorded, in order.
    Histogram(Vec<u64>),
}

/// The metrics of the process.
#[derive(Debug, Default)]
pub(crate) struct Metrics(pub(crate) BTreeMap<(MetricKind, String), Metric>);

/// Ids defined by a VM.
#[derive(Debug, Default)]
pub(crate) struct MetricIds {
    names: BTreeMap<u32, String>,
    defined: [u32; 3],
}

/// Kind of a metric, by its number in the ABI, which also forms the lower bits of its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum MetricKind {
    Counter = 0,
    Gauge = 1,
    Histogram = 2,
}

impl MetricKind {
    fn new(number: u32) -> Option<Self> {
        [Self::Counter, Self::Gauge, Self::Histogram]
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }

    fn of_id(id: u32) -> Option<Self> {
        Self::new(id % ID_STEP)
    }

    fn zero(self) -> Metric {
        match self {
            Self::Counter => Metric::Counter(0),
            Self::Gauge => Metric::Gauge(0),
            Self::Histogram => Metric::Histogram(Vec::new()),
        }
    }
}

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_define_metric" => define_metric(kind, name, name_size, id_at);
        "proxy_increment_metric" => increment_metric(id, offset: i64);
        "proxy_record_metric" => record_metric(id, value: u64);
    }
    Ok(())
}

fn define_metric(
    call: &mut Call<'_>,
    kind: u32,
    name: u32,
    name_size: u32,
    id_at: u32,
) -> HostcallResult {
    let name = call.read(name, name_size)?;
    let kind = MetricKind::new(kind).ok_or(Status::BadArgument)?;
    let name = String::from_utf8(name).map_err(|_| Status::BadArgument)?;
    let state = call.state();
    let defined = &mut state.metrics.defined[kind as usize];
    *defined += 1;
    let id = *defined * ID_STEP + kind as u32;
    state.metrics.names.insert(id, name.clone());
    let mut metrics = state.shared.metrics.borrow_mut();
    metrics.0.entry((kind, name)).or_insert_with(|| kind.zero());
    drop(metrics);
    Ok(call.write_word(id_at, id)?)
}

/// Applies a function to a metric of this VM.
fn with<T>(
    state: &VmState,
    id: u32,
    act: impl FnOnce(&mut Metric) -> Result<T, Status>,
) -> Result<T, Status> {
    let kind = MetricKind::of_id(id).ok_or(Status::NotFound)?;
    let name = state.metrics.names.get(&id).ok_or(Status::NotFound)?;
    let mut metrics = state.shared.metrics.borrow_mut();
    let metric = metrics.0.get_mut(&(kind, name.clone()));
    act(metric.ok_or(Status::NotFound)?)
}

/// Histograms, and ids of no kind, cannot be incremented.
fn counts(id: u32) -> Result<(), Status> {
    match MetricKind::of_id(id) {
        Some(MetricKind::Counter | MetricKind::Gauge) => Ok(()),
        Some(MetricKind::Histogram) | None => Err(Status::BadArgument),
    }
}

fn increment_metric(call: &mut Call<'_>, id: u32, offset: i64) -> HostcallResult {
    counts(id)?;
    with(call.state(), id, |metric| match metric {
        Metric::Counter(_) if offset <= 0 => Err(Status::BadArgument),
        Metric::Counter(value) | Metric::Gauge(value) => {
            *value = value.wrapping_add_signed(offset);
            Ok(())
        }
        Metric::Histogram(_) => Err(Status::BadArgument),
    })?;
    Ok(())
}

fn record_metric(call: &mut Call<'_>, id: u32, value: u64) -> HostcallResult {
    with(call.state(), id, |metric| {
        match metric {
            Metric::Counter(sum) => *sum = sum.wrapping_add(value),
            Metric::Gauge(present) => *present = value,
            Metric::Histogram(values) => values.push(value),
        }
        Ok(())
    })?;
    Ok(())
}
