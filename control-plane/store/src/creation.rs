//! Creates many links in one transaction, each with its own outcome.
//!
//! Nearly always there are no conflicts, so everything is inserted at once. After a refusal, another transaction looks
//! for the conflicts: repeated requests and twins get their answer, taken codes and numbers an error, tombstones are
//! revived, and the rest is inserted again.
//!
//! Transactions take their locks in one order, so that they do not deadlock: targets, links by domain and code,
//! receipts by request and item. Conflicting rows are read without a lock. A refused INSERT has left a shared lock on
//! one of them, and an exclusive one would deadlock with every other transaction that was refused there; so a tombstone
//! is revived only if it is unchanged since it was read.

mod conflicts;
mod row;

pub use self::row::{CreateError, NewLink, WantedNames};

use self::conflicts::Conflicts;
use self::row::{Dependency, NewRow, check_numbers, insert_links};
use super::domains::{self, Configured, DomainKeys, ExpectedDomain};
use super::events::{EventWriter, LinkEvent, NewDeliveries, Subscribers};
use super::outbox::OutboxBatches;
use super::receipts::{NewReceipts, find_receipts};
use super::terms::Terms;
use super::twins::{Twin, find_like, lock_targets};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::dialect::Dialect;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::revisions::{LastRevisions, RevisionBasis};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, insert_literally, pieces, sql};
use edgelink_model::links::model::Link;
use edgelink_wire::{Code, Domain, LinkKey};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

impl Store {
    /// Creates links in one transaction, each with its receipt; the answers are in the order of `links`. A failed one does
    /// not affect the others. Of concurrent calls with one receipt, or for twins that are not allowed, only one creates.
    /// Links of one call see each other as if they were created one after another.
    ///
    /// The code of a deleted link is free: its row is revived with the next revision, the new number and a new creation
    /// time, so that caches with the deletion accept the new link.
    pub async fn create_links(
        &self,
        links: Vec<NewLink>,
    ) -> Result<Vec<Result<Link, CreateError>>, StoreError> {
        self.create_links_in_turn(links, ()).await
    }

    /// [`Self::create_links`] of a caller whose `turn` ends, by being dropped, as soon as the transaction is on its way to the database.
    pub async fn create_links_in_turn<T: Send>(
        &self,
        links: Vec<NewLink>,
        turn: T,
    ) -> Result<Vec<Result<Link, CreateError>>, StoreError> {
        if links.is_empty() {
            return Ok(Vec::new());
        }
        let mut creation = self.creation(links).await?;
        let mut turn = Some(turn);
        let created = run!(
            self.write("create_links", "creating links")
                .of(Class::Creations),
            |session| creation.create(session, || drop(turn.take())).await
        );
        let rows = creation.rows.iter();
        // If the call has failed, any of them may have been created.
        let changed = rows.filter(|row| created.is_err() || row.outcome == Some(Ok(())));
        let changed: Vec<LinkKey> = changed.map(|row| row.link.key()).collect();
        if !changed.is_empty() {
            self.notify_listener(&changed);
        }
        created?;
        let answer = |row: NewRow| match row.outcome {
            Some(Err(error)) => Err(error),
            _ => Ok(row.link),
        };
        Ok(creation.rows.into_iter().map(answer).collect())
    }

    /// For each of `links`, in their order, true if another link has the number or the code.
    pub async fn are_taken(&self, links: &[(u64, LinkKey)]) -> Result<Vec<bool>, StoreError> {
        let names: BTreeSet<&Domain> = links.iter().map(|(_, key)| &key.domain).collect();
        let call = self.read("are_taken", "looking for free codes");
        let call = call.of(Class::Creations);
        run!(call, |session| {
            let domains = domains::find_all(session, &names).await?;
            // No row has the id 0: a domain without a row has no links.
            let domain_id = |key: &LinkKey| domains.get(&key.domain).map_or(0, |domain| domain.id);
            let looked_up = links
                .iter()
                .map(|(id, key)| (*id, domain_id(key), &key.code));
            let looked_up: Vec<(u64, u32, &Code)> = looked_up.collect();
            let conflicts = Conflicts::find(session, &looked_up).await?;
            let is_taken = |link: &(u64, u32, &Code)| {
                let of_code = conflicts.of_code(link.1, link.2);
                conflicts.numbers.contains(&link.0)
                    || of_code.is_some_and(|row| row.deleted_at.is_none())
            };
            Ok(looked_up.iter().map(is_taken).collect())
        })
    }

