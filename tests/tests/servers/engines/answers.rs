//! Counts, series and breakdowns.

use crate::engines::fixture::{Tested, about};
use crate::engines::model::Model;
use crate::engines::random::{DAY, HOUR, Random, link_clicks, midnight};
use edgelink_clicks::analytics::{
    AnalyticsQuery, Click, Described, Engine, Granularity, GroupBy, Interval, MAX_VALUES, Numbers,
    Question, Summary, Visitors, zone,
};
use edgelink_model::counts::{Attribute, Bots, ClickScope, OTHER};
use edgelink_settings::config::EngineKind;
use edgelink_wire::clicks::events::MAX_TEXT;
use std::ops::Range;

on_every_engine!(
    answers_when_days_are_rolled_up_still_match_the_clicks,
    answers_when_of_whole_months_match_the_clicks,
    clicks_when_later_than_their_rollup_are_added_to_it,
    days_when_without_hours_count_as_a_whole,
    values_when_beyond_the_limit_are_summed_up,
    values_when_long_are_cut,
    visitor_when_its_token_is_zero_is_counted_as_documented,
    visitors_when_a_million_are_counted_within_two_percent,
);

pub(crate) const BOTS: [Bots; 3] = [Bots::Included, Bots::Excluded, Bots::Only];

impl Tested {
    /// Scopes with clicks and without.
    pub(crate) fn scopes(&self) -> Vec<ClickScope> {
        let domain = |tenant_id, domain: usize| ClickScope::Domain {
            tenant_id,
            domain_id: self.random.domains[domain],
        };
        vec![
            ClickScope::Tenant(1),
            ClickScope::Tenant(2),
            ClickScope::Tenant(0),
            ClickScope::Tenant(9),
            domain(1, 0),
            domain(2, 1),
            domain(0, 0),
            domain(1, 1),
            ClickScope::Links(vec![]),
            ClickScope::Links(vec![5]),
            ClickScope::Links((0..40).collect()),
            ClickScope::Links((0..10_000).map(|n| n * 3).collect()),
        ]
    }

    /// Asserts that the engine answers as its model does, about scopes and hours from a second on.
    pub(crate) async fn assert_answers(
        &mut self,
        scopes: &[ClickScope],
        from: u64,
        hours: &[Range<u64>],
    ) {
        let both = (&*self.engine, &self.model);
        assert_answers(both, &mut self.random, scopes, (from, hours)).await;
    }
}

/// Asserts that an engine answers as its model does: with bots, without, and of them alone in turn.
pub(crate) async fn assert_answers(
    (engine, model): (&dyn Engine, &Model),
    random: &mut Random,
    scopes: &[ClickScope],
    (from, hours): (u64, &[Range<u64>]),
) {
    let links: Vec<u64> = (0..100).collect();
    assert_eq!(engine.totals(&links).await.unwrap(), model.sums());
    let one_of = model.differences.one_breakdown_of;
    let mut turn = 0;
    for scope in scopes {
        for hours in hours {
            let query = AnalyticsQuery {
                bots: BOTS[turn / one_of % 3],
                ..about(scope.clone(), from, hours.clone())
            };
            assert_count(engine, model, &query).await;
            let slots = slots(random, &query);
            assert_series(engine, model, &query, &slots).await;
            for by in Attribute::ALL
                .into_iter()
                .skip(turn % one_of)
                .step_by(one_of)
            {
                let limit = random.one(&[1, 3, MAX_VALUES]);
                assert_breakdown(engine, model, &query, by, limit).await;
            }
            let (group_by, _) = GroupBy::ALL[turn % GroupBy::ALL.len()];
            assert_answer(engine, model, &query, group_by).await;
            turn += 1;
        }
    }
}

async fn assert_count(engine: &dyn Engine, model: &Model, query: &AnalyticsQuery) {
    for visitors in [Visitors::Counted, Visitors::Ignored] {
        let found = engine.count(query, visitors).await.unwrap();
        let expected = model.count(query, visitors).await.unwrap();
        assert_numbers(model, found, expected, query);
    }
}

