//! Domains that the API makes.

use crate::store::fixture::{Database, as_it_is, checked_target, content, create, delete, key};
use edgelink_settings::domains::model::{DomainDetails, DomainPatch, DomainRow};
use edgelink_store::{
    Actor, AuditQuery, ChangedDomain, CreateError, DomainError, LinkMove, MoveError, NewDomain,
    NewLink, Store,
};
use edgelink_wire::domain_record::MAX_DOMAIN_RECORDS;
use edgelink_wire::{Domain, DomainTargets, Record};

on_every_database!(
    domain_when_made_changed_and_removed_is_in_the_outbox,
    domain_when_made_again_keeps_its_id_and_raises_its_revision,
    domain_when_it_has_links_is_not_removed,
    domain_when_of_another_tenant_is_not_found,
    configured_domain_when_changed_first_gets_a_row,
    domain_when_beyond_the_bound_is_refused,
    domain_when_beyond_the_bound_of_its_tenant_is_refused,
    link_when_its_domain_was_removed_is_refused,
    domain_when_removed_during_creation_goes_or_keeps_its_links,
    links_when_domain_ids_were_swapped_come_to_their_domain,
    links_when_the_row_of_their_domain_is_lost_are_created,
);

const ROOT: &str = "https://root.example/";

fn actor(tenant_id: u32) -> Actor {
    Actor::command_line(tenant_id)
}

fn domain(name: &str) -> Domain {
    Domain::parse(name).expect("a domain")
}

fn new(name: &str, is_verified: bool) -> NewDomain {
    NewDomain {
        domain: domain(name),
        details: DomainDetails {
            root_url: Some(ROOT.to_owned()),
            ..DomainDetails::default()
        },
        token: "t".to_owned(),
        is_verified,
        max_of_tenant: u64::MAX,
        max_unverified: u64::MAX,
    }
}

fn which(name: &str) -> ChangedDomain {
    ChangedDomain {
        domain: domain(name),
        tenant_id: None,
        token: None,
        is_configured: false,
    }
}

fn verified(is: bool) -> DomainPatch {
    DomainPatch {
        verified: Some(is),
        ..DomainPatch::default()
    }
}

async fn insert(store: &Store, name: &str, is_verified: bool) -> Result<DomainRow, DomainError> {
    let (domain, actor) = (new(name, is_verified), actor(1));
    let made = store.insert_domain(&domain, &actor).await;
    made.expect("an answer")
}

async fn change(
    store: &Store,
    which: &ChangedDomain,
    patch: &DomainPatch,
) -> Result<DomainRow, DomainError> {
    let changed = store.change_domain(which, patch, &actor(1)).await;
    changed.expect("an answer")
}

async fn remove(store: &Store, name: &str) -> Result<DomainRow, DomainError> {
    let removed = store.delete_domain(&which(name), &actor(1)).await;
    removed.expect("an answer")
}

/// Key, revision, and target of `/` of each change in the outbox; no revision for an absence.
async fn outbox(store: &Store) -> Vec<(String, u64, Option<String>)> {
    let pending = store.pending(100).await.expect("the outbox");
    let mut changes = Vec::new();
    for batch in &pending.batches {
        for change in batch.changes().expect("changes") {
            let record: Record<&str> = change.record().expect("a record").record();
            let root = DomainTargets::of_record(&record).and_then(|targets| targets.root);
            let root = root.map(str::to_owned);
            changes.push((change.key.to_owned(), record.rev(), root));
        }
    }
    changes
}