    /// Finds what prevents each of these links from being created, according to committed data: it takes no row locks, and waits for
    /// none.
    pub async fn find_taken(
        &self,
        links: &[WantedNames<'_>],
    ) -> Result<Vec<Option<CreateError>>, StoreError> {
        let names: BTreeSet<&Domain> = links.iter().map(|link| link.domain).collect();
        let call = self.read("find_taken", "looking for taken names");
        run!(call.of(Class::Creations), |session| {
            let domains = domains::find_all(session, &names).await?;
            // No row has the id 0: a domain without a row has no links.
            let id_of = |name: &Domain| domains.get(name).map_or(0, |domain| domain.id);
            let places = links.iter().map(|link| (id_of(link.domain), link.code));
            let places: Vec<(u32, Option<&Code>)> = places.collect();
            let codes = places.iter().filter_map(|(id, code)| Some((*id, (*code)?)));
            let codes: Vec<(u32, &Code)> = codes.collect();
            let mut conflicts = Conflicts::default();
            conflicts.find_codes(session, &codes).await?;
            let wanted = links.iter().filter_map(WantedNames::external_id);
            conflicts.find_external_ids(session, wanted).await?;
            let error = |(link, (domain_id, code)): (&WantedNames<'_>, &(u32, Option<&Code>))| {
                let has_taken_id = |id| conflicts.external_ids.contains(&id);
                if link.external_id().is_some_and(has_taken_id) {
                    return Some(CreateError::ExternalIdTaken);
                }
                let row = code.and_then(|code| conflicts.of_code(*domain_id, code))?;
                row.deleted_at.is_none().then_some(CreateError::CodeTaken)
            };
            Ok(links.iter().zip(&places).map(error).collect())
        })
    }

    async fn creation(&self, links: Vec<NewLink>) -> Result<Creation, StoreError> {
        let now = self.now().await?;
        let mut rows = Vec::with_capacity(links.len());
        for link in links {
            check_numbers(&link)?;
            let domain_id = self.remembered_domain_key(&link.key.domain).await?;
            rows.push(NewRow::new(link, domain_id, now));
        }
        Ok(Creation {
            rows,
            configured: self.configured.clone(),
            domains: Arc::clone(&self.domains),
            token: self.newest.token(),
            max_bytes: self.db.max_bytes(),
            last: Arc::clone(self.db.revisions()),
            events: self.events.clone(),
            subscribers: None,
            now,
        })
    }
}

/// Most attempts to insert the rest. Each round settles all present conflicts, so a further one is needed only if
/// others commit a conflict in between.
const MAX_ROUNDS: usize = 4;

/// Links being created, at `now` by the database's clock.
struct Creation {
    rows: Vec<NewRow>,
    /// The configured domains.
    configured: Configured,
    /// The cached ids of domains.
    domains: Arc<DomainKeys>,
    /// The greatest token of the publisher read so far.
    token: u64,
    /// The most bytes of one INSERT, which MySQL bounds. A single row may be larger.
    max_bytes: usize,
    last: Arc<LastRevisions>,
    events: Option<Arc<EventWriter>>,
    /// The webhooks that may want the events.
    subscribers: Option<Subscribers>,
    now: u64,
}

impl Creation {
    /// Creates the links in a transaction. `sent` is called when it is on its way as one message.
    async fn create(
        &mut self,
        session: &mut Session,
        sent: impl FnOnce() + Send,
    ) -> Result<(), Fault> {
        if let Some(events) = &self.events {
            self.subscribers = Some(events.subscribers(session).await?);
        }
        let guess = self.last.guess().filter(|_| self.fit_at_once());
        if let (Some(guess), true) = (guess, session.dialect().takes_scripts()) {
            if self.create_at_once(session, guess.first(), sent).await? {
                return Ok(());
            }
            session.rollback().await?;
        }
        for _ in 0..MAX_ROUNDS {
            if self.create_with_checks(session).await? {
                return session.commit(self.rows.len()).await;
            }
            session.rollback().await?;
        }
        Err(Fault::Contended)
    }

