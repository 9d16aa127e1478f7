//! Events of links, and their deliveries to webhooks.

use crate::store::fixture::{Database, checked, content, delete, key, link};
use edgelink_model::links::model::Link;
use edgelink_store::{
    Actor, AttemptOutcome, Delivery, FailurePolicy, LinkEvent, MANY_FAILURES, PING, SigningKey,
    Store, WebhookRow, WebhookState,
};
use serde_json::json;
use std::sync::Arc;

on_every_database!(
    change_when_webhooks_want_it_has_deliveries,
    delivery_when_attempted_waits_until_done_or_given_up,
    delivery_when_noted_twice_counts_once,
    webhook_when_it_keeps_failing_pauses_and_is_disabled,
    webhook_when_too_much_waits_is_disabled,
    webhooks_when_due_take_turns,
    events_when_webhooks_change_are_not_lost,
    webhook_when_removed_during_a_change_stays_removed,
);

/// A store that writes events.
async fn with_events(database: &Database) -> Arc<Store> {
    let store = database.store().await;
    store.with_events(Arc::new(|link: &Link| json!(link.code.as_str())))
}

fn actor() -> Actor {
    Actor::command_line(1)
}

async fn webhook(store: &Store, events: &[LinkEvent]) -> WebhookRow {
    let row = WebhookRow {
        id: 0,
        tenant_id: 1,
        url: "https://hooks.example/".to_owned(),
        events: events.to_vec(),
        secret: SigningKey([7; 32]),
        previous_secret: Some((SigningKey([8; 32]), 9)),
        state: WebhookState::Active,
        failures: 0,
        failing_since: None,
        created_at: 0,
        updated_at: 0,
    };
    let made = store.insert_webhook(&row, &actor(), json!({})).await;
    made.expect("an answer").expect("a webhook")
}

/// The events that wait for an active webhook, the oldest first.
async fn waiting(store: &Store, webhook: &WebhookRow) -> Vec<Delivery> {
    let due = store.due_deliveries(webhook.id, &[], 1000).await;
    let mut due = due
        .expect("an answer")
        .map_or_else(Vec::new, |(_, due)| due);
    due.sort_by_key(|delivery| delivery.id);
    due
}

/// The active webhooks with something due.
async fn due(store: &Store) -> Vec<u64> {
    let due = store.due_webhooks(0, &[], &[], 10).await;
    due.expect("webhooks").iter().map(|one| one.id).collect()
}

fn failure(retry_in: Option<u64>) -> AttemptOutcome {
    AttemptOutcome {
        response_status: Some(500),
        error: Some("the answer is 500".to_owned()),
        retry_in,
    }
}

fn success() -> AttemptOutcome {
    AttemptOutcome {
        response_status: Some(204),
        error: None,
        retry_in: None,
    }
}

const PATIENT: FailurePolicy = FailurePolicy {
    pause_millis: 0,
    disable_after_millis: 3_600_000,
};

async fn change_when_webhooks_want_it_has_deliveries(database: Database) {
    let store = with_events(&database).await;
    let all = webhook(&store, &LinkEvent::ALL).await;
    let deletions = webhook(&store, &[LinkEvent::Deleted]).await;
    let links = (1..=300).map(|id| link(id, &format!("code{id}")));
    store.create_links(links.collect()).await.expect("links");
    let (first, actor) = (key("a.example/code1"), actor());
    let change = Box::new(|_: &Link| Ok(checked(&content("https://example.com/new"))));
    let changed = store.update_link(&first, change, &actor);
    changed
        .await
        .expect("an answer")
        .expect("a link")
        .expect("a change");
    assert!(
        delete(&store, &key("a.example/code2"))
            .await
            .expect("an answer")
    );

    let found = waiting(&store, &all).await;
    let events: Vec<&str> = found
        .iter()
        .map(|delivery| delivery.event.as_str())
        .collect();
    assert_eq!(events[..300], ["link.created"; 300]);
    assert_eq!(events[300..], ["link.changed", "link.deleted"]);
    assert!(found[300].body.contains("\"data\":\"code1\""));
    let found = waiting(&store, &deletions).await;
    assert_eq!(found.len(), 1);
    assert!(found[0].body.contains("\"data\":\"code2\""));

    assert!(
        store
            .delete_webhook(all.id, &actor)
            .await
            .expect("an answer")
            .is_ok()
    );
    store
        .create_links(vec![link(400, "code400")])
        .await
        .expect("a link");
    assert_eq!(waiting(&store, &all).await, []);
    assert_eq!(due(&store).await, [deletions.id]);
}

