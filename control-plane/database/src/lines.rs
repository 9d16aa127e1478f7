//! Lines of calls that lock the same row.
//!
//! In this process they wait for each other before they take a connection, in order of arrival. A row that is locked for long (by
//! many calls, or from outside) thus delays only the calls that want it, and costs the others one connection.

use super::error::{Fault, Limit};
use edgelink_wire::LinkKey;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::{Instant, timeout_at};

/// A row, or rows locked together, for which calls queue.
///
/// Calls that need several lines join them in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowLine {
    /// A link.
    Link(LinkKey),
    /// The uses of a link with a limit.
    Visits(LinkKey),
    /// A tenant, locked by changes of its users and keys.
    Tenant(u32),
    /// A tenant by its name, at logins.
    Login(String),
    /// The links of a tag.
    Tag(u32, String),
    /// An API key with a quota.
    ApiKey(String),
    /// A webhook.
    Webhook(u64),
    /// A report of abuse.
    Report(u64),
    /// The receipt of a whole request, by the hash of its key.
    Request([u8; 32]),
    /// A conversion, by its hash.
    Conversion([u8; 32]),
}

impl RowLine {
    /// The link; `None` for other rows.
    pub fn link(&self) -> Option<&LinkKey> {
        match self {
            Self::Link(key) => Some(key),
            _ => None,
        }
    }
}

/// The lines of a process. A line exists only while calls are in it.
#[derive(Debug)]
pub(super) struct RowLines {
    lines: Mutex<HashMap<RowLine, LineMembers>>,
    /// The most calls in one line, including the one whose turn it is.
    most: usize,
}

/// The calls in a line.
#[derive(Debug, Default)]
struct LineMembers {
    turn: Arc<Turn<()>>,
    count: usize,
}

/// The turn of a call in all of its lines, until it is dropped.
#[derive(Debug)]
pub struct RowTurns {
    /// Released before the call leaves the lines.
    _held: Vec<OwnedMutexGuard<()>>,
    memberships: Vec<LineMembership>,
}

/// A call's stay in a line.
#[derive(Debug)]
struct LineMembership {
    lines: Arc<RowLines>,
    line: RowLine,
    turn: Arc<Turn<()>>,
}

impl RowLines {
    /// Lines with at most `waiting` waiting calls each.
    pub(super) fn new(waiting: usize) -> Self {
        Self {
            lines: Mutex::default(),
            most: waiting.saturating_add(1),
        }
    }

    /// Waits for the turn in all these lines. All calls join them in one order, so that they do not deadlock.
    ///
    /// # Errors
    /// One of the lines is full, or the turn does not come before `deadline`.
    pub(super) async fn wait(
        self: &Arc<Self>,
        wanted: &BTreeSet<RowLine>,
        deadline: Instant,
    ) -> Result<RowTurns, Fault> {
        let mut memberships = Vec::with_capacity(wanted.len());
        for line in wanted {
            memberships.push(self.join(line)?);
        }
        let mut held = Vec::with_capacity(memberships.len());
        for membership in &memberships {
            let turn = timeout_at(deadline, membership.turn.clone().lock_owned()).await;
            held.push(turn.map_err(|_| Fault::Crowded(Limit::WaitingForRow))?);
        }
        Ok(RowTurns {
            _held: held,
            memberships,
        })
    }

    /// Takes the turn in those lines in which no call is.
    pub(super) fn take_free(
        self: &Arc<Self>,
        wanted: impl IntoIterator<Item = RowLine>,
    ) -> RowTurns {
        let (mut held, mut memberships) = (Vec::new(), Vec::new());
        let mut lines = self.lock();
        for line in wanted {
            let Entry::Vacant(free) = lines.entry(line.clone()) else {
                continue;
            };
            let members = free.insert(LineMembers::default());
            members.count = 1;
            let turn = Arc::clone(&members.turn);
            memberships.push(LineMembership {
                turn: Arc::clone(&turn),
                line,
                lines: Arc::clone(self),
            });
            held.extend(turn.try_lock_owned());
        }
        RowTurns {
            _held: held,
            memberships,
        }
    }

