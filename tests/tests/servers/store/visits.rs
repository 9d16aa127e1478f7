//! Visits of links that have a limit.

use crate::store::fixture::{Database, as_it_is, checked, create, delete, key, link};
use edgelink_settings::config::VisitsConfig;
use edgelink_settings::visits::StaleRequest;
use edgelink_store::{Actor, AuditQuery, LinkMove, NewLink, Store, VisitCounts};
use edgelink_tests::stack::until;
use edgelink_wire::visits::{ReturnOutcome, SettledBlock};
use edgelink_wire::{LinkKey, VisitsAnswer, VisitsRequest};
use sqlx::{Connection, MySqlConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

on_every_database!(
    uses_when_leased_concurrently_stay_within_the_limit,
    lease_request_when_sent_again_gets_the_same_block,
    block_when_its_worker_is_silent_goes_to_others,
    limit_when_reached_is_audited_once,
    uses_when_their_link_is_deleted_go_with_it,
    limit_when_changed_counts_from_the_next_block,
    blocks_when_their_link_moves_count_at_its_new_place,
    blocks_when_their_link_moves_back_count_once,
    link_when_deleted_while_uses_are_taken_has_none,
    uses_when_the_limit_was_removed_go_with_the_link,
    leases_when_old_are_purged_in_batches,
    blocks_when_out_for_a_day_come_back_with_a_purge,
    returns_when_of_many_links_are_settled_once,
    return_when_its_link_has_moved_counts_at_the_new_place,
    limits_when_reached_by_returns_are_audited_once,
    block_when_its_worker_is_heard_of_stays_out,
    block_when_its_link_moves_stays_out_while_its_worker_lives,
    sums_when_older_control_planes_write_stay_right,
    uses_when_older_than_the_sums_are_counted,
);

fn limited(id: u64, code: &str, max_visits: u64) -> NewLink {
    let mut new = link(id, code);
    new.content.details.max_visits = Some(max_visits);
    new
}

fn request(worker: u8, number: u64, settled: Option<(u64, u64)>) -> VisitsRequest {
    VisitsRequest {
        worker: [worker; 16],
        number,
        settled: settled.map(|(number, spent)| SettledBlock { number, spent }),
        wants: true,
    }
}

async fn lease(
    store: &Store,
    request: VisitsRequest,
    config: &VisitsConfig,
) -> Result<VisitsAnswer, StaleRequest> {
    lease_of(store, "a", request, config).await
}

async fn lease_of(
    store: &Store,
    code: &str,
    request: VisitsRequest,
    config: &VisitsConfig,
) -> Result<VisitsAnswer, StaleRequest> {
    let key = key(&format!("a.example/{code}"));
    let leased = store.lease_visits(&key, &request, config).await;
    leased.expect("an answer")
}

/// How many visits a worker gets.
async fn block(store: &Store, request: VisitsRequest) -> u64 {
    let answer = lease(store, request, &VisitsConfig::default()).await;
    answer.expect("a block").visits
}

async fn counts(store: &Store, id: u64) -> (u64, u64) {
    let VisitCounts { used, leased } = store.find_visits(id).await.expect("an answer");
    (used, leased)
}

async fn uses_when_leased_concurrently_stay_within_the_limit(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    let mut workers = JoinSet::new();
    for worker in 1..=8 {
        let store = Arc::clone(&store);
        workers.spawn(async move {
            let (mut served, mut settled) = (0, None);
            for number in 1.. {
                let (request, config) = (request(worker, number, settled), VisitsConfig::default());
                let answer = lease(&store, request, &config).await.expect("a block");
                if answer.visits == 0 && answer.millis > 1_000 {
                    break;
                }
                served += answer.visits;
                settled = Some((number, answer.visits));
            }
            served
        });
    }
    let own = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let (key, config) = (key("a.example/a"), VisitsConfig::default());
            let mut served = 0;
            for _ in 0..10 {
                served += u64::from(store.take_visit(&key, &config).await.expect("an answer"));
            }
            served
        })
    };
    let served: u64 = workers.join_all().await.into_iter().sum();
    assert_eq!(served + own.await.expect("visitors"), 100);
    assert_eq!(counts(&store, 1).await, (100, 0));
}

