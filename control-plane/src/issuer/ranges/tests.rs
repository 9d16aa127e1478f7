use super::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Ranges of 100 numbers out of memory; can be told to fail or to hang.
#[derive(Default)]
struct Memory {
    next: AtomicU64,
    draws: AtomicU64,
    fails: AtomicBool,
    hangs: AtomicBool,
}

#[async_trait]
impl RangeSource for Arc<Memory> {
    async fn draw(&self) -> Result<Range<u64>, IssueError> {
        self.draws.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.fails.load(Ordering::SeqCst) {
            return Err(IssueError::Source {
                name: "memory",
                reason: "away".to_owned(),
                transient: true,
            });
        }
        let start = self.next.fetch_add(100, Ordering::SeqCst);
        Ok(start..start + 100)
    }

    async fn give_back(&self, rest: Range<u64>) -> Result<bool, IssueError> {
        let back =
            self.next
                .compare_exchange(rest.end, rest.start, Ordering::SeqCst, Ordering::SeqCst);
        Ok(back.is_ok())
    }
}

fn issuer() -> (Arc<Memory>, Arc<RangeIssuer<Arc<Memory>>>) {
    let memory = Arc::new(Memory::default());
    let issuer = RangeIssuer::new("memory", Arc::clone(&memory));
    (memory, Arc::new(issuer))
}

async fn settled() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn numbers_come_in_order_and_each_once() {
    let (_, issuer) = issuer();
    for number in 0..1000 {
        assert_eq!(issuer.next_number().await.unwrap(), number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callers_never_share_a_number() {
    let (_, issuer) = issuer();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let issuer = Arc::clone(&issuer);
            tokio::spawn(async move {
                let mut numbers = Vec::new();
                for _ in 0..2000 {
                    numbers.push(issuer.next_number().await.unwrap());
                }
                numbers
            })
        })
        .collect();
    let mut seen = HashSet::new();
    for task in tasks {
        for number in task.await.unwrap() {
            assert!(seen.insert(number), "{number} was issued twice");
        }
    }
    assert_eq!(seen.len(), 16_000);
}

#[tokio::test]
async fn the_next_range_is_fetched_when_a_tenth_is_used() {
    let (memory, issuer) = issuer();
    for _ in 0..9 {
        issuer.next_number().await.unwrap();
    }
    settled().await;
    assert_eq!(memory.draws.load(Ordering::SeqCst), 1);
    issuer.next_number().await.unwrap();
    settled().await;
    assert_eq!(memory.draws.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_buffered_goes_on_while_the_source_is_away_and_then_it_says_why() {
    let (memory, issuer) = issuer();
    for _ in 0..10 {
        issuer.next_number().await.unwrap();
    }
    settled().await;
    memory.fails.store(true, Ordering::SeqCst);
    for number in 10..200 {
        assert_eq!(issuer.next_number().await.unwrap(), number);
    }
    settled().await;
    let error = issuer.next_number().await.unwrap_err();
    assert_eq!(error.to_string(), "memory: memory: away");
    assert!(error.is_transient());
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_is_waited_for_no_longer_than_promised() {
    let (memory, issuer) = issuer();
    memory.hangs.store(true, Ordering::SeqCst);
    let start = tokio::time::Instant::now();
    let error = issuer.next_number().await.unwrap_err();
    assert!(error.is_transient());
    assert_eq!(start.elapsed(), PATIENCE);
}

#[tokio::test]
async fn a_failed_source_is_left_alone_for_a_while() {
    let (memory, issuer) = issuer();
    memory.fails.store(true, Ordering::SeqCst);
    for _ in 0..50 {
        issuer.next_number().await.unwrap_err();
    }
    let draws = memory.draws.load(Ordering::SeqCst);
    assert!(draws <= 2, "{draws} draws");
}

#[tokio::test]
async fn a_shutdown_gives_everything_unused_back_and_closes() {
    let (memory, issuer) = issuer();
    for _ in 0..15 {
        issuer.next_number().await.unwrap();
    }
    settled().await;
    assert_eq!(memory.next.load(Ordering::SeqCst), 200);
    issuer.shutdown().await;
    assert_eq!(memory.next.load(Ordering::SeqCst), 15);
    let error = issuer.next_number().await.unwrap_err();
    assert!(matches!(error, IssueError::Closed));
}
