//! Writing the queue: each report once, whatever happens.

use crate::engines::fixture::{Tested, about};
use crate::engines::random::{DAY, HOUR, Random, midnight};
use crate::engines::single::all_of;
use crate::store::clicking::{Clicking, batch, encoded, event, now, report};
use crate::store::fixture::{create, link};
use edgelink_click_store::ClickReport;
use edgelink_clicks::analytics::{Chunk, Click, Orphan, Turn};
use edgelink_model::counts::{Attribute, ClickScope};
use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_store::Store;
use edgelink_wire::RedirectStatus;
use edgelink_wire::clicks::events::{Attributes, Event, Kind, MAX_TEXT};
use edgelink_wire::clicks::{BatchEvents, ClickBatch};
use edgelink_wire::rules::Rule;
use edgelink_wire::target::TargetUrl;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinHandle;

on_every_engine!(
    chunk_when_written_again_counts_once,
    reports_when_two_writers_work_count_once,
    click_when_written_has_the_campaign_of_its_target,
);

async fn chunk_when_written_again_counts_once(mut tested: Tested) {
    let clicks = tested.random.clicks(300, midnight());
    let orphans = tested.random.orphans(20, midnight());
    let chunk = |rows: &[u64]| Chunk::of(rows.to_vec(), &clicks, orphans.clone());
    let (first, second) = (tested.queue(1).await, tested.queue(2).await);
    let engine = &tested.engine;
    // A row that is not there: it was written by another writer.
    let error = engine.write(&chunk(&[first, second, 3])).await.unwrap_err();
    assert!(!error.refuses_values(), "{error}");
    assert_eq!(tested.database.count("click_queue").await, 2);
    engine.write(&chunk(&[first, second])).await.unwrap();
    assert_eq!(tested.database.count("click_queue").await, 0);
    for _ in 0..2 {
        let error = engine.write(&chunk(&[first, second])).await.unwrap_err();
        assert!(!error.refuses_values(), "{error}");
    }
    (tested.model.clicks, tested.model.orphans) = (clicks, orphans);
    let scopes = tested.scopes();
    tested
        .assert_answers(&scopes, midnight(), &[0..72, 5..50])
        .await;
    tested.assert_single(1).await;
}

/// A report of a worker about the fifty minutes from a second on, and what it says.
fn reported(
    random: &mut Random,
    (worker, seq): (u8, u64),
    at: u64,
) -> (ClickReport, Vec<Click>, Vec<Orphan>) {
    let closed = at + 3_000;
    let (count, orphans) = (random.below(60), random.below(5));
    let mut clicks: Vec<Click> = (0..count).map(|_| random.click(at, 3_000)).collect();
    let mut orphans: Vec<Orphan> = (0..orphans).map(|_| random.orphan(at, 3_000)).collect();
    for orphan in &mut orphans {
        orphan.tenant_id = FIRST_TENANT;
        orphan.domain_id = random.domain_of(&orphan.url);
    }
    for click in clicks.iter_mut().filter(|click| click.described.is_none()) {
        click.at = closed;
    }
    let counted = clicks.iter().filter(|click| click.described.is_none());
    let counted = counted.map(|click| (&*click.key, click.count)).collect();
    let mut described: Vec<_> = clicks
        .iter()
        .filter_map(|click| {
            let described = click.described.as_deref()?;
            let status = RedirectStatus::from_code(described.status).expect("a status");
            Some((click.at, &*click.key, Kind::Redirect(status), described))
        })
        .chain(orphans.iter().map(|orphan| {
            let kind = Kind::Orphan(orphan.kind);
            (orphan.at, &*orphan.url, kind, &*orphan.described)
        }))
        // As proxies and browsers may write them.
        .map(|click| {
            let (country, referrer) = (
                click.3.country.to_lowercase(),
                click.3.referrer.to_uppercase(),
            );
            (click, country, referrer)
        })
        .collect();
    // They have them in the order in which they came.
    described.sort_by_key(|((at, ..), ..)| *at);
    let events: Vec<Event<&[u8]>> = described
        .iter()
        .map(|((at, key, kind, described), country, referrer)| Event {
            kind: *kind,
            rule: described.rule,
            visitor: described.visitor,
            id: described.id,
            attributes: Attributes {
                country: country.as_bytes(),
                city: described.city.as_bytes(),
                user_agent: described.user_agent.as_bytes(),
                referrer: referrer.as_bytes(),
                language: described.language.as_bytes(),
                utm: described.utm.each_ref().map(|text| text.as_bytes()),
            },
            ..event(key, *at)
        })
        .collect();
    let events = encoded(&events);
    let batch = ClickBatch {
        at: closed,
        clicks: counted,
        events: BatchEvents::of(&events).unwrap(),
        ..batch([worker; 16], seq)
    };
    (report(&[batch], closed), clicks, orphans)
}

