use super::*;
use futures_util::FutureExt;
use std::future::Future;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::advance;

const SECOND: Duration = Duration::from_secs(1);

fn address(last: u8) -> Claim {
    Claim::of_address([192, 0, 2, last].into())
}

fn key(tenant_id: u32, key_id: &str) -> Claim {
    Claim::default().by(tenant_id, key_id)
}

fn soon() -> Instant {
    Instant::now() + SECOND
}

fn full<T: fmt::Debug>(taken: Result<T, Refusal>) -> bool {
    taken.unwrap_err() == Refusal::Full("test")
}

fn share<T: fmt::Debug>(taken: Result<T, Refusal>) -> bool {
    taken.unwrap_err() == Refusal::Share("test")
}

/// Waits for a permit in a task of its own, which is in the line when this returns.
async fn wait(admission: &Admission, claim: Claim) -> JoinHandle<Result<Permit, Refusal>> {
    let admission = admission.clone();
    let waiting = tokio::spawn(async move { admission.take(claim, soon()).await });
    yield_now().await;
    waiting
}

fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    future.now_or_never()
}

#[tokio::test(start_paused = true)]
async fn permit_when_dropped_comes_back() {
    let admission = Admission::new(Bounds::new("test", 2));
    let first = admission.try_take(address(1)).unwrap();
    let _second = admission.try_take(address(1)).unwrap();
    assert!(full(admission.try_take(address(2))));
    assert!(full(admission.take(address(2), soon()).await), "none waits");
    drop(first);
    assert!(admission.try_take(address(2)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn party_when_at_its_limit_is_refused() {
    let bounds = Bounds {
        of_address: 3,
        ..Bounds::new("test", 4).shared()
    };
    let admission = Admission::new(bounds);
    let one = [1, 2].map(|last| admission.try_take(address(last).by(1, "a")).unwrap());
    assert!(share(admission.try_take(address(3).by(1, "a"))), "a key");
    let third = admission.try_take(address(3).by(1, "b")).unwrap();
    assert!(share(admission.try_take(address(3).by(1, "c"))), "a tenant");
    drop((one, third));
    let taken = [1, 2, 3].map(|_| admission.try_take(address(1)).unwrap());
    assert!(share(admission.try_take(address(1))), "an address");
    assert!(admission.try_take(address(2)).is_ok());
    drop(taken);
    assert!(admission.0.ledger().is_forgotten());
}

#[tokio::test(start_paused = true)]
async fn permit_when_it_is_the_only_one_is_for_all() {
    let admission = Admission::new(Bounds {
        waiting: 1,
        ..Bounds::new("test", 1).shared()
    });
    let taken = admission.try_take(key(1, "a")).unwrap();
    let waiting = wait(&admission, key(2, "b")).await;
    drop(taken);
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn request_when_its_key_is_known_counts_for_it() {
    let admission = Admission::new(Bounds::new("test", 4).shared());
    let permits = [1, 2, 3].map(|last| admission.try_take(address(last)).unwrap());
    assert_eq!(permits[0].identify(1, "a"), Ok(()));
    assert_eq!(permits[1].identify(1, "a"), Ok(()));
    assert!(share(permits[2].identify(1, "a")));
    assert!(share(admission.try_take(key(1, "a"))));
    assert_eq!(permits[2].identify(1, "b"), Ok(()));
    drop(permits);
    assert!(admission.0.ledger().is_forgotten());
}

#[tokio::test(start_paused = true)]
async fn claim_when_its_party_holds_least_comes_first() {
    let admission = Admission::new(Bounds {
        waiting: 10,
        ..Bounds::new("test", 2)
    });
    let mut held = [1, 1].map(|_| Some(admission.try_take(key(1, "a")).unwrap()));
    let greedy = wait(&admission, key(1, "a")).await;
    let other = wait(&admission, key(2, "b")).await;
    held[0] = None;
    let other = other.await.unwrap().unwrap();
    assert!(!greedy.is_finished(), "the other holds less");
    held[1] = None;
    let greedy = greedy.await.unwrap().unwrap();
    drop((other, greedy));
    assert!(admission.0.ledger().is_forgotten());
}

#[tokio::test(start_paused = true)]
async fn claim_when_too_many_wait_gives_way_by_what_it_holds() {
    let admission = Admission::new(Bounds {
        waiting: 2,
        ..Bounds::new("test", 1)
    });
    let held = admission.try_take(key(1, "a")).unwrap();
    let first = wait(&admission, key(1, "a")).await;
    let second = wait(&admission, key(1, "a")).await;
    let third = wait(&admission, key(1, "a")).await;
    assert!(full(third.await.unwrap()), "it is the one that holds most");
    let other = wait(&admission, key(2, "b")).await;
    assert!(full(second.await.unwrap()));
    drop(held);
    drop(first.await.unwrap().unwrap());
    assert!(other.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn claim_when_dropped_leaves_the_line() {
    let admission = Admission::new(Bounds {
        waiting: 1,
        ..Bounds::new("test", 1)
    });
    let held = admission.try_take(address(1)).unwrap();
    assert!(now(admission.take(address(2), soon())).is_none());
    let waiting = wait(&admission, address(3)).await;
    waiting.abort();
    assert!(waiting.await.is_err());
    let waiting = wait(&admission, address(4)).await;
    drop(held);
    assert!(waiting.await.unwrap().is_ok());
    assert!(admission.0.ledger().is_forgotten());
}

#[tokio::test(start_paused = true)]
async fn claim_when_its_turn_comes_too_late_is_refused_at_once() {
    let admission = Admission::new(Bounds {
        waiting: 100,
        ..Bounds::new("test", 1)
    });
    // A permit is held for two seconds.
    for _ in 0..100 {
        let held = admission.try_take(address(1)).unwrap();
        advance(2 * SECOND).await;
        drop(held);
    }
    let late = Some(Refusal::Late("test"));
    let held = admission.try_take(address(1)).unwrap();
    let refused = |seconds: u32| {
        let deadline = Instant::now() + seconds * SECOND;
        now(admission.take(address(2), deadline)).and_then(Result::err)
    };
    assert_eq!(refused(1), late);
    assert_eq!(refused(3), None);
    let waiting = wait_for(&admission, 9).await;
    assert_eq!(refused(3), late, "another one waits before it");
    assert_eq!(refused(5), None);
    advance(3 * SECOND / 2).await;
    drop(waiting);
    yield_now().await;
    assert_eq!(refused(1), None, "it comes back soon");
    advance(10 * SECOND).await;
    assert_eq!(refused(5), late, "nothing comes back");
    drop(held);
    assert!(refused(1).is_none());
}

/// Waits with a deadline in this many seconds, until dropped.
async fn wait_for(admission: &Admission, seconds: u32) -> tokio::task::JoinSet<()> {
    let admission = admission.clone();
    let mut tasks = tokio::task::JoinSet::new();
    let deadline = Instant::now() + seconds * SECOND;
    tasks.spawn(async move {
        drop(admission.take(address(3), deadline).await);
    });
    yield_now().await;
    tasks
}

#[tokio::test(start_paused = true)]
async fn claim_when_it_waits_ends_at_its_deadline() {
    let admission = Admission::new(Bounds {
        waiting: 1,
        ..Bounds::new("test", 1)
    });
    let _held = admission.try_take(address(1)).unwrap();
    let refused = admission.take(address(2), soon()).await.unwrap_err();
    assert_eq!(refused, Refusal::Late("test"));
    assert_eq!(
        refused.to_string(),
        "test is reached, and too many wait already"
    );
}

#[tokio::test(start_paused = true)]
async fn permit_when_oldest_of_the_largest_holder_gives_way() {
    let admission = Admission::new(Bounds::new("test", 3));
    let take = |last| admission.try_take_yielding(address(last), 0).unwrap();
    let first = take(1);
    advance(SECOND).await;
    let second = take(1);
    let other = take(2);
    advance(SECOND).await;
    let newest = take(3);
    assert!(now(first.given_way()).is_some());
    assert!(!first.settle(), "it is too late");
    let own = take(1);
    assert!(
        now(second.given_way()).is_some(),
        "it is of the same address"
    );
    for permit in [&other, &newest, &own] {
        assert!(now(permit.given_way()).is_none());
        assert!(permit.settle());
    }
    assert!(
        full(admission.try_take_yielding(address(4), 0)),
        "none is left to"
    );
    drop((first, second));
    assert!(
        full(admission.try_take(address(4))),
        "these have left before"
    );
    other.unsettle();
    assert!(admission.try_take(address(4)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn client_when_it_pays_least_gives_way_first() {
    let admission = Admission::new(Bounds::new("test", 2));
    let paying = admission.try_take_yielding(address(1), 0).unwrap();
    advance(SECOND).await;
    let silent = admission.try_take_yielding(address(1), 0).unwrap();
    advance(SECOND).await;
    paying.pay(1_000);
    silent.pay(1);
    let _other = admission.try_take_yielding(address(2), 0).unwrap();
    assert!(now(silent.given_way()).is_some() && now(paying.given_way()).is_none());
}

#[tokio::test(start_paused = true)]
async fn permit_when_an_older_one_gives_way_takes_its_quota() {
    let admission = Admission::new(Bounds {
        of_address: 1,
        ..Bounds::new("test", 9)
    });
    let first = admission.try_take_yielding(address(1), 0).unwrap();
    let second = admission.try_take_yielding(address(1), 0).unwrap();
    assert!(now(first.given_way()).is_some());
    assert!(second.settle());
    assert!(share(admission.try_take_yielding(address(1), 0)));
}

#[tokio::test(start_paused = true)]
async fn party_when_it_holds_most_bytes_gives_way() {
    let admission = Admission::new(Bounds {
        bytes: 100,
        ..Bounds::new("test", 9)
    });
    let large = admission.try_take_yielding(address(1), 60).unwrap();
    let small = admission.try_take_yielding(address(2), 0).unwrap();
    assert_eq!(small.grow(40), Ok(()));
    assert_eq!(small.grow(10), Ok(()), "the large one goes");
    assert!(now(large.given_way()).is_some());
    let other = admission.try_take_yielding(address(3), 30).unwrap();
    assert!(full(small.grow(50)), "it holds most itself");
    assert!(now(other.given_way()).is_none());
    drop((small, large));
    assert!(full(admission.try_take_yielding(address(4), 101)));
    drop(other);
    assert!(admission.try_take_yielding(address(4), 100).is_ok());
    assert!(admission.0.ledger().is_forgotten());
}

#[tokio::test]
async fn permit_when_giving_way_would_not_help_stays() {
    let room = Admission::new(Bounds {
        bytes: 100,
        ..Bounds::new("test", 10)
    });
    let kept = room.try_take_yielding(address(1), 60).unwrap();
    let settled = room.try_take_yielding(address(2), 30).unwrap();
    assert!(settled.settle());
    assert!(room.try_take_yielding(address(1), 80).is_err());
    assert_eq!(now(kept.given_way()), None);
    assert!(room.try_take_yielding(address(1), 70).is_ok());
    assert_eq!(now(kept.given_way()), Some(()));
    drop(settled);

    let two = [(), ()].map(|()| room.try_take_yielding(address(1), 40).unwrap());
    // Without one of them, its address would hold less than the claim.
    assert!(room.try_take_yielding(address(2), 70).is_err());
    for kept in &two {
        assert_eq!(now(kept.given_way()), None);
    }
    assert!(room.try_take_yielding(address(2), 40).is_ok());
}

#[tokio::test(start_paused = true)]
async fn admission_when_no_permit_comes_back_is_stuck() {
    let admission = Admission::new(Bounds::new("test", 2));
    let mut held = [1, 2].map(|last| Some(admission.try_take(address(last)).unwrap()));
    advance(9 * SECOND).await;
    assert_eq!(admission.stuck_for(), Duration::ZERO, "none was refused");
    assert!(full(admission.try_take(address(3))));
    advance(SECOND).await;
    assert!(full(admission.try_take(address(3))));
    advance(SECOND).await;
    assert_eq!(admission.stuck_for(), 2 * SECOND);
    held[0] = None;
    assert_eq!(admission.stuck_for(), Duration::ZERO);
}

mod random {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Take(u8),
        Yield(u8, usize),
        Grow(usize, usize),
        Drop(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u8..4).prop_map(Step::Take),
            ((0u8..4), 0usize..50).prop_map(|(last, bytes)| Step::Yield(last, bytes)),
            ((0usize..8), 0usize..50).prop_map(|(place, bytes)| Step::Grow(place, bytes)),
            (0usize..8).prop_map(Step::Drop),
        ]
    }

    proptest! {
        #[test]
        fn admission_when_steps_are_arbitrary_keeps_its_bounds(steps in proptest::collection::vec(step(), 0..60)) {
            let admission = Admission::new(Bounds {
                bytes: 100,
                of_address: 3,
                ..Bounds::new("test", 5)
            });
            let mut permits = Vec::new();
            for step in steps {
                match step {
                    Step::Take(last) => permits.extend(admission.try_take(address(last)).ok()),
                    Step::Yield(last, bytes) => {
                        permits.extend(admission.try_take_yielding(address(last), bytes).ok());
                    }
                    Step::Grow(place, bytes) if place < permits.len() => {
                        let permit = permits.swap_remove(place);
                        if permit.grow(bytes).is_ok() {
                            permits.push(permit);
                        }
                    }
                    Step::Drop(place) if place < permits.len() => drop(permits.swap_remove(place)),
                    _ => {}
                }
                admission.0.ledger().check();
            }
            drop(permits);
            prop_assert!(admission.0.ledger().is_forgotten());
        }
    }
}
