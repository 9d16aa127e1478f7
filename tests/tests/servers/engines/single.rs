//! Single clicks, and orphan visits.

use crate::engines::answers::BOTS;
use crate::engines::fixture::Tested;
use crate::engines::random::{DAY, link_clicks, midnight};
use edgelink_clicks::analytics::{Click, OrphanGroup, RawClick, RawPlace, RawQuery, orphans};
use edgelink_model::counts::{Bots, ClickScope};

on_every_engine!(
    clicks_when_read_page_by_page_are_all_there_once,
    page_when_it_begins_amid_clicks_of_a_report_is_full,
    orphan_visits_when_grouped_count_by_path_kind_and_domain,
    orphan_visits_when_beyond_the_bound_of_a_day_are_only_counted,
);

/// The clicks of all three days, on one page.
pub(crate) fn all_of(scope: ClickScope) -> RawQuery {
    RawQuery {
        scope,
        from: midnight(),
        to: midnight() + 4 * DAY,
        bots: Bots::Included,
        orphans: false,
        after: None,
        skip: 0,
        limit: 10_000,
    }
}

/// All orphan visits of a tenant.
pub(crate) fn all_orphans(tenant_id: u32) -> RawQuery {
    RawQuery {
        orphans: true,
        ..all_of(ClickScope::Tenant(tenant_id))
    }
}

impl Tested {
    /// Asserts that the engine has all single clicks and orphan visits of a tenant.
    pub(crate) async fn assert_single(&self, tenant_id: u32) {
        let clicks = all_of(ClickScope::Tenant(tenant_id));
        for query in [clicks, all_orphans(tenant_id)] {
            assert_all(self, &query).await;
        }
    }
}

/// Asserts that an engine has the single clicks of its model, with all attributes.
async fn assert_all(tested: &Tested, query: &RawQuery) {
    let found = tested.engine.raw(query).await.unwrap();
    let places = places(&found);
    assert!(places.is_sorted_by(|one, other| one > other), "{query:?}");
    let expected = tested.model.single(query);
    assert_eq!(shown(&found), shown(&expected), "{query:?}");
}

/// Clicks as texts, in an order that does not depend on the engine.
fn shown(clicks: &[RawClick]) -> Vec<String> {
    let shown = clicks.iter().map(|click| {
        let RawClick {
            place,
            link_id,
            key,
            orphan,
            described,
        } = click;
        format!("{} {link_id} {key} {orphan:?} {described:?}", place.at)
    });
    let mut shown: Vec<String> = shown.collect();
    shown.sort();
    shown
}

fn places(clicks: &[RawClick]) -> Vec<RawPlace> {
    clicks.iter().map(|click| click.place).collect()
}

async fn clicks_when_read_page_by_page_are_all_there_once(mut tested: Tested) {
    let from = midnight();
    for orphans in [300, 0] {
        let mut clicks = tested.random.clicks(400, from);
        // Many in a second.
        for click in clicks.iter_mut().filter(|click| click.at % 2 == 0) {
            click.at -= click.at % 20_000;
        }
        let orphans = tested.random.orphans(orphans, from);
        tested.write(clicks, orphans).await;
    }
    for (turn, scope) in tested.scopes().into_iter().enumerate() {
        for orphans in [false, true] {
            // Orphan visits are of no link.
            if orphans && matches!(scope, ClickScope::Links(_)) {
                continue;
            }
            let of = |bots| RawQuery {
                from: from + 100,
                to: from + 2 * DAY + 77,
                bots,
                orphans,
                ..all_of(scope.clone())
            };
            for query in BOTS.map(of) {
                assert_all(&tested, &query).await;
            }
            assert_pages(&tested, &of(BOTS[turn % 3]), 1, 10).await;
            for query in BOTS.map(of) {
                assert_pages(&tested, &query, 37, 10_000).await;
            }
        }
    }
}

