//! API keys.

use crate::fixture::Database;
use edgelink_control_plane::store::ApiKeyRow;

on_every_database!(
    an_api_key_reads_back_and_is_found_by_its_exact_id,
    a_second_api_key_with_the_same_id_is_refused,
    api_keys_are_listed_oldest_first_until_they_are_deleted,
);

fn api_key(id: &str) -> ApiKeyRow {
    ApiKeyRow {
        id: id.to_owned(),
        name: "marketing \u{1F511}".to_owned(),
        secret_hash: std::array::from_fn(|n| n as u8 ^ 0xa5),
        created_at: 1_800_000_000_000,
    }
}

async fn an_api_key_reads_back_and_is_found_by_its_exact_id(database: Database) {
    let store = database.store().await;
    assert!(!store.has_api_keys().await.unwrap());
    store.insert_api_key(&api_key("aB3")).await.unwrap();
    assert!(store.has_api_keys().await.unwrap());
    assert_eq!(
        store.find_api_key("aB3").await.unwrap(),
        Some(api_key("aB3"))
    );
    for other in ["ab3", "AB3", "aB3 ", ""] {
        assert_eq!(store.find_api_key(other).await.unwrap(), None);
    }
}

async fn a_second_api_key_with_the_same_id_is_refused(database: Database) {
    let store = database.store().await;
    store.insert_api_key(&api_key("x")).await.unwrap();
    let error = store.insert_api_key(&api_key("x")).await.unwrap_err();
    assert!(!error.is_transient());
}

async fn api_keys_are_listed_oldest_first_until_they_are_deleted(database: Database) {
    let store = database.store().await;
    let aged = |id: &str, created_at| ApiKeyRow {
        created_at,
        ..api_key(id)
    };
    for key in [aged("b", 2), aged("a", 3), aged("c", 1)] {
        store.insert_api_key(&key).await.unwrap();
    }
    let listed = store.list_api_keys().await.unwrap();
    assert_eq!(listed, [aged("c", 1), aged("b", 2), aged("a", 3)]);
    assert!(store.delete_api_key("b").await.unwrap());
    assert!(!store.delete_api_key("b").await.unwrap());
    let listed = store.list_api_keys().await.unwrap();
    assert_eq!(listed, [aged("c", 1), aged("a", 3)]);
}
