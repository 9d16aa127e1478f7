//! The books of an admission: permits held, claims waiting, and sums by party.

use super::claim::{Bounds, Claim, Party, Refusal};
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Window of the moving average of hold times: the last one weighs one part in this many.
const MEAN_OF: u32 = 8;

pub(super) struct PermitLedger {
    bounds: Bounds,
    held: HashMap<u64, HeldPermit, RandomState>,
    line: VecDeque<WaitingClaim>,
    /// At most three for each permit and each waiting claim: a quick hash does.
    parties: HashMap<Party, PartyTotals, RandomState>,
    bytes: usize,
    next_id: u64,
    /// Moving average of the time for which permits are held.
    mean_time: Duration,
    /// Start of the time in which all permits are taken and none came back.
    full_since: Instant,
    /// Start of the time in which every claim is refused and no permit came back; `None` if the last claim was admitted.
    refused_since: Option<Instant>,
}

/// Signals that a permit has given way, and the bound that was reached.
#[derive(Clone, Debug, Default)]
pub(super) struct Notice {
    token: CancellationToken,
    bound: Arc<OnceLock<&'static str>>,
}

impl Notice {
    /// Completes when the notice is sent.
    pub(super) async fn sent(self) {
        self.token.cancelled_owned().await;
    }

    /// The bound that was reached; `None` until it is sent.
    pub(super) fn bound(&self) -> Option<&'static str> {
        self.bound.get().copied()
    }

    fn send(&self, bound: &'static str) {
        let _ = self.bound.set(bound);
        self.token.cancel();
    }
}

/// Hands a waiting claim its permit; if dropped, the claim gives way.
type Grant = oneshot::Sender<()>;

/// A permit that is held.
struct HeldPermit {
    claim: Claim,
    since: Instant,
    bytes: usize,
    /// Bytes that its client has paid for its time.
    paid: usize,
    /// True while it may give way, and the notice for it; `None` if it never does.
    yields: Option<(bool, Notice)>,
}

struct WaitingClaim {
    id: u64,
    claim: Claim,
    gone: Option<Notice>,
    grant: Grant,
}

/// Totals of what a party holds.
#[derive(Clone, Copy, Default)]
struct PartyTotals {
    permits: usize,
    waiting: usize,
    bytes: usize,
}

/// Selects one amount of a [`PartyTotals`].
type Amount = fn(&PartyTotals) -> usize;

/// Amounts that the parties of a claim hold, in descending order; claims are compared by it.
type Measure = [usize; 3];

/// Outcome of a claim that may wait.
pub(super) enum Lines {
    Taken(u64),
    Waits(u64, oneshot::Receiver<()>),
}

impl PermitLedger {
    pub(super) fn new(bounds: Bounds, now: Instant) -> Self {
        Self {
            bounds,
            held: HashMap::default(),
            line: VecDeque::new(),
            parties: HashMap::default(),
            bytes: 0,
            next_id: 0,
            mean_time: Duration::ZERO,
            full_since: now,
            refused_since: None,
        }
    }

    /// Takes a permit at once. With `gone` it may give way from the start, and `gone` is sent when it does.
    pub(super) fn take(
        &mut self,
        claim: Claim,
        bytes: usize,
        gone: Option<Notice>,
        now: Instant,
    ) -> Result<u64, Refusal> {
        if let Err(refusal) = self.take_now(&claim, bytes, now) {
            // Others may have a permit where one party has its share, unless that is all there are.
            let is_full = self.held.len() >= self.bounds.permits;
            if is_full || !matches!(refusal, Refusal::Share(_)) {
                self.note_refusal(now);
            }
            return Err(refusal);
        }
        let id = self.new_id();
        self.hold(id, HeldPermit::new(claim, bytes, gone, now), now);
        Ok(id)
    }

