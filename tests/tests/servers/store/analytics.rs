//! Writing clicks, each once whatever happens, and asking about them.

use crate::store::clicking::{Clicking, batch, encoded, event, now, report};
use crate::store::fixture::{Database, create, link};
use edgelink_click_store::{ClickReport, ClickRetention, DayProgress};
use edgelink_clicks::analytics::{
    AnalyticsQuery, Breakdown, Engine, EngineError, RawPlace, RawQuery, SqlEngine, Turn, Visitors,
    agents,
};
use edgelink_model::counts::{Attribute, Bots, ClickScope, OTHER};
use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_settings::config::AnalyticsConfig;
use edgelink_store::{NewLink, Store};
use edgelink_wire::clicks::events::{Attributes, Event, Kind, MAX_TEXT, OrphanKind};
use edgelink_wire::clicks::{BatchEvents, ClickBatch};
use edgelink_wire::rules::Rule;
use edgelink_wire::target::TargetUrl;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

on_every_database!(
    breakdown_when_two_writers_work_has_each_click_once,
    chunk_when_its_write_fails_is_written_whole_later,
    days_when_rolled_up_answer_as_their_hours_did,
    click_when_its_day_is_being_rolled_up_is_counted,
    values_and_orphan_visits_when_too_many_stay_bounded,
    click_when_written_has_the_campaign_of_its_target,
    single_clicks_when_paged_by_cursor_or_offset_are_complete,
    clicks_when_past_their_retention_are_purged,
    clicks_when_dated_in_the_future_hold_up_no_purge,
    report_when_a_table_is_missing_is_not_quarantined,
    report_when_it_cannot_be_written_is_quarantined_alone,
);

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                     Version/17.0 Mobile/15E148 Safari/604.1";
const BOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
const AGENTS: [&str; 4] = ["", PHONE, BOT, "curl/8.5.0"];
const COUNTRIES: [&str; 4] = ["", "DE", "at", "CH"];
const CODES: [&str; 5] = ["a", "b", "c", "d", "absent"];
const WORDS: [&str; 4] = ["", "x", "mail", "Ärger"];

/// What a click is, as the model counts it.
struct Made {
    code: &'static str,
    at: u64,
    count: u64,
    kind: Kind,
    rule: u8,
    attributes: Attributes<&'static str>,
    visitor: Option<u64>,
}

fn made(random: &mut StdRng, at: u64) -> Made {
    let mut one = |of: &[&'static str; 4]| *of.choose(random).unwrap();
    let attributes = Attributes {
        country: one(&COUNTRIES),
        city: one(&WORDS),
        user_agent: one(&AGENTS),
        referrer: one(&WORDS),
        language: one(&WORDS),
        utm: [(); 5].map(|()| one(&WORDS)),
    };
    let statuses = [
        edgelink_wire::RedirectStatus::Found,
        edgelink_wire::RedirectStatus::MovedPermanently,
    ];
    Made {
        code: CODES.choose(random).unwrap(),
        at,
        count: 1,
        kind: Kind::Redirect(*statuses.choose(random).unwrap()),
        rule: random.random_range(0..3),
        attributes,
        visitor: random.random_bool(0.8).then(|| random.random_range(0..50)),
    }
}

/// Clicks by attribute and value, and those of bots.
#[derive(Debug, Default, PartialEq, Eq)]
struct Model(BTreeMap<(Attribute, String), (u64, u64)>);

impl Model {
    fn of<'a>(clicks: impl Iterator<Item = &'a Made>) -> Self {
        let mut model = Self::default();
        for made in clicks {
            model.add(made);
        }
        model
    }

    fn add(&mut self, made: &Made) {
        let agent = agents::parse(made.attributes.user_agent);
        let Attributes {
            country,
            city,
            referrer,
            language,
            utm,
            ..
        } = &made.attributes;
        let Kind::Redirect(status) = made.kind else {
            return;
        };
        let is_described = made.count == 1;
        let number = |number: u16| match (number, is_described) {
            (0, _) | (_, false) => String::new(),
            (number, true) => number.to_string(),
        };
        let mut values = vec![
            (Attribute::Country, country.to_uppercase()),
            (Attribute::City, (*city).to_owned()),
            (Attribute::Device, agent.device.as_str().to_owned()),
            (Attribute::Browser, agent.browser.to_string()),
            (Attribute::Os, agent.os.to_string()),
            (Attribute::Referrer, referrer.to_ascii_lowercase()),
            (Attribute::Language, language.to_ascii_lowercase()),
            (Attribute::Rule, number(made.rule.into())),
            (Attribute::Status, number(status.code())),
            (Attribute::Domain, "a.example".to_owned()),
            (Attribute::Link, format!("a.example/{}", made.code)),
            (
                Attribute::Tag,
                tags(made.code).first().unwrap_or(&"").to_string(),
            ),
        ];
        let utms = [
            Attribute::UtmSource,
            Attribute::UtmMedium,
            Attribute::UtmCampaign,
            Attribute::UtmTerm,
            Attribute::UtmContent,
        ];
        values.extend(utms.into_iter().zip(utm.map(str::to_owned)));
        let bots = if agent.is_bot { made.count } else { 0 };
        for value in values {
            let sum = self.0.entry(value).or_default();
            *sum = (sum.0 + made.count, sum.1 + bots);
        }
    }

    fn breakdown(&self, by: Attribute, bots: Bots) -> BTreeMap<String, u64> {
        let of = self.0.iter().filter(|((attribute, _), _)| *attribute == by);
        let count = |clicks: u64, of_bots: u64| match bots {
            Bots::Included => clicks,
            Bots::Excluded => clicks - of_bots,
            Bots::Only => of_bots,
        };
        of.map(|((_, value), (clicks, bots))| (value.clone(), count(*clicks, *bots)))
            .filter(|(_, clicks)| *clicks > 0)
            .collect()
    }
}

