//! Clicks as visits, and lists with numbered pages.

use crate::store::clicking::Clicking;
use crate::store::fixture::{Database, as_it_is, create, delete, key, link};
use edgelink_model::tenancy::{FIRST_TENANT, Scope};
use edgelink_store::{
    Actor, LinkMove, ListQuery, MAX_NUMBERED, NewLink, NumberedPage, NumberedQuery, SortBy,
    TagClicks, VisitSum,
};
use edgelink_tests::stack::until;
use std::time::Duration;

on_every_database!(
    totals_when_the_tombstone_is_purged_go_with_it,
    rollups_when_many_of_a_tombstone_are_removed_in_parts,
    clicks_when_of_an_older_schema_are_in_the_totals,
    clicks_when_a_code_is_reused_do_not_pass_to_the_next_link,
    clicks_when_summed_are_grouped_by_tag_and_list,
    numbered_page_when_sorted_has_its_links_in_order,
    links_when_used_up_are_left_out,
    list_when_beyond_the_bound_says_it_is_cut_off,
);

fn newest(limit: u32) -> ListQuery {
    ListQuery::newest(Scope::tenant(FIRST_TENANT), limit)
}

async fn totals_when_the_tombstone_is_purged_go_with_it(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    let store = clicking.store.clone();
    create(&store, link(1, "a")).await.unwrap();
    create(&store, link(2, "b")).await.unwrap();
    clicking.follow(&[("a", 3), ("b", 1)]).await;
    clicking.follow(&[("a", 4), ("absent", 9)]).await;
    assert_eq!((clicking.total(1).await, clicking.total(2).await), (7, 1));
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    assert_eq!(clicking.total(1).await, 7);
    assert_eq!(store.purge_tombstones(0, 10).await.unwrap(), Some(1));
    assert_eq!((clicking.total(1).await, clicking.total(2).await), (0, 1));
    for table in [
        "click_hours WHERE kind = 1 AND scope_id = 1",
        "click_events WHERE link_id = 1",
    ] {
        assert_eq!(database.count(table).await, 0, "{table}");
    }
    assert_eq!(database.count("click_events WHERE link_id = 2").await, 1);
}

async fn clicks_when_of_an_older_schema_are_in_the_totals(database: Database) {
    let link = |id: u64, code: &str| {
        format!(
            "INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, tags, created_at, updated_at, rev) \
             VALUES ({id}, 1, '{code}', 'https://x.example/', 0, 302, 0, 1, '[]', 1, 1, 1)"
        )
    };
    let before = [
        "INSERT INTO domains (id, name) VALUES (1, 'a.example')".to_owned(),
        link(7, "a"),
        link(8, "b"),
        "INSERT INTO click_totals (link_key, clicks) VALUES ('a.example/a', 5), ('a.example/gone', 2), ('b.example/b', 1)"
            .to_owned(),
    ];
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    database.begin_at(88, &before).await;
    let mut clicking = Clicking::new(&database).await;
    assert_eq!((clicking.total(7).await, clicking.total(8).await), (5, 0));
    clicking.follow(&[("a", 1)]).await;
    assert_eq!(clicking.total(7).await, 6);
    // Another control plane of before goes on beside this one.
    for later in [
        "UPDATE click_totals SET clicks = clicks + 3 WHERE link_key = 'a.example/a'",
        "INSERT INTO click_totals (link_key, clicks) VALUES ('a.example/b', 4)",
        "INSERT INTO click_workers (worker, sent, dropped, counted, seen_at) VALUES (X'11111111111111111111111111111111', 9, 1, 7, 5)",
    ] {
        database.execute(later).await;
    }
    let store = clicking.store.clone();
    assert_eq!(store.clicks().take_older_clicks().await.unwrap(), 3 + 4);
    assert_eq!(store.clicks().take_older_clicks().await.unwrap(), 0);
    clicking.write().await;
    assert_eq!((clicking.total(7).await, clicking.total(8).await), (9, 4));
    let accounts = store.clicks().click_accounts().await.unwrap();
    let clicked = accounts.counted - 7;
    assert_eq!((accounts.dropped, clicked), (2, 1), "{accounts:?}");
    let all = database.count("click_totals WHERE behind = 1").await;
    assert_eq!(all, 0);
}