    /// Creates all links with as few messages to the server as possible, and commits them; `false`, in a transaction to be rolled
    /// back, if there are conflicts, or domains differ from the cache.
    ///
    /// Their revision `rev` is predicted from the database's last answer, and is valid if it still fits in the end: otherwise the
    /// script ends before its COMMIT. The floor is read after the insertion: it shows the purge of a tombstone that an insertion has
    /// waited for.
    async fn create_at_once(
        &mut self,
        session: &mut Session,
        rev: u64,
        sent: impl FnOnce() + Send,
    ) -> Result<bool, Fault> {
        self.reset(rev);
        let is_begun = self.rows.iter().any(|row| row.twin != Twin::Allowed);
        if is_begun {
            session.begin().await?;
            self.find_twins(session).await?;
        }
        let order = self.order();
        self.mark_created(&order);
        self.settle_followers();
        let deliveries = self.deliveries();
        // As text, each byte takes two. The links may take the other half.
        if deliveries.wire_size() * 2 > self.max_bytes {
            return Ok(false);
        }
        let script = self.script(session.dialect(), rev, &order, is_begun, &deliveries);
        let count = self.rows.len();
        let revisions: Option<RevisionBasis> =
            match session.commit_script(script, count, sent).await {
                Err(fault) if fault.is_before_commit() => return Ok(false),
                revisions => revisions?,
            };
        if let Some(revisions) = revisions {
            self.last.note(revisions);
        }
        Ok(true)
    }

    fn fit_at_once(&self) -> bool {
        let size: usize = self.rows.iter().map(NewRow::wire_size).sum();
        // The outbox takes nearly as much again, and as text, each byte takes two.
        self.rows.len() <= LONGEST && size * 4 <= self.max_bytes
    }

    /// The transaction as one text, which ends with the guarded query of [`RevisionBasis`]. A prepared statement has a fixed number
    /// of rows, so a batch of any length would take several round trips.
    fn script(
        &self,
        dialect: &Dialect,
        rev: u64,
        order: &[usize],
        is_begun: bool,
        deliveries: &NewDeliveries,
    ) -> String {
        let mut script = String::with_capacity(512 * (order.len() + 1));
        if !is_begun {
            script.push_str(dialect.begin);
            script.push_str("; ");
        }
        if !order.is_empty() {
            let links = order.iter().map(|index| self.rows[*index].values());
            insert_literally(&mut script, &insert_links(), links);
            script.push_str("; ");
            self.terms().insert_literally(&mut script, dialect);
            self.changes().insert_literally(&mut script, self.now);
            script.push_str("; ");
        }
        self.receipts().insert_literally(&mut script);
        deliveries.insert_literally(&mut script);
        // The insertion has waited for removals of domains, and later removals wait for its end.
        let are_as_expected =
            domains::are_as_expected(&self.expected_domains(), &dialect.force_index("PRIMARY"));
        script.push_str(&RevisionBasis::select_guarded(
            dialect,
            rev,
            &are_as_expected,
        ));
        script
    }

    /// The expected domains of the links, as required for creating all of them at once.
    fn expected_domains(&self) -> BTreeSet<ExpectedDomain<'_>> {
        let expected = self.rows.iter().map(|row| ExpectedDomain {
            id: row.domain_id,
            name: &row.link.domain,
            tenant_id: row.required_tenant(&self.configured),
        });
        expected.collect()
    }

    /// Creates the links and looks for all conflicts; `false`, in a transaction to be rolled back, if another one has
    /// stored a receipt meanwhile.
    async fn create_with_checks(&mut self, session: &mut Session) -> Result<bool, Fault> {
        session.begin().await?;
        let basis = RevisionBasis::read(session).await?;
        // A guess that was refused, because a clock was set or a commit took long, is right again from now on.
        self.last.note(basis);
        let first = basis.first();
        self.reset(first);
        self.place(session).await?;
        self.find_receipts(session).await?;
        self.find_twins(session).await?;
        let order = self.order();
        let at_once = rows_at_once(&self.rows, self.max_bytes);
        for piece in order.chunks(at_once).flat_map(pieces) {
            self.add(session, piece.to_vec()).await?;
        }
        self.settle_followers();
        // A taken code may belong to this very request, sent before.
        self.find_receipts(session).await?;
        self.terms().add(session).await?;
        self.changes().append_outbox(session, self.now).await?;
        self.deliveries().write(session, self.max_bytes).await?;
        match self.receipts().write(session).await {
            Err(fault) if fault.is_duplicate() => return Ok(false),
            written => written?,
        }
        // Refused if another transaction has raised the floor above these revisions.
        let may_rise = session.dialect().has_row_locks();
        if may_rise && RevisionBasis::read(session).await?.effective(first) > first {
            return Err(Fault::Contended);
        }
        Ok(true)
    }

