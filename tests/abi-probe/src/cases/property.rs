//! proxy_get_property, proxy_set_property.

use crate::abi::{NOWHERE, Out, address, proxy_get_property, proxy_set_property, size};
use crate::report::Report;

fn get(path: &[u8], report: &mut Report) {
    let mut out = Out::new();
    let status = proxy_get_property(address(path), size(path), out.at(0), out.at(1));
    let label = format!("get {}", String::from_utf8_lossy(path).replace('\0', "."));
    report.bytes(&label, status, &out);
}

fn set(path: &[u8], value: &[u8], report: &mut Report) {
    let status = proxy_set_property(address(path), size(path), address(value), size(value));
    let label = format!("set {}", String::from_utf8_lossy(path).replace('\0', "."));
    report.status(&label, status);
}

pub(crate) fn run(report: &mut Report) {
    for path in [
        &b""[..],
        b"no-such-property",
        b"no-such\0property",
        b"plugin_name",
        b"plugin_root_id",
        b"plugin_vm_id",
        b"request",
        b"request\0no-such-field",
        b"request\0path",
        b"request\0url_path",
        b"request\0method",
        b"request\0host",
        b"request\0headers\0x-test",
        b"request\0headers\0no-such-header",
        b"request\0path\0too-deep",
        b"response\0code",
        b"response\0headers\0x-test",
    ] {
        // The value of a whole message is long and of no interest.
        if path != b"request" {
            get(path, report);
        }
    }
    set(b"own", b"value", report);
    get(b"own", report);
    set(b"own", b"other", report);
    get(b"own", report);
    set(b"own\0deep", b"value", report);
    get(b"own\0deep", report);
    set(b"", b"value", report);

    let mut out = Out::new();
    let name = b"plugin_name";
    let (path, length) = (address(&name[..]), size(name));
    report.status(
        "get, path nowhere",
        proxy_get_property(NOWHERE, 32, out.at(0), out.at(1)),
    );
    report.status(
        "get, value nowhere",
        proxy_get_property(path, length, NOWHERE, out.at(1)),
    );
    report.status(
        "get, size nowhere",
        proxy_get_property(path, length, out.at(0), NOWHERE),
    );
    report.status(
        "set, path nowhere",
        proxy_set_property(NOWHERE, 32, path, length),
    );
    report.status(
        "set, value nowhere",
        proxy_set_property(path, length, NOWHERE, 32),
    );
}
