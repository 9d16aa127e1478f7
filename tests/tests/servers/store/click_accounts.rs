//! What became of clicks, by hour, edge and worker.

use crate::store::clicking::{batch, now, report};
use crate::store::fixture::Database;
use edgelink_click_store::{
    AccountGroup, ClickAccounts, ClickReport, ClickRetention, GroupedAccounts,
};
use edgelink_store::Store;
use edgelink_wire::clicks::ClickBatch;
use std::collections::BTreeMap;
use std::sync::Arc;

on_every_database!(
    click_accounts_when_grouped_add_up_to_the_reports,
    worker_when_two_processes_meet_it_at_once_counts_once,
    click_accounts_when_old_become_coarser_and_keep_their_sums,
    click_accounts_when_too_many_are_folded_before_their_time,
);

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const WORKERS: u8 = 6;
const BATCHES: u64 = 24;
const GROUPS: [AccountGroup; 4] = [
    AccountGroup::Edge,
    AccountGroup::Worker,
    AccountGroup::Hour,
    AccountGroup::Day,
];
const KEPT: ClickRetention = ClickRetention {
    hours: 35,
    days: 730,
    raw: 30,
};

/// A batch of `seq` clicks, one of which is undescribed. Its worker has dropped as many so far as it has sent batches.
fn of(worker: u8, seq: u64) -> ClickBatch<'static> {
    ClickBatch {
        clicks: vec![("a.example/x", seq)],
        undescribed: 1,
        ..batch([worker; 16], seq)
    }
}

fn from_edge(edge: &str, worker: u8, seq: u64, at: u64) -> ClickReport {
    ClickReport {
        edge: edge.into(),
        ..report(&[of(worker, seq)], at)
    }
}

async fn grouped(store: &Store, by: AccountGroup) -> GroupedAccounts {
    let all = (0, u32::MAX.into());
    store
        .clicks()
        .grouped_click_accounts(all, by, 1000)
        .await
        .unwrap()
}

fn sum<'a>(accounts: impl Iterator<Item = &'a ClickAccounts>) -> ClickAccounts {
    accounts.fold(ClickAccounts::default(), |mut sum, accounts| {
        sum.add(accounts);
        sum
    })
}

