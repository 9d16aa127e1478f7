//! Events of links, and their deliveries to webhooks.

use crate::fixture::{Database, content, delete, key, link};
use edgelink_control_plane::links::model::Link;
use edgelink_control_plane::store::{
    Actor, Attempt, Delivery, LinkEvent, PING, Store, WebhookRow, WebhookState,
};
use serde_json::json;
use std::sync::Arc;

on_every_database!(
    each_change_has_its_deliveries_to_the_webhooks_that_want_it,
    a_delivery_waits_until_it_has_succeeded_or_is_given_up,
    a_webhook_that_fails_for_too_long_is_disabled,
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
        secret: [7; 32],
        previous_secret: Some(([8; 32], 9)),
        state: WebhookState::Active,
        failing_since: None,
        created_at: 0,
        updated_at: 0,
    };
    let made = store.insert_webhook(&row, &actor()).await;
    made.expect("an answer").expect("a webhook")
}

/// The events that wait for a webhook, the oldest first.
async fn waiting(store: &Store, webhook: &WebhookRow) -> Vec<Delivery> {
    let due = store.due_deliveries(webhook.id, 1000).await;
    let mut due = due.expect("deliveries");
    due.sort_by_key(|delivery| delivery.id);
    due
}

async fn each_change_has_its_deliveries_to_the_webhooks_that_want_it(database: Database) {
    let store = with_events(&database).await;
    let all = webhook(&store, &LinkEvent::ALL).await;
    let deletions = webhook(&store, &[LinkEvent::Deleted]).await;
    let links = (1..=300).map(|id| link(id, &format!("code{id}")));
    store.create_links(links.collect()).await.expect("links");
    let (first, actor) = (key("a.example/code1"), actor());
    let change = Box::new(|_: &Link| Ok(content("https://example.com/new")));
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
    assert_eq!(waiting(&store, &all).await.len(), 302);
    let due = store.due_webhooks(&[], 10).await.expect("webhooks");
    assert_eq!(due, [deletions]);
}

async fn a_delivery_waits_until_it_has_succeeded_or_is_given_up(database: Database) {
    let store = with_events(&database).await;
    let webhook = webhook(&store, &LinkEvent::ALL).await;
    assert_eq!(store.oldest_waiting_millis().await.expect("an age"), None);
    let ping = store.ping_webhook(&webhook).await.expect("a delivery");
    assert_eq!((ping.event.as_str(), ping.attempts), (PING, 0));
    assert!(
        store
            .oldest_waiting_millis()
            .await
            .expect("an age")
            .is_some()
    );
    assert_eq!(
        store.due_webhooks(&[], 10).await.expect("webhooks").len(),
        1
    );
    let busy = store.due_webhooks(&[webhook.id], 10).await;
    assert_eq!(busy.expect("webhooks"), []);

    let note = async |response_status, error: Option<&str>, retry_in| {
        let attempt = Attempt {
            response_status,
            error: error.map(str::to_owned),
            retry_in,
        };
        let noted = store.note_attempt(&webhook, &ping, &attempt, 3_600_000);
        assert!(!noted.await.expect("an answer"));
        let list = store.list_deliveries(webhook.id, None, 10).await;
        list.expect("deliveries").remove(0)
    };
    let retried = note(Some(500), Some("the answer is 500"), Some(60_000)).await;
    assert_eq!((retried.state.as_str(), retried.attempts), ("pending", 1));
    assert_eq!(
        (retried.response_status, retried.next_at.is_some()),
        (Some(500), true)
    );
    assert_eq!(waiting(&store, &webhook).await, []);
    let failed = note(None, Some("there was no answer in time"), None).await;
    assert_eq!((failed.state.as_str(), failed.attempts), ("failed", 2));
    assert_eq!((failed.response_status, failed.next_at), (None, None));
    let delivered = note(Some(204), None, None).await;
    assert_eq!(
        (delivered.state.as_str(), delivered.error),
        ("delivered", None)
    );
    assert_eq!(store.oldest_waiting_millis().await.expect("an age"), None);
    assert_eq!(
        store
            .purge_deliveries(3_600_000, 10)
            .await
            .expect("a count"),
        0
    );
    database
        .execute("UPDATE webhook_deliveries SET created_at = 1")
        .await;
    assert_eq!(
        store
            .purge_deliveries(3_600_000, 10)
            .await
            .expect("a count"),
        1
    );
}

async fn a_webhook_that_fails_for_too_long_is_disabled(database: Database) {
    let store = with_events(&database).await;
    let webhook = webhook(&store, &LinkEvent::ALL).await;
    let ping = store.ping_webhook(&webhook).await.expect("a delivery");
    let attempt = Attempt {
        response_status: Some(500),
        error: Some("the answer is 500".to_owned()),
        retry_in: Some(0),
    };
    let note = async |patience| {
        let noted = store.note_attempt(&webhook, &ping, &attempt, patience);
        noted.await.expect("an answer")
    };
    assert!(!note(3_600_000).await);
    assert!(note(0).await);
    let find = async || {
        store
            .find_webhook(1, webhook.id)
            .await
            .expect("an answer")
            .expect("one")
    };
    let disabled = find().await;
    assert_eq!(disabled.state, WebhookState::Disabled);
    assert!(disabled.failing_since.is_some());
    assert_eq!(disabled.previous_secret, None);
    assert_eq!(store.due_webhooks(&[], 10).await.expect("webhooks"), []);

    let activate = Box::new(|row: &WebhookRow| WebhookRow {
        state: WebhookState::Active,
        failing_since: None,
        previous_secret: Some(([8; 32], 9)),
        ..row.clone()
    });
    let entry = ("webhook.update", json!({ "state": "active" }));
    let actor = actor();
    let changed = store.change_webhook(webhook.id, &actor, entry, activate);
    let changed = changed.await.expect("an answer").expect("a webhook");
    assert_eq!(changed.previous_secret, Some(([8; 32], 9)));
    assert_eq!(
        store.due_webhooks(&[], 10).await.expect("webhooks"),
        [changed]
    );
}
