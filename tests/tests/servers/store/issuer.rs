//! Issuing numbers from leased issuers.

use crate::store::fixture::{Database, patient};
use edgelink_numbers::{IssueError, NumberSource, SegmentOptions, segment, snowflake};
use edgelink_store::{ISSUERS, Store};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

on_every_database!(
    issuers_when_of_several_instances_never_repeat_a_number,
    issuer_when_restarted_cleanly_skips_no_number,
    issuer_when_crashed_repeats_no_number,
    instance_when_its_lease_was_taken_leases_another_issuer,
    number_space_when_used_up_is_exhausted_without_repeats,
    issuer_leases_when_all_are_held_come_back_as_they_run_out,
    issuer_when_at_the_bound_gives_way_to_another,
    issuer_when_shut_down_issues_nothing,
    numbers_when_reserved_are_not_drawn,
    snowflake_when_of_several_instances_repeats_no_number,
);

fn options(owner: &str) -> SegmentOptions {
    SegmentOptions {
        owner: owner.to_owned(),
        min_step: 10,
        max_step: 40,
        max_wait: patient("").timeout_ms,
        ..SegmentOptions::default()
    }
}

async fn take(issuer: &Arc<dyn NumberSource>, count: usize) -> Vec<u64> {
    let mut numbers = Vec::with_capacity(count);
    for _ in 0..count {
        numbers.push(issuer.next_number().await.expect("a number"));
    }
    numbers
}

/// Why a new instance has no numbers, once it knows more than that it has waited for one.
async fn refusal(store: Arc<Store>, owner: &str) -> IssueError {
    let hasty = SegmentOptions {
        max_wait: Duration::from_millis(1),
        ..options(owner)
    };
    let issuer = segment(store, hasty);
    loop {
        let error = issuer.next_number().await.unwrap_err();
        if !error.to_string().contains("within 1 ms") {
            return error;
        }
    }
}

async fn issuers_when_of_several_instances_never_repeat_a_number(database: Database) {
    const TASKS: usize = 4;
    const NUMBERS: usize = 200;
    let mut tasks = Vec::new();
    for instance in 0..3 {
        let store = database.store().await;
        let issuer = segment(store, options(&format!("instance-{instance}")));
        for _ in 0..TASKS {
            let issuer = Arc::clone(&issuer);
            tasks.push(tokio::spawn(async move { take(&issuer, NUMBERS).await }));
        }
    }
    let mut numbers = HashSet::new();
    let mut rows = HashSet::new();
    let count = tasks.len() * NUMBERS;
    for task in tasks {
        let taken = task.await.unwrap();
        rows.extend(taken.iter().map(|number| number % 1000));
        numbers.extend(taken);
    }
    assert_eq!(numbers.len(), count);
    assert_eq!(rows.len(), 3, "each instance has a row of its own");
}

async fn issuer_when_restarted_cleanly_skips_no_number(database: Database) {
    let store = database.store().await;
    let mut numbers = Vec::new();
    for life in 0..4 {
        let issuer = segment(store.clone(), options(&format!("life-{life}")));
        // Enough to have drawn the next segment ahead, and not enough to use it up.
        numbers.extend(take(&issuer, 13).await);
        issuer.shutdown().await;
    }
    // Issuer 0 goes back below issuer 1 only if nothing of it was drawn: so each life has the one that has drawn least.
    let mut of_each: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); 1000];
    for number in &numbers {
        of_each[(number % 1000) as usize].insert(number / 1000);
    }
    for sequences in of_each.iter().filter(|sequences| !sequences.is_empty()) {
        let dense: BTreeSet<u64> = (0..sequences.len() as u64).collect();
        assert_eq!(*sequences, dense);
    }
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 4 * 13);
    let usage = store.issuer_usage().await.unwrap();
    assert_eq!((usage.drawn, usage.held()), (4 * 13, 0));
}

async fn issuer_when_crashed_repeats_no_number(database: Database) {
    let store = database.store().await;
    let mut numbers = HashSet::new();
    for life in 0..4 {
        let issuer = segment(store.clone(), options(&format!("life-{life}")));
        numbers.extend(take(&issuer, 13).await);
        drop(issuer);
    }
    assert_eq!(numbers.len(), 4 * 13);
    let usage = store.issuer_usage().await.unwrap();
    assert_eq!(usage.held(), 4, "the leases have not run out yet");
}

async fn instance_when_its_lease_was_taken_leases_another_issuer(database: Database) {
    let store = database.store().await;
    let issuer = segment(store.clone(), options("stopped"));
    let mut numbers = take(&issuer, 5).await;
    let row = (numbers[0] % 1000) as u16;
    assert!(store.release_issuer(row, "stopped").await.unwrap());
    let other = segment(store.clone(), options("other"));
    numbers.extend(take(&other, 50).await);
    // The segments that are drawn are used up first; then comes another row.
    numbers.extend(take(&issuer, 100).await);
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 155);
    let usage = store.issuer_usage().await.unwrap();
    let owners: Vec<&str> = usage.holders.iter().map(|holder| &*holder.owner).collect();
    assert_eq!(owners, ["other", "stopped"]);
}

