//! The engine in the database and the one in ClickHouse, with the same clicks.

use crate::clickhouse::fixture::{
    DAY, HOUR, Random, TestEngine, change_visitors_daily, chunk, drop_expired, engine, midnight,
    settings, start,
};
use crate::clickhouse::model::Model;
use edgelink_clicks::analytics::{
    AnalyticsQuery, Chunk, Click, ClickHouse, Engine, Granularity, GroupBy, Interval, MAX_VALUES,
    Orphan, OrphanGroup, Question, RawQuery, SqlEngine, Summary, orphans, zone,
};
use edgelink_model::counts::{Attribute, Bots, ClickScope};
use edgelink_settings::config::AnalyticsConfig;
use edgelink_tests::servers::ClickHouseServer;
use std::sync::Arc;

const BOTS: [Bots; 3] = [Bots::Included, Bots::Excluded, Bots::Only];

const ZONES: [&str; 3] = ["UTC", "Europe/Berlin", "Asia/Kolkata"];

/// The links and domains of [`Random`].
async fn create_links(engine: &TestEngine) {
    for domain in 1..=4 {
        let insert =
            format!("INSERT INTO domains (id, name) VALUES ({domain}, 'd{domain}.example')");
        engine.execute(&insert).await;
    }
    for link in 1..12 {
        let (domain, tenant) = (1 + link % 4, 1 + link % 2);
        let tags = match link % 3 {
            0 => "[]",
            1 => r#"["a tag"]"#,
            _ => r#"["a tag","it''s \"another\" ?"]"#,
        };
        let insert = format!(
            "INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, title, tags, created_at, \
             updated_at, tenant_id, rev) VALUES ({link}, {domain}, 'code{link}', 'https://e.example/', 0, 302, 0, 1, NULL, '{tags}', \
             1, 1, {tenant}, 1)"
        );
        engine.execute(&insert).await;
    }
}

/// Clicks of three days, the present one among them.
fn clicks(random: &mut Random, count: usize) -> (Vec<Click>, Vec<Orphan>) {
    clicks_from(random, count, midnight())
}

/// Clicks of three days.
fn clicks_from(random: &mut Random, count: usize, from: u64) -> (Vec<Click>, Vec<Orphan>) {
    let mut clicks = random.clicks(count, from);
    change_visitors_daily(&mut clicks);
    (clicks, random.orphans(count / 10, from))
}

fn scopes() -> [ClickScope; 7] {
    let domain = |tenant_id, domain_id| ClickScope::Domain {
        tenant_id,
        domain_id,
    };
    [
        ClickScope::Tenant(1),
        ClickScope::Tenant(2),
        ClickScope::Tenant(0),
        domain(1, 1),
        domain(2, 2),
        ClickScope::Links(vec![5]),
        ClickScope::Links((0..40).collect()),
    ]
}

#[tokio::test]
async fn engines_when_asked_the_same_give_the_same_answers() {
    let (_server, clickhouse) = start().await;
    create_links(&clickhouse).await;
    let settings = AnalyticsConfig::default();
    let sql = SqlEngine::new(clickhouse.store.clone(), settings);
    let mut random = Random::new(17);
    for insert in 0..3 {
        let (clicks, orphans) = clicks(&mut random, 900);
        let mut chunk = chunk(&clicks, orphans);
        clickhouse.insert(40 + insert, &chunk).await.unwrap();
        chunk.rows = Vec::new();
        sql.write(&chunk).await.unwrap();
    }
    compare(&sql, &clickhouse, &mut random, 2).await;
    // Days that are over are added up, and then answer instead of their hours and clicks.
    let settled = midnight() + 2 * DAY + HOUR;
    while clickhouse.upkeep(settled).await.unwrap() {}
    compare(&sql, &clickhouse, &mut random, 5).await;
}

