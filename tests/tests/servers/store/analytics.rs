//! Tests of what only the engine in the database has: its rows, its days, and failures of its statements. [`crate::engines`] has the
//! rest.

use crate::engines::fixture::{Tested, about};
use crate::engines::random::{DAY, HOUR, midnight};
use crate::engines::single::{all_of, all_orphans};
use crate::store::clicking::{Clicking, batch, now, report};
use crate::store::fixture::{Database, create, link};
use edgelink_click_store::{ClickRetention, DayProgress};
use edgelink_clicks::analytics::{Engine, EngineError, Numbers, Slot, Turn, Visitors};
use edgelink_model::counts::ClickScope;
use edgelink_settings::config::AnalyticsConfig;
use edgelink_store::Store;
use edgelink_wire::clicks::ClickBatch;

on_every_database!(
    chunk_when_its_write_fails_is_written_whole_later,
    days_when_without_hours_have_the_clicks_of_each_hour,
    click_when_its_day_is_being_rolled_up_is_counted,
    single_clicks_when_none_are_kept_are_only_counted,
    clicks_when_past_their_retention_are_purged,
    clicks_when_dated_in_the_future_hold_up_no_purge,
    report_when_a_table_is_missing_is_not_quarantined,
    report_when_it_cannot_be_written_is_quarantined_alone,
);

async fn create_links(store: &Store) {
    for (id, code) in (1..).zip(["a", "b", "c"]) {
        create(store, link(id, code)).await.unwrap();
    }
}

async fn chunk_when_its_write_fails_is_written_whole_later(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    create_links(&clicking.store).await;
    clicking.follow(&[("a", 1)]).await;
    let queued = batch([2; 16], 1);
    clicking
        .report(&[ClickBatch {
            clicks: vec![("a.example/a", 5)],
            ..queued
        }])
        .await;
    let refusal = if database.is_sqlite() {
        "CREATE TRIGGER refusal BEFORE INSERT ON click_events BEGIN SELECT RAISE(ABORT, 'no'); END"
    } else {
        "CREATE TRIGGER refusal BEFORE INSERT ON click_events FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205"
    };
    database.execute(refusal).await;
    // In SQLite it is a failure for good, after which the report is set aside.
    let _ = clicking.writer.turn().await;
    assert_eq!(clicking.total(1).await, 1);
    assert_eq!(database.count("click_queue").await, 1);
    database.execute("DROP TRIGGER refusal").await;
    database.execute("UPDATE click_queue SET aside = 0").await;
    clicking.write().await;
    assert_eq!(clicking.total(1).await, 6);
    assert_eq!(database.count("click_events").await, 2);
}

async fn days_when_without_hours_have_the_clicks_of_each_hour(database: Database) {
    let mut tested = Tested::in_database(database).await;
    let (from, to) = (midnight(), midnight() + 2 * DAY);
    tested.begin_days(from).await;
    tested.write_some(400, 0, from - DAY).await;
    tested.roll_up(to + HOUR).await;
    let until = tested.store.clicks().days_until().await.unwrap();
    assert_eq!(u64::from(until), to / DAY);
    assert!(tested.database.count("click_days").await > 0);
    tested.database.execute("DELETE FROM click_hours").await;
    tested.restart(|settings| settings.hours_days = 0);
    assert_hours_of_days(&tested, from).await;
    // Clicks of a day that is summed up are added to it.
    tested.write_some(400, 0, from - DAY).await;
    assert_hours_of_days(&tested, from).await;
}

/// Asserts that the rollups of two days have their values, and the clicks of each hour.
async fn assert_hours_of_days(tested: &Tested, from: u64) {
    for scope in tested.scopes() {
        tested.assert_days(&about(scope.clone(), from, 0..48)).await;
        let part = about(scope, from, 17..48);
        let hours: Vec<u64> = (part.from..part.to).step_by(HOUR as usize).collect();
        let clicks = |(all, slots): (Numbers, Vec<Slot>)| {
            let slots = slots.into_iter().map(|slot| slot.numbers.clicks);
            (all.clicks, slots.collect::<Vec<_>>())
        };
        let found = tested.engine.series(&part, &hours).await.unwrap();
        let expected = tested.model.series(&part, &hours).await.unwrap();
        assert_eq!(clicks(found), clicks(expected), "{part:?}");
    }
}

async fn click_when_its_day_is_being_rolled_up_is_counted(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    create_links(&clicking.store).await;
    clicking.follow(&[("a", 2)]).await;
    let today = u32::try_from(now() / DAY).unwrap();
    let store = clicking.store.clone();
    let mut next = store
        .clicks()
        .build_day(DayProgress::begin(today), 1000)
        .await
        .unwrap();
    assert_eq!(database.count("click_days").await, 1, "links are done");
    clicking.follow(&[("a", 1), ("b", 3)]).await;
    while let Some(progress) = next {
        next = store.clicks().build_day(progress, 1000).await.unwrap();
    }
    assert_eq!(store.clicks().days_until().await.unwrap(), today + 1);
    database.execute("DELETE FROM click_hours").await;
    // Of two links, the domain and the tenant.
    assert_eq!(database.count("click_days").await, 4);
    let query = about(ClickScope::Links(vec![1, 2]), u64::from(today) * DAY, 0..24);
    let numbers = clicking
        .engine
        .count(&query, Visitors::Counted)
        .await
        .unwrap();
    assert_eq!(numbers.clicks, 6);
}

