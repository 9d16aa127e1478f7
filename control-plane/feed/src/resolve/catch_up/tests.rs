use super::*;
use edgelink_settings::config::FeedConfig;
use edgelink_store::PublisherState;
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::{CodeLength, CodeSpace, FeedPosition};
use std::collections::VecDeque;
use std::sync::Mutex as StdMutex;
use tokio::sync::Notify;

const GENERATION: u64 = 5;
const FLOOR: u64 = 77;

fn at(millis: u64) -> FeedPosition {
    FeedPosition::new(millis, 0)
}

/// Result of one read; `None` for one that never ends.
type Look = Option<(Vec<&'static str>, u64, FeedPosition)>;

/// A fake store with only the keys of the outbox.
#[derive(Default)]
struct Looks {
    looks: StdMutex<VecDeque<Look>>,
    hangs: Notify,
}

impl Looks {
    fn will_show(&self, look: Look) {
        self.looks.lock().unwrap().push_back(look);
    }
}

#[async_trait]
impl Outbox for Looks {
    async fn pending_keys(&self, _: u32) -> Result<PendingKeys, StoreError> {
        let look = self.looks.lock().unwrap().pop_front().expect("a look");
        let Some((keys, generation, position)) = look else {
            self.hangs.notify_one();
            return std::future::pending().await;
        };
        let mut bytes = Vec::new();
        for key in keys {
            bytes.extend(u32::try_from(key.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(key.as_bytes());
        }
        Ok(PendingKeys {
            state: PublisherState {
                generation,
                position,
                rev_floor: FLOOR,
                ..PublisherState::default()
            },
            keys: vec![Packed::from(bytes)],
        })
    }
}

struct Setting {
    outbox: Arc<Looks>,
    known_keys: Arc<KnownKeys>,
    feed: Arc<Feed>,
    catch_up: Arc<CatchUp>,
}

/// Known keys that are complete, and a feed that has begun at 10-0.
fn setting() -> Setting {
    let outbox = Arc::new(Looks::default());
    let known_keys = Arc::new(KnownKeys::new(CodeSpace::new(CodeLength::DEFAULT, None)));
    let feed = Arc::new(Feed::new(&FeedConfig::default(), Vec::new()));
    feed.reset(GENERATION, at(10));
    known_keys.complete_for_tests();
    let catch_up = CatchUp::new(outbox.clone(), known_keys.clone(), feed.clone());
    Setting {
        outbox,
        known_keys,
        feed,
        catch_up: Arc::new(catch_up),
    }
}

const CERTAIN: Option<u64> = Some(FLOOR);

#[tokio::test(start_paused = true)]
async fn catch_up_when_published_entries_have_come_is_certain() {
    let Setting {
        outbox,
        known_keys,
        feed,
        catch_up,
    } = setting();
    feed.push(at(20), &FeedMessage::Flush);
    for (generation, position, expected) in [
        (GENERATION, at(20), CERTAIN),
        (GENERATION, at(10), CERTAIN),
        (GENERATION, FeedPosition::START, CERTAIN),
        (GENERATION, at(30), None),
        // Lost by Redis, which has continued since.
        (GENERATION, at(19), None),
        (GENERATION + 1, FeedPosition::START, None),
        (0, FeedPosition::START, None),
    ] {
        outbox.will_show(Some((vec!["a.example/x"], generation, position)));
        assert_eq!(catch_up.run().await, expected, "{generation} {position}");
    }
    assert!(known_keys.may_have("a.example/x"));
    assert!(!known_keys.may_have("a.example/y"));
}

#[tokio::test(start_paused = true)]
async fn catch_up_when_feed_may_still_come_waits_for_it() {
    let Setting {
        outbox,
        feed,
        catch_up,
        ..
    } = setting();
    let timed = async |generation, position| {
        outbox.will_show(Some((vec![], generation, position)));
        tokio::time::sleep(PACE).await;
        let start = Instant::now();
        assert_eq!(catch_up.run().await, None);
        start.elapsed()
    };
    // Without a beat, nothing is expected.
    assert_eq!(timed(GENERATION, at(30)).await, Duration::ZERO);
    feed.clock().note(Instant::now(), 1_000_000);
    feed.push(
        at(20),
        &FeedMessage::Beat(Beat {
            generation: GENERATION,
            at: 1_000_000,
            ..Beat::default()
        }),
    );
    assert!(timed(GENERATION, at(30)).await >= FEED_WAIT);
    assert!(timed(GENERATION, at(30)).await >= FEED_WAIT);
    // Another generation has the time to come once.
    assert!(timed(GENERATION + 1, FeedPosition::START).await >= FEED_WAIT);
    for _ in 0..3 {
        assert_eq!(
            timed(GENERATION + 1, FeedPosition::START).await,
            Duration::ZERO
        );
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(timed(GENERATION, at(30)).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn catch_up_when_aborted_does_not_count_for_waiters() {
    let Setting {
        outbox,
        known_keys,
        catch_up,
        ..
    } = setting();
    outbox.will_show(Some((vec![], GENERATION, at(10))));
    assert_eq!(catch_up.run().await, CERTAIN);
    let run = || {
        let catch_up = catch_up.clone();
        tokio::spawn(async move { catch_up.run().await })
    };
    // The database stalls. Two more ask before either of them has its turn.
    outbox.will_show(None);
    let stalled = run();
    outbox.hangs.notified().await;
    let (first, second) = (run(), run());
    tokio::task::yield_now().await;
    outbox.will_show(None);
    stalled.abort();
    outbox.hangs.notified().await;
    outbox.will_show(Some((vec!["a.example/new"], GENERATION, at(10))));
    first.abort();
    assert_eq!(second.await.unwrap(), CERTAIN);
    assert!(known_keys.may_have("a.example/new"));
    assert!(outbox.looks.lock().unwrap().is_empty());
}