async fn lease_request_when_sent_again_gets_the_same_block(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    assert_eq!(block(&store, request(1, 1, None)).await, 50);
    for _ in 0..2 {
        assert_eq!(block(&store, request(1, 2, Some((1, 20)))).await, 40);
        assert_eq!(counts(&store, 1).await, (20, 40));
    }
    let stale = lease(&store, request(1, 1, None), &VisitsConfig::default()).await;
    assert_eq!(stale, Err(StaleRequest));
    assert_eq!(counts(&store, 1).await, (20, 40));
}

async fn block_when_its_worker_is_silent_goes_to_others(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 1)).await.unwrap();
    let short = VisitsConfig {
        lease_ms: Duration::from_millis(100),
        grace_ms: Duration::from_millis(100),
        ..VisitsConfig::default()
    };
    let leased = lease(&store, request(1, 1, None), &short).await;
    assert_eq!(leased.unwrap().visits, 1);
    let mut number = 0;
    until(
        "the block comes back",
        Duration::from_secs(10),
        async || {
            number += 1;
            let leased = lease(&store, request(2, number, None), &short).await;
            (leased.unwrap().visits == 1).then_some(())
        },
    )
    .await;
    // What it has spent nevertheless counts.
    assert_eq!(block(&store, request(1, 2, Some((1, 1)))).await, 0);
    assert_eq!(counts(&store, 1).await.0, 1);
}

async fn limit_when_reached_is_audited_once(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 2)).await.unwrap();
    let (key, config) = (key("a.example/a"), VisitsConfig::default());
    let entries = async || {
        let mut query = AuditQuery::of_tenant(1, 10);
        query.action = Some("link.limit-reached".to_owned());
        store.audit_entries(&query).await.unwrap()
    };
    assert!(store.take_visit(&key, &config).await.unwrap());
    assert!(entries().await.is_empty());
    assert!(store.take_visit(&key, &config).await.unwrap());
    for number in 1..=2 {
        assert_eq!(block(&store, request(1, number, None)).await, 0);
        assert!(!store.take_visit(&key, &config).await.unwrap());
    }
    let entries = entries().await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].subject, "link:a.example/a");
    let detail = serde_json::json!({ "maxVisits": 2, "used": 2 });
    assert_eq!(entries[0].detail, detail);
}

async fn uses_when_their_link_is_deleted_go_with_it(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    block(&store, request(1, 1, None)).await;
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    assert_eq!(block(&store, request(2, 1, None)).await, 0, "deleted");
    assert_eq!(counts(&store, 1).await, (0, 50));
    create(&store, limited(2, "a", 100)).await.unwrap();
    assert_eq!(
        (counts(&store, 1).await, counts(&store, 2).await),
        ((0, 0), (0, 0))
    );
    let late = block(&store, request(1, 2, Some((1, 50)))).await;
    assert_eq!(late, 50, "of the link before");
    assert_eq!(counts(&store, 2).await, (0, 50));
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    until(
        "the tombstone is purged",
        Duration::from_secs(10),
        async || (store.purge_tombstones(0, 10).await.unwrap() == Some(1)).then_some(()),
    )
    .await;
    assert_eq!(counts(&store, 2).await, (0, 0));
}

async fn limit_when_changed_counts_from_the_next_block(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    assert_eq!(block(&store, request(1, 1, None)).await, 50);
    for (max_visits, number, settled, expected) in [
        (Some(10), 2, Some((1, 10)), 0),
        (Some(30), 3, None, 10),
        (None, 4, Some((3, 10)), 1_000),
    ] {
        let change = move |link: &edgelink_model::links::model::Link| {
            let mut content = link.content.clone();
            content.details.max_visits = max_visits;
            Ok(checked(&content))
        };
        let actor = Actor::command_line(1);
        let key = key("a.example/a");
        let changed = store.update_link(&key, Box::new(change), &actor);
        changed.await.unwrap().unwrap().unwrap();
        assert_eq!(block(&store, request(1, number, settled)).await, expected);
    }
}

