//! Named numbers that change only by compare-and-set. A number that was never set is 0.

use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::StoreError;
use edgelink_database::run;
use edgelink_database::sql::sql;

impl Store {
    /// The number with this name.
    pub async fn counter(&self, name: &str) -> Result<u64, StoreError> {
        run!(
            self.read("counter", "reading a counter").of(Class::Control),
            |session| {
                let query = sql("SELECT value FROM counters WHERE name = ?").bind(name);
                let row: Option<(u64,)> = session.fetch_optional(query).await?;
                Ok(row.map_or(0, |(value,)| value))
            }
        )
    }

    /// Sets the number with this name to `new` if it is `expected`; `false` if it is not. After an error the outcome is
    /// unknown. Fails too if the database has lost changes and is not repaired yet.
    pub async fn swap_counter(
        &self,
        name: &str,
        expected: u64,
        new: u64,
    ) -> Result<bool, StoreError> {
        let (context, token) = ("moving a counter", self.newest.token());
        let swapped = run!(
            self.write("swap_counter", context).of(Class::Control),
            |session| {
                let swap = sql(
                    "UPDATE counters SET value = ? WHERE name = ? AND value = ? \
                 AND (SELECT token FROM publisher WHERE id = 1) >= ?",
                );
                let swap = swap.bind(new).bind(name).bind(expected).bind(token);
                if session.autocommit(swap).await? > 0 {
                    return Ok(true);
                }
                if expected != 0 {
                    return Ok(false);
                }
                // It may never have been set.
                let insert = sql(
                    "INSERT INTO counters (name, value) SELECT ?, ? FROM publisher WHERE id = 1 AND token >= ?",
                );
                match session
                    .autocommit(insert.bind(name).bind(new).bind(token))
                    .await
                {
                    Ok(inserted) => Ok(inserted > 0),
                    Err(fault) if fault.is_duplicate() => Ok(false),
                    Err(fault) => Err(fault),
                }
            }
        )?;
        if !swapped {
            self.check_token(context, token).await?;
        }
        Ok(swapped)
    }
}
