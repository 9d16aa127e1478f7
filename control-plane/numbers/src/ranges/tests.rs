use super::*;
use crate::source::assert_unique;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Ranges in memory, which can fail or hang.
struct Memory {
    size: u64,
    next: AtomicU64,
    draws: AtomicU64,
    skipped_in: AtomicU64,
    /// Set to skip numbers during the next draw.
    skips: AtomicBool,
    fails: AtomicBool,
    fails_for_good: AtomicBool,
    hangs: AtomicBool,
    released: AtomicBool,
}

#[async_trait]
impl RangeSource for Arc<Memory> {
    fn skipped_in(&self) -> u64 {
        self.skipped_in.load(Ordering::SeqCst)
    }

    async fn draw(&self) -> Result<NumberRange, IssueError> {
        self.draws.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.fails.load(Ordering::SeqCst) {
            return Err(IssueError::transient("memory", "away"));
        }
        if self.fails_for_good.load(Ordering::SeqCst) {
            return Err(IssueError::Exhausted { length: 7 });
        }
        let start = self.next.fetch_add(self.size, Ordering::SeqCst);
        if self.skips.swap(false, Ordering::SeqCst) {
            self.skip();
        }
        Ok(NumberRange::consecutive(start, start + self.size))
    }

    async fn give_back(&self, rest: NumberRange) -> Result<bool, IssueError> {
        assert!(!self.released.load(Ordering::SeqCst));
        let back =
            self.next
                .compare_exchange(rest.end, rest.start, Ordering::SeqCst, Ordering::SeqCst);
        Ok(back.is_ok())
    }

    async fn release(&self) {
        self.released.store(true, Ordering::SeqCst);
    }
}

impl Memory {
    fn skip(&self) {
        self.next.store(1_000_000, Ordering::SeqCst);
        self.skipped_in.store(5, Ordering::SeqCst);
    }

    fn draws(&self) -> u64 {
        self.draws.load(Ordering::SeqCst)
    }
}

fn issuer_of(size: u64, backoff: Bounds) -> (Arc<Memory>, Arc<RangeIssuer<Arc<Memory>>>) {
    let memory = Arc::new(Memory {
        size,
        next: AtomicU64::new(0),
        draws: AtomicU64::new(0),
        skipped_in: AtomicU64::new(0),
        skips: AtomicBool::new(false),
        fails: AtomicBool::new(false),
        fails_for_good: AtomicBool::new(false),
        hangs: AtomicBool::new(false),
        released: AtomicBool::new(false),
    });
    let issuer = RangeIssuer::start("memory", Arc::clone(&memory), MAX_WAIT, backoff);
    (memory, issuer)
}

fn issuer() -> (Arc<Memory>, Arc<RangeIssuer<Arc<Memory>>>) {
    issuer_of(100, BACKOFF)
}

/// An issuer that pauses for up to half an hour: jitter hardly ever makes that zero.
fn patient_issuer() -> (Arc<Memory>, Arc<RangeIssuer<Arc<Memory>>>) {
    let half_an_hour = 1_800_000;
    let backoff = Bounds {
        first_millis: half_an_hour,
        cap_millis: half_an_hour,
    };
    issuer_of(100, backoff)
}

