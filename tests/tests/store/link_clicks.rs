//! Clicks as visits, and lists with numbered pages.

use crate::fixture::{Database, create, delete, key, link};
use edgelink_control_plane::store::{
    Actor, AuditQuery, ClickMinute, CountedBatch, LinkMove, ListQuery, MAX_NUMBERED, MinuteQuery,
    NewLink, NumberedPage, NumberedQuery, SortBy, Store, TagClicks, VisitSum,
};
use edgelink_control_plane::tenancy::{FIRST_TENANT, Scope};
use edgelink_tests::stack::until;
use edgelink_wire::LinkKey;
use std::collections::HashMap;
use std::time::Duration;

on_every_database!(
    totals_outlive_minutes_and_go_with_the_tombstone,
    clicks_of_a_link_are_deleted_and_counted_again,
    clicks_from_before_the_totals_are_in_them,
    clicks_of_a_link_are_not_those_of_the_next_one,
    what_is_left_of_deleted_clicks_is_not_shown_and_goes_later,
    minutes_come_newest_first,
    minutes_of_a_list_are_found_behind_those_of_other_links,
    clicks_are_summed_up_by_tag_and_by_list,
    a_page_has_its_place_in_any_order,
    links_without_visits_left_are_left_out,
    a_list_of_more_links_than_are_looked_at_says_so,
);

const ALL: MinuteQuery = MinuteQuery {
    key: None,
    from: 0,
    to: u32::MAX as u64,
};

async fn count(store: &Store, seq: u64, minute: u64, clicks: &[(&str, u64)]) {
    let batch = CountedBatch {
        worker: [1; 16],
        seq,
        sent: 0,
        dropped: 0,
        minute,
        received_at: 1,
        clicks: clicks
            .iter()
            .map(|(code, clicks)| (format!("a.example/{code}"), *clicks))
            .collect(),
    };
    assert_eq!(store.count_clicks(&[batch]).await.unwrap(), 1);
}

async fn total(store: &Store, code: &str) -> Option<u64> {
    let key = key(&format!("a.example/{code}"));
    let totals = store.click_totals(std::slice::from_ref(&key)).await;
    totals.unwrap().get(&key.to_string()).copied()
}

fn newest(limit: u32) -> ListQuery {
    ListQuery::newest(Scope::tenant(FIRST_TENANT), limit)
}

async fn totals_outlive_minutes_and_go_with_the_tombstone(database: Database) {
    let store = database.store().await;
    create(&store, link(1, "a")).await.unwrap();
    count(&store, 1, 5, &[("a", 3), ("b", 1)]).await;
    count(&store, 2, 6, &[("a", 4)]).await;
    let keys = ["a.example/a", "a.example/b", "a.example/c"].map(key);
    let expected = [("a.example/a", 7), ("a.example/b", 1)];
    let expected: HashMap<String, u64> = expected.map(|(key, n)| (key.to_owned(), n)).into();
    assert_eq!(store.click_totals(&keys).await.unwrap(), expected);
    assert_eq!(store.purge_clicks(0, 0, 100).await.unwrap(), 5);
    assert_eq!(total(&store, "a").await, Some(7));
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    assert_eq!(total(&store, "a").await, Some(7));
    assert_eq!(store.purge_tombstones(0, 10).await.unwrap(), 1);
    assert_eq!(total(&store, "a").await, None);
    assert_eq!(total(&store, "b").await, Some(1));
}