    /// Takes a permit at once, or a place in the line.
    pub(super) fn line_up(
        &mut self,
        claim: Claim,
        gone: Option<Notice>,
        deadline: Instant,
        now: Instant,
    ) -> Result<Lines, Refusal> {
        if self.take_now(&claim, 0, now).is_ok() {
            let id = self.new_id();
            self.hold(id, HeldPermit::new(claim, 0, gone, now), now);
            return Ok(Lines::Taken(id));
        }
        if now + self.predicted_wait(&claim, now) > deadline {
            self.note_refusal(now);
            return Err(Refusal::Late(self.bounds.name));
        }
        self.count(&claim, |holding| holding.waiting += 1);
        if self.line.len() >= self.bounds.waiting && !self.shorten_line_for(&claim) {
            self.uncount(&claim, |holding| holding.waiting -= 1);
            self.note_refusal(now);
            return Err(Refusal::Full(self.bounds.name));
        }
        let id = self.new_id();
        let (grant, granted) = oneshot::channel();
        self.line.push_back(WaitingClaim {
            id,
            claim,
            gone,
            grant,
        });
        Ok(Lines::Waits(id, granted))
    }

    /// Counts a permit against further parties.
    pub(super) fn identify(
        &mut self,
        id: u64,
        by: impl FnOnce(Claim) -> Claim,
    ) -> Result<(), Refusal> {
        let Some(held) = self.held.get(&id) else {
            return Ok(());
        };
        let (before, bytes) = (held.claim.clone(), held.bytes);
        let claim = by(before.clone());
        self.uncount_permit(&before, bytes);
        let is_allowed = self.is_within_share(&claim);
        let claim = if is_allowed { claim } else { before };
        self.count_permit(&claim, bytes);
        if let Some(held) = self.held.get_mut(&id) {
            held.claim = claim;
        }
        if is_allowed {
            Ok(())
        } else {
            Err(Refusal::Share(self.bounds.name))
        }
    }

    pub(super) fn grow(&mut self, id: u64, bytes: usize, now: Instant) -> Result<(), Refusal> {
        let Some(held) = self.held.get_mut(&id) else {
            return Err(Refusal::Full(self.bounds.name));
        };
        let claim = held.claim.clone();
        held.bytes = held.bytes.saturating_add(bytes);
        held.paid = held.paid.saturating_add(bytes);
        self.count(&claim, |holding| {
            holding.bytes = holding.bytes.saturating_add(bytes);
        });
        self.bytes = self.bytes.saturating_add(bytes);
        self.make_room(&claim, 0, Some(id), now)
    }

    pub(super) fn pay(&mut self, id: u64, bytes: usize) {
        if let Some(held) = self.held.get_mut(&id) {
            held.paid = held.paid.saturating_add(bytes);
        }
    }

    pub(super) fn settle(&mut self, id: u64) -> bool {
        let held = self.held.get_mut(&id);
        if let Some((gives_way, _)) = held.and_then(|held| held.yields.as_mut()) {
            *gives_way = false;
        }
        self.held.contains_key(&id)
    }

    pub(super) fn unsettle(&mut self, id: u64, now: Instant) {
        if let Some(held) = self.held.get_mut(&id) {
            held.since = now;
            if let Some((gives_way, _)) = held.yields.as_mut() {
                *gives_way = true;
            }
            // A permit that may give way makes room for others, as a returned one does.
            self.refused_since = None;
        }
        self.serve_line(now);
    }

    /// Ends a permit, or the wait for one. A permit that has given way has ended before.
    pub(super) fn leave(&mut self, id: u64, now: Instant) {
        if let Some(held) = self.remove(id) {
            let time = now.saturating_duration_since(held.since);
            self.mean_time = (self.mean_time * (MEAN_OF - 1) + time) / MEAN_OF;
            self.full_since = now;
            self.refused_since = None;
            self.serve_line(now);
        } else if let Some(place) = self.line.iter().position(|waiting| waiting.id == id)
            && let Some(waiting) = self.line.remove(place)
        {
            self.uncount(&waiting.claim, |holding| holding.waiting -= 1);
        }
    }

