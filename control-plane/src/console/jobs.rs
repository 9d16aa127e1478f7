//! Imports of this process: what was sent, and how far each has come.

use super::disk::{Disk, DiskShare};
use super::strings as t;
use crate::config::ConsoleConfig;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use crate::transfer::{
    ApiClient, Format, Here, ImportMemory, ImportOptions, ImportProgress, Mapping, TransferError,
    watch_import,
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

/// How many records are sent at once.
const BATCH: usize = 500;

/// The names of files in the folder of an import: what was sent, and the reports of the trial and of the import.
pub(super) const FILE: &str = "file";
const TRIED: &str = "tried";
const REPORT: &str = "report";
const FILES: [&str; 3] = [FILE, TRIED, REPORT];

/// How long a file with which nothing goes on is kept where others need its place.
const KEPT: Duration = Duration::from_hours(1);

/// How much of a file is held in memory: imports of many callers go on at once.
const MEMORY: ImportMemory = ImportMemory {
    batch_bytes: 1 << 20,
    max_foreseen: 400_000,
};

/// The imports of this process. What goes on ends with them.
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

/// How many bytes imports may take up of the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskBounds {
    /// A report.
    pub(super) report: u64,
    /// All files of all imports.
    pub(super) all_imports: u64,
}

/// A file that was sent, and what becomes of it.
pub(super) struct Import {
    pub(super) id: String,
    /// Who has sent it: others of the same user may have other rights.
    pub(super) caller: Caller,
    pub(super) format: Format,
    pub(super) folder: TempDir,
    /// What the file and the reports take up of the disk.
    pub(super) share: Mutex<DiskShare>,
    pub(super) mapping: Mapping,
    pub(super) state: Mutex<ImportState>,
}

pub(super) struct ImportState {
    pub(super) phase: Phase,
    pub(super) progress: ImportProgress,
    /// Whether nothing is created by what goes on, or went on last.
    pub(super) is_trial: bool,
    /// Ends what goes on.
    stop: CancellationToken,
    /// Since when the phase is what it is.
    since: Instant,
    /// Whether it was removed: nothing begins any more.
    is_gone: bool,
}

impl Default for ImportState {
    fn default() -> Self {
        Self {
            phase: Phase::New,
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
    /// Why.
    Stopped(String),
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Imports {
    /// Those of a caller, the newest first.
    pub(super) fn of(&self, caller: &Caller) -> Vec<Arc<Import>> {
        let imports = locked(&self.list);
        let own = imports.iter().rev().filter(|import| import.is_of(caller));
        own.cloned().collect()
    }

    pub(super) fn find(&self, id: &str, caller: &Caller) -> Result<Arc<Import>, Problem> {
        let found = self.of(caller).into_iter().find(|import| import.id == id);
        found.ok_or_else(|| Problem::new(Kind::NotFound).with_detail(t::NO_IMPORT))
    }

    /// Adds one. Where there are too many, the oldest of the same caller with which nothing goes on gives way, or one of others that
    /// has been left alone for long.
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

    /// The room of all files.
    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Gives a file that comes so many bytes of the disk. Where there is no room, others give way as where there are too many.
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

/// Removes the oldest import of that caller with which nothing goes on, or else, where those of others count, one that has been left
/// alone for long; returns whether there was one.
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

    fn is_of(&self, caller: &Caller) -> bool {
        self.caller.id() == caller.id() && self.caller.may_the_same(caller)
    }

    fn is_idle_for(&self, time: Duration) -> bool {
        let state = locked(&self.state);
        !state.phase.goes_on() && state.since.elapsed() >= time
    }

    /// Ends what goes on, and lets nothing begin.
    fn forget(&self) {
        let mut state = locked(&self.state);
        state.is_gone = true;
        state.stop.cancel();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file with what was or would be wrong, that of the last run.
    pub(super) fn report(&self) -> PathBuf {
        if self.file(REPORT).exists() {
            self.file(REPORT)
        } else {
            self.file(TRIED)
        }
    }

    /// Reads the file and tries it out, or imports it, in a thread of its own: reading and writing files blocks it. What goes on
    /// already is left alone.
    pub(super) fn start(self: &Arc<Self>, api: Here, is_dry_run: bool, bounds: DiskBounds) {
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
            let client = ApiClient::here(api);
            let (is_too_long, too_long) = oneshot::channel();
            let mut is_too_long = Some(is_too_long);
            let observe = |progress: &ImportProgress| {
                if let Err(reason) = import.take_room(&options.report, bounds)
                    && let Some(is_too_long) = is_too_long.take()
                {
                    // It is awaited as long as the import goes on.
                    let _ = is_too_long.send(reason);
                }
                locked(&import.state).progress = progress.clone();
            };
            let run = async {
                tokio::select! {
                                    biased;
                                    Ok(reason) = too_long => Phase::Stopped(reason.to_owned()),
                                    () = stop.cancelled() => Phase::Stopped(if is_dry_run {
                t::TRIAL_STOPPED.to_owned()
                } else {
                t::STOPPED_BY_HAND.to_owned()
                }),
                                    result = watch_import(&client, &options, observe) => match result {
                                        Ok(_) if is_dry_run => Phase::Checked,
                                        Ok(_) => Phase::Done,
                                        Err(TransferError::Client(error)) => Phase::Stopped(error.to_string()),
                                        Err(error) => {
                                            tracing::error!(%error, "a file of an import cannot be used");
                                            Phase::Stopped(t::IMPORT_FAILED.to_owned())
                                        }
                                    },
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

    /// Notes how much of the disk the file and its reports take up by now; why the import cannot go on, if it cannot.
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
            mapping: self.mapping.clone(),
            report: self.file(report),
            checkpoint: self.file("checkpoint"),
            batch: BATCH,
            memory: MEMORY,
            is_dry_run,
        }
    }

    /// Makes what goes on end soon.
    pub(super) fn stop(&self) {
        locked(&self.state).stop.cancel();
    }
}
