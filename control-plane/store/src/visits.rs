//! Uses of links with a limit. The row of a link in `visits` is locked while uses are leased: the rules are in
//! [`edgelink_settings::visits`].

mod ledger;
mod moving;
mod returning;

pub(super) use self::ledger::{is_any, remove};
pub(super) use self::moving::carry;

use self::ledger::{Limited, LockedVisits, begin, find, find_by_id, lock, write};
use self::moving::follow;
use super::audit::{Actor, Entry, append};
use super::events::{EventWriter, LinkEvent};
use super::link_changes::subject;
use super::rows::links_by_id;
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::numbers;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{pieces, sql};
use edgelink_settings::config::VisitsConfig;
use edgelink_settings::visits::{KEPT_MILLIS, Ledger, StaleRequest, VisitLease};
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::{LinkKey, VisitsAnswer, VisitsRequest};
use serde_json::json;

impl Store {
    /// Leases uses of a link to a worker, and accepts the uses that it returns. A link without a limit has more than any worker
    /// can spend; a missing one has none. Uses returned to a link that has moved are credited to its new place.
    ///
    /// # Errors
    /// The inner error if the worker has sent a later request.
    pub async fn lease_visits(
        &self,
        key: &LinkKey,
        request: &VisitsRequest,
        config: &VisitsConfig,
    ) -> Result<Result<VisitsAnswer, StaleRequest>, StoreError> {
        let call = self.write("lease_visits", "leasing uses of a link");
        let call = call
            .of(Class::Visits)
            .locking([RowLine::Visits(key.clone())]);
        let holder = request.worker;
        let of_no_link = || {
            let mut mine = VisitLease::none(holder, holder);
            Ledger::default().lease(&mut mine, 0, request, config, 0)
        };
        run!(call, |session| {
            for _ in 0..MAX_ROUNDS {
                let Some(asked) = find(session, key).await? else {
                    return Ok(of_no_link());
                };
                let Some((limited, request)) = follow(session, &asked, request).await? else {
                    return Ok(of_no_link());
                };
                // A link that has moved only accepts returned uses.
                let max = if limited.id == asked.id {
                    limited.max()
                } else {
                    0
                };
                let lease = |visits: &mut LockedVisits| {
                    let none = || VisitLease::none(request.worker, holder);
                    let mine = visits.mine.get_or_insert_with(none);
                    let now = visits.row.now_millis;
                    visits.ledger.lease(mine, max, &request, config, now)
                };
                let worker = Some(request.worker);
                let changer = self.changer(config);
                if let Some(answer) = changer.change(session, &limited, worker, lease).await? {
                    return Ok(answer);
                }
            }
            Err(Fault::Contended)
        })
    }

    /// Takes one use of a link for a visitor of this process. Returns true if there was one.
    pub async fn take_visit(
        &self,
        key: &LinkKey,
        config: &VisitsConfig,
    ) -> Result<bool, StoreError> {
        let call = self.write("take_visit", "taking a use of a link");
        let call = call
            .of(Class::Visits)
            .locking([RowLine::Visits(key.clone())]);
        run!(call, |session| {
            for _ in 0..MAX_ROUNDS {
                let limited = find(session, key).await?;
                let Some(limited) = limited.filter(|limited| !limited.is_used_up()) else {
                    return Ok(false);
                };
                let take = |visits: &mut LockedVisits| visits.ledger.take(limited.max());
                let changer = self.changer(config);
                if let Some(was_there) = changer.change(session, &limited, None, take).await? {
                    return Ok(was_there);
                }
            }
            Err(Fault::Contended)
        })
    }

    /// True if a link has uses left, leased ones included.
    pub async fn has_visits(&self, key: &LinkKey) -> Result<bool, StoreError> {
        let call = self
            .read("has_visits", "looking for uses of a link")
            .of(Class::Visits);
        run!(call, |session| {
            let limited = find(session, key).await?;
            Ok(limited.is_some_and(|limited| !limited.is_used_up()))
        })
    }

    /// Spent and leased uses of the link with this number.
    pub async fn find_visits(&self, link_id: u64) -> Result<VisitCounts, StoreError> {
        let call = self.read("find_visits", "counting uses of a link");
        run!(call, |session| {
            let leases = "(SELECT CAST(COALESCE(SUM(size), 0) AS UNSIGNED) FROM visit_leases l WHERE l.link_id = v.link_id)";
            let query = sql(format!(
                "SELECT used, CAST(CASE WHEN summed = changes THEN leased ELSE {leases} END AS UNSIGNED) AS leased \
                 FROM visits v WHERE link_id = ?"
            ));
            let counts: Option<_> = session.fetch_optional(query.bind(link_id)).await?;
            Ok(counts.unwrap_or_default())
        })
    }

    /// Records that workers are alive.
    pub async fn note_workers(&self, workers: &[WorkerId]) -> Result<(), StoreError> {
        let call = self
            .write("note_workers", "recording live workers")
            .of(Class::Visits);
        run!(call, |session| {
            let dialect = session.dialect();
            let row = format!("(?, {})", dialect.now_millis);
            let update = dialect.overwrite("worker", ["heard_at"]);
            for workers in pieces(workers) {
                let insert = sql("INSERT INTO visit_workers (worker, heard_at) VALUES ");
                let insert = insert.join(", ", workers, |sql, worker| {
                    sql.push(&row).bind(worker.as_slice())
                });
                session.autocommit(insert.push(&update)).await?;
            }
            Ok(())
        })
    }

