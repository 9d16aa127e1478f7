//! Rows of links locked by a transaction in order to change them.

use super::audit::{Actor, NewEntry, append_all};
use super::domains::{self, Configured};
use super::events::{EventWriter, LinkEvent};
use super::external_ids::external_ids;
use super::link_changes::{ChangeError, ChangeOutcome, LinkChange, subject};
use super::links::{FoundRow, found_rows};
use super::outbox::OutboxBatches;
use super::rows::{CONTENT_COLUMNS, ROW_COLUMNS, ROW_LENGTH, StoredContent, check_known};
use super::terms;
use edgelink_database::columns::numbers;
use edgelink_database::dialect::Dialect;
use edgelink_database::error::Fault;
use edgelink_database::revisions::RevisionBasis;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Value, pieces, sql};
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_wire::{LinkKey, Record};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Context for writing changes.
#[derive(Clone, Copy)]
pub(super) struct WriteContext<'a> {
    /// Their author, for the audit log.
    pub(super) actor: &'a Actor,
    /// The most bytes of one statement. A single row may be larger.
    pub(super) max_bytes: usize,
    /// Writer of webhook events; `None` without webhooks.
    pub(super) events: Option<&'a EventWriter>,
    /// The configured domains, which no tenant created.
    pub(super) configured: &'a Configured,
}

/// Rows that are locked until the transaction ends.
pub(super) struct LockedRows {
    rows: HashMap<LinkKey, LockedRow>,
    revisions: Option<RevisionBasis>,
    /// The rows to be written.
    pub(super) changed: BTreeSet<LinkKey>,
    /// External ids that the changes give to links.
    claimed: HashMap<String, LinkKey>,
    /// The entries for the audit log.
    entries: Vec<NewEntry>,
}

struct LockedRow {
    domain_id: u32,
    link: Link,
    deleted_at: Option<u64>,
    /// The stored link; `None` if there is none, or a tombstone.
    before: Option<Link>,
    /// True if the row does not exist yet.
    is_new: bool,
}

impl LockedRows {
    /// Locks the rows of these keys, including tombstones.
    pub(super) async fn lock(
        session: &mut Session,
        keys: impl IntoIterator<Item = &LinkKey>,
    ) -> Result<Self, Fault> {
        let mut by_domain: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for key in keys {
            let codes = by_domain.entry(key.domain.as_str()).or_default();
            codes.insert(key.code.as_str());
        }
        let mut ids = Vec::new();
        for (domain, codes) in by_domain {
            let codes: Vec<&str> = codes.into_iter().collect();
            for codes in codes.chunks(LONGEST) {
                ids.extend(lock_codes(session, domain, codes).await?);
            }
        }
        let mut locked = Self {
            rows: HashMap::with_capacity(ids.len()),
            revisions: None,
            changed: BTreeSet::new(),
            claimed: HashMap::new(),
            entries: Vec::new(),
        };
        for ids in ids.chunks(LONGEST) {
            locked.read(session, ids).await?;
        }
        Ok(locked)
    }

    async fn read(&mut self, session: &mut Session, ids: &[u64]) -> Result<(), Fault> {
        for FoundRow { revisions, link } in found_rows(session, ids).await? {
            let Some(row) = link else { continue };
            self.revisions.get_or_insert(revisions);
            let (domain_id, deleted_at) = (row.domain_id, row.deleted_at);
            let link = row.into_link()?;
            let row = LockedRow {
                domain_id,
                before: deleted_at.is_none().then(|| link.clone()),
                link,
                deleted_at,
                is_new: false,
            };
            self.rows.insert(row.link.key(), row);
        }
        Ok(())
    }

