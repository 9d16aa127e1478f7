//! Imports of this process: what was sent, and how far each has come.

use super::strings as t;
use crate::problem::{Kind, Problem};
use crate::transfer::{
    ApiClient, Format, Here, ImportOptions, ImportProgress, Mapping, watch_import,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The page that files are sent to.
pub(super) const PATH: &str = "/console/imports";

/// How many records are sent at once.
const BATCH: usize = 500;

/// The imports of this process, the oldest first.
#[derive(Default)]
pub(super) struct Imports(Mutex<Vec<Arc<Import>>>);

/// A file that was sent, and what becomes of it.
pub(super) struct Import {
    pub(super) id: String,
    pub(super) user_id: u64,
    pub(super) format: Format,
    pub(super) folder: TempDir,
    pub(super) mapping: Mapping,
    pub(super) state: Mutex<ImportState>,
}

pub(super) struct ImportState {
    pub(super) phase: Phase,
    pub(super) progress: ImportProgress,
    /// Ends what goes on.
    pub(super) stop: CancellationToken,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
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
    /// Those of a user, the newest first.
    pub(super) fn of_user(&self, user_id: u64) -> Vec<Arc<Import>> {
        let imports = locked(&self.0);
        let own = imports
            .iter()
            .rev()
            .filter(|import| import.user_id == user_id);
        own.cloned().collect()
    }

    pub(super) fn find(&self, id: &str, user_id: u64) -> Result<Arc<Import>, Problem> {
        let found = self
            .of_user(user_id)
            .into_iter()
            .find(|import| import.id == id);
        found.ok_or_else(|| Problem::new(Kind::NotFound).with_detail(t::NO_IMPORT))
    }

    /// Adds one. Where there are too many, the oldest with which nothing goes on gives way.
    pub(super) fn add(&self, import: Arc<Import>, most: usize) -> Result<(), Problem> {
        let mut imports = locked(&self.0);
        while imports.len() >= most {
            let Some(idle) = imports.iter().position(|import| !import.phase().goes_on()) else {
                return Err(Problem::new(Kind::Overloaded).with_detail(t::TOO_MANY_IMPORTS));
            };
            imports.remove(idle);
        }
        imports.push(import);
        Ok(())
    }

    pub(super) fn remove(&self, id: &str) {
        locked(&self.0).retain(|import| import.id != id);
    }
}

impl Phase {
    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Self::Checking | Self::Running)
    }

    pub(super) fn text(&self) -> &'static str {
        match self {
            Self::Checking => t::IMPORT_CHECKING,
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

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file with what was or would be wrong, that of the last run.
    pub(super) fn report(&self) -> PathBuf {
        match self.file("report").exists() {
            true => self.file("report"),
            false => self.file("tried"),
        }
    }

    /// Reads the file and tries it out, or imports it, in a thread of its own: reading and writing files blocks it. What goes on
    /// already is left alone.
    pub(super) fn start(self: &Arc<Self>, api: Here, is_dry_run: bool) {
        let options = self.options(is_dry_run);
        let mut state = locked(&self.state);
        if state.phase.goes_on() {
            return;
        }
        state.phase = match is_dry_run {
            true => Phase::Checking,
            false => Phase::Running,
        };
        state.progress = ImportProgress::default();
        state.stop = CancellationToken::new();
        let (import, stop, runtime) = (self.clone(), state.stop.clone(), Handle::current());
        let work = move || {
            let client = ApiClient::here(api);
            let observe = |progress: &ImportProgress| {
                locked(&import.state).progress = progress.clone();
            };
            let run = async {
                tokio::select! {
                    result = watch_import(&client, &options, observe) => match result {
                        Ok(_) if is_dry_run => Phase::Checked,
                        Ok(_) => Phase::Done,
                        Err(error) => Phase::Stopped(error.to_string()),
                    },
                    () = stop.cancelled() => Phase::Stopped(t::STOPPED_BY_HAND.to_owned()),
                }
            };
            // A panic ends the import as an error does.
            let phase = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run)));
            let phase = phase.unwrap_or_else(|_| Phase::Stopped(t::IMPORT_FAILED.to_owned()));
            locked(&import.state).phase = phase;
        };
        let thread = thread::Builder::new().name("import".to_owned());
        if let Err(error) = thread.spawn(work) {
            state.phase = Phase::Stopped(error.to_string());
        }
    }

    fn options(&self, is_dry_run: bool) -> ImportOptions {
        let report = if is_dry_run { "tried" } else { "report" };
        ImportOptions {
            file: self.file("file"),
            mapping: self.mapping.clone(),
            report: self.file(report),
            checkpoint: self.file("checkpoint"),
            batch: BATCH,
            is_dry_run,
        }
    }

    /// Makes what goes on end soon.
    pub(super) fn stop(&self) {
        locked(&self.state).stop.cancel();
    }
}
