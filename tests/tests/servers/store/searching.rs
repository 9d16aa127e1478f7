//! Lists with conditions, compared with a model of them in memory.

use crate::store::fixture::{Database, checked, create, delete, key, link};
use crate::store::listing::all_pages;
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_model::links::words::{SearchTerm, SearchWord, words_of};
use edgelink_model::tenancy::{FIRST_TENANT, Scope};
use edgelink_store::{
    Actor, ListOrder, ListQuery, ListedState, MAX_EXAMINED, NewLink, Store, TagQuery, TagsMode,
};
use edgelink_wire::target::TargetUrl;
use edgelink_wire::{Domain, LinkState};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::HashSet;

on_every_database!(
    list_when_conditions_are_combined_equals_the_model,
    search_when_many_links_match_lists_all,
    page_when_few_links_match_reads_a_bounded_number,
    links_when_of_an_older_schema_are_found_by_tag_word_and_host,
    search_when_codes_are_on_many_domains_finds_them,
    search_when_many_codes_match_reads_a_bounded_number,
);

const TAGS: [&str; 5] = ["a", "A", "b", "Team Red", "\u{e4}"];
const TITLES: [&str; 4] = ["Summer sale", "summer", "\u{c4}rger", "RED-1 x"];
const HOSTS: [&str; 5] = [
    "https://x.example/",
    "http://WWW.X.example:8080",
    "https://red.example?a=/b",
    "https://red.example/Some/path",
    "https://sum.example#/x",
];
const CODES: [&str; 4] = ["", "Red-", "sum", "SUM_"];
const SEARCHES: [&str; 14] = [
    "s",
    "su",
    "sum",
    "SUM_",
    "summer sale",
    "red",
    "RED-1",
    "x.example",
    "https://www.x.example",
    "red.example/some",
    "red.example?a=/B",
    "\u{e4}r",
    "te re",
    "nothing",
];
const PAST: u64 = 1_000_000;
const FUTURE: u64 = 4_000_000_000;

fn pick<T: Copy>(random: &mut SmallRng, items: &[T]) -> T {
    *items.choose(random).expect("items")
}

fn random_tags(random: &mut SmallRng) -> Vec<String> {
    let mut tags: Vec<String> = TAGS.map(str::to_owned).into();
    tags.retain(|_| random.random_bool(0.3));
    tags.sort_unstable();
    tags
}

fn random_link(random: &mut SmallRng, id: u64) -> NewLink {
    let domain = pick(random, &["a.example", "b.example"]);
    let prefix = pick(random, &CODES);
    NewLink {
        key: key(&format!("{domain}/{prefix}{id}")),
        content: LinkContent {
            title: random
                .random_bool(0.5)
                .then(|| pick(random, &TITLES).to_owned()),
            tags: random_tags(random),
            state: pick(random, &[LinkState::Active, LinkState::Disabled]),
            valid_since: pick(random, &[None, Some(PAST), Some(FUTURE)]),
            valid_until: pick(random, &[None, Some(PAST + 1), Some(FUTURE + 1)]),
            ..LinkContent::to(TargetUrl::from_store(pick(random, &HOSTS)))
        },
        ..link(id, "x")
    }
}

fn random_query(random: &mut SmallRng, times: &[u64]) -> ListQuery {
    let maybe = |random: &mut SmallRng| random.random_bool(0.25);
    let mut query = ListQuery::newest(Scope::tenant(FIRST_TENANT), random.random_range(1..30));
    if maybe(random) {
        let domain = pick(random, &["a.example", "b.example", "c.example"]);
        query.domain = Some(Domain::parse(domain).unwrap());
        query.order = pick(
            random,
            &[ListOrder::Code, ListOrder::CodeDescending, query.order],
        );
    } else {
        query.order = pick(random, &[ListOrder::NewestFirst, ListOrder::OldestFirst]);
    }
    query.tags_mode = pick(random, &[TagsMode::Any, TagsMode::All]);
    if maybe(random) {
        query.tags = random_tags(random);
    }
    if maybe(random) {
        query.exclude_tags = random_tags(random);
    }
    if maybe(random) {
        query.without_tags = true;
    }
    if maybe(random) {
        use ListedState as S;
        query.state = Some(pick(
            random,
            &[S::Active, S::Disabled, S::Expired, S::Scheduled],
        ));
    }
    if maybe(random) {
        query.created_from = Some(pick(random, times));
    }
    if maybe(random) {
        query.created_before = Some(pick(random, times));
    }
    if random.random_bool(0.4) {
        query.search = Some(SearchTerm::parse(pick(random, &SEARCHES)).unwrap());
    }
    if random.random_bool(0.1) {
        query.scope.tags = vec![pick(random, &TAGS).to_owned()];
    }
    if random.random_bool(0.1) {
        query.scope.domains = vec![Domain::parse("b.example").unwrap()];
    }
    query
}

