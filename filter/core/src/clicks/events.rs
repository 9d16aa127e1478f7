//! Individual clicks with their configured attributes, and orphan visits.

use super::counting::Counting;
use super::visitor_tokens::KnownVisitors;
use super::wanted::{Picked, WantedHeaders};
use crate::host::Clients;
use crate::request::{Headers, behind_code};
use crate::settings::{Attribute, Settings};
use edgelink_wire::click_id::{ClickId, ClickIds};
use edgelink_wire::clicks::VisitorKeys;
use edgelink_wire::clicks::attributes::{self, MAX_HOST};
use edgelink_wire::clicks::events::{
    Attributes, Encoded, Event, EventsBuilder, Kind, OrphanKind, UTM,
};
use foldhash::fast::SeedableRandomState;
use std::cell::Cell;

/// Contents of events, and their bounds: common to all threads.
pub(crate) struct EventRules {
    wanted: WantedHeaders,
    has_orphans: bool,
    max_bytes: usize,
    max_orphan_bytes: usize,
    /// The secrets of visitor tokens.
    keys: VisitorKeys,
    /// Number of changes so far.
    version: u32,
}

/// Events that are in no batch yet, of one thread. Orphan visits have a bound of their own, so that a scan does not displace clicks.
pub(crate) struct ClickEvents {
    clicks: EventsBuilder<SeedableRandomState>,
    orphans: EventsBuilder<SeedableRandomState>,
    /// Orphan visits dropped for lack of room.
    lost_orphans: u64,
    ids: ClickIds,
    visitors: KnownVisitors,
    /// Buffers for UTM parameters and for the key of an orphan visit; here so that they are allocated once.
    utm: Vec<u8>,
    orphan: Vec<u8>,
}

/// Facts about a decided redirect that its event contains. Kept out of the answer, which is moved for each visitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Position of the rule that has chosen the target, from 1 on; 0 for none.
    rule: u8,
    id: Option<ClickId>,
}

/// Events gathered since the last call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Gathered {
    pub(crate) clicks: Encoded,
    pub(crate) orphans: Encoded,
    /// Orphan visits dropped for lack of room.
    pub(crate) lost_orphans: u64,
}

/// A request that was answered.
pub(crate) struct Answered<'a, H> {
    /// The link key; for an orphan visit, the key written by [`ClickEvents::name_orphan`].
    pub(crate) key: &'a [u8],
    pub(crate) headers: &'a H,
    /// The path with its query.
    pub(crate) path: &'a [u8],
    /// Unix seconds.
    pub(crate) now: u64,
    pub(crate) kind: Kind,
}

impl EventRules {
    /// The rules by these settings, without secrets.
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut rules = Self {
            wanted: WantedHeaders::default(),
            has_orphans: false,
            max_bytes: 0,
            max_orphan_bytes: 0,
            keys: VisitorKeys::default(),
            version: 0,
        };
        rules.configure(settings);
        rules
    }

    /// Changes the settings, for events from now on.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.version = self.version.wrapping_add(1);
        self.wanted = WantedHeaders::of(settings);
        let clicks = settings.clicks.as_ref();
        self.max_bytes = clicks.map_or(0, |clicks| clicks.max_event_bytes);
        self.has_orphans = clicks.is_some_and(|clicks| clicks.orphans);
        let orphans = clicks.filter(|clicks| clicks.orphans);
        self.max_orphan_bytes = orphans.map_or(0, |clicks| clicks.max_orphan_bytes);
        if !self.wanted.has(Attribute::Visitor) {
            self.keys = VisitorKeys::default();
        }
    }

    /// Number of changes so far.
    #[inline(always)]
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// True if attributes are configured, so that headers are needed.
    pub(crate) fn describes(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// True if orphan visits are kept.
    pub(crate) fn has_orphans(&self) -> bool {
        self.has_orphans
    }

    /// The secrets of visitor tokens; `None` if tokens are not configured.
    pub(crate) fn keys(&self) -> Option<&VisitorKeys> {
        self.wanted.has(Attribute::Visitor).then_some(&self.keys)
    }

    /// Adds secrets received from the control plane.
    pub(crate) fn add_keys(&mut self, keys: VisitorKeys) {
        if self.wanted.has(Attribute::Visitor) {
            self.version = self.version.wrapping_add(1);
            self.keys.add(keys);
        }
    }

    /// Overwrites the secrets that have expired at `now`, in unix seconds.
    pub(crate) fn forget_keys(&mut self, now: u64) {
        self.keys.forget(now);
    }

    /// The notes for a redirect that is a click, which are written to `noted`.
    pub(crate) fn notes<'v>(
        &'v self,
        events: &'v ClickEvents,
        noted: &'v Cell<Option<Noted>>,
    ) -> RedirectNotes<'v> {
        let rules = self;
        RedirectNotes {
            rules,
            events,
            noted,
        }
    }

    /// True if a click needs an event: attributes are configured, or a rule or id is noted.
    #[inline(always)]
    pub(crate) fn takes_click(&self, noted: Option<&Noted>) -> bool {
        self.describes() || noted.is_some()
    }
}