    /// Removes leases from which nothing more is expected, and workers silent for as long, up to `limit` of each. Returns their
    /// number. Outstanding blocks are returned.
    pub async fn purge_visit_leases(&self, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .write("purge_visit_leases", "removing old leases of uses")
            .of(Class::Background);
        // This is later than any configured grace period.
        let config = &VisitsConfig::default();
        run!(call, |session| {
            let dialect = session.dialect();
            let now = dialect.now_millis;
            let old = |column: &str| format!("{column} < CAST({now} AS SIGNED) - ?");
            let out = sql(format!(
                "SELECT DISTINCT link_id FROM (SELECT link_id FROM visit_leases WHERE {} AND size > 0 ORDER BY lease_until LIMIT ?) AS o",
                old("lease_until")
            ));
            let out = numbers(session, out.bind(KEPT_MILLIS).bind(limit.min(MOST_OUT))).await?;
            for link_id in out {
                if let Some(limited) = find_by_id(session, link_id).await? {
                    let changer = self.changer(config);
                    let nothing = |_: &mut LockedVisits| {};
                    changer.change(session, &limited, None, nothing).await?;
                }
            }
            let mut purged = 0;
            let leases = old("lease_until") + " AND size = 0 ORDER BY lease_until";
            let workers = old("heard_at") + " ORDER BY heard_at";
            for (table, key, old) in [
                ("visit_leases", "link_id, worker", leases),
                ("visit_workers", "worker", workers),
            ] {
                let old = sql(old).bind(KEPT_MILLIS);
                purged += session.purge(table, key, old, limit).await?;
            }
            Ok(purged)
        })
    }

    fn changer<'a>(&'a self, config: &'a VisitsConfig) -> Changer<'a> {
        let events = self.events.as_deref();
        Changer { config, events }
    }
}

/// The most blocks returned by one purge because they have been outstanding for so long.
const MOST_OUT: u32 = 64;

/// Most lookups of a link that moves, or is purged, before its row is locked.
const MAX_ROUNDS: usize = 4;

/// Uses of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct VisitCounts {
    /// Uses spent, as far as workers have reported.
    pub used: u64,
    /// Uses leased to workers.
    pub leased: u64,
}

/// Changes uses according to the settings.
#[derive(Clone, Copy)]
struct Changer<'a> {
    config: &'a VisitsConfig,
    /// Writer of webhook events; `None` without webhooks.
    events: Option<&'a EventWriter>,
}

impl Changer<'_> {
    /// Changes the uses of a link in one transaction; `worker` is the requesting one. Returns `None` without a change if the link has
    /// moved meanwhile, or is gone.
    async fn change<T>(
        self,
        session: &mut Session,
        limited: &Limited,
        worker: Option<WorkerId>,
        act: impl FnOnce(&mut LockedVisits) -> T,
    ) -> Result<Option<T>, Fault> {
        if limited.used.is_none() {
            session.autocommit(begin(session, limited.id)).await?;
        }
        session.begin().await?;
        let locked = lock(session, limited.id, worker, self.config).await?;
        let unmoved = locked.filter(|locked| locked.row.moved_to == limited.moved_to);
        let Some(mut visits) = unmoved else {
            session.rollback().await?;
            return Ok(None);
        };
        let outcome = act(&mut visits);
        self.finish(session, &[(limited, &visits)]).await?;
        Ok(Some(outcome))
    }

    /// Writes changed uses, and commits the transaction.
    async fn finish(
        self,
        session: &mut Session,
        changed: &[(&Limited, &LockedVisits)],
    ) -> Result<(), Fault> {
        let reached = changed.iter().map(|(limited, visits)| {
            let max = limited.max.filter(|_| limited.is_live);
            (*visits, max.filter(|max| visits.ledger.used >= *max))
        });
        let written: Vec<_> = reached.collect();
        let rows = write(session, &written).await?;
        let newly = changed.iter().zip(&written);
        let newly = newly
            .filter(|(_, (visits, reached))| reached.is_some() && *reached != visits.row.reached);
        let newly: Vec<_> = newly.map(|(changed, _)| *changed).collect();
        if !newly.is_empty() {
            self.on_limit_reached(session, &newly).await?;
        }
        session.commit(rows.max(1)).await
    }

    /// Records that limits of links are reached for the first time since they were set, in the audit log and as events, as part of
    /// the transaction.
    async fn on_limit_reached(
        self,
        session: &mut Session,
        reached: &[(&Limited, &LockedVisits)],
    ) -> Result<(), Fault> {
        let ids: Vec<u64> = reached.iter().map(|(limited, _)| limited.id).collect();
        let links = links_by_id(session, &ids).await?;
        let mut now = 0;
        for link in &links {
            let of_link = |(limited, _): &&(&Limited, &LockedVisits)| limited.id == link.id;
            let Some((limited, visits)) = reached.iter().find(of_link) else {
                continue;
            };
            now = visits.row.now_millis;
            let entry = Entry {
                actor: &Actor::command_line(limited.tenant_id),
                action: "link.limit-reached",
                subject: subject(&link.key()),
                detail: json!({ "maxVisits": limited.max, "used": visits.ledger.used }),
            };
            append(session, &entry).await?;
        }
        if let Some(events) = self.events {
            let reached = links.iter().map(|link| (LinkEvent::LimitReached, link));
            events.append(session, now, reached).await?;
        }
        Ok(())
    }
}
