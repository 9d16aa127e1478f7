use super::*;
use crate::source::assert_unique;
use edgelink_wire::CodeLength;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::time::Instant;

const START: u64 = EPOCH_MILLIS + 1_000_000;

/// A clock that advances only by waits.
#[derive(Clone)]
struct Hand {
    ahead: Arc<AtomicU64>,
    start: Instant,
}

impl Hand {
    fn at(millis: u64) -> Self {
        Self {
            ahead: Arc::new(AtomicU64::new(millis)),
            start: Instant::now(),
        }
    }

    fn set(&self, millis: u64) {
        let ahead = millis - self.waited();
        self.ahead.store(ahead, Ordering::SeqCst);
    }

    fn unix_millis(&self) -> u64 {
        self.ahead.load(Ordering::SeqCst) + self.waited()
    }

    fn waited(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn clock(&self) -> Clock {
        let hand = self.clone();
        Box::new(move || hand.unix_millis())
    }
}

/// Workers and the ends of their reserved time, like the store's table.
#[derive(Default)]
struct Table {
    until: Mutex<Vec<u64>>,
    fails: AtomicBool,
}

#[async_trait]
impl Reservations for Arc<Table> {
    async fn reserve(
        &self,
        held: Option<Reservation>,
        now: u64,
    ) -> Result<Reservation, IssueError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(IssueError::transient("table", "away"));
        }
        let mut until = self.until.lock().unwrap();
        let held = held.map(|held| (usize::from(held.worker), held.time.end));
        let worker = match held {
            Some((worker, end)) if until[worker] == end => worker,
            _ => until
                .iter()
                .position(|until| *until < now)
                .unwrap_or_else(|| {
                    until.push(now);
                    until.len() - 1
                }),
        };
        let start = until[worker];
        let end = start.max(now) + RESERVED_MILLIS;
        until[worker] = end;
        let worker = worker as u16;
        Ok(Reservation {
            worker,
            time: start..end,
        })
    }

    async fn release(&self, rest: Reservation) {
        let mut until = self.until.lock().unwrap();
        let worker = usize::from(rest.worker);
        if until[worker] == rest.time.end {
            until[worker] = rest.time.start;
        }
    }
}

fn issuer(clock: &Hand, table: &Arc<Table>) -> Snowflake<Arc<Table>> {
    Snowflake::new(clock.clock(), Arc::clone(table))
}

fn parts(number: u64) -> (u64, u64, u64) {
    let worker = number >> SEQUENCE_BITS & ((1 << WORKER_BITS) - 1);
    (number >> 18, worker, number & (SEQUENCES - 1))
}

#[tokio::test(start_paused = true)]
async fn snowflake_number_when_issued_holds_time_worker_sequence() {
    let clock = Hand::at(START);
    let issuer = issuer(&clock, &Arc::default());
    assert_eq!(
        parts(issuer.next_number().await.unwrap()),
        (1_000_000, 0, 0)
    );
    assert_eq!(
        parts(issuer.next_number().await.unwrap()),
        (1_000_000, 0, 1)
    );
    clock.set(START + 7);
    assert_eq!(
        parts(issuer.next_number().await.unwrap()),
        (1_000_007, 0, 0)
    );
}

#[test]
fn snowflake_number_when_largest_fits_ten_digit_codes_only() {
    let last = number(EPOCH_MILLIS + (1 << 41) - 1, 1023, SEQUENCES - 1).unwrap();
    assert_eq!(last, (1 << 59) - 1);
    assert!(last < CodeLength::new(SNOWFLAKE_CODE_LENGTH).unwrap().count());
    assert!(last >= CodeLength::new(SNOWFLAKE_CODE_LENGTH - 1).unwrap().count());
    let error = number(EPOCH_MILLIS + (1 << 41), 0, 0).unwrap_err();
    assert!(matches!(error, IssueError::Exhausted { length: 10 }));
}

#[tokio::test(start_paused = true)]
async fn snowflake_when_a_millisecond_is_used_up_waits_it_out() {
    let clock = Hand::at(START);
    let issuer = issuer(&clock, &Arc::default());
    let mut seen = HashSet::new();
    for _ in 0..SEQUENCES + 1 {
        assert!(seen.insert(issuer.next_number().await.unwrap()));
    }
    assert_eq!(clock.unix_millis(), START + 1);
}

#[tokio::test(start_paused = true)]
async fn clock_when_back_by_five_millis_is_waited_for() {
    let clock = Hand::at(START);
    let issuer = issuer(&clock, &Arc::default());
    let before = issuer.next_number().await.unwrap();
    clock.set(START - TOLERATED_MILLIS);
    let after = issuer.next_number().await.unwrap();
    assert!(after > before);
    assert_eq!(clock.unix_millis(), START);
}

