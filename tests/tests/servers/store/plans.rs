//! What the server makes of the statements by which lists are read: an optimizer that sorts a table for every page
//! answers from a million links on no page in time.

use crate::store::fixture::{create, link, migrated, patient};
use edgelink_clicks::analytics::{AnalyticsQuery, Engine, RawQuery, SqlEngine, Visitors};
use edgelink_model::counts::{Attribute, Bots, ClickScope};
use edgelink_model::links::words::SearchTerm;
use edgelink_model::tenancy::{self, FIRST_TENANT};
use edgelink_settings::config::AnalyticsConfig;
use edgelink_store::{
    Actor, ListCursor, ListOrder, ListQuery, ListedState, NewLink, NumberedQuery, SortBy, Store,
    TagQuery, TagsMode,
};
use edgelink_tests::servers::MariaDb;
use edgelink_wire::{Code, Domain};
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row, raw_sql};

/// One domain, as in most installations; three links of four are deleted, and one of two of the rest has tags and a
/// title.
const FILL: &str = "INSERT INTO links (id, domain_id, code, url, url_hash, redirect, disabled, forward_query, title, tags, \
     created_at, updated_at, deleted_at, owner_id, external_id, rev) SELECT seq, 1, CONCAT('c', seq), CONCAT('https://h', seq, '.example/'), \
     0, 302, 0, 1, IF(seq % 8, NULL, CONCAT('w', seq)), IF(seq % 8, '[]', CONCAT('[\"t', seq % 100, '\",\"u\"]')), seq, seq, \
     IF(seq % 4, seq, NULL), seq % 7, IF(seq = 8, 'e', NULL), 1 FROM seq_1_to_20000; \
     INSERT INTO link_tags (tenant_id, tag, created_at, link_id) SELECT 1, 'u', seq, seq FROM seq_8_to_20000_step_8; \
     INSERT INTO link_tags (tenant_id, tag, created_at, link_id) \
     SELECT 1, CONCAT('t', seq % 100), seq, seq FROM seq_8_to_20000_step_8; \
     INSERT INTO link_words (tenant_id, word, link_id) SELECT 1, CONCAT('w', seq), seq FROM seq_8_to_20000_step_8; \
     INSERT INTO link_totals (link_id, clicks, bots) SELECT seq, seq, 0 FROM seq_1_to_20000; \
     INSERT INTO click_hours (kind, hour, scope_id, clicks, bots, head, doc) \
     SELECT 1, UNIX_TIMESTAMP() DIV 3600 - seq % 50, seq DIV 50, 5, 0, X'0201050000', X'00' FROM seq_1_to_20000; \
     INSERT INTO click_days (kind, scope_id, day, clicks, bots, head, doc) \
     SELECT 1, seq DIV 50, UNIX_TIMESTAMP() DIV 86400 - 1 - seq % 50, 5, 0, X'0201050000', X'00' FROM seq_1_to_20000; \
     INSERT INTO click_events (number, clicks, at, tenant_id, domain_id, link_id, is_bot, described) \
     SELECT seq, 1, UNIX_TIMESTAMP() - 20000 + seq, 1, 1, seq % 100, 0, X'00' FROM seq_1_to_20000; \
     ANALYZE TABLE links, domains, link_tags, link_words, link_totals, click_hours, click_days, click_events";

/// The tables whose rows become many.
const LARGE: [&str; 5] = ["l", "t", "w", "c", "links"];

/// Tables of one statement, and the index by which each is read.
type Plan = Vec<(String, String)>;

struct Server {
    _server: MariaDb,
    store: std::sync::Arc<Store>,
    connection: MySqlConnection,
}

impl Server {
    async fn filled() -> Self {
        let server = MariaDb::start_with(&["--general-log=1", "--log-output=TABLE"]);
        let url = server.database();
        let store = migrated(&patient(&url)).await;
        create(&store, link(1_000_000, "a")).await.unwrap();
        let mut connection = MySqlConnection::connect(&url).await.unwrap();
        raw_sql(FILL).execute(&mut connection).await.unwrap();
        Self {
            _server: server,
            store,
            connection,
        }
    }

