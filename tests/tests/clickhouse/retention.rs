//! What is over goes.

use crate::fixture::{DAY, Random, chunk, engine, midnight, settings, start};
use edgelink_clicks::analytics::{AnalyticsQuery, Click, Engine, RawQuery, Visitors};
use edgelink_model::counts::{Bots, Scope};
use edgelink_settings::config::AnalyticsConfig;
use edgelink_tests::servers::ClickHouseKind;

#[tokio::test]
async fn single_clicks_go_first_and_their_numbers_stay() {
    for kind in ClickHouseKind::ALL {
        let (server, engine) = start(kind).await;
        let from = midnight() - 32 * DAY;
        let mut clicks = Random::new(31).clicks(100, from);
        clicks.retain(Click::has_link);
        let scope = Scope::Links((0..20).collect());
        let count: u64 = clicks.iter().map(|click| click.count).sum();
        engine.insert(1, &chunk(&clicks, Vec::new())).await.unwrap();
        let query = AnalyticsQuery {
            scope,
            from,
            to: from + 3 * DAY,
            bots: Bots::Included,
        };
        let raw = RawQuery {
            scope: query.scope.clone(),
            from,
            to: query.to,
            bots: Bots::Included,
            orphans: false,
            after: None,
            skip: 0,
            limit: 1_000,
        };
        engine.expire(midnight() + 2 * DAY).await.unwrap();
        if kind == ClickHouseKind::Chdb {
            for table in ["clicks", "link_minutes"] {
                let _ = server.ask(&format!("OPTIMIZE TABLE edgelink.{table} FINAL"));
            }
        }
        assert_eq!(engine.count_raw(&raw, 1_000).await.unwrap(), 0, "{kind:?}");
        let minute = AnalyticsQuery {
            from: from + 60,
            ..query.clone()
        };
        assert_eq!(
            engine
                .count(&minute, Visitors::Counted)
                .await
                .unwrap()
                .clicks,
            0,
            "{kind:?}"
        );
        assert_eq!(
            engine
                .count(&query, Visitors::Counted)
                .await
                .unwrap()
                .clicks,
            count,
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn hours_go_before_days() {
    let (server, engine) = start(ClickHouseKind::Debian).await;
    let mut clicks = Random::new(32).clicks(100, midnight() - 14 * DAY);
    clicks.retain(Click::has_link);
    engine.insert(1, &chunk(&clicks, Vec::new())).await.unwrap();
    while engine.upkeep(midnight()).await.unwrap() {}
    let is_there = |table: &str| {
        let rows = server.ask(&format!("SELECT count() FROM edgelink.{table}"));
        rows.trim() != "0"
    };
    let tables = ["link_hours", "value_days", "link_days", "link_value_days"];
    let there = || tables.map(is_there);
    let AnalyticsConfig {
        hours_days, days, ..
    } = settings(&server.url());
    // Hours are in partitions of a week, days in those of a month, months in those of a year.
    for (after, expected) in [
        (hours_days - 20, [true, true, true, true]),
        (hours_days + 8, [false, true, true, true]),
        (days - 20, [false, true, true, true]),
        (days + 370, [false, false, false, false]),
    ] {
        engine.expire(midnight() + after * DAY).await.unwrap();
        assert_eq!(there(), expected, "{after}");
    }
}

#[tokio::test]
async fn a_retention_that_is_changed_counts_from_the_next_start_on() {
    let (server, first) = start(ClickHouseKind::Chdb).await;
    first.totals(&[1]).await.unwrap();
    let changed = AnalyticsConfig {
        raw_days: 91,
        ..settings(&server.url())
    };
    engine(&changed).await.totals(&[1]).await.unwrap();
    let made = "SELECT name FROM system.tables WHERE database = 'edgelink' \
                AND create_table_query LIKE '%toIntervalDay(91)%' ORDER BY name";
    assert_eq!(server.ask(made), "clicks\norphans\n");
}
