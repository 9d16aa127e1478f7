//! Taking reports of clicks into the queue.

use crate::store::clicking::{Clicking, batch, now, report};
use crate::store::fixture::{Database, create, link};
use edgelink_click_store::{ClickAccounts, ClickReport, ClickRetention, NewBatches, TakenReports};
use edgelink_clicks::analytics::Turn;
use edgelink_wire::clicks::{ClickBatch, decode};
use std::sync::Arc;

on_every_database!(
    batch_when_sent_again_counts_once,
    batches_when_in_order_leave_one_row_of_their_worker,
    batch_when_clocks_differ_counts_once,
    batch_when_an_older_version_has_taken_it_counts_once,
    report_when_some_batches_are_known_queues_the_new_ones,
    batches_when_reported_concurrently_all_count,
    reports_when_read_come_in_order_within_bounds,
    report_when_malformed_is_quarantined,
    hot_keys_when_read_come_most_clicked_first,
    batches_when_old_are_purged_in_small_parts,
);

fn of<'a>(worker: u8, seq: u64, clicks: &[(&'a str, u64)]) -> ClickBatch<'a> {
    ClickBatch {
        clicks: clicks.to_vec(),
        undescribed: u64::from(seq > 1),
        ..batch([worker; 16], seq)
    }
}

