//! What tells this database from others.

use super::calls::{Store, run};
use super::error::StoreError;
use super::sql::sql;

impl Store {
    /// The name of this database, 32 random hexadecimal digits. It stays for as long as the database lives, over copies and
    /// restores, and clients never see it.
    pub async fn installation(&self) -> Result<String, StoreError> {
        let call = self.read("installation", "reading the name of the database");
        run!(call, |session| {
            let query = "SELECT CAST(installation AS CHAR) AS name FROM publisher WHERE id = 1";
            let (name,) = session.fetch_one(sql(query)).await?;
            Ok(name)
        })
    }
}
