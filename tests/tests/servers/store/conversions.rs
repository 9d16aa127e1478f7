//! Conversions of clicks.

use crate::store::fixture::Database;
use edgelink_click_store::{Conversion, ConversionSum, IdentifiedClick, Recorded};
use edgelink_model::counts::ClickScope;
use edgelink_store::Store;

on_every_database!(
    conversion_when_recorded_again_counts_once,
    conversions_when_summed_are_grouped_by_event_and_currency,
    click_ids_when_old_are_purged_in_batches,
    conversions_when_their_link_loses_its_clicks_are_deleted,
);

/// A time in the tenth day.
const AT: u64 = 10 * 86_400 + 5;

fn click(number: u8, link_id: u64) -> IdentifiedClick {
    IdentifiedClick {
        id: [number; 16],
        link_id,
        tenant_id: 1,
        domain_id: 2,
        at: AT,
    }
}

fn conversion(number: u8, event: &str, value: u64) -> Conversion {
    Conversion {
        click_id: [number; 16],
        event: event.to_owned(),
        external_id: Some(format!("order-{number}")),
        value,
        currency: if value > 0 {
            "EUR".to_owned()
        } else {
            String::new()
        },
        at: AT,
    }
}

async fn identified(store: &Store, tenant_id: u32, id: [u8; 16]) -> Option<IdentifiedClick> {
    let found = store.clicks().identified_click(tenant_id, id).await;
    found.unwrap()
}

async fn record(
    store: &Store,
    click: IdentifiedClick,
    conversion: &Conversion,
    hash: u8,
) -> Recorded {
    let recorded = store
        .clicks()
        .record_conversion(&click, conversion, &[hash; 32])
        .await;
    recorded.unwrap()
}

async fn sums(store: &Store, scope: ClickScope, from: u64, to: u64) -> Vec<(String, u64, u64)> {
    let sums = store
        .clicks()
        .conversion_sums(&scope, from, to)
        .await
        .unwrap();
    let short = |sum: ConversionSum| (sum.event + &sum.currency, sum.conversions, sum.value);
    sums.into_iter().map(short).collect()
}

async fn conversion_when_recorded_again_counts_once(database: Database) {
    let store = database.store().await;
    let click = click(1, 7);
    store
        .clicks()
        .note_click_ids(&[click, click])
        .await
        .unwrap();
    store.clicks().note_click_ids(&[click]).await.unwrap();
    assert_eq!(identified(&store, 1, click.id).await, Some(click));
    assert_eq!(identified(&store, 2, click.id).await, None);
    assert_eq!(identified(&store, 1, [2; 16]).await, None);
    let sale = conversion(1, "sale", 500);
    assert_eq!(record(&store, click, &sale, 1).await, Recorded::New);
    let other = conversion(1, "other", 9);
    assert_eq!(
        record(&store, click, &other, 1).await,
        Recorded::Before(sale.clone())
    );
    let expected = vec![("saleEUR".to_owned(), 1, 500)];
    assert_eq!(sums(&store, ClickScope::Tenant(1), 10, 10).await, expected);
    let of_clicks = store
        .clicks()
        .conversions_of(&[[1; 16], [2; 16]])
        .await
        .unwrap();
    assert_eq!(of_clicks.len(), 1);
    assert_eq!(of_clicks[&[1; 16]], [sale]);
    assert!(store.clicks().conversions_of(&[]).await.unwrap().is_empty());
}

async fn conversions_when_summed_are_grouped_by_event_and_currency(database: Database) {
    let store = database.store().await;
    for (number, link_id, event, value) in [(1, 7, "sale", 5), (2, 7, "sale", 6), (3, 8, "lead", 0)]
    {
        let conversion = conversion(number, event, value);
        record(&store, click(number, link_id), &conversion, number).await;
    }
    let (sale, lead) = (("saleEUR".to_owned(), 2, 11), ("lead".to_owned(), 1, 0));
    let both = vec![sale.clone(), lead.clone()];
    let domain = |domain_id| ClickScope::Domain {
        tenant_id: 1,
        domain_id,
    };
    for (scope, expected) in [
        (ClickScope::Tenant(1), both.clone()),
        (ClickScope::Tenant(2), vec![]),
        (domain(2), both.clone()),
        (domain(3), vec![]),
        (ClickScope::Links(vec![7]), vec![sale]),
        (ClickScope::Links(vec![8, 9]), vec![lead]),
        (ClickScope::Links((7..2_000).collect()), both),
        (ClickScope::Links(vec![]), vec![]),
    ] {
        assert_eq!(
            sums(&store, scope.clone(), 10, 10).await,
            expected,
            "{scope:?}"
        );
        for (from, to) in [(0, 9), (11, 20)] {
            assert_eq!(sums(&store, scope.clone(), from, to).await, [], "{scope:?}");
        }
    }
}

async fn click_ids_when_old_are_purged_in_batches(database: Database) {
    let store = database.store().await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap().as_secs();
    let mut clicks: Vec<IdentifiedClick> = (1..=5).map(|number| click(number, 7)).collect();
    clicks[4].at = now;
    store.clicks().note_click_ids(&clicks).await.unwrap();
    assert_eq!(store.clicks().purge_click_ids(86_400, 3).await.unwrap(), 3);
    assert_eq!(store.clicks().purge_click_ids(86_400, 3).await.unwrap(), 1);
    assert!(identified(&store, 1, [5; 16]).await.is_some());
    assert!(identified(&store, 1, [1; 16]).await.is_none());
}

async fn conversions_when_their_link_loses_its_clicks_are_deleted(database: Database) {
    let store = database.store().await;
    for (number, link_id) in [(1, 7), (2, 8)] {
        let click = click(number, link_id);
        store.clicks().note_click_ids(&[click]).await.unwrap();
        record(&store, click, &conversion(number, "sale", 5), number).await;
    }
    store.clicks().delete_conversions(7).await.unwrap();
    assert!(identified(&store, 1, [1; 16]).await.is_none());
    let left = vec![("saleEUR".to_owned(), 1, 5)];
    assert_eq!(sums(&store, ClickScope::Tenant(1), 0, 20).await, left);
    assert_eq!(
        store
            .clicks()
            .conversions_of(&[[1; 16], [2; 16]])
            .await
            .unwrap()
            .len(),
        1
    );
}
