//! Sessions of the console.

use crate::store::clicking::now;
use crate::store::fixture::{Database, account};
use edgelink_model::tenancy::{FIRST_TENANT, FIRST_USER, Role};
use edgelink_store::{
    Actor, AuditQuery, Binding, FailedAccount, FailedSum, IDENTITY_AWAITED, IdentityError, Logins,
    NamedIdentity, NewSession, SessionLimits, Store, UserPatch,
};
use std::time::Duration;

on_every_database!(
    session_when_begun_reads_back_until_removed,
    session_when_idle_or_old_ends,
    session_when_used_is_extended,
    session_when_its_user_has_too_many_replaces_the_first_to_end,
    sessions_when_ended_are_purged_in_batches,
    user_when_logging_in_by_name_is_found,
    user_when_logging_in_by_identity_is_found,
    identity_when_its_login_is_awaited_is_bound,
    logins_when_they_fail_are_counted_by_account_and_hour,
);

const LIMITS: SessionLimits = SessionLimits {
    idle: Duration::from_hours(1),
    total: Duration::from_hours(2),
    per_user: 3,
};

/// Limits by which a session is over as soon as it has begun.
const OVER: SessionLimits = SessionLimits {
    idle: Duration::ZERO,
    ..LIMITS
};

fn session(number: u8) -> NewSession {
    NewSession {
        token_hash: [number; 32],
        user_id: FIRST_USER,
        tenant_id: FIRST_TENANT,
        key_id: number.is_multiple_of(2).then(|| "key".to_owned()),
        proof: [100 + number; 32],
        way: "key",
        address: [192, 0, 2, number].into(),
    }
}

async fn begin(store: &Store, number: u8, limits: SessionLimits) {
    store
        .insert_session(&session(number), limits)
        .await
        .unwrap();
}

async fn is_open(store: &Store, number: u8, limits: SessionLimits) -> bool {
    let found = store.use_session(&[number; 32], limits).await;
    found.unwrap().is_some()
}

async fn session_when_begun_reads_back_until_removed(database: Database) {
    let store = database.store().await;
    for number in [1, 2] {
        begin(&store, number, LIMITS).await;
        let found = store.find_session(&[number; 32], LIMITS).await.unwrap();
        let (found, new) = (found.unwrap(), session(number));
        assert_eq!(found.user.id, FIRST_USER);
        assert_eq!((found.key_id, found.proof), (new.key_id, new.proof));
        assert_eq!(found.logins, Logins::default());
    }
    store.remove_session(&[1; 32]).await.unwrap();
    assert!(!is_open(&store, 1, LIMITS).await && is_open(&store, 2, LIMITS).await);
}

async fn session_when_idle_or_old_ends(database: Database) {
    let store = database.store().await;
    begin(&store, 1, OVER).await;
    assert!(!is_open(&store, 1, LIMITS).await);
    begin(&store, 2, LIMITS).await;
    let old = SessionLimits {
        total: Duration::ZERO,
        ..LIMITS
    };
    assert!(!is_open(&store, 2, old).await);
    assert!(is_open(&store, 2, LIMITS).await);
}

async fn session_when_used_is_extended(database: Database) {
    let store = database.store().await;
    begin(&store, 1, LIMITS).await;
    let lasts = async |hours: u64| {
        let of = format!("console_sessions WHERE expires_at - created_at = {hours} * 3600000");
        database.count(&of).await == 1
    };
    assert!(lasts(1).await);
    assert!(is_open(&store, 1, LIMITS).await);
    assert!(
        lasts(1).await,
        "a request soon after another one is no write"
    );
    let longer = SessionLimits {
        idle: Duration::from_hours(9),
        ..LIMITS
    };
    let looked_at = store.find_session(&[1; 32], longer).await.unwrap();
    assert!(looked_at.is_some());
    assert!(lasts(1).await, "to look at it is no request");
    assert!(is_open(&store, 1, longer).await);
    assert!(lasts(2).await, "no longer than sessions last at all");
}

async fn session_when_its_user_has_too_many_replaces_the_first_to_end(database: Database) {
    let store = database.store().await;
    let longer = SessionLimits {
        idle: Duration::from_mins(90),
        ..LIMITS
    };
    begin(&store, 1, LIMITS).await;
    for number in [2, 3] {
        begin(&store, number, longer).await;
    }
    begin(&store, 4, LIMITS).await;
    assert!(
        !is_open(&store, 1, LIMITS).await,
        "it would have ended first"
    );
    for number in [2, 3, 4] {
        assert!(is_open(&store, number, LIMITS).await, "{number}");
    }
}

