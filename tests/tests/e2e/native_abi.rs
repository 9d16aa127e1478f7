//! What the native module needs of Envoy and of the system, and what Envoy needs of it.

use edgelink_tests::stack::{envoy_binary, native_module};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What Envoy refuses a module without.
const HOOKS: [&str; 21] = [
    "program_init",
    "http_filter_config_new",
    "http_filter_config_destroy",
    "http_filter_new",
    "http_filter_destroy",
    "http_filter_request_headers",
    "http_filter_request_body",
    "http_filter_request_trailers",
    "http_filter_response_headers",
    "http_filter_response_body",
    "http_filter_response_trailers",
    "http_filter_stream_complete",
    "http_filter_http_callout_done",
    "http_filter_http_stream_headers",
    "http_filter_http_stream_data",
    "http_filter_http_stream_trailers",
    "http_filter_http_stream_complete",
    "http_filter_http_stream_reset",
    "http_filter_scheduled",
    "http_filter_downstream_above_write_buffer_high_watermark",
    "http_filter_downstream_below_write_buffer_low_watermark",
];

/// The newest glibc that the module may need: RHEL 9 has it, and Debian 12 and Ubuntu 22.04 have a newer one.
const GLIBC: &str = "2.34";
/// The newest glibc that a portable module (`make native-portable`, where `EDGELINK_TEST_PORTABLE` is set) may need.
const PORTABLE_GLIBC: &str = "2.28";

fn is_portable() -> bool {
    std::env::var_os("EDGELINK_TEST_PORTABLE").is_some()
}

/// What a program of binutils says of a file.
fn ask(program: &str, argument: &str, file: &Path) -> String {
    let output = Command::new(program).arg(argument).arg(file).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The dynamic symbols of a file that it has itself, or that it needs, with their versions.
fn symbols(file: &Path, is_own: bool) -> BTreeSet<String> {
    let text = ask("nm", "-D", file);
    let fields = text.lines().map(|line| line.split_whitespace().rev());
    let symbols = fields.filter_map(|mut fields| {
        let (name, kind) = (fields.next()?, fields.next()?);
        (matches!(kind, "T" | "W" | "D" | "B" | "V") == is_own).then(|| name.to_owned())
    });
    symbols.collect()
}

/// The shared libraries that a file needs.
fn libraries(file: &Path) -> BTreeSet<String> {
    let text = ask("readelf", "-d", file);
    let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
    let names = needed.filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']')));
    names.map(str::to_owned).collect()
}

#[test]
fn callback_when_called_by_the_module_exists_in_envoy() {
    let callbacks = symbols(&native_module(), false);
    let callbacks: BTreeSet<_> = callbacks
        .into_iter()
        .filter(|name| name.starts_with("envoy_"))
        .collect();
    assert!(callbacks.len() > 5, "{callbacks:?}");
    let exported = symbols(&envoy_binary(), true);
    let missing: Vec<_> = callbacks.difference(&exported).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn module_when_loaded_exports_exactly_the_hooks() {
    let own = symbols(&native_module(), true);
    for hook in HOOKS {
        let name = format!("envoy_dynamic_module_on_{hook}");
        assert!(own.contains(&name), "{name}");
    }
    // Another name could be taken for one of Envoy's.
    let others: Vec<_> = own
        .iter()
        .filter(|name| !name.starts_with("envoy_dynamic_module_on_"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

/// A version such as 2.34, to compare.
fn parts(version: &str) -> Vec<u32> {
    let parts = version.split('.').map(|part| part.parse().expect(version));
    parts.collect()
}

#[test]
fn module_when_glibc_is_old_loads() {
    let limit = if is_portable() { PORTABLE_GLIBC } else { GLIBC };
    let needed = symbols(&native_module(), false);
    let versions = needed
        .iter()
        .filter_map(|name| name.split_once("@GLIBC_"))
        .map(|(_, version)| parts(version));
    let newest = versions.max().expect("symbols of glibc");
    println!("it needs glibc {newest:?}");
    assert!(newest <= parts(limit), "{newest:?}: {needed:#?}");
}

/// The images of Envoy without a system have nothing else.
#[test]
fn module_when_loaded_needs_no_more_libraries_than_envoy() {
    let of_envoy = libraries(&envoy_binary());
    assert!(of_envoy.contains("libc.so.6"), "{of_envoy:?}");
    let mut more: Vec<_> = libraries(&native_module())
        .into_iter()
        .filter(|name| !of_envoy.contains(name))
        .collect();
    println!("beside Envoy's it needs {more:?}");
    if !is_portable() {
        more.retain(|name| name != "libgcc_s.so.1"); // It unwinds by that of the system.
    }
    assert!(more.is_empty(), "{more:?}");
}
