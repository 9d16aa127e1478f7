use super::*;
use edgelink_settings::config::StoreConfig;
use edgelink_store::Store;
use edgelink_wire::RedirectStatus;
use edgelink_wire::clicks::decode;
use edgelink_wire::clicks::events::{Attributes, Events, Kind, OrphanKind};
use tempfile::TempDir;

fn clicks() -> OwnClicks {
    OwnClicks::new(&ClicksConfig::default())
}

fn event<'e>(key: &'e str, user_agent: &'e str, kind: Kind) -> Event<&'e [u8]> {
    Event {
        key: key.as_bytes(),
        at: 5,
        kind,
        rule: 0,
        attributes: Attributes {
            user_agent: user_agent.as_bytes(),
            ..Attributes::default()
        },
        visitor: None,
        id: None,
    }
}

const REDIRECT: Kind = Kind::Redirect(RedirectStatus::Found);

async fn store() -> (TempDir, Arc<Store>) {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", directory.path().join("links.db").display());
    let store = edgelink_store::open_store(&StoreConfig::at(&url)).await;
    (directory, store.expect("a store"))
}

#[test]
fn clicks_when_gathered_are_reported_with_all_numbers() {
    let clicks = clicks();
    assert!(clicks.take().is_none());
    for key in ["a.example/x", "a.example/x", "a.example/y"] {
        clicks.count(key);
    }
    clicks.describe("a.example/x", &event("a.example/x", "curl", REDIRECT));
    clicks.orphan(&event(
        "a.example/",
        "curl",
        Kind::Orphan(OrphanKind::BaseUrl),
    ));
    let mut seq = 6;
    let body = clicks.encode(&clicks.take().expect("clicks"), &mut seq);
    let mut batches = decode(&body).expect("batches");
    batches[0].clicks.sort_unstable();
    assert_eq!((batches.len(), seq), (2, 8));
    assert_eq!((batches[0].seq, batches[1].seq), (7, 8));
    assert_eq!(batches[0].clicks, [("a.example/x", 2), ("a.example/y", 1)]);
    assert_eq!((batches[0].sum(), batches[0].total), (4, 4));
    assert_eq!((batches[1].sum(), batches[1].total), (0, 4));
    let orphans: Vec<_> = Events::decode(batches[1].events.bytes)
        .expect("events")
        .map(|event| event.expect("an event").key)
        .collect();
    assert_eq!(orphans, ["a.example/"]);
    assert!(clicks.take().is_none());
}

#[test]
fn clicks_when_room_is_full_lose_attributes_first() {
    let clicks = clicks();
    let long = "x".repeat(500);
    let mut described = 0;
    while clicks.gathered().undescribed < 3 {
        let user_agent = format!("{described}{long}");
        clicks.describe("a.example/x", &event("a.example/x", &user_agent, REDIRECT));
        described += 1;
    }
    assert_eq!(clicks.give_id(), None);
    for number in 1..=MAX_LINKS {
        clicks.count(&format!("a.example/{number}"));
    }
    clicks.count("a.example/x");
    let taken = clicks.take().expect("clicks");
    let total = described + MAX_LINKS as u64 + 1;
    assert_eq!(
        (taken.total, taken.dropped, taken.undescribed),
        (total, 1, 3)
    );
    assert_eq!(taken.clicks.clicks, described - 3);
    assert_eq!(
        taken.counts.iter().map(|(_, clicks)| clicks).sum::<u64>(),
        total - (described - 3) - 1
    );
    assert!(clicks.give_id().is_some());
    while clicks.gathered().orphans.has_room() {
        clicks.orphan(&event(&long, "", Kind::Orphan(OrphanKind::BaseUrl)));
    }
    clicks.orphan(&event(&long, "", Kind::Orphan(OrphanKind::BaseUrl)));
    let taken = clicks.take().expect("orphans");
    assert_eq!(
        (taken.total, taken.dropped, taken.undescribed),
        (total, 1, 0)
    );
}

#[tokio::test]
async fn report_when_it_fails_is_sent_again_unchanged() {
    let (_directory, store) = store().await;
    let reports = Reports::start(
        store.clicks().clone(),
        Arc::default(),
        Arc::new(|_: &Bytes| {}),
        1 << 20,
    );
    let clicks = Arc::new(clicks());
    clicks.count("a.example/x");
    let (mut seq, mut waiting) = (0, None);
    assert!(clicks.flush(&mut seq, &mut waiting, &reports).await);
    // The answer is lost.
    clicks.count("a.example/x");
    let body = clicks.encode(&clicks.take().expect("clicks"), &mut seq);
    reports
        .count(body.clone(), Arc::default(), None)
        .await
        .expect("counted");
    waiting = Some(body);
    clicks.count("a.example/y");
    assert!(clicks.flush(&mut seq, &mut waiting, &reports).await);
    assert_eq!(seq, 2);
    let stop = CancellationToken::new();
    stop.cancel();
    let accounts = store.clicks().click_accounts().await.expect("accounts");
    assert_eq!((accounts.sent, accounts.counted), (2, 2));
    let last = Arc::new(OwnClicks::new(&ClicksConfig::default()));
    last.count("a.example/x");
    last.clone().run(reports, stop).await;
    let accounts = store.clicks().click_accounts().await.expect("accounts");
    assert_eq!(
        (accounts.sent, accounts.counted, accounts.dropped),
        (3, 3, 0)
    );
}