    /// Drops the rows of links to be restored on a domain that their tenant no longer owns.
    pub(super) async fn leave_out_gone(
        &mut self,
        session: &mut Session,
        changes: &[(LinkKey, LinkChange)],
        configured: &Configured,
    ) -> Result<(), Fault> {
        let restored = changes
            .iter()
            .filter(|(_, change)| matches!(change, LinkChange::Restore(_)));
        let mut required: Vec<(&LinkKey, u32)> = Vec::new();
        for (key, _) in restored {
            if let Some(row) = self.rows.get(key)
                && let Some(tenant_id) =
                    domains::required_tenant(configured, &key.domain, row.link.tenant_id)
            {
                required.push((key, tenant_id));
            }
        }
        let names = required.iter().map(|(key, _)| &key.domain).collect();
        let stored = domains::lock_all(session, &names).await?;
        for (key, tenant_id) in required {
            let domain = stored.get(&key.domain);
            if !domain.is_some_and(|domain| domain.admits(Some(tenant_id))) {
                self.rows.remove(key);
            }
        }
        Ok(())
    }

    /// Makes the changes in memory. No link gets an external id of `taken`.
    pub(super) fn change(
        &mut self,
        changes: &[(LinkKey, LinkChange)],
        taken: &HashSet<String>,
    ) -> Vec<ChangeOutcome> {
        let changes = changes.iter();
        changes
            .map(|(key, change)| self.change_row(key, change, taken))
            .collect()
    }

    /// Makes a change in memory.
    pub(super) fn change_row(
        &mut self,
        key: &LinkKey,
        change: &LinkChange,
        taken: &HashSet<String>,
    ) -> ChangeOutcome {
        let revisions = self.revisions?;
        let row = self.rows.get_mut(key)?;
        let content = match row.new_content(change)? {
            Ok(content) => content,
            Err(error) => return Some(Err(error)),
        };
        if let Some(id) = &content.external_id
            && row.link.content.external_id.as_ref() != Some(id)
        {
            let claimed = self.claimed.entry(id.clone());
            let is_claimed = claimed.or_insert_with(|| key.clone()) != key;
            if taken.contains(id) || is_claimed {
                return Some(Err(ChangeError::ExternalIdTaken));
            }
        }
        self.entries.push(NewEntry {
            action: change.action(),
            subject: subject(key),
            detail: change.detail(&row.link.content, &content).to_string(),
        });
        let now = revisions.now_millis();
        row.deleted_at = matches!(change, LinkChange::Delete(_)).then_some(now);
        row.link.content = content;
        row.link.updated_at = now;
        row.link.rev = revisions.after(row.link.rev);
        self.changed.insert(key.clone());
        Some(Ok(row.link.clone()))
    }

    /// Replaces the entries for the audit log.
    pub(super) fn set_entries(&mut self, entries: Vec<NewEntry>) {
        self.entries = entries;
    }

    /// The link with this key, if it is not deleted.
    pub(super) fn live(&self, key: &LinkKey) -> Option<&Link> {
        let row = self.rows.get(key)?;
        row.deleted_at.is_none().then_some(&row.link)
    }

    /// Adds a link in memory, or replaces a deleted one and takes over its number.
    pub(super) fn put(&mut self, domain_id: u32, link: Link) -> Option<Link> {
        let revisions = self.revisions?;
        let now = revisions.now_millis();
        let key = link.key();
        let tombstone = self.rows.get(&key).map(|row| (row.link.id, row.link.rev));
        let (id, last) = tombstone.unwrap_or((link.id, 0));
        let link = Link {
            id,
            updated_at: now,
            rev: revisions.after(last),
            ..link
        };
        let row = LockedRow {
            domain_id,
            link: link.clone(),
            deleted_at: None,
            before: None,
            is_new: tombstone.is_none(),
        };
        self.rows.insert(key.clone(), row);
        self.changed.insert(key);
        Some(link)
    }

    /// The number of the deleted link with this key.
    pub(super) fn tombstone(&self, key: &LinkKey) -> Option<u64> {
        let row = self.rows.get(key)?;
        row.deleted_at.map(|_| row.link.id)
    }

    /// Gives the row of a deleted link another number, so that data kept under the old number does not belong to a link that takes over
    /// the row.
    pub(super) async fn renumber(
        &mut self,
        session: &mut Session,
        key: &LinkKey,
        id: u64,
    ) -> Result<(), Fault> {
        if let Some(row) = self.rows.get_mut(key) {
            let update = sql("UPDATE links SET id = ? WHERE id = ?");
            session.execute(update.bind(id).bind(row.link.id)).await?;
            row.link.id = id;
        }
        Ok(())
    }