    pub(super) fn note_refusal(&mut self, now: Instant) {
        self.refused_since.get_or_insert(now);
    }

    pub(super) fn stuck_for(&self, now: Instant) -> Duration {
        let since = self.refused_since;
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn has_permit(&self) -> bool {
        self.held.len() < self.bounds.permits
    }

    /// Counts a permit and its bytes for a claim if there is room, or if others give way.
    fn take_now(&mut self, claim: &Claim, bytes: usize, now: Instant) -> Result<(), Refusal> {
        self.make_room_within_share(claim, now)?;
        self.count_permit(claim, bytes);
        let room = self.make_room(claim, bytes, None, now);
        if room.is_err() {
            self.uncount_permit(claim, bytes);
        }
        room
    }

    /// Undoes [`PermitLedger::remove`].
    fn put_back(&mut self, id: u64, held: HeldPermit) {
        self.count_permit(&held.claim, held.bytes);
        self.bytes = self.bytes.saturating_add(held.bytes);
        self.held.insert(id, held);
    }

    /// Hands out a permit that is counted already.
    fn hold(&mut self, id: u64, held: HeldPermit, now: Instant) {
        self.bytes = self.bytes.saturating_add(held.bytes);
        self.held.insert(id, held);
        self.refused_since = None;
        if !self.has_permit() {
            self.full_since = now;
        }
    }

    fn remove(&mut self, id: u64) -> Option<HeldPermit> {
        let held = self.held.remove(&id)?;
        self.bytes = self.bytes.saturating_sub(held.bytes);
        self.uncount_permit(&held.claim, held.bytes);
        Some(held)
    }

    /// Counts a permit and its bytes against all parties of its claim.
    fn count_permit(&mut self, claim: &Claim, bytes: usize) {
        self.count(claim, |holding| {
            holding.permits += 1;
            holding.bytes = holding.bytes.saturating_add(bytes);
        });
    }

    /// Undoes [`PermitLedger::count_permit`].
    fn uncount_permit(&mut self, claim: &Claim, bytes: usize) {
        self.uncount(claim, |holding| {
            holding.permits -= 1;
            holding.bytes = holding.bytes.saturating_sub(bytes);
        });
    }

    fn count(&mut self, claim: &Claim, change: impl Fn(&mut PartyTotals)) {
        for party in claim.parties() {
            match self.parties.get_mut(party) {
                Some(holding) => change(holding),
                None => change(self.parties.entry(party.clone()).or_default()),
            }
        }
    }

    /// Undoes [`PermitLedger::count`], and drops parties that hold nothing.
    fn uncount(&mut self, claim: &Claim, change: impl Fn(&mut PartyTotals)) {
        for party in claim.parties() {
            if let Some(holding) = self.parties.get_mut(party) {
                change(holding);
                if holding.permits == 0 && holding.waiting == 0 {
                    self.parties.remove(party);
                }
            }
        }
    }

    fn measure(&self, claim: &Claim, of: impl Fn(&PartyTotals) -> usize) -> Measure {
        let mut measure = [0; 3];
        for (place, party) in measure.iter_mut().zip(claim.parties()) {
            *place = self.parties.get(party).map_or(0, &of);
        }
        measure.sort_unstable_by_key(|count| Reverse(*count));
        measure
    }

    fn share_of(&self, party: &Party) -> usize {
        match party {
            Party::Address(_) => self.bounds.of_address,
            Party::Key(_) => self.bounds.of_key,
            Party::Tenant(_) => self.bounds.of_tenant,
        }
    }

    /// The party of a claim that has its share.
    fn exhausted<'c>(&self, claim: &'c Claim) -> Option<&'c Party> {
        let has_share = |party: &&Party| {
            let holding = self.parties.get(*party);
            holding.is_some_and(|holding| holding.permits >= self.share_of(party))
        };
        claim.parties().find(has_share)
    }

    fn is_within_share(&self, claim: &Claim) -> bool {
        self.exhausted(claim).is_none()
    }

    /// Lets permits of the very parties that have their share give way to a further one of them.
    fn make_room_within_share(&mut self, claim: &Claim, now: Instant) -> Result<(), Refusal> {
        while let Some(party) = self.exhausted(claim) {
            let is_of_party = |held: &HeldPermit| held.claim.parties().any(|other| other == party);
            let victim = self.victim(|_, held| is_of_party(held), |_| Measure::default(), now);
            let Some((_, gone)) = victim.and_then(|id| self.remove(id)?.yields) else {
                return Err(Refusal::Share(self.bounds.name));
            };
            gone.send(self.bounds.name);
        }
        Ok(())
    }

    /// Lets others give way to a claim that is counted already, until there is room for it and its bytes; none of them if that would not
    /// suffice. `own` is its permit, if it has one: then it needs bytes only.
    fn make_room(
        &mut self,
        claim: &Claim,
        bytes: usize,
        own: Option<u64>,
        now: Instant,
    ) -> Result<(), Refusal> {
        let mut victims = Vec::new();
        while let Some((bound, of)) = self.missing(bytes, own) {
            let least = self.measure(claim, of);
            let measures: HashMap<u64, Measure> = self
                .held
                .iter()
                .filter(|(id, held)| held.gives_way() && Some(**id) != own)
                .map(|(id, held)| (*id, self.measure(&held.claim, of)))
                .filter(|(_, measure)| *measure >= least)
                .collect();
            let measure_of = |id: u64| measures.get(&id).copied().unwrap_or_default();
            let victim = self.victim(|id, _| measures.contains_key(&id), measure_of, now);
            let Some((id, held)) = victim.and_then(|id| Some((id, self.remove(id)?))) else {
                for (id, held, _) in victims {
                    self.put_back(id, held);
                }
                return Err(Refusal::Full(bound));
            };
            victims.push((id, held, bound));
        }
        for (_, held, bound) in victims {
            if let Some((_, gone)) = held.yields {
                gone.send(bound);
            }
        }
        Ok(())
    }

    /// The bound that leaves no room for a claim of so many bytes, and the amount that it limits; `own` is its permit, if it has one.
    fn missing(&self, bytes: usize, own: Option<u64>) -> Option<(&'static str, Amount)> {
        if self.bytes.saturating_add(bytes) > self.bounds.bytes {
            return Some((self.bounds.bytes_name, |holding| holding.bytes));
        }
        let needs_permit = own.is_none() && !self.has_permit();
        needs_permit.then_some((self.bounds.name, |holding| holding.permits))
    }

    /// The permit with the largest measure, among these that may give way; of several the one that has paid least for its time.
    fn victim(
        &self,
        is_among: impl Fn(u64, &HeldPermit) -> bool,
        measure: impl Fn(u64) -> Measure,
        now: Instant,
    ) -> Option<u64> {
        let among = self.held.iter();
        let among = among.filter(|(id, held)| held.gives_way() && is_among(**id, held));
        let first = among.max_by(|(one, a), (other, b)| {
            let by_measure = measure(**one).cmp(&measure(**other));
            by_measure
                .then_with(|| b.rate(now).total_cmp(&a.rate(now)))
                .then_with(|| b.since.cmp(&a.since))
                .then_with(|| other.cmp(one))
        });
        first.map(|(id, _)| *id)
    }

    /// Removes from the line the last claim of the waiting party that holds most, unless that is the party of this claim, which is
    /// counted already.
    fn shorten_line_for(&mut self, claim: &Claim) -> bool {
        let of = |holding: &PartyTotals| holding.permits + holding.waiting;
        let own = self.measure(claim, of);
        let line = self.line.iter().enumerate();
        let measures = line.map(|(place, waiting)| (self.measure(&waiting.claim, of), place));
        let Some((measure, place)) = measures.max() else {
            return false;
        };
        if measure <= own {
            return false;
        }
        // Its grant is dropped, which refuses it.
        if let Some(waiting) = self.line.remove(place) {
            self.uncount(&waiting.claim, |holding| holding.waiting -= 1);
        }
        true
    }

    /// Gives permits to waiting claims, in turns, as far as any are free or others give way.
    fn serve_line(&mut self, now: Instant) {
        loop {
            let line = self.line.iter().enumerate();
            let served = line.filter(|(_, waiting)| self.is_within_share(&waiting.claim));
            let next = served.min_by_key(|(place, waiting)| (self.turn(&waiting.claim), *place));
            let Some((place, waiting)) = next else {
                return;
            };
            let claim = waiting.claim.clone();
            if self.take_now(&claim, 0, now).is_err() {
                return;
            }
            let Some(WaitingClaim {
                id, gone, grant, ..
            }) = self.line.remove(place)
            else {
                return;
            };
            self.uncount(&claim, |holding| holding.waiting -= 1);
            self.hold(id, HeldPermit::new(claim, 0, gone, now), now);
            // A dropped claim leaves by itself.
            let _ = grant.send(());
        }
    }

    fn turn(&self, claim: &Claim) -> Measure {
        self.measure(claim, |holding| holding.permits)
    }

    /// Expected wait of a claim, from the hold time of permits and the time since one came back.
    fn predicted_wait(&self, claim: &Claim, now: Instant) -> Duration {
        if self.has_permit() {
            return Duration::ZERO;
        }
        let own = self.turn(claim);
        let before = |waiting: &&WaitingClaim| self.turn(&waiting.claim) <= own;
        let before = self.line.iter().filter(before).count();
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        let permits = u32::try_from(self.bounds.permits.max(1)).unwrap_or(u32::MAX);
        let between = self.mean_time / permits;
        let silence = now.saturating_duration_since(self.full_since);
        // If none has come back for longer than permits are held, it may take as long again.
        let next = if silence < between {
            between - silence
        } else {
            silence.saturating_sub(self.mean_time)
        };
        next.saturating_add(between.saturating_mul(before))
    }
}

