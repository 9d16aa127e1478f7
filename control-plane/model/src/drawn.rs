//! Extent of the numbers that issuers have drawn, known to the database, the feed and Redis.

/// Extent of drawn numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// No number at or above this was drawn.
    pub allocated: u64,
    /// Number of sequences that all issuers have drawn or skipped: no issuer has drawn more than this has grown.
    pub sum: u64,
    /// The value of the counter `numbers`, from which the source `counter` draws.
    pub counted: u64,
    /// The greatest bound in effect: numbers below it may be drawn.
    pub counts: u64,
}

impl Drawn {
    /// Merges another view: a restored database knows less than Redis or another process.
    pub fn join(&mut self, other: Self) {
        self.allocated = self.allocated.max(other.allocated);
        self.sum = self.sum.max(other.sum);
        self.counted = self.counted.max(other.counted);
        self.counts = self.counts.max(other.counts);
    }
}
