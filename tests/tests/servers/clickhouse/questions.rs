//! Questions, and their answers.

use crate::clickhouse::fixture::{
    DAY, HOUR, Random, change_visitors_daily, chunk, engine, midnight, settings, start,
};
use crate::clickhouse::model::{Model, descends};
use edgelink_clicks::analytics::{
    AnalyticsQuery, Click, Described, Engine, RawPlace, RawQuery, Visitors,
};
use edgelink_model::counts::{Attribute, Bots, ClickScope};
use edgelink_settings::config::AnalyticsConfig;
use edgelink_tests::servers::ClickHouseServer;
use std::sync::Arc;

const BOTS: [Bots; 3] = [Bots::Included, Bots::Excluded, Bots::Only];

fn scopes() -> Vec<ClickScope> {
    vec![
        ClickScope::Tenant(1),
        ClickScope::Tenant(0),
        ClickScope::Tenant(9),
        ClickScope::Domain {
            tenant_id: 2,
            domain_id: 2,
        },
        ClickScope::Domain {
            tenant_id: 1,
            domain_id: 2,
        },
        ClickScope::Links(vec![]),
        ClickScope::Links(vec![5]),
        ClickScope::Links((0..10_000).map(|n| n * 3).collect()),
    ]
}

#[tokio::test]
async fn answers_when_of_hours_and_days_match_the_clicks() {
    let (_server, engine) = start().await;
    let mut random = Random::new(7);
    let from = midnight();
    let mut model = Model::default();
    for insert in 0..4 {
        let clicks = random.clicks(700, from);
        let orphans = random.orphans(50, from);
        model.clicks.extend(clicks.clone());
        model.orphans.extend(orphans.clone());
        engine
            .insert(9 + insert, &chunk(&clicks, orphans))
            .await
            .unwrap();
    }
    for scope in scopes() {
        for interval in [0..72, 5..24, 24..48, 20..51, 71..72] {
            let query = AnalyticsQuery {
                scope: scope.clone(),
                from: from + interval.start * HOUR,
                to: from + interval.end * HOUR,
                bots: BOTS[random.below(3) as usize],
            };
            ask(&*engine, &model, &query, &mut random).await;
        }
    }
    let links: Vec<u64> = (0..100).collect();
    assert_eq!(engine.totals(&links).await.unwrap(), model.totals());
    assert!(engine.totals(&[]).await.unwrap().is_empty());
}

/// Asks everything about an interval.
async fn ask(engine: &impl Engine, model: &Model, query: &AnalyticsQuery, random: &mut Random) {
    let shown = format!("{query:?}");
    // So few visitors are counted one by one.
    assert_eq!(
        engine.count(query, Visitors::Counted).await.unwrap(),
        model.count(query),
        "{shown}"
    );
    let steps = [HOUR, 5 * HOUR, DAY];
    let step = steps[random.below(3) as usize];
    let first = (query.from / step + 1) * step;
    let later = (first..query.to).step_by(step as usize);
    let slots: Vec<u64> = [query.from].into_iter().chain(later).collect();
    let series = engine.series(query, &slots).await.unwrap();
    assert_eq!(
        series,
        (model.count(query), model.series(query, &slots)),
        "{shown}"
    );
    let by = Attribute::ALL[random.below(17) as usize];
    let limit = [1, 3, 1_000][random.below(3) as usize];
    let found = engine.breakdown(query, by, limit).await.unwrap();
    assert_eq!(
        found,
        (model.count(query).clicks, model.breakdown(query, by, limit)),
        "{shown} by {by:?}, {limit}"
    );
}

#[tokio::test]
async fn answers_when_of_whole_months_match_the_clicks() {
    let server = ClickHouseServer::start();
    let settings = AnalyticsConfig {
        raw_days: 100,
        hours_days: 100,
        ..settings(&server.url())
    };
    let engine = engine(&settings).await;
    let mut random = Random::new(12);
    let mut model = Model::default();
    // A whole month lies in 61 days, and parts of those before and behind it.
    let from = midnight() - 61 * DAY;
    for insert in 0..7 {
        let clicks = random.clicks(400, from + insert * 10 * DAY);
        let is_past = |click: &Click| click.at < midnight() + 2 * DAY;
        let mut clicks: Vec<Click> = clicks.into_iter().filter(is_past).collect();
        change_visitors_daily(&mut clicks);
        model.clicks.extend(clicks.clone());
        let chunk = chunk(&clicks, Vec::new());
        engine.insert(9 + insert, &chunk).await.unwrap();
    }
    while engine.upkeep(midnight() + 2 * DAY).await.unwrap() {}
    for table in ["link_months", "link_value_months"] {
        let rows = server.ask(&format!("SELECT count() > 0 FROM edgelink.{table}"));
        assert_eq!(rows.trim(), "1", "{table}");
    }
    let links: Vec<u64> = (0..20).collect();
    for scope in [ClickScope::Tenant(1), ClickScope::Links(links.clone())] {
        for hours in [0..64 * 24, 5..60 * 24 + 3, 20 * 24..50 * 24, 9..1_500] {
            let query = AnalyticsQuery {
                scope: scope.clone(),
                from: from + hours.start * HOUR,
                to: from + hours.end * HOUR,
                bots: BOTS[random.below(3) as usize],
            };
            for _ in 0..5 {
                ask(&*engine, &model, &query, &mut random).await;
            }
        }
    }
    engine.delete(&links).await.unwrap();
    for table in ["link_months", "link_value_months"] {
        let rows = server.ask(&format!("SELECT count() FROM edgelink.{table}"));
        assert_eq!(rows.trim(), "0", "{table}");
    }
}

