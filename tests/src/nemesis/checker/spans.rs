//! The values that a code may have had, and when.

use super::super::history::{Ask, Micros, OperationOutcome, Value, View};
use super::{Operation, Restore};

#[derive(Clone, Copy, Debug)]
struct Span {
    value: Value,
    from: Micros,
    to: Micros,
    /// Time when its write was answered, or is known to have no lasting effect.
    settled: Micros,
}

/// An observed value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen(pub(super) Value, pub(super) View);

impl Seen {
    fn is_of(self, value: Value) -> bool {
        self.1.of(value) == self.0
    }
}

/// The values of one code.
#[derive(Debug)]
pub(super) struct Spans {
    spans: Vec<Span>,
    changes: Vec<Micros>,
    twice: Vec<(Micros, Micros)>,
    /// Set once a creation was acknowledged.
    is_given: bool,
}

enum Mark<'a> {
    Invoked(&'a Operation),
    Completed(&'a Operation),
    Restored(Restore),
}

impl Spans {
    /// Derives them from the operations of one code and the restores of the database, which affect all codes.
    pub(super) fn of(operations: &[&Operation], restores: &[Restore]) -> Self {
        let mut spans = Self {
            spans: vec![Span {
                value: Value::Absent,
                from: 0,
                to: Micros::MAX,
                settled: 0,
            }],
            changes: Vec::new(),
            twice: Vec::new(),
            is_given: false,
        };
        let mut marks = Vec::new();
        for &operation in operations {
            if let Ask::Write { .. } = operation.ask {
                marks.push((operation.invoked, Mark::Invoked(operation)));
                if let Some((at, _)) = operation.end {
                    marks.push((at, Mark::Completed(operation)));
                }
            }
        }
        let restored = |&restore: &Restore| (restore.restored.1, Mark::Restored(restore));
        marks.extend(restores.iter().map(restored));
        marks.sort_by_key(|(at, _)| *at);
        for (at, mark) in marks {
            match mark {
                Mark::Invoked(operation) => spans.invoke(operation),
                Mark::Completed(operation) => spans.complete(operation, at, restores),
                Mark::Restored(restore) => spans.restore(restore),
            }
        }
        spans
    }

    fn invoke(&mut self, operation: &Operation) {
        let Ask::Write { value, .. } = operation.ask else {
            return;
        };
        // The requested value may have been there while a restored database showed another one.
        let values = operation.asked.into_iter().chain([value]);
        self.spans.extend(values.map(|value| Span {
            value,
            from: operation.invoked,
            to: Micros::MAX,
            settled: operation.end.as_ref().map_or(Micros::MAX, |(at, _)| *at),
        }));
    }

    fn complete(&mut self, operation: &Operation, at: Micros, restores: &[Restore]) {
        let Ask::Write { kind, value, code } = &operation.ask else {
            return;
        };
        let Some((_, OperationOutcome::Done { since, .. } | OperationOutcome::Undone { since })) =
            operation.end
        else {
            return;
        };
        let invoked = operation.invoked;
        let is_own = |span: &Span| span.from == invoked && span.value == *value;
        let is_ambiguous = restores
            .iter()
            .any(|restore| since < restore.restored.1 && at > restore.restored.0);
        let is_done = matches!(operation.end, Some((_, OperationOutcome::Done { .. })));
        let gives = match kind.as_str() {
            "create" => is_done,
            // Without an answer, the observed link may be one that a restored database brought back.
            "move here" | "restore" => operation.is_answered(),
            _ => false,
        };
        if gives {
            let was_free = self
                .spans
                .iter()
                .any(|span| span.value == Value::Absent && span.to >= invoked);
            // A number is assigned once, even if its link was deleted since.
            let was_given = code.is_none() && self.is_given;
            self.is_given = true;
            if !was_free || was_given {
                self.twice.push((invoked, at));
            }
        }
        if is_ambiguous {
            return;
        }
        for span in &mut self.spans {
            if span.to == Micros::MAX && is_own(span) != is_done {
                span.to = at;
            }
        }
        if is_done {
            self.changes.push(at);
        }
    }

    /// Revives the values possible when the database was copied, and ends those written since then and answered before
    /// the database was stopped. Writes in progress meanwhile may have come before or after.
    fn restore(&mut self, restore: Restore) {
        let ((copied_from, copied_to), (from, to)) = (restore.copied, restore.restored);
        let was_copied = |span: &&Span| span.from <= copied_to && span.to >= copied_from;
        let mut revived: Vec<Span> = self.spans.iter().filter(was_copied).copied().collect();
        for span in &mut revived {
            (span.from, span.to, span.settled) = (from, Micros::MAX, from);
        }
        for span in &mut self.spans {
            if span.to == Micros::MAX && span.settled <= from {
                span.to = to;
            }
        }
        self.spans.append(&mut revived);
    }

    /// True if the code may have looked like that at some moment from `from` to `to`.
    pub(super) fn is_possible(&self, seen: Seen, from: Micros, to: Micros) -> bool {
        self.spans
            .iter()
            .any(|span| seen.is_of(span.value) && span.from <= to && span.to >= from)
    }

    /// True if the code may have looked like that at some moment up to `to`.
    pub(super) fn was_possible(&self, seen: Seen, to: Micros) -> bool {
        self.is_possible(seen, 0, to)
    }

    /// Time at which the code last ceased to look like that, before `before`.
    pub(super) fn last_end(&self, seen: Seen, before: Micros) -> Option<Micros> {
        let ends = self.spans.iter().filter(|span| seen.is_of(span.value));
        ends.map(|span| span.to).filter(|&to| to <= before).max()
    }

    /// Times at which writes were acknowledged.
    pub(super) fn changes(&self) -> impl Iterator<Item = Micros> {
        self.changes.iter().copied()
    }

    /// Creations of codes that already existed.
    pub(super) fn twice(&self) -> &[(Micros, Micros)] {
        &self.twice
    }

    /// Describes the possible values when an observed value was wrong at `at`.
    pub(super) fn excuse(&self, seen: Seen, at: Micros) -> String {
        let possible: Vec<String> = self
            .spans
            .iter()
            .filter(|span| span.from <= at && span.to >= at)
            .map(|span| format!("{:?}", span.value))
            .collect();
        let right = possible.join(" or ");
        match self.last_end(seen, at) {
            Some(end) => {
                let seconds = (at - end) as f64 / 1e6;
                format!(
                    "it had ceased to be so {seconds:.3} s before it was asked; right is {right}"
                )
            }
            None => format!("it never was so; right is {right}"),
        }
    }
}
