//! Identity of this database.

use crate::Store;
use edgelink_database::error::StoreError;
use edgelink_database::run;
use edgelink_database::sql::sql;

impl Store {
    /// The name of this database, 32 random hexadecimal digits. It is permanent, even across copies and restores, and never shown
    /// to clients.
    pub async fn installation(&self) -> Result<String, StoreError> {
        let call = self.read("installation", "reading the name of the database");
        run!(call, |session| {
            let query = "SELECT CAST(installation AS CHAR) AS name FROM publisher WHERE id = 1";
            let (name,) = session.fetch_one(sql(query)).await?;
            Ok(name)
        })
    }
}
