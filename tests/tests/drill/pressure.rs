//! Pressure: what one row, one client or one long transaction does, and what others notice of it. `make pressure` runs all of them.

mod hosts;
mod locked_row;
mod memory;
mod restart;