    /// Resets the outcomes of an earlier transaction.
    fn reset(&mut self, first: u64) {
        for row in &mut self.rows {
            row.link.rev = first;
            row.leader = None;
            row.outcome = match &row.twin {
                Twin::Known(link) => Some(Err(CreateError::Found(link.clone()))),
                _ => None,
            };
        }
    }

    /// Assigns links to the rows of their domains, and locks these until the transaction ends; sets the outcome of links whose tenant
    /// no longer owns the domain.
    async fn place(&mut self, session: &mut Session) -> Result<(), Fault> {
        let names: BTreeSet<&Domain> = self.rows.iter().map(|row| &row.link.domain).collect();
        let stored = domains::lock_or_add(session, &names, self.token).await?;
        for (name, domain) in &stored {
            self.domains.insert(name.clone(), domain.id);
        }
        for row in &mut self.rows {
            let required = row.required_tenant(&self.configured);
            let Some(domain) = stored.get(&row.link.domain) else {
                return Err(Fault::Contended);
            };
            row.domain_id = domain.id;
            if row.outcome.is_none() && !domain.admits(required) {
                row.outcome = Some(Err(CreateError::DomainGone));
            }
        }
        Ok(())
    }

    /// Sets the outcome of links whose receipt is stored, unless they were created just now.
    async fn find_receipts(&mut self, session: &mut Session) -> Result<(), Fault> {
        let is_open = |row: &NewRow| {
            let outcome = &row.outcome;
            !matches!(outcome, Some(Ok(()) | Err(CreateError::Repeated(_))))
        };
        let open = self.rows.iter_mut().filter(|row| is_open(row));
        let (receipts, outcomes): (Vec<_>, Vec<_>) = open
            .filter_map(|row| Some((row.receipt.as_ref()?, &mut row.outcome)))
            .unzip();
        let stored = find_receipts(session, &receipts).await?;
        for (outcome, stored) in outcomes.into_iter().zip(stored) {
            if let Some(stored) = stored {
                *outcome = Some(Err(CreateError::Repeated(Box::new(stored))));
            }
        }
        Ok(())
    }

    /// Sets the outcome of links that have a twin, and keeps others from creating one until the transaction ends.
    async fn find_twins(&mut self, session: &mut Session) -> Result<(), Fault> {
        let open = self.rows.iter().enumerate();
        let open = open.filter(|(_, row)| row.outcome.is_none());
        let (indices, candidates): (Vec<_>, Vec<_>) = open
            .filter_map(|(index, row)| Some((index, row.forbidden_twin()?)))
            .unzip();
        lock_targets(session, &candidates).await?;
        let twins = find_like(session, &candidates).await?;
        for (index, twin) in indices.into_iter().zip(twins) {
            let found = |link| Err(CreateError::Found(Box::new(link)));
            self.rows[index].outcome = twin.map(found);
        }
        Ok(())
    }

