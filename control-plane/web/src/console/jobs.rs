//! Imports of this process: their files and their progress.

use super::disk::{Disk, DiskShare};
use super::here::Here;
use super::strings as t;
pub(super) use edgelink_http::auth::Caller;
use edgelink_service::problem::{Kind, Problem};
use edgelink_settings::config::ConsoleConfig;
use edgelink_transfer::{
    ImportMemory, ImportOptions, ImportProgress, ImportSummary, Mapping, SourceProblem, Survey,
    TransferError, survey, watch_import,
};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The page that files are sent to.
pub(super) const PATH: &str = "/console/imports";

/// Number of records sent at once.
const BATCH: usize = 500;

/// Names of files in the folder of an import: the file that was sent, and the reports of the trial and of the import.
pub(super) const FILE: &str = "file";
const TRIED: &str = "tried";
const REPORT: &str = "report";
const FILES: [&str; 3] = [FILE, TRIED, REPORT];

/// Time for which an idle import is kept although others need its place.
const KEPT: Duration = Duration::from_hours(1);

/// Limits on the memory of an import: imports of many callers run at once.
const MEMORY: ImportMemory = ImportMemory {
    batch_bytes: 1 << 20,
    max_foreseen: 400_000,
};

/// The imports of this process. Running imports end when this is dropped.
#[derive(Default)]
pub(super) struct Imports {
    /// The oldest first.
    list: Mutex<Vec<Arc<Import>>>,
    disk: Disk,
}

impl Drop for Imports {
    fn drop(&mut self) {
        for import in locked(&self.list).drain(..) {
            import.forget();
        }
    }
}

/// Limits on the disk space of imports, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskBounds {
    /// A report.
    pub(super) report: u64,
    /// All files of all imports.
    pub(super) all_imports: u64,
}

/// A file that was sent, and its import.
pub(super) struct Import {
    pub(super) id: String,
    /// The caller that has sent it: other keys and sessions of the user may have other rights.
    pub(super) caller: Caller,
    pub(super) folder: TempDir,
    /// Disk space of the file and the reports.
    pub(super) share: Mutex<DiskShare>,
    pub(super) mapping: Mutex<Mapping>,
    pub(super) state: Mutex<ImportState>,
}

pub(super) struct ImportState {
    pub(super) phase: Phase,
    /// What is in the file, once it was read.
    pub(super) survey: Option<Arc<Survey>>,
    pub(super) progress: ImportProgress,
    /// Set if the current run, or else the last one, is a trial, which creates nothing.
    pub(super) is_trial: bool,
    /// Stops the current run.
    stop: CancellationToken,
    /// Start of the present phase.
    since: Instant,
    /// Set once the import was removed: no run begins any more.
    is_gone: bool,
}

