//! Cleaning up behind a test process that ends without dropping anything: by `kill -9`, or because a server is shared
//! by all tests and lives in a static.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input, which comes when the test process ends however that happens. Then it kills the
/// server whose process id is in the folder's file `pid`, and removes the folder.
const SCRIPT: &str = r#"cat >/dev/null
if [ -s "$1/pid" ]; then kill -KILL "$(cat "$1/pid")" 2>/dev/null; fi
rm -rf "$1""#;

/// A small process that outlives the test process for as long as cleaning up takes.
#[derive(Debug)]
pub(super) struct Keeper(Child);

impl Keeper {
    /// Has `folder` removed at the end, and the server killed that wrote its process id into the file `pid` there.
    pub(super) fn of(folder: &Path) -> Self {
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "keeper"])
            .arg(folder)
            // Ctrl-C goes to the group of the tests, and the keeper has to outlive it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a shell"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
