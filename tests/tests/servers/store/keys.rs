//! API keys.

use crate::store::fixture::{Database, account};
use edgelink_model::tenancy::{Bounds, FIRST_TENANT, FIRST_USER, Role};
use edgelink_store::{
    AccountError, Actor, ApiKeyRow, AuditQuery, Binding, IdentityError, KeyQuery, NamedIdentity,
    PreviousSecret, Store, UserPatch,
};
use serde_json::json;
use tokio::task::JoinSet;

on_every_database!(
    api_key_when_inserted_is_found_by_its_exact_id,
    api_key_when_its_id_is_taken_is_refused,
    api_keys_when_listed_come_oldest_first_until_revoked,
    api_key_when_its_user_is_not_of_its_tenant_is_refused,
    api_key_when_changed_is_in_the_audit_log,
    api_key_when_of_another_tenant_is_not_found,
    admin_key_when_it_is_the_last_stays,
    admin_keys_when_two_are_revoked_at_once_leave_one,
    last_admin_when_a_provider_demotes_it_stays,
    quota_when_used_up_gives_nothing_until_returned,
    last_use_when_noted_late_does_not_move_back,
    api_key_when_older_than_tenants_belongs_to_the_first_user,
);

/// An admin key of the first user.
pub(crate) fn api_key(id: &str) -> ApiKeyRow {
    ApiKeyRow {
        id: id.to_owned(),
        name: "marketing \u{1F511}".to_owned(),
        secret_hash: std::array::from_fn(|n| n as u8 ^ 0xa5),
        previous: None,
        tenant_id: FIRST_TENANT,
        user_id: FIRST_USER,
        role: Role::Admin,
        bounds: Bounds::default(),
        expires_at: None,
        quota: None,
        used: 0,
        created_at: 1_800_000_000_000,
        last_used_at: None,
    }
}

fn actor() -> Actor {
    Actor::command_line(FIRST_TENANT)
}

async fn insert(store: &Store, key: &ApiKeyRow) {
    let inserted = store.insert_api_key(key, &actor()).await.unwrap();
    assert_eq!(inserted, Ok(()));
}

async fn found(store: &Store, id: &str) -> Option<ApiKeyRow> {
    let holder = store.find_api_key(id).await.unwrap();
    holder.map(|holder| holder.key)
}

/// A tenant with an admin key; its key and the user of it.
async fn tenant(store: &Store, name: &str, key_id: &str) -> (u32, u64) {
    let made = store
        .insert_tenant(&account(name), &api_key(key_id), &actor())
        .await;
    let (tenant, key) = made.unwrap().unwrap();
    assert_eq!(key.tenant_id, tenant.id);
    (tenant.id, key.user_id)
}

async fn api_key_when_inserted_is_found_by_its_exact_id(database: Database) {
    let store = database.store().await;
    assert!(!store.has_api_keys().await.unwrap());
    let bounds = Bounds {
        domains: vec!["a.example".parse().unwrap()],
        tags: vec!["\u{e4}\"".to_owned()],
    };
    let key = ApiKeyRow {
        role: Role::Editor,
        bounds,
        expires_at: Some(7),
        quota: Some(8),
        ..api_key("aB3")
    };
    insert(&store, &key).await;
    assert!(store.has_api_keys().await.unwrap());
    assert_eq!(found(&store, "aB3").await, Some(key));
    for other in ["ab3", "AB3", "aB3 ", ""] {
        assert_eq!(found(&store, other).await, None);
    }
}

async fn api_key_when_its_id_is_taken_is_refused(database: Database) {
    let store = database.store().await;
    insert(&store, &api_key("x")).await;
    let error = store.insert_api_key(&api_key("x"), &actor()).await;
    assert!(!error.unwrap_err().is_transient());
}

async fn api_keys_when_listed_come_oldest_first_until_revoked(database: Database) {
    let store = database.store().await;
    let aged = |id: &str, created_at| ApiKeyRow {
        created_at,
        ..api_key(id)
    };
    for key in [aged("b", 2), aged("a", 3), aged("c", 1), aged("d", 2)] {
        insert(&store, &key).await;
    }
    tenant(&store, "other", "e").await;
    let page = async |after: Option<(u64, &str)>, limit| {
        let query = KeyQuery {
            tenant_id: FIRST_TENANT,
            after: after.map(|(at, id)| (at, id.to_owned())),
            limit,
        };
        store.list_api_keys(&query).await.unwrap()
    };
    let all = [aged("c", 1), aged("b", 2), aged("d", 2), aged("a", 3)];
    assert_eq!(page(None, 9).await, all);
    assert_eq!(page(None, 2).await, all[..2]);
    assert_eq!(page(Some((2, "b")), 9).await, all[2..]);
    let revoked = store.revoke_api_key("b", &actor()).await.unwrap();
    assert_eq!(revoked, Ok(()));
    let revoked = store.revoke_api_key("b", &actor()).await.unwrap();
    assert_eq!(revoked, Err(AccountError::NotFound));
    assert_eq!(found(&store, "b").await, None);
    assert_eq!(page(Some((1, "c")), 9).await, all[2..]);
}