async fn domain_when_made_changed_and_removed_is_in_the_outbox(database: Database) {
    let store = database.store().await;
    let made = insert(&store, "a.example", false).await.unwrap();
    assert!(made.is_made() && !made.is_in_effect());
    assert_eq!(store.domains().await.unwrap(), std::slice::from_ref(&made));
    assert_eq!(
        insert(&store, "a.example", false).await,
        Err(DomainError::Taken)
    );

    let in_effect = change(&store, &which("a.example"), &verified(true))
        .await
        .unwrap();
    assert!(in_effect.is_in_effect() && in_effect.rev > made.rev);
    let again = change(&store, &which("a.example"), &verified(true)).await;
    assert_eq!(again.as_ref(), Ok(&in_effect), "no change, no revision");
    let patch = DomainPatch {
        root_url: Some(None),
        default_status: Some(Some(308)),
        ..DomainPatch::default()
    };
    let changed = change(&store, &which("a.example"), &patch).await.unwrap();
    assert_eq!(changed.details.root_url, None);
    assert_eq!(changed.details.default_status, Some(308));
    assert_eq!(changed.verified_at, in_effect.verified_at);
    let other_token = ChangedDomain {
        token: Some("other".to_owned()),
        ..which("a.example")
    };
    let refused = change(&store, &other_token, &verified(false)).await;
    assert_eq!(refused, Err(DomainError::NotFound));

    let removed = remove(&store, "a.example").await.unwrap();
    assert!(store.domains().await.unwrap().is_empty());
    assert_eq!(
        remove(&store, "a.example").await,
        Err(DomainError::NotFound)
    );
    let key = || "a.example/".to_owned();
    let expected = [
        (key(), made.rev, None),
        (key(), in_effect.rev, Some(ROOT.to_owned())),
        (key(), changed.rev, None),
        (key(), removed.rev, None),
    ];
    assert_eq!(outbox(&store).await, expected);
    let query = AuditQuery {
        subject: Some("domain:a.example".to_owned()),
        ..AuditQuery::of_tenant(1, 10)
    };
    let log = store.audit_entries(&query).await.unwrap();
    let actions: Vec<&str> = log.iter().map(|entry| entry.action.as_str()).collect();
    let expected = [
        "domain.delete",
        "domain.update",
        "domain.update",
        "domain.create",
    ];
    assert_eq!(actions, expected);
}

async fn domain_when_made_again_keeps_its_id_and_raises_its_revision(database: Database) {
    let store = database.store().await;
    let first = insert(&store, "a.example", true).await.unwrap();
    let removed = remove(&store, "a.example").await.unwrap();
    let second = insert(&store, "a.example", true).await.unwrap();
    assert_eq!((first.id, second.id), (removed.id, first.id));
    assert!(first.rev < removed.rev && removed.rev < second.rev);
}

async fn domain_when_it_has_links_is_not_removed(database: Database) {
    let store = database.store().await;
    insert(&store, "a.example", true).await.unwrap();
    for id in 1..=2 {
        let text = format!("a.example/x{id}");
        let new = NewLink::new(id, key(&text), content("https://x.example/"));
        create(&store, new).await.unwrap();
    }
    assert_eq!(
        remove(&store, "a.example").await,
        Err(DomainError::HasLinks(2))
    );
    for id in 1..=2 {
        delete(&store, &key(&format!("a.example/x{id}")))
            .await
            .unwrap();
    }
    assert!(remove(&store, "a.example").await.is_ok());

    // A domain that was configured has links from before: they are not for another tenant.
    let text = "formerly.example/x";
    create(
        &store,
        NewLink::new(3, key(text), content("https://x.example/")),
    )
    .await
    .unwrap();
    assert_eq!(
        insert(&store, "formerly.example", true).await,
        Err(DomainError::Taken)
    );
}

async fn domain_when_of_another_tenant_is_not_found(database: Database) {
    let store = database.store().await;
    insert(&store, "a.example", true).await.unwrap();
    let of_second = ChangedDomain {
        tenant_id: Some(2),
        ..which("a.example")
    };
    let changed = change(&store, &of_second, &verified(false)).await;
    assert_eq!(changed, Err(DomainError::NotFound));
    let removed = store.delete_domain(&of_second, &actor(2)).await.unwrap();
    assert_eq!(removed, Err(DomainError::NotFound));
    // One of the first tenant who changes a domain of the second is in both logs.
    let made = store
        .insert_domain(&new("b.example", false), &actor(2))
        .await
        .unwrap();
    assert_eq!(made.unwrap().tenant_id, 2);
    change(&store, &which("b.example"), &verified(true))
        .await
        .unwrap();
    for (tenant_id, entries) in [(1, 1), (2, 2)] {
        let query = AuditQuery {
            subject: Some("domain:b.example".to_owned()),
            ..AuditQuery::of_tenant(tenant_id, 10)
        };
        assert_eq!(store.audit_entries(&query).await.unwrap().len(), entries);
    }
}

async fn configured_domain_when_changed_first_gets_a_row(database: Database) {
    let store = database.store().await;
    let patch = DomainPatch {
        root_url: Some(Some(checked_target(ROOT))),
        ..DomainPatch::default()
    };
    let unknown = change(&store, &which("go.example"), &patch).await;
    assert_eq!(unknown, Err(DomainError::NotFound));
    let configured = ChangedDomain {
        is_configured: true,
        ..which("go.example")
    };
    let row = change(&store, &configured, &patch).await.unwrap();
    assert!(!row.is_made());
    assert_eq!(row.details.root_url.as_deref(), Some(ROOT));
    let expected = ("go.example/".to_owned(), row.rev, Some(ROOT.to_owned()));
    assert_eq!(outbox(&store).await, [expected]);
    // Once the configuration has it no longer, a tenant may make it.
    assert!(
        insert(&store, "go.example", true)
            .await
            .unwrap()
            .is_in_effect()
    );
}

