//! Settings of the console.

use std::time::Duration;

edgelink_wire::settings! {
    snake_case;

    /// The console at `/console`.
    pub struct ConsoleConfig {
        /// How long a login lasts without a request.
        pub idle_minutes: u64 = 480, 1..=43_200;
        /// How long a login lasts at most.
        pub session_hours: u64 = 168, 1..=8_760;
        /// Logins of a user at once; the one that would end first gives way to another one.
        pub max_sessions: u32 = 20, 1..=1_000;
        /// Files of imports that are kept, each of up to `server.max_bulk_body_bytes`, with a report of about as much for each run. Beyond it one that was left alone for an hour gives way to a further one; where there is
        /// none, that is 503.
        pub max_imports: usize = 20, 1..=1_000;
        /// Those among them of one API key, or of a user who has logged in otherwise. The oldest with which nothing goes on gives way to
        /// a further one; where something goes on with all of them, that is 503.
        pub max_own_imports: usize = 5, 1..=1_000;
        /// Bytes that all these files, and the reports of their runs, take up in the folder for temporary files, those that are on
        /// their way included. Beyond it files give way as beyond `max_imports`; where there is none to, that is 503, and an import
        /// whose report has no room stops until it is asked to go on.
        pub max_import_bytes: u64 = 805_306_368, 1_048_576..=1_099_511_627_776;
    }
}

impl ConsoleConfig {
    /// Idle timeout of a login.
    #[must_use]
    pub fn idle(&self) -> Duration {
        Duration::from_mins(self.idle_minutes)
    }

    /// Longest duration of a login.
    #[must_use]
    pub fn total(&self) -> Duration {
        Duration::from_hours(self.session_hours)
    }
}
