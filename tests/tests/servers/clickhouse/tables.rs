//! Minutes, and tables that drop what is over.

use crate::clickhouse::fixture::engine;
use crate::engines::answers::BOTS;
use crate::engines::fixture::{Tested, about, drop_expired, in_clickhouse};
use crate::engines::random::{DAY, HOUR, midnight};
use edgelink_clicks::analytics::{AnalyticsQuery, Click, Engine, Visitors};
use edgelink_model::counts::ClickScope;
use edgelink_settings::config::AnalyticsConfig;
use edgelink_tests::servers::ClickHouseServer;

#[tokio::test]
async fn answers_when_of_minutes_match_the_clicks() {
    let mut tested = Tested::clickhouse().await;
    for _ in 0..2 {
        // A third of the clicks of three days, within an hour.
        let mut clicks = tested.random.clicks(700, midnight());
        for click in clicks.iter_mut().filter(|click| click.at % 3 == 0) {
            click.at = midnight() + DAY + click.at % HOUR;
        }
        tested.write(clicks, Vec::new()).await;
    }
    for scope in tested.scopes() {
        for minutes in [0..60, 7..20, 30..31, 59..121] {
            let begin = |minute: u64| midnight() + DAY + minute * 60;
            let query = AnalyticsQuery {
                scope: scope.clone(),
                from: begin(minutes.start),
                to: begin(minutes.end),
                bots: tested.random.one(&BOTS),
            };
            let slots: Vec<u64> = minutes.map(begin).collect();
            // The number of an interval between two hours is read by the hour.
            let found = tested.engine.series(&query, &slots).await;
            let expected = tested.model.series(&query, &slots).await;
            assert_eq!(found.unwrap(), expected.unwrap(), "{query:?}");
        }
    }
}

#[tokio::test]
async fn minutes_when_past_their_retention_leave_their_hours() {
    let mut tested = Tested::clickhouse().await;
    let from = midnight() - 5 * DAY;
    tested.write_some(100, 0, from).await;
    tested.purge().await;
    let hours = about(ClickScope::Tenant(1), from, 0..72);
    let minutes = AnalyticsQuery {
        from: from + 60,
        ..hours.clone()
    };
    let found = tested.engine.count(&minutes, Visitors::Counted).await;
    assert_eq!(found.unwrap().clicks, 0);
    let found = tested.engine.count(&hours, Visitors::Counted).await;
    let expected = tested.model.count(&hours, Visitors::Counted).await;
    assert_eq!(found.unwrap(), expected.unwrap());
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
    let mut tested = Tested::clickhouse().await;
    let mut clicks = tested.random.clicks(100, midnight() - 14 * DAY);
    clicks.retain(Click::has_link);
    tested.write(clicks, Vec::new()).await;
    tested.roll_up(midnight()).await;
    let kept = tested.settings.clone();
    for (hours_days, days, expected) in [
        (kept.hours_days, kept.days, [true; 5]),
        (3, kept.days, [false, false, true, true, true]),
        (3, 5, [false; 5]),
    ] {
        tested.restart(|settings| {
            settings.hours_days = hours_days;
            settings.days = days;
        });
        tested.engine.totals(&[1]).await.unwrap();
        let server = tested.clickhouse.as_ref().unwrap();
        let there = TABLES.map(|table| {
            drop_expired(server, table);
            let rows = server.ask(&format!("SELECT count() FROM edgelink.{table}"));
            rows.trim() != "0"
        });
        assert_eq!(there, expected, "{hours_days} and {days} days");
    }
}

#[tokio::test]
async fn retention_when_changed_counts_from_the_next_start_on() {
    let server = ClickHouseServer::start();
    let settings = in_clickhouse(&server.url());
    engine(&settings).await.totals(&[1]).await.unwrap();
    let changed = AnalyticsConfig {
        raw_days: 91,
        ..settings
    };
    engine(&changed).await.totals(&[1]).await.unwrap();
    let made = "SELECT name FROM system.tables WHERE database = 'edgelink' \
                AND create_table_query LIKE '%toIntervalDay(91)%' ORDER BY name";
    assert_eq!(server.ask(made), "clicks\norphans\n");
}