async fn api_key_when_its_user_is_not_of_its_tenant_is_refused(database: Database) {
    let store = database.store().await;
    let (other, user_id) = tenant(&store, "other", "a").await;
    for (tenant_id, user_id) in [(FIRST_TENANT, user_id), (other, FIRST_USER), (other, 999)] {
        let key = ApiKeyRow {
            tenant_id,
            user_id,
            ..api_key("b")
        };
        let inserted = store.insert_api_key(&key, &actor()).await.unwrap();
        assert_eq!(inserted, Err(AccountError::NoSuchUser));
        assert_eq!(found(&store, "b").await, None);
    }
}

async fn api_key_when_changed_is_in_the_audit_log(database: Database) {
    let store = database.store().await;
    insert(&store, &api_key("a")).await;
    let previous = PreviousSecret {
        hash: [7; 32],
        until: 9,
    };
    let change = move |old: &ApiKeyRow| {
        let new = ApiKeyRow {
            secret_hash: [8; 32],
            previous: Some(previous),
            ..old.clone()
        };
        (new, json!({ "overlapSeconds": 1 }))
    };
    let by = Actor {
        key_id: "k".to_owned(),
        user_id: Some(5),
        ..actor()
    };
    let changed = store.change_api_key("a", &by, "key.rotate", Box::new(change));
    let changed = changed.await.unwrap().unwrap();
    assert_eq!(changed.previous, Some(previous));
    assert_eq!(found(&store, "a").await, Some(changed));
    let query = AuditQuery {
        subject: Some("key:a".to_owned()),
        ..AuditQuery::of_tenant(FIRST_TENANT, 9)
    };
    let entries = store.audit_entries(&query).await.unwrap();
    let actions: Vec<&str> = entries.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["key.rotate", "key.create"]);
    assert_eq!(entries[0].actor, by);
    assert_eq!(entries[0].detail, json!({ "overlapSeconds": 1 }));
    assert_eq!(entries[1].actor, actor());
}

async fn api_key_when_of_another_tenant_is_not_found(database: Database) {
    let store = database.store().await;
    insert(&store, &api_key("a")).await;
    let (other, _) = tenant(&store, "other", "b").await;
    let stranger = Actor::command_line(other);
    assert_eq!(store.api_key_of(other, "a").await.unwrap(), None);
    assert!(store.api_key_of(other, "b").await.unwrap().is_some());
    let revoked = store.revoke_api_key("a", &stranger).await.unwrap();
    assert_eq!(revoked, Err(AccountError::NotFound));
    let change = |old: &ApiKeyRow| (old.clone(), json!({}));
    let changed = store.change_api_key("a", &stranger, "key.update", Box::new(change));
    assert_eq!(changed.await.unwrap(), Err(AccountError::NotFound));
    assert_eq!(found(&store, "a").await, Some(api_key("a")));
    let entries = store.audit_entries(&AuditQuery::of_tenant(other, 9)).await;
    assert_eq!(entries.unwrap().len(), 2, "its user and its key");
}

async fn admin_key_when_it_is_the_last_stays(database: Database) {
    let store = database.store().await;
    insert(&store, &api_key("a")).await;
    let temporary = ApiKeyRow {
        expires_at: Some(u64::MAX >> 1),
        ..api_key("b")
    };
    insert(&store, &temporary).await;
    let revoked = store.revoke_api_key("a", &actor()).await.unwrap();
    assert_eq!(revoked, Err(AccountError::LastAdmin));
    let tags = vec!["t".to_owned()];
    let bounds = Bounds {
        tags,
        ..Bounds::default()
    };
    for lesser in [
        ApiKeyRow {
            role: Role::Editor,
            ..api_key("a")
        },
        ApiKeyRow {
            expires_at: Some(9),
            ..api_key("a")
        },
        ApiKeyRow {
            bounds,
            ..api_key("a")
        },
    ] {
        let change = move |_: &ApiKeyRow| (lesser.clone(), json!({}));
        let actor = actor();
        let changed = store.change_api_key("a", &actor, "key.update", Box::new(change));
        assert_eq!(changed.await.unwrap(), Err(AccountError::LastAdmin));
    }
    for patch in [
        UserPatch {
            disabled: Some(true),
            ..UserPatch::default()
        },
        UserPatch {
            role: Some(Role::Reader),
            ..UserPatch::default()
        },
    ] {
        let changed = store.change_user(FIRST_USER, &patch, &actor()).await;
        assert_eq!(changed.unwrap(), Err(AccountError::LastAdmin));
    }
    assert_eq!(found(&store, "a").await, Some(api_key("a")));
    let (other, _) = tenant(&store, "other", "c").await;
    let revoked = store.revoke_api_key("c", &Actor::command_line(other)).await;
    assert_eq!(revoked.unwrap(), Err(AccountError::LastAdmin));
}