fn tags(code: &str) -> &'static [&'static str] {
    match code {
        "a" | "b" => &["t"],
        "c" => &["u"],
        _ => &[],
    }
}

async fn create_links(store: &Store) {
    for (id, code) in (1..).zip(&CODES[..4]) {
        let mut new: NewLink = link(id, code);
        new.content.tags = tags(code).iter().map(|tag| (*tag).to_owned()).collect();
        create(store, new).await.unwrap();
    }
}

/// Batches of a worker with random clicks from `at` on: some with attributes, some only counted.
fn reports(random: &mut StdRng, worker: u8, at: u64) -> (Vec<ClickReport>, Vec<Made>) {
    let (mut reports, mut all) = (Vec::new(), Vec::new());
    for seq in 1..=6 {
        let clicks: Vec<Made> = (0..random.random_range(0..60))
            .map(|_| {
                let at = at + random.random_range(0..3000);
                made(random, at)
            })
            .collect();
        let keys: Vec<String> = clicks
            .iter()
            .map(|made| format!("a.example/{}", made.code))
            .collect();
        let bytes = |text: &'static str| text.as_bytes();
        let events: Vec<Event<&[u8]>> = clicks
            .iter()
            .zip(&keys)
            .map(|(made, key)| Event {
                kind: made.kind,
                rule: made.rule,
                visitor: made.visitor,
                attributes: Attributes {
                    country: bytes(made.attributes.country),
                    city: bytes(made.attributes.city),
                    user_agent: bytes(made.attributes.user_agent),
                    referrer: bytes(made.attributes.referrer),
                    language: bytes(made.attributes.language),
                    utm: made.attributes.utm.map(bytes),
                },
                ..event(key, made.at)
            })
            .collect();
        let events = encoded(&events);
        let batch = ClickBatch {
            at: at + 3000,
            clicks: vec![("a.example/a", 7), ("a.example/absent", 2)],
            events: BatchEvents::of(&events).unwrap(),
            ..batch([worker; 16], seq)
        };
        reports.push(report(&[batch], at + 3000));
        all.extend(clicks);
        for (code, count) in [("a", 7), ("absent", 2)] {
            all.push(Made {
                code,
                at: at + 3000,
                count,
                rule: 0,
                attributes: Attributes::default(),
                visitor: None,
                ..made(random, at)
            });
        }
    }
    (reports, all)
}

fn query(scope: ClickScope, from: u64, to: u64, bots: Bots) -> AnalyticsQuery {
    AnalyticsQuery {
        scope,
        from,
        to,
        bots,
    }
}

async fn domain_id(store: &Store) -> u32 {
    let domains = store.clicked_domains(&["a.example"]).await.unwrap();
    domains[0].1.id
}

fn as_map(breakdown: Breakdown) -> BTreeMap<String, u64> {
    breakdown.into_iter().collect()
}

