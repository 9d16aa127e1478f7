//! A fleet with the filter, and a control plane in the test's hands.

use edgelink_tests::abi::host::{
    Callout, Cluster, Fleet, FleetBuilder, Metering, Module, Outcome, Response, StartError, Worker,
};
use edgelink_tests::scenario::{DOMAIN, Reply};
use serde_json::{Value, json};

/// The smallest configuration, with the tier shown.
pub(crate) fn configuration() -> Value {
    json!({
        "domains": [DOMAIN],
        "controlPlane": {"cluster": "control_plane", "token": "secret"},
        "tierHeader": true,
    })
}

/// The configuration with other values for some fields, as by `{"lru": {"maxBytes": 0}}`.
pub(crate) fn configuration_with(changes: Value) -> Value {
    let mut configuration = configuration();
    merge(&mut configuration, changes);
    configuration
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// A fleet that is not started yet.
pub(crate) fn builder(configuration: &Value) -> FleetBuilder {
    Fleet::of(&Module::filter(Metering::Off))
        .configuration(configuration.to_string())
        .cluster("control_plane", Cluster::Healthy)
}

/// A started fleet of one worker.
pub(crate) fn fleet(configuration: &Value) -> Fleet {
    start(builder(configuration))
}

/// Starts a fleet.
pub(crate) fn start(builder: FleetBuilder) -> Fleet {
    let explain = |error: StartError| -> Fleet { panic!("{error}: {:#?}", error.log) };
    builder.start().unwrap_or_else(explain)
}

/// The key that a callout asks for.
pub(crate) fn key_of(callout: &Callout) -> String {
    callout.path().replace("/edge/v1/links/", "")
}

/// Answers a callout as the control plane does.
pub(crate) fn answer(worker: &mut Worker, callout: &Callout, reply: &Reply) {
    let (status, content_type, body) = reply.http(&key_of(callout)).expect("an HTTP answer");
    let mut response = Response::new(status).body(body);
    if let Some(content_type) = content_type {
        response = response.header("content-type", content_type);
    }
    worker.answer(callout, response);
}

/// Asks for a code, answers the callout that this makes, if it makes one, and returns what the visitor gets.
pub(crate) fn follow(worker: &mut Worker, code: &str, reply: &Reply) -> Response {
    let stream = worker.request("GET", format!("/{code}")).send();
    if worker.outcome(stream) == Outcome::Paused {
        let callout = worker.callout();
        answer(worker, &callout, reply);
    }
    worker.outcome(stream).local_response()
}

/// The tier that answered.
pub(crate) fn tier(response: &Response) -> &str {
    response.get("x-edgelink-tier").unwrap_or_default()
}

/// A small generator of numbers, the same in every run (xorshift64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// The next number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// Up to `max` bytes of any value.
    pub(crate) fn bytes(&mut self, max: usize) -> Vec<u8> {
        (0..self.below(max + 1))
            .map(|_| self.below(256) as u8)
            .collect()
    }
}
