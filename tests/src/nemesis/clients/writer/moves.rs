//! Moves of a link to another code, and restorations of deleted links.

use super::{Said, Slot, Writer};
use crate::nemesis::clients::TRIES;
use crate::nemesis::clients::link::{Known, Link, link_path};
use crate::nemesis::history::{Micros, OperationOutcome, Value};
use rand::RngExt;
use serde_json::{Value as Json, json};

impl Writer {
    /// Creates or restores a link for an unused code. A generated code is not assigned again, so it is restored or left.
    pub(super) async fn create_or_restore(&mut self, slot: &mut Slot, is_alias: bool) {
        let is_restored = self.rng.random_bool(0.4);
        match slot.buried.clone() {
            Some(buried) if is_restored => self.restore(slot, buried).await,
            _ if is_alias => self.create(slot).await,
            _ => slot.buried = None,
        }
    }

    /// Restores the last deleted link. Clients do not learn the revision of a deletion, so it is tried once.
    async fn restore(&mut self, slot: &mut Slot, buried: Link) {
        let value = buried.value();
        let op = self.invoke("restore", &slot.code, value);
        let request = self.request("POST", &link_path(&slot.code, "/restore"));
        self.shared.codes.touch(&slot.code);
        let (since, said) = self.attempt(op, &request, &Json::Null).await;
        match said {
            Said::Yes(_) => {
                // The answer does not show rules, and a restored database may have an older tombstone.
                let (known, _) = self.read(&slot.code).await;
                match known.value() {
                    Some(found) if found == value => self.acknowledged(op, &slot.code, since),
                    Some(found) => self.restored_to(op, &slot.code, (since, found), true),
                    None => _ = self.shared.history.complete(op, OperationOutcome::Unknown),
                }
                slot.know(known);
            }
            Said::No => {
                self.refused(op, slot).await;
                slot.buried = None; // the tombstone was purged, or the link exists
            }
            Said::Nothing => slot.linger(op, value),
        }
    }

    /// Records that a write that was tried once has not happened, and reads the link.
    async fn refused(&mut self, op: u64, slot: &mut Slot) {
        let (known, since) = self.read(&slot.code).await;
        match known {
            Known::Unread => _ = self.shared.history.complete(op, OperationOutcome::Unknown),
            _ => self.undone(op, since),
        }
        slot.know(known);
    }

    pub(super) fn restored_to(
        &self,
        op: u64,
        code: &str,
        (since, value): (Micros, Value),
        is_answered: bool,
    ) {
        let outcome = OperationOutcome::Done {
            code: code.to_owned(),
            since,
            shown: Some(value),
            is_answered,
        };
        self.shared.history.complete(op, outcome);
    }

    /// Moves a link to another, unused alias of this client; the old code either keeps redirecting or becomes unused.
    pub(super) async fn relocate(&mut self, slot: &mut Slot, link: &Link) {
        let is_free = |slot: &Slot| slot.known == Known::Absent;
        let Some(index) = self.aliases.iter().position(is_free) else {
            return;
        };
        let mut place = self.aliases.swap_remove(index);
        if self.rng.random_bool(0.5) {
            self.copy_to(slot, &mut place, link).await;
        } else {
            self.move_to(slot, &mut place, link).await;
        }
        self.aliases.push(place);
    }

    /// The old link keeps its revision, so it is tried once.
    async fn copy_to(&mut self, slot: &Slot, place: &mut Slot, link: &Link) {
        let value = link.value();
        let op = self.invoke("move here", &place.code, value);
        let path = format!("/links/{}/move", slot.code);
        let request = self.request("POST", &path);
        let request = request.header("if-match", link.tag.as_bytes());
        let body = json!({ "customSlug": place.code, "keepOld": true });
        self.shared.codes.touch(&place.code);
        place.buried = None;
        let (since, said) = self.attempt(op, &request, &body).await;
        match said {
            Said::Yes(answer) => {
                self.acknowledged(op, &place.code, since);
                place.know(Link::of(&answer, link.picked).into());
            }
            Said::No => self.refused(op, place).await,
            Said::Nothing => place.linger(op, value),
        }
    }

    async fn move_to(&mut self, slot: &mut Slot, place: &mut Slot, link: &Link) {
        let ops = [
            self.invoke("move", &slot.code, Value::Absent),
            self.invoke("move here", &place.code, link.value()),
        ];
        let path = format!("/links/{}/move", slot.code);
        let request = self.request("POST", &path);
        let request = request.header("if-match", link.tag.as_bytes());
        let body = json!({ "customSlug": place.code });
        self.shared.codes.touch(&slot.code);
        self.shared.codes.touch(&place.code);
        for _ in 0..TRIES {
            let (since, said) = self.attempt(ops[0], &request, &body).await;
            match said {
                Said::Yes(answer) => {
                    self.acknowledged(ops[0], &slot.code, since);
                    self.acknowledged(ops[1], &place.code, since);
                    slot.buried = Some(link.clone());
                    slot.known = Known::Absent;
                    return place.know(Link::of(&answer, link.picked).into());
                }
                Said::No => {
                    if self.settle_move(slot, place, ops, link).await {
                        return;
                    }
                }
                Said::Nothing => {}
            }
            self.pause().await;
        }
        for (op, slot) in ops.into_iter().zip([slot, place]) {
            self.shared.history.complete(op, OperationOutcome::Unknown);
            slot.know(Known::Unread);
        }
    }

    /// Reads both codes of a refused move; returns whether they show its outcome.
    async fn settle_move(
        &mut self,
        slot: &mut Slot,
        place: &mut Slot,
        ops: [u64; 2],
        link: &Link,
    ) -> bool {
        let (old, old_since) = self.read(&slot.code).await;
        let (new, new_since) = self.read(&place.code).await;
        let (Some(old_value), Some(new_value)) = (old.value(), new.value()) else {
            return false;
        };
        if old_value == Value::Absent {
            self.done(ops[0], &slot.code, old_since);
        } else {
            self.undone(ops[0], old_since);
        }
        if new_value == link.value() {
            self.done(ops[1], &place.code, new_since);
        } else {
            self.undone(ops[1], new_since);
        }
        slot.buried = None;
        slot.know(old);
        place.know(new);
        true
    }
}