impl Default for ImportState {
    fn default() -> Self {
        Self {
            phase: Phase::New,
            survey: None,
            progress: ImportProgress::default(),
            is_trial: true,
            stop: CancellationToken::new(),
            since: Instant::now(),
            is_gone: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is about to be tried out.
    New,
    Checking,
    Checked,
    Running,
    Done,
    /// The reason.
    Stopped(String),
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Imports {
    /// The imports of a caller, the newest first.
    pub(super) fn of(&self, caller: &Caller) -> Vec<Arc<Import>> {
        let imports = locked(&self.list);
        let own = imports.iter().rev().filter(|import| import.is_of(caller));
        own.cloned().collect()
    }

    pub(super) fn find(&self, id: &str, caller: &Caller) -> Result<Arc<Import>, Problem> {
        let found = self.of(caller).into_iter().find(|import| import.id == id);
        found.ok_or_else(|| Problem::new(Kind::NotFound).with_detail(t::NO_IMPORT))
    }

    /// Adds an import. If there are too many, the caller's oldest idle import gives way, or another caller's that has been idle
    /// for long.
    pub(super) fn add(&self, import: Arc<Import>, config: &ConsoleConfig) -> Result<(), Problem> {
        let (most, most_own) = (config.max_imports, config.max_own_imports);
        let mut imports = locked(&self.list);
        let own = imports.iter().filter(|each| each.is_of(&import.caller));
        if own.count() >= most_own || imports.len() >= most {
            let is_full = imports.len() >= most;
            if !give_way(&mut imports, &import.caller, is_full) {
                return Err(Problem::new(Kind::Overloaded).with_detail(t::TOO_MANY_IMPORTS));
            }
        }
        imports.push(import);
        Ok(())
    }

    /// The disk space of all files.
    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Reserves disk space for an arriving file. If there is no room, other imports give way as if there were too many.
    pub(super) fn make_room(
        &self,
        share: &mut DiskShare,
        bytes: u64,
        caller: &Caller,
        config: &ConsoleConfig,
    ) -> Result<(), Problem> {
        while !share.resize(bytes, config.max_import_bytes) {
            if !give_way(&mut locked(&self.list), caller, true) {
                return Err(Problem::new(Kind::Overloaded).with_detail(t::NO_ROOM_FOR_IMPORTS));
            }
        }
        Ok(())
    }

    pub(super) fn remove(&self, import: &Import) {
        import.forget();
        locked(&self.list).retain(|each| each.id != import.id);
    }
}

/// Removes the caller's oldest idle import, or else, if `others_too`, an import of another caller that has been idle for long.
/// Returns true if there was one.
fn give_way(imports: &mut Vec<Arc<Import>>, caller: &Caller, others_too: bool) -> bool {
    let own = imports
        .iter()
        .position(|each| each.is_of(caller) && each.is_idle_for(Duration::ZERO));
    let place = own.or_else(|| {
        let left = imports.iter().position(|each| each.is_idle_for(KEPT));
        left.filter(|_| others_too)
    });
    if let Some(place) = place {
        imports.remove(place).forget();
    }
    place.is_some()
}

impl Phase {
    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Self::New | Self::Checking | Self::Running)
    }

    pub(super) fn text(&self) -> &'static str {
        match self {
            Self::New | Self::Checking => t::IMPORT_CHECKING,
            Self::Checked => t::IMPORT_CHECKED,
            Self::Running => t::IMPORT_RUNNING,
            Self::Done => t::IMPORT_DONE,
            Self::Stopped(_) => t::IMPORT_STOPPED,
        }
    }
}

impl Import {
    pub(super) fn phase(&self) -> Phase {
        locked(&self.state).phase.clone()
    }