async fn delivery_when_attempted_waits_until_done_or_given_up(database: Database) {
    let store = with_events(&database).await;
    let webhook = webhook(&store, &LinkEvent::ALL).await;
    let is_measured = async || {
        let due = store.longest_due_millis().await;
        due.expect("a time").is_some()
    };
    assert!(!is_measured().await);
    let note = async |delivery: &Delivery, outcome| {
        let outcomes = [(delivery.id, outcome)];
        let noted = store.note_attempts(webhook.id, &outcomes, PATIENT);
        assert!(!noted.await.expect("an answer"));
        let list = store.list_deliveries(webhook.id, None, 10).await;
        list.expect("deliveries").remove(0)
    };
    let ping = store.ping_webhook(&webhook).await.expect("a delivery");
    assert_eq!((ping.event.as_str(), ping.attempts), (PING, 0));
    assert!(is_measured().await);
    assert_eq!(due(&store).await, [webhook.id]);
    let retried = note(&ping, failure(Some(60_000))).await;
    assert_eq!((retried.state.as_str(), retried.attempts), ("pending", 1));
    assert_eq!(
        (retried.response_status, retried.next_at.is_some()),
        (Some(500), true)
    );
    assert_eq!(waiting(&store, &webhook).await, []);
    let failed = note(&ping, failure(None)).await;
    assert_eq!((failed.state.as_str(), failed.attempts), ("failed", 2));
    assert_eq!(failed.next_at, None);
    assert!(!is_measured().await);

    let second = store.ping_webhook(&webhook).await.expect("a delivery");
    let delivered = note(&second, success()).await;
    assert_eq!(
        (delivered.state.as_str(), delivered.error),
        ("delivered", None)
    );
    let waits = store.ping_webhook(&webhook).await.expect("a delivery");
    let purge = async |is_waiting| {
        let purged = store.purge_deliveries(is_waiting, 3_600_000, 10).await;
        purged.expect("a count")
    };
    assert_eq!((purge(false).await, purge(true).await), (0, 0));
    database
        .execute("UPDATE webhook_deliveries SET created_at = 1")
        .await;
    assert_eq!(purge(false).await, 2);
    assert_eq!(waiting(&store, &webhook).await[0].id, waits.id);
    assert_eq!(purge(true).await, 1);
}

async fn delivery_when_noted_twice_counts_once(database: Database) {
    let store = with_events(&database).await;
    let webhook = webhook(&store, &LinkEvent::ALL).await;
    let ping = store.ping_webhook(&webhook).await.expect("a delivery");
    for outcome in [success(), failure(Some(0))] {
        let outcomes = [(ping.id, outcome)];
        let noted = store.note_attempts(webhook.id, &outcomes, PATIENT);
        noted.await.expect("an answer");
    }
    let list = store.list_deliveries(webhook.id, None, 10).await;
    let noted = list.expect("deliveries").remove(0);
    assert_eq!((noted.state.as_str(), noted.attempts), ("delivered", 1));
}

async fn webhook_when_it_keeps_failing_pauses_and_is_disabled(database: Database) {
    let store = with_events(&database).await;
    let webhook = webhook(&store, &LinkEvent::ALL).await;
    let find = async || {
        let found = store.find_webhook(1, webhook.id).await;
        found.expect("an answer").expect("one")
    };
    let first = store.ping_webhook(&webhook).await.expect("a delivery");
    let note = async |outcomes: &[(u64, AttemptOutcome)], pause_millis, disable_after_millis| {
        let policy = FailurePolicy {
            pause_millis,
            disable_after_millis,
        };
        let noted = store.note_attempts(webhook.id, outcomes, policy);
        noted.await.expect("an answer")
    };
    let failed: [_; MANY_FAILURES as usize] = std::array::from_fn(|_| (first.id, failure(Some(0))));
    // A single failure pauses nothing.
    assert!(!note(&failed[..1], 3_600_000, 3_600_000).await);
    assert_eq!(
        (find().await.failures, due(&store).await),
        (1, vec![webhook.id])
    );
    let failed = &failed[1..];
    assert!(!note(failed, 3_600_000, 3_600_000).await);
    assert_eq!(
        (find().await.failures, due(&store).await),
        (MANY_FAILURES, vec![])
    );
    assert_eq!(
        store
            .due_deliveries(webhook.id, &[], 10)
            .await
            .expect("an answer"),
        None
    );

    // A ping ends the pause; then one delivery at a time is attempted.
    let second = store.ping_webhook(&webhook).await.expect("a delivery");
    assert_eq!(due(&store).await, [webhook.id]);
    assert_eq!(waiting(&store, &webhook).await.len(), 1);
    let next = store.due_deliveries(webhook.id, &[first.id], 10).await;
    assert!(next.expect("an answer").expect("a webhook").1.is_empty());
    // One success among failures ends them.
    let mixed = [(first.id, failure(Some(0))), (second.id, success())];
    assert!(!note(&mixed, 0, 0).await);
    let working = find().await;
    assert_eq!((working.failures, working.failing_since), (0, None));

    // Failures from long ago do not count.
    assert!(!note(failed, 0, 3_600_000).await);
    database
        .execute("UPDATE webhooks SET failing_since = 1, next_at = 2")
        .await;
    assert!(!note(failed, 0, 3_600_000).await);
    assert!(note(failed, 0, 0).await);
    let disabled = find().await;
    assert_eq!(disabled.state, WebhookState::Disabled);
    assert!(disabled.failing_since.is_some_and(|since| since > 1));
    assert_eq!(due(&store).await, [0; 0]);

    let activate = Box::new(|row: &WebhookRow| WebhookRow {
        state: WebhookState::Active,
        failures: 0,
        failing_since: None,
        previous_secret: Some((SigningKey([8; 32]), 9)),
        ..row.clone()
    });
    let entry = ("webhook.update", json!({ "state": "active" }));
    let actor = actor();
    let changed = store.change_webhook(webhook.id, &actor, entry, activate);
    let changed = changed.await.expect("an answer").expect("a webhook");
    assert_eq!(changed.previous_secret, Some((SigningKey([8; 32]), 9)));
    assert_eq!(due(&store).await, [webhook.id]);
}

