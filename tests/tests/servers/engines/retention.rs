//! Retention: what is over goes.

use crate::engines::fixture::{Tested, about};
use crate::engines::random::{DAY, midnight};
use crate::engines::single::{all_of, all_orphans};
use edgelink_clicks::analytics::{AnalyticsQuery, Click, Engine, RawQuery, Visitors};
use edgelink_model::counts::{Attribute, ClickScope};

on_every_engine!(clicks_when_past_their_retention_go_from_single_ones_to_days);

impl Tested {
    /// Asserts that clicks and visitors are counted as by the model.
    async fn assert_count(&self, query: &AnalyticsQuery) {
        let found = self.engine.count(query, Visitors::Counted).await;
        let expected = self.model.count(query, Visitors::Counted).await;
        assert_eq!(found.unwrap(), expected.unwrap(), "{query:?}");
    }

    /// Asserts that whole days are counted, by all attributes.
    pub(crate) async fn assert_days(&self, query: &AnalyticsQuery) {
        self.assert_count(query).await;
        for by in Attribute::ALL {
            let found = self.engine.breakdown(query, by, 1_000).await;
            let expected = self.model.breakdown(query, by, 1_000).await;
            assert_eq!(found.unwrap(), expected.unwrap(), "{query:?} by {by:?}");
        }
    }
}

async fn clicks_when_past_their_retention_go_from_single_ones_to_days(mut tested: Tested) {
    let from = midnight() - 32 * DAY;
    tested.restart(|settings| settings.raw_days = 60);
    tested.begin_days(from).await;
    let mut clicks = tested.random.clicks(200, from);
    clicks.retain(Click::has_link);
    let orphans = tested.random.orphans(20, from);
    tested.write(clicks, orphans).await;
    tested.roll_up(from + 4 * DAY).await;
    let links: Vec<u64> = (0..20).collect();
    let scopes = [ClickScope::Tenant(1), ClickScope::Links(links.clone())];
    tested.restart(|settings| settings.raw_days = 30);
    tested.purge().await;
    for query in [all_of(scopes[1].clone()), all_orphans(1)] {
        let query = RawQuery { from, ..query };
        assert_eq!(tested.engine.count_raw(&query, 9).await.unwrap(), 0);
        assert!(tested.engine.raw(&query).await.unwrap().is_empty());
    }
    for scope in &scopes {
        let hours = about(scope.clone(), from, 5..30);
        tested.assert_count(&hours).await;
    }
    for hours_days in [35, 3] {
        tested.restart(|settings| settings.hours_days = hours_days);
        tested.purge().await;
        for scope in &scopes {
            for hours in [0..72, 24..48] {
                tested.assert_days(&about(scope.clone(), from, hours)).await;
            }
        }
    }
    tested.restart(|settings| settings.days = 5);
    tested.purge().await;
    let totals = tested.engine.totals(&links).await.unwrap();
    assert_eq!(totals, tested.model.sums());
    tested.model.clicks.clear();
    for scope in scopes {
        tested.assert_count(&about(scope, from, 0..72)).await;
    }
}