async fn domain_when_beyond_the_bound_is_refused(database: Database) {
    let store = database.store().await;
    let names = (0..MAX_DOMAIN_RECORDS).map(|number| format!("('{number}.example', 1, 1)"));
    let values = names.collect::<Vec<_>>().join(", ");
    let insertion = format!("INSERT INTO domains (name, tenant_id, created_at) VALUES {values}");
    database.execute(&insertion).await;
    assert_eq!(
        insert(&store, "a.example", true).await,
        Err(DomainError::TooMany)
    );
    remove(&store, "7.example").await.unwrap();
    assert!(insert(&store, "a.example", true).await.is_ok());
}

async fn domain_when_beyond_the_bound_of_its_tenant_is_refused(database: Database) {
    let store = database.store().await;
    database
        .execute("INSERT INTO tenants (id, name, created_at) VALUES (2, 'b', 1)")
        .await;
    let insert = async |name: &str, is_verified: bool, tenant_id: u32| {
        let domain = NewDomain {
            max_of_tenant: 3,
            max_unverified: 2,
            ..new(name, is_verified)
        };
        let made = store.insert_domain(&domain, &actor(tenant_id)).await;
        made.expect("an answer").map(|row| row.tenant_id)
    };
    assert_eq!(insert("a.example", false, 2).await, Ok(2));
    assert_eq!(insert("b.example", false, 2).await, Ok(2));
    let too_many = Err(DomainError::TooManyUnverified(2));
    assert_eq!(insert("c.example", false, 2).await, too_many);
    assert_eq!(insert("c.example", false, 1).await, Ok(1), "another tenant");
    change(&store, &which("a.example"), &verified(true))
        .await
        .unwrap();
    assert_eq!(insert("d.example", false, 2).await, Ok(2));
    let too_many = Err(DomainError::TooManyOfTenant(3));
    assert_eq!(insert("e.example", true, 2).await, too_many);
    remove(&store, "b.example").await.unwrap();
    assert_eq!(insert("e.example", true, 2).await, Ok(2));
}

fn on(id: u64, name: &str) -> NewLink {
    let key = key(&format!("{name}/x{id}"));
    NewLink::new(id, key, content("https://x.example/"))
}

async fn link_when_its_domain_was_removed_is_refused(database: Database) {
    let store = database.store().await;
    let store = store.with_configured_domains(&[domain("go.example")]);
    insert(&store, "a.example", true).await.unwrap();
    insert(&store, "b.example", true).await.unwrap();
    // The second is created in one message to a server, the first is not.
    for id in 1..=2 {
        create(&store, on(id, "a.example")).await.unwrap();
        assert!(delete(&store, &on(id, "a.example").key).await.unwrap());
    }
    create(&store, on(3, "b.example")).await.unwrap();
    remove(&store, "a.example").await.unwrap();
    let links = vec![
        on(4, "a.example"),
        on(5, "b.example"),
        on(6, "go.example"),
        on(1, "a.example"),
    ];
    let created = store.create_links(links).await.unwrap();
    let are_gone: Vec<bool> = created
        .iter()
        .map(|created| created == &Err(CreateError::DomainGone))
        .collect();
    assert_eq!(are_gone, [true, false, false, true]);
    let (deleted, actor_of_first) = (on(1, "a.example").key, actor(1));
    let restored = store.restore_link(&deleted, as_it_is(), &actor_of_first);
    assert_eq!(restored.await.unwrap(), None);
    let wanted = LinkMove {
        from: on(3, "b.example").key,
        to: on(7, "a.example").key,
        keeps_old: true,
    };
    let moved = store.move_link(&wanted, 7, as_it_is(), &actor(1)).await;
    assert_eq!(moved.unwrap(), Some(Err(MoveError::DomainGone)));
    // One that another tenant has made by now.
    database
        .execute("INSERT INTO tenants (id, name, created_at) VALUES (2, 'b', 1)")
        .await;
    let made = store
        .insert_domain(&new("a.example", true), &actor(2))
        .await;
    made.unwrap().unwrap();
    let refused = create(&store, on(8, "a.example")).await;
    assert_eq!(refused, Err(CreateError::DomainGone));
}