    /// Pairs of a waiting link and the earlier link of the call that it waits for.
    fn leaders(&self) -> Vec<(usize, usize)> {
        let is_tied = |row: &NewRow| row.receipt.is_some() || row.twin != Twin::Allowed;
        if !self.rows.iter().any(is_tied) {
            return Vec::new();
        }
        let mut earlier = HashMap::new();
        let mut leaders = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            // A found link shares only its receipt, and a repeated one nothing.
            let is_valid = |tie: &Dependency<'_>| match &row.outcome {
                None => true,
                Some(Err(CreateError::Found(_))) => matches!(tie, Dependency::Receipt(..)),
                Some(_) => false,
            };
            let mut leader = None;
            let dependencies = row.dependencies().into_iter().flatten();
            for (tie, waits) in dependencies.filter(|(tie, _)| is_valid(tie)) {
                let first = *earlier.entry(tie).or_insert(index);
                if waits && first != index {
                    leader.get_or_insert(first);
                }
            }
            leaders.extend(leader.map(|leader| (index, leader)));
        }
        leaders
    }

    /// Marks links that wait for an earlier one of the call, refuses repeated codes and numbers, and puts the rest in
    /// the order of the unique index.
    fn order(&mut self) -> Vec<usize> {
        for (index, leader) in self.leaders() {
            self.rows[index].leader = Some(leader);
        }
        let (mut codes, mut numbers) = (HashSet::new(), HashSet::new());
        let mut external_ids = HashSet::new();
        let (mut order, mut taken) = (Vec::new(), Vec::new());
        let open = self.rows.iter().enumerate();
        for (index, row) in open.filter(|(_, row)| row.outcome.is_none() && row.leader.is_none()) {
            let external_id = row.external_id();
            if external_id.is_some_and(|id| !external_ids.insert(id)) {
                taken.push((index, CreateError::ExternalIdTaken));
            } else if !codes.insert((row.domain_id, &row.link.code)) {
                taken.push((index, CreateError::CodeTaken));
            } else if !numbers.insert(row.link.id) {
                taken.push((index, CreateError::NumberTaken));
            } else {
                order.push(index);
            }
        }
        order.sort_unstable_by_key(|index| {
            let row = &self.rows[*index];
            (row.domain_id, &row.link.code)
        });
        for (index, error) in taken {
            self.rows[index].outcome = Some(Err(error));
        }
        order
    }

    /// Inserts links. Links whose code or number is taken get their outcome, and the rest is inserted again.
    async fn add(&mut self, session: &mut Session, mut pending: Vec<usize>) -> Result<(), Fault> {
        for _ in 0..MAX_ROUNDS {
            let rows = pending.iter().map(|index| self.rows[*index].values());
            match session.execute(sql(insert_links()).rows(rows)).await {
                Err(fault) if fault.is_duplicate() => {}
                done => {
                    self.mark_created(&pending);
                    return done.map(drop);
                }
            }
            let link = |index: &usize| self.rows[*index].place();
            let links: Vec<_> = pending.iter().map(link).collect();
            let mut conflicts = Conflicts::find(session, &links).await?;
            let wanted = pending
                .iter()
                .filter_map(|index| self.rows[*index].external_id());
            conflicts.find_external_ids(session, wanted).await?;
            for index in &pending {
                self.rows[*index]
                    .resolve_conflict(session, &conflicts)
                    .await?;
            }
            pending.retain(|index| self.rows[*index].outcome.is_none());
            if pending.is_empty() {
                return Ok(());
            }
        }
        Err(Fault::Contended)
    }

    /// Sets the outcome of inserted links.
    fn mark_created(&mut self, created: &[usize]) {
        for index in created {
            self.rows[*index].outcome = Some(Ok(()));
        }
    }

    /// Sets the outcome of links that wait for others of the call.
    fn settle_followers(&mut self) {
        for index in 0..self.rows.len() {
            if let Some(leader) = self.rows[index].leader {
                let error = self.rows[leader].outcome_for(&self.rows[index]);
                self.rows[index].outcome = Some(Err(error));
            }
        }
    }

    /// The links that are created.
    fn created(&self) -> impl Iterator<Item = &Link> {
        let created = self.rows.iter().filter(|row| row.outcome == Some(Ok(())));
        created.map(|row| &row.link)
    }

    fn terms(&self) -> Terms {
        Terms::of(self.created())
    }

    fn changes(&self) -> OutboxBatches {
        let mut changes = OutboxBatches::default();
        for link in self.created() {
            changes.push(&link.key(), &link.record().as_deref());
        }
        changes
    }

    fn deliveries(&self) -> NewDeliveries {
        let created = self.created().map(|link| (LinkEvent::Created, link));
        match (&self.events, &self.subscribers) {
            (Some(events), Some(subscribers)) => events.deliveries(subscribers, self.now, created),
            _ => NewDeliveries::default(),
        }
    }

    fn receipts(&self) -> NewReceipts {
        NewReceipts::new(self.rows.iter().filter_map(NewRow::new_receipt), self.now)
    }
}

