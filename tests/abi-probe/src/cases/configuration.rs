//! What the start of a VM and of a plugin can read.

use crate::cases::buffer;
use crate::report::Report;

/// The configurations, and what is not there yet.
pub(crate) fn run(report: &mut Report) {
    for kind in [6, 7] {
        buffer::status(kind, report);
        buffer::get(kind, 0, 1000, report);
    }
    buffer::status(0, report);
}