fn reports(batches: &[ClickBatch<'_>]) -> Vec<ClickReport> {
    let batches = batches.iter().map(std::slice::from_ref);
    batches.map(|batch| report(batch, now())).collect()
}

async fn batch_when_sent_again_counts_once(database: Database) {
    let store = database.store().await;
    let first = of(1, 1, &[("a.example/x", 3), ("a.example/y", 1)]);
    let second = of(1, 2, &[("a.example/x", 2)]);
    let other = of(2, 1, &[("a.example/x", 1)]);
    let count = async |batches: &[ClickBatch<'_>]| {
        let taken = store
            .clicks()
            .count_clicks(&reports(batches))
            .await
            .unwrap();
        taken.reports.iter().map(|new| new.batches).sum::<usize>()
    };
    assert_eq!(count(&[first.clone(), other.clone()]).await, 2);
    assert_eq!(
        count(&[second.clone(), first.clone(), first.clone()]).await,
        1
    );
    assert_eq!(count(&[first, second, other]).await, 0);
    let accounts = ClickAccounts {
        sent: 30,
        counted: 7,
        dropped: 3,
        undescribed: 1,
    };
    assert_eq!(store.clicks().click_accounts().await.unwrap(), accounts);
    assert_eq!(database.count("click_queue").await, 3);
}

async fn batches_when_in_order_leave_one_row_of_their_worker(database: Database) {
    let store = database.store().await;
    for seq in 1..=50 {
        let reports = reports(&[of(1, seq, &[("a.example/x", 1)])]);
        let taken = store.clicks().count_clicks(&reports).await.unwrap();
        assert_eq!(taken.accounts.counted, 1);
    }
    assert_eq!(database.count("click_batches").await, 0);
    let row = "click_workers WHERE counted = 50 AND LENGTH(taken) <= 4";
    assert_eq!(database.count(row).await, 1);
}

/// That of the control plane which takes it is behind by more than is kept, and then there is a purge.
async fn batch_when_clocks_differ_counts_once(database: Database) {
    let store = database.store().await;
    let batch = of(1, 1, &[("a.example/x", 1)]);
    let count = async |at: u64| {
        let report = report(std::slice::from_ref(&batch), at);
        let taken = store.clicks().count_clicks(&[report]).await.unwrap();
        taken.accounts.counted
    };
    assert_eq!(count(now() - 800 * 86_400).await, 1);
    let kept = ClickRetention {
        hours: 35,
        days: 730,
        raw: 30,
    };
    store.clicks().purge_clicks(kept, 100).await.unwrap();
    assert_eq!(count(now()).await, 0);
    assert_eq!(count(now() + 800 * 86_400).await, 0);
}

/// Control planes from before `click_workers.taken` run beside this one: each knows what the other one has taken.
async fn batch_when_an_older_version_has_taken_it_counts_once(database: Database) {
    let store = database.store().await;
    let millis = now() * 1000;
    let worker = |name: u8| format!("X'{}'", format!("{name:02x}").repeat(16));
    let taken_before = |name: u8, seq: u64| {
        format!(
            "INSERT INTO click_batches (worker, seq, received_at) VALUES ({}, {seq}, {millis})",
            worker(name)
        )
    };
    let row = |name: u8| {
        format!(
            "INSERT INTO click_workers (worker, sent, dropped, undescribed, counted, seen_at) \
             VALUES ({}, 9, 0, 0, 3, {millis})",
            worker(name)
        )
    };
    let script = [
        row(1),
        taken_before(1, 1),
        taken_before(1, 2),
        taken_before(1, 5),
    ];
    database.execute(&script.join("; ")).await;
    let count = async |name: u8, seqs: &[u64]| {
        let clicks = [("a.example/x", 1)];
        let batches: Vec<_> = seqs.iter().map(|seq| of(name, *seq, &clicks)).collect();
        let taken = store
            .clicks()
            .count_clicks(&reports(&batches))
            .await
            .unwrap();
        taken.accounts.counted
    };
    assert_eq!(count(1, &[1, 2, 3, 4, 5]).await, 2);
    // The row is known by now, and the older one goes on.
    database.execute(&taken_before(1, 6)).await;
    assert_eq!(count(1, &[6]).await, 0);
    assert_eq!(count(1, &[6, 7]).await, 1);
    // What this one has taken has rows that the older one finds, and that do not say that it runs.
    let backdated = millis - 2 * 86_400_000;
    let rows = format!("click_batches WHERE seq IN (3, 4, 7) AND received_at < {backdated}");
    assert_eq!(database.count(&rows).await, 3);
    // An hour later they go, and a day after its last one the older control plane counts as gone.
    database
        .execute("UPDATE click_batches SET received_at = received_at - 2 * 86400000")
        .await;
    let kept = ClickRetention {
        hours: 35,
        days: 730,
        raw: 30,
    };
    assert_eq!(store.clicks().purge_clicks(kept, 100).await.unwrap(), 3);
    let alone = database.store().await;
    let clicks = [("a.example/x", 1)];
    let both = reports(&[of(1, 7, &clicks), of(1, 8, &clicks)]);
    let taken = alone.clicks().count_clicks(&both).await.unwrap();
    assert_eq!(taken.accounts.counted, 1);
    assert_eq!(database.count("click_batches WHERE seq = 8").await, 0);
}

async fn report_when_some_batches_are_known_queues_the_new_ones(database: Database) {
    let store = database.store().await;
    let batches = [
        of(1, 1, &[("a.example/x", 1)]),
        of(1, 2, &[("a.example/x", 2)]),
    ];
    let later = of(1, 3, &[("a.example/x", 4)]);
    let [first, second] = batches.clone();
    let both = [
        report(std::slice::from_ref(&second), now()),
        report(&[first, second.clone(), later, second], now()),
    ];
    let taken = store.clicks().count_clicks(&both).await.unwrap();
    let new = taken.reports.iter().map(|new| new.batches);
    assert_eq!(new.collect::<Vec<_>>(), [1, 2]);
    let queued = store.clicks().queued_reports(10, 1 << 20).await.unwrap();
    for (new, queued) in taken.reports.iter().zip(&queued) {
        assert_eq!(new.body.as_deref(), Some(&*queued.body));
    }
    let seqs = queued.iter().map(|report| {
        let batches = decode(&report.body).unwrap();
        batches.iter().map(|batch| batch.seq).collect::<Vec<_>>()
    });
    assert_eq!(seqs.collect::<Vec<_>>(), [vec![2], vec![1, 3]]);
    let bytes: usize = queued.iter().map(|report| report.body.len()).sum();
    assert_eq!(store.clicks().queued_bytes().await.unwrap(), bytes as u64);
    assert_eq!(
        store.clicks().oldest_report().await.unwrap(),
        Some(queued[0].received_at)
    );
}

async fn batches_when_reported_concurrently_all_count(database: Database) {
    let stores = [database.store().await, database.store().await];
    let tasks: Vec<_> = (0..8)
        .map(|worker: u8| {
            let store = Arc::clone(&stores[usize::from(worker) % 2]);
            tokio::spawn(async move {
                for seq in 1..=10 {
                    let clicks = [("a.example/x", 1), ("a.example/y", 1), ("a.example/z", 1)];
                    let reports = reports(&[of(worker, seq, &clicks)]);
                    store.clicks().count_clicks(&reports).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(
        stores[0].clicks().click_accounts().await.unwrap().counted,
        240
    );
    assert_eq!(database.count("click_queue").await, 80);
}

async fn reports_when_read_come_in_order_within_bounds(database: Database) {
    let store = database.store().await;
    // Each has clicks without attributes, and so is as long as the others.
    for seq in 2..=6 {
        let report = report(&[of(1, seq, &[("a.example/x", 1)])], now());
        store.clicks().count_clicks(&[report]).await.unwrap();
    }
    let read = async |rows, bytes| {
        let reports = store.clicks().queued_reports(rows, bytes).await.unwrap();
        let seqs = reports.iter();
        let seqs = seqs.map(|report| decode(&report.body).unwrap()[0].seq);
        seqs.collect::<Vec<_>>()
    };
    let size = store.clicks().queued_bytes().await.unwrap() / 5;
    assert_eq!(read(2, u64::MAX).await, [2, 3]);
    assert_eq!(read(10, 3 * size).await, [2, 3, 4]);
    assert_eq!(read(10, 1).await, [2], "one at least");
    assert_eq!(read(10, u64::MAX).await, [2, 3, 4, 5, 6]);
}

async fn report_when_malformed_is_quarantined(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    create(&clicking.store, link(0, "a")).await.unwrap();
    let bad = "INSERT INTO click_queue (received_at, bytes, body) VALUES (5, 3, X'ff0102')";
    database.execute(bad).await;
    clicking.report(&[of(1, 1, &[("a.example/a", 3)])]).await;
    assert_eq!(clicking.writer.turn().await.unwrap(), Turn::Written);
    assert_eq!(clicking.writer.turn().await.unwrap(), Turn::Idle);
    assert_eq!(clicking.total(0).await, 3, "a link may have the number 0");
    assert_eq!(database.count("click_queue WHERE aside = 1").await, 1);
    assert_eq!(clicking.store.clicks().queued_bytes().await.unwrap(), 0);
    let kept = ClickRetention {
        hours: 35,
        days: 730,
        raw: 30,
    };
    assert_eq!(
        clicking
            .store
            .clicks()
            .purge_clicks(kept, 10)
            .await
            .unwrap(),
        1
    );
}

async fn hot_keys_when_read_come_most_clicked_first(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    let store = clicking.store.clone();
    for (id, code) in [(1, "x"), (2, "y"), (3, "z")] {
        create(&store, link(id, code)).await.unwrap();
    }
    clicking
        .follow(&[("x", 3), ("y", 7), ("z", 5), ("absent", 9)])
        .await;
    let hot = store.clicks().hot_keys(2).await.unwrap();
    assert_eq!(hot, ["a.example/y", "a.example/z"]);
    // Another process goes on where this one was.
    drop(clicking);
    database.execute("UPDATE leases SET lease_until = 0").await;
    let mut next = Clicking::new(&database).await;
    next.seq_from(10);
    next.follow(&[("x", 3)]).await;
    let hot = store.clicks().hot_keys(3).await.unwrap();
    assert_eq!(hot, ["a.example/y", "a.example/x", "a.example/z"]);
    database.execute("UPDATE hot_links SET until = 5").await;
    assert!(store.clicks().hot_keys(3).await.unwrap().is_empty());
}

async fn batches_when_old_are_purged_in_small_parts(database: Database) {
    let store = database.store().await;
    let first = reports(&[of(1, 1, &[("a.example/x", 1)])]);
    let taken = store.clicks().count_clicks(&first).await.unwrap();
    assert_eq!(taken.accounts.counted, 1);
    // Five of the ten rows that older control planes have left are too old.
    let rows = (1..=10).map(|seq| {
        let hours = if seq <= 5 { 73 } else { 0 };
        let at = (now() - hours * 60 * 60) * 1000;
        format!("(X'{}', {seq}, {at})", "02".repeat(16))
    });
    let rows: Vec<String> = rows.collect();
    let insert = "INSERT INTO click_batches (worker, seq, received_at) VALUES";
    database
        .execute(&format!("{insert} {}", rows.join(", ")))
        .await;
    let kept = ClickRetention {
        hours: 35,
        days: 730,
        raw: 30,
    };
    assert_eq!(store.clicks().purge_clicks(kept, 4).await.unwrap(), 4);
    assert_eq!(store.clicks().purge_clicks(kept, 4).await.unwrap(), 1);
    assert_eq!(store.clicks().purge_clicks(kept, 4).await.unwrap(), 0);
    assert_eq!(store.clicks().click_accounts().await.unwrap().counted, 1);
    assert_eq!(database.count("click_queue").await, 1);
    assert_eq!(database.count("click_batches").await, 5);
    let last = reports(&[of(1, 1, &[("a.example/x", 1)])]);
    let taken = store.clicks().count_clicks(&last).await.unwrap();
    assert_eq!(
        taken,
        TakenReports {
            reports: vec![NewBatches::default()],
            ..TakenReports::default()
        }
    );
}
