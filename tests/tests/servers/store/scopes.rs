//! Links of several tenants and owners in one database.

use crate::store::fixture::{Database, create, delete, key, link};
use edgelink_model::links::model::Link;
use edgelink_model::tenancy::Scope;
use edgelink_store::{CreateError, ListQuery, NewLink, Store, Twin, Wanted};

on_every_database!(
    list_when_scoped_has_links_of_its_scope_only,
    twin_when_outside_the_scope_is_not_found,
    twins_when_of_one_call_count_only_in_their_scope,
    code_when_taken_by_another_tenant_is_refused_until_deleted,
);

fn scope(tenant_id: u32, owner_id: Option<u64>) -> Scope {
    Scope {
        owner_id,
        ..Scope::tenant(tenant_id)
    }
}

/// A link of an owner who sees its own links only.
fn owned(id: u64, code: &str, tenant_id: u32, owner_id: u64) -> NewLink {
    NewLink {
        scope: scope(tenant_id, Some(owner_id)).into(),
        owner_id: Some(owner_id),
        ..link(id, code)
    }
}

async fn listed(store: &Store, scope: Scope) -> Vec<String> {
    let query = ListQuery::newest(scope.clone(), 100);
    let links = store.list_links(&query).await.unwrap().links;
    assert!(links.iter().all(|link| link.is_in(&scope)));
    let mut codes: Vec<String> = links.iter().map(|link| link.code.to_string()).collect();
    codes.sort_unstable();
    codes
}

async fn list_when_scoped_has_links_of_its_scope_only(database: Database) {
    let store = database.store().await;
    let tagged = |mut link: NewLink, tags: &[&str]| {
        link.content.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        link
    };
    let elsewhere = NewLink {
        key: key("b.example/d"),
        ..owned(4, "d", 2, 5)
    };
    for link in [
        link(1, "a"),
        tagged(owned(2, "b", 2, 5), &["\u{e4}\"\\", "x"]),
        tagged(owned(3, "c", 2, 6), &["y"]),
        elsewhere,
    ] {
        create(&store, link).await.unwrap();
    }
    assert_eq!(listed(&store, scope(1, None)).await, ["a"]);
    assert_eq!(listed(&store, scope(2, None)).await, ["b", "c", "d"]);
    assert_eq!(listed(&store, scope(2, Some(5))).await, ["b", "d"]);
    assert!(listed(&store, scope(1, Some(5))).await.is_empty());
    let domains = vec!["a.example".parse().unwrap(), "c.example".parse().unwrap()];
    let on_domains = Scope {
        domains,
        ..scope(2, None)
    };
    assert_eq!(listed(&store, on_domains).await, ["b", "c"]);
    for (tags, codes) in [
        (vec!["\u{e4}\"\\", "z"], vec!["b"]),
        (vec!["x", "y"], vec!["b", "c"]),
        (vec!["\u{e4}"], vec![]),
    ] {
        let tags = tags.into_iter().map(str::to_owned).collect();
        let with_tags = Scope {
            tags,
            ..scope(2, None)
        };
        assert_eq!(listed(&store, with_tags).await, codes);
    }
}

async fn twin_when_outside_the_scope_is_not_found(database: Database) {
    let store = database.store().await;
    let first = owned(1, "a", 2, 5);
    for new in [
        first.clone(),
        NewLink {
            content: first.content.clone(),
            ..owned(2, "b", 2, 6)
        },
    ] {
        create(&store, new).await.unwrap();
    }
    let find = async |scope: Scope, code: Option<&str>| -> Option<u64> {
        let code = code.map(|code| key(&format!("a.example/{code}")).code);
        let wanted = Wanted {
            scope: &scope,
            domain: &first.key.domain,
            code: code.as_ref(),
            content: &first.content,
        };
        let found = store.find_like(&[wanted]).await.unwrap();
        found[0].as_ref().map(|link| link.id)
    };
    assert_eq!(find(scope(2, None), None).await, Some(1));
    assert_eq!(find(scope(2, Some(6)), None).await, Some(2));
    assert_eq!(find(scope(2, Some(7)), None).await, None);
    assert_eq!(find(scope(1, None), None).await, None);
    assert_eq!(find(scope(2, Some(5)), Some("a")).await, Some(1));
    assert_eq!(find(scope(2, Some(6)), Some("a")).await, None);
    assert_eq!(find(scope(1, None), Some("a")).await, None);
}

async fn twins_when_of_one_call_count_only_in_their_scope(database: Database) {
    let store = database.store().await;
    let same = |id, code: &str, tenant_id, owner_id| NewLink {
        content: link(0, "same").content,
        twin: Twin::NotWithAnyCode,
        ..owned(id, code, tenant_id, owner_id)
    };
    let links = vec![
        same(1, "a", 2, 5),
        same(2, "b", 3, 5),
        same(3, "c", 2, 6),
        same(4, "d", 2, 5),
    ];
    let retried = links[2].clone();
    let answers = store.create_links(links).await.unwrap();
    let id = |link: &Link| link.id;
    assert_eq!(answers[0].as_ref().map(id), Ok(1));
    assert_eq!(answers[1].as_ref().map(id), Ok(2));
    // It waited for a link that it may not see, and is made by another call.
    assert_eq!(answers[2], Err(CreateError::NumberTaken));
    let Err(CreateError::Found(found)) = &answers[3] else {
        panic!("{:?}", answers[3]);
    };
    assert_eq!(found.id, 1);
    assert_eq!(create(&store, retried).await.map(|link| link.id), Ok(3));
}

async fn code_when_taken_by_another_tenant_is_refused_until_deleted(database: Database) {
    let store = database.store().await;
    create(&store, owned(1, "a", 2, 5)).await.unwrap();
    let other = NewLink {
        twin: Twin::NotWithThisCode,
        ..owned(2, "a", 3, 9)
    };
    assert_eq!(
        create(&store, other.clone()).await,
        Err(CreateError::CodeTaken)
    );
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    let created = create(&store, other).await.unwrap();
    assert_eq!((created.tenant_id, created.owner_id), (3, Some(9)));
    let found = store.find_link(&key("a.example/a")).await.unwrap();
    assert_eq!(found, Some(created));
    assert!(listed(&store, scope(2, None)).await.is_empty());
}
