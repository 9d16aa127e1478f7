//! Rows of links locked by a transaction in order to change them.

use super::audit::{self, NewEntry};
use super::domains::{self, Configured};
use super::events::{EventWriter, LinkEvent, NewDeliveries};
use super::external_ids::external_ids;
use super::link_changes::{ChangeError, ChangeOutcome, LinkChange, SingleChange, subject};
use super::links::{FoundRow, found_rows, select_by_code};
use super::outbox::OutboxBatches;
use super::rows::{CONTENT_COLUMNS, ROW_COLUMNS, ROW_LENGTH, StoredContent, check_known};
use super::terms::{self, Terms};
use edgelink_database::columns::numbers;
use edgelink_database::dialect::Dialect;
use edgelink_database::error::Fault;
use edgelink_database::revisions::RevisionBasis;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Sql, StatementForm, Value, sql};
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_wire::{LinkKey, Record};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Context for writing changes.
#[derive(Clone, Copy)]
pub(super) struct WriteContext<'a> {
    /// The most bytes of one statement. A single row may be larger.
    pub(super) max_bytes: usize,
    /// Writer of webhook events; `None` without webhooks.
    pub(super) events: Option<&'a EventWriter>,
    /// The configured domains, which no tenant created.
    pub(super) configured: &'a Configured,
}

/// Reaction of a transaction to rows that others have locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contended {
    /// It waits for them.
    Awaited,
    /// It leaves them out.
    LeftOut,
}

/// Rows that are locked until the transaction ends.
pub(super) struct LockedRows {
    rows: HashMap<LinkKey, LockedRow>,
    revisions: Option<RevisionBasis>,
    /// The rows to be written.
    pub(super) changed: BTreeSet<LinkKey>,
    /// External ids that the changes give to links.
    claimed: HashMap<TenantsId, LinkKey>,
    contended: Contended,
    /// Links that others have locked, or that are given an external id, which others may have claimed: they are not waited for.
    left_out: BTreeSet<LinkKey>,
    /// The entries for the audit log.
    entries: Vec<NewEntry>,
}

/// An external id, with the tenant within which it is unique.
pub(super) type TenantsId = (u32, String);

