//! Building blocks of the end-to-end tests: a proxy-wasm host, private servers, and scenarios that run on all of them.

#[path = "../abi/abi.rs"]
pub mod abi;
pub mod certificates;
pub mod fuel;
pub mod link;
pub mod nemesis;
pub mod scenario;
pub mod servers;
pub mod stack;