async fn domain_when_removed_during_creation_goes_or_keeps_its_links(database: Database) {
    let store = database.store().await;
    let store = store.with_configured_domains(&[]);
    let mut removals = 0;
    for round in 0..40 {
        insert(&store, "a.example", true).await.unwrap();
        let creations = (0..4).map(|n| {
            let store = store.clone();
            tokio::spawn(async move { create(&store, on(round * 4 + n, "a.example")).await })
        });
        let creations: Vec<_> = creations.collect();
        let removed = remove(&store, "a.example").await;
        let mut created = 0;
        for creation in creations {
            match creation.await.expect("an answer") {
                Ok(_) => created += 1,
                Err(error) => assert_eq!(error, CreateError::DomainGone),
            }
        }
        match removed {
            Ok(_) => assert_eq!(created, 0, "{round}"),
            Err(error) => assert!(matches!(error, DomainError::HasLinks(1..=4)), "{error}"),
        }
        removals += usize::from(removed.is_ok());
        for n in 0..4 {
            delete(&store, &on(round * 4 + n, "a.example").key)
                .await
                .unwrap();
        }
        if removed.is_err() {
            remove(&store, "a.example").await.unwrap();
        }
    }
    println!("{removals} of 40 removed before the links came");
}

/// As after a database went back: the keys of lost domains were given out again, in another order.
async fn links_when_domain_ids_were_swapped_come_to_their_domain(database: Database) {
    let plain = database.store().await;
    let store = plain.with_configured_domains(&[domain("a.example"), domain("b.example")]);
    for (id, name) in [(1, "a.example"), (2, "b.example"), (3, "a.example")] {
        create(&store, on(id, name)).await.unwrap();
    }
    database
        .execute(
            "UPDATE domains SET name = 'c.example' WHERE name = 'a.example'; \
             UPDATE domains SET name = 'a.example' WHERE name = 'b.example'; \
             UPDATE domains SET name = 'b.example' WHERE name = 'c.example'",
        )
        .await;
    // At once, with a link on either, and where others must not be created.
    create(&store, on(4, "a.example")).await.unwrap();
    let both = vec![on(5, "a.example"), on(6, "b.example")];
    for created in store.create_links(both).await.unwrap() {
        created.unwrap();
    }
    let wanted = LinkMove {
        from: on(6, "b.example").key,
        to: on(7, "a.example").key,
        keeps_old: false,
    };
    let check = as_it_is();
    let moved = store.move_link(&wanted, 7, check, &actor(1)).await;
    moved.unwrap().unwrap().unwrap();
    for (id, name) in [(4, "a.example"), (5, "a.example"), (7, "a.example")] {
        let found = store.find_link(&on(id, name).key).await.unwrap();
        assert_eq!(found.map(|link| link.id), Some(id), "{name}/x{id}");
    }
    let left = store.find_link(&on(6, "b.example").key).await.unwrap();
    assert_eq!(left, None);
    let looked_up = [
        (90, on(4, "a.example").key),
        (91, on(4, "b.example").key),
        (92, on(4, "none.example").key),
    ];
    let taken = store.are_taken(&looked_up).await.unwrap();
    assert_eq!(taken, [true, false, false]);
    let key_of_a = store.find_domain_key(&domain("a.example")).await.unwrap();
    let links = format!(
        "links WHERE code IN ('x4', 'x5', 'x7') AND domain_id = {}",
        key_of_a.unwrap()
    );
    assert_eq!(database.count(&links).await, 3);
}

async fn links_when_the_row_of_their_domain_is_lost_are_created(database: Database) {
    let store = database.store().await;
    let store = store.with_configured_domains(&[domain("a.example"), domain("b.example")]);
    create(&store, on(1, "a.example")).await.unwrap();
    create(&store, on(2, "b.example")).await.unwrap();
    let lose = "DELETE FROM link_words; DELETE FROM links; DELETE FROM domains";
    database.execute(lose).await;
    let created = create(&store, on(3, "a.example")).await.unwrap();
    assert_eq!(created.domain, domain("a.example"));
    let wanted = LinkMove {
        from: created.key(),
        to: on(4, "b.example").key,
        keeps_old: false,
    };
    let check = as_it_is();
    let moved = store.move_link(&wanted, 4, check, &actor(1)).await;
    moved.unwrap().unwrap().unwrap();
    assert!(store.find_link(&wanted.to).await.unwrap().is_some());
}