#[tokio::test]
async fn answers_when_of_minutes_match_the_clicks() {
    let (_server, engine) = start().await;
    let mut random = Random::new(11);
    let mut model = Model::default();
    for insert in 0..2 {
        // A third of the clicks of three days, within an hour.
        let mut clicks = random.clicks(700, midnight());
        for click in clicks.iter_mut().filter(|click| click.at % 3 == 0) {
            click.at = midnight() + DAY + click.at % HOUR;
        }
        model.clicks.extend(clicks.clone());
        let chunk = chunk(&clicks, Vec::new());
        engine.insert(9 + insert, &chunk).await.unwrap();
    }
    for scope in scopes() {
        for minutes in [0..60, 7..20, 30..31, 59..121] {
            let begin = |minute: u64| midnight() + DAY + minute * 60;
            let query = AnalyticsQuery {
                scope: scope.clone(),
                from: begin(minutes.start),
                to: begin(minutes.end),
                bots: BOTS[random.below(3) as usize],
            };
            let slots: Vec<u64> = minutes.map(begin).collect();
            let found = engine.series(&query, &slots).await.unwrap();
            let expected = (model.count(&query), model.series(&query, &slots));
            // The number of an interval between two hours is read by the hour.
            assert_eq!(found, expected, "{query:?}");
        }
    }
}

#[tokio::test]
async fn clicks_when_read_page_by_page_are_all_there_once() {
    let (_server, engine) = start().await;
    let mut random = Random::new(8);
    let from = midnight();
    let model = Model {
        clicks: random.clicks(800, from),
        orphans: random.orphans(300, from),
    };
    let whole = chunk(&model.clicks, model.orphans.clone());
    engine.insert(3, &whole).await.unwrap();
    for (orphans, limit) in [(false, 1), (false, 37), (false, 5_000), (true, 19)] {
        for scope in scopes() {
            if orphans && matches!(scope, ClickScope::Links(_)) {
                continue; // they are of no link
            }
            for bots in BOTS {
                let limited = if limit == 1 { 40 } else { u32::MAX };
                let query = RawQuery {
                    scope: scope.clone(),
                    from: from + 100,
                    to: from + 2 * DAY + 77,
                    bots,
                    orphans,
                    after: None,
                    skip: 0,
                    limit,
                };
                pages(&*engine, &model, &query, limited).await;
            }
        }
    }
}

