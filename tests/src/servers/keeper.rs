//! Cleaning up behind a test process that ends without dropping anything: by `kill -9`, or because a server is shared
//! by all tests and lives in a static.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input, which comes when the test process ends however that happens. Then it kills the
/// servers whose process ids are in the folder's files `pid` and `*.pid`, and removes the folder.
const SCRIPT: &str = r#"cat >/dev/null
for file in "$1/pid" "$1"/*.pid; do [ -s "$file" ] && kill -KILL "$(cat "$file")" 2>/dev/null; done
rm -rf "$1""#;

/// A small process that outlives the test process for as long as cleaning up takes.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    /// Has `folder` removed at the end, and the servers killed that wrote their process ids into the file `pid`, or files that
    /// end so, there.
    pub(crate) fn of(folder: &Path) -> Self {
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