    fn changed_rows(&self) -> impl Iterator<Item = &LockedRow> {
        self.changed.iter().filter_map(|key| self.rows.get(key))
    }

    /// Writes the changed rows, and the changes into the outbox.
    pub(super) async fn write(
        &mut self,
        session: &mut Session,
        written: WriteContext<'_>,
    ) -> Result<(), Fault> {
        let WriteContext {
            actor,
            max_bytes,
            events,
            ..
        } = written;
        let Some(revisions) = self.revisions else {
            return Ok(());
        };
        self.release_external_ids(session).await?;
        let rows = self.changed_rows().map(|row| (row, row.stored()));
        let (new, old): (Vec<_>, Vec<_>) = rows.partition(|(row, _)| row.is_new);
        let insert = format!("INSERT INTO links ({ROW_COLUMNS}, deleted_at) ");
        let overwrite = overwrite(session.dialect());
        for (rows, behind) in [(old, overwrite.as_str()), (new, "")] {
            let sizes = rows.iter().map(|(row, stored)| stored.wire_size(&row.link));
            let at_once = (max_bytes / sizes.max().unwrap_or(1)).clamp(1, LONGEST);
            for piece in rows.chunks(at_once).flat_map(pieces) {
                let values = piece.iter().map(|(row, stored)| row.values(stored));
                let write = sql(insert.clone()).rows(values).push(behind);
                session.execute(write).await?;
            }
        }
        self.write_terms(session).await?;
        let mut changes = OutboxBatches::default();
        for row in self.changed_rows() {
            if row.deleted_at.is_none() {
                check_known(&row.link)?;
            }
            changes.push(&row.link.key(), &row.record().as_deref());
        }
        let now = revisions.now_millis();
        changes.append_outbox(session, now).await?;
        append_all(session, actor, now, &self.entries, max_bytes).await?;
        if let Some(events) = events {
            let happened = self.changed_rows().filter_map(LockedRow::event);
            events.append(session, now, happened).await?;
        }
        self.entries.clear();
        self.changed.clear();
        Ok(())
    }

    /// Writes the tags and words of the changed rows where they have changed.
    async fn write_terms(&self, session: &mut Session) -> Result<(), Fault> {
        let deleted = self.changed_rows().filter(|row| row.deleted_at.is_some());
        let deleted = deleted.filter_map(|row| row.before.as_ref());
        terms::remove(session, deleted).await?;
        let differs = |row: &&LockedRow| match &row.before {
            Some(before) => terms::differ(before, &row.link),
            None => true,
        };
        let live = self.changed_rows().filter(|row| row.deleted_at.is_none());
        let changed: Vec<Link> = live.filter(differs).map(|row| row.link.clone()).collect();
        terms::replace(session, &changed).await
    }

    /// The external ids that the changes take from links.
    pub(super) fn given_up(&self) -> HashSet<&str> {
        let given_up = self.changed_rows().filter_map(LockedRow::given_up);
        given_up.map(|(_, id)| id).collect()
    }

    /// Clears external ids that pass from one link of the call to another, so that the order of writing does not matter.
    async fn release_external_ids(&self, session: &mut Session) -> Result<(), Fault> {
        let given_up = self.changed_rows().filter_map(LockedRow::given_up);
        let passed_on = given_up.filter(|(_, id)| self.claimed.contains_key(*id));
        let ids: Vec<u64> = passed_on.map(|(id, _)| id).collect();
        for ids in ids.chunks(LONGEST) {
            let release = sql("UPDATE links SET external_id = NULL WHERE id IN ").list(ids);
            session.execute(release).await?;
        }
        Ok(())
    }

    /// The claimed external ids that links already have.
    pub(super) async fn taken_external_ids(
        &self,
        session: &mut Session,
        tenant_id: u32,
    ) -> Result<Vec<String>, Fault> {
        let claimed: Vec<&str> = self.claimed.keys().map(String::as_str).collect();
        let mut taken = Vec::new();
        for claimed in claimed.chunks(LONGEST) {
            taken.extend(external_ids(session, tenant_id, claimed).await?);
        }
        Ok(taken)
    }
}