/// Hours, days of a zone, or five hours each.
fn slots(random: &mut Random, query: &AnalyticsQuery) -> Vec<u64> {
    let zone = zone(random.one(&["UTC", "Europe/Berlin", "Asia/Kolkata"])).unwrap();
    let granularity = random.one(&[Some(Granularity::Hour), Some(Granularity::Day), None]);
    let slots = granularity.and_then(|granularity| interval(query).slots(granularity, &zone));
    slots.unwrap_or_else(|| (query.from..query.to).step_by(5 * HOUR as usize).collect())
}

fn interval(query: &AnalyticsQuery) -> Interval {
    let AnalyticsQuery { from, to, .. } = *query;
    Interval { from, to }
}

async fn assert_series(engine: &dyn Engine, model: &Model, query: &AnalyticsQuery, slots: &[u64]) {
    let (all, found) = engine.series(query, slots).await.unwrap();
    let (of_all, expected) = model.series(query, slots).await.unwrap();
    assert_numbers(model, all, of_all, query);
    assert_eq!(found.len(), expected.len(), "{query:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.from, expected.from, "{query:?}");
        assert_numbers(model, found.numbers, expected.numbers, query);
    }
}

pub(crate) async fn assert_breakdown(
    engine: &dyn Engine,
    model: &Model,
    query: &AnalyticsQuery,
    by: Attribute,
    limit: usize,
) {
    let found = engine.breakdown(query, by, limit).await.unwrap();
    let expected = model.breakdown(query, by, limit).await.unwrap();
    assert_eq!(found, expected, "{query:?} by {by:?}, {limit}");
}

/// Asserts that a question has the answer that it has of the model. Visitors are compared elsewhere.
async fn assert_answer(
    engine: &dyn Engine,
    model: &Model,
    query: &AnalyticsQuery,
    group_by: GroupBy,
) {
    let question = Question {
        scope: query.scope.clone(),
        bots: query.bots,
        group_by,
        limit: 2,
    };
    let ask = async |engine: &dyn Engine| {
        let answer = question.ask(engine, interval(query), &[query.from]).await;
        answer.unwrap()
    };
    let (found, expected) = (ask(engine).await, ask(model).await);
    let compared = |answer: Summary| {
        let has_visitors = answer.visitors.is_some();
        (answer.clicks, has_visitors, answer.values, answer.other)
    };
    assert_eq!(compared(found), compared(expected), "{question:?}");
}

fn assert_numbers(model: &Model, found: Numbers, expected: Numbers, query: &AnalyticsQuery) {
    assert_eq!(found.clicks, expected.clicks, "{query:?}");
    let (found, expected) = (found.visitors, expected.visitors);
    let is_right = if expected <= model.differences.exact_visitors {
        found == expected
    } else {
        found.abs_diff(expected) * 50 <= found.max(expected)
    };
    assert!(is_right, "{found} of {expected} visitors: {query:?}");
}

async fn answers_when_days_are_rolled_up_still_match_the_clicks(mut tested: Tested) {
    let from = midnight();
    tested.begin_days(from).await;
    for _ in 0..4 {
        tested.write_some(400, 0, from).await;
    }
    let scopes = tested.scopes();
    let hours = [0..72, 5..24, 24..48, 20..51, 71..72];
    tested.assert_answers(&scopes, from, &hours).await;
    let is_over = tested.engine.upkeep(from + DAY).await.unwrap();
    assert!(!is_over, "not yet");
    tested.roll_up(from + 2 * DAY + HOUR).await;
    tested.assert_answers(&scopes, from, &hours).await;
    assert!(tested.engine.totals(&[]).await.unwrap().is_empty());
}