async fn click_accounts_when_grouped_add_up_to_the_reports(database: Database) {
    let stores = [database.store().await, database.store().await];
    let start = now() / HOUR * HOUR;
    let tasks = (0..WORKERS).map(|worker| {
        let stores = stores.clone();
        tokio::spawn(async move {
            let edge = format!("edge-{}", worker % 2);
            // Out of order, each twice, by turns through one and the other.
            for number in 0..2 * BATCHES {
                let seq = number * 7 % BATCHES + 1;
                let at = start - seq % 5 * HOUR;
                let reports = [from_edge(&edge, worker, seq, at)];
                let store = &stores[usize::try_from(number % 3 % 2).unwrap()];
                store.clicks().count_clicks(&reports).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let store = &stores[0];
    let clicks: u64 = (1..=BATCHES).sum();
    let of_workers = |number| ClickAccounts {
        sent: number * BATCHES * 10,
        counted: number * clicks,
        dropped: number * BATCHES,
        undescribed: number * BATCHES,
    };
    let all = of_workers(WORKERS.into());
    assert_eq!(store.clicks().click_accounts().await.unwrap(), all);
    for by in GROUPS {
        let grouped = grouped(store, by).await;
        assert_eq!(grouped.all, all, "{by:?}");
        assert_eq!(sum(grouped.groups.iter().map(|group| &group.accounts)), all);
    }
    let by_edge = grouped(store, AccountGroup::Edge).await.groups;
    let by_edge = by_edge
        .iter()
        .map(|group| (group.edge.as_str(), group.accounts));
    let half = of_workers(u64::from(WORKERS) / 2);
    assert_eq!(
        by_edge.collect::<Vec<_>>(),
        [("edge-0", half), ("edge-1", half)]
    );
    let by_worker = grouped(store, AccountGroup::Worker).await.groups;
    assert!(
        by_worker
            .iter()
            .all(|group| group.accounts == of_workers(1))
    );
    assert_eq!(by_worker.len(), usize::from(WORKERS));
    let hours = (start - 5 * HOUR) / HOUR..=start / HOUR;
    for hour in hours {
        let before = store
            .clicks()
            .click_accounts_between(0, hour)
            .await
            .unwrap();
        let after = store.clicks().click_accounts_between(hour, u32::MAX.into());
        assert_eq!(sum([before, after.await.unwrap()].iter()), all);
    }
    let latest = store
        .clicks()
        .grouped_click_accounts((0, u32::MAX.into()), AccountGroup::Hour, 2);
    let latest = latest.await.unwrap();
    let hours = latest.groups.iter().map(|group| group.hour);
    assert_eq!(hours.collect::<Vec<_>>(), [start / HOUR, start / HOUR - 1]);
    assert_eq!(latest.all, all, "those that are not shown as well");
}

async fn worker_when_two_processes_meet_it_at_once_counts_once(database: Database) {
    let stores = [database.store().await, database.store().await];
    for worker in 0..20 {
        let tasks = [1, 2].map(|seq| {
            let store = Arc::clone(&stores[usize::try_from(seq).unwrap() - 1]);
            let reports = [from_edge("", worker, seq, now())];
            tokio::spawn(async move {
                store
                    .clicks()
                    .count_clicks(&reports)
                    .await
                    .unwrap()
                    .accounts
            })
        });
        let mut added = ClickAccounts::default();
        for task in tasks {
            added.add(&task.await.unwrap());
        }
        assert_eq!((added.sent, added.dropped, added.counted), (20, 2, 3));
    }
    let accounts = stores[0].clicks().click_accounts().await.unwrap();
    assert_eq!(
        (accounts.sent, accounts.dropped, accounts.counted),
        (400, 40, 60)
    );
}

async fn click_accounts_when_old_become_coarser_and_keep_their_sums(database: Database) {
    let store = database.store().await;
    // Noon, so that the next hour is of the same day.
    let noon = now() / DAY * DAY - DAY / 2;
    let times = [1, 8, 40, 800].map(|days| noon - days * DAY);
    for (at, first) in times.into_iter().rev().zip((1..).step_by(2)) {
        for (edge, seq) in [("a", first), ("b", first + 1)] {
            for (worker, at) in [(255, at), (254, at + HOUR)] {
                let reports = [from_edge(edge, worker, seq, at)];
                store.clicks().count_clicks(&reports).await.unwrap();
            }
        }
    }
    let gone = [from_edge("c", 253, 1, noon - 800 * DAY)];
    store.clicks().count_clicks(&gone).await.unwrap();
    // When a worker was heard of is by the clock of the database.
    database
        .execute(&format!(
            "UPDATE click_workers SET seen_at = seen_at - {} WHERE worker = X'{}'",
            800 * DAY * 1000,
            "fd".repeat(16)
        ))
        .await;
    let all = store.clicks().click_accounts().await.unwrap();
    assert_eq!((all.sent, all.counted), (2 * 80 + 10, 2 * 36 + 1));
    // Workers are looked at from a random one on, and these are among the last ones.
    while store.clicks().purge_clicks(KEPT, 100).await.unwrap() > 0 {}
    database
        .execute("DELETE FROM click_workers WHERE seen_at < 0")
        .await;
    assert_eq!(store.clicks().click_accounts().await.unwrap(), all);
    for by in GROUPS {
        assert_eq!(grouped(&store, by).await.all, all, "{by:?}");
    }
    let mut rows = BTreeMap::new();
    for group in grouped(&store, AccountGroup::Hour).await.groups {
        rows.insert(group.hour, group.accounts.counted);
    }
    let hour = |at: u64| at / HOUR;
    let expected = [
        (0, 2 * 3 + 1),
        (hour(times[2] / DAY * DAY), 2 * 7),
        (hour(times[1]), 11),
        (hour(times[1]) + 1, 11),
        (hour(times[0]), 15),
        (hour(times[0]) + 1, 15),
    ];
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), expected);
    // 4 rows of workers, 4 of hours, 2 of days, and the rest.
    assert_eq!(database.count("click_accounts").await, 11);
    assert_eq!(database.count("click_workers").await, 2);
}

async fn click_accounts_when_too_many_are_folded_before_their_time(database: Database) {
    let store = database.store().await;
    let now = now() / HOUR * HOUR;
    for number in 0..10 {
        let batch = ClickBatch {
            total: 1,
            dropped: 0,
            clicks: vec![("a.example/x", 1)],
            ..batch([number; 16], 1)
        };
        let report = ClickReport {
            received_at: (now - u64::from(number) * HOUR) * 1000,
            ..report(&[batch], now)
        };
        store.clicks().count_clicks(&[report]).await.unwrap();
    }
    let fold = async |most| {
        let folded = store
            .clicks()
            .fold_click_accounts(now * 1000, KEPT, (most, 100));
        folded.await.unwrap()
    };
    assert_eq!(fold(10).await, 0);
    assert_eq!(fold(6).await, 4);
    // Of 4 hours of edges, 1 is one too many, and so are 5 of workers.
    assert_eq!(fold(3).await, 3 + 4);
    assert_eq!(fold(3).await, 0);
    assert_eq!(store.clicks().click_accounts().await.unwrap().sent, 10);
}
