//! The machine that the figures were measured on.

use edgelink_tests::stack::root;
use std::path::PathBuf;
use std::process::Command;

/// The head of the report.
pub(crate) fn headline() -> String {
    let envoy = output(&root().join("envoy/find.sh"), &[]);
    let versions = [
        // The output begins with the path of Envoy, which is irrelevant.
        output(&PathBuf::from(envoy.trim()), &["--version"]).replace(envoy.trim(), "envoy"),
        output(&"nginx".into(), &["-v"]),
        output(&"redis-server".into(), &["--version"]),
        output(&"mariadbd".into(), &["--version"]),
        output(&"wrk".into(), &["-v"]),
        output(&root().join(".edgelink/oha/bin/oha"), &["--version"]),
        output(&"rustc".into(), &["--version"]),
    ];
    let versions = versions.iter().filter_map(|text| {
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        Some(format!("- {}", line.trim()))
    });
    let versions: Vec<String> = versions.collect();
    format!(
        "# What `make bench` has measured\n\n\
         Written by `make bench`; not to be edited. Date: {date}, commit {commit}.\n\n\
         - {processors} x {model}, {memory}, {kernel}\n{versions}\n\n\
         Servers that are measured run on the first processor, with one worker; load, Redis, databases and control planes on\n\
         the others. Targets take turns, so that what else the machine does hits all of them alike. Goals are aimed at and\n\
         not enforced; what \"holds\" is enforced.\n",
        date = output(&"date".into(), &["-u", "+%Y-%m-%d %H:%M UTC"]).trim(),
        commit = output(&"git".into(), &["describe", "--always", "--dirty"]).trim(),
        processors = std::thread::available_parallelism().map_or(1, usize::from),
        model = field("/proc/cpuinfo", "model name"),
        memory = field("/proc/meminfo", "MemTotal"),
        kernel = output(&"uname".into(), &["-sr"]).trim(),
        versions = versions.join("\n"),
    )
}

/// Output of a program; empty if it is not installed.
fn output(program: &PathBuf, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output();
    output.map_or(String::new(), |output| {
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    })
}

fn field(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or(String::new(), |(_, value)| value.trim().to_owned())
}
