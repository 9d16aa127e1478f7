//! Tenants and users.

use crate::fixture::Database;
use edgelink_control_plane::store::{AccountError, Actor, ApiKeyRow, Store, UserPatch, UserRow};
use edgelink_control_plane::tenancy::{Bounds, FIRST_TENANT, FIRST_USER, Role};

on_every_database!(
    a_user_reads_back_and_its_name_is_unique_in_its_tenant,
    users_are_listed_page_by_page_and_without_those_of_other_tenants,
    a_user_is_changed_in_its_own_tenant_only,
    the_keys_of_a_disabled_user_are_not_found_until_it_is_enabled,
    a_tenant_begins_with_an_admin_and_its_key,
    a_tenant_whose_name_is_taken_leaves_nothing,
);

fn actor() -> Actor {
    Actor::command_line(FIRST_TENANT)
}

/// An admin key of the first user.
fn key(id: &str) -> ApiKeyRow {
    ApiKeyRow {
        id: id.to_owned(),
        name: id.to_owned(),
        secret_hash: [1; 32],
        previous: None,
        tenant_id: FIRST_TENANT,
        user_id: FIRST_USER,
        role: Role::Admin,
        bounds: Bounds::default(),
        expires_at: None,
        quota: None,
        used: 0,
        created_at: 1,
        last_used_at: None,
    }
}

async fn user(store: &Store, name: &str, role: Role) -> UserRow {
    let made = store.insert_user(name, role, None, &actor()).await;
    made.unwrap().unwrap()
}

async fn tenant(store: &Store, name: &str) -> u32 {
    let made = store.insert_tenant(name, &key(name), &actor()).await;
    made.unwrap().unwrap().0.id
}

async fn a_user_reads_back_and_its_name_is_unique_in_its_tenant(database: Database) {
    let store = database.store().await;
    let made = user(&store, "B\u{f6}b", Role::Editor).await;
    assert_eq!((made.name.as_str(), made.role), ("B\u{f6}b", Role::Editor));
    assert!(!made.disabled && made.created_at > 1_700_000_000_000);
    let found = store.find_user(FIRST_TENANT, made.id).await.unwrap();
    assert_eq!(found, Some(made));
    let again = store
        .insert_user("B\u{f6}b", Role::Reader, None, &actor())
        .await;
    assert_eq!(again.unwrap(), Err(AccountError::NameTaken));
    user(&store, "b\u{f6}b", Role::Reader).await;
    let other = Actor::command_line(tenant(&store, "other").await);
    let there = store
        .insert_user("B\u{f6}b", Role::Reader, None, &other)
        .await;
    assert!(there.unwrap().is_ok());
}

async fn users_are_listed_page_by_page_and_without_those_of_other_tenants(database: Database) {
    let store = database.store().await;
    tenant(&store, "other").await;
    let a = user(&store, "a", Role::Reader).await.id;
    let b = user(&store, "b", Role::Reader).await.id;
    let list = async |after, limit| -> Vec<u64> {
        let users = store.list_users(FIRST_TENANT, after, limit).await.unwrap();
        users.into_iter().map(|user| user.id).collect()
    };
    assert_eq!(list(0, 9).await, [FIRST_USER, a, b]);
    assert_eq!(list(0, 2).await, [FIRST_USER, a]);
    assert_eq!(list(a, 2).await, [b]);
}

async fn a_user_is_changed_in_its_own_tenant_only(database: Database) {
    let store = database.store().await;
    let made = user(&store, "a", Role::Reader).await;
    user(&store, "b", Role::Reader).await;
    let patch = UserPatch {
        name: Some("c".to_owned()),
        role: Some(Role::Creator),
        ..UserPatch::default()
    };
    let stranger = Actor::command_line(tenant(&store, "other").await);
    let changed = store.change_user(made.id, &patch, &stranger).await;
    assert_eq!(changed.unwrap(), Err(AccountError::NotFound));
    let changed = store.change_user(made.id, &patch, &actor()).await;
    let changed = changed.unwrap().unwrap();
    assert_eq!((changed.name.as_str(), changed.role), ("c", Role::Creator));
    let taken = UserPatch {
        name: Some("b".to_owned()),
        ..UserPatch::default()
    };
    let taken = store.change_user(made.id, &taken, &actor()).await;
    assert_eq!(taken.unwrap(), Err(AccountError::NameTaken));
    let found = store.find_user(FIRST_TENANT, made.id).await.unwrap();
    assert_eq!(found, Some(changed));
}

async fn the_keys_of_a_disabled_user_are_not_found_until_it_is_enabled(database: Database) {
    let store = database.store().await;
    let made = user(&store, "a", Role::Editor).await;
    let key = ApiKeyRow {
        user_id: made.id,
        ..key("k")
    };
    store.insert_api_key(&key, &actor()).await.unwrap().unwrap();
    let holder = store.find_api_key("k").await.unwrap().unwrap();
    assert_eq!(holder.user_role, Role::Editor);
    for (disabled, is_found) in [(true, false), (false, true)] {
        let patch = UserPatch {
            disabled: Some(disabled),
            ..UserPatch::default()
        };
        let changed = store.change_user(made.id, &patch, &actor()).await;
        assert_eq!(changed.unwrap().unwrap().disabled, disabled);
        let holder = store.find_api_key("k").await.unwrap();
        assert_eq!(holder.is_some(), is_found);
    }
}

async fn a_tenant_begins_with_an_admin_and_its_key(database: Database) {
    let store = database.store().await;
    let made = store.insert_tenant("acme", &key("k"), &actor()).await;
    let (made, row) = made.unwrap().unwrap();
    let user = store
        .find_user(made.id, row.user_id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((user.role, user.tenant_id), (Role::Admin, made.id));
    let holder = store.find_api_key("k").await.unwrap().unwrap();
    assert_eq!(holder.key, row);
    let tenants = store.list_tenants(0, 9).await.unwrap();
    assert_eq!(tenants[0].name, "default");
    assert_eq!(&tenants[1..], std::slice::from_ref(&made));
    assert_eq!(store.list_tenants(FIRST_TENANT, 9).await.unwrap(), [made]);
}

async fn a_tenant_whose_name_is_taken_leaves_nothing(database: Database) {
    let store = database.store().await;
    let made = store.insert_tenant("default", &key("k"), &actor()).await;
    assert_eq!(made.unwrap(), Err(AccountError::NameTaken));
    assert_eq!(store.find_api_key("k").await.unwrap(), None);
    assert_eq!(store.list_tenants(0, 9).await.unwrap().len(), 1);
}
