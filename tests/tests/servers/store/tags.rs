//! Tags of all links: listing, renaming, merging and removing them.

use crate::store::fixture::{Database, create, delete, key, link, migrated, patient};
use crate::store::listing::all_pages;
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_model::links::words::SearchTerm;
use edgelink_model::tenancy::{FIRST_TENANT, Scope};
use edgelink_store::{
    Actor, AuditQuery, ListQuery, MAX_COUNTED, MAX_RETAGGED, NewLink, Store, TagCount, TagQuery,
};
use edgelink_tests::servers::MariaDb;

on_every_database!(
    tags_when_listed_have_their_number_of_links,
    tag_when_it_has_many_links_counts_up_to_a_bound,
    tag_when_renamed_changes_links_lists_and_searches,
    tag_when_merged_or_removed_is_gone,
    tag_when_of_many_links_is_replaced_in_bounded_transactions,
    tag_when_an_older_version_deleted_its_link_is_removed,
    tag_when_changed_raises_the_revision_unpublished,
    links_when_expired_lose_their_tags,
);

fn actor() -> Actor {
    Actor::command_line(FIRST_TENANT)
}

fn tagged(id: u64, tags: &[&str]) -> NewLink {
    let new = link(id, &format!("c{id}"));
    NewLink {
        content: LinkContent {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..new.content
        },
        ..new
    }
}

fn query(limit: u32) -> TagQuery {
    TagQuery {
        tenant_id: FIRST_TENANT,
        prefix: String::new(),
        after: None,
        limit,
    }
}

async fn tags(store: &Store, query: &TagQuery) -> Vec<(String, u64)> {
    let tags = store.list_tags(query).await.unwrap();
    tags.into_iter()
        .map(|TagCount { tag, links }| (tag, links))
        .collect()
}

async fn all(store: &Store) -> Vec<(String, u64)> {
    tags(store, &query(1000)).await
}

fn counts(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    let owned = |(tag, links): &(&str, u64)| ((*tag).to_owned(), *links);
    expected.iter().map(owned).collect()
}

async fn with_tag(store: &Store, tag: &str) -> Vec<Link> {
    let query = ListQuery {
        tags: vec![tag.to_owned()],
        ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 100)
    };
    all_pages(store, query).await
}

async fn tags_when_listed_have_their_number_of_links(database: Database) {
    let store = database.store().await;
    for (id, tags) in [
        (1, &["a", "b"][..]),
        (2, &["b", "ba", "\u{e4} %_"]),
        (3, &["B", "b"]),
        (4, &[]),
    ] {
        create(&store, tagged(id, tags)).await.unwrap();
    }
    delete(&store, &key("a.example/c3")).await.unwrap();
    let expected = [("a", 1), ("b", 2), ("ba", 1), ("\u{e4} %_", 1)];
    assert_eq!(all(&store).await, counts(&expected));
    let beginning = |prefix: &str| TagQuery {
        prefix: prefix.to_owned(),
        ..query(10)
    };
    assert_eq!(tags(&store, &beginning("b")).await, counts(&expected[1..3]));
    assert_eq!(
        tags(&store, &beginning("ba")).await,
        counts(&expected[2..3])
    );
    assert_eq!(tags(&store, &beginning("c")).await, []);
    let mut listed = Vec::new();
    let mut page = query(1);
    loop {
        let next = tags(&store, &page).await;
        let Some((tag, _)) = next.last() else { break };
        page.after = Some(tag.clone());
        listed.extend(next);
    }
    assert_eq!(listed, counts(&expected));
    let other = TagQuery {
        tenant_id: 2,
        ..query(10)
    };
    assert_eq!(tags(&store, &other).await, []);
}

async fn tag_when_it_has_many_links_counts_up_to_a_bound(database: Database) {
    let store = database.store().await;
    let links = (0..MAX_COUNTED + 1).map(|id| tagged(id, &["many"]));
    store.create_links(links.collect()).await.unwrap();
    assert_eq!(all(&store).await, counts(&[("many", MAX_COUNTED)]));
}

async fn tag_when_renamed_changes_links_lists_and_searches(database: Database) {
    let store = database.store().await;
    create(&store, tagged(1, &["b", "old"])).await.unwrap();
    create(&store, tagged(2, &["older"])).await.unwrap();
    let replaced = store.replace_tag(&actor(), "old", Some("New Name")).await;
    assert_eq!(replaced.unwrap(), 1);
    assert_eq!(
        store.replace_tag(&actor(), "old", Some("x")).await.unwrap(),
        0
    );
    assert!(!store.has_tag(FIRST_TENANT, "old").await.unwrap());
    assert!(store.has_tag(FIRST_TENANT, "New Name").await.unwrap());
    assert!(!store.has_tag(2, "New Name").await.unwrap());
    assert_eq!(
        all(&store).await,
        counts(&[("New Name", 1), ("b", 1), ("older", 1)])
    );
    let links = with_tag(&store, "New Name").await;
    assert_eq!(links[0].content.tags, ["New Name", "b"]);
    for (text, expected) in [("old", 1), ("name", 1), ("new", 1), ("b", 1)] {
        let query = ListQuery {
            search: Some(SearchTerm::parse(text).unwrap()),
            ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 10)
        };
        assert_eq!(all_pages(&store, query).await.len(), expected, "{text}");
    }
    // Found as a twin by its present content.
    let scope = Scope::tenant(FIRST_TENANT);
    let like = edgelink_store::Wanted {
        scope: &scope,
        domain: &links[0].domain,
        code: None,
        content: &links[0].content,
    };
    assert_eq!(
        store.find_like(&[like]).await.unwrap(),
        [Some(links[0].clone())]
    );
}