async fn rollups_when_many_of_a_tombstone_are_removed_in_parts(database: Database) {
    let clicking = Clicking::new(&database).await;
    let store = clicking.store.clone();
    create(&store, link(1, "a")).await.unwrap();
    let days = (0..1100).map(|day| format!("(1, 1, {day}, X'00')"));
    let days = days.collect::<Vec<_>>().join(", ");
    let fill = format!("INSERT INTO click_days (kind, scope_id, day, doc) VALUES {days}");
    database.execute(&fill).await;
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    assert_eq!(store.purge_tombstones(0, 10).await.unwrap(), None);
    assert_eq!(database.count("click_days").await, 100);
    assert_eq!(store.purge_tombstones(0, 10).await.unwrap(), Some(1));
    assert_eq!(database.count("click_days").await, 0);
}

async fn clicks_when_a_code_is_reused_do_not_pass_to_the_next_link(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    let store = clicking.store.clone();
    let a = key("a.example/a");
    create(&store, link(1, "a")).await.unwrap();
    create(&store, link(2, "b")).await.unwrap();
    clicking.visit("a", 4).await;
    assert!(delete(&store, &a).await.unwrap());
    assert_eq!(clicking.total(1).await, 4);
    let mut later = link(3, "a");
    // An imported link may be older than the one before.
    later.history.created_at = Some(1);
    create(&store, later).await.unwrap();
    clicking.resolver.invalidate_all();
    clicking.visit("a", 5).await;
    assert_eq!((clicking.total(1).await, clicking.total(3).await), (0, 5));

    assert!(delete(&store, &a).await.unwrap());
    let wanted = LinkMove {
        from: key("a.example/b"),
        to: a.clone(),
        keeps_old: false,
    };
    let actor = Actor::command_line(FIRST_TENANT);
    let moved = store.move_link(&wanted, 4, as_it_is(), &actor).await;
    let id = moved.unwrap().unwrap().unwrap().link.id;
    assert_eq!(clicking.total(id).await, 0, "a link that has moved");
    assert_eq!(
        id, 4,
        "a number of its own: clicks of the deleted link need not be removed at once"
    );
    let of_link = format!("click_events WHERE link_id = {id}");
    assert_eq!(database.count(&of_link).await, 0);
    clicking.resolver.invalidate_all();
    clicking.visit("a", 6).await;
    assert_eq!(clicking.total(id).await, 6);

    assert!(delete(&store, &a).await.unwrap());
    let restored = store.restore_link(&a, as_it_is(), &actor).await;
    restored.unwrap().unwrap().unwrap();
    assert_eq!(clicking.total(id).await, 6, "the same link");
    assert!(delete(&store, &a).await.unwrap());
    until(
        "the tombstones are purged",
        Duration::from_secs(10),
        async || {
            store.purge_tombstones(0, 10).await.unwrap();
            let found = store.restore_link(&a, as_it_is(), &actor).await;
            found.unwrap().is_none().then_some(())
        },
    )
    .await;
    assert_eq!(clicking.total(id).await, 0, "after a purge");
}

fn tagged(id: u64, code: &str, tags: &[&str]) -> NewLink {
    let mut new = link(id, code);
    new.content.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    new
}

async fn clicks_when_summed_are_grouped_by_tag_and_list(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    let store = clicking.store.clone();
    for new in [
        tagged(1, "a", &["x", "y"]),
        tagged(2, "b", &["x"]),
        tagged(3, "c", &[]),
    ] {
        create(&store, new).await.unwrap();
    }
    clicking
        .follow(&[("a", 3), ("b", 2), ("c", 1), ("none", 9)])
        .await;
    let tags = ["x", "y", "z"].map(str::to_owned);
    let sums = |most| store.tag_clicks(FIRST_TENANT, &tags, most);
    let of = |tag: &str, links, clicks| TagClicks {
        tag: tag.to_owned(),
        links,
        clicks,
        bots: 0,
    };
    assert_eq!(sums(10).await.unwrap(), [of("x", 2, 5), of("y", 1, 3)]);
    assert_eq!(sums(1).await.unwrap().len(), 2);
    assert!(sums(1).await.unwrap().iter().all(|sum| sum.links == 1));
    let sum = async |query: &ListQuery| store.sum_visits(query).await.unwrap();
    let visits = |visits| VisitSum {
        visits,
        bots: 0,
        is_cut_off: false,
    };
    assert_eq!(sum(&newest(1)).await, visits(6));
    let tags = vec!["x".to_owned()];
    assert_eq!(sum(&ListQuery { tags, ..newest(1) }).await, visits(5));
    let scope = Scope::tenant(2);
    assert_eq!(sum(&ListQuery::newest(scope, 1)).await, visits(0));
}

