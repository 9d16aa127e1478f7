//! The table of creation: the drill run by `make throughput`, as it prints it.

use crate::options::Options;
use crate::report::Section;
use edgelink_tests::stack::root;
use std::process::Command;

/// Runs the drill.
pub(crate) fn run(options: &Options) -> Section {
    let seconds: u32 = options.size.pick(10, 1);
    let output = Command::new("make")
        .args(["--no-print-directory", "throughput"])
        .current_dir(root())
        .env("EDGELINK_TEST_DRILL_SECONDS", seconds.to_string())
        .output();
    let output = output.expect("make");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut section = Section::new("Creation");
    section.text(
        &"Printed by `make throughput`: links beside bare INSERTs of one row each, in one run and with the same durability.",
    );
    section.text(&format!("```\n{}\n```", report(&text)));
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let holds = output.status.success().into();
    section.claim(holds, "`make throughput` came to its end".to_owned());
    section
}

/// Output of the drill, without its rounds and the lines of the test harness.
fn report(text: &str) -> String {
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("running "));
    let lines = lines
        .skip(1)
        .take_while(|line| !line.starts_with("test result"));
    let is_figure = |line: &&str| !line.starts_with("round ") && !line.starts_with("test ");
    let lines: Vec<&str> = lines.filter(is_figure).collect();
    lines.join("\n").trim().to_owned()
}
