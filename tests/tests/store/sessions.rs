//! Sessions of the console.

use crate::fixture::Database;
use edgelink_control_plane::store::{
    Actor, IdentityError, Logins, NamedIdentity, NewSession, SessionLimits, Store, UserPatch,
};
use edgelink_control_plane::tenancy::{FIRST_TENANT, FIRST_USER, Role};
use std::time::Duration;

on_every_database!(
    a_session_reads_back_until_it_is_removed,
    a_session_ends_when_it_is_idle_and_when_it_is_old,
    a_request_extends_a_session,
    a_user_has_so_many_sessions,
    sessions_that_have_ended_are_purged_in_batches,
    a_user_is_found_by_its_login,
    a_user_is_found_by_its_identity,
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
        key_id: number.is_multiple_of(2).then(|| "key".to_owned()),
        proof: [100 + number; 32],
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

async fn a_session_reads_back_until_it_is_removed(database: Database) {
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

async fn a_session_ends_when_it_is_idle_and_when_it_is_old(database: Database) {
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

async fn a_request_extends_a_session(database: Database) {
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

async fn a_user_has_so_many_sessions(database: Database) {
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

async fn sessions_that_have_ended_are_purged_in_batches(database: Database) {
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

async fn a_user_is_found_by_its_login(database: Database) {
    let store = database.store().await;
    let actor = Actor::command_line(FIRST_TENANT);
    let hash = edgelink_control_plane::config::Secret::new("$hash");
    let made = store
        .insert_user("B\u{f6}b", Role::Reader, Some(&hash), &actor)
        .await;
    let made = made.unwrap().unwrap();
    assert!(made.has_password);
    let login = async |tenant: &str, name: &str| {
        let found = store.user_of_login(tenant, name).await.unwrap();
        found.map(|(user, logins)| (user.id, logins.password_hash))
    };
    let expected = Some((made.id, Some("$hash".to_owned())));
    assert_eq!(login("default", "B\u{f6}b").await, expected);
    assert_eq!(login("default", "admin").await, Some((FIRST_USER, None)));
    for (tenant, name) in [
        ("default", "b\u{f6}b"),
        ("other", "B\u{f6}b"),
        ("default", ""),
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

async fn a_user_is_found_by_its_identity(database: Database) {
    let store = database.store().await;
    let actor = Actor::command_line(FIRST_TENANT);
    let ada = store.insert_user("ada", Role::Reader, None, &actor).await;
    let ada = ada.unwrap().unwrap();
    let identity = |hash: u8, name: &'static str| NamedIdentity {
        hash: [hash; 32],
        name: Some(name),
        role: None,
        new_role: None,
    };
    let log_in = async |identity: NamedIdentity<'_>| {
        let found = store.log_in_identity("default", &identity).await.unwrap();
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
    let elsewhere = store.log_in_identity("other", &identity(1, "ada")).await;
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
