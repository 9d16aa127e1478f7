//! Health of a worker, reported along with its clicks (`POST /edge/v1/clicks`, header [`HEADER`]).
//!
//! It is a header, and not part of the batches, because a control plane refuses batches that it cannot read, and their clicks
//! would be lost. An older control plane ignores the header, and older edges do not send it. The value consists of pairs
//! `name=value`, separated by semicolons:
//!
//! | name | value |
//! |---|---|
//! | `worker` | the worker, 32 hexadecimal digits in lower case |
//! | `feed-lag-ms` | milliseconds since the time up to which the feed was read; missing if none was |
//! | `admitting` | 1 if admission is in effect, else 0 |
//! | `lru`, `shared-data`, `admission`, `redis`, `control-plane`, `stale` | requests answered by the tier in the last 50 to 60
//! seconds |
//!
//! Numbers are decimal. A missing number is 0, and unknown names are skipped: a later version may add some.

use crate::clicks::WorkerId;
use crate::error::RecordError;
use std::fmt::Write;

/// The header of a report.
pub const HEADER: &str = "x-edgelink-health";

/// Milliseconds between two reports of a worker's health. A report is sent even without clicks.
pub const INTERVAL_MILLIS: u64 = 10_000;

/// Length of the window in which requests are counted, in milliseconds.
pub const WINDOW_MILLIS: u64 = 60_000;

/// The longest accepted value, in bytes.
pub const MAX_LENGTH: usize = 512;

/// Health of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerHealth {
    /// The worker.
    pub worker: WorkerId,
    /// Milliseconds since the time up to which the worker has applied every change of the feed; `None` if it has read none.
    pub feed_lag_millis: Option<u32>,
    /// True if admission is in effect.
    pub is_admitting: bool,
    /// The requests of the last minute.
    pub requests: RequestsByTier,
}

/// Number of requests answered by each tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestsByTier {
    /// The worker's own cache.
    pub lru: u32,
    /// The proxy's shared data.
    pub shared_data: u32,
    /// Admission, with 404: the code was never issued.
    pub admission: u32,
    /// Redis.
    pub redis: u32,
    /// The control plane, or no tier at all: 503.
    pub control_plane: u32,
    /// A cache, with a record that was no longer fresh.
    pub stale: u32,
}

type Number = fn(&mut RequestsByTier) -> &mut u32;

const TIERS: [(&str, Number); 6] = [
    ("lru", |requests| &mut requests.lru),
    ("shared-data", |requests| &mut requests.shared_data),
    ("admission", |requests| &mut requests.admission),
    ("redis", |requests| &mut requests.redis),
    ("control-plane", |requests| &mut requests.control_plane),
    ("stale", |requests| &mut requests.stale),
];

impl RequestsByTier {
    /// Adds other counts; sums saturate at `u32::MAX`.
    pub fn add(&mut self, mut others: Self) {
        for (_, number) in TIERS {
            let sum = number(self).saturating_add(*number(&mut others));
            *number(self) = sum;
        }
    }
}

impl WorkerHealth {
    /// The value of the header.
    #[must_use]
    pub fn to_header(&self) -> String {
        let mut header = String::from("worker=");
        // Writing to a String does not fail.
        for byte in self.worker {
            let _ = write!(header, "{byte:02x}");
        }
        if let Some(millis) = self.feed_lag_millis {
            let _ = write!(header, ";feed-lag-ms={millis}");
        }
        let _ = write!(header, ";admitting={}", u8::from(self.is_admitting));
        let mut requests = self.requests;
        for (name, number) in TIERS {
            let _ = write!(header, ";{name}={}", number(&mut requests));
        }
        header
    }

    /// Reads the value of the header.
    ///
    /// # Errors
    /// [`RecordError::Field`] names the first pair that is missing or malformed; `length` if the value is too long.
    pub fn parse(header: &[u8]) -> Result<Self, RecordError> {
        if header.len() > MAX_LENGTH {
            return Err(RecordError::Field("length"));
        }
        let text = std::str::from_utf8(header).map_err(|_| RecordError::Field("text"))?;
        let mut health = Self::default();
        let mut worker = None;
        for pair in text.split(';') {
            let (name, value) = pair.split_once('=').ok_or(RecordError::Field("pair"))?;
            match name {
                "worker" => worker = Some(read_worker(value)?),
                "feed-lag-ms" => {
                    health.feed_lag_millis = Some(read_number("feed-lag-ms", value)?);
                }
                "admitting" => health.is_admitting = read_number("admitting", value)? != 0,
                name => {
                    let mut tiers = TIERS.into_iter();
                    if let Some((name, number)) = tiers.find(|(tier, _)| *tier == name) {
                        *number(&mut health.requests) = read_number(name, value)?;
                    }
                }
            }
        }
        health.worker = worker.ok_or(RecordError::Field("worker"))?;
        Ok(health)
    }
}

