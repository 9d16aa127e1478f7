//! The wasmtime host itself: that it answers what real Envoy answers, and does what tests want of it.

mod conformance;
mod fleet;
mod imports;
