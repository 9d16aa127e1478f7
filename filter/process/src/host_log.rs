//! The log of a host, as the logger of its module.

use log::{Level, LevelFilter, Log, Metadata, Record};

/// Writes warnings and errors of edgelink by a function of the host.
#[derive(Debug)]
pub struct HostLog(fn(Level, &str));

impl HostLog {
    /// A log with this function, which is called from any thread. A level other than `Error` is a warning.
    #[must_use]
    pub const fn new(write: fn(Level, &str)) -> Self {
        Self(write)
    }

    /// Makes it the logger of the module.
    pub fn install(&'static self) {
        // Refused the second time, when the logger is there already.
        if log::set_logger(self).is_ok() {
            log::set_max_level(LevelFilter::Warn);
        }
    }
}

impl Log for HostLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("edgelink")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            (self.0)(record.level(), &record.args().to_string());
        }
    }

    fn flush(&self) {}
}