/// Takes notes on a redirect that is a click, and gives it its id.
#[derive(Clone, Copy)]
pub(crate) struct RedirectNotes<'v> {
    rules: &'v EventRules,
    events: &'v ClickEvents,
    /// Set if it needs an event.
    noted: &'v Cell<Option<Noted>>,
}

impl RedirectNotes<'_> {
    /// Creates the id of a click on a link that tracks conversions; `None` if there is no room for its event, so that the click
    /// is undescribed.
    pub(crate) fn give_id(self) -> Option<ClickId> {
        if self.events.clicks.has_room() {
            return Some(self.events.ids.give());
        }
        self.noted.set(Some(Noted::default()));
        None
    }

    /// Notes the position of the rule and the click id.
    pub(crate) fn note(self, rule: u8, id: Option<ClickId>) {
        let rule = if self.rules.wanted.has(Attribute::Rule) {
            rule
        } else {
            0
        };
        if rule > 0 || id.is_some() {
            self.noted.set(Some(Noted { rule, id }));
        }
    }
}

impl ClickEvents {
    /// No events so far. `key` is random; click ids are derived from it.
    pub(crate) fn new(rules: &EventRules, key: [u8; 16], hasher: &SeedableRandomState) -> Self {
        let mut events = Self {
            clicks: EventsBuilder::new(hasher.clone(), 0),
            orphans: EventsBuilder::new(hasher.clone(), 0),
            lost_orphans: 0,
            ids: ClickIds::new(key),
            visitors: KnownVisitors::default(),
            utm: Vec::new(),
            orphan: Vec::new(),
        };
        events.configure(rules);
        events
    }

    /// Changes the bounds, for events from now on.
    pub(crate) fn configure(&mut self, rules: &EventRules) {
        self.clicks.set_max_bytes(rules.max_bytes);
        self.orphans.set_max_bytes(rules.max_orphan_bytes);
    }

    /// Forgets the visitors of days other than that of `now`, in unix seconds.
    pub(crate) fn forget_visitors(&mut self, rules: &EventRules, now: u64) {
        self.visitors.forget(rules.keys.at(now));
    }

    /// True if so many events wait that they should be put into a batch soon.
    pub(crate) fn is_half_full(&self) -> bool {
        !self.clicks.is_empty() && self.clicks.is_half_full()
    }

    /// Takes a click as an event. It is only counted if its visitor has opted out, or there is no room.
    pub(crate) fn click(
        &mut self,
        rules: &EventRules,
        client: &impl Clients,
        click: &Answered<'_, impl Headers>,
        noted: Option<Noted>,
    ) -> Counting {
        let picked = rules.wanted.pick(click.headers);
        if picked.is_opt_out && noted.is_none_or(|noted| noted.id.is_none()) {
            return Counting::Plain;
        }
        if self.push(rules, client, click, (noted.unwrap_or_default(), &picked)) {
            Counting::No
        } else {
            Counting::Undescribed
        }
    }