    /// The word of the format; empty until it is known.
    pub(super) fn format(&self) -> &'static str {
        let given = locked(&self.mapping).format;
        let state = locked(&self.state);
        let found = state.survey.as_ref().map(|survey| survey.format);
        found.or(given).map_or("", |format| format.word())
    }

    /// Changes the mapping of a file of which nothing was imported; `false` if something was, or a run is in progress.
    pub(super) fn map(&self, change: impl FnOnce(&mut Mapping)) -> bool {
        let state = locked(&self.state);
        let is_free = !state.phase.goes_on() && !self.file(REPORT).exists();
        if is_free {
            change(&mut locked(&self.mapping));
        }
        is_free
    }

    fn is_of(&self, caller: &Caller) -> bool {
        self.caller.id() == caller.id() && self.caller.may_the_same(caller)
    }

    fn is_idle_for(&self, time: Duration) -> bool {
        let state = locked(&self.state);
        !state.phase.goes_on() && state.since.elapsed() >= time
    }

    /// Stops the current run, and prevents further ones.
    fn forget(&self) {
        let mut state = locked(&self.state);
        state.is_gone = true;
        state.stop.cancel();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The report of the last run, or of the trial.
    pub(super) fn report(&self) -> PathBuf {
        if self.file(REPORT).exists() {
            self.file(REPORT)
        } else {
            self.file(TRIED)
        }
    }

    /// Reads the file and tries it out, or imports it, in a thread of its own, because reading and writing files blocks. Does
    /// nothing if a run is in progress.
    pub(super) fn start(self: &Arc<Self>, here: Here, is_dry_run: bool, bounds: DiskBounds) {
        let options = self.options(is_dry_run);
        let mut state = locked(&self.state);
        let goes_on = state.phase != Phase::New && state.phase.goes_on();
        if goes_on || state.is_gone {
            return;
        }
        state.is_trial = is_dry_run;
        state.phase = if is_dry_run {
            Phase::Checking
        } else {
            Phase::Running
        };
        state.progress = ImportProgress::default();
        state.stop = CancellationToken::new();
        let (import, stop, runtime) = (self.clone(), state.stop.clone(), Handle::current());
        let work = move || {
            let (is_too_long, too_long) = oneshot::channel();
            let mut is_too_long = Some(is_too_long);
            let observe = |progress: &ImportProgress| {
                if let Err(reason) = import.take_room(&options.report, bounds)
                    && let Some(is_too_long) = is_too_long.take()
                {
                    // The receiver waits as long as the import runs.
                    let _ = is_too_long.send(reason);
                }
                locked(&import.state).progress = progress.clone();
            };
            let read = survey(&options.file, &options.mapping);
            let run = async {
                let file = match read {
                    Ok(file) => file,
                    Err(error) => return ended(Err(error), is_dry_run),
                };
                locked(&import.state).survey = Some(Arc::clone(&file.survey));
                tokio::select! {
                    biased;
                    Ok(reason) = too_long => Phase::Stopped(reason.to_owned()),
                    () = stop.cancelled() => stopped(is_dry_run),
                    result = watch_import(&here, &file, &options, observe) => ended(result, is_dry_run),
                }
            };
            // A panic ends the import as an error does.
            let phase = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run)));
            let phase = phase.unwrap_or_else(|_| Phase::Stopped(t::IMPORT_FAILED.to_owned()));
            let mut state = locked(&import.state);
            (state.phase, state.since) = (phase, Instant::now());
        };
        let thread = thread::Builder::new().name("import".to_owned());
        if let Err(error) = thread.spawn(work) {
            state.phase = Phase::Stopped(error.to_string());
        }
    }

    /// Updates the disk space that the file and its reports use. Returns the reason if the import cannot continue.
    fn take_room(&self, report: &Path, bounds: DiskBounds) -> Result<(), &'static str> {
        let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        if length(report) > bounds.report {
            return Err(t::REPORT_TOO_LONG);
        }
        let all = FILES.map(|name| length(&self.file(name))).iter().sum();
        if locked(&self.share).resize(all, bounds.all_imports) {
            Ok(())
        } else {
            Err(t::NO_ROOM_FOR_REPORT)
        }
    }

    fn options(&self, is_dry_run: bool) -> ImportOptions {
        let report = if is_dry_run { TRIED } else { REPORT };
        ImportOptions {
            file: self.file(FILE),
            mapping: locked(&self.mapping).clone(),
            report: self.file(report),
            checkpoint: self.file("checkpoint"),
            batch: BATCH,
            memory: MEMORY,
            is_dry_run,
        }
    }

    /// Stops the current run soon.
    pub(super) fn stop(&self) {
        locked(&self.state).stop.cancel();
    }
}

/// Phase of an import that was stopped by hand.
fn stopped(is_dry_run: bool) -> Phase {
    let reason = if is_dry_run {
        t::TRIAL_STOPPED
    } else {
        t::STOPPED_BY_HAND
    };
    Phase::Stopped(reason.to_owned())
}

/// Phase of an import that has ended by itself.
fn ended(result: Result<ImportSummary, TransferError>, is_dry_run: bool) -> Phase {
    match result {
        Ok(_) if is_dry_run => Phase::Checked,
        Ok(_) => Phase::Done,
        Err(TransferError::Client(error)) => Phase::Stopped(error.to_string()),
        Err(TransferError::Source { problem, .. })
            if !matches!(problem, SourceProblem::File(_)) =>
        {
            Phase::Stopped(problem.to_string())
        }
        Err(error) => {
            tracing::error!(%error, "failed to read or write a file of an import, which stops");
            Phase::Stopped(t::IMPORT_FAILED.to_owned())
        }
    }
}