/// Asks both of every scope and interval by so many groups: each group's turn comes.
async fn compare(sql: &SqlEngine, clickhouse: &TestEngine, random: &mut Random, groups: usize) {
    let mut turns = GroupBy::ALL.into_iter().cycle();
    let from = midnight();
    for scope in scopes() {
        for hours in [0..72, 0..48, 5..24, 20..51, 71..72] {
            let interval = Interval {
                from: from + hours.start * HOUR,
                to: from + hours.end * HOUR,
            };
            for (group_by, _) in turns.by_ref().take(groups) {
                // Tenants have links; clicks without one have none.
                if (&scope, group_by) == (&ClickScope::Tenant(0), GroupBy::Values(Attribute::Link))
                {
                    continue;
                }
                let question = Question {
                    scope: scope.clone(),
                    bots: BOTS[random.below(3) as usize],
                    group_by,
                    limit: [2, MAX_VALUES][random.below(2) as usize],
                };
                let zone = zone(ZONES[random.below(3) as usize]).unwrap();
                let granularity = [Granularity::Hour, Granularity::Day][random.below(2) as usize];
                let slots = interval.slots(granularity, &zone).unwrap();
                same(sql, clickhouse, &question, (interval, &slots)).await;
            }
        }
        same_raw(sql, clickhouse, &scope).await;
    }
    for by in [OrphanGroup::Path, OrphanGroup::Kind, OrphanGroup::Domain] {
        let query = raw(ClickScope::Tenant(1), true);
        let one = orphans(sql, query.clone(), by, 2).await.unwrap();
        let other = orphans(&**clickhouse, query, by, 2).await.unwrap();
        assert_eq!(one, other, "by {by:?}");
    }
}

/// Asks both the same question; their answer.
async fn same(
    sql: &SqlEngine,
    clickhouse: &TestEngine,
    question: &Question,
    (interval, slots): (Interval, &[u64]),
) -> Summary {
    let shown = format!("{question:?}, {interval:?}");
    let one = question.ask(sql, interval, slots).await.unwrap();
    let other = question.ask(&**clickhouse, interval, slots).await.unwrap();
    assert_eq!(one.clicks, other.clicks, "{shown}");
    assert_eq!(one.values, other.values, "{shown}");
    assert_eq!(one.other, other.other, "{shown}");
    assert_eq!(one.visitors.is_some(), other.visitors.is_some(), "{shown}");
    assert_close(
        one.visitors.unwrap_or(0),
        other.visitors.unwrap_or(0),
        &shown,
    );
    assert_eq!(one.slots.len(), other.slots.len(), "{shown}");
    for (one, other) in one.slots.iter().zip(&other.slots) {
        assert_eq!(one.from, other.from, "{shown}");
        assert_eq!(
            one.numbers.clicks, other.numbers.clicks,
            "{shown} {slots:?}"
        );
        assert_close(one.numbers.visitors, other.numbers.visitors, &shown);
    }
    if one.clicks > 0 && question.group_by == GroupBy::Values(Attribute::Country) {
        assert!(!one.values.is_empty(), "{shown}");
    }
    one
}

#[tokio::test]
async fn engines_when_a_day_has_no_hours_count_it_as_a_whole() {
    let server = ClickHouseServer::start();
    let mut clickhouse = engine(&settings(&server.url())).await;
    create_links(&clickhouse).await;
    let short = AnalyticsConfig {
        hours_days: 2,
        ..settings(&server.url())
    };
    let sql = SqlEngine::new(clickhouse.store.clone(), short.clone());
    let mut random = Random::new(18);
    let mut model = Model::default();
    for insert in 0..3 {
        let from = midnight() - insert * 2 * DAY;
        let (clicks, _) = clicks_from(&mut random, 700, from);
        let mut chunk = chunk(&clicks, Vec::new());
        clickhouse.insert(50 + insert, &chunk).await.unwrap();
        chunk.rows = Vec::new();
        sql.write(&chunk).await.unwrap();
        model.clicks.extend(clicks);
    }
    let now = midnight() + 2 * DAY + HOUR;
    while clickhouse.upkeep(now).await.unwrap() {}
    clickhouse.engine = Arc::new(ClickHouse::new(&short, clickhouse.store.clicks().clone()));
    clickhouse.totals(&[1]).await.unwrap();
    for table in ["link_hours", "domain_hours", "value_hours"] {
        drop_expired(&server, table);
    }
    assert_whole_days(&sql, &clickhouse, &model).await;
}

