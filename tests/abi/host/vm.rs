//! A VM: an instance of the module, and the host's state for it.

use super::driver::Driver;
use super::exports::Exports;
use super::hostcalls;
use super::module::{Metering, Module};
use super::plugin::Plugin;
use super::shared::{LogLine, Shared, Thread};
use super::state::{Restriction, Root, VM_CONTEXT, VmFailure, VmState};
use super::usage::Usage;
use std::fmt;
use std::rc::Rc;
use wasmtime::{AsContextMut, Linker, Store};

/// Marker of the ABI version that a module must export; this host implements only this one.
const ABI_VERSION: &str = "proxy_abi_version_0_2_1";

/// Reason why a plugin cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFailure {
    /// The module cannot be instantiated: it has no marker of ABI 0.2.1.
    Module(String),
    /// It trapped.
    Trap(VmFailure),
    /// `proxy_on_vm_start` has returned false.
    VmStart,
    /// `proxy_on_configure` has returned false.
    Configure,
}

/// Failure to start a plugin, with the log up to it.
#[derive(Clone, Debug)]
pub struct StartError {
    /// The reason.
    pub failure: StartFailure,
    /// Its log.
    pub log: Vec<LogLine>,
}

impl StartError {
    /// True if a line of the log contains that text.
    #[must_use]
    pub fn mentions(&self, text: &str) -> bool {
        self.log.iter().any(|line| line.message.contains(text))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the plugin does not start: {:?}", self.failure)
    }
}

impl std::error::Error for StartError {}

/// One VM.
pub(crate) struct Vm {
    store: Store<VmState>,
}

impl Vm {
    /// Instantiates the module, and starts and configures the plugin in it.
    pub(crate) fn start(
        module: &Module,
        shared: &Rc<Shared>,
        plugin: &Rc<Plugin>,
        thread: Thread,
        generation: usize,
    ) -> Result<Self, StartFailure> {
        let state = VmState::new(Rc::clone(shared), Rc::clone(plugin), thread, generation);
        let mut vm = Self::instantiate(module, state)
            .map_err(|error| StartFailure::Module(format!("{error:?}")))?;
        vm.initialize();
        vm.check()?;
        vm.start_root(&plugin.configuration)?;
        Ok(vm)
    }

    /// Starts the plugin in a new root context, with that configuration.
    pub(crate) fn start_root(&mut self, configuration: &[u8]) -> Result<u32, StartFailure> {
        let root = self.start_plugin(configuration);
        self.check()?;
        root
    }

    /// Ends a root context.
    pub(crate) fn end_root(&mut self, root: u32) {
        let mut driver = self.drive();
        driver.call(|exports| &exports.done, root, (root,));
        driver.call(|exports| &exports.delete, root, (root,));
        driver.state_mut().remove_context(root);
    }

    fn instantiate(module: &Module, state: VmState) -> wasmtime::Result<Self> {
        let compiled = &module.compiled;
        if compiled.get_export(ABI_VERSION).is_none() {
            return Err(wasmtime::Error::msg("the module is not of ABI 0.2.1"));
        }
        let mut store = Store::new(compiled.engine(), state);
        if module.metering == Metering::Fuel {
            store.set_fuel(u64::MAX)?;
        }
        let mut linker = Linker::new(compiled.engine());
        hostcalls::link(&mut linker)?;
        // The SDK imports everything that Envoy offers. Importing does no harm; calling traps, with the name in the
        // message.
        linker.define_unknown_imports_as_traps(compiled)?;
        store.data_mut().restriction = Restriction::Start;
        let instance = linker.instantiate(&mut store, compiled)?;
        let exports = Exports::find(&instance, &mut store)?;
        store.data_mut().memory = instance.get_memory(&mut store, "memory");
        store.data_mut().exports = Some(Rc::new(exports));
        Ok(Self { store })
    }

    fn initialize(&mut self) {
        let mut driver = self.drive();
        driver.call(|exports| &exports.initialize, VM_CONTEXT, ());
        driver.state_mut().restriction = Restriction::None;
    }

    fn start_plugin(&mut self, configuration: &[u8]) -> Result<u32, StartFailure> {
        let mut driver = self.drive();
        let root = driver.state_mut().new_context(None);
        let state = Root {
            configuration: configuration.into(),
            timer: None,
        };
        driver.state_mut().roots.insert(root, state);
        let size = configuration.len() as u32;
        driver.call(|exports| &exports.context_create, root, (root, VM_CONTEXT));
        if driver.call(|exports| &exports.vm_start, root, (root, 0)) == Some(0) {
            return Err(StartFailure::VmStart);
        }
        driver.state_mut().is_configuring = true;
        let is_configured =
            driver.call(|exports| &exports.configure, root, (root, size)) != Some(0);
        driver.state_mut().is_configuring = false;
        if is_configured {
            Ok(root)
        } else {
            Err(StartFailure::Configure)
        }
    }

    fn check(&self) -> Result<(), StartFailure> {
        let failure = self.state().failure.clone();
        failure.map_or(Ok(()), |failure| Err(StartFailure::Trap(failure)))
    }

    pub(crate) fn drive(&mut self) -> Driver<'_> {
        Driver {
            store: self.store.as_context_mut(),
        }
    }

    pub(crate) fn state(&self) -> &VmState {
        self.store.data()
    }

    pub(crate) fn state_mut(&mut self) -> &mut VmState {
        self.store.data_mut()
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut usage = self.state().usage.clone();
        usage.fuel = self.store.get_fuel().map_or(0, |left| u64::MAX - left);
        usage
    }

    /// Removes all fuel: the next callback traps.
    pub(crate) fn take_fuel(&mut self) {
        self.store.set_fuel(0).expect("a module with metering");
    }

    /// True if the module's linear memory contains these bytes.
    pub(crate) fn has_in_memory(&self, bytes: &[u8]) -> bool {
        let memory = self.state().memory;
        memory.is_some_and(|memory| {
            let mut windows = memory.data(&self.store).windows(bytes.len());
            windows.any(|window| window == bytes)
        })
    }

    /// Size of the module's linear memory in bytes.
    pub(crate) fn memory_size(&self) -> usize {
        let memory = self.state().memory;
        memory.map_or(0, |memory| memory.data_size(&self.store))
    }
}
