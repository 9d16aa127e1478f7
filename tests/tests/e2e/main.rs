//! The product end to end: real Envoy, the compiled filter, and the control plane as built or one that misbehaves.

mod api_input;
mod capacity;
mod configuration;
mod fleet;
mod hostile_bytes;
mod links;
mod listeners;
mod load;
mod make_run;
mod outage;
mod paths;
mod peer;
mod redis;
mod redis_faults;
mod scenarios;
mod urls;
mod workers;
