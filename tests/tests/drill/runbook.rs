//! The runbook, `envoy/deploy/operations.md`: its steps, run as they stand there.

use edgelink_tests::stack::{edgelink_binary, root};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The page with the commands.
pub(crate) struct Runbook {
    text: String,
    variables: Vec<(String, String)>,
}

impl Runbook {
    /// With these environment variables, and the `edgelink` that is drilled in `PATH`.
    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        let text = fs::read_to_string(root().join("envoy/deploy/operations.md"));
        let binary = edgelink_binary();
        let folder = binary.parent().expect("a folder").display();
        let path = std::env::var("PATH").expect("a path");
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut variables: Vec<_> = variables.iter().map(own).collect();
        variables.push(("PATH".to_owned(), format!("{folder}:{path}")));
        Self {
            text: text.expect("the runbook"),
            variables,
        }
    }

    /// Runs the commands of a step, which must succeed; what they print.
    pub(crate) fn run(&self, step: &str) -> String {
        let output = Command::new("bash")
            .args(["-e", "-c", self.commands(step)])
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null())
            .output()
            .expect("bash");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{step}: {text}{errors}");
        text
    }

    fn commands(&self, step: &str) -> &str {
        let (_, rest) = self
            .text
            .split_once(&format!("<!-- step: {step} -->\n```sh\n"))
            .unwrap_or_else(|| panic!("the runbook has no step '{step}'"));
        rest.split_once("```").expect("an end of the block").0
    }
}

/// Has the clients of MariaDB that get `HOME=folder` go to that port as root.
pub(crate) fn write_client_settings(folder: &Path, port: u16) {
    let text = format!("[client]\nhost=127.0.0.1\nport={port}\nuser=root\n");
    fs::write(folder.join(".my.cnf"), text).expect("a file");
}
