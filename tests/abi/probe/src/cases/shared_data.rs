//! proxy_get_shared_data, proxy_set_shared_data.

use crate::abi::{NOWHERE, Out, address, proxy_get_shared_data, proxy_set_shared_data, size};
use crate::report::Report;

fn get(key: &str, report: &mut Report) -> u32 {
    let mut out = Out::new();
    let status = proxy_get_shared_data(
        address(key),
        size(key.as_bytes()),
        out.at(0),
        out.at(1),
        out.at(2),
    );
    let cas = out.word(2);
    report.bytes(&format!("get {key}"), status, &out);
    cas
}

fn set(key: &str, value: &str, cas: u32) -> u32 {
    let (key_size, value_size) = (size(key.as_bytes()), size(value.as_bytes()));
    proxy_set_shared_data(address(key), key_size, address(value), value_size, cas)
}

pub(crate) fn run(report: &mut Report) {
    get("missing", report);
    report.status("set missing with a cas", set("with-cas", "1", 77));
    get("with-cas", report);
    report.status("set", set("key", "1", 0));
    let first = get("key", report);
    report.status("set with its cas", set("key", "2", first));
    let second = get("key", report);
    report.text("another cas", &(first != second && second != 0).to_string());
    report.status("set with the stale cas", set("key", "3", first));
    get("key", report);
    report.status("set without a cas", set("key", "4", 0));
    get("key", report);
    report.status("set to nothing", set("key", "", 0));
    get("key", report);
    report.status("set of an empty key", set("", "empty", 0));
    get("", report);

    let (mut out, key) = (Out::new(), address("key"));
    report.status(
        "get, key nowhere",
        proxy_get_shared_data(NOWHERE, 32, out.at(0), out.at(1), out.at(2)),
    );
    report.status(
        "get, value nowhere",
        proxy_get_shared_data(key, 3, NOWHERE, out.at(1), out.at(2)),
    );
    report.status(
        "get, cas nowhere",
        proxy_get_shared_data(key, 3, out.at(0), out.at(1), NOWHERE),
    );
    report.status(
        "set, key nowhere",
        proxy_set_shared_data(NOWHERE, 32, key, 3, 0),
    );
    report.status(
        "set, value nowhere",
        proxy_set_shared_data(key, 3, NOWHERE, 32, 0),
    );
}