/// Number of rows of one INSERT: as many as fit into `max_bytes` if all were as large as the largest, and at least one.
fn rows_at_once(rows: &[NewRow], max_bytes: usize) -> usize {
    let largest = rows.iter().map(NewRow::wire_size).max();
    (max_bytes / largest.unwrap_or(1)).clamp(1, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipts::Receipt;
    use edgelink_database::dialect::MYSQL;
    use edgelink_model::links::model::{History, LinkContent, LinkDetails};
    use edgelink_model::tenancy::Scope;
    use edgelink_wire::LinkState;
    use edgelink_wire::target::TargetUrl;

    fn row(target: &str) -> NewRow {
        let content = LinkContent {
            state: LinkState::Disabled,
            valid_until: Some(7),
            title: Some("\\'\u{e4}".to_owned()),
            external_id: Some("e'".to_owned()),
            details: LinkDetails {
                notes: Some("n".to_owned()),
                ..LinkDetails::default()
            },
            ..LinkContent::to(TargetUrl::from_store(target))
        };
        let receipt = Receipt {
            request: [0xab; 32],
            item: 5,
            fingerprint: [0xcd; 32],
        };
        let new = NewLink {
            id: 1,
            key: "a/c".parse().unwrap(),
            scope: Scope::tenant(2).into(),
            owner_id: Some(6),
            content,
            history: History::default(),
            receipt: Some(receipt),
            twin: Twin::Allowed,
        };
        NewRow::new(new, 2, 3)
    }

    #[test]
    fn insert_when_rows_are_large_carries_one_at_least() {
        let rows = |lengths: &[usize]| -> Vec<NewRow> {
            lengths
                .iter()
                .map(|length| row(&"x".repeat(*length)))
                .collect()
        };
        assert_eq!(rows_at_once(&rows(&[100; 7]), 1 << 20), LONGEST);
        let some = rows(&[100, 200, 1500]);
        let count = rows_at_once(&some, 4096);
        assert_eq!(count, 2);
        assert!(count * some[2].wire_size() <= 4096);
        assert_eq!(rows_at_once(&rows(&[100, 8000]), 4096), 1);
    }

    #[test]
    fn script_when_it_holds_user_texts_writes_them_in_hex() {
        let mut row = row("';--");
        row.stored.url_hash = -4;
        row.stored.content_hash = -5;
        row.link.rev = 8;
        row.outcome = Some(Ok(()));
        let creation = Creation {
            rows: vec![row],
            configured: Some([].into()),
            domains: Arc::default(),
            token: 0,
            max_bytes: 4096,
            last: Arc::default(),
            events: None,
            subscribers: None,
            now: 9,
        };
        let now = MYSQL.now_micros;
        let [request, fingerprint] = ["ab", "cd"].map(|byte| byte.repeat(32));
        assert_eq!(
            creation.script(&MYSQL, 8, &[0], false, &NewDeliveries::default()),
            format!(
                "START TRANSACTION; INSERT INTO links (id, domain_id, code, url, url_hash, content_hash, redirect, disabled, \
                 valid_since, valid_until, forward_query, title, tags, external_id, archived, details, tenant_id, owner_id, imported_visits, \
                 created_at, updated_at, rev) VALUES (1, 2, X'63', \
                 X'273b2d2d', -4, -5, 302, 1, NULL, 7, 1, _utf8mb4 X'5c27c3a4', _utf8mb4 X'5b5d', X'6527', 0, _utf8mb4 X'7b226e6f746573223a226e227d', 2, 6, 0, 3, 3, 8); \
                 INSERT IGNORE INTO link_words (tenant_id, word, link_id) VALUES (2, X'5c27c3a4', 1); \
                 INSERT INTO outbox (link_keys, records, created_at) VALUES (X'00000003612f63', X'00000008012c0807273b2d2d', 9); \
                 INSERT INTO receipts (request, item, fingerprint, link_id, link_key, rev, created_at, found, link_created_at, \
                 link_updated_at) VALUES (X'{request}', 5, X'{fingerprint}', 1, X'612f63', 8, 9, 0, 3, 3); \
                 SELECT p.rev_floor, {now} AS now_micros, IF(p.rev_floor < 8 AND GREATEST({now}, p.rev_floor + 1) <= 8 + 1000000 \
                 AND 8 <= GREATEST({now}, p.rev_floor + 1) + 1000000 AND (SELECT COUNT(*) FROM domains FORCE INDEX (PRIMARY) WHERE \
                 (id = 2 AND name = X'61' AND tenant_id = 2)) = 1, 0, (SELECT 1 UNION ALL SELECT 2)) AS refused \
                 FROM (SELECT 1 AS row_id) o LEFT JOIN publisher p ON p.id = o.row_id; "
            )
        );
    }
}
