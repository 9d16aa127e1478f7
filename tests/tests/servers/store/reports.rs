//! Reports of abuse.

use crate::store::fixture::Database;
use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_store::{
    Actor, MAX_OPEN_OF_LINK, NewReport, ReportQuery, ReportReason, ReportRow, Reported, Reviewer,
    Store,
};

on_every_database!(
    report_when_inserted_reads_back,
    reports_when_paged_come_newest_first,
    report_when_closed_can_be_opened_again,
    report_when_closed_by_its_tenant_stays_open_for_the_operator,
    reports_when_too_many_of_a_link_are_open_are_not_kept,
    reports_when_full_give_way_only_if_closed,
);

const MAX: u64 = 100;

fn report(code: &str) -> NewReport {
    NewReport {
        tenant_id: FIRST_TENANT,
        key: format!("go.example:8080/{code}").parse().unwrap(),
        target: "https://example.com/?a=%00".to_owned(),
        reason: ReportReason::Other,
        text: None,
        email: None,
        shares_email: false,
    }
}

async fn insert(store: &Store, code: &str, max: u64) -> Reported {
    store.insert_report(&report(code), max).await.unwrap()
}

fn all() -> ReportQuery {
    ReportQuery {
        reviewer: Reviewer::Operator,
        is_open: None,
        before: None,
        limit: 1_000,
    }
}

async fn list(store: &Store, query: ReportQuery) -> Vec<ReportRow> {
    store.list_reports(&query).await.unwrap()
}

async fn close(store: &Store, id: u64) {
    let actor = Actor::command_line(FIRST_TENANT);
    let closed = store
        .change_report((Reviewer::Operator, id), false, &actor)
        .await;
    assert!(closed.unwrap().unwrap().closed_at.is_some());
}

async fn report_when_inserted_reads_back(database: Database) {
    let store = database.store().await;
    let mut all_reasons = Vec::new();
    for reason in ReportReason::ALL {
        let new = NewReport {
            tenant_id: 7,
            target: "https://example.com/".to_owned() + &"x".repeat(7_980),
            reason,
            text: Some("\u{1f4a3}'\"\\ \u{202e}\n".to_owned() + &"\u{1f4a3}".repeat(2_000)),
            email: Some("j\u{f6}rg@example.com".to_owned()),
            shares_email: true,
            ..report("a")
        };
        let reported = store.insert_report(&new, MAX).await.unwrap();
        assert_eq!(reported, Reported::Kept);
        all_reasons.push(new);
    }
    all_reasons.reverse();
    let rows = list(&store, all()).await;
    assert!(
        rows.iter()
            .all(|row| row.created_at > 0 && row.closed_at.is_none())
    );
    let kept: Vec<NewReport> = rows.into_iter().map(|row| row.report).collect();
    assert_eq!(kept, all_reasons);
}

async fn reports_when_paged_come_newest_first(database: Database) {
    let store = database.store().await;
    for code in ["a", "b", "c"] {
        insert(&store, code, MAX).await;
    }
    let other = NewReport {
        tenant_id: 7,
        ..report("d")
    };
    store.insert_report(&other, MAX).await.unwrap();
    let codes = |rows: &[ReportRow]| -> Vec<String> {
        let codes = rows.iter().map(|row| row.report.key.code.to_string());
        codes.collect()
    };
    let of_first = ReportQuery {
        reviewer: Reviewer::Tenant(FIRST_TENANT),
        limit: 2,
        ..all()
    };
    let page = list(&store, of_first.clone()).await;
    assert_eq!(codes(&page), ["c", "b"]);
    let next = ReportQuery {
        before: Some(page[1].id),
        ..of_first
    };
    assert_eq!(codes(&list(&store, next).await), ["a"]);
    let id = list(&store, all()).await[0].id;
    for (reviewer, is_found) in [
        (Reviewer::Operator, true),
        (Reviewer::Tenant(7), true),
        (Reviewer::Tenant(FIRST_TENANT), false),
    ] {
        let found = store.find_report(reviewer, id).await.unwrap();
        assert_eq!(found.is_some(), is_found, "{reviewer:?}");
    }
}