async fn number_space_when_used_up_is_exhausted_without_repeats(database: Database) {
    let store = database.store().await;
    let small = SegmentOptions {
        max_sequences: Some(1),
        ..options("small")
    };
    let issuer = segment(store, small);
    let numbers: BTreeSet<u64> = take(&issuer, usize::from(ISSUERS))
        .await
        .into_iter()
        .collect();
    assert_eq!(numbers, (0..u64::from(ISSUERS)).collect());
    let error = issuer.next_number().await.unwrap_err();
    assert!(
        matches!(error, IssueError::Exhausted { length: 7 }),
        "{error}"
    );
    assert!(!error.is_transient());
}

async fn issuer_leases_when_all_are_held_come_back_as_they_run_out(database: Database) {
    const LONG: u64 = 600_000;
    let store = database.store().await;
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move { lease_all(&store, &format!("owner-{task}"), LONG).await })
        })
        .collect();
    let mut leased = Vec::new();
    for task in tasks {
        leased.extend(task.await.unwrap());
    }
    leased.sort_unstable();
    assert_eq!(leased, (0..ISSUERS).collect::<Vec<_>>());

    let error = refusal(store.clone(), "late").await;
    assert!(error.is_transient());
    let message = error.to_string();
    assert!(
        message.contains("all 1000 issuers are leased, by owner-"),
        "{message}"
    );

    // One lease is made to run out, and is taken over above what its owner had drawn.
    let owner = owner_of(&store, 7).await;
    let drawn = store.draw_segment(7, 25).await.unwrap().unwrap();
    assert!(store.renew_issuer(7, &owner, 0).await.unwrap());
    assert_eq!(
        store
            .lease_issuer("next", LONG, u64::MAX >> 1)
            .await
            .unwrap(),
        Some(7)
    );
    assert!(!store.renew_issuer(7, &owner, LONG).await.unwrap());
    assert!(!store.release_issuer(7, &owner).await.unwrap());
    assert_eq!(
        store.draw_segment(7, 1).await.unwrap().unwrap().start,
        drawn.end
    );
    assert_eq!(
        store
            .lease_issuer("next", LONG, u64::MAX >> 1)
            .await
            .unwrap(),
        None
    );
}

async fn lease_all(store: &Store, owner: &str, milliseconds: u64) -> Vec<u16> {
    let mut leased = Vec::new();
    while let Some(issuer) = store
        .lease_issuer(owner, milliseconds, 1)
        .await
        .expect("an answer")
    {
        leased.push(issuer);
    }
    leased
}

/// The holder of an issuer: the one that can renew it.
async fn owner_of(store: &Store, issuer: u16) -> String {
    for task in 0..4 {
        let owner = format!("owner-{task}");
        if store.renew_issuer(issuer, &owner, 600_000).await.unwrap() {
            return owner;
        }
    }
    panic!("no source holds issuer {issuer}");
}

async fn issuer_when_shut_down_issues_nothing(database: Database) {
    let store = database.store().await;
    let issuer = segment(store, options("closed"));
    take(&issuer, 3).await;
    issuer.shutdown().await;
    issuer.shutdown().await;
    let error = issuer.next_number().await.unwrap_err();
    assert!(matches!(error, IssueError::Closed), "{error}");
}

async fn issuer_when_at_the_bound_gives_way_to_another(database: Database) {
    let store = database.store().await;
    let bound = store.bound_state().await.unwrap().bound;
    let sequences = u32::try_from(bound / u64::from(ISSUERS)).unwrap();
    let issuer = segment(store.clone(), options("one"));
    let first = take(&issuer, 1).await[0] % 1000;
    let first = u16::try_from(first).unwrap();
    store
        .draw_segment(first, sequences - 200)
        .await
        .unwrap()
        .unwrap();
    let numbers = take(&issuer, 1000).await;
    assert!(numbers.iter().all(|number| *number < bound));
    let distinct: HashSet<u64> = numbers.iter().copied().collect();
    assert_eq!(distinct.len(), numbers.len());
    let rows: HashSet<u64> = numbers.iter().map(|number| number % 1000).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");

    // Now all the others as well.
    for other in 0..ISSUERS {
        let mut step = sequences;
        while step > 0 {
            if store.draw_segment(other, step).await.unwrap().is_none() {
                step /= 2;
            }
        }
    }
    let error = refusal(store, "two").await;
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains("come to the bound"), "{error}");
}

async fn snowflake_when_of_several_instances_repeats_no_number(database: Database) {
    let mut numbers = HashSet::new();
    let mut workers = HashSet::new();
    for _ in 0..3 {
        let source = snowflake(database.store().await);
        for number in take(&source, 300).await {
            assert!(numbers.insert(number), "{number} was issued twice");
            workers.insert(number >> 8 & 1023);
        }
        source.shutdown().await;
    }
    let store = database.store().await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for worker in workers {
        let until = store.counter(&format!("worker/{worker}")).await.unwrap();
        assert!(until > 0 && u128::from(until) <= now.as_millis(), "{until}");
    }
    let [one, two] = [store.clone(), store].map(snowflake);
    let (one, two) = (take(&one, 1).await[0], take(&two, 1).await[0]);
    assert_ne!(one >> 8 & 1023, two >> 8 & 1023);
}

async fn numbers_when_reserved_are_not_drawn(database: Database) {
    let store = database.store().await;
    store.reserve_numbers(&[5_003, 2_003, 7_004]).await.unwrap();
    store.reserve_numbers(&[1_003]).await.unwrap();
    for (issuer, start) in [(3, 6), (4, 8), (5, 0)] {
        let drawn = store.draw_segment(issuer, 10).await.unwrap().unwrap();
        assert_eq!(drawn.start, start);
    }
}