async fn clicks_of_a_link_are_deleted_and_counted_again(database: Database) {
    let store = database.store().await;
    // More minutes than one statement deletes.
    for seq in 1..=3 {
        count(&store, seq, seq, &[("a", 1), ("b", 1)]).await;
    }
    let minutes: Vec<String> = (100..1300)
        .map(|minute| format!("({minute}, 'a.example/a', 1)"))
        .collect();
    let insert = "INSERT INTO click_minutes (minute, link_key, clicks) VALUES ";
    database
        .execute(&format!("{insert}{}", minutes.join(", ")))
        .await;
    let (a, actor) = (key("a.example/a"), Actor::command_line(FIRST_TENANT));
    assert_eq!(store.delete_clicks(&a, &actor).await.unwrap(), 3);
    assert_eq!(store.delete_clicks(&a, &actor).await.unwrap(), 0);
    let rest = store.click_minutes(&ALL).await.unwrap();
    assert!(rest.iter().all(|minute| minute.key == "a.example/b"));
    assert_eq!((rest.len(), total(&store, "b").await), (3, Some(3)));
    count(&store, 4, 9, &[("a", 2)]).await;
    assert_eq!(total(&store, "a").await, Some(2));
}

async fn clicks_from_before_the_totals_are_in_them(database: Database) {
    let before = "INSERT INTO click_minutes (minute, link_key, clicks) \
                  VALUES (5, 'a.example/a', 2), (6, 'a.example/a', 3), (6, 'a.example/b', 1)";
    database.begin_at(84, &[before]).await;
    let store = database.store().await;
    assert_eq!(total(&store, "a").await, Some(5));
    count(&store, 1, 7, &[("a", 1)]).await;
    assert_eq!(total(&store, "a").await, Some(6));
}

/// A minute from which on clicks are those of links that are there.
fn minute_from_now(minutes: u64) -> u64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_secs() / 60 + minutes
}

async fn clicks_of_a_link_are_not_those_of_the_next_one(database: Database) {
    let store = database.store().await;
    let (a, now) = (key("a.example/a"), minute_from_now(0));
    let minutes = async |key: Option<LinkKey>| {
        let query = MinuteQuery { key, ..ALL };
        store.click_minutes(&query).await.unwrap().len()
    };
    let mut seq = 0;
    let mut follow = async || {
        for minute in [now - 2, now - 1, now, now + 1] {
            seq += 1;
            count(&store, seq, minute, &[("a", 1)]).await;
        }
    };
    create(&store, link(1, "a")).await.unwrap();
    create(&store, link(2, "b")).await.unwrap();
    follow().await;
    assert!(delete(&store, &a).await.unwrap());
    assert_eq!(
        (total(&store, "a").await, minutes(Some(a.clone())).await),
        (Some(4), 4)
    );
    let mut later = link(3, "a");
    // An imported link may be older than the one before.
    later.history.created_at = Some(1);
    create(&store, later).await.unwrap();
    let shown = async || {
        let listed = store.list_minutes(&newest(1), ALL.from, ALL.to).await;
        assert_eq!(listed.unwrap().minutes.len(), minutes(None).await);
        (
            total(&store, "a").await,
            minutes(Some(a.clone())).await,
            minutes(None).await,
        )
    };
    assert_eq!(shown().await, (None, 0, 0), "a new link");
    follow().await;
    assert_eq!(total(&store, "a").await, Some(4));

    assert!(delete(&store, &a).await.unwrap());
    let wanted = LinkMove {
        from: key("a.example/b"),
        to: a.clone(),
        keeps_old: false,
    };
    let actor = Actor::command_line(FIRST_TENANT);
    let moved = store
        .move_link(&wanted, 4, Box::new(|_| Ok(())), &actor)
        .await;
    moved.unwrap().unwrap().unwrap();
    assert_eq!(shown().await, (None, 0, 0), "a link that has moved");
    follow().await;

    assert!(delete(&store, &a).await.unwrap());
    let restored = store.restore_link(&a, Box::new(|_| Ok(())), &actor).await;
    restored.unwrap().unwrap().unwrap();
    assert_eq!(total(&store, "a").await, Some(4), "the same link");
    assert!(delete(&store, &a).await.unwrap());
    until(
        "the tombstones are purged",
        Duration::from_secs(10),
        async || {
            store.purge_tombstones(0, 10).await.unwrap();
            let found = store.restore_link(&a, Box::new(|_| Ok(())), &actor).await;
            found.unwrap().is_none().then_some(())
        },
    )
    .await;
    create(&store, link(5, "a")).await.unwrap();
    assert_eq!(shown().await, (None, 0, 0), "after a purge");
}