async fn report_when_closed_can_be_opened_again(database: Database) {
    let store = database.store().await;
    insert(&store, "a", MAX).await;
    insert(&store, "b", MAX).await;
    let id = list(&store, all()).await[1].id;
    close(&store, id).await;
    let closed = store.find_report(Reviewer::Operator, id).await.unwrap();
    close(&store, id).await;
    assert_eq!(
        store.find_report(Reviewer::Operator, id).await.unwrap(),
        closed,
        "once"
    );
    let of_state = async |is_open| {
        let query = ReportQuery {
            is_open: Some(is_open),
            ..all()
        };
        let rows = list(&store, query).await;
        rows.iter().map(|row| row.id).collect::<Vec<u64>>()
    };
    assert_eq!(of_state(false).await, [id]);
    assert_eq!(of_state(true).await.len(), 1);
    let actor = Actor::command_line(FIRST_TENANT);
    let other = store
        .change_report((Reviewer::Tenant(7), id), true, &actor)
        .await;
    assert_eq!(other.unwrap(), None);
    let opened = store.change_report((Reviewer::Operator, id), true, &actor);
    assert_eq!(opened.await.unwrap().unwrap().closed_at, None);
    assert_eq!(of_state(true).await.len(), 2);
}

async fn report_when_closed_by_its_tenant_stays_open_for_the_operator(database: Database) {
    let store = database.store().await;
    insert(&store, "a", 1).await;
    let tenant = Reviewer::Tenant(FIRST_TENANT);
    let actor = Actor::command_line(FIRST_TENANT);
    let open_of = async |reviewer| {
        let query = ReportQuery {
            reviewer,
            is_open: Some(true),
            ..all()
        };
        list(&store, query).await.len()
    };
    let id = list(&store, all()).await[0].id;
    let closed = store.change_report((tenant, id), false, &actor).await;
    let closed = closed.unwrap().unwrap();
    assert!(closed.tenant_closed_at.is_some() && closed.closed_at.is_none());
    assert_eq!(
        (open_of(tenant).await, open_of(Reviewer::Operator).await),
        (0, 1)
    );
    assert_eq!(store.count_open_reports().await.unwrap(), 1);
    assert_eq!(
        insert(&store, "b", 1).await,
        Reported::Full,
        "it gives not way"
    );
    close(&store, id).await;
    let opened = store.change_report((tenant, id), true, &actor).await;
    assert!(opened.unwrap().unwrap().closed_at.is_some());
    assert_eq!(
        (open_of(tenant).await, open_of(Reviewer::Operator).await),
        (1, 0)
    );
    assert_eq!(store.count_open_reports().await.unwrap(), 0);
}

async fn reports_when_too_many_of_a_link_are_open_are_not_kept(database: Database) {
    let store = database.store().await;
    for _ in 0..MAX_OPEN_OF_LINK {
        assert_eq!(insert(&store, "a", MAX).await, Reported::Kept);
    }
    assert_eq!(insert(&store, "a", MAX).await, Reported::Known);
    assert_eq!(
        insert(&store, "A", MAX).await,
        Reported::Kept,
        "another link"
    );
    let id = list(&store, all()).await[3].id;
    close(&store, id).await;
    assert_eq!(insert(&store, "a", MAX).await, Reported::Kept);
}

async fn reports_when_full_give_way_only_if_closed(database: Database) {
    let store = database.store().await;
    for code in ["a", "b", "c"] {
        assert_eq!(insert(&store, code, 3).await, Reported::Kept);
    }
    assert_eq!(insert(&store, "d", 3).await, Reported::Full);
    let rows = list(&store, all()).await;
    close(&store, rows[0].id).await;
    let set = format!(
        "UPDATE abuse_reports SET closed_at = 1 WHERE id = {}",
        rows[2].id
    );
    close(&store, rows[2].id).await;
    database.execute(&set).await;
    assert_eq!(insert(&store, "d", 3).await, Reported::Kept);
    let left = list(&store, all()).await;
    let left: Vec<u64> = left.iter().map(|row| row.id).collect();
    assert!(!left.contains(&rows[2].id), "the one that was closed first");
    assert!(left.contains(&rows[0].id) && left.contains(&rows[1].id));
    // A smaller bound takes away as many as are closed, or none.
    assert_eq!(insert(&store, "e", 2).await, Reported::Full);
    assert_eq!(list(&store, all()).await.len(), 3);
}