async fn tag_when_merged_or_removed_is_gone(database: Database) {
    let store = database.store().await;
    create(&store, tagged(1, &["a", "b"])).await.unwrap();
    create(&store, tagged(2, &["a"])).await.unwrap();
    assert_eq!(
        store.replace_tag(&actor(), "a", Some("b")).await.unwrap(),
        2
    );
    assert_eq!(all(&store).await, counts(&[("b", 2)]));
    assert_eq!(
        store
            .replace_tag(&Actor::command_line(2), "b", None)
            .await
            .unwrap(),
        0
    );
    assert_eq!(store.replace_tag(&actor(), "b", None).await.unwrap(), 2);
    assert_eq!(all(&store).await, []);
    let untagged = ListQuery {
        without_tags: true,
        ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 10)
    };
    assert_eq!(all_pages(&store, untagged).await.len(), 2);
}

async fn tag_when_of_many_links_is_replaced_in_bounded_transactions(database: Database) {
    let store = database.store().await;
    let count = MAX_RETAGGED + 3;
    let links = (0..count).map(|id| tagged(id as u64, &["x", "y"]));
    store.create_links(links.collect()).await.unwrap();
    let mut done = Vec::new();
    while done.last() != Some(&0) {
        // What a crash leaves between two of them is listed, and the next one continues.
        done.push(store.replace_tag(&actor(), "x", Some("z")).await.unwrap());
        let sum: usize = done.iter().sum();
        assert_eq!(with_tag(&store, "z").await.len(), sum);
        assert_eq!(with_tag(&store, "x").await.len(), count - sum);
    }
    assert_eq!(done, [MAX_RETAGGED, 3, 0]);
    assert!(
        with_tag(&store, "z")
            .await
            .iter()
            .all(|link| link.content.tags == ["y", "z"])
    );
}

async fn tag_when_an_older_version_deleted_its_link_is_removed(database: Database) {
    let store = database.store().await;
    create(&store, tagged(1, &["a"])).await.unwrap();
    database.execute("UPDATE links SET deleted_at = 5").await;
    assert_eq!(with_tag(&store, "a").await, []);
    assert_eq!(
        store.replace_tag(&actor(), "a", Some("b")).await.unwrap(),
        1
    );
    assert_eq!(all(&store).await, []);
}

async fn tag_when_changed_raises_the_revision_unpublished(database: Database) {
    let store = database.store().await;
    let before = create(&store, tagged(1, &["a"])).await.unwrap();
    let waiting = store.outbox_size().await.unwrap().rows;
    store.replace_tag(&actor(), "a", None).await.unwrap();
    let after = store.find_link(&before.key()).await.unwrap().unwrap();
    assert!(after.rev > before.rev);
    assert!(after.updated_at >= before.updated_at);
    assert_eq!(after.created_at, before.created_at);
    assert_eq!(store.outbox_size().await.unwrap().rows, waiting);
    let entries = AuditQuery::of_tenant(FIRST_TENANT, 10);
    let entries = store.audit_entries(&entries).await.unwrap();
    let [entry] = entries.as_slice() else {
        panic!("{entries:?}");
    };
    assert_eq!(
        (entry.action.as_str(), entry.subject.as_str()),
        ("tag.delete", "tag:a")
    );
    assert_eq!(entry.detail, serde_json::json!({ "links": 1 }));
}

async fn links_when_expired_lose_their_tags(database: Database) {
    let store = database.store().await;
    let mut new = tagged(1, &["a"]);
    new.content.valid_until = Some(5);
    create(&store, new).await.unwrap();
    create(&store, tagged(2, &["b"])).await.unwrap();
    assert_eq!(store.purge_expired(0, 10).await.unwrap(), 1);
    assert_eq!(all(&store).await, counts(&[("b", 1)]));
}

/// A statement as long as the tags of 512 links can be does not reach a server that takes short ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_when_packets_are_small_are_replaced() {
    let server = MariaDb::start_with(&["--max-allowed-packet=1048576"]);
    let store = migrated(&patient(&server.database())).await;
    let long: Vec<String> = (0..31).map(|n| format!("{n:\u{1f517}>64}")).collect();
    let tags: Vec<&str> = long.iter().map(String::as_str).chain(["old"]).collect();
    let links = (0..MAX_RETAGGED as u64).map(|id| tagged(id, &tags));
    let created = store.create_links(links.collect()).await.unwrap();
    assert!(created.iter().all(Result::is_ok));
    let replaced = store.replace_tag(&actor(), "old", Some("new")).await;
    assert_eq!(replaced.unwrap(), MAX_RETAGGED);
    assert_eq!(with_tag(&store, "new").await.len(), MAX_RETAGGED);
}
