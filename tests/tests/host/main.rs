//! The wasmtime host itself: that it answers what real Envoy answers.

mod conformance;
