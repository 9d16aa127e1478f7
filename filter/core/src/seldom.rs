//! Log lines that would come with every request, held down to one in a while.

/// Milliseconds between two lines of a kind.
const INTERVAL: u64 = 10_000;

/// When the next line of a kind may be written.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    next: u64,
}

impl Seldom {
    /// Whether a line may be written now, by the steady clock in milliseconds. If so, the next one may not for a while.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now.saturating_add(INTERVAL);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_a_while_is_due() {
        let mut seldom = Seldom::default();
        assert!(seldom.is_due(5));
        assert!(!seldom.is_due(INTERVAL + 4));
        assert!(seldom.is_due(INTERVAL + 5));
    }
}