    /// Writes the key of an orphan visit, the domain and the path without the query.
    pub(crate) fn name_orphan(&mut self, domain: &[u8], path: &[u8]) {
        let path = path.split(|byte| *byte == b'?').next();
        self.orphan.clear();
        self.orphan.extend_from_slice(domain);
        self.orphan.extend_from_slice(path.unwrap_or_default());
    }

    /// Takes an orphan visit of the key written last.
    pub(crate) fn orphan(
        &mut self,
        rules: &EventRules,
        client: &impl Clients,
        kind: OrphanKind,
        (headers, path): (&impl Headers, &[u8]),
        now: u64,
    ) {
        if !self.orphans.has_room() {
            self.lose_orphan();
            return;
        }
        let key = std::mem::take(&mut self.orphan);
        let picked = rules.wanted.pick(headers);
        let orphan = Answered {
            key: &key,
            headers,
            path,
            now,
            kind: Kind::Orphan(kind),
        };
        self.push(rules, client, &orphan, (Noted::default(), &picked));
        self.orphan = key;
    }

    /// Adds an event. Returns `false` if there was no room.
    fn push(
        &mut self,
        rules: &EventRules,
        client: &impl Clients,
        answered: &Answered<'_, impl Headers>,
        (noted, picked): (Noted, &Picked<'_>),
    ) -> bool {
        let builder = match answered.kind {
            Kind::Redirect(_) => &mut self.clicks,
            Kind::Orphan(_) => &mut self.orphans,
        };
        if !builder.has_room() {
            return false;
        }
        let mut event = Event {
            key: answered.key,
            at: answered.now,
            kind: answered.kind,
            rule: noted.rule,
            attributes: Attributes::default(),
            visitor: None,
            id: noted.id,
        };
        if picked.is_opt_out {
            return builder.push(&event);
        }
        let wanted = &rules.wanted;
        let (mut host, country) = ([0; MAX_HOST], attributes::country(picked.country));
        let domain = answered.key.split(|byte| *byte == b'/').next();
        let domain = domain.unwrap_or_default();
        let referrer = match picked.referrer {
            [] => None,
            referrer => attributes::referrer(referrer, domain, &mut host),
        };
        event.attributes = Attributes {
            country: country.as_ref().map_or(&[], |country| &country[..]),
            city: picked.city,
            user_agent: if wanted.has(Attribute::UserAgent) {
                picked.user_agent
            } else {
                &[]
            },
            referrer: referrer.unwrap_or_default(),
            language: attributes::language(picked.language),
            utm: if wanted.has(Attribute::Utm) {
                utm(answered.path, &mut self.utm)
            } else {
                [&[]; UTM]
            },
        };
        let key = rules.keys.at(answered.now);
        event.visitor = key.and_then(|key| {
            let key = (key, rules.version);
            let address = client.client_address()?;
            Some(self.visitors.token(key, address, picked.user_agent))
        });
        builder.push(&event)
    }

    /// Takes all events.
    pub(crate) fn take(&mut self) -> Gathered {
        Gathered {
            clicks: self.clicks.take(),
            orphans: self.orphans.take(),
            lost_orphans: std::mem::take(&mut self.lost_orphans),
        }
    }

    #[cold]
    fn lose_orphan(&mut self) {
        self.lost_orphans += 1;
    }
}

/// UTM parameters in the query of a path.
fn utm<'r>(path: &[u8], room: &'r mut Vec<u8>) -> [&'r [u8]; UTM] {
    let query = behind_code(path).1;
    if query.is_empty() {
        return [&[]; UTM];
    }
    let ranges = attributes::utm(query, room);
    ranges.map(|range| room.get(range).unwrap_or_default())
}
