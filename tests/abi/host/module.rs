//! Compiled modules.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use wasmtime::{Config, Engine};

/// Counting of the instructions that a module executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metering {
    /// Not counted; the module runs at full speed.
    Off,
    /// Counted: [`Usage::fuel`](super::Usage::fuel).
    Fuel,
}

/// A module, compiled and ready to be instantiated by any number of fleets.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) compiled: wasmtime::Module,
    pub(crate) metering: Metering,
}

impl Module {
    /// The filter as built by `make wasm`. It is compiled once in a process.
    ///
    /// # Panics
    /// Panics if it is not built, or is not a module.
    #[must_use]
    pub fn filter(metering: Metering) -> Self {
        Self::cached(&crate::stack::filter_module(), metering)
    }

    /// The bridge to Redis. It is compiled once in a process.
    ///
    /// # Panics
    /// Panics if it is not built, or is not a module.
    #[must_use]
    pub fn bridge() -> Self {
        Self::cached(&crate::stack::bridge_module(), Metering::Off)
    }

    /// The module that misuses hostcalls. It is compiled once in a process.
    ///
    /// # Panics
    /// Panics if it is not built, or is not a module.
    #[must_use]
    pub fn probe() -> Self {
        Self::cached(&crate::stack::probe_module(), Metering::Off)
    }

    fn cached(path: &Path, metering: Metering) -> Self {
        // Compiled code does not depend on its user, so that sharing it couples no tests.
        static COMPILED: LazyLock<Mutex<HashMap<(PathBuf, Metering), Module>>> =
            LazyLock::new(Mutex::default);
        let mut compiled = COMPILED.lock().unwrap_or_else(|lock| lock.into_inner());
        let module = compiled
            .entry((path.to_owned(), metering))
            .or_insert_with(|| Self::compile(path, metering));
        module.clone()
    }

    /// Imports of the module, as `module.name`, sorted.
    #[must_use]
    pub fn imports(&self) -> Vec<String> {
        let imports = self.compiled.imports();
        let mut names: Vec<String> = imports
            .map(|import| format!("{}.{}", import.module(), import.name()))
            .collect();
        names.sort();
        names
    }

    /// Compiles a file.
    ///
    /// # Panics
    /// Panics if there is no such file, or it is not a module.
    #[must_use]
    pub fn compile(path: &Path, metering: Metering) -> Self {
        let mut config = Config::new();
        config.consume_fuel(metering == Metering::Fuel);
        let engine = Engine::new(&config).expect("an engine for this machine");
        let compiled = wasmtime::Module::from_file(&engine, path)
            .unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        Self { compiled, metering }
    }
}