async fn numbered_page_when_sorted_has_its_links_in_order(database: Database) {
    let mut clicking = Clicking::new(&database).await;
    let store = clicking.store.clone();
    for (id, code, title, target) in [
        (1, "b", Some("Zoo"), "https://b.example/"),
        (2, "c", Some("apple"), "https://c.example/"),
        (3, "a", None, "https://a.example/"),
    ] {
        let mut new = link(id, code);
        new.content = crate::store::fixture::content(target);
        new.content.title = title.map(str::to_owned);
        create(&store, new).await.unwrap();
    }
    clicking.follow(&[("a", 1), ("c", 2)]).await;
    let page = async |sort, offset, limit| {
        let list = newest(limit);
        let query = NumberedQuery { list, sort, offset };
        let page = store.numbered_page(&query).await.unwrap();
        assert_eq!((page.total, page.is_cut_off), (3, false));
        let codes = page.links.iter().map(|link| link.code.to_string());
        codes.collect::<Vec<_>>().concat()
    };
    for (by, ascending, descending) in [
        (SortBy::ShortCode, "abc", "cba"),
        (SortBy::LongUrl, "abc", "cba"),
        (SortBy::Title, "acb", "bca"),
        (SortBy::Visits, "bac", "cab"),
    ] {
        assert_eq!(page(Some((by, false)), 0, 10).await, ascending, "{by:?}");
        assert_eq!(page(Some((by, true)), 0, 10).await, descending, "{by:?}");
        assert_eq!(
            page(Some((by, false)), 1, 1).await,
            ascending[1..2],
            "{by:?}"
        );
    }
    assert_eq!(page(None, 0, 2).await.len(), 2);
    assert_eq!(page(None, 2, 2).await.len(), 1);
    assert_eq!(page(None, 3, 2).await, "");
    assert_eq!(page(None, usize::MAX, 2).await, "");
}

async fn links_when_used_up_are_left_out(database: Database) {
    let store = database.store().await;
    for (id, code, max) in [(1, "a", Some(2)), (2, "b", Some(2)), (3, "c", None)] {
        let mut new = link(id, code);
        new.content.details.max_visits = max;
        create(&store, new).await.unwrap();
    }
    let visits = "INSERT INTO visits (link_id, used) VALUES (1, 2), (2, 1), (3, 9)";
    database.execute(visits).await;
    let list = ListQuery {
        hides_used_up: true,
        ..newest(10)
    };
    let query = NumberedQuery {
        list,
        sort: Some((SortBy::ShortCode, false)),
        offset: 0,
    };
    let page = store.numbered_page(&query).await.unwrap();
    let codes: Vec<&str> = page.links.iter().map(|link| link.code.as_str()).collect();
    assert_eq!(codes, ["b", "c"]);
}

async fn list_when_beyond_the_bound_says_it_is_cut_off(database: Database) {
    let store = database.store().await;
    let links = (0..MAX_NUMBERED as u64).map(|id| link(id, &format!("c{id}")));
    for batch in links.collect::<Vec<_>>().chunks(500) {
        let made = store.create_links(batch.to_vec()).await.unwrap();
        assert!(made.iter().all(Result::is_ok));
    }
    let page = async |sort| {
        let query = NumberedQuery {
            list: newest(2),
            sort,
            offset: MAX_NUMBERED - 1,
        };
        let NumberedPage {
            links,
            total,
            is_cut_off,
        } = store.numbered_page(&query).await.unwrap();
        (links.len(), total, is_cut_off)
    };
    let by_title = Some((SortBy::Title, false));
    assert_eq!(page(None).await, (1, MAX_NUMBERED, false));
    assert_eq!(page(by_title).await, (1, MAX_NUMBERED, false));
    create(&store, link(1 << 20, "more")).await.unwrap();
    assert_eq!(page(None).await, (1, MAX_NUMBERED, true));
    assert_eq!(page(by_title).await, (0, MAX_NUMBERED, true));
    assert!(store.sum_visits(&newest(1)).await.unwrap().is_cut_off);
}