impl LockedRow {
    fn stored(&self) -> StoredContent {
        StoredContent::new(self.link.tenant_id, &self.link.domain, &self.link.content)
    }

    /// The values of [`ROW_COLUMNS`] and `deleted_at`.
    fn values<'v>(&'v self, stored: &'v StoredContent) -> [Value<'v>; ROW_LENGTH + 1] {
        let values = stored.row(self.domain_id, &self.link);
        let mut values = values.into_iter().chain([self.deleted_at.into()]);
        std::array::from_fn(|_| values.next().unwrap_or(Value::Null))
    }

    /// The external id that the change takes from the link, with its number.
    fn given_up(&self) -> Option<(u64, &str)> {
        let before = self.before.as_ref()?;
        let id = before.content.external_id.as_deref()?;
        let is_kept = self.link.content.external_id.as_deref() == Some(id);
        (!is_kept).then_some((before.id, id))
    }

    /// The record sent to edges.
    fn record(&self) -> Record<&str, Vec<u8>> {
        match self.deleted_at {
            Some(_) => Record::Absent { rev: self.link.rev },
            None => self.link.record(),
        }
    }

    /// The event of the change; `None` if the link was deleted before and still is. A deleted link is presented as before.
    fn event(&self) -> Option<(LinkEvent, &Link)> {
        match (&self.before, self.deleted_at) {
            (None, Some(_)) => None,
            (Some(before), Some(_)) => Some((LinkEvent::Deleted, before)),
            (Some(_), None) => Some((LinkEvent::Changed, &self.link)),
            (None, None) => Some((LinkEvent::Created, &self.link)),
        }
    }

    /// The content after the change; `None` if there is nothing to change.
    fn new_content(&self, change: &LinkChange) -> Option<Result<LinkContent, ChangeError>> {
        let link = &self.link;
        let is_live = self.deleted_at.is_none();
        let is_known = check_known(link).is_ok();
        Some(match change {
            LinkChange::Update(_) if is_live && !is_known => Err(ChangeError::Later),
            LinkChange::Update(change) if is_live => change(link).map(CheckedContent::into_content),
            LinkChange::Delete(check) if is_live => {
                check(link).map(|()| link.content.clone().into_tombstone())
            }
            LinkChange::Update(_) | LinkChange::Delete(_) => return None,
            LinkChange::Restore(change) => {
                let restored = link.content.restored();
                let is_purged = restored.is_none();
                let link = Link {
                    content: restored.unwrap_or_else(|| link.content.clone()),
                    ..link.clone()
                };
                change(&link).and_then(|content| match is_purged {
                    _ if is_live => Err(ChangeError::NotDeleted),
                    _ if !is_known => Err(ChangeError::Later),
                    true => Err(ChangeError::Purged),
                    false => Ok(content.into_content()),
                })
            }
        })
    }
}

/// The clause with which an INSERT overwrites all changeable columns of existing rows.
fn overwrite(dialect: &Dialect) -> String {
    let columns = CONTENT_COLUMNS.into_iter().chain([
        "tenant_id",
        "owner_id",
        "imported_visits",
        "created_at",
        "updated_at",
        "rev",
        "deleted_at",
    ]);
    dialect.overwrite("id", columns)
}

/// Locks the rows of codes on a domain, including tombstones, in the order of the codes. Returns their numbers.
async fn lock_codes(
    session: &mut Session,
    domain: &str,
    codes: &[&str],
) -> Result<Vec<u64>, Fault> {
    let dialect = session.dialect();
    let (index, for_update) = (dialect.force_index("links_domain_code"), dialect.for_update);
    let query = sql(format!(
        "SELECT id FROM links{index} WHERE domain_id = (SELECT id FROM domains WHERE name = ?) AND code IN "
    ));
    let query = query.bind(domain).list(codes);
    let query = query.push(" ORDER BY code").push(for_update);
    numbers(session, query).await
}