async fn answers_when_of_whole_months_match_the_clicks(mut tested: Tested) {
    tested.restart(|settings| (settings.raw_days, settings.hours_days) = (100, 100));
    // Rollups of months do not tell days apart.
    tested.random.changes_visitors = true;
    // A whole month lies in 61 days, and parts of those before and behind it.
    let (from, to) = (midnight() - 61 * DAY, midnight() + 2 * DAY);
    tested.begin_days(from).await;
    for insert in 0..7 {
        let mut clicks = tested.random.clicks(400, from + insert * 10 * DAY);
        clicks.retain(|click| click.at < to);
        tested.write(clicks, Vec::new()).await;
    }
    tested.roll_up(to).await;
    tested.assert_months(true);
    let links: Vec<u64> = (0..20).collect();
    let scopes = [ClickScope::Tenant(1), ClickScope::Links(links.clone())];
    let hours = [0..64 * 24, 5..60 * 24 + 3, 20 * 24..50 * 24, 9..1_500];
    for _ in 0..2 {
        tested.assert_answers(&scopes, from, &hours).await;
    }
    tested.engine.delete(&links).await.unwrap();
    tested.assert_months(false);
    tested.model.clicks.clear();
    tested.assert_answers(&scopes[1..], from, &hours).await;
}

/// Days that are only a part of an interval count as a whole or not at all.
async fn days_when_without_hours_count_as_a_whole(mut tested: Tested) {
    tested.begin_days(midnight() - 4 * DAY).await;
    for insert in 0..3 {
        let from = midnight() - insert * 2 * DAY;
        tested.write_some(700, 0, from).await;
    }
    tested.roll_up(midnight() + 2 * DAY + HOUR).await;
    tested.restart(|settings| settings.hours_days = 2);
    tested.purge().await;
    let (engine, model) = (&*tested.engine, &tested.model);
    let hours_from = midnight() + DAY;
    for name in [
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kolkata",
        "Pacific/Auckland",
    ] {
        for hours in [0..144, 5..100, 22..118, 30..33, 61..109] {
            let asked = about(ClickScope::Tenant(1), hours_from - 5 * DAY, hours);
            let asked = interval(&asked);
            let slots = asked.slots(Granularity::Day, &zone(name).unwrap()).unwrap();
            let interval = asked.whole_days_before(hours_from);
            let bounds = interval.bounds(&slots, Granularity::Day, hours_from);
            for scope in [
                ClickScope::Tenant(1),
                ClickScope::Links((0..40).collect()),
                ClickScope::Links(vec![1, 5]),
            ] {
                let query = AnalyticsQuery {
                    scope,
                    from: interval.from,
                    to: interval.to,
                    bots: Bots::Included,
                };
                assert_series(engine, model, &query, &bounds).await;
                assert_breakdown(engine, model, &query, Attribute::Country, MAX_VALUES).await;
                let (clicks, values) = model
                    .breakdown(&query, Attribute::Country, MAX_VALUES)
                    .await
                    .unwrap();
                assert_eq!(values.is_empty(), clicks == 0);
            }
        }
    }
}

async fn clicks_when_later_than_their_rollup_are_added_to_it(mut tested: Tested) {
    let from = midnight();
    tested.begin_days(from).await;
    tested.write_some(300, 0, from).await;
    tested.roll_up(from + 2 * DAY + HOUR).await;
    tested.write_some(300, 0, from).await;
    let hours = [0..72, 0..24, 5..30];
    let scopes = tested.scopes();
    if tested.model.differences.adds_late_values {
        tested.assert_answers(&scopes, from, &hours).await;
        return;
    }
    let is_of_links = |scope: &ClickScope| matches!(scope, ClickScope::Links(_));
    let (links, others): (Vec<_>, Vec<_>) = scopes.into_iter().partition(is_of_links);
    tested.assert_answers(&others, from, &hours).await;
    for scope in links {
        let query = about(scope, from, 0..72);
        assert_count(&*tested.engine, &tested.model, &query).await;
        let all = tested.model.count(&query, Visitors::Ignored).await.unwrap();
        let by_status = tested.engine.breakdown(&query, Attribute::Status, 9).await;
        let (sum, values) = by_status.unwrap();
        let of_values: u64 = values.iter().map(|(_, clicks)| clicks).sum();
        assert_eq!([sum, of_values], [all.clicks; 2], "{query:?}");
    }
}

