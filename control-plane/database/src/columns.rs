//! Values of columns.

use super::error::Fault;
use super::session::Session;
use super::sql::Sql;

/// The numbers returned by a query of one column.
pub async fn numbers(session: &mut Session, query: Sql<'_>) -> Result<Vec<u64>, Fault> {
    let rows: Vec<(u64,)> = session.fetch_all(query).await?;
    Ok(rows.into_iter().map(|(number,)| number).collect())
}

/// Text of a binary column. Short text is read by CAST(name AS CHAR).
pub fn text(bytes: &[u8]) -> Result<&str, Fault> {
    str::from_utf8(bytes).map_err(|error| Fault::corrupt("text", &error))
}

/// Text of a binary column, owned.
pub fn name(bytes: &[u8]) -> Result<String, Fault> {
    text(bytes).map(str::to_owned)
}
