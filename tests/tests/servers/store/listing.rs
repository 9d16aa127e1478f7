//! Listing links page by page.

use crate::store::fixture::{Database, create, delete, key, link};
use edgelink_model::links::model::Link;
use edgelink_model::tenancy::{FIRST_TENANT, Scope};
use edgelink_store::{LinkPage, ListOrder, ListQuery, NewLink, Store};
use edgelink_wire::{Code, Domain, LinkKey};

on_every_database!(
    pages_when_links_are_equally_old_are_complete_and_ordered,
    links_when_deleted_or_on_other_domains_are_not_listed,
    pages_when_links_are_created_meanwhile_do_not_move,
    list_when_the_domain_is_unknown_is_empty,
    link_when_its_code_has_become_reserved_is_still_found,
);

fn query(domain: Option<&str>, limit: u32) -> ListQuery {
    ListQuery {
        domain: domain.map(|domain| Domain::parse(domain).unwrap()),
        ..ListQuery::newest(Scope::tenant(FIRST_TENANT), limit)
    }
}

pub(crate) async fn all_pages(store: &Store, mut query: ListQuery) -> Vec<Link> {
    let mut all = Vec::new();
    loop {
        let page = store.list_links(&query).await.unwrap();
        assert!(page.links.len() <= query.limit as usize);
        all.extend(page.links);
        query.after = page.next;
        if query.after.is_none() {
            return all;
        }
    }
}

async fn pages_when_links_are_equally_old_are_complete_and_ordered(database: Database) {
    let store = database.store().await;
    // One batch has one creation time; the numbers are not in the order of the codes.
    let batch = (0..50)
        .map(|n| link((n * 37) % 50, &format!("c{n}")))
        .collect();
    let answers = store.create_links(batch).await.unwrap();
    let mut created: Vec<Link> = answers.into_iter().map(Result::unwrap).collect();
    created.push(create(&store, link(1000, "last")).await.unwrap());
    created.sort_by_key(|link| std::cmp::Reverse((link.created_at, link.id)));
    for limit in [1, 7, 51, 100] {
        assert_eq!(all_pages(&store, query(None, limit)).await, created);
        let on_domain = query(Some("a.example"), limit);
        assert_eq!(all_pages(&store, on_domain).await, created);
    }
}

async fn links_when_deleted_or_on_other_domains_are_not_listed(database: Database) {
    let store = database.store().await;
    create(&store, link(1, "a")).await.unwrap();
    create(&store, link(2, "b")).await.unwrap();
    let elsewhere = NewLink {
        key: key("b.example/a"),
        ..link(3, "a")
    };
    create(&store, elsewhere).await.unwrap();
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    let ids = |links: Vec<Link>| links.iter().map(|link| link.id).collect::<Vec<_>>();
    let of = |domain| all_pages(&store, query(domain, 10));
    assert_eq!(ids(of(Some("a.example")).await), [2]);
    assert_eq!(ids(of(Some("b.example")).await), [3]);
    assert_eq!(ids(of(None).await).len(), 2);
}

async fn pages_when_links_are_created_meanwhile_do_not_move(database: Database) {
    let store = database.store().await;
    let batch = (0..10).map(|n| link(n, &format!("c{n}"))).collect();
    store.create_links(batch).await.unwrap();
    let first = store.list_links(&query(None, 5)).await.unwrap();
    assert_eq!(
        first.next,
        Some(ListOrder::NewestFirst.place(&first.links[4]))
    );
    let newer = (10..20).map(|n| link(n, &format!("c{n}"))).collect();
    store.create_links(newer).await.unwrap();
    let rest = ListQuery {
        after: first.next,
        ..query(None, 100)
    };
    let rest = store.list_links(&rest).await.unwrap();
    let codes: Vec<_> = first
        .links
        .iter()
        .chain(&rest.links)
        .map(|link| link.id)
        .collect();
    assert_eq!(codes, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
}

async fn list_when_the_domain_is_unknown_is_empty(database: Database) {
    let store = database.store().await;
    create(&store, link(1, "a")).await.unwrap();
    let listed = store.list_links(&query(Some("unknown.example"), 10)).await;
    assert_eq!(listed.unwrap(), LinkPage::default());
}

async fn link_when_its_code_has_become_reserved_is_still_found(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), link(1, "a")).await.unwrap();
    let mut old = link(2, "b");
    let code = Code::stored("console").unwrap();
    assert!(Code::parse(code.as_str()).is_err());
    old.key = LinkKey::new(old.key.domain, code);
    let old_key = old.key.clone();
    create(store.as_ref(), old).await.unwrap();
    assert_eq!(all_pages(&store, query(None, 1)).await.len(), 2);
    let found = store.find_link(&old_key).await.unwrap();
    assert_eq!(found.unwrap().code, old_key.code);
}