/// Asks both about intervals that begin and end within days of which no hours are known, in several zones.
async fn assert_whole_days(sql: &SqlEngine, clickhouse: &TestEngine, model: &Model) {
    let hours_from = midnight() + DAY;
    let from = hours_from - 5 * DAY;
    let zones = [
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kolkata",
        "Pacific/Auckland",
    ];
    for (name, hours) in zones
        .into_iter()
        .flat_map(|zone| [0..144, 5..100, 22..118, 30..33, 61..109].map(|hours| (zone, hours)))
    {
        let asked = Interval {
            from: from + hours.start * HOUR,
            to: from + hours.end * HOUR,
        };
        let slots = asked.slots(Granularity::Day, &zone(name).unwrap()).unwrap();
        let interval = asked.whole_days_before(hours_from);
        let bounds = interval.bounds(&slots, Granularity::Day, hours_from);
        for (scope, group_by) in [
            (ClickScope::Tenant(1), GroupBy::Timeseries),
            (ClickScope::Links((0..40).collect()), GroupBy::Timeseries),
            (ClickScope::Tenant(1), GroupBy::Values(Attribute::Country)),
            (
                ClickScope::Links(vec![1, 5]),
                GroupBy::Values(Attribute::Country),
            ),
        ] {
            let query = AnalyticsQuery {
                scope: scope.clone(),
                from: interval.from,
                to: interval.to,
                bots: Bots::Included,
            };
            let question = Question {
                scope,
                bots: Bots::Included,
                group_by,
                limit: MAX_VALUES,
            };
            let answer = same(sql, clickhouse, &question, (interval, &bounds)).await;
            let shown = format!("{name}, {hours:?}, {question:?}");
            let expected = model.count(&query);
            assert_eq!(answer.clicks, expected.clicks, "{shown}");
            if let GroupBy::Values(by) = group_by {
                let values = model.breakdown(&query, by, MAX_VALUES);
                assert_eq!(answer.values, values, "{shown}");
                assert_eq!(answer.visitors, None, "{shown}");
                continue;
            }
            let visitors = answer.visitors.expect("a number");
            assert_close(visitors, expected.visitors, &shown);
            for (found, expected) in answer.slots.iter().zip(model.series(&query, &bounds)) {
                assert_eq!(found.numbers.clicks, expected.numbers.clicks, "{shown}");
            }
        }
    }
}

/// Estimates are within 2 % of each other.
fn assert_close(one: u64, other: u64, shown: &str) {
    assert!(
        one.abs_diff(other) * 50 <= one.max(other),
        "{one} and {other} visitors: {shown}"
    );
}

fn raw(scope: ClickScope, orphans: bool) -> RawQuery {
    RawQuery {
        scope,
        from: midnight(),
        to: midnight() + 3 * DAY,
        bots: Bots::Excluded,
        orphans,
        after: None,
        skip: 0,
        limit: 10_000,
    }
}

async fn same_raw(sql: &SqlEngine, clickhouse: &TestEngine, scope: &ClickScope) {
    let query = raw(scope.clone(), false);
    let [one, other] = [sql.raw(&query).await, clickhouse.raw(&query).await].map(|found| {
        let found = found.unwrap().into_iter();
        let mut clicks: Vec<String> = found
            .map(|click| format!("{} {} {:?}", click.place.at, click.key, click.described))
            .collect();
        clicks.sort();
        clicks
    });
    assert_eq!(one, other, "{scope:?}");
    assert_eq!(one.is_empty(), *scope == ClickScope::Tenant(9));
}

#[tokio::test]
async fn orphan_visits_when_beyond_the_bound_of_a_day_are_only_counted() {
    let server = ClickHouseServer::start();
    let bounded = AnalyticsConfig {
        max_orphans: 5,
        ..settings(&server.url())
    };
    let clickhouse = engine(&bounded).await;
    let mut visits = Random::new(3).orphans(12, midnight());
    for visit in &mut visits {
        (visit.tenant_id, visit.at) = (1, midnight() + 7);
    }
    for (row, visits) in (1..).zip(visits.chunks(4)) {
        let report = format!(
            "INSERT INTO click_queue (id, received_at, bytes, aside, body) VALUES ({row}, 0, 1, 0, X'00')"
        );
        clickhouse.execute(&report).await;
        let chunk = Chunk::of(vec![row], &[], visits.to_vec());
        clickhouse.write(&chunk).await.unwrap();
    }
    let query = RawQuery {
        bots: Bots::Included,
        ..raw(ClickScope::Tenant(1), true)
    };
    assert_eq!(clickhouse.raw(&query).await.unwrap().len(), 5);
    let (store, day) = (&clickhouse.store, midnight() / DAY);
    let beyond = store.clicks().orphans_beyond(1, day..=day, 5).await;
    assert_eq!(beyond.unwrap(), 7);
    assert_eq!(clickhouse.delete_orphans(1).await.unwrap(), 5);
    let beyond = store.clicks().orphans_beyond(1, day..=day, 5).await;
    assert_eq!(beyond.unwrap(), 0);
}