async fn admin_keys_when_two_are_revoked_at_once_leave_one(database: Database) {
    let store = database.store().await;
    for round in 0..4 {
        let ids = [format!("a{round}"), format!("b{round}")];
        for id in &ids {
            insert(&store, &api_key(id)).await;
        }
        let actor = actor();
        let [first, second] = ids.each_ref().map(|id| store.revoke_api_key(id, &actor));
        let (first, second) = tokio::join!(first, second);
        let outcomes = [first.unwrap(), second.unwrap()];
        if round == 0 {
            assert!(outcomes.contains(&Ok(())), "{outcomes:?}");
            assert!(outcomes.contains(&Err(AccountError::LastAdmin)));
        } else {
            // The one that the round before has left is still there.
            assert_eq!(outcomes, [Ok(()), Ok(())]);
        }
    }
}

async fn quota_when_used_up_gives_nothing_until_returned(database: Database) {
    let store = database.store().await;
    let limited = ApiKeyRow {
        quota: Some(5),
        ..api_key("a")
    };
    insert(&store, &limited).await;
    for (wanted, taken) in [(3, 3), (3, 2), (1, 0)] {
        assert_eq!(store.take_quota("a", wanted).await.unwrap(), taken);
    }
    store.return_quota("a", 2).await.unwrap();
    assert_eq!(found(&store, "a").await.unwrap().used, 3);
    assert_eq!(store.take_quota("a", 9).await.unwrap(), 2);
    assert_eq!(store.take_quota("absent", 1).await.unwrap(), 0);
    let other = ApiKeyRow {
        quota: Some(5),
        ..api_key("b")
    };
    insert(&store, &other).await;
    let mut takes = JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        takes.spawn(async move { store.take_quota("b", 1).await.unwrap() });
    }
    let taken: u64 = takes.join_all().await.into_iter().sum();
    assert_eq!(taken, 5, "of eight at once");
}

async fn last_use_when_noted_late_does_not_move_back(database: Database) {
    let store = database.store().await;
    for id in ["a", "b", "c"] {
        insert(&store, &api_key(id)).await;
    }
    let uses = |uses: &[(&str, u64)]| -> Vec<(String, u64)> {
        let owned = |(id, at): &(&str, u64)| ((*id).to_owned(), *at);
        uses.iter().map(owned).collect()
    };
    for noted in [
        uses(&[("a", 5), ("b", 6), ("absent", 1)]),
        uses(&[("a", 4), ("b", 7)]),
    ] {
        store.note_key_uses(&noted).await.unwrap();
    }
    for (id, at) in [("a", Some(5)), ("b", Some(7)), ("c", None)] {
        assert_eq!(found(&store, id).await.unwrap().last_used_at, at);
    }
}

async fn api_key_when_older_than_tenants_belongs_to_the_first_user(database: Database) {
    let hash = "X'".to_owned() + &"ab".repeat(32) + "'";
    let insert = format!(
        "INSERT INTO api_keys (id, name, secret_hash, created_at) VALUES ('a', 'old', {hash}, 1)"
    );
    database.begin_at(41, &[&insert]).await;
    let store = database.store().await;
    let holder = store.find_api_key("a").await.unwrap().unwrap();
    assert_eq!(holder.user_role, Role::Admin);
    let expected = ApiKeyRow {
        name: "old".to_owned(),
        secret_hash: [0xab; 32],
        created_at: 1,
        ..api_key("a")
    };
    assert_eq!(holder.key, expected);
}

async fn last_admin_when_a_provider_demotes_it_stays(database: Database) {
    let store = database.store().await;
    let (acme, _) = tenant(&store, "acme", "a").await;
    let actor = Actor::command_line(acme);
    let log_in = async |role: Role, name: &str| {
        let (tenant, name) = (account("acme"), account(name));
        let named = NamedIdentity {
            hash: [9; 32],
            name: Some(&name),
            role: Some(role),
            new_role: None,
            binding: Binding::ByName,
        };
        let found = store.log_in_identity(&tenant, &named).await.unwrap();
        found.map(|(user, _)| (user.id, user.role))
    };
    // The first user of a tenant is bound to no person.
    let refused = log_in(Role::Admin, "admin").await;
    assert_eq!(refused, Err(IdentityError::NameTaken));
    let root = store
        .insert_user(&account("root"), Role::Admin, None, &actor)
        .await;
    let root = root.unwrap().unwrap().id;
    let only = ApiKeyRow {
        tenant_id: acme,
        user_id: root,
        ..api_key("b")
    };
    let inserted = store.insert_api_key(&only, &actor).await.unwrap();
    assert!(inserted.is_ok(), "{inserted:?}");
    let revoked = store.revoke_api_key("a", &actor).await.unwrap();
    assert_eq!(revoked, Ok(()));
    assert_eq!(log_in(Role::Editor, "root").await, Ok((root, Role::Admin)));
    let users = store.list_users(acme, 0, 10).await.unwrap();
    let stored = users.iter().find(|user| user.id == root).unwrap();
    assert_eq!(stored.role, Role::Admin, "in the database as well");
}
