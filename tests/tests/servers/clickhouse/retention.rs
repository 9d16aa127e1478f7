//! What is over goes.

use crate::clickhouse::fixture::{
    DAY, Random, chunk, drop_expired, engine, midnight, settings, start,
};
use edgelink_clicks::analytics::{AnalyticsQuery, Click, Engine, RawQuery, Visitors};
use edgelink_model::counts::{Bots, ClickScope};
use edgelink_settings::config::AnalyticsConfig;

#[tokio::test]
async fn single_clicks_when_past_their_retention_leave_their_numbers() {
    let (server, engine) = start().await;
    let from = midnight() - 32 * DAY;
    let mut clicks = Random::new(31).clicks(100, from);
    clicks.retain(Click::has_link);
    let scope = ClickScope::Links((0..20).collect());
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
    for table in ["clicks", "link_minutes"] {
        let _ = server.ask(&format!("OPTIMIZE TABLE edgelink.{table} FINAL"));
    }
    assert_eq!(engine.count_raw(&raw, 1_000).await.unwrap(), 0);
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
        0
    );
    assert_eq!(
        engine
            .count(&query, Visitors::Counted)
            .await
            .unwrap()
            .clicks,
        count
    );
}

#[tokio::test]
async fn hours_when_past_their_retention_go_before_days() {
    const TABLES: [&str; 5] = [
        "link_hours",
        "value_hours",
        "value_days",
        "link_days",
        "link_value_days",
    ];
    let (server, first) = start().await;
    let mut clicks = Random::new(32).clicks(100, midnight() - 14 * DAY);
    clicks.retain(Click::has_link);
    first.insert(1, &chunk(&clicks, Vec::new())).await.unwrap();
    while first.upkeep(midnight()).await.unwrap() {}
    let kept = settings(&server.url());
    for (hours_days, days, expected) in [
        (kept.hours_days, kept.days, [true; 5]),
        (3, kept.days, [false, false, true, true, true]),
        (3, 5, [false; 5]),
    ] {
        let shorter = AnalyticsConfig {
            hours_days,
            days,
            ..settings(&server.url())
        };
        engine(&shorter).await.totals(&[1]).await.unwrap();
        let there = TABLES.map(|table| {
            drop_expired(&server, table);
            let rows = server.ask(&format!("SELECT count() FROM edgelink.{table}"));
            rows.trim() != "0"
        });
        assert_eq!(there, expected, "{hours_days} and {days} days");
    }
}

#[tokio::test]
async fn retention_when_changed_counts_from_the_next_start_on() {
    let (server, first) = start().await;
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
