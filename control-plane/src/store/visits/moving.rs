//! Visits of links that move. What a link has used, and the blocks that workers have of it, are those of the link that it becomes;
//! what workers say of the blocks comes under the old key, and is noted there as well.

use super::ledger::{Limited, begin, find_by_id, leases_out, lock_sums, remove, write_leases};
use crate::links::model::Link;
use crate::store::error::Fault;
use crate::store::session::Session;
use crate::store::sql::sql;
use edgelink_wire::VisitsRequest;
use edgelink_wire::clicks::WorkerId;

/// How many moves of a link are followed. A block has come back before there are so many.
const MAX_MOVES: usize = 32;

/// Who has a block that was leased of the link with the number `from`, in the ledger of the link `to` that it became: not the
/// worker itself, which may have a block of that one too. Moving back is its own reverse.
fn carried(worker: WorkerId, from: u64, to: u64) -> WorkerId {
    // An odd factor: different numbers make different bits.
    const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let bits = |id: u64| u128::from(id).wrapping_mul(SPREAD);
    (u128::from_be_bytes(worker) ^ bits(from) ^ bits(to)).to_be_bytes()
}

/// Carries visits over to the link with the number `to`, which `from` becomes by a move; or only the number of those used if that
/// one stays. Part of a transaction.
pub(in crate::store) async fn carry(
    session: &mut Session,
    from: &Link,
    to: u64,
    keeps_old: bool,
) -> Result<(), Fault> {
    remove(session, &[to]).await?;
    if from.content.details.max_visits.is_some() {
        session.execute(begin(session, from.id)).await?;
    }
    let Some(locked) = lock_sums(session, from.id).await? else {
        return Ok(());
    };
    // Without sums: the next change adds its leases up.
    let insert = sql("INSERT INTO visits (link_id, used, reached) VALUES (?, ?, ?)");
    let insert = insert.bind(to).bind(locked.used).bind(locked.reached);
    session.execute(insert).await?;
    if keeps_old {
        return Ok(());
    }
    let mut leases = leases_out(session, from.id).await?;
    for lease in &mut leases {
        lease.worker = carried(lease.worker, from.id, to);
    }
    let leases: Vec<_> = leases.iter().map(|lease| (to, lease)).collect();
    write_leases(session, &leases).await?;
    let note = sql("UPDATE visits SET moved_to = ? WHERE link_id = ?");
    session.execute(note.bind(to).bind(from.id)).await.map(drop)
}

/// The link in whose ledger blocks are that were leased of `asked`, and the request as it counts there; `asked` itself if it
/// has not moved. `None` if that link was purged.
pub(super) async fn follow(
    session: &mut Session,
    asked: &Limited,
    request: &VisitsRequest,
) -> Result<Option<(Limited, VisitsRequest)>, Fault> {
    let (mut limited, mut request) = (asked.clone(), *request);
    for _ in 0..MAX_MOVES {
        let Some(to) = limited.moved_to.filter(|_| !limited.is_live) else {
            return Ok(Some((limited, request)));
        };
        request.worker = carried(request.worker, limited.id, to);
        let Some(next) = find_by_id(session, to).await? else {
            return Ok(None);
        };
        limited = next;
    }
    Ok(None)
}
