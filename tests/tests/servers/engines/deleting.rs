//! Deleting the clicks of links, and orphan visits.

use crate::engines::fixture::{Tested, about};
use crate::engines::random::{DAY, midnight};
use crate::engines::single::all_of;
use crate::store::fixture::{create, link};
use edgelink_clicks::analytics::Visitors;
use edgelink_model::counts::ClickScope;

on_every_engine!(
    clicks_when_their_links_are_deleted_stay_in_the_tenant_sums,
    clicks_when_deleted_start_again_from_zero,
);

async fn clicks_when_their_links_are_deleted_stay_in_the_tenant_sums(mut tested: Tested) {
    let from = midnight();
    tested.begin_days(from).await;
    for _ in 0..2 {
        tested.write_some(300, 20, from).await;
    }
    tested.roll_up(from + 2 * DAY).await;
    let of_tenant = about(ClickScope::Tenant(1), from, 0..72);
    let before = tested.engine.count(&of_tenant, Visitors::Counted).await;
    let (deleted, sums) = ([2, 4, 5_000], tested.model.sums());
    let expected = sums[&2].0 + sums[&4].0;
    assert_eq!(tested.engine.delete(&deleted).await.unwrap(), expected);
    assert_eq!(tested.engine.delete(&deleted).await.unwrap(), 0);
    let clicks = &mut tested.model.clicks;
    clicks.retain(|click| !deleted.contains(&click.link_id));
    let scopes = [vec![2, 4], (0..20).collect()].map(ClickScope::Links);
    tested
        .assert_answers(&scopes, from, &[0..72, 5..50, 0..48])
        .await;
    let after = tested.engine.count(&of_tenant, Visitors::Counted).await;
    assert_eq!(after.unwrap(), before.unwrap());
    tested.assert_single(1).await;
    for tenant_id in [1, 2, 3] {
        let orphans = tested.model.orphans_of(tenant_id);
        let engine = &tested.engine;
        assert_eq!(engine.delete_orphans(tenant_id).await.unwrap(), orphans);
        assert_eq!(engine.delete_orphans(tenant_id).await.unwrap(), 0);
    }
}

async fn clicks_when_deleted_start_again_from_zero(tested: Tested) {
    let mut clicking = tested.clicking().await;
    create(&clicking.store, link(51, "a")).await.unwrap();
    create(&clicking.store, link(52, "b")).await.unwrap();
    // More single clicks than a statement deletes in the database.
    for _ in 0..3 {
        clicking.visit("a", 700).await;
    }
    clicking.follow(&[("a", 3), ("b", 1)]).await;
    let engine = clicking.engine.clone();
    assert_eq!(engine.delete(&[51, 51, 53]).await.unwrap(), 2103);
    assert_eq!(engine.delete(&[51]).await.unwrap(), 0);
    let single = all_of(ClickScope::Links(vec![51]));
    assert_eq!(engine.count_raw(&single, 9).await.unwrap(), 0);
    assert!(engine.raw(&single).await.unwrap().is_empty());
    assert_eq!(clicking.total(51).await, 0);
    assert_eq!(clicking.total(52).await, 1);
    clicking.follow(&[("a", 2)]).await;
    assert_eq!(clicking.total(51).await, 2);
    let of_link = about(single.scope, midnight(), 24..96);
    let count = engine.count(&of_link, Visitors::Counted).await.unwrap();
    assert_eq!(count.clicks, 2);
}