/// Between the scheme and the first of slash, question mark and hash.
fn host(link: &Link) -> String {
    let (_, rest) = link.content.target.as_str().split_once("//").unwrap();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    rest[..end].to_lowercase()
}

fn is_found(link: &Link, word: &SearchWord) -> bool {
    let target = link.content.target.as_str().to_lowercase();
    let host = host(link);
    let is_host = word.hosts().iter().any(|range| range.contains(&host));
    link.code.as_str().to_lowercase().starts_with(word.text())
        || is_host && (!word.has_path() || target.contains(word.text()))
        || words_of(&link.content)
            .iter()
            .any(|each| each.starts_with(word.text()))
}

fn state(link: &Link) -> ListedState {
    let content = &link.content;
    if content.state == LinkState::Disabled {
        ListedState::Disabled
    } else if content.valid_until.is_some_and(|until| until < FUTURE) {
        ListedState::Expired
    } else if content.valid_since.is_some_and(|since| since >= FUTURE) {
        ListedState::Scheduled
    } else {
        ListedState::Active
    }
}

fn is_meant(query: &ListQuery, link: &Link) -> bool {
    let has = |tag: &String| link.content.tags.contains(tag);
    let has_one = |tags: &[String]| tags.iter().any(has);
    let scope = &query.scope;
    let tagged = match query.tags_mode {
        TagsMode::Any => query.tags.is_empty() || has_one(&query.tags),
        TagsMode::All => query.tags.iter().all(has),
    };
    let mut words = query.search.iter().flat_map(SearchTerm::words);
    tagged
        && (scope.tags.is_empty() || has_one(&scope.tags))
        && (scope.domains.is_empty() || scope.domains.contains(&link.domain))
        && query
            .domain
            .as_ref()
            .is_none_or(|domain| *domain == link.domain)
        && !has_one(&query.exclude_tags)
        && (!query.without_tags || link.content.tags.is_empty())
        && query.state.is_none_or(|wanted| wanted == state(link))
        && query
            .created_from
            .is_none_or(|from| link.created_at >= from)
        && query
            .created_before
            .is_none_or(|before| link.created_at < before)
        && words.all(|word| is_found(link, word))
}

fn sort(links: &mut [Link], order: ListOrder) {
    match order {
        ListOrder::NewestFirst => {
            links.sort_by_key(|link| std::cmp::Reverse((link.created_at, link.id)));
        }
        ListOrder::OldestFirst => links.sort_by_key(|link| (link.created_at, link.id)),
        ListOrder::Code => links.sort_by(|one, other| one.code.as_str().cmp(other.code.as_str())),
        ListOrder::CodeDescending => {
            links.sort_by(|one, other| other.code.as_str().cmp(one.code.as_str()));
        }
    }
}

/// Links at a few times, some of which were changed, deleted, or created again in the place of a deleted one.
async fn populate(store: &Store, random: &mut SmallRng) -> Vec<Link> {
    let mut links = Vec::new();
    for batch in 0..5 {
        let new = (0..40)
            .map(|n| random_link(random, batch * 40 + n))
            .collect();
        let answers = store.create_links(new).await.unwrap();
        links.extend(answers.into_iter().map(Result::unwrap));
    }
    for index in (0..links.len()).rev() {
        match random.random_range(0..10) {
            0 => {
                let deleted: Link = links.remove(index);
                delete(store, &deleted.key()).await.unwrap();
                if random.random_bool(0.5) {
                    let again = NewLink {
                        key: deleted.key(),
                        ..random_link(random, 1000 + deleted.id)
                    };
                    links.push(create(store, again).await.unwrap());
                }
            }
            1 => {
                let key = links[index].key();
                let content = random_link(random, 0).content;
                let change = Box::new(move |_: &Link| Ok(checked(&content)));
                let changed = store
                    .update_link(&key, change, &Actor::command_line(1))
                    .await
                    .unwrap();
                links[index] = changed.unwrap().unwrap();
            }
            _ => {}
        }
    }
    links
}

