//! The links followed most, as found by the click writer.

use crate::ClickStore;
use edgelink_database::classes::Class;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::sql::{pieces, sql};
use edgelink_model::clock;

impl ClickStore {
    /// The keys of the links followed most in the last minutes, the hottest first.
    pub async fn hot_keys(&self, limit: u32) -> Result<Vec<String>, StoreError> {
        let links = self.hot_clicks(limit).await?;
        Ok(links.into_iter().map(|(key, _)| key).collect())
    }

    /// The keys of the links followed most in the last minutes, with their clicks, the hottest first.
    pub async fn hot_clicks(&self, limit: u32) -> Result<Vec<(String, u64)>, StoreError> {
        let now = clock::unix_seconds();
        run!(
            self.read("hot_keys", "finding the hot links")
                .of(Class::Lookups),
            |session| {
                let query = sql(
                    "SELECT link_key, clicks FROM hot_links WHERE until > ? ORDER BY place LIMIT ?",
                );
                let rows: Vec<(Vec<u8>, u64)> =
                    session.fetch_all(query.bind(now).bind(limit)).await?;
                let link = |(key, clicks): (Vec<u8>, u64)| Ok::<_, Fault>((name(&key)?, clicks));
                rows.into_iter().map(link).collect()
            }
        )
    }

    /// Replaces the links followed most, the hottest first. They are valid until `until`, in unix seconds.
    pub async fn replace_hot_links(
        &self,
        links: &[(String, u64)],
        until: u64,
    ) -> Result<(), StoreError> {
        let call = self
            .write("replace_hot_links", "storing the hot links")
            .of(Class::Background);
        run!(call, |session| {
            session.begin().await?;
            session.execute(sql("DELETE FROM hot_links")).await?;
            let mut place = 0_u64;
            for links in pieces(links) {
                let rows = links.iter().map(|(key, clicks)| {
                    place += 1;
                    [
                        place.into(),
                        key.as_str().into(),
                        (*clicks).into(),
                        until.into(),
                    ]
                });
                let insert = sql("INSERT INTO hot_links (place, link_key, clicks, until) ");
                session.execute(insert.rows(rows)).await?;
            }
            session.commit(links.len()).await
        })
    }
}
