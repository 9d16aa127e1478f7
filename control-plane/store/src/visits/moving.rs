//! Uses of links that move. The uses spent of a link, and the blocks that workers have leased of it, pass to the link that it
//! becomes; reports of workers about these blocks arrive under the old key, and are credited to the new link too.

use super::ledger::{Limited, begin, find_by_id, leases_out, lock_sums, remove, write_leases};
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use edgelink_model::links::model::Link;
use edgelink_wire::VisitsRequest;
use edgelink_wire::clicks::WorkerId;

/// Most moves followed for one lease; leases expire long before.
const MAX_MOVES: usize = 32;

/// Holder, in the ledger of the link `to`, of a block leased from the link `from` before it became that one: not the
/// worker itself, which may have a block of `to` as well. Moving back reverses it.
fn carried(worker: WorkerId, from: u64, to: u64) -> WorkerId {
    // An odd factor: different numbers yield different bits.
    const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let bits = |id: u64| u128::from(id).wrapping_mul(SPREAD);
    (u128::from_be_bytes(worker) ^ bits(from) ^ bits(to)).to_be_bytes()
}

/// Carries uses over to the link with the number `to`, which `from` becomes by a move; or only the number of uses spent if `from`
/// stays. Part of a transaction.
pub(crate) async fn carry(
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
    // Without sums: the next change computes them.
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

/// The link whose ledger has the blocks leased from `asked`, and the request translated for it; `asked` itself if it
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
