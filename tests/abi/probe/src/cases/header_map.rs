//! The header map hostcalls.

use crate::abi::{
    NOWHERE, Out, address, proxy_get_header_map_pairs, proxy_get_header_map_value,
    proxy_get_property, proxy_replace_header_map_value, proxy_set_property, read_pairs, size,
};
use crate::report::{Report, name};

const REQUEST: u32 = 0;
const RESPONSE: u32 = 2;
const CALLOUT: u32 = 6;

fn get(map: u32, key: &str, report: &mut Report) {
    let mut out = Out::new();
    let status = value(map, key, &mut out);
    report.bytes(&format!("get {map} {key}"), status, &out);
}

fn value(map: u32, key: &str, out: &mut Out) -> u32 {
    proxy_get_header_map_value(
        map,
        address(key),
        size(key.as_bytes()),
        out.at(0),
        out.at(1),
    )
}

fn replace(map: u32, key: &str, value: &str) -> u32 {
    let (key_size, value_size) = (size(key.as_bytes()), size(value.as_bytes()));
    proxy_replace_header_map_value(map, address(key), key_size, address(value), value_size)
}

fn all(map: u32) -> Result<Vec<(String, String)>, u32> {
    let mut out = Out::new();
    match proxy_get_header_map_pairs(map, out.at(0), out.at(1)) {
        0 => Ok(read_pairs(&out.take())),
        status => Err(status),
    }
}

/// Values of one header, joined by a bar.
fn values(map: u32, key: &str, report: &mut Report) {
    let found = all(map).map(|pairs| {
        let values = pairs.into_iter().filter(|(name, _)| name == key);
        values.map(|(_, value)| value).collect::<Vec<_>>().join("|")
    });
    let label = format!("values {map} {key}");
    match found {
        Ok(values) => report.text(&label, &values),
        Err(status) => report.status(&label, status),
    }
}

/// Path of the request.
pub(crate) fn path() -> String {
    let mut out = Out::new();
    match value(REQUEST, ":path", &mut out) {
        0 => String::from_utf8_lossy(&out.take()).into_owned(),
        status => format!("/{}", name(status)),
    }
}

pub(crate) fn read(report: &mut Report) {
    for key in [
        ":path",
        ":method",
        ":authority",
        "host",
        "x-test",
        "X-Test",
        "no-such-header",
        "",
    ] {
        get(REQUEST, key, report);
    }
    values(REQUEST, "x-test", report);
    values(REQUEST, "x-twice", report);
    get(REQUEST, "x-twice", report);
    get(REQUEST, "x-empty", report);

    let (mut out, key) = (Out::new(), ":path");
    let (key, length) = (address(key), 5);
    report.status(
        "get, key nowhere",
        proxy_get_header_map_value(REQUEST, NOWHERE, 32, out.at(0), out.at(1)),
    );
    report.status(
        "get, value nowhere",
        proxy_get_header_map_value(REQUEST, key, length, NOWHERE, out.at(1)),
    );
    report.status(
        "get, size nowhere",
        proxy_get_header_map_value(REQUEST, key, length, out.at(0), NOWHERE),
    );
    report.status(
        "pairs, data nowhere",
        proxy_get_header_map_pairs(REQUEST, NOWHERE, out.at(1)),
    );
    report.status(
        "pairs, size nowhere",
        proxy_get_header_map_pairs(REQUEST, out.at(0), NOWHERE),
    );
}

/// Address of the client, which the proxy derives from the headers set by trusted proxies.
pub(crate) fn property(report: &mut Report) {
    let path = "source\0address";
    let (path, length) = (address(path), size(path.as_bytes()));
    let mut out = Out::new();
    let status = proxy_get_property(path, length, out.at(0), out.at(1));
    report.bytes("source address", status, &out);
    report.status(
        "path nowhere",
        proxy_get_property(NOWHERE, 32, out.at(0), out.at(1)),
    );
    report.status(
        "value nowhere",
        proxy_get_property(path, length, NOWHERE, out.at(1)),
    );
    report.status(
        "size nowhere",
        proxy_get_property(path, length, out.at(0), NOWHERE),
    );
    let name = "edgelink.probe";
    let (name, name_length) = (address(name), size(name.as_bytes()));
    for (call, path, value) in [
        ("set", name, name),
        ("set again", name, path),
        ("set, path nowhere", NOWHERE, name),
        ("set, value nowhere", name, NOWHERE),
    ] {
        report.status(
            call,
            proxy_set_property(path, name_length, value, name_length),
        );
    }
}

/// The maps that our modules read, in a phase in which they are absent, and some that are undefined in the ABI.
pub(crate) fn types(report: &mut Report) {
    for map in [RESPONSE, CALLOUT, 8, 9] {
        get(map, "x-test", report);
        let count = all(map).map(|pairs| pairs.len() as u32);
        report.word(
            &format!("pairs {map}"),
            *count.as_ref().err().unwrap_or(&0),
            *count.as_ref().unwrap_or(&0),
        );
        report.status(&format!("replace {map}"), replace(map, "x-test", "1"));
    }
}

pub(crate) fn replace_in_request(report: &mut Report) {
    report.status("replace", replace(REQUEST, "x-probe", "3"));
    values(REQUEST, "x-probe", report);
    report.status("replace again", replace(REQUEST, "X-Probe", "4"));
    values(REQUEST, "x-probe", report);
    report.status("replace by an empty value", replace(REQUEST, "x-probe", ""));
    values(REQUEST, "x-probe", report);
    let (key, length) = (address("x-probe"), 7);
    report.status(
        "replace, key nowhere",
        proxy_replace_header_map_value(REQUEST, NOWHERE, 32, key, length),
    );
    report.status(
        "replace, value nowhere",
        proxy_replace_header_map_value(REQUEST, key, length, NOWHERE, 32),
    );
}

pub(crate) fn in_response(report: &mut Report) {
    get(REQUEST, ":path", report);
    get(RESPONSE, ":status", report);
    get(RESPONSE, "x-behind", report);
    get(RESPONSE, "no-such-header", report);
    get(CALLOUT, "x-test", report);
    report.status("replace", replace(RESPONSE, "x-behind", "replaced"));
    report.status("replace in the request", replace(REQUEST, "x-added", "1"));
}

/// Puts a report into the response headers.
pub(crate) fn set_report(text: &str) {
    replace(RESPONSE, "x-report", &text.replace('\n', ", "));
}

/// Maps readable in a callback of a callout.
pub(crate) fn in_callout(report: &mut Report) {
    get(CALLOUT, ":status", report);
    get(CALLOUT, "x-peer", report);
    get(CALLOUT, "no-such-header", report);
    values(CALLOUT, "x-peer", report);
    report.status("replace 6", replace(CALLOUT, "x-test", "1"));
    get(REQUEST, ":method", report);
    get(RESPONSE, ":status", report);
}
