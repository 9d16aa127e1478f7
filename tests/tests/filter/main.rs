//! The filter as it is built, on the wasmtime host.

mod scenarios;