/// How many visits a worker gets of the link with that code.
async fn block_of(store: &Store, code: &str, request: VisitsRequest) -> u64 {
    let answer = lease_of(store, code, request, &VisitsConfig::default()).await;
    answer.expect("a block").visits
}

async fn relocate(store: &Store, from: &str, to: &str, id: u64, keeps_old: bool) -> u64 {
    let wanted = LinkMove {
        from: key(&format!("a.example/{from}")),
        to: key(&format!("a.example/{to}")),
        keeps_old,
    };
    let actor = Actor::command_line(1);
    let moved = store.move_link(&wanted, id, as_it_is(), &actor);
    moved.await.unwrap().unwrap().unwrap().link.id
}

async fn blocks_when_their_link_moves_count_at_its_new_place(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    assert_eq!(block(&store, request(1, 1, None)).await, 50);
    assert_eq!(relocate(&store, "a", "b", 2, false).await, 2);
    assert_eq!(counts(&store, 2).await, (0, 50));
    assert_eq!(block_of(&store, "b", request(1, 2, None)).await, 12);
    assert_eq!(relocate(&store, "b", "c", 3, false).await, 3);
    assert_eq!(counts(&store, 3).await, (0, 62));
    // What the worker says of the old places counts at the new one, once, and it gets no more there.
    for _ in 0..2 {
        assert_eq!(block(&store, request(1, 3, Some((1, 20)))).await, 0);
        assert_eq!(counts(&store, 3).await, (20, 12));
    }
    assert_eq!(block_of(&store, "b", request(1, 4, Some((2, 12)))).await, 0);
    assert_eq!(counts(&store, 3).await, (32, 0));
    assert!(
        !store
            .take_visit(&key("a.example/a"), &VisitsConfig::default())
            .await
            .unwrap()
    );
    // A link that stays keeps its blocks.
    let kept = block_of(&store, "c", request(2, 1, None)).await;
    assert_eq!(relocate(&store, "c", "d", 4, true).await, 4);
    assert_eq!(counts(&store, 4).await, (32, 0));
    block_of(&store, "c", request(2, 2, Some((1, kept)))).await;
    assert_eq!(counts(&store, 3).await.0, 32 + kept);
    assert_eq!(counts(&store, 4).await, (32, 0));
}

async fn blocks_when_their_link_moves_back_count_once(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    assert_eq!(block(&store, request(1, 1, None)).await, 50);
    relocate(&store, "a", "b", 2, false).await;
    assert_eq!(block_of(&store, "b", request(2, 1, None)).await, 12);
    assert_eq!(relocate(&store, "b", "a", 3, false).await, 1);
    assert_eq!(counts(&store, 1).await, (0, 62));
    assert_eq!(block_of(&store, "b", request(2, 2, Some((1, 7)))).await, 0);
    assert_eq!(counts(&store, 1).await, (7, 50));
    let next = block(&store, request(1, 2, Some((1, 50)))).await;
    assert_eq!(counts(&store, 1).await, (57, next));
}

async fn link_when_deleted_while_uses_are_taken_has_none(database: Database) {
    let store = database.store().await;
    let done = Arc::new(AtomicBool::new(false));
    let mut visitors = JoinSet::new();
    for _ in 0..4 {
        let (store, done) = (Arc::clone(&store), Arc::clone(&done));
        visitors.spawn(async move {
            let (key, config) = (key("a.example/a"), VisitsConfig::default());
            while !done.load(Ordering::Relaxed) {
                store.take_visit(&key, &config).await.expect("an answer");
            }
        });
    }
    for id in 1..=50 {
        create(&store, limited(id, "a", 1_000_000)).await.unwrap();
        tokio::task::yield_now().await;
        assert!(delete(&store, &key("a.example/a")).await.unwrap());
    }
    done.store(true, Ordering::Relaxed);
    visitors.join_all().await;
    for id in 1..50 {
        assert_eq!(counts(&store, id).await, (0, 0), "{id}");
    }
}

