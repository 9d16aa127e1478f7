//! Work on Envoy's main thread: begin and end of configurations, and updates of metrics.

use crate::abi::{self, Configuration, Scheduler};
use crate::metrics::DefinedMetrics;
use edgelink_filter_core::edge::RootId;
use edgelink_filter_core::settings::{Route, Settings};
use edgelink_process::HostLog;
use edgelink_process::process::{NO_ROOT, Process};
use edgelink_process::routes::RouteConfig;
use edgelink_wire::settings::InvalidField;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A configuration as held by Envoy.
pub(crate) struct Config {
    pub(crate) process: &'static Process<Scheduler>,
    /// The number by which the edge identifies it; [`NO_ROOT`] for a configuration that is only validated.
    pub(crate) root: RootId,
    metrics: DefinedMetrics,
}

/// All edges of the program, one for each name of a configuration.
type Processes = Vec<(Box<[u8]>, &'static Process<Scheduler>)>;

fn processes() -> MutexGuard<'static, Processes> {
    static PROCESSES: Mutex<Processes> = Mutex::new(Vec::new());
    PROCESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process with this name.
pub(crate) fn process_named(name: &[u8]) -> &'static Process<Scheduler> {
    let mut processes = processes();
    let found = processes.iter().find(|(of, _)| **of == *name);
    if let Some((_, process)) = found {
        return process;
    }
    let process = Process::new();
    processes.push((name.into(), process));
    process
}

/// The module was loaded.
pub(crate) fn begin_program() {
    static LOG: HostLog = HostLog::new(abi::log);
    LOG.install();
}

/// A configuration begins. `None` if it is invalid; the log names the fields.
pub(crate) fn begin(
    envoy: Configuration<'_>,
    name: &[u8],
    json: &[u8],
    (is_validated, workers): (bool, u32),
) -> Option<Config> {
    let settings = Settings::parse(json).and_then(|settings| settings.for_process(workers));
    let settings = match settings {
        Ok(settings) => settings,
        Err(error) => {
            log::error!("plugin configuration: {error}");
            return None;
        }
    };
    if let Err(InvalidField { field, reason }) = edgelink_process::check(&settings) {
        log::error!("plugin configuration: field '{field}': {reason}");
        return None;
    }
    let process = process_named(name);
    let metrics = DefinedMetrics::define(envoy);
    let root = if is_validated {
        NO_ROOT
    } else {
        let scheduler = envoy.scheduler();
        let wake = Box::new(move || scheduler.wake());
        process.begin(settings, wake).ok()?
    };
    Some(Config {
        process,
        root,
        metrics,
    })
}

/// A configuration has ended.
pub(crate) fn end(config: &Config) {
    if config.root != NO_ROOT {
        config.process.end(config.root);
    }
}

/// The configuration of a route begins. `None` if it is invalid; the log names the fields.
pub(crate) fn begin_route(json: &[u8]) -> Option<RouteConfig> {
    match Route::parse(json) {
        Ok(route) => Some(RouteConfig::new(route)),
        Err(error) => {
            log::error!("configuration of a route: {error}");
            None
        }
    }
}

/// The configuration of a route has ended.
pub(crate) fn end_route(route: &RouteConfig) {
    for (_, process) in &*processes() {
        process.forget_route(route);
    }
}

/// Passes changes of metrics to Envoy.
pub(crate) fn scheduled(envoy: Configuration<'_>, config: &Config) {
    config.metrics.apply(envoy, config.process.take_metrics());
}