async fn webhook_when_too_much_waits_is_disabled(database: Database) {
    let store = with_events(&database).await;
    let webhook = webhook(&store, &[LinkEvent::Created]).await;
    let links = (1..=4).map(|id| link(id, &format!("code{id}")));
    store.create_links(links.collect()).await.expect("links");
    let is_full = async |max| {
        store
            .disable_if_full(webhook.id, max)
            .await
            .expect("an answer")
    };
    assert!(!is_full(4).await);
    assert!(is_full(3).await);
    assert!(!is_full(3).await);
    let link = link(5, "code5");
    store.create_links(vec![link]).await.expect("a link");
    let list = store.list_deliveries(webhook.id, None, 10).await;
    assert_eq!(list.expect("deliveries").len(), 4);
}

async fn webhooks_when_due_take_turns(database: Database) {
    let store = with_events(&database).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let webhook = webhook(&store, &LinkEvent::ALL).await;
        store.ping_webhook(&webhook).await.expect("a delivery");
        ids.push(webhook.id);
    }
    let due = async |after, busy: &[u64], tenants: &[u32], limit| {
        let due = store.due_webhooks(after, busy, tenants, limit).await;
        let due = due.expect("webhooks");
        due.iter().map(|one| one.id).collect::<Vec<u64>>()
    };
    assert_eq!(due(0, &[], &[], 2).await, ids[..2]);
    assert_eq!(due(ids[0], &[], &[], 2).await, ids[1..]);
    assert_eq!(due(0, &ids[..2], &[], 3).await, ids[2..]);
    assert_eq!(due(0, &[], &[2], 3).await, ids);
    assert_eq!(due(0, &[], &[1], 3).await, [0; 0]);
}

async fn events_when_webhooks_change_are_not_lost(database: Database) {
    let store = with_events(&database).await;
    let wanted = webhook(&store, &[LinkEvent::Created]).await;
    let changing = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            loop {
                let made = webhook(&store, &[LinkEvent::Deleted]).await;
                let deleted = store.delete_webhook(made.id, &actor()).await;
                deleted.expect("an answer").expect("a webhook");
            }
        })
    };
    for id in 1..=100 {
        let link = link(id, &format!("code{id}"));
        store.create_links(vec![link]).await.expect("a link");
    }
    changing.abort();
    let _ = changing.await;
    assert_eq!(waiting(&store, &wanted).await.len(), 100);
}

async fn webhook_when_removed_during_a_change_stays_removed(database: Database) {
    let store = with_events(&database).await;
    for _ in 0..20 {
        let id = webhook(&store, &LinkEvent::ALL).await.id;
        let change = Box::new(|row: &WebhookRow| WebhookRow {
            state: WebhookState::Active,
            ..row.clone()
        });
        let actor = actor();
        let entry = ("webhook.update", json!({}));
        let (changed, deleted) = tokio::join!(
            store.change_webhook(id, &actor, entry, change),
            store.delete_webhook(id, &actor)
        );
        changed.expect("an answer").ok();
        deleted.expect("an answer").expect("a webhook");
        assert_eq!(store.find_webhook(1, id).await.expect("an answer"), None);
    }
}