/// Reads page by page, and compares at most `most` clicks with the model.
async fn pages(engine: &impl Engine, model: &Model, query: &RawQuery, most: u32) {
    let expected = model.raw(query);
    let count = engine.count_raw(query, u64::MAX >> 1).await.unwrap();
    assert_eq!(count, expected.len() as u64, "{query:?}");
    assert_eq!(engine.count_raw(query, 2).await.unwrap(), count.min(2));
    let mut found = Vec::new();
    let mut places: Vec<RawPlace> = Vec::new();
    let mut page = query.clone();
    while found.len() < most as usize {
        let raw = engine.raw(&page).await.unwrap();
        assert!(raw.len() <= query.limit as usize);
        let skipped = RawQuery {
            after: None,
            skip: places.len() as u64,
            ..query.clone()
        };
        let by_skipping = engine.raw(&skipped).await.unwrap();
        let same = raw
            .iter()
            .zip(&by_skipping)
            .all(|(a, b)| a.place == b.place);
        assert!(same && raw.len() == by_skipping.len());
        let Some(last) = raw.last() else {
            break;
        };
        page.after = Some(last.place);
        places.extend(raw.iter().map(|click| click.place));
        found.extend(raw.into_iter().map(|click| {
            assert_eq!(click.orphan.is_some(), query.orphans);
            (
                click.place.at,
                click.link_id,
                Arc::from(click.key),
                click.described.country,
            )
        }));
    }
    assert!(descends(&places), "{places:?}");
    let times = |raw: &[(u64, u64, Arc<str>, Arc<str>)]| -> Vec<u64> {
        raw.iter().map(|click| click.0).collect()
    };
    assert_eq!(times(&found), times(&expected[..found.len()]));
    if found.len() == expected.len() {
        found.sort();
        found.reverse();
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn click_when_read_is_as_it_was_written() {
    let (_server, engine) = start().await;
    let mut random = Random::new(9);
    let from = midnight();
    let mut clicks = random.clicks(60, from);
    let orphans = random.orphans(1, from);
    let described: Vec<Described> = clicks
        .iter_mut()
        .enumerate()
        .map(|(place, click)| {
            click.at = from + place as u64;
            (click.tenant_id, click.link_id) = (1, 4);
            click.described.as_deref().cloned().unwrap_or_default()
        })
        .collect();
    clicks.iter_mut().for_each(|click| click.count = 1);
    engine
        .insert(1, &chunk(&clicks, orphans.clone()))
        .await
        .unwrap();
    let query = RawQuery {
        scope: ClickScope::Links(vec![4]),
        from,
        to: from + DAY,
        bots: Bots::Included,
        orphans: false,
        after: None,
        skip: 0,
        limit: 100,
    };
    let mut found = engine.raw(&query).await.unwrap();
    found.reverse();
    let found: Vec<Described> = found.into_iter().map(|click| click.described).collect();
    assert_eq!(found, described);
    let query = RawQuery {
        scope: ClickScope::Tenant(orphans[0].tenant_id),
        to: from + 3 * DAY,
        orphans: true,
        ..query
    };
    let found = engine.raw(&query).await.unwrap();
    assert_eq!(found[0].described, *orphans[0].described);
    assert_eq!(found[0].orphan, Some(orphans[0].kind));
    assert_eq!(
        (found[0].key.as_str(), found[0].place.at),
        (&*orphans[0].url, orphans[0].at)
    );
}

#[tokio::test]
async fn visitors_when_a_million_are_counted_within_two_percent() {
    const VISITORS: u64 = 1_000_000;
    let (_server, engine) = start().await;
    let mut random = Random::new(10);
    let from = midnight();
    let template = Click {
        described: Some(Box::default()),
        tags: Arc::default(),
        ..random.clicks(1, from).remove(0)
    };
    let (link, tenant) = (template.link_id, template.tenant_id);
    for insert in 0..4 {
        let clicks = (0..VISITORS / 4).map(|_| {
            let mut click = template.clone();
            click.at = from + random.below(DAY);
            click.described.as_mut().unwrap().visitor = Some(1 + random.below(u64::MAX - 1));
            click
        });
        let clicks: Vec<_> = clicks.collect();
        engine
            .insert(insert, &chunk(&clicks, Vec::new()))
            .await
            .unwrap();
    }
    for scope in [ClickScope::Tenant(tenant), ClickScope::Links(vec![link])] {
        let query = AnalyticsQuery {
            scope,
            from,
            to: from + DAY,
            bots: Bots::Included,
        };
        let numbers = engine.count(&query, Visitors::Counted).await.unwrap();
        assert_eq!(numbers.clicks, VISITORS);
        let error = numbers.visitors.abs_diff(VISITORS) as f64 / VISITORS as f64;
        assert!(error < 0.02, "{} visitors", numbers.visitors);
    }
}

#[tokio::test]
async fn clicks_when_their_links_are_deleted_stay_in_the_tenant_sums() {
    let (_server, engine) = start().await;
    let mut random = Random::new(11);
    let from = midnight();
    let mut model = Model {
        clicks: random.clicks(500, from),
        orphans: random.orphans(40, from),
    };
    let whole = chunk(&model.clicks, model.orphans.clone());
    engine.insert(1, &whole).await.unwrap();
    let query = |scope| AnalyticsQuery {
        scope,
        from,
        to: from + 3 * DAY,
        bots: Bots::Included,
    };
    let of_tenant = model.count(&query(ClickScope::Tenant(1)));
    let deleted = [2, 4, 5_000];
    let expected: u64 = model
        .totals()
        .iter()
        .filter(|(link, _)| deleted.contains(link))
        .map(|(_, total)| total.0)
        .sum();
    assert_eq!(engine.delete(&deleted).await.unwrap(), expected);
    assert_eq!(engine.delete(&deleted).await.unwrap(), 0);
    model
        .clicks
        .retain(|click| !deleted.contains(&click.link_id));
    let links: Vec<u64> = (0..20).collect();
    assert_eq!(engine.totals(&links).await.unwrap(), model.totals());
    for scope in [ClickScope::Links(vec![2, 4]), ClickScope::Links(links)] {
        let query = query(scope);
        assert_eq!(
            engine.count(&query, Visitors::Counted).await.unwrap(),
            model.count(&query)
        );
        let (_, countries) = engine
            .breakdown(&query, Attribute::Country, 100)
            .await
            .unwrap();
        assert_eq!(countries, model.breakdown(&query, Attribute::Country, 100));
    }
    assert_eq!(
        engine
            .count(&query(ClickScope::Tenant(1)), Visitors::Counted)
            .await
            .unwrap(),
        of_tenant
    );
    let of_tenant = model
        .orphans
        .iter()
        .filter(|orphan| orphan.tenant_id == 1)
        .count() as u64;
    assert_eq!(engine.delete_orphans(1).await.unwrap(), of_tenant);
    assert_eq!(engine.delete_orphans(1).await.unwrap(), 0);
    assert_eq!(engine.delete_orphans(2).await.unwrap(), 40 - of_tenant);
}
