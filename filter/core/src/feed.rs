//! Applies messages of the feed to the caches, to admission, to the domains, and to the warm links.

use crate::admission::Gate;
use crate::api_domains::ApiDomains;
use crate::cache::{Caches, Update};
use crate::flights::Flights;
use crate::host::{Log, SharedData};
use crate::metrics::{Counts, FeedOutcome, Metric};
use crate::time::Moment;
use crate::warm::Warm;
use edgelink_wire::Record;
use edgelink_wire::domain_record::domain_of_key;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::record::{RecordBytes, RecordKind};

/// Applies feed messages.
pub(crate) struct FeedApplier<'a> {
    pub(crate) caches: &'a mut Caches,
    pub(crate) gate: &'a mut Gate,
    pub(crate) domains: &'a mut ApiDomains,
    pub(crate) warm: &'a mut Warm,
    pub(crate) counts: &'a mut Counts,
    /// Lookups in flight.
    pub(crate) flights: &'a mut Flights,
    /// Moment up to which everything was read before: these messages were committed later.
    pub(crate) read_until: Option<Moment>,
}

impl FeedApplier<'_> {
    /// Applies a message.
    pub(crate) fn apply(
        &mut self,
        data: &mut impl SharedData,
        now: Moment,
        message: FeedMessage<'_>,
    ) {
        let outcome = match message {
            FeedMessage::Put { key, record, hot } => {
                self.apply_update(data, key, record, hot, now);
                FeedOutcome::Put
            }
            FeedMessage::Del { key, rev } => {
                let record = RecordBytes::of(&Record::Absent { rev });
                self.apply_update(data, key, record.as_deref(), false, now);
                FeedOutcome::Del
            }
            FeedMessage::Changed { key } => {
                self.mark_changed(key, now);
                FeedOutcome::Changed
            }
            FeedMessage::Flush => {
                self.caches.invalidate_all(now);
                self.gate.restart();
                self.domains.restart();
                self.warm.clear();
                FeedOutcome::Flush
            }
            FeedMessage::Beat(beat) => {
                self.gate.on_bound(beat.bound);
                FeedOutcome::Beat
            }
        };
        self.counts.count(Metric::Feed(outcome));
    }

    /// Changes may have been missed.
    pub(crate) fn on_gap(&mut self, log: &mut impl Log, now: Moment, why: &str) {
        self.counts.count(Metric::Feed(FeedOutcome::Gap));
        self.caches.mark_all_stale(now);
        self.gate.restart();
        self.domains.restart();
        self.warm.clear();
        log.warn(&format!(
            "feed changes may have been missed ({why}); every record is stale until it is fetched again"
        ));
    }

    /// Applies a change of which only the key is known.
    fn mark_changed(&mut self, key: &str, now: Moment) {
        if domain_of_key(key).is_some() {
            self.caches.mark_stale(key.as_bytes(), now);
            return self.domains.restart();
        }
        // There may be a link now.
        self.admit(key);
        self.warm.on_change(key.as_bytes());
        self.flights.overtake(key.as_bytes(), None);
        self.caches.mark_stale(key.as_bytes(), now);
    }

    /// Applies the new record of a link, or of a domain.
    fn apply_update(
        &mut self,
        data: &mut impl SharedData,
        key: &str,
        record: RecordBytes<&[u8]>,
        is_hot: bool,
        now: Moment,
    ) {
        if let Some(domain) = domain_of_key(key) {
            return self.domains.on_change(domain, &record.record());
        }
        if record.kind == RecordKind::Link {
            self.admit(key);
        }
        self.warm.on_change(key.as_bytes());
        self.flights.overtake(key.as_bytes(), Some(record.rev));
        let at = self
            .read_until
            .unwrap_or_else(|| self.caches.unknown_age(now));
        let update = Update { record, is_hot, at };
        self.caches.apply_update(data, key.as_bytes(), update, now);
    }

    fn admit(&mut self, key: &str) {
        if let Some((_, code)) = key.split_once('/') {
            self.gate.on_link(code.as_bytes());
        }
    }
}