/// A transaction's last writes about rows of links.
struct Writes<'r> {
    /// Sets external ids to NULL that pass from one link to another.
    released: Vec<u64>,
    old: Vec<(&'r LockedRow, StoredContent)>,
    new: Vec<(&'r LockedRow, StoredContent)>,
    /// Links whose terms are removed.
    without_terms: Vec<u64>,
    terms: Terms,
    changes: OutboxBatches,
    entries: &'r [NewEntry],
    deliveries: NewDeliveries,
    /// By the database's clock, in unix milliseconds.
    now: u64,
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
    /// Locks the rows of these keys, including tombstones. Part of a transaction.
    pub(super) async fn lock(
        session: &mut Session,
        keys: impl IntoIterator<Item = &LinkKey>,
    ) -> Result<Self, Fault> {
        let dialect = session.dialect();
        let mut ids = Vec::new();
        for (domain, codes) in &by_domain(keys) {
            for codes in codes.chunks(LONGEST) {
                let lock = lock_codes(dialect, domain, codes, dialect.for_update);
                ids.extend(numbers(session, lock).await?);
            }
        }
        let mut locked = Self::new();
        for ids in ids.chunks(LONGEST) {
            for found in found_rows(session, ids).await? {
                locked.add(found)?;
            }
        }
        Ok(locked)
    }

    /// Begins a transaction, and locks the rows of these keys, including tombstones: in one message, where the server takes scripts.
    pub(super) async fn begin_and_lock(
        session: &mut Session,
        keys: impl IntoIterator<Item = &LinkKey>,
        contended: Contended,
    ) -> Result<Self, Fault> {
        let dialect = session.dialect();
        if !dialect.takes_scripts() {
            session.begin().await?;
            return Self::lock(session, keys).await;
        }
        let (script, reads) = locking_script(dialect, &by_domain(keys), contended);
        let (ids, found): (Vec<(u64,)>, Vec<FoundRow>) =
            session.begin_script(&script, reads).await?;
        let ids: HashSet<u64> = ids.into_iter().map(|(id,)| id).collect();
        let mut locked = Self::new();
        for found in found {
            locked.add(found)?;
        }
        let is_left_out = |row: &LockedRow| !ids.contains(&row.link.id);
        let left_out = locked.rows.extract_if(|_, row| is_left_out(row));
        locked.left_out = left_out.map(|(key, _)| key).collect();
        locked.contended = contended;
        Ok(locked)
    }

    fn new() -> Self {
        Self {
            rows: HashMap::new(),
            revisions: None,
            changed: BTreeSet::new(),
            claimed: HashMap::new(),
            contended: Contended::Awaited,
            left_out: BTreeSet::new(),
            entries: Vec::new(),
        }
    }

    /// True if the change of this key is left out.
    pub(super) fn is_left_out(&self, key: &LinkKey) -> bool {
        self.left_out.contains(key)
    }

    fn add(&mut self, found: FoundRow) -> Result<(), Fault> {
        let FoundRow { revisions, link } = found;
        let Some(row) = link else { return Ok(()) };
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
        Ok(())
    }

    /// Drops the rows of links to be restored on a domain that their tenant no longer owns.
    pub(super) async fn leave_out_gone(
        &mut self,
        session: &mut Session,
        changes: &[SingleChange<'_>],
        configured: &Configured,
    ) -> Result<(), Fault> {
        let restored = changes
            .iter()
            .filter(|one| matches!(one.change, LinkChange::Restore(_)));
        let mut required: Vec<(&LinkKey, u32)> = Vec::new();
        for SingleChange { key, .. } in restored {
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
        changes: &[SingleChange<'_>],
        taken: &HashSet<TenantsId>,
    ) -> Vec<ChangeOutcome> {
        let changes = changes.iter();
        changes
            .map(|change| self.change_row(change, taken))
            .collect()
    }

    /// Makes a change in memory.
    pub(super) fn change_row(
        &mut self,
        change: &SingleChange<'_>,
        taken: &HashSet<TenantsId>,
    ) -> ChangeOutcome {
        let SingleChange { key, change, actor } = *change;
        let revisions = self.revisions?;
        let row = self.rows.get_mut(key)?;
        let content = match row.new_content(change)? {
            Ok(content) => content,
            Err(error) => return Some(Err(error)),
        };
        if let Some(id) = &content.external_id
            && row.link.content.external_id.as_ref() != Some(id)
        {
            if self.contended == Contended::LeftOut {
                self.left_out.insert(key.clone());
                return None;
            }
            let id = (row.link.tenant_id, id.clone());
            let is_taken = taken.contains(&id);
            let claimed = self.claimed.entry(id);
            let is_claimed = claimed.or_insert_with(|| key.clone()) != key;
            if is_taken || is_claimed {
                return Some(Err(ChangeError::ExternalIdTaken));
            }
        }
        self.entries.push(NewEntry {
            actor: actor.clone(),
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
        context: WriteContext<'_>,
    ) -> Result<(), Fault> {
        if let Some(writes) = self.writes(session, context).await? {
            let dialect = session.dialect();
            for statement in writes.statements(dialect, StatementForm::Prepared, context.max_bytes)
            {
                session.execute(statement).await?;
            }
        }
        self.entries.clear();
        self.changed.clear();
        Ok(())
    }

    /// Writes them, and commits the transaction. `sent` is called when the COMMIT is on its way together with what it commits.
    pub(super) async fn commit(
        &self,
        session: &mut Session,
        context: WriteContext<'_>,
        sent: impl FnOnce() + Send,
    ) -> Result<(), Fault> {
        let (count, max_bytes) = (self.changed.len(), context.max_bytes);
        let writes = self.writes(session, context).await?;
        let (dialect, form) = (session.dialect(), session.form());
        let statements = writes.as_ref();
        let statements = statements.map(|writes| writes.statements(dialect, form, max_bytes));
        let statements = statements.unwrap_or_default();
        session
            .commit_with(statements, count, max_bytes, sent)
            .await
    }

    async fn writes(
        &self,
        session: &mut Session,
        context: WriteContext<'_>,
    ) -> Result<Option<Writes<'_>>, Fault> {
        let Some(revisions) = self.revisions else {
            return Ok(None);
        };
        let now = revisions.now_millis();
        let mut changes = OutboxBatches::default();
        for row in self.changed_rows() {
            if row.deleted_at.is_none() {
                check_known(&row.link)?;
            }
            changes.push(&row.link.key(), &row.record().as_deref());
        }
        let deliveries = match context.events {
            Some(events) => {
                let subscribers = events.subscribers(session).await?;
                let happened = self.changed_rows().filter_map(LockedRow::event);
                events.deliveries(&subscribers, now, happened)
            }
            None => NewDeliveries::default(),
        };
        let rows = self.changed_rows().map(|row| (row, row.stored()));
        let (new, old) = rows.partition(|(row, _)| row.is_new);
        let (without_terms, terms) = self.terms();
        Ok(Some(Writes {
            released: self.released(),
            old,
            new,
            without_terms,
            terms,
            changes,
            entries: &self.entries,
            deliveries,
            now,
        }))
    }

    /// The links whose tags and words are removed, and those to be added.
    fn terms(&self) -> (Vec<u64>, Terms) {
        let deleted = self.changed_rows().filter(|row| row.deleted_at.is_some());
        let deleted = deleted.filter_map(|row| row.before.as_ref());
        let mut removed = terms::with_terms(deleted);
        let differs = |row: &&LockedRow| match &row.before {
            Some(before) => terms::differ(before, &row.link),
            None => true,
        };
        let live = self.changed_rows().filter(|row| row.deleted_at.is_none());
        let changed: Vec<&Link> = live.filter(differs).map(|row| &row.link).collect();
        removed.extend(changed.iter().map(|link| link.id));
        (removed, Terms::of(changed))
    }

    /// The external ids that the changes take from links.
    pub(super) fn given_up(&self) -> HashSet<TenantsId> {
        let given_up = self.changed_rows().filter_map(LockedRow::given_up);
        given_up.map(|(_, id)| id).collect()
    }

    /// The links of the call whose external ids pass to other links of it. They are cleared first, so that the order of writing does not
    /// matter.
    fn released(&self) -> Vec<u64> {
        let given_up = self.changed_rows().filter_map(LockedRow::given_up);
        let passed_on = given_up.filter(|(_, id)| self.claimed.contains_key(id));
        passed_on.map(|(id, _)| id).collect()
    }

    /// The claimed external ids that links already have.
    pub(super) async fn taken_external_ids(
        &self,
        session: &mut Session,
    ) -> Result<Vec<TenantsId>, Fault> {
        let mut of_tenants: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for (tenant_id, id) in self.claimed.keys() {
            of_tenants.entry(*tenant_id).or_default().push(id);
        }
        let mut taken = Vec::new();
        for (tenant_id, claimed) in of_tenants {
            for claimed in claimed.chunks(LONGEST) {
                let ids = external_ids(session, tenant_id, claimed).await?;
                taken.extend(ids.into_iter().map(|id| (tenant_id, id)));
            }
        }
        Ok(taken)
    }
}

impl Writes<'_> {
    fn statements(&self, dialect: &Dialect, form: StatementForm, max_bytes: usize) -> Vec<Sql<'_>> {
        let released = self.released.chunks(LONGEST);
        let released =
            released.map(|ids| sql("UPDATE links SET external_id = NULL WHERE id IN ").list(ids));
        let max_bytes = form.room(max_bytes);
        let mut statements: Vec<Sql<'_>> = released.collect();
        let overwrite = overwrite(dialect);
        for (rows, behind) in [(&self.old, overwrite.as_str()), (&self.new, "")] {
            let sizes = rows.iter().map(|(row, stored)| stored.wire_size(&row.link));
            let at_once = max_bytes / sizes.max().unwrap_or(1);
            statements.extend(form.cut(rows, at_once).map(|part| {
                let values = part.iter().map(|(row, stored)| row.values(stored));
                let insert = format!("INSERT INTO links ({ROW_COLUMNS}, deleted_at) ");
                sql(insert).rows(values).push(behind)
            }));
        }
        statements.extend(terms::removals(&self.without_terms));
        statements.extend(self.terms.additions(dialect, form));
        statements.extend(self.changes.additions(self.now));
        statements.extend(audit::additions(self.entries, self.now, form, max_bytes));
        statements.extend(self.deliveries.additions(form, max_bytes));
        statements
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
    fn given_up(&self) -> Option<(u64, TenantsId)> {
        let before = self.before.as_ref()?;
        let id = before.content.external_id.as_ref()?;
        let is_kept = self.link.content.external_id.as_ref() == Some(id);
        (!is_kept).then(|| (before.id, (before.tenant_id, id.clone())))
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

/// The script that locks the rows of codes by domain, and the number of queries in its end that read them.
fn locking_script(
    dialect: &Dialect,
    by_domain: &[(&str, Vec<&str>)],
    contended: Contended,
) -> (String, usize) {
    let locking = match contended {
        Contended::Awaited => dialect.for_update,
        Contended::LeftOut => dialect.skip_locked,
    };
    let (mut script, mut reading, mut reads) = (String::new(), String::new(), 0);
    for (domain, codes) in by_domain {
        for codes in codes.chunks(LONGEST) {
            lock_codes(dialect, domain, codes, locking).write_literally(&mut script);
            script.push_str("; ");
            select_by_code(dialect, domain, codes).write_literally(&mut reading);
            reading.push_str("; ");
            reads += 1;
        }
    }
    // Statements of their own see what was committed while the locks were awaited.
    script.push_str(&reading);
    (script, reads)
}

/// The codes of keys by domain, in the order in which they are locked.
fn by_domain<'k>(keys: impl IntoIterator<Item = &'k LinkKey>) -> Vec<(&'k str, Vec<&'k str>)> {
    let mut by_domain: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for key in keys {
        let codes = by_domain.entry(key.domain.as_str()).or_default();
        codes.insert(key.code.as_str());
    }
    let by_domain = by_domain.into_iter();
    by_domain
        .map(|(domain, codes)| (domain, codes.into_iter().collect()))
        .collect()
}

/// The query that locks the rows of codes on a domain, including tombstones, in the order of the codes, and returns their numbers.
fn lock_codes<'v>(dialect: &Dialect, domain: &'v str, codes: &[&'v str], locking: &str) -> Sql<'v> {
    let index = dialect.force_index("links_domain_code");
    let query = sql(format!(
        "SELECT id FROM links{index} WHERE domain_id = (SELECT id FROM domains WHERE name = ?) AND code IN "
    ));
    let query = query.bind(domain).list(codes);
    query.push(" ORDER BY code").push(locking)
}
