//! Builds the rollups of a day from its hourly rollups, a part at a time.

use super::docs::{DAYS, DocKey, DocKind, HOURS, Head, decode, whole};
use super::state::ClickState;
use crate::ClickStore;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use edgelink_model::counts::rollup::Rollup;
use std::collections::BTreeMap;

const DAY_HOURS: u32 = 24;

/// Progress of building the rollups of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayProgress {
    /// The day (unix time / 86400).
    pub day: u32,
    kind: DocKind,
    /// The scopes before this one are done.
    next: u64,
}

/// The rollups of an hour, in the order of their scopes.
struct HourDocs {
    hour: u32,
    docs: Vec<(u64, Vec<u8>)>,
}

impl DayProgress {
    /// The beginning of a day.
    #[must_use]
    pub fn begin(day: u32) -> Self {
        Self {
            day,
            kind: DocKind::Link,
            next: 0,
        }
    }

    /// Number of scopes read of each hour: links take 400 MB at most, and usually 10 MB.
    fn limit(self) -> usize {
        match self.kind {
            DocKind::Link => 256,
            DocKind::Domain | DocKind::Tenant => 16,
        }
    }

    fn behind(self, last: Option<u64>) -> Option<Self> {
        let kind = match (last, self.kind) {
            (Some(last), kind) => {
                return Some(Self {
                    kind,
                    next: last.saturating_add(1),
                    ..self
                });
            }
            (None, DocKind::Link) => DocKind::Domain,
            (None, DocKind::Domain) => DocKind::Tenant,
            (None, DocKind::Tenant) => return None,
        };
        let (day, next) = (self.day, 0);
        Some(Self { day, kind, next })
    }
}

impl ClickStore {
    /// The first day that has no rollups of its own yet.
    pub async fn days_until(&self) -> Result<u32, StoreError> {
        let call = self.read("days_until", "reading the first day without rollups");
        run!(call, |session| {
            Ok(ClickState::read(session).await?.days_until)
        })
    }

    /// Builds the next rollups of a day. Returns the progress, or `None` if the day is complete and recorded as such.
    pub async fn build_day(
        &self,
        progress: DayProgress,
        max_values: usize,
    ) -> Result<Option<DayProgress>, StoreError> {
        let call = self
            .write("build_day", "rolling up the clicks of a day")
            .of(Class::Background);
        run!(call, |session| {
            session.begin().await?;
            let state = ClickState::lock(session).await?;
            if state.days_until != progress.day {
                // Another process was faster.
                session.rollback().await?;
                return Ok(None);
            }
            let last = build_part(session, progress, max_values).await?;
            let next = progress.behind(last);
            let update = match next {
                None => Some(
                    "UPDATE click_state SET days_until = days_until + 1, is_building = 0 WHERE id = 1",
                ),
                // From now on clicks of that day are added to these rollups too.
                Some(_) if !state.is_building => {
                    Some("UPDATE click_state SET is_building = 1 WHERE id = 1")
                }
                Some(_) => None,
            };
            if let Some(update) = update {
                session.execute(sql(update)).await?;
            }
            session.commit(progress.limit()).await?;
            Ok(next)
        })
    }
}

/// Writes the rollups of the next scopes. Returns the last of these, or `None` if there are no more.
async fn build_part(
    session: &mut Session,
    progress: DayProgress,
    max_values: usize,
) -> Result<Option<u64>, Fault> {
    let hours = read_hours(session, progress).await?;
    let is_full = |hour: &&HourDocs| hour.docs.len() >= progress.limit();
    let ends = hours.iter().filter(is_full);
    let end = ends.filter_map(|hour| Some(hour.docs.last()?.0)).min();
    let mut days: BTreeMap<u64, Rollup<'_>> = BTreeMap::new();
    for HourDocs { hour, docs } in &hours {
        for (scope_id, doc) in docs {
            if end.is_some_and(|end| *scope_id > end) {
                break;
            }
            let key = DocKey {
                kind: progress.kind,
                time: *hour,
                scope_id: *scope_id,
            };
            let rollup = decode(key, Some(doc), HOURS.slots)?;
            let day = days.entry(*scope_id);
            let day = day.or_insert_with(|| Rollup::new(DAYS.slots));
            let hour_of_day = usize::try_from(hour % DAY_HOURS).unwrap_or(0);
            day.merge_hour(hour_of_day, &rollup, progress.kind.bounds(max_values));
        }
    }
    let encoded = |(scope_id, rollup): (&u64, &Rollup<'_>)| {
        let key = DocKey {
            kind: progress.kind,
            time: progress.day,
            scope_id: *scope_id,
        };
        (key, rollup.encode())
    };
    let docs: Vec<_> = days.iter().map(encoded).collect();
    DAYS.write(session, &docs).await?;
    Ok(end)
}

async fn read_hours(session: &mut Session, progress: DayProgress) -> Result<Vec<HourDocs>, Fault> {
    let index = session.dialect().force_index("PRIMARY");
    let select = format!(
        "SELECT scope_id, head, doc FROM click_hours{index} WHERE kind = ? AND hour = ? AND scope_id >= ? \
         ORDER BY scope_id LIMIT ?"
    );
    let first = progress.day.saturating_mul(DAY_HOURS);
    let mut hours = Vec::new();
    for hour in first..first.saturating_add(DAY_HOURS) {
        let query = sql(select.clone())
            .bind(progress.kind.number())
            .bind(hour)
            .bind(progress.next)
            .bind(progress.limit() as u64);
        let docs: Vec<(u64, Head, Vec<u8>)> = session.fetch_all(query).await?;
        let docs = docs.into_iter();
        let docs = docs.map(|(scope_id, head, doc)| (scope_id, whole(head, doc)));
        hours.push(HourDocs {
            hour,
            docs: docs.collect(),
        });
    }
    Ok(hours)
}