async fn sessions_when_ended_are_purged_in_batches(database: Database) {
    let store = database.store().await;
    let many = SessionLimits {
        per_user: 9,
        ..OVER
    };
    for number in 1..=3 {
        begin(&store, number, many).await;
    }
    let open = SessionLimits {
        per_user: 9,
        ..LIMITS
    };
    begin(&store, 4, open).await;
    let purged = async || store.purge_sessions(2).await.unwrap();
    assert_eq!([purged().await, purged().await, purged().await], [2, 1, 0]);
    assert!(is_open(&store, 4, LIMITS).await);
}

async fn user_when_logging_in_by_name_is_found(database: Database) {
    let store = database.store().await;
    let actor = Actor::command_line(FIRST_TENANT);
    let hash = edgelink_settings::config::Secret::new("$hash");
    let made = store
        .insert_user(&account("B\u{f6}b"), Role::Reader, Some(&hash), &actor)
        .await;
    let made = made.unwrap().unwrap();
    assert!(made.has_password);
    let login = async |tenant: &str, name: &str| {
        let (tenant, name) = (account(tenant), account(name));
        let found = store.user_of_login(&tenant, &name).await.unwrap();
        found.map(|(user, logins)| (user.id, logins.password_hash))
    };
    let expected = Some((made.id, Some("$hash".to_owned())));
    assert_eq!(login("default", "B\u{f6}b").await, expected);
    assert_eq!(login("default", "admin").await, Some((FIRST_USER, None)));
    for (tenant, name) in [
        ("default", "b\u{f6}b"),
        ("other", "B\u{f6}b"),
        ("default", "B\u{f6}"),
    ] {
        assert_eq!(login(tenant, name).await, None);
    }
    let change = async |patch: UserPatch| {
        store
            .change_user(made.id, &patch, &actor)
            .await
            .unwrap()
            .unwrap()
    };
    let removed = UserPatch {
        password: Some(None),
        ..UserPatch::default()
    };
    assert!(!change(removed).await.has_password);
    assert_eq!(login("default", "B\u{f6}b").await, Some((made.id, None)));
    let disabled = UserPatch {
        disabled: Some(true),
        ..UserPatch::default()
    };
    change(disabled).await;
    assert_eq!(login("default", "B\u{f6}b").await, None);
}

async fn user_when_logging_in_by_identity_is_found(database: Database) {
    let store = database.store().await;
    let actor = Actor::command_line(FIRST_TENANT);
    let ada = account("ada");
    let ada = store.insert_user(&ada, Role::Reader, None, &actor).await;
    let ada = ada.unwrap().unwrap();
    let names = ["ada", "Ada", "admin", "another name", "eve"].map(account);
    let identity = |hash: u8, name: &str| NamedIdentity {
        hash: [hash; 32],
        name: names.iter().find(|account| account.as_str() == name),
        role: None,
        new_role: None,
        binding: Binding::ByName,
    };
    let (tenant, other) = (account("default"), account("other"));
    let log_in = async |identity: NamedIdentity<'_>| {
        let found = store.log_in_identity(&tenant, &identity).await.unwrap();
        found.map(|(user, _)| (user.id, user.role))
    };
    assert_eq!(
        log_in(identity(1, "Ada")).await,
        Err(IdentityError::Unknown)
    );
    assert_eq!(
        log_in(identity(1, "admin")).await,
        Err(IdentityError::NameTaken)
    );
    let elsewhere = store.log_in_identity(&other, &identity(1, "ada")).await;
    assert_eq!(elsewhere.unwrap(), Err(IdentityError::NoTenant));
    for name in ["ada", "another name"] {
        assert_eq!(log_in(identity(1, name)).await, Ok((ada.id, Role::Reader)));
    }
    assert_eq!(
        log_in(identity(2, "ada")).await,
        Err(IdentityError::NameTaken)
    );
    let promoted = NamedIdentity {
        role: Some(Role::Editor),
        ..identity(1, "ada")
    };
    assert_eq!(log_in(promoted).await, Ok((ada.id, Role::Editor)));
    assert_eq!(log_in(identity(1, "ada")).await, Ok((ada.id, Role::Editor)));
    let new = NamedIdentity {
        new_role: Some(Role::Creator),
        ..identity(3, "eve")
    };
    let (eve, role) = log_in(new).await.unwrap();
    assert_eq!((eve > ada.id, role), (true, Role::Creator));
    let change = async |patch: UserPatch| {
        let changed = store.change_user(ada.id, &patch, &actor).await;
        changed.unwrap().unwrap()
    };
    let forgetting = UserPatch {
        forgets_identity: true,
        ..UserPatch::default()
    };
    assert!(!change(forgetting).await.has_identity);
    assert_eq!(log_in(identity(2, "ada")).await, Ok((ada.id, Role::Editor)));
    let disabled = UserPatch {
        disabled: Some(true),
        ..UserPatch::default()
    };
    change(disabled).await;
    assert_eq!(
        log_in(identity(2, "ada")).await,
        Err(IdentityError::Disabled)
    );
}