async fn settled() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// Takes numbers until the issuer is closed.
async fn take_all(issuer: Arc<RangeIssuer<Arc<Memory>>>) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        match issuer.next_number().await {
            Ok(number) => numbers.push(number),
            Err(IssueError::Closed) => return numbers,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn number_when_drawn_from_ranges_comes_once_in_order() {
    let (_, issuer) = issuer();
    for number in 0..1000 {
        assert_eq!(issuer.next_number().await.unwrap(), number);
    }
}

#[test]
fn range_when_strided_yields_numbers_a_stride_apart() {
    let mut range = NumberRange {
        start: 100_007,
        end: 103_007,
        stride: 1000,
    };
    let numbers: Vec<u64> = std::iter::from_fn(|| range.take()).collect();
    assert_eq!(numbers, [100_007, 101_007, 102_007]);
    assert_eq!(NumberRange::default().take(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn number_when_callers_are_concurrent_is_unique() {
    let (_, issuer) = issuer();
    assert_unique(&issuer, 2000).await;
}

#[tokio::test]
async fn next_range_when_a_tenth_is_used_is_drawn_once() {
    let (memory, issuer) = issuer();
    for _ in 0..9 {
        issuer.next_number().await.unwrap();
    }
    settled().await;
    assert_eq!(memory.draws(), 1);
    for _ in 9..100 {
        issuer.next_number().await.unwrap();
        settled().await;
        assert_eq!(memory.draws(), 2);
    }
}

#[tokio::test]
async fn range_when_of_one_number_is_low_at_once() {
    let (memory, issuer) = issuer_of(1, BACKOFF);
    issuer.next_number().await.unwrap();
    settled().await;
    assert_eq!(memory.draws(), 2);
}

#[tokio::test(start_paused = true)]
async fn number_source_when_away_issues_the_buffer_then_fails() {
    let (memory, issuer) = issuer();
    for _ in 0..10 {
        issuer.next_number().await.unwrap();
    }
    settled().await;
    memory.fails.store(true, Ordering::SeqCst);
    for number in 10..200 {
        assert_eq!(issuer.next_number().await.unwrap(), number);
    }
    let error = issuer.next_number().await.unwrap_err();
    assert_eq!(error.to_string(), "memory: away");
    assert!(error.is_transient());
}

#[tokio::test(start_paused = true)]
async fn number_source_when_back_within_patience_is_waited_for() {
    let (memory, issuer) = issuer();
    memory.fails.store(true, Ordering::SeqCst);
    let waiting = tokio::spawn(async move { issuer.next_number().await });
    tokio::time::sleep(MAX_WAIT / 4).await;
    assert!(!waiting.is_finished());
    memory.fails.store(false, Ordering::SeqCst);
    assert_eq!(waiting.await.unwrap().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn number_source_when_failure_is_permanent_answers_at_once() {
    let (memory, issuer) = issuer();
    memory.fails_for_good.store(true, Ordering::SeqCst);
    let start = tokio::time::Instant::now();
    let error = issuer.next_number().await.unwrap_err();
    assert!(matches!(error, IssueError::Exhausted { length: 7 }));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn number_source_when_failure_is_permanent_retries_on_demand() {
    let (memory, issuer) = patient_issuer();
    memory.fails_for_good.store(true, Ordering::SeqCst);
    let hour = Duration::from_hours(1);
    for draws in 1..4 {
        for _ in 0..10 {
            issuer.next_number().await.unwrap_err();
        }
        assert_eq!(memory.draws(), draws);
        tokio::time::sleep(hour).await;
        assert_eq!(memory.draws(), draws);
    }
    memory.fails_for_good.store(false, Ordering::SeqCst);
    assert_eq!(issuer.next_number().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn buffer_when_failure_is_permanent_is_issued_first() {
    let (memory, issuer) = patient_issuer();
    for _ in 0..9 {
        issuer.next_number().await.unwrap();
    }
    memory.fails_for_good.store(true, Ordering::SeqCst);
    for number in 9..100 {
        assert_eq!(issuer.next_number().await.unwrap(), number);
    }
    let error = issuer.next_number().await.unwrap_err();
    assert!(matches!(error, IssueError::Exhausted { length: 7 }));
    assert_eq!(memory.draws(), 2);
}

#[tokio::test(start_paused = true)]
async fn number_source_when_hanging_is_given_up_in_time() {
    let (memory, issuer) = issuer();
    memory.hangs.store(true, Ordering::SeqCst);
    let start = tokio::time::Instant::now();
    let error = issuer.next_number().await.unwrap_err();
    assert!(error.is_transient());
    assert_eq!(start.elapsed(), MAX_WAIT);
}

#[tokio::test(start_paused = true)]
async fn number_source_when_failed_is_left_alone_during_backoff() {
    let day = 86_400_000;
    let long = Bounds {
        first_millis: day,
        cap_millis: day,
    };
    let (memory, issuer) = issuer_of(100, long);
    memory.fails.store(true, Ordering::SeqCst);
    for _ in 0..50 {
        issuer.next_number().await.unwrap_err();
    }
    let draws = memory.draws();
    assert!(draws <= 2, "{draws} draws");
}

#[tokio::test]
async fn range_when_drawn_before_a_skip_is_given_up() {
    let (memory, issuer) = issuer();
    for _ in 0..10 {
        issuer.next_number().await.unwrap();
    }
    settled().await;
    memory.skip();
    assert_eq!(issuer.next_number().await.unwrap(), 1_000_000);
}

#[tokio::test]
async fn range_when_drawn_during_a_skip_is_given_up() {
    let (memory, issuer) = issuer();
    memory.skips.store(true, Ordering::SeqCst);
    assert_eq!(issuer.next_number().await.unwrap(), 1_000_000);
    assert_eq!(memory.draws(), 2);
}

#[tokio::test]
async fn number_source_when_shut_down_releases_unused_and_closes() {
    let (memory, issuer) = issuer();
    for _ in 0..15 {
        issuer.next_number().await.unwrap();
    }
    settled().await;
    assert_eq!(memory.next.load(Ordering::SeqCst), 200);
    issuer.shutdown().await;
    assert_eq!(memory.next.load(Ordering::SeqCst), 15);
    assert!(memory.released.load(Ordering::SeqCst));
    issuer.shutdown().await;
    let error = issuer.next_number().await.unwrap_err();
    assert!(matches!(error, IssueError::Closed));
}

#[tokio::test]
async fn number_source_when_dropped_ends_its_tasks() {
    let (memory, issuer) = issuer();
    issuer.next_number().await.unwrap();
    drop(issuer);
    settled().await;
    assert_eq!(Arc::strong_count(&memory), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_when_the_last_draw_hangs_gives_up_waiting() {
    let (memory, issuer) = issuer();
    memory.hangs.store(true, Ordering::SeqCst);
    issuer.next_number().await.unwrap_err();
    let start = tokio::time::Instant::now();
    issuer.shutdown().await;
    assert_eq!(start.elapsed(), LAST_DRAW);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ranges_when_callers_take_during_shutdown_never_overlap() {
    for _ in 0..50 {
        let (memory, issuer) = issuer_of(2_000, BACKOFF);
        let takers: Vec<_> = (0..4)
            .map(|_| tokio::spawn(take_all(Arc::clone(&issuer))))
            .collect();
        while memory.draws() < 2 {
            tokio::task::yield_now().await;
        }
        issuer.shutdown().await;
        let mut taken = Vec::new();
        for taker in takers {
            taken.extend(taker.await.unwrap());
        }
        let numbers: HashSet<u64> = taken.iter().copied().collect();
        assert_eq!(numbers.len(), taken.len());
        let left_from = memory.next.load(Ordering::SeqCst);
        assert_eq!(taken.len() as u64, left_from);
        assert!(numbers.iter().all(|number| *number < left_from));
    }
}