async fn list_when_conditions_are_combined_equals_the_model(database: Database) {
    let store = database.store().await;
    let mut random = SmallRng::seed_from_u64(12);
    let mut links = populate(&store, &mut random).await;
    let times: HashSet<u64> = links.iter().map(|link| link.created_at).collect();
    let times: Vec<u64> = times.into_iter().collect();
    let mut found = 0;
    for _ in 0..400 {
        let query = random_query(&mut random, &times);
        sort(&mut links, query.order);
        let expected = links.iter().filter(|link| is_meant(&query, link));
        let expected: Vec<&Link> = expected.collect();
        let listed = all_pages(&store, query.clone()).await;
        assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{query:?}");
        found += usize::from(!expected.is_empty());
    }
    assert!(found > 100, "{found} queries have found anything");
}

/// Links with the same words, so many that they are not sorted but read in the order of the list.
async fn search_when_many_links_match_lists_all(database: Database) {
    let store = database.store().await;
    for batch in 0..3_u64 {
        let titled = |n: u64| NewLink {
            content: LinkContent {
                title: Some(format!("common {}", n % 7)),
                ..LinkContent::to(TargetUrl::from_store("https://common.example/"))
            },
            ..link(batch * 500 + n, &format!("c{batch}-{n}"))
        };
        let answers = store
            .create_links((0..500).map(titled).collect())
            .await
            .unwrap();
        assert!(answers.iter().all(Result::is_ok));
    }
    for (text, expected) in [
        ("common", 1500),
        ("COMMON.example", 1500),
        ("common 3", 213),
        ("c", 1500),
        ("c1-", 500),
    ] {
        let query = ListQuery {
            search: Some(SearchTerm::parse(text).unwrap()),
            ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 100)
        };
        let listed = all_pages(&store, query).await;
        let numbers: HashSet<u64> = listed.iter().map(|link| link.id).collect();
        assert_eq!(
            (listed.len(), numbers.len()),
            (expected, expected),
            "{text}"
        );
    }
}

async fn page_when_few_links_match_reads_a_bounded_number(database: Database) {
    let store = database.store().await;
    // The first one of them all is the only one without a title.
    create(&store, link(1, "first")).await.unwrap();
    let rows = (2..=5001).map(|id| {
        format!("({id}, 1, 'c{id}', 'https://x.example/', 0, 302, 1, 1, '[]', {id} + 4000000000000, 1, 1)")
    });
    let rows: Vec<String> = rows.collect();
    for rows in rows.chunks(500) {
        let insert = "INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, \
             tags, created_at, updated_at, rev) VALUES";
        database
            .execute(&format!("{insert} {}", rows.join(", ")))
            .await;
    }
    let query = ListQuery {
        state: Some(ListedState::Active),
        ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 1)
    };
    let page = store.list_links(&query).await.unwrap();
    assert!(page.links.is_empty());
    let next = page.next.expect("another page");
    // Links are looked at in batches of at most 512.
    let at_least = ListQuery {
        state: Some(ListedState::Disabled),
        after: Some(next.clone()),
        ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 10_000)
    };
    let rest = all_pages(&store, at_least).await.len();
    assert!(
        (5000 - MAX_EXAMINED - 512..=5000 - MAX_EXAMINED).contains(&rest),
        "{rest}"
    );
    let rest = ListQuery {
        after: Some(next),
        ..query
    };
    let ids: Vec<u64> = all_pages(&store, rest)
        .await
        .iter()
        .map(|link| link.id)
        .collect();
    assert_eq!(ids, [1]);
}