async fn uses_when_the_limit_was_removed_go_with_the_link(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    block(&store, request(1, 1, None)).await;
    let change = |link: &edgelink_model::links::model::Link| {
        let mut content = link.content.clone();
        content.details.max_visits = None;
        Ok(checked(&content))
    };
    let (a, actor) = (key("a.example/a"), Actor::command_line(1));
    let changed = store.update_link(&a, Box::new(change), &actor);
    changed.await.unwrap().unwrap().unwrap();
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    create(&store, link(2, "a")).await.unwrap();
    assert_eq!(counts(&store, 1).await, (0, 0));
}

async fn leases_when_old_are_purged_in_batches(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    block(&store, request(1, 1, None)).await;
    let day = 24 * 60 * 60 * 1000;
    let old: Vec<String> = (0..5)
        .map(|n| format!("({n}, X'000000000000000000000000000000{n:02x}', 1, 0, 1, {day})"))
        .collect();
    let insert =
        "INSERT INTO visit_leases (link_id, worker, number, size, settled, lease_until) VALUES ";
    database
        .execute(&format!("{insert}{}", old.join(", ")))
        .await;
    let purged = async || store.purge_visit_leases(3).await.unwrap();
    assert_eq!([purged().await, purged().await, purged().await], [3, 2, 0]);
    assert_eq!(counts(&store, 1).await, (0, 50));
}

async fn blocks_when_out_for_a_day_come_back_with_a_purge(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    block(&store, request(1, 1, None)).await;
    store.note_workers(&[[1; 16], [2; 16]]).await.unwrap();
    database
        .execute("UPDATE visit_leases SET lease_until = 1, back_at = 1; UPDATE visit_workers SET heard_at = 1")
        .await;
    assert_eq!(store.purge_visit_leases(10).await.unwrap(), 3);
    assert_eq!(counts(&store, 1).await, (0, 0));
    for table in ["visit_leases", "visit_workers"] {
        assert_eq!(database.count(table).await, 0, "{table}");
    }
}

fn returned(code: &str, number: u64, settled: (u64, u64)) -> (LinkKey, VisitsRequest) {
    let request = VisitsRequest {
        wants: false,
        ..request(1, number, Some(settled))
    };
    (key(&format!("a.example/{code}")), request)
}

/// The outcomes of returns of worker 1.
async fn give_back(store: &Store, returns: &[(LinkKey, VisitsRequest)]) -> Vec<ReturnOutcome> {
    let config = VisitsConfig::default();
    let outcomes = store.return_visits([1; 16], returns, &config).await;
    outcomes.expect("outcomes")
}

async fn returns_when_of_many_links_are_settled_once(database: Database) {
    const LINKS: u64 = 100;
    let store = database.store().await;
    for id in 1..=LINKS {
        create(&store, limited(id, &format!("a{id}"), 9))
            .await
            .unwrap();
        let code = format!("a{id}");
        assert_eq!(block_of(&store, &code, request(1, id, None)).await, 4);
        assert_eq!(block_of(&store, &code, request(2, id, None)).await, 1);
    }
    create(&store, link(LINKS + 1, "unlimited")).await.unwrap();
    let spent = |id: u64| id % 5;
    let mut returns: Vec<_> = (1..=LINKS)
        .rev()
        .map(|id| returned(&format!("a{id}"), LINKS + id, (id, spent(id))))
        .collect();
    returns.push(returned("unlimited", 1_000, (1, 1)));
    returns.push(returned("none", 1_001, (1, 1)));
    for _ in 0..2 {
        let outcomes = give_back(&store, &returns).await;
        assert_eq!(outcomes, vec![ReturnOutcome::Settled; returns.len()]);
        for id in 1..=LINKS {
            assert_eq!(counts(&store, id).await, (spent(id), 1), "{id}");
        }
    }
    // One that a later request has overtaken says nothing new.
    block_of(&store, "a4", request(1, 2_000, None)).await;
    let leased = counts(&store, 4).await.1;
    let late = [returned("a4", 1_500, (4, 4))];
    assert_eq!(give_back(&store, &late).await, [ReturnOutcome::Settled]);
    assert_eq!(counts(&store, 4).await, (4, leased));
}