#[tokio::test(start_paused = true)]
async fn clock_when_back_further_fails_until_caught_up() {
    let clock = Hand::at(START);
    let issuer = issuer(&clock, &Arc::default());
    let before = issuer.next_number().await.unwrap();
    clock.set(START - TOLERATED_MILLIS - 1);
    let error = issuer.next_number().await.unwrap_err();
    assert!(matches!(error, IssueError::ClockWentBack { by_millis: 6 }));
    assert!(error.is_transient());
    clock.set(START);
    assert!(issuer.next_number().await.unwrap() > before);
}

#[tokio::test(start_paused = true)]
async fn clock_when_before_the_epoch_is_an_error() {
    let clock = Hand::at(EPOCH_MILLIS - 10);
    let error = issuer(&clock, &Arc::default())
        .next_number()
        .await
        .unwrap_err();
    assert!(matches!(error, IssueError::ClockWentBack { by_millis: 10 }));
}

#[tokio::test(start_paused = true)]
async fn worker_when_instances_are_two_differs() {
    let clock = Hand::at(START);
    let table = Arc::default();
    let (one, two) = (issuer(&clock, &table), issuer(&clock, &table));
    let (_, first, _) = parts(one.next_number().await.unwrap());
    let (_, second, _) = parts(two.next_number().await.unwrap());
    assert_ne!(first, second);
}

/// A paused instance continues with its own milliseconds; the next holder of its worker has others.
#[tokio::test(start_paused = true)]
async fn snowflake_when_resumed_after_its_lapse_never_repeats() {
    let clock = Hand::at(START);
    let table = Arc::default();
    let stopped = issuer(&clock, &table);
    stopped.next_number().await.unwrap();
    clock.set(START + RESERVED_MILLIS + 1);
    let successor = issuer(&clock, &table);
    let mut seen = HashSet::new();
    for _ in 0..50 {
        assert!(seen.insert(successor.next_number().await.unwrap()));
    }
    for _ in 0..50 {
        assert!(seen.insert(stopped.next_number().await.unwrap()));
    }
    let workers: HashSet<u64> = seen.into_iter().map(|number| parts(number).1).collect();
    assert_eq!(
        workers.len(),
        2,
        "the stopped one has looked for another worker"
    );
}

#[tokio::test(start_paused = true)]
async fn shutdown_when_time_is_unused_gives_it_back() {
    let clock = Hand::at(START);
    let table: Arc<Table> = Arc::default();
    let issuer = issuer(&clock, &table);
    issuer.next_number().await.unwrap();
    issuer.shutdown().await;
    assert_eq!(*table.until.lock().unwrap(), [START + 1]);
}

#[tokio::test(start_paused = true)]
async fn reservation_when_ahead_of_the_clock_fails_until_reached() {
    struct Ahead;
    #[async_trait]
    impl Reservations for Ahead {
        async fn reserve(
            &self,
            _: Option<Reservation>,
            now: u64,
        ) -> Result<Reservation, IssueError> {
            let start = (START + 3_000).max(now);
            let time = start..start + RESERVED_MILLIS;
            Ok(Reservation { worker: 1, time })
        }
        async fn release(&self, _: Reservation) {}
    }
    let clock = Hand::at(START);
    let issuer = Snowflake::new(clock.clock(), Ahead);
    let error = issuer.next_number().await.unwrap_err();
    assert!(matches!(
        error,
        IssueError::ClockWentBack { by_millis: 3_000 }
    ));
    clock.set(START + 3_000);
    issuer.next_number().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn snowflake_when_store_is_away_issues_for_reserved_time() {
    let clock = Hand::at(START);
    let table: Arc<Table> = Arc::default();
    let issuer = issuer(&clock, &table);
    issuer.next_number().await.unwrap();
    table.fails.store(true, Ordering::SeqCst);
    clock.set(START + RESERVED_MILLIS - 1);
    issuer.next_number().await.unwrap();
    clock.set(START + RESERVED_MILLIS);
    assert!(issuer.next_number().await.unwrap_err().is_transient());
    table.fails.store(false, Ordering::SeqCst);
    issuer.next_number().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn snowflake_when_shut_down_issues_no_number() {
    let clock = Hand::at(START);
    let issuer = issuer(&clock, &Arc::default());
    issuer.shutdown().await;
    assert!(matches!(
        issuer.next_number().await.unwrap_err(),
        IssueError::Closed
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn snowflake_number_when_callers_are_concurrent_is_unique() {
    let table: Arc<Table> = Arc::default();
    let issuer = Arc::new(Snowflake::new(Box::new(unix_millis), table));
    assert_unique(&issuer, 1000).await;
}