async fn links_when_of_an_older_schema_are_found_by_tag_word_and_host(database: Database) {
    let insert = "INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, title, tags, \
         created_at, updated_at, deleted_at, rev) VALUES";
    database
        .begin_at(
            50,
            &[
                "INSERT INTO domains (id, name) VALUES (1, 'a.example')",
                &format!("{insert} (1, 1, 'a', 'https://Old.example?x=/', 0, 302, 0, 1, 'Big \"Old\" One', '[\"t 1\",\"u\"]', 5, 5, NULL, 1)"),
                &format!("{insert} (2, 1, 'b', 'https://old.example', 0, 302, 0, 1, 'Big', '[\"u\"]', 6, 6, 7, 1)"),
            ],
        )
        .await;
    let store = database.store().await;
    let listed = async |text: Option<&str>, tags: &[&str]| {
        let query = ListQuery {
            search: text.map(|text| SearchTerm::parse(text).unwrap()),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 10)
        };
        all_pages(&store, query).await.len()
    };
    for text in ["big", "\"old", "on", "old.example", "t", "1"] {
        assert_eq!(listed(Some(text), &[]).await, 1, "{text}");
    }
    for (tags, expected) in [(["t 1"], 1), (["u"], 1), (["t"], 0)] {
        assert_eq!(listed(None, &tags).await, expected, "{tags:?}");
    }
}

/// Not on SQLite, which knows only UTF-8.
#[tokio::test]
async fn tags_and_titles_when_the_database_is_latin1_are_read_as_utf_8() {
    let database = Database::on_server().await;
    database
        .execute("ALTER DATABASE CHARACTER SET latin1")
        .await;
    let insert = "INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, title, tags, \
         created_at, updated_at, rev) VALUES";
    let links = [
        "INSERT INTO domains (id, name) VALUES (1, 'a.example')",
        &format!(
            "{insert} (1, 1, 'a', 'https://a.example', 0, 302, 0, 1, 'Über Ω', '[\"ü 😀\"]', 5, 5, 1)"
        ),
    ];
    database.begin_at(50, &links).await;
    let store = database.store().await;
    let tags = TagQuery {
        tenant_id: FIRST_TENANT,
        prefix: String::new(),
        after: None,
        limit: 9,
    };
    let tags = store.list_tags(&tags).await.unwrap();
    let tags: Vec<&str> = tags.iter().map(|tag| tag.tag.as_str()).collect();
    assert_eq!(tags, ["ü 😀"]);
    for text in ["über", "Ω", "😀"] {
        let query = ListQuery {
            search: Some(SearchTerm::parse(text).unwrap()),
            ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 10)
        };
        assert_eq!(all_pages(&store, query).await.len(), 1, "{text}");
    }
}

/// With so many domains, a search reads the codes that have the first letter of the word.
async fn search_when_many_codes_match_reads_a_bounded_number(database: Database) {
    let store = database.store().await;
    for n in 0..20 {
        let new = NewLink {
            key: key(&format!("d{n}.example/abcdef")),
            ..link(n, "x")
        };
        create(&store, new).await.unwrap();
    }
    let search = async |text: &str| {
        let query = ListQuery {
            search: Some(SearchTerm::parse(text).unwrap()),
            ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 100)
        };
        store.list_links(&query).await.unwrap()
    };
    assert_eq!(search("abcdef").await.links.len(), 20);
    let links = (0..4200).map(|n| link(100 + n, &format!("a{n}")));
    let links: Vec<NewLink> = links.collect();
    for links in links.chunks(500) {
        store.create_links(links.to_vec()).await.unwrap();
    }
    let page = search("abcdef").await;
    assert_eq!(page.links, [], "they are older than all that are looked at");
    assert!(page.next.is_some());
    let query = ListQuery {
        search: Some(SearchTerm::parse("abcdef").unwrap()),
        ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 100)
    };
    assert_eq!(all_pages(&store, query).await.len(), 20);
}

async fn search_when_codes_are_on_many_domains_finds_them(database: Database) {
    let store = database.store().await;
    for n in 0..70 {
        let new = NewLink {
            key: key(&format!("d{n}.example/AbC-{n}")),
            ..link(n, "x")
        };
        create(&store, new).await.unwrap();
        let new = NewLink {
            key: key(&format!("d{n}.example/77-{n}")),
            ..link(100 + n, "x")
        };
        create(&store, new).await.unwrap();
    }
    for (text, expected) in [("abc-", 70), ("ABC-69", 1), ("abc-6", 11), ("77-", 70)] {
        let query = ListQuery {
            search: Some(SearchTerm::parse(text).unwrap()),
            ..ListQuery::newest(Scope::tenant(FIRST_TENANT), 100)
        };
        assert_eq!(all_pages(&store, query).await.len(), expected, "{text}");
    }
}