/// Whether all that an engine says of an interval is what the model says.
async fn compare(clicking: &Clicking, all: &[Made], from: u64, to: u64) {
    let engine = clicking.engine.as_ref();
    let domain_id = domain_id(&clicking.store).await;
    let of_tenant = |tenant_id| ClickScope::Domain {
        tenant_id,
        domain_id,
    };
    let scopes = [
        (ClickScope::Tenant(FIRST_TENANT), vec!["a", "b", "c", "d"]),
        (ClickScope::Tenant(0), vec!["absent"]),
        (of_tenant(FIRST_TENANT), vec!["a", "b", "c", "d"]),
        (of_tenant(0), vec!["absent"]),
        (ClickScope::Links(vec![1, 3]), vec!["a", "c"]),
        (ClickScope::Links(vec![2]), vec!["b"]),
    ];
    for (scope, codes) in scopes {
        let within = |made: &&Made| codes.contains(&made.code) && (from..to).contains(&made.at);
        let model = Model::of(all.iter().filter(within));
        for bots in [Bots::Included, Bots::Excluded, Bots::Only] {
            let query = query(scope.clone(), from, to, bots);
            let count = engine.count(&query, Visitors::Counted).await.unwrap();
            for by in Attribute::ALL {
                if by == Attribute::Domain && matches!(query.scope, ClickScope::Domain { .. }) {
                    continue;
                }
                let found = engine.breakdown(&query, by, 1000).await.unwrap();
                let found = as_map(found.1);
                let expected = model.breakdown(by, bots);
                assert_eq!(found, expected, "{query:?} by {by:?}");
                assert_eq!(
                    found.values().sum::<u64>(),
                    count.clicks,
                    "{query:?} by {by:?}"
                );
            }
            let visitors = all.iter().filter(within).filter(|made| {
                bots != Bots::Only && !agents::parse(made.attributes.user_agent).is_bot
            });
            let visitors: HashSet<u64> = visitors.filter_map(|made| made.visitor).collect();
            assert_eq!(count.visitors, visitors.len() as u64, "{query:?}");
            let slots: Vec<u64> = (from..to).step_by(2 * HOUR as usize).collect();
            let series = engine.series(&query, &slots).await;
            let (numbers, series) = series.unwrap();
            assert_eq!(numbers.clicks, count.clicks, "{query:?}");
            let sum: u64 = series.iter().map(|slot| slot.numbers.clicks).sum();
            assert_eq!(sum, count.clicks, "{query:?}");
        }
    }
    let clicks = |codes: &[&str]| -> u64 {
        let of = all.iter().filter(|made| codes.contains(&made.code));
        of.map(|made| made.count).sum()
    };
    for (id, code) in (1..).zip(&CODES[..4]) {
        assert_eq!(clicking.total(id).await, clicks(&[code]), "{code}");
    }
}