/// Clicks of a link without attributes are reported as one number. Engines read recent clicks at first, and older ones if these are too
/// few for a page, with which an export would end.
async fn page_when_it_begins_amid_clicks_of_a_report_is_full(mut tested: Tested) {
    let mut clicks = tested.random.clicks(20, midnight() - 7 * DAY);
    clicks.push(Click {
        at: midnight() + 2 * DAY,
        count: 5,
        ..link_clicks(1, tested.random.domains)
    });
    tested.write(clicks, Vec::new()).await;
    for scope in [ClickScope::Links((0..40).collect()), ClickScope::Tenant(2)] {
        let query = RawQuery {
            from: midnight() - 9 * DAY,
            ..all_of(scope)
        };
        for limit in [2, 3, 4, 6] {
            assert_pages(&tested, &query, limit, 10_000).await;
        }
    }
}

/// Reads pages of so many clicks, about `most` in total, and compares them with the one page that has all.
async fn assert_pages(tested: &Tested, query: &RawQuery, limit: u32, most: usize) {
    let engine = &tested.engine;
    let all = places(&engine.raw(query).await.unwrap());
    let count = all.len() as u64;
    assert_eq!(engine.count_raw(query, 1 << 40).await.unwrap(), count);
    assert_eq!(engine.count_raw(query, 2).await.unwrap(), count.min(2));
    let mut found: Vec<RawPlace> = Vec::new();
    while found.len() < most {
        let page = |after, skip| RawQuery {
            after,
            skip,
            limit,
            ..query.clone()
        };
        let after = page(found.last().copied(), 0);
        let skipping = page(None, found.len() as u64);
        let page = places(&engine.raw(&after).await.unwrap());
        let skipped = places(&engine.raw(&skipping).await.unwrap());
        assert_eq!(page, skipped, "{skipping:?}");
        if page.is_empty() {
            break;
        }
        let rest = all.get(found.len()..).unwrap_or_default();
        assert_eq!(page, rest[..rest.len().min(limit as usize)], "{after:?}");
        found.extend(page);
    }
    assert!(found.len() >= most.min(all.len()), "{query:?}, {limit}");
}

async fn orphan_visits_when_grouped_count_by_path_kind_and_domain(mut tested: Tested) {
    tested.write_some(0, 200, midnight()).await;
    for by in [OrphanGroup::Path, OrphanGroup::Kind, OrphanGroup::Domain] {
        for bots in BOTS {
            let query = RawQuery {
                bots,
                ..all_orphans(1)
            };
            let found = orphans(&*tested.engine, query.clone(), by, 2).await;
            let expected = orphans(&tested.model, query, by, 2).await;
            assert_eq!(found.unwrap(), expected.unwrap(), "by {by:?}");
        }
    }
}

async fn orphan_visits_when_beyond_the_bound_of_a_day_are_only_counted(mut tested: Tested) {
    tested.restart(|settings| settings.max_orphans = 5);
    let mut visits = tested.random.orphans(12, midnight());
    for visit in &mut visits {
        (visit.tenant_id, visit.at) = (1, midnight() + 7);
    }
    for visits in visits.chunks(4) {
        tested.write(Vec::new(), visits.to_vec()).await;
    }
    let engine = &tested.engine;
    assert_eq!(engine.raw(&all_orphans(1)).await.unwrap().len(), 5);
    assert_eq!(engine.count_raw(&all_orphans(1), 9).await.unwrap(), 5);
    let (day, clicks) = (midnight() / DAY, tested.store.clicks());
    let beyond = async |kept| clicks.orphans_beyond(1, day..=day, kept).await.unwrap();
    assert_eq!([beyond(5).await, beyond(0).await], [7, 12]);
    assert_eq!(engine.delete_orphans(2).await.unwrap(), 0);
    assert_eq!(engine.delete_orphans(1).await.unwrap(), 5);
    assert_eq!(beyond(0).await, 0);
}
