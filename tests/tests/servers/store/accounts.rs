//! Tenants and users.

use crate::store::fixture::{Database, account};
use crate::store::keys::api_key;
use edgelink_model::tenancy::{FIRST_TENANT, FIRST_USER, Role};
use edgelink_store::{AccountError, Actor, ApiKeyRow, AuditQuery, Store, UserPatch, UserRow};
use serde_json::json;

on_every_database!(
    user_when_inserted_reads_back_and_takes_its_name,
    user_list_when_paged_leaves_out_other_tenants,
    user_when_changed_by_another_tenant_is_not_found,
    key_when_its_user_is_disabled_is_not_found,
    tenant_when_inserted_has_an_admin_and_a_key,
    tenant_when_its_name_is_taken_leaves_nothing,
    account_name_when_of_an_older_schema_is_normalized,
    account_name_when_typed_differently_finds_one_user,
);

fn actor() -> Actor {
    Actor::command_line(FIRST_TENANT)
}

/// An admin key of the first user.
fn key(id: &str) -> ApiKeyRow {
    ApiKeyRow {
        name: id.to_owned(),
        secret_hash: [1; 32],
        created_at: 1,
        ..api_key(id)
    }
}

async fn user(store: &Store, name: &str, role: Role) -> UserRow {
    let made = store
        .insert_user(&account(name), role, None, &actor())
        .await;
    made.unwrap().unwrap()
}

async fn tenant(store: &Store, name: &str) -> u32 {
    let made = store
        .insert_tenant(&account(name), &key(name), &actor())
        .await;
    made.unwrap().unwrap().0.id
}

async fn user_when_inserted_reads_back_and_takes_its_name(database: Database) {
    let store = database.store().await;
    let made = user(&store, "B\u{f6}b", Role::Editor).await;
    assert_eq!((made.name.as_str(), made.role), ("B\u{f6}b", Role::Editor));
    assert!(!made.disabled && made.created_at > 1_700_000_000_000);
    let found = store.find_user(FIRST_TENANT, made.id).await.unwrap();
    assert_eq!(found, Some(made));
    let again = store
        .insert_user(&account("B\u{f6}b"), Role::Reader, None, &actor())
        .await;
    assert_eq!(again.unwrap(), Err(AccountError::NameTaken));
    user(&store, "b\u{f6}b", Role::Reader).await;
    let other = Actor::command_line(tenant(&store, "other").await);
    let there = store
        .insert_user(&account("B\u{f6}b"), Role::Reader, None, &other)
        .await;
    assert!(there.unwrap().is_ok());
}

async fn user_list_when_paged_leaves_out_other_tenants(database: Database) {
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

async fn user_when_changed_by_another_tenant_is_not_found(database: Database) {
    let store = database.store().await;
    let made = user(&store, "a", Role::Reader).await;
    user(&store, "b", Role::Reader).await;
    let patch = UserPatch {
        name: Some(account("c")),
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
        name: Some(account("b")),
        ..UserPatch::default()
    };
    let taken = store.change_user(made.id, &taken, &actor()).await;
    assert_eq!(taken.unwrap(), Err(AccountError::NameTaken));
    let found = store.find_user(FIRST_TENANT, made.id).await.unwrap();
    assert_eq!(found, Some(changed));
}

async fn key_when_its_user_is_disabled_is_not_found(database: Database) {
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

async fn tenant_when_inserted_has_an_admin_and_a_key(database: Database) {
    let store = database.store().await;
    let made = store
        .insert_tenant(&account("acme"), &key("k"), &actor())
        .await;
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

async fn tenant_when_its_name_is_taken_leaves_nothing(database: Database) {
    let store = database.store().await;
    let made = store
        .insert_tenant(&account("default"), &key("k"), &actor())
        .await;
    assert_eq!(made.unwrap(), Err(AccountError::NameTaken));
    assert_eq!(store.find_api_key("k").await.unwrap(), None);
    assert_eq!(store.list_tenants(0, 9).await.unwrap().len(), 1);
}

/// Each database told names apart by a rule of its own: one ignores spaces at the end.
async fn account_name_when_of_an_older_schema_is_normalized(database: Database) {
    let store = database.store().await;
    let other = tenant(&store, "other").await;
    let now = "1, 1";
    let (composed, decomposed) = ("B\u{f6}b", "Bo\u{308}b");
    let mut names = vec![
        (10, 1, composed.to_owned(), "B\u{f6}b"),
        (11, 1, decomposed.to_owned(), "B\u{f6}b (11)"),
        (12, 1, format!(" {decomposed}"), "B\u{f6}b (12)"),
        (13, other, format!("  {decomposed}"), "B\u{f6}b"),
        (14, 1, " eve".to_owned(), "eve"),
        (15, 1, "a\tb".to_owned(), "ab (15)"),
        (16, 1, "\u{2003}\u{2003}".to_owned(), "user (16)"),
    ];
    if database.is_sqlite() {
        names.push((17, 1, format!("{composed} "), "B\u{f6}b (17)"));
    }
    for (id, tenant, name, _) in &names {
        let insert = format!(
            "INSERT INTO users (id, tenant_id, name, role, created_at, updated_at) VALUES ({id}, {tenant}, '{name}', 'reader', {now})"
        );
        database.execute(&insert).await;
    }
    database
        .execute("INSERT INTO tenants (id, name, created_at) VALUES (90, ' default', 1), (91, ' acme', 1)")
        .await;
    store.migrate().await.unwrap();
    for (id, tenant, _, expected) in &names {
        let found = store.find_user(*tenant, *id).await.unwrap().unwrap();
        assert_eq!(found.name, *expected, "{id}");
        let tenant = account(if *tenant == 1 { "default" } else { "other" });
        let login = store.user_of_login(&tenant, &account(expected)).await;
        assert_eq!(login.unwrap().map(|(user, _)| user.id), Some(*id));
    }
    let tenants = store.list_tenants(80, 9).await.unwrap();
    let tenants: Vec<&str> = tenants.iter().map(|tenant| &*tenant.name).collect();
    assert_eq!(tenants, ["default (90)", "acme"]);
    // The audit log says what a renamed one was called.
    let query = AuditQuery {
        subject: Some("user:11".to_owned()),
        ..AuditQuery::of_tenant(1, 10)
    };
    let entries = store.audit_entries(&query).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        entries[0].detail,
        json!({ "name": "B\u{f6}b (11)", "formerly": decomposed })
    );
    // They are as they should be from then on.
    store.migrate().await.unwrap();
    assert_eq!(store.audit_entries(&query).await.unwrap(), entries);
}

async fn account_name_when_typed_differently_finds_one_user(database: Database) {
    let store = database.store().await;
    let made = user(&store, " Bo\u{308}b ", Role::Reader).await;
    assert_eq!(made.name, "B\u{f6}b");
    for typed in ["B\u{f6}b   ", "\u{a0}Bo\u{308}b", "B\u{f6}b"] {
        let (tenant, name) = (account(" default"), account(typed));
        let login = store.user_of_login(&tenant, &name).await;
        let found = login.unwrap().map(|(user, _)| user.id);
        assert_eq!(found, Some(made.id), "{typed:?}");
        let again = store.insert_user(&name, Role::Reader, None, &actor()).await;
        assert_eq!(again.unwrap(), Err(AccountError::NameTaken));
    }
}