/// Two writers work at once, as for a moment when a lease changes hands, on reports that come twice, from two processes.
async fn breakdown_when_two_writers_work_has_each_click_once(database: Database) {
    let settings = AnalyticsConfig {
        chunk_clicks: 100,
        ..AnalyticsConfig::default()
    };
    let mut first = Clicking::with(database.store().await, &settings);
    create_links(&first.store).await;
    let mut second = Clicking::with(database.store().await, &settings);
    assert_eq!(first.writer.turn().await.unwrap(), Turn::Idle);
    database.execute("UPDATE leases SET lease_until = 0").await;
    assert_eq!(second.writer.turn().await.unwrap(), Turn::Idle);
    let mut random = StdRng::seed_from_u64(13);
    let hour = now() / HOUR * HOUR;
    let mut all = Vec::new();
    let mut waiting = Vec::new();
    for worker in 0..8 {
        let at = hour - HOUR * u64::from(worker % 3);
        let (reports, clicks) = reports(&mut random, worker, at);
        all.extend(clicks);
        waiting.push(reports);
    }
    let reporting = |store: Arc<Store>, waiting: Vec<Vec<ClickReport>>| async move {
        for report in waiting.concat() {
            // A commit whose outcome is not known is made again.
            while store
                .clicks()
                .count_clicks(std::slice::from_ref(&report))
                .await
                .is_err()
            {}
        }
    };
    let (one, other) = (first.store.clone(), second.store.clone());
    let reporters = [
        tokio::spawn(reporting(one, waiting.clone())),
        tokio::spawn(reporting(other, waiting)),
    ];
    let writing = async |clicking: &mut Clicking, reporters: &dyn Fn() -> bool| {
        loop {
            let is_done = reporters();
            // A transient failure, such as a row that the other has taken.
            match clicking.writer.turn().await {
                Ok(Turn::Idle | Turn::Elsewhere) if is_done => break,
                _ => {}
            }
        }
    };
    let is_done = || reporters.iter().all(tokio::task::JoinHandle::is_finished);
    tokio::join!(
        writing(&mut first, &is_done),
        writing(&mut second, &is_done),
    );
    while database.count("click_queue").await > 0 {
        let _ = first.writer.turn().await;
        let _ = second.writer.turn().await;
    }
    let counted = first.store.clicks().click_accounts().await.unwrap().counted;
    let clicks: u64 = all.iter().map(|made| made.count).sum();
    assert_eq!(counted, clicks);
    compare(&first, &all, hour - DAY, hour + 2 * HOUR).await;
    compare(&first, &all, hour, hour + HOUR).await;
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

async fn days_when_rolled_up_answer_as_their_hours_did(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    create_links(&clicking.store).await;
    let today = now() / DAY * DAY;
    let earlier = "UPDATE click_state SET days_until = days_until - 3";
    database.execute(earlier).await;
    let mut random = StdRng::seed_from_u64(14);
    let mut all = Vec::new();
    for worker in 0..6_u8 {
        let at = today - 2 * DAY + u64::from(worker) * 9 * HOUR;
        let (reports, clicks) = reports(&mut random, worker, at.min(today - HOUR));
        for report in reports {
            clicking.take(report).await;
        }
        all.extend(clicks);
    }
    // Of more links than are summed up at once.
    clicking.write().await;
    let intervals = [
        (today - 3 * DAY, today + DAY),
        (today - 2 * DAY + 5 * HOUR, today - HOUR),
        (today - DAY, today),
    ];
    for (from, to) in intervals {
        compare(&clicking, &all, from, to).await;
    }
    // Another engine than that of the writer, which may be at it.
    let engine = SqlEngine::new(clicking.store.clone(), AnalyticsConfig::default());
    assert!(
        !engine.upkeep(today - 2 * DAY).await.unwrap(),
        "not over yet"
    );
    while engine.upkeep(today + HOUR).await.unwrap() {}
    let until = clicking.store.clicks().days_until().await.unwrap();
    assert_eq!(u64::from(until), today / DAY);
    assert!(database.count("click_days").await > 0);
    for (from, to) in intervals {
        compare(&clicking, &all, from, to).await;
    }
    // Without the hours, days have the clicks of each hour nevertheless.
    database.execute("DELETE FROM click_hours").await;
    let old = AnalyticsConfig {
        hours_days: 0,
        ..AnalyticsConfig::default()
    };
    let old = Clicking::with(clicking.store.clone(), &old);
    compare(&old, &all, today - 3 * DAY, today).await;
    let query = query(
        ClickScope::Tenant(FIRST_TENANT),
        today - DAY - 7 * HOUR,
        today,
        Bots::Included,
    );
    let expected = all
        .iter()
        .filter(|made| made.code != "absent" && made.at >= query.from);
    let expected: u64 = expected.map(|made| made.count).sum();
    assert_eq!(
        old.engine
            .count(&query, Visitors::Counted)
            .await
            .unwrap()
            .clicks,
        expected
    );
    // Clicks of a day that is summed up are added to it.
    let (reports, clicks) = reports(&mut random, 99, today - 2 * HOUR);
    for report in reports {
        clicking.take(report).await;
    }
    all.extend(clicks);
    clicking.write().await;
    compare(&old, &all, today - 3 * DAY, today).await;
}

async fn values_and_orphan_visits_when_too_many_stay_bounded(database: Database) {
    let settings = AnalyticsConfig {
        max_values: 10,
        max_orphans: 3,
        ..AnalyticsConfig::default()
    };
    let mut clicking = Clicking::with(database.store().await, &settings);
    create_links(&clicking.store).await;
    let cities: Vec<String> = (0..30).map(|n| format!("city {n:02}")).collect();
    for round in 0..3_u64 {
        let mut events = Vec::new();
        for (n, city) in cities.iter().enumerate() {
            let attributes = Attributes {
                city: city.as_bytes(),
                ..Attributes::default()
            };
            for _ in 0..=(n / 10) {
                events.push(Event {
                    attributes,
                    ..event("a.example/a", now())
                });
            }
        }
        for path in ["a.example/", "a.example/x/y"] {
            events.push(Event {
                kind: Kind::Orphan(OrphanKind::Regular404),
                ..event(path, now())
            });
        }
        let events = encoded(&events);
        let batch = ClickBatch {
            events: BatchEvents::of(&events).unwrap(),
            ..batch([1; 16], round + 1)
        };
        clicking.report(&[batch]).await;
        clicking.write().await;
    }
    let from = now() / HOUR * HOUR - HOUR;
    let of_link = query(
        ClickScope::Links(vec![1]),
        from,
        from + 3 * HOUR,
        Bots::Included,
    );
    let engine = clicking.engine.clone();
    let (_, found) = engine
        .breakdown(&of_link, Attribute::City, 5)
        .await
        .unwrap();
    assert_eq!(found.len(), 6);
    assert!(
        found[..5]
            .iter()
            .all(|(city, clicks)| city.starts_with("city 2") && *clicks == 9)
    );
    assert_eq!(found[5], (OTHER.to_owned(), 180 - 45));
    let (_, all) = engine
        .breakdown(&of_link, Attribute::City, 100)
        .await
        .unwrap();
    assert_eq!(
        (all.len(), all.iter().map(|(_, n)| n).sum::<u64>()),
        (11, 180)
    );
    assert_eq!(database.count("orphan_visits").await, 3);
    assert_eq!(database.count("orphan_days WHERE visits = 6").await, 1);
    let orphans = RawQuery {
        orphans: true,
        ..raw(ClickScope::Tenant(FIRST_TENANT))
    };
    let visits = engine.raw(&orphans).await.unwrap();
    assert_eq!(visits.len(), 3);
    assert!(
        visits
            .iter()
            .all(|visit| visit.orphan == Some(OrphanKind::Regular404))
    );
    assert_eq!(visits[2].key, "a.example/");
    assert_eq!(engine.count_raw(&orphans, 2).await.unwrap(), 2);
    assert_eq!(engine.delete_orphans(FIRST_TENANT + 1).await.unwrap(), 0);
    assert_eq!(engine.delete_orphans(FIRST_TENANT).await.unwrap(), 3);
    assert_eq!(database.count("orphan_days").await, 0);
    let none = AnalyticsConfig {
        raw_days: 0,
        ..AnalyticsConfig::default()
    };
    let mut none = Clicking::with(clicking.store.clone(), &none);
    database.execute("UPDATE leases SET lease_until = 0").await;
    let kept = database.count("click_events").await;
    none.seq_from(10);
    none.visit("a", 3).await;
    assert_eq!(none.total(1).await, 183);
    assert_eq!(database.count("click_events").await, kept);
    let answer = none.engine.raw(&orphans).await;
    assert!(matches!(answer, Err(EngineError::Unsupported(_))));
}

fn raw(scope: ClickScope) -> RawQuery {
    RawQuery {
        scope,
        from: 0,
        to: now() + HOUR,
        bots: Bots::Included,
        orphans: false,
        after: None,
        skip: 0,
        limit: 100,
    }
}

async fn click_when_written_has_the_campaign_of_its_target(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    let mut new = link(1, "a");
    let long = "x".repeat(600);
    let target = format!("https://x.example/?utm_source=own&utm_medium=a%20b%00c&utm_term={long}");
    new.content.target = TargetUrl::from_store(&target);
    let rule = |target: &str| Rule {
        target: target.to_owned(),
        conditions: Vec::new(),
    };
    new.content.details.rules = vec![
        rule("https://x.example/"),
        rule("https://x.example/?utm_source=second"),
    ];
    create(&clicking.store, new).await.unwrap();
    let visit = |rule, source: &'static str| Event {
        rule,
        attributes: Attributes {
            utm: [source, "", "", "", ""].map(str::as_bytes),
            ..Attributes::default()
        },
        ..event("a.example/a", now())
    };
    let visits = [
        visit(0, ""),
        visit(0, "visitor"),
        visit(1, ""),
        visit(2, ""),
        visit(3, ""),
    ];
    let events = encoded(&visits);
    let described = ClickBatch {
        events: BatchEvents::of(&events).unwrap(),
        clicks: vec![("a.example/a", 4)],
        ..batch([2; 16], 1)
    };
    clicking.report(&[described]).await;
    clicking.write().await;
    let of_link = query(
        ClickScope::Links(vec![1]),
        now() - DAY,
        now() + DAY,
        Bots::Included,
    );
    for (by, expected) in [
        (
            Attribute::UtmSource,
            vec![("", 6), ("own", 1), ("second", 1), ("visitor", 1)],
        ),
        (Attribute::UtmMedium, vec![("", 7), ("a b", 2)]),
        (Attribute::UtmCampaign, vec![("", 9)]),
    ] {
        let found = clicking.engine.breakdown(&of_link, by, 10);
        let (_, found) = found.await.unwrap();
        let expected = expected
            .into_iter()
            .map(|(value, clicks)| (value.to_owned(), clicks));
        assert_eq!(as_map(found), expected.collect(), "{by:?}");
    }
    let clicks = clicking
        .engine
        .raw(&raw(ClickScope::Links(vec![1])))
        .await
        .unwrap();
    let terms = clicks.iter().map(|click| click.described.utm[3].len());
    assert_eq!(terms.filter(|length| *length == MAX_TEXT).count(), 2);
}

