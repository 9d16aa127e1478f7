//! Pressure: what one row, one client or one long transaction does, and what others notice of it. `make pressure` runs all of them.

mod far_edge;
mod hosts;
mod locked_row;
mod many_leases;
mod memory;
mod one_time_links;
mod restart;
mod snapshot_transaction;