async fn return_when_its_link_has_moved_counts_at_the_new_place(database: Database) {
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b")] {
        create(&store, limited(id, code, 100)).await.unwrap();
        assert_eq!(block_of(&store, code, request(1, id, None)).await, 50);
    }
    relocate(&store, "a", "c", 3, false).await;
    let returns = [returned("a", 3, (1, 20)), returned("b", 4, (2, 30))];
    for _ in 0..2 {
        let outcomes = give_back(&store, &returns).await;
        assert_eq!(outcomes, [ReturnOutcome::Settled; 2]);
        assert_eq!(counts(&store, 3).await, (20, 0));
        assert_eq!(counts(&store, 2).await, (30, 0));
    }
}

async fn limits_when_reached_by_returns_are_audited_once(database: Database) {
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b"), (3, "c")] {
        create(&store, limited(id, code, 1)).await.unwrap();
        assert_eq!(block_of(&store, code, request(1, id, None)).await, 1);
    }
    let returns = [
        returned("a", 4, (1, 1)),
        returned("b", 5, (2, 1)),
        returned("c", 6, (3, 0)),
    ];
    for _ in 0..2 {
        give_back(&store, &returns).await;
        let mut query = AuditQuery::of_tenant(1, 10);
        query.action = Some("link.limit-reached".to_owned());
        let entries = store.audit_entries(&query).await.unwrap();
        let mut subjects: Vec<_> = entries.iter().map(|entry| &*entry.subject).collect();
        subjects.sort_unstable();
        assert_eq!(subjects, ["link:a.example/a", "link:a.example/b"]);
    }
}

/// Makes every block one that is over and of which nothing was heard for long.
const OVERDUE: &str = "UPDATE visit_leases SET lease_until = 1, back_at = 1 WHERE size > 0";

async fn block_when_its_worker_is_heard_of_stays_out(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 1)).await.unwrap();
    assert_eq!(block(&store, request(1, 1, None)).await, 1);
    store.note_workers(&[[1; 16]]).await.unwrap();
    database.execute(OVERDUE).await;
    assert_eq!(block(&store, request(2, 1, None)).await, 0, "it lives");
    let late = "visit_leases WHERE size = 1 AND back_at > 1";
    assert_eq!(database.count(late).await, 1, "it is looked at later");
    assert!(
        !store
            .take_visit(&key("a.example/a"), &VisitsConfig::default())
            .await
            .unwrap()
    );
    database.execute(OVERDUE).await;
    database
        .execute("UPDATE visit_workers SET heard_at = 1")
        .await;
    assert_eq!(block(&store, request(2, 2, None)).await, 1, "it is silent");
    assert_eq!(counts(&store, 1).await, (0, 1));
}

async fn block_when_its_link_moves_stays_out_while_its_worker_lives(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 1)).await.unwrap();
    assert_eq!(block(&store, request(1, 1, None)).await, 1);
    relocate(&store, "a", "b", 2, false).await;
    relocate(&store, "b", "c", 3, false).await;
    store.note_workers(&[[1; 16]]).await.unwrap();
    assert_eq!(block_of(&store, "c", request(2, 1, None)).await, 0);
    database.execute(OVERDUE).await;
    assert_eq!(block_of(&store, "c", request(2, 2, None)).await, 0);
    give_back(&store, &[returned("a", 2, (1, 0))]).await;
    assert_eq!(block_of(&store, "c", request(2, 3, None)).await, 1);
}

