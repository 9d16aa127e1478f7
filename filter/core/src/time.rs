//! Points in time.

/// A moment on the machine's monotonic clock, in milliseconds since some point in the past.
///
/// All ages are measured by it, and it is read in every callback: it runs while the process is suspended, it never
/// jumps, and it is common to all workers of a proxy, so that they can share fetched records. Only the validity of
/// links, and the minutes that clicks are counted in, are wall-clock time ([`WallClock`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The moment that many milliseconds after the point in the past.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the point in the past.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The moment `millis` milliseconds earlier.
    #[must_use]
    pub const fn before(self, millis: u64) -> Self {
        Self(self.0.saturating_sub(millis))
    }

    /// The moment `millis` milliseconds later.
    #[must_use]
    pub const fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Whole seconds since the point in the past.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000
    }

    /// The milliseconds from this moment until `now`; 0 if it comes later.
    #[must_use]
    pub const fn age(self, now: Self) -> u64 {
        now.0.saturating_sub(self.0)
    }
}

/// The last reading of the wall clock. It is read once per tick; in between it is extrapolated by the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    read: Moment,
    unix_millis: u64,
}

impl WallClock {
    /// A wall clock that shows `unix_millis` at the moment `read`.
    #[must_use]
    pub const fn new(read: Moment, unix_millis: u64) -> Self {
        Self { read, unix_millis }
    }

    /// Moment of the reading.
    #[must_use]
    pub const fn read_at(&self) -> Moment {
        self.read
    }

    /// Unix time in seconds at `now`.
    #[must_use]
    pub const fn seconds(&self, now: Moment) -> u64 {
        self.unix_millis.saturating_add(self.read.age(now)) / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_when_between_readings_goes_on() {
        let wall = WallClock::new(Moment::from_millis(5_000), 1_767_225_600_900);
        assert_eq!(wall.seconds(Moment::from_millis(5_099)), 1_767_225_600);
        assert_eq!(wall.seconds(Moment::from_millis(5_100)), 1_767_225_601);
        assert_eq!(wall.seconds(Moment::from_millis(4_000)), 1_767_225_600);
    }

    #[test]
    fn moment_when_still_to_come_has_no_age() {
        assert_eq!(Moment::from_millis(8).age(Moment::from_millis(5)), 0);
        assert_eq!(Moment::from_millis(5).after(3).before(1).millis(), 7);
    }
}
