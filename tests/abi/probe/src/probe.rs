//! State of the module between callbacks.

use std::cell::RefCell;
use std::collections::HashMap;

/// Pending task of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// Report the callback of the callout or gRPC stream as a local response.
    Report,
    /// Run that case when the response headers arrive.
    Response(String),
    /// Nothing more.
    Idle,
    /// Nothing more, and callbacks of this stream stay out of the journal: it is the stream that reads the journal.
    Silent,
}

/// The state of this VM.
#[derive(Default)]
pub(crate) struct Probe {
    journal: Vec<String>,
    tasks: HashMap<u32, Task>,
    callouts: HashMap<u32, u32>,
    root: u32,
    last_stream: u32,
}

thread_local! {
    static PROBE: RefCell<Probe> = RefCell::default();
}

fn with<R>(f: impl FnOnce(&mut Probe) -> R) -> R {
    PROBE.with_borrow_mut(f)
}

/// Records a callback.
pub(crate) fn note(line: impl Into<String>) {
    with(|probe| probe.journal.push(line.into()));
}

/// Records a callback of a stream.
pub(crate) fn note_of(stream: u32, line: impl Into<String>) {
    if !matches!(task(stream), Task::Silent) {
        note(line);
    }
}

/// Takes the callbacks recorded since the last call.
pub(crate) fn take_journal() -> String {
    with(|probe| std::mem::take(&mut probe.journal).join("\n"))
}

/// Records the creation of a context; `root` is 0 for a root context.
pub(crate) fn created(context: u32, root: u32) {
    with(|probe| match root {
        0 => probe.root = context,
        _ => probe.last_stream = context,
    });
}

/// The root context of this VM.
pub(crate) fn root() -> u32 {
    with(|probe| probe.root)
}

/// The stream created last.
pub(crate) fn last_stream() -> u32 {
    with(|probe| probe.last_stream)
}

/// Sets the task of a stream.
pub(crate) fn assign(stream: u32, task: Task) {
    with(|probe| probe.tasks.insert(stream, task));
}

/// Task of a stream.
pub(crate) fn task(stream: u32) -> Task {
    with(|probe| probe.tasks.get(&stream).cloned()).unwrap_or(Task::Idle)
}

/// Records the stream that a callout or gRPC stream was made for.
pub(crate) fn dispatched(token: u32, stream: u32) {
    with(|probe| probe.callouts.insert(token, stream));
}

/// Stream that a callout or gRPC stream was made for.
pub(crate) fn caller(token: u32) -> Option<u32> {
    with(|probe| probe.callouts.get(&token).copied())
}
