//! Results of a case, as lines of `label=status`.

use crate::abi::Out;

/// Lines of `label=value`.
pub(crate) struct Report(String);

impl Report {
    /// An empty report.
    pub(crate) fn new() -> Self {
        Self(String::new())
    }

    /// Records the status returned by a hostcall.
    pub(crate) fn status(&mut self, label: &str, status: u32) {
        self.text(label, &name(status));
    }

    /// Records a status and, if it is Ok, the returned bytes.
    pub(crate) fn bytes(&mut self, label: &str, status: u32, out: &Out) {
        if status == 0 {
            self.text(
                label,
                &format!("Ok {:?}", String::from_utf8_lossy(&out.take())),
            );
        } else {
            self.status(label, status);
        }
    }

    /// Records a status and, if it is Ok, the returned word.
    pub(crate) fn word(&mut self, label: &str, status: u32, word: u32) {
        if status == 0 {
            self.text(label, &format!("Ok {word}"));
        } else {
            self.status(label, status);
        }
    }

    /// Records any value.
    pub(crate) fn text(&mut self, label: &str, value: &str) {
        self.0.push_str(&format!("{label}={value}\n"));
    }

    /// The lines.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// The name of a status.
pub(crate) fn name(status: u32) -> String {
    match status {
        0 => "Ok",
        1 => "NotFound",
        2 => "BadArgument",
        3 => "SerializationFailure",
        4 => "ParseFailure",
        5 => "BadExpression",
        6 => "InvalidMemoryAccess",
        7 => "Empty",
        8 => "CasMismatch",
        9 => "ResultMismatch",
        10 => "InternalFailure",
        11 => "BrokenConnection",
        12 => "Unimplemented",
        other => return format!("{other}"),
    }
    .to_owned()
}
