//! Tests of the wasmtime host itself: it matches real Envoy, and offers what tests need.

mod conformance;
mod fleet;
mod imports;