async fn single_clicks_when_none_are_kept_are_only_counted(database: Database) {
    let none = AnalyticsConfig {
        raw_days: 0,
        ..AnalyticsConfig::default()
    };
    let mut clicking = Clicking::with(database.store().await, &none);
    create_links(&clicking.store).await;
    clicking.visit("a", 3).await;
    assert_eq!(clicking.total(1).await, 3);
    assert_eq!(database.count("click_events").await, 0);
    for query in [all_of(ClickScope::Tenant(1)), all_orphans(1)] {
        let answer = clicking.engine.raw(&query).await;
        assert!(matches!(answer, Err(EngineError::Unsupported(_))));
        let answer = clicking.engine.count_raw(&query, 9).await;
        assert!(matches!(answer, Err(EngineError::Unsupported(_))));
    }
}

async fn clicks_when_past_their_retention_are_purged(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    create_links(&clicking.store).await;
    let today = now() / DAY * DAY;
    database
        .execute("UPDATE click_state SET days_until = days_until - 10")
        .await;
    for (seq, days) in (1..).zip([9, 5, 0]) {
        let at = today - days * DAY;
        let batch = ClickBatch {
            at,
            clicks: vec![("a.example/a", 1)],
            ..batch([1; 16], seq)
        };
        clicking.take(report(&[batch], at)).await;
        clicking.write().await;
    }
    let kept = ClickRetention {
        hours: 2,
        days: 7,
        raw: 6,
    };
    let purge = async || {
        let mut sum = 0;
        loop {
            let purged = clicking.store.clicks().purge_clicks(kept, 1).await.unwrap();
            if purged == 0 {
                return sum;
            }
            sum += purged;
        }
    };
    // A single click, and accounts that become coarser twice, or thrice; hours stay until their day is summed up.
    assert_eq!(purge().await, 1 + 2 + 3);
    while clicking.engine.upkeep(today + HOUR).await.unwrap() {}
    assert_eq!(purge().await, 2 * 3 + 3, "hours of three kinds, and a day");
    assert_eq!(database.count("click_hours").await, 3);
    assert_eq!(database.count("click_days").await, 3);
    assert_eq!(database.count("click_events").await, 2);
    assert_eq!(clicking.total(1).await, 3);
}

async fn clicks_when_dated_in_the_future_hold_up_no_purge(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    create_links(&clicking.store).await;
    clicking.visit("a", 1).await;
    clicking.visit("b", 2).await;
    // By a clock that was wrong for a moment.
    let wrong = "UPDATE click_events SET at = at + 100 * 86400 WHERE link_id = 1";
    database.execute(wrong).await;
    let kept = ClickRetention {
        hours: 35,
        days: 730,
        raw: 30,
    };
    let purge = async || clicking.store.clicks().purge_clicks(kept, 2).await.unwrap();
    assert_eq!(purge().await, 0);
    let old = "UPDATE click_events SET at = at - 31 * 86400";
    database.execute(old).await;
    assert_eq!(purge().await, 0, "the first one is kept");
    let later = "UPDATE click_marks SET day = day - 31";
    database.execute(later).await;
    assert_eq!(purge().await + purge().await, 3);
    assert_eq!(database.count("click_events").await, 0);
}

async fn report_when_a_table_is_missing_is_not_quarantined(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    create_links(&clicking.store).await;
    clicking.follow(&[("a", 1)]).await;
    clicking
        .report(&[ClickBatch {
            clicks: vec![("a.example/a", 5)],
            ..batch([2; 16], 1)
        }])
        .await;
    database
        .execute("ALTER TABLE click_events RENAME TO elsewhere")
        .await;
    for _ in 0..3 {
        assert!(clicking.writer.turn().await.is_err());
    }
    assert_eq!(database.count("click_queue WHERE aside = 0").await, 1);
    database
        .execute("ALTER TABLE elsewhere RENAME TO click_events")
        .await;
    clicking.write().await;
    assert_eq!(clicking.total(1).await, 6);
}

async fn report_when_it_cannot_be_written_is_quarantined_alone(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    create_links(&clicking.store).await;
    for (seq, code) in [(1, "a"), (2, "b"), (3, "c")] {
        let key = format!("a.example/{code}");
        let batch = ClickBatch {
            clicks: vec![(key.as_str(), seq)],
            ..batch([1; 16], seq)
        };
        clicking.report(&[batch]).await;
    }
    let refusal = if database.is_sqlite() {
        "CREATE TRIGGER refusal BEFORE INSERT ON link_totals WHEN NEW.link_id = 2 BEGIN SELECT RAISE(ABORT, 'no'); END"
    } else {
        "CREATE TRIGGER refusal BEFORE INSERT ON link_totals FOR EACH ROW \
             BEGIN IF NEW.link_id = 2 THEN SIGNAL SQLSTATE '22003'; END IF; END"
    };
    database.execute(refusal).await;
    assert!(clicking.writer.turn().await.is_err());
    while !matches!(clicking.writer.turn().await, Ok(Turn::Idle)) {}
    let totals = [1, 2, 3].map(|id| clicking.total(id));
    let [a, b, c] = totals;
    assert_eq!((a.await, b.await, c.await), (1, 0, 3));
    assert_eq!(database.count("click_queue WHERE aside = 1").await, 1);
}