async fn identity_when_its_login_is_awaited_is_bound(database: Database) {
    let store = database.store().await;
    let actor = Actor::command_line(FIRST_TENANT);
    let (tenant, name) = (account("default"), account("ada"));
    let ada = store.insert_user(&name, Role::Reader, None, &actor).await;
    let ada = ada.unwrap().unwrap();
    let log_in = async |hash: u8| {
        let identity = NamedIdentity {
            hash: [hash; 32],
            name: Some(&name),
            role: None,
            new_role: Some(Role::Reader),
            binding: Binding::Awaited,
        };
        let found = store.log_in_identity(&tenant, &identity).await.unwrap();
        found.map(|(user, _)| user.id)
    };
    let set = async |awaits: bool| {
        let patch = UserPatch {
            awaits_identity: Some(awaits),
            ..UserPatch::default()
        };
        let changed = store.change_user(ada.id, &patch, &actor).await;
        changed.unwrap().unwrap()
    };
    assert_eq!(log_in(1).await, Err(IdentityError::NotAwaited));
    let awaited = set(true).await;
    let (until, at) = (awaited.awaits_identity_until.unwrap(), awaited.updated_at);
    let hour = u64::try_from(IDENTITY_AWAITED.as_millis()).unwrap();
    assert_eq!(until - at, hour);
    database
        .execute("UPDATE users SET awaits_identity_until = awaits_identity_until - 3700000 WHERE awaits_identity_until > 0")
        .await;
    assert_eq!(
        log_in(1).await,
        Err(IdentityError::NotAwaited),
        "it is over"
    );
    set(true).await;
    set(false).await;
    assert_eq!(log_in(1).await, Err(IdentityError::NotAwaited));
    set(true).await;
    assert_eq!(log_in(1).await, Ok(ada.id));
    assert_eq!(log_in(2).await, Err(IdentityError::NameTaken));
    let bound = store
        .find_user(FIRST_TENANT, ada.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (bound.has_identity, bound.awaits_identity_until),
        (true, None)
    );
}

async fn logins_when_they_fail_are_counted_by_account_and_hour(database: Database) {
    let store = database.store().await;
    let hour = || now() / 3_600;
    let begun = hour();
    let note = async |tenant_id: u32, user_id: Option<u64>, wrong: u64, refused: u64| {
        let account = FailedAccount { tenant_id, user_id };
        let address = [192, 0, 2, u8::try_from(wrong).unwrap()].into();
        let sum = FailedSum {
            wrong,
            refused,
            address,
        };
        store.note_failed_logins(account, sum).await.unwrap()
    };
    assert!(note(1, Some(FIRST_USER), 3, 0).await);
    assert!(note(1, None, 1, 0).await);
    assert!(note(1, Some(FIRST_USER), 4, 5).await);
    assert!(!note(99, None, 1, 0).await, "there is no such tenant");
    let entries = async || {
        let query = AuditQuery {
            action: Some("session.fail".to_owned()),
            ..AuditQuery::of_tenant(FIRST_TENANT, 10)
        };
        let entries = store.audit_entries(&query).await.unwrap();
        let shown = entries
            .into_iter()
            .map(|entry| (entry.subject, entry.detail.to_string()));
        shown.collect::<Vec<_>>()
    };
    let of_first = r#"{"address":"192.0.2.4","refused":5,"wrong":7}"#;
    let of_none = r#"{"address":"192.0.2.1","refused":0,"wrong":1}"#;
    let entry = |subject: &str, detail: &str| (subject.to_owned(), detail.to_owned());
    let expected = [entry("user:-", of_none), entry("user:1", of_first)];
    let counted = entries().await;
    if hour() == begun {
        assert_eq!(counted, expected);
    }
    database
        .execute("UPDATE audit SET at = at - 3600000 WHERE action = 'session.fail'")
        .await;
    assert!(note(1, Some(FIRST_USER), 1, 0).await);
    let later = entries().await;
    assert_eq!(
        later[0],
        entry("user:1", r#"{"address":"192.0.2.1","refused":0,"wrong":1}"#)
    );
}