async fn what_is_left_of_deleted_clicks_is_not_shown_and_goes_later(database: Database) {
    let store = database.store().await;
    create(&store, link(1, "a")).await.unwrap();
    count(&store, 1, 5, &[("a", 3)]).await;
    let refusal = match database.url().starts_with("sqlite") {
        true => {
            "CREATE TRIGGER refusal BEFORE DELETE ON click_minutes BEGIN SELECT RAISE(ABORT, 'no'); END"
        }
        false => {
            "CREATE TRIGGER refusal BEFORE DELETE ON click_minutes FOR EACH ROW SIGNAL SQLSTATE '45000'"
        }
    };
    database.execute(refusal).await;
    let (a, actor) = (key("a.example/a"), Actor::command_line(FIRST_TENANT));
    store.delete_clicks(&a, &actor).await.unwrap_err();
    // What has an entry in the log has happened, and the other way round.
    let query = AuditQuery {
        action: Some("clicks.delete".to_owned()),
        ..AuditQuery::of_tenant(1, 10)
    };
    let entries = store.audit_entries(&query).await.unwrap();
    assert_eq!(entries[0].detail, serde_json::json!({ "clicks": 3 }));
    assert_eq!(total(&store, "a").await, None);
    assert_eq!(store.click_minutes(&ALL).await.unwrap(), []);
    database.execute("DROP TRIGGER refusal").await;
    assert_eq!(store.delete_clicks(&a, &actor).await.unwrap(), 0);
    assert_eq!(store.audit_entries(&query).await.unwrap().len(), 1);
    assert_eq!(
        store.purge_clicks(0, 0, 10).await.unwrap(),
        1,
        "the batch alone"
    );
}

async fn minutes_come_newest_first(database: Database) {
    let store = database.store().await;
    count(&store, 1, 5, &[("a", 3), ("b", 1)]).await;
    count(&store, 2, 7, &[("a", 4)]).await;
    count(&store, 3, 6, &[("a", 2)]).await;
    let of = |minute: u64, code: &str, clicks: u64| ClickMinute {
        minute,
        key: format!("a.example/{code}"),
        clicks,
    };
    let found = async |code: Option<&str>, from, to| {
        let key = code.map(|code| key(&format!("a.example/{code}")));
        let query = MinuteQuery { key, from, to };
        store.click_minutes(&query).await.unwrap()
    };
    let all = [of(7, "a", 4), of(6, "a", 2), of(5, "b", 1), of(5, "a", 3)];
    assert_eq!(store.click_minutes(&ALL).await.unwrap(), all);
    assert_eq!(found(Some("b"), 0, 100).await, [of(5, "b", 1)]);
    assert_eq!(found(Some("a"), 6, 6).await, [of(6, "a", 2)]);
    assert_eq!(found(None, 8, 9).await, []);
}

