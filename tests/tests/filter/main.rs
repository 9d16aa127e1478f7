//! The modules as they are built, on the wasmtime host.

mod background;
mod bounds;
mod bytes;
mod callouts;
mod clock;
mod configuration;
mod cost;
mod fuel;
mod redis;
mod resp_bridge;
mod roots;
mod scenarios;
mod support;
mod threads;