fn read_number(name: &'static str, value: &str) -> Result<u32, RecordError> {
    let is_decimal = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_decimal);
    number.ok_or(RecordError::Field(name))
}

fn read_worker(value: &str) -> Result<WorkerId, RecordError> {
    let mut worker = WorkerId::default();
    let mut digits = value.bytes().map(|digit| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    });
    let mut next = || digits.next().flatten().ok_or(RecordError::Field("worker"));
    for byte in &mut worker {
        *byte = next()? << 4 | next()?;
    }
    match digits.next() {
        None => Ok(worker),
        Some(_) => Err(RecordError::Field("worker")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORKER: &str = "worker=000102030405060708090a0b0c0d0e0f";

    #[test]
    fn health_when_fields_are_missing_or_unknown_is_read() {
        let later = format!("cpu=0.7;{WORKER};redis=3;of-a-later-version=x");
        let health = WorkerHealth::parse(later.as_bytes()).unwrap();
        let expected = WorkerHealth {
            worker: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
            requests: RequestsByTier {
                redis: 3,
                ..RequestsByTier::default()
            },
            ..WorkerHealth::default()
        };
        assert_eq!(health, expected);
    }

    #[test]
    fn health_when_malformed_names_field() {
        let long = format!("{WORKER};{}=1", "x".repeat(MAX_LENGTH - WORKER.len() - 2));
        for (header, field) in [
            ("", "pair"),
            ("lru=1", "worker"),
            ("worker=00", "worker"),
            (&format!("{WORKER}0"), "worker"),
            (&WORKER.to_uppercase(), "worker"),
            (&WORKER.replace('a', "g"), "worker"),
            (&format!("{WORKER};lru"), "pair"),
            (&format!("{WORKER};lru=-1"), "lru"),
            (&format!("{WORKER};stale=+1"), "stale"),
            (&format!("{WORKER};redis=4294967296"), "redis"),
            (&format!("{WORKER};feed-lag-ms="), "feed-lag-ms"),
            (&format!("{WORKER};admitting=yes"), "admitting"),
            (&long, "length"),
        ] {
            let error = WorkerHealth::parse(header.as_bytes()).unwrap_err();
            assert_eq!(error, RecordError::Field(field), "{header}");
        }
        let longest = &long.as_bytes()[..MAX_LENGTH];
        assert!(WorkerHealth::parse(longest).is_ok());
        assert_eq!(
            WorkerHealth::parse(b"\xff"),
            Err(RecordError::Field("text"))
        );
    }

    #[test]
    fn health_when_at_maximum_fits_header_and_saturates() {
        let mut health = WorkerHealth {
            worker: [255; 16],
            feed_lag_millis: Some(u32::MAX),
            is_admitting: true,
            requests: RequestsByTier::default(),
        };
        for (_, number) in TIERS {
            *number(&mut health.requests) = u32::MAX;
        }
        let requests = health.requests;
        health.requests.add(requests);
        assert_eq!(health.requests, requests);
        assert!(health.to_header().len() <= MAX_LENGTH);
    }

    proptest! {
        #[test]
        fn health_when_written_and_parsed_is_equal(
            worker in any::<WorkerId>(),
            feed_lag_millis in any::<Option<u32>>(),
            is_admitting in any::<bool>(),
            numbers in any::<[u32; 6]>(),
        ) {
            let mut health = WorkerHealth { worker, feed_lag_millis, is_admitting, ..WorkerHealth::default() };
            for ((_, number), value) in TIERS.into_iter().zip(numbers) {
                *number(&mut health.requests) = value;
            }
            prop_assert_eq!(WorkerHealth::parse(health.to_header().as_bytes()), Ok(health));
        }

        #[test]
        fn health_when_bytes_are_arbitrary_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = WorkerHealth::parse(&bytes);
            let _ = WorkerHealth::parse(&[WORKER.as_bytes(), b";", &bytes].concat());
        }
    }
}