async fn minutes_of_a_list_are_found_behind_those_of_other_links(database: Database) {
    let store = database.store().await;
    let others = link(1, "others");
    create(&store, others).await.unwrap();
    create(&store, tagged(2, "own", &["t"])).await.unwrap();
    create(&store, tagged(3, "gone", &["t"])).await.unwrap();
    delete(&store, &key("a.example/gone")).await.unwrap();
    let rows: Vec<String> = (1..=25_000)
        .map(|minute| format!("({minute}, 'a.example/others', 1)"))
        .collect();
    let insert = "INSERT INTO click_minutes (minute, link_key, clicks) VALUES ";
    for rows in rows.chunks(5_000) {
        let rows = rows.join(", ");
        database.execute(&format!("{insert}{rows}")).await;
    }
    count(&store, 1, 25_000, &[("own", 1), ("gone", 1), ("absent", 1)]).await;
    count(&store, 2, 12_000, &[("own", 2)]).await;
    count(&store, 3, 4_000, &[("own", 4)]).await;
    let of = |minute: u64, clicks: u64| ClickMinute {
        minute,
        key: "a.example/own".to_owned(),
        clicks,
    };
    let query = ListQuery {
        tags: vec!["t".to_owned()],
        ..newest(1)
    };
    let found = async |from, to| store.list_minutes(&query, from, to).await.unwrap();
    let (all, rest) = (found(0, 30_000).await, found(0, 15_000).await);
    assert_eq!(
        (all.minutes, all.is_cut_off),
        (vec![of(25_000, 1), of(12_000, 2)], true)
    );
    assert_eq!(
        (rest.minutes, rest.is_cut_off),
        (vec![of(12_000, 2), of(4_000, 4)], false)
    );
    assert_eq!(found(4_000, 4_000).await.minutes, [of(4_000, 4)]);
    let many = store.list_minutes(&newest(1), 0, 30_000).await.unwrap();
    assert!(many.is_cut_off && many.minutes.len() >= 10_000);
    let foreign = ListQuery::newest(Scope::tenant(FIRST_TENANT + 1), 1);
    let foreign = store.list_minutes(&foreign, 0, 30_000).await.unwrap();
    assert_eq!(foreign.minutes, []);
}

fn tagged(id: u64, code: &str, tags: &[&str]) -> NewLink {
    let mut new = link(id, code);
    new.content.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    new
}

async fn clicks_are_summed_up_by_tag_and_by_list(database: Database) {
    let store = database.store().await;
    for new in [
        tagged(1, "a", &["x", "y"]),
        tagged(2, "b", &["x"]),
        tagged(3, "c", &[]),
    ] {
        create(&store, new).await.unwrap();
    }
    count(&store, 1, 5, &[("a", 3), ("b", 2), ("c", 1), ("none", 9)]).await;
    let tags = ["x", "y", "z"].map(str::to_owned);
    let sums = |most| store.tag_clicks(FIRST_TENANT, &tags, most);
    let of = |tag: &str, links, clicks| TagClicks {
        tag: tag.to_owned(),
        links,
        clicks,
    };
    assert_eq!(sums(10).await.unwrap(), [of("x", 2, 5), of("y", 1, 3)]);
    assert_eq!(sums(1).await.unwrap().len(), 2);
    assert!(sums(1).await.unwrap().iter().all(|sum| sum.links == 1));
    let sum = async |query: &ListQuery| store.sum_visits(query).await.unwrap();
    let visits = |visits| VisitSum {
        visits,
        is_cut_off: false,
    };
    assert_eq!(sum(&newest(1)).await, visits(6));
    let tags = vec!["x".to_owned()];
    assert_eq!(sum(&ListQuery { tags, ..newest(1) }).await, visits(5));
    let scope = Scope::tenant(2);
    assert_eq!(sum(&ListQuery::newest(scope, 1)).await, visits(0));
}

async fn a_page_has_its_place_in_any_order(database: Database) {
    let store = database.store().await;
    for (id, code, title, target) in [
        (1, "b", Some("Zoo"), "https://b.example/"),
        (2, "c", Some("apple"), "https://c.example/"),
        (3, "a", None, "https://a.example/"),
    ] {
        let mut new = link(id, code);
        new.content = crate::fixture::content(target);
        new.content.title = title.map(str::to_owned);
        create(&store, new).await.unwrap();
    }
    count(&store, 1, 5, &[("a", 1), ("c", 2)]).await;
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

async fn links_without_visits_left_are_left_out(database: Database) {
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

async fn a_list_of_more_links_than_are_looked_at_says_so(database: Database) {
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
