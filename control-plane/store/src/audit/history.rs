//! Start of the history of a link: its code may have belonged to other links before.

use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;

/// Most entries read for it. History older than this many deletions and restores is left out.
const MAX_READ: u64 = 256;

/// The id of the last entry about a link that was at `subject` before the present one; 0 if there is none.
///
/// A link ends with its deletion or by moving away, unless it is restored. A link that has moved here has no
/// older entries here.
pub(super) async fn predecessors_end(
    session: &mut Session,
    tenant_id: u32,
    subject: &str,
) -> Result<u64, Fault> {
    let index = session.dialect().force_index("audit_of_subject");
    let query = sql(format!(
        "SELECT id, action, SUBSTR(detail, 1, 16) AS detail FROM audit{index} WHERE tenant_id = ? AND subject = ? \
         AND action IN ('link.delete', 'link.restore', 'link.move') ORDER BY id DESC LIMIT ?"
    ));
    let query = query.bind(tenant_id).bind(subject).bind(MAX_READ);
    let events: Vec<(u64, Vec<u8>, String)> = session.fetch_all(query).await?;
    let mut is_restored = false;
    for (id, action, detail) in &events {
        match (action.as_slice(), detail.as_str()) {
            (b"link.restore", _) => is_restored = true,
            // See the entries of `moving.rs`.
            (b"link.move", detail) if detail.starts_with(r#"{"from":"#) => return Ok(id - 1),
            (b"link.move", detail) if detail.starts_with(r#"{"keepOld":true"#) => {}
            _ if is_restored => is_restored = false,
            _ => return Ok(*id),
        }
    }
    let is_all = (events.len() as u64) < MAX_READ;
    Ok(events.last().filter(|_| !is_all).map_or(0, |(id, ..)| *id))
}