    fn join(self: &Arc<Self>, line: &RowLine) -> Result<LineMembership, Fault> {
        let mut lines = self.lock();
        let members = lines.entry(line.clone()).or_default();
        if members.count >= self.most {
            return Err(Fault::Crowded(Limit::WaitingForRow));
        }
        members.count += 1;
        Ok(LineMembership {
            turn: Arc::clone(&members.turn),
            line: line.clone(),
            lines: Arc::clone(self),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RowLine, LineMembers>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RowTurns {
    /// The lines.
    pub fn lines(&self) -> impl Iterator<Item = &RowLine> {
        self.memberships.iter().map(|membership| &membership.line)
    }
}

impl Drop for LineMembership {
    fn drop(&mut self) {
        let mut lines = self.lines.lock();
        let Some(members) = lines.get_mut(&self.line) else {
            return;
        };
        members.count -= 1;
        if members.count == 0 {
            lines.remove(&self.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::time::Duration;

    fn links(keys: &[&str]) -> BTreeSet<RowLine> {
        let links = keys.iter().map(|key| RowLine::Link(key.parse().unwrap()));
        links.collect()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[tokio::test]
    async fn call_when_another_holds_its_row_waits_its_turn() {
        let lines = Arc::new(RowLines::new(8));
        let (a, ab, c) = (links(&["d/a"]), links(&["d/b", "d/a"]), links(&["d/c"]));
        let first = lines.wait(&a, soon()).await.unwrap();
        let mut second = Box::pin(lines.wait(&ab, soon()));
        assert!(second.as_mut().now_or_never().is_none());
        lines.wait(&c, soon()).await.unwrap();
        drop(first);
        drop(second.await.unwrap());
        assert!(lines.lock().is_empty());
    }

    #[tokio::test]
    async fn call_when_another_leaves_the_line_keeps_its_order() {
        let lines = Arc::new(RowLines::new(8));
        let row = links(&["d/a"]);
        let first = lines.wait(&row, soon()).await.unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(lines.wait(&row, soon()))).collect();
        for call in &mut waiting {
            assert!(call.as_mut().now_or_never().is_none());
        }
        drop(waiting.remove(1));
        drop(first);
        assert!(waiting[1].as_mut().now_or_never().is_none());
        let second = waiting[0].as_mut().now_or_never().unwrap().unwrap();
        assert!(waiting[1].as_mut().now_or_never().is_none());
        drop(second);
        drop(waiting.remove(1).now_or_never().unwrap().unwrap());
        drop(waiting);
        assert!(lines.lock().is_empty());
    }

    #[tokio::test]
    async fn free_turns_when_taken_leave_out_lines_of_others() {
        let lines = Arc::new(RowLines::new(8));
        let first = lines.wait(&links(&["d/a"]), soon()).await.unwrap();
        let free = lines.take_free(links(&["d/a", "d/b", "d/c"]));
        let expected = links(&["d/b", "d/c"]);
        assert_eq!(free.lines().cloned().collect::<BTreeSet<_>>(), expected);
        let row = links(&["d/b"]);
        let mut next = Box::pin(lines.wait(&row, soon()));
        assert!(next.as_mut().now_or_never().is_none());
        assert_eq!(lines.take_free(row.clone()).lines().count(), 0);
        drop(free);
        drop((next.await.unwrap(), first));
        assert!(lines.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn line_when_full_or_late_names_the_limit() {
        let lines = Arc::new(RowLines::new(1));
        let row = links(&["d/a"]);
        let first = lines.wait(&row, soon()).await.unwrap();
        let mut second = Box::pin(lines.wait(&row, soon()));
        assert!(second.as_mut().now_or_never().is_none());
        // A call of several rows leaves all of its lines where one is full.
        let several = links(&["d/0", "d/a", "d/z"]);
        let third = lines.wait(&several, soon()).now_or_never();
        let refused = third.unwrap().unwrap_err();
        assert_eq!(refused.limit(), Some(Limit::WaitingForRow));
        assert!(refused.remedy().is_transient() && !refused.is_suspicious());
        let late = second.await.unwrap_err();
        assert_eq!(late.limit(), Some(Limit::WaitingForRow));
        drop(first);
        lines.wait(&several, soon()).await.unwrap();
        assert!(lines.lock().is_empty());
    }

    #[tokio::test]
    async fn calls_when_of_several_rows_never_deadlock() {
        let lines = Arc::new(RowLines::new(64));
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..32 {
            let (lines, keys) = (Arc::clone(&lines), ["d/a", "d/b", "d/c"]);
            let wanted = links(&[keys[n % 3], keys[(n + 1) % 3]]);
            calls.spawn(async move {
                let turns = lines.wait(&wanted, soon()).await.unwrap();
                tokio::task::yield_now().await;
                drop(turns);
            });
        }
        calls.join_all().await;
        assert!(lines.lock().is_empty());
    }
}