async fn single_clicks_when_paged_by_cursor_or_offset_are_complete(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    create_links(&clicking.store).await;
    clicking.visit("a", 3).await;
    clicking.follow(&[("a", 4), ("b", 2), ("absent", 1)]).await;
    let bot = Attributes {
        user_agent: BOT.as_bytes(),
        ..Attributes::default()
    };
    let events = encoded(&[Event {
        attributes: bot,
        visitor: Some(5),
        id: Some([3; 16]),
        ..event("a.example/a", now() - 60)
    }]);
    let of_bot = ClickBatch {
        events: BatchEvents::of(&events).unwrap(),
        ..batch([9; 16], 1)
    };
    clicking.report(&[of_bot]).await;
    clicking.write().await;
    let engine = clicking.engine.clone();
    let tenant = raw(ClickScope::Tenant(FIRST_TENANT));
    let all = engine.raw(&tenant).await.unwrap();
    assert_eq!(all.len(), 10);
    let places: Vec<RawPlace> = all.iter().map(|click| click.place).collect();
    assert!(places.is_sorted_by(|one, other| one > other), "{places:?}");
    assert!(all.iter().all(|click| click.key.starts_with("a.example/")));
    let last = &all[9].described;
    assert_eq!(
        (&*last.user_agent, last.visitor, last.id),
        (BOT, Some(5), Some([3; 16]))
    );
    for size in 1..=10_u32 {
        let mut by_place: Vec<RawPlace> = Vec::new();
        let mut by_number: Vec<RawPlace> = Vec::new();
        loop {
            let page = RawQuery {
                after: by_place.last().copied(),
                limit: size,
                ..tenant.clone()
            };
            let page = engine.raw(&page).await.unwrap();
            if page.is_empty() {
                break;
            }
            by_place.extend(page.iter().map(|click| click.place));
            let page = RawQuery {
                skip: by_number.len() as u64,
                limit: size,
                ..tenant.clone()
            };
            let page = engine.raw(&page).await.unwrap();
            by_number.extend(page.iter().map(|click| click.place));
        }
        assert_eq!((&by_place, &by_number), (&places, &places), "{size}");
    }
    let domain_id = domain_id(&clicking.store).await;
    let of_domain = |tenant_id| {
        raw(ClickScope::Domain {
            tenant_id,
            domain_id,
        })
    };
    for (query, count) in [
        (raw(ClickScope::Links(vec![1])), 8),
        (raw(ClickScope::Links(vec![2, 1])), 10),
        (of_domain(FIRST_TENANT), 10),
        (of_domain(0), 1),
        (raw(ClickScope::Tenant(9)), 0),
        (
            RawQuery {
                bots: Bots::Only,
                ..tenant.clone()
            },
            1,
        ),
        (
            RawQuery {
                bots: Bots::Excluded,
                ..tenant.clone()
            },
            9,
        ),
        (
            RawQuery {
                to: now() - 30,
                ..tenant.clone()
            },
            1,
        ),
    ] {
        assert_eq!(engine.raw(&query).await.unwrap().len(), count, "{query:?}");
        assert_eq!(engine.count_raw(&query, 100).await.unwrap(), count as u64);
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
    let query = AnalyticsQuery {
        scope: ClickScope::Links(vec![1, 2]),
        from: u64::from(today) * DAY,
        to: u64::from(today + 1) * DAY,
        bots: Bots::Included,
    };
    let numbers = clicking
        .engine
        .count(&query, Visitors::Counted)
        .await
        .unwrap();
    assert_eq!(numbers.clicks, 6);
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