/// A described click of link 1 on the present day.
fn click(tested: &Tested, change: impl FnOnce(&mut Described)) -> Click {
    let mut described = Described::default();
    change(&mut described);
    Click {
        at: midnight() + 2 * DAY,
        described: Some(Box::new(described)),
        ..link_clicks(1, tested.random.domains)
    }
}

/// The present day of link 1.
fn today() -> AnalyticsQuery {
    about(ClickScope::Links(vec![1]), midnight(), 48..72)
}

async fn values_when_beyond_the_limit_are_summed_up(mut tested: Tested) {
    tested.restart(|settings| settings.max_values = 10);
    for _ in 0..3 {
        let cities = (0..30).flat_map(|n| std::iter::repeat_n(n, n / 10 + 1));
        let of_city = |n| click(&tested, |it| it.city = format!("city {n:02}").into());
        let clicks = cities.map(of_city).collect();
        tested.write(clicks, Vec::new()).await;
    }
    let breakdown = async |limit| {
        let (today, by) = (today(), Attribute::City);
        tested.engine.breakdown(&today, by, limit).await.unwrap()
    };
    let (clicks, found) = breakdown(5).await;
    let (rest, values) = found.split_last().unwrap();
    assert_eq!((clicks, values.len()), (180, 5));
    let is_top = |(city, clicks): &(String, u64)| city.starts_with("city 2") && *clicks == 9;
    assert!(values.iter().all(is_top), "{values:?}");
    assert_eq!(*rest, (OTHER.to_owned(), 180 - 45));
    let (clicks, found) = breakdown(100).await;
    let sum: u64 = found.iter().map(|(_, clicks)| clicks).sum();
    let values = if tested.model.differences.bounds_values {
        10 + 1
    } else {
        30
    };
    assert_eq!((clicks, sum, found.len()), (180, 180, values));
}

async fn values_when_long_are_cut(mut tested: Tested) {
    let long = "\u{e9}".repeat(MAX_TEXT / 2);
    let described = click(&tested, |it| it.utm[3] = long.as_str().into());
    tested.write(vec![described], Vec::new()).await;
    let (today, by) = (today(), Attribute::UtmTerm);
    let found = tested.engine.breakdown(&today, by, 9).await.unwrap();
    let longest = tested.model.differences.longest_value.min(long.len());
    let expected = vec![(long[..longest].to_owned(), 1)];
    assert_eq!(found, (1, expected));
    tested.assert_single(1).await;
}

async fn visitor_when_its_token_is_zero_is_counted_as_documented(mut tested: Tested) {
    let clicks = [0, 1].map(|token| click(&tested, |it| it.visitor = Some(token)));
    tested.write(clicks.to_vec(), Vec::new()).await;
    let found = tested.engine.count(&today(), Visitors::Counted).await;
    let visitors = 1 + u64::from(tested.model.differences.has_visitor_zero);
    let clicks = 2;
    assert_eq!(found.unwrap(), Numbers { clicks, visitors });
}

async fn visitors_when_a_million_are_counted_within_two_percent(mut tested: Tested) {
    const VISITORS: u64 = 1_000_000;
    if tested.settings.engine == EngineKind::Sql {
        // Single clicks take the database long, and are beside the point.
        tested.restart(|settings| settings.raw_days = 0);
    }
    for _ in 0..4 {
        let clicks = (0..VISITORS / 4).map(|_| {
            let at = midnight() + tested.random.below(DAY);
            let visitor = 1 + tested.random.below(u64::MAX - 1);
            let click = click(&tested, |it| it.visitor = Some(visitor));
            Click { at, ..click }
        });
        let clicks = clicks.collect();
        tested.write(clicks, Vec::new()).await;
    }
    for scope in [today().scope, ClickScope::Tenant(2)] {
        let query = about(scope, midnight(), 0..24);
        let numbers = tested
            .engine
            .count(&query, Visitors::Counted)
            .await
            .unwrap();
        assert_eq!(numbers.clicks, VISITORS);
        let error = numbers.visitors.abs_diff(VISITORS) as f64 / VISITORS as f64;
        assert!(error < 0.02, "{} visitors", numbers.visitors);
    }
}