/// The statements of a control plane of before the sums where a worker leases visits of the link 1.
fn of_before(worker: u8, size: u64, until: &str) -> String {
    let worker = format!("X'{}'", format!("{worker:02x}").repeat(16));
    format!(
        "DELETE FROM visit_leases WHERE link_id = 1 AND worker = {worker}; \
         INSERT INTO visit_leases (link_id, worker, number, size, settled, lease_until) VALUES (1, {worker}, 7, {size}, 0, {until}); \
         UPDATE visits SET changes = changes + 1 WHERE link_id = 1"
    )
}

const FAR: &str = "9000000000000";

async fn sums_when_older_control_planes_write_stay_right(database: Database) {
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    assert_eq!(block(&store, request(1, 1, None)).await, 50);
    database.execute(&of_before(2, 40, FAR)).await;
    assert_eq!(counts(&store, 1).await, (0, 90));
    assert_eq!(
        block(&store, request(3, 1, None)).await,
        1,
        "of 10, for 3 workers"
    );
    assert_eq!(counts(&store, 1).await, (0, 91));
    // It has changed the block of one that is known here, and made one that is over.
    database.execute(&of_before(1, 0, FAR)).await;
    database.execute(&of_before(4, 9, "1")).await;
    assert!(
        store
            .take_visit(&key("a.example/a"), &VisitsConfig::default())
            .await
            .unwrap()
    );
    assert_eq!(counts(&store, 1).await, (1, 41));
    // Its purge has removed what was out.
    database
        .execute("DELETE FROM visit_leases WHERE size > 1")
        .await;
    block(&store, request(3, 2, Some((1, 1)))).await;
    let (used, leased) = counts(&store, 1).await;
    assert_eq!(used, 2);
    let sum = format!("visit_leases WHERE size = {leased}");
    assert_eq!(database.count(&sum).await, 1);
}

async fn uses_when_older_than_the_sums_are_counted(database: Database) {
    let out = of_before(2, 40, FAR);
    let statements = ["INSERT INTO visits (link_id, used) VALUES (1, 30)", &out];
    database.begin_at(103, &statements).await;
    let store = database.store().await;
    create(&store, limited(1, "a", 100)).await.unwrap();
    assert_eq!(counts(&store, 1).await, (30, 40));
    assert_eq!(block(&store, request(3, 1, None)).await, 7);
    let settled = request(2, 8, Some((7, 25)));
    block(&store, settled).await;
    assert_eq!(counts(&store, 1).await.0, 55);
}

/// Rows are locked in servers alone.
#[tokio::test]
async fn return_when_its_link_is_locked_is_deferred_alone() {
    let database = Database::on_server().await;
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b"), (3, "c")] {
        create(&store, limited(id, code, 1)).await.unwrap();
        assert_eq!(block_of(&store, code, request(1, id, None)).await, 1);
    }
    let mut other = MySqlConnection::connect(database.url()).await.unwrap();
    let lock = "START TRANSACTION; SELECT * FROM visits WHERE link_id = 2 FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    let returns = [
        returned("a", 4, (1, 1)),
        returned("b", 5, (2, 1)),
        returned("c", 6, (3, 1)),
    ];
    let expected = [
        ReturnOutcome::Settled,
        ReturnOutcome::Later,
        ReturnOutcome::Settled,
    ];
    assert_eq!(give_back(&store, &returns).await, expected);
    assert_eq!(counts(&store, 1).await, (1, 0));
    assert_eq!(counts(&store, 2).await, (0, 1));
    assert_eq!(counts(&store, 3).await, (1, 0));
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    let outcomes = give_back(&store, &returns).await;
    assert_eq!(outcomes, [ReturnOutcome::Settled; 3]);
    assert_eq!(counts(&store, 2).await, (1, 0));
}
