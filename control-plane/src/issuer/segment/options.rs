//! How segments are drawn and issuers leased.

use crate::store::ISSUERS;
use edgelink_wire::CodeLength;
use edgelink_wire::backoff::Bounds;
use std::fs;
use std::time::Duration;

/// How segments are drawn and issuers leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentOptions {
    /// The name of this instance, for people who look at the leases, at most 128 bytes. Unique: two instances with one
    /// name share an issuer, which is safe but keeps them from giving numbers back. Default host, process and chance.
    pub owner: String,
    /// The code length; numbers end with its codes. Default 7.
    pub length: CodeLength,
    /// How many sequences there are, if fewer than the code length has; for tests of the end.
    pub most_sequences: Option<u64>,
    /// How many numbers a segment has at least, and at first. Default 1,000.
    pub least_step: u32,
    /// How many it has at most. A killed process loses up to two segments. Default 100,000.
    pub most_step: u32,
    /// How long a lease lasts; it is renewed three times as often. An instance that was killed blocks its issuer for as
    /// long. Default 60 s.
    pub lease: Duration,
    /// How long a caller waits for a number when there is none. Default 1.5 s.
    pub patience: Duration,
    /// How long to wait between draws that fail. Default 50 ms up to 1 s.
    pub backoff: Bounds,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self {
            owner: unique_name(),
            length: CodeLength::DEFAULT,
            most_sequences: None,
            least_step: 1_000,
            most_step: 100_000,
            lease: Duration::from_mins(1),
            patience: Duration::from_millis(1500),
            backoff: Bounds {
                first_ms: 50,
                cap_ms: 1_000,
            },
        }
    }
}

impl SegmentOptions {
    /// The first sequence that no issuer may use.
    pub(super) fn limit(&self) -> u64 {
        let all = self.length.count() / u64::from(ISSUERS);
        self.most_sequences.map_or(all, |most| most.min(all))
    }
}

/// `host/process/chance`, within 128 bytes.
fn unique_name() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().take(64).collect();
    let chance = getrandom::u32().unwrap_or_default();
    format!("{host}/{}/{chance:08x}", std::process::id())
}
