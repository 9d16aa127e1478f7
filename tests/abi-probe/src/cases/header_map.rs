//! The header map hostcalls.

use crate::abi::{
    NOWHERE, Out, address, pairs, proxy_add_header_map_value, proxy_get_header_map_pairs,
    proxy_get_header_map_size, proxy_get_header_map_value, proxy_remove_header_map_value,
    proxy_replace_header_map_value, proxy_set_header_map_pairs, read_pairs, size,
};
use crate::report::{Report, name};

const REQUEST: u32 = 0;
const RESPONSE: u32 = 2;

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

fn add(map: u32, key: &str, value: &str) -> u32 {
    let (key_size, value_size) = (size(key.as_bytes()), size(value.as_bytes()));
    proxy_add_header_map_value(map, address(key), key_size, address(value), value_size)
}

fn replace(map: u32, key: &str, value: &str) -> u32 {
    let (key_size, value_size) = (size(key.as_bytes()), size(value.as_bytes()));
    proxy_replace_header_map_value(map, address(key), key_size, address(value), value_size)
}

fn remove(map: u32, key: &str) -> u32 {
    proxy_remove_header_map_value(map, address(key), size(key.as_bytes()))
}

fn all(map: u32) -> Result<Vec<(String, String)>, u32> {
    let mut out = Out::new();
    match proxy_get_header_map_pairs(map, out.at(0), out.at(1)) {
        0 => Ok(read_pairs(&out.take())),
        status => Err(status),
    }
}

/// The values of one header, joined by a bar.
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

/// The path of the request.
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
    report.status("size nowhere", proxy_get_header_map_size(REQUEST, NOWHERE));
}

/// Every kind of map, in a phase in which most of them are absent.
pub(crate) fn types(report: &mut Report) {
    for map in 0..=9 {
        let mut out = Out::new();
        if map != REQUEST {
            get(map, "x-test", report);
            let count = all(map).map(|pairs| pairs.len() as u32);
            report.word(
                &format!("pairs {map}"),
                *count.as_ref().err().unwrap_or(&0),
                *count.as_ref().unwrap_or(&0),
            );
            report.status(&format!("add {map}"), add(map, "x-test", "1"));
            report.status(&format!("replace {map}"), replace(map, "x-test", "1"));
            report.status(&format!("remove {map}"), remove(map, "x-test"));
            let data = pairs(&[("a", "b")]);
            report.status(
                &format!("set pairs {map}"),
                proxy_set_header_map_pairs(map, address(&data[..]), size(&data)),
            );
        }
        report.status(
            &format!("size {map}"),
            proxy_get_header_map_size(map, out.at(0)),
        );
    }
}

pub(crate) fn write(report: &mut Report) {
    report.status("add", add(REQUEST, "x-probe", "1"));
    report.status("add again", add(REQUEST, "X-Probe", "2"));
    values(REQUEST, "x-probe", report);
    get(REQUEST, "x-probe", report);
    report.status("replace", replace(REQUEST, "x-probe", "3"));
    values(REQUEST, "x-probe", report);
    report.status("replace what is not there", replace(REQUEST, "x-new", "4"));
    values(REQUEST, "x-new", report);
    report.status("remove", remove(REQUEST, "x-probe"));
    values(REQUEST, "x-probe", report);
    report.status("remove what is not there", remove(REQUEST, "x-probe"));
    report.status("add an empty value", add(REQUEST, "x-empty-value", ""));
    get(REQUEST, "x-empty-value", report);

    let key = "x-probe";
    let (key, length) = (address(key), 7);
    report.status(
        "add, key nowhere",
        proxy_add_header_map_value(REQUEST, NOWHERE, 32, key, length),
    );
    report.status(
        "add, value nowhere",
        proxy_add_header_map_value(REQUEST, key, length, NOWHERE, 32),
    );
    report.status(
        "replace, value nowhere",
        proxy_replace_header_map_value(REQUEST, key, length, NOWHERE, 32),
    );
    report.status(
        "remove, key nowhere",
        proxy_remove_header_map_value(REQUEST, NOWHERE, 32),
    );
    set_pairs(report);
}

fn set_pairs(report: &mut Report) {
    let good = pairs(&[
        (":method", "GET"),
        (":path", "/set"),
        (":authority", "set"),
        ("x-set", "1"),
    ]);
    let mut set = |label: &str, data: &[u8]| {
        report.status(
            label,
            proxy_set_header_map_pairs(REQUEST, address(data), size(data)),
        );
        let names = all(REQUEST)
            .unwrap_or_default()
            .into_iter()
            .map(|(name, _)| name);
        report.text(
            &format!("{label}: names"),
            &names.collect::<Vec<_>>().join(","),
        );
    };
    set("set pairs", &good);
    set("set pairs, cut off", &good[..good.len() - 1]);
    set("set pairs again", &good);
    set("set pairs, with bytes behind", &[&good[..], b"x"].concat());
    set(
        "set pairs, too many for the bytes",
        &[2, 0, 0, 0, 1, 0, 0, 0],
    );
    set("set pairs, two bytes", &[0, 0]);
    set("set pairs, none", &pairs(&[]));
    report.status(
        "set pairs nowhere",
        proxy_set_header_map_pairs(REQUEST, NOWHERE, 32),
    );
}

pub(crate) fn in_response(report: &mut Report) {
    get(REQUEST, ":path", report);
    get(RESPONSE, ":status", report);
    get(RESPONSE, "x-behind", report);
    get(RESPONSE, "no-such-header", report);
    get(1, "x-test", report);
    get(3, "x-test", report);
    get(6, "x-test", report);
    report.status("add", add(RESPONSE, "x-added", "1"));
    report.status("replace", replace(RESPONSE, "x-behind", "replaced"));
    report.status("add to the request", add(REQUEST, "x-added", "1"));
}

/// What is left of the maps when the stream is over.
pub(crate) fn after_the_end(report: &mut Report) {
    get(REQUEST, ":method", report);
    get(RESPONSE, ":status", report);
    get(REQUEST, "no-such-header", report);
    get(1, "x-test", report);
    get(3, "x-test", report);
    get(6, "x-test", report);
}

/// Puts a report into the response headers.
pub(crate) fn add_report(text: &str) {
    add(RESPONSE, "x-report", &text.replace('\n', ", "));
}

/// What a callback of a callout can read.
pub(crate) fn in_callout(report: &mut Report) {
    get(6, ":status", report);
    get(6, "x-peer", report);
    get(6, "no-such-header", report);
    values(6, "x-peer", report);
    get(7, "x-trailer", report);
    values(7, "x-trailer", report);
    let mut out = Out::new();
    report.status("size 6", proxy_get_header_map_size(6, out.at(0)));
    report.status("add 6", add(6, "x-test", "1"));
    report.status("remove 6", remove(6, "x-peer"));
    get(REQUEST, ":method", report);
    get(RESPONSE, ":status", report);
    get(4, "x-test", report);
}

/// What a gRPC callback can read of a kind of metadata.
pub(crate) fn in_grpc(map: u32) -> String {
    let mut report = Report::new();
    get(map, "x-peer", &mut report);
    get(map, "no-such-header", &mut report);
    report.into_text().trim_end().replace('\n', ", ")
}