    /// The plans of what was asked since the last call. None of them reads a large table as a whole, or sorts it.
    async fn plans(&mut self) -> Vec<Plan> {
        let asked: Vec<(String,)> = sqlx::query_as(
            "SELECT CAST(argument AS CHAR) FROM mysql.general_log WHERE command_type = 'Execute' \
             AND (argument LIKE 'SELECT %' OR argument LIKE '(SELECT %') AND argument NOT LIKE '%mysql.%' \
             AND argument NOT LIKE '%@@%' AND (argument LIKE '%link%' OR argument LIKE '%click%') ORDER BY event_time",
        )
        .fetch_all(&mut self.connection)
        .await
        .unwrap();
        let mut plans = Vec::new();
        for (statement,) in asked {
            let explain = AssertSqlSafe(format!("EXPLAIN {statement}"));
            let plan = raw_sql(explain).fetch_all(&mut self.connection).await;
            let plan = plan.unwrap_or_else(|error| panic!("{error}: {statement}"));
            plans.push(
                plan.iter()
                    .filter_map(|row| check(row, &statement))
                    .collect(),
            );
        }
        raw_sql("TRUNCATE mysql.general_log")
            .execute(&mut self.connection)
            .await
            .unwrap();
        plans
    }
}

fn check(row: &MySqlRow, statement: &str) -> Option<(String, String)> {
    let of = |column| row.get::<Option<String>, _>(column).unwrap_or_default();
    let (table, index, kind, extra) = (of("table"), of("key"), of("type"), of("Extra"));
    assert!(!extra.contains("filesort"), "{extra}: {statement}");
    let is_large = LARGE.contains(&table.as_str())
        || ["link_", "click_"].iter().any(|of| table.starts_with(of));
    if !is_large {
        return None;
    }
    assert!(!extra.contains("temporary"), "{extra}: {statement}");
    assert!(
        ["range", "ref", "eq_ref", "const", "index_subquery"].contains(&kind.as_str()),
        "{kind} of {table}: {statement}"
    );
    Some((table, index))
}

fn newest() -> ListQuery {
    ListQuery::newest(tenancy::Scope::tenant(FIRST_TENANT), 20)
}

fn search(text: &str) -> ListQuery {
    ListQuery {
        search: Some(SearchTerm::parse(text).unwrap()),
        ..newest()
    }
}

fn place() -> Option<ListCursor> {
    Some(ListCursor::Created {
        created_at: 10_000,
        id: 10_000,
    })
}

