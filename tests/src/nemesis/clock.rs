//! A movable wall clock for a single process.
//!
//! libfaketime does not work here: preloaded into Envoy or Redis, whose allocators (tcmalloc, jemalloc) ask for the time
//! before it is ready, it hangs or gives up. So there are some forty lines of C, compiled on demand.

use crate::stack::root;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The clock of one process.
#[derive(Debug)]
pub struct MovableClock {
    file: PathBuf,
    library: PathBuf,
}

/// Compiles the library that is preloaded.
///
/// # Panics
/// Panics if that fails.
pub fn compile(folder: &Path) {
    let output = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .arg(library(folder))
        .arg(root().join("tests/src/nemesis/clock.c"))
        .arg("-ldl")
        .output()
        .expect("a C compiler");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cc: {errors}");
}

fn library(folder: &Path) -> PathBuf {
    folder.join("clock.so")
}

impl MovableClock {
    /// Creates a correct clock for the process of that name.
    pub fn of(folder: &Path, name: &str) -> Self {
        let file = folder.join(format!("{name}.clock"));
        fs::write(&file, 0_i64.to_ne_bytes()).expect("a file");
        Self {
            file,
            library: library(folder),
        }
    }

    /// Makes the process use this clock.
    pub fn apply(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("NEMESIS_CLOCK_FILE", &self.file);
    }

    /// Sets its offset from the correct time.
    pub fn move_by(&self, micros: i64) {
        let file = fs::File::options().write(true).open(&self.file);
        let written = file.and_then(|file| file.write_all_at(&micros.to_ne_bytes(), 0));
        written.expect("the file of a clock");
    }

    /// Resets it to the correct time.
    pub fn reset(&self) {
        self.move_by(0);
    }
}