/// Two writers work at once, as for a moment when a lease changes hands, on reports that come twice, from two processes.
async fn reports_when_two_writers_work_count_once(mut tested: Tested) {
    tested.restart(|settings| settings.chunk_clicks = 100);
    let (mut first, mut second) = (tested.clicking().await, tested.clicking().await);
    let expire = "UPDATE leases SET lease_until = 0";
    assert_eq!(first.writer.turn().await.unwrap(), Turn::Idle);
    tested.database.execute(expire).await;
    assert_eq!(second.writer.turn().await.unwrap(), Turn::Idle);
    let hour = now() / HOUR * HOUR;
    let mut waiting = Vec::new();
    for worker in 0..8 {
        for seq in 1..=6 {
            let at = hour - HOUR * u64::from(worker % 3);
            let (report, clicks, orphans) = reported(&mut tested.random, (worker, seq), at);
            waiting.push(report);
            tested.model.clicks.extend(clicks);
            tested.model.orphans.extend(orphans);
        }
    }
    let reporting = async |store: Arc<Store>, waiting: Vec<ClickReport>| {
        for report in waiting {
            // A commit whose outcome is not known is made again.
            while store
                .clicks()
                .count_clicks(std::slice::from_ref(&report))
                .await
                .is_err()
            {}
        }
    };
    let stores = [first.store.clone(), second.store.clone()];
    let reporters = stores.map(|store| tokio::spawn(reporting(store, waiting.clone())));
    tokio::join!(
        write_until_all_is_reported(&mut first, &reporters),
        write_until_all_is_reported(&mut second, &reporters),
    );
    while tested.database.count("click_queue").await > 0 {
        let _ = first.writer.turn().await;
        let _ = second.writer.turn().await;
    }
    let accounts = tested.store.clicks().click_accounts().await.unwrap();
    let clicks: u64 = tested.model.clicks.iter().map(|click| click.count).sum();
    assert_eq!(accounts.counted, clicks);
    let scopes = tested.scopes();
    let hours = [0..26, 24..25, 20..26];
    tested.assert_answers(&scopes, hour - DAY, &hours).await;
    tested.assert_single(FIRST_TENANT).await;
}

async fn write_until_all_is_reported(clicking: &mut Clicking, reporters: &[JoinHandle<()>]) {
    loop {
        let is_done = reporters.iter().all(JoinHandle::is_finished);
        // A transient failure, such as a row that the other one has taken.
        match clicking.writer.turn().await {
            Ok(Turn::Idle | Turn::Elsewhere) if is_done => break,
            _ => {}
        }
    }
}

async fn click_when_written_has_the_campaign_of_its_target(tested: Tested) {
    let mut clicking = tested.clicking().await;
    let mut new = link(51, "a");
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
    let of_link = about(ClickScope::Links(vec![51]), midnight(), 24..96);
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
        let found: BTreeMap<String, u64> = found.into_iter().collect();
        let expected = expected
            .into_iter()
            .map(|(value, clicks)| (value.to_owned(), clicks));
        assert_eq!(found, expected.collect(), "{by:?}");
    }
    let clicks = clicking.engine.raw(&all_of(of_link.scope)).await.unwrap();
    let terms = clicks.iter().map(|click| click.described.utm[3].len());
    assert_eq!(terms.filter(|length| *length == MAX_TEXT).count(), 2);
}