impl HeldPermit {
    fn new(claim: Claim, bytes: usize, gone: Option<Notice>, now: Instant) -> Self {
        Self {
            claim,
            since: now,
            bytes,
            paid: 0,
            yields: gone.map(|gone| (true, gone)),
        }
    }

    fn gives_way(&self) -> bool {
        self.yields
            .as_ref()
            .is_some_and(|(gives_way, _)| *gives_way)
    }

    /// Bytes a second that its client has paid.
    fn rate(&self, now: Instant) -> f64 {
        let time = now.saturating_duration_since(self.since).as_secs_f64();
        self.paid as f64 / time.max(1e-3)
    }
}

#[cfg(test)]
impl PermitLedger {
    /// True if nothing is held and no trace of earlier permits is left.
    pub(super) fn is_forgotten(&self) -> bool {
        self.held.is_empty() && self.line.is_empty() && self.parties.is_empty() && self.bytes == 0
    }

    /// Checks that the sums are right, and within the bounds.
    pub(super) fn check(&self) {
        assert!(self.held.len() <= self.bounds.permits);
        assert!(self.bytes <= self.bounds.bytes);
        let sum: usize = self.held.values().map(|held| held.bytes).sum();
        assert_eq!(self.bytes, sum);
        for (party, holding) in &self.parties {
            let of_party = |held: &&HeldPermit| held.claim.parties().any(|other| other == party);
            let of_party: Vec<_> = self.held.values().filter(of_party).collect();
            assert_eq!(holding.permits, of_party.len());
            assert_eq!(
                holding.bytes,
                of_party.iter().map(|held| held.bytes).sum::<usize>()
            );
            assert!(holding.permits <= self.share_of(party));
        }
    }
}