/// Lists, and the index that their links come from.
fn lists() -> Vec<(ListQuery, &'static str)> {
    let domain = Some(Domain::parse("a.example").unwrap());
    let tags =
        |tags: &[&str]| -> Vec<String> { tags.iter().map(|tag| (*tag).to_owned()).collect() };
    let owned = tenancy::Scope {
        owner_id: Some(3),
        ..tenancy::Scope::tenant(FIRST_TENANT)
    };
    let code = Some(ListCursor::Code(Code::stored("c5").unwrap()));
    let expired = Some(ListedState::Expired);
    vec![
        (newest(), "links_of_tenant"),
        (
            ListQuery {
                after: place(),
                ..newest()
            },
            "links_of_tenant",
        ),
        (
            ListQuery {
                order: ListOrder::OldestFirst,
                after: place(),
                ..newest()
            },
            "links_of_tenant",
        ),
        (
            ListQuery {
                state: expired,
                without_tags: true,
                ..newest()
            },
            "links_valid_until",
        ),
        (
            ListQuery {
                created_from: Some(4000),
                created_before: Some(5000),
                ..newest()
            },
            "links_of_tenant",
        ),
        (
            ListQuery {
                exclude_tags: tags(&["u", "t8"]),
                ..newest()
            },
            "links_of_tenant",
        ),
        (ListQuery::newest(owned, 20), "links_of_owner"),
        (
            ListQuery {
                domain: domain.clone(),
                after: place(),
                ..newest()
            },
            "links_live_on_domain",
        ),
        (
            ListQuery {
                domain: domain.clone(),
                order: ListOrder::Code,
                ..newest()
            },
            "links_domain_code",
        ),
        (
            ListQuery {
                domain: domain.clone(),
                order: ListOrder::CodeDescending,
                after: code,
                ..newest()
            },
            "links_domain_code",
        ),
        (
            ListQuery {
                tags: tags(&["u"]),
                after: place(),
                ..newest()
            },
            "PRIMARY",
        ),
        (
            ListQuery {
                tags: tags(&["t8", "t16"]),
                domain,
                ..newest()
            },
            "PRIMARY",
        ),
        (
            ListQuery {
                tags: tags(&["u", "t8"]),
                tags_mode: TagsMode::All,
                ..newest()
            },
            "PRIMARY",
        ),
        (
            ListQuery {
                external_id: Some("e".to_owned()),
                ..newest()
            },
            "links_external_id",
        ),
        (search("c1999"), "links_host"),
        (search("w8"), "links_host"),
        (search("h80.example"), "links_host"),
        (search("h"), "links_host"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_when_read_is_a_range_of_an_index() {
    let mut server = Server::filled().await;
    server.plans().await;
    for (query, index) in lists() {
        let page = server.store.list_links(&query).await.unwrap();
        assert_eq!(page.links.is_empty(), query.state.is_some(), "{query:?}");
        let plans = server.plans().await;
        let (_, first) = &plans[0][0];
        assert_eq!(first, index, "{query:?}: {plans:?}");
        for (table, index) in plans.concat() {
            assert!(!index.is_empty(), "{table}: {query:?}: {plans:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_when_listed_and_replaced_use_indexes() {
    let mut server = Server::filled().await;
    server.plans().await;
    let query = TagQuery {
        tenant_id: FIRST_TENANT,
        prefix: "t".to_owned(),
        after: Some("t2".to_owned()),
        limit: 20,
    };
    assert_eq!(server.store.list_tags(&query).await.unwrap().len(), 20);
    assert!(server.store.has_tag(FIRST_TENANT, "u").await.unwrap());
    assert_eq!(
        server
            .store
            .replace_tag(&Actor::command_line(FIRST_TENANT), "t8", None)
            .await
            .unwrap(),
        100
    );
    let plans = server.plans().await;
    assert!(plans.len() > 4, "{plans:?}");
    assert!(
        plans.concat().iter().all(|(_, index)| !index.is_empty()),
        "{plans:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_when_looked_up_use_indexes() {
    let mut server = Server::filled().await;
    server.plans().await;
    let store = &server.store;
    assert_eq!(store.clicks().link_totals(&[4, 8]).await.unwrap().len(), 2);
    let tags = ["t8", "u"].map(str::to_owned);
    let sums = store.tag_clicks(FIRST_TENANT, &tags, 50).await.unwrap();
    assert!(
        sums.iter().all(|sum| sum.links == 50 && sum.clicks > 50),
        "{sums:?}"
    );
    assert!(store.sum_visits(&newest()).await.unwrap().visits > 0);
    let query = NumberedQuery {
        list: newest(),
        sort: Some((SortBy::Visits, true)),
        offset: 20,
    };
    assert_eq!(store.numbered_page(&query).await.unwrap().links.len(), 20);
    let plans = server.plans().await;
    assert!(plans.len() > 10, "{plans:?}");
    assert!(
        plans.concat().iter().all(|(_, index)| !index.is_empty()),
        "{plans:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analytics_query_when_run_reads_rollups_by_their_indexes() {
    let mut server = Server::filled().await;
    server.plans().await;
    let engine = SqlEngine::new(server.store.clone(), AnalyticsConfig::default());
    let to = crate::store::clicking::now() / 3600 * 3600 + 3600;
    let scopes = [
        ClickScope::Tenant(FIRST_TENANT),
        ClickScope::Domain {
            tenant_id: FIRST_TENANT,
            domain_id: 1,
        },
        ClickScope::Links((1..100).collect()),
        ClickScope::Links(vec![5]),
    ];
    for scope in &scopes {
        let query = AnalyticsQuery {
            scope: scope.clone(),
            from: to - 20 * 86_400,
            to,
            bots: Bots::Included,
        };
        let count = engine.count(&query, Visitors::Counted).await.unwrap();
        assert_eq!(count.clicks > 0, matches!(scope, ClickScope::Links(_)));
        let slots: Vec<u64> = (query.from..to).step_by(86_400).collect();
        engine.series(&query, &slots).await.unwrap();
        for by in [Attribute::Country, Attribute::Link, Attribute::Tag] {
            engine.breakdown(&query, by, 10).await.unwrap();
        }
    }
    let plans = server.plans().await.concat();
    let rollups = |table: &str| plans.iter().filter(|(of, _)| of == table).count();
    assert!(
        rollups("click_hours") > 10 && rollups("click_days") > 10,
        "{plans:?}"
    );
    assert!(
        plans
            .iter()
            .all(|(table, index)| table != "click_events" && !index.is_empty())
    );

    for scope in scopes
        .into_iter()
        .filter(|scope| *scope != ClickScope::Links((1..100).collect()))
    {
        let query = RawQuery {
            scope,
            from: 0,
            to,
            bots: Bots::Included,
            orphans: false,
            after: None,
            skip: 10,
            limit: 20,
        };
        assert_eq!(engine.raw(&query).await.unwrap().len(), 20);
    }
    let plans = server.plans().await.concat();
    assert!(
        plans.iter().all(|(_, index)| !index.is_empty()),
        "{plans:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_when_they_have_tags_and_titles_take_four_inserts() {
    let mut server = Server::filled().await;
    let titled = |n: u64| {
        let mut new: NewLink = link(2_000_000 + n, &format!("n{n}"));
        new.content.title = Some("A title of some words".to_owned());
        new.content.tags = vec![format!("tag {n}"), "u".to_owned()];
        new
    };
    // On a machine so busy that a transaction takes a second, revisions are read first, and there are more messages.
    for round in 0..10 {
        raw_sql("TRUNCATE mysql.general_log")
            .execute(&mut server.connection)
            .await
            .unwrap();
        let new = (round * 500..(round + 1) * 500).map(titled).collect();
        let answers = server.store.create_links(new).await.unwrap();
        assert!(answers.iter().all(Result::is_ok));
        let scripts: Vec<(String,)> = sqlx::query_as(
            "SELECT CAST(argument AS CHAR) FROM mysql.general_log WHERE argument LIKE '%INSERT IGNORE INTO link_tags%' \
             AND argument NOT LIKE '%mysql.general_log%'",
        )
        .fetch_all(&mut server.connection)
        .await
        .unwrap();
        if let [(script,)] = &scripts[..] {
            let inserts = script.matches("INSERT").count();
            assert_eq!(inserts, 4, "links, tags, words, outbox");
            return;
        }
    }
    panic!("there was never one message for all of them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tombstones_when_purged_are_found_by_an_index() {
    let mut server = Server::filled().await;
    server.plans().await;
    assert_eq!(
        server.store.purge_tombstones(0, 10).await.unwrap(),
        Some(10)
    );
    let plans = server.plans().await;
    let of_links = ("links".to_owned(), "links_live_on_domain".to_owned());
    assert!(plans.concat().contains(&of_links), "{plans:?}");
}
