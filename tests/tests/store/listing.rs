//! Listing links page by page.

use crate::fixture::{Database, create, delete, key, link, migrated, patient};
use edgelink_control_plane::links::model::Link;
use edgelink_control_plane::store::{ListCursor, ListQuery, NewLink, Store};
use edgelink_tests::servers::MariaDb;
use edgelink_wire::{Code, Domain, LinkKey};
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row, raw_sql};

on_every_database!(
    pages_are_complete_and_ordered_though_many_links_are_equally_old,
    deleted_links_and_other_domains_are_not_listed,
    a_link_that_is_created_while_paging_moves_no_page,
    nothing_is_listed_on_an_unknown_domain,
    a_link_whose_code_has_become_a_reserved_word_is_listed_and_found,
);

/// What the server makes of the statements by which lists are read: an optimizer that sorts a table for every page answers
/// from a million links on no page in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_a_range_of_an_index_that_holds_no_tombstones() {
    const LIMIT: u32 = 7777;
    let server = MariaDb::start_with(&["--general-log=1", "--log-output=TABLE"]);
    let url = server.database();
    let store = migrated(&patient(&url)).await;
    create(&store, link(1_000_000, "a")).await.unwrap();
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    // One domain, as in most installations; three links of four are deleted.
    raw_sql(
        "INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, tags, created_at, \
         updated_at, deleted_at, rev) SELECT seq, 1, seq, 'https://x.example/', 0, 302, 0, 1, '[]', seq, seq, \
         IF(seq % 4, seq, NULL), 1 FROM seq_1_to_20000; ANALYZE TABLE links, domains",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    let after = ListCursor {
        created_at: 10_000,
        id: 10_000,
    };
    for domain in [None, Some("a.example")] {
        for after in [None, Some(after)] {
            let query = ListQuery {
                after,
                ..query(domain, LIMIT)
            };
            let links = store.list_links(&query).await.unwrap();
            assert_eq!(links.len(), if after.is_some() { 2_499 } else { 5_001 });
        }
    }

    let listed: Vec<(String,)> = sqlx::query_as(
        "SELECT CAST(argument AS CHAR) FROM mysql.general_log \
         WHERE command_type = 'Execute' AND argument LIKE 'SELECT l.id%ORDER BY l.created_at%'",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert_eq!(listed.len(), 6, "{listed:?}");
    for (statement,) in listed {
        let explain = AssertSqlSafe(format!("EXPLAIN {statement}"));
        let plan = raw_sql(explain).fetch_all(&mut connection).await.unwrap();
        let of = |row: &MySqlRow, column| row.get::<Option<String>, _>(column).unwrap_or_default();
        let extra: String = plan.iter().map(|row| of(row, "Extra")).collect();
        assert!(!extra.contains("filesort"), "{extra}: {statement}");
        assert!(!extra.contains("temporary"), "{extra}: {statement}");
        let index = of(&plan[0], "key");
        assert!(index.starts_with("links_live"), "{index}: {statement}");
        assert_eq!(of(&plan[0], "type"), "range", "{statement}");
    }
}

fn query(domain: Option<&str>, limit: u32) -> ListQuery {
    ListQuery {
        scope: None,
        domain: domain.map(|domain| Domain::parse(domain).unwrap()),
        after: None,
        limit,
    }
}

fn place_of(link: &Link) -> ListCursor {
    ListCursor {
        created_at: link.created_at,
        id: link.id,
    }
}

async fn all_pages(store: &Store, mut query: ListQuery) -> Vec<Link> {
    let mut all = Vec::new();
    loop {
        let page = store.list_links(&query).await.unwrap();
        let Some(last) = page.last() else {
            return all;
        };
        assert!(page.len() <= query.limit as usize);
        query.after = Some(place_of(last));
        all.extend(page);
    }
}

async fn pages_are_complete_and_ordered_though_many_links_are_equally_old(database: Database) {
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

async fn deleted_links_and_other_domains_are_not_listed(database: Database) {
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

async fn a_link_that_is_created_while_paging_moves_no_page(database: Database) {
    let store = database.store().await;
    let batch = (0..10).map(|n| link(n, &format!("c{n}"))).collect();
    store.create_links(batch).await.unwrap();
    let first = store.list_links(&query(None, 5)).await.unwrap();
    let newer = (10..20).map(|n| link(n, &format!("c{n}"))).collect();
    store.create_links(newer).await.unwrap();
    let rest = ListQuery {
        after: Some(place_of(&first[4])),
        ..query(None, 100)
    };
    let rest = store.list_links(&rest).await.unwrap();
    let codes: Vec<_> = first.iter().chain(&rest).map(|link| link.id).collect();
    assert_eq!(codes, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
}

async fn nothing_is_listed_on_an_unknown_domain(database: Database) {
    let store = database.store().await;
    create(&store, link(1, "a")).await.unwrap();
    let listed = store.list_links(&query(Some("unknown.example"), 10)).await;
    assert_eq!(listed.unwrap(), []);
}

async fn a_link_whose_code_has_become_a_reserved_word_is_listed_and_found(database: Database) {
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
