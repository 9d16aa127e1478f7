//! Individual clicks with their configured attributes, and orphan visits.

use super::counting::Counting;
use super::wanted::{Picked, WantedHeaders};
use crate::host::Clients;
use crate::request::{Headers, behind_code};
use crate::settings::{Attribute, Settings};
use edgelink_wire::click_id::{ClickId, ClickIds};
use edgelink_wire::clicks::attributes::{self, MAX_HOST};
use edgelink_wire::clicks::events::{
    Attributes, Encoded, Event, EventsBuilder, Kind, OrphanKind, UTM,
};
use edgelink_wire::clicks::{VisitorKeys, visitor_token};
use foldhash::fast::SeedableRandomState;
use std::cell::Cell;

/// Events that are in no batch yet. Orphan visits have a bound of their own, so that a scan does not displace clicks.
pub(crate) struct ClickEvents {
    wanted: WantedHeaders,
    clicks: EventsBuilder<SeedableRandomState>,
    orphans: EventsBuilder<SeedableRandomState>,
    has_orphans: bool,
    /// Orphan visits dropped for lack of room.
    lost_orphans: u64,
    ids: ClickIds,
    /// Notes on the redirect decided last, if it needs an event.
    noted: Cell<Option<Noted>>,
    keys: VisitorKeys,
    /// Buffers for UTM parameters and for the key of an orphan visit; here so that they are allocated once.
    utm: Vec<u8>,
    orphan: Vec<u8>,
}

/// Facts about a decided redirect that its event contains. Kept out of the answer, which is moved for each visitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Noted {
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

impl ClickEvents {
    /// No events so far. `key` is random; click ids are derived from it.
    pub(crate) fn new(settings: &Settings, key: [u8; 16], hasher: &SeedableRandomState) -> Self {
        let mut events = Self {
            wanted: WantedHeaders::default(),
            clicks: EventsBuilder::new(hasher.clone(), 0),
            orphans: EventsBuilder::new(hasher.clone(), 0),
            has_orphans: false,
            lost_orphans: 0,
            ids: ClickIds::new(key),
            noted: Cell::new(None),
            keys: VisitorKeys::default(),
            utm: Vec::new(),
            orphan: Vec::new(),
        };
        events.configure(settings);
        events
    }

    /// Changes the settings, for events from now on.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.wanted = WantedHeaders::of(settings);
        let clicks = settings.clicks.as_ref();
        let max_bytes = clicks.map_or(0, |clicks| clicks.max_event_bytes);
        self.clicks.set_max_bytes(max_bytes);
        self.has_orphans = clicks.is_some_and(|clicks| clicks.orphans);
        let orphans = clicks.filter(|clicks| clicks.orphans);
        let orphans = orphans.map_or(0, |clicks| clicks.max_orphan_bytes);
        self.orphans.set_max_bytes(orphans);
        if !self.wanted.has(Attribute::Visitor) {
            self.keys = VisitorKeys::default();
        }
    }

    /// True if attributes are configured, so that headers are needed.
    pub(crate) fn describes(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// True if orphan visits are kept.
    pub(crate) fn has_orphans(&self) -> bool {
        self.has_orphans
    }

    /// Creates the id of a click on a link that tracks conversions; `None` if there is no room for its event, so that the click
    /// is undescribed.
    pub(crate) fn give_id(&self) -> Option<ClickId> {
        if self.clicks.has_room() {
            return Some(self.ids.give());
        }
        self.noted.set(Some(Noted::default()));
        None
    }

    /// Notes the position of the rule and the click id of a redirect that is a click.
    pub(crate) fn note(&self, rule: u8, id: Option<ClickId>) {
        let rule = if self.wanted.has(Attribute::Rule) {
            rule
        } else {
            0
        };
        if rule > 0 || id.is_some() {
            self.noted.set(Some(Noted { rule, id }));
        }
    }

    /// True if the click needs an event: attributes are configured, or a rule or id is noted.
    #[inline(always)]
    pub(crate) fn takes_click(&mut self) -> bool {
        self.describes() || self.noted.get_mut().is_some()
    }

    /// The secrets of visitor tokens; `None` if tokens are not configured.
    pub(crate) fn keys(&self) -> Option<&VisitorKeys> {
        self.wanted.has(Attribute::Visitor).then_some(&self.keys)
    }

    /// Adds secrets received from the control plane.
    pub(crate) fn add_keys(&mut self, keys: VisitorKeys) {
        if self.wanted.has(Attribute::Visitor) {
            self.keys.add(keys);
        }
    }

    /// Overwrites the secrets that have expired at `now`, in unix seconds.
    pub(crate) fn forget_keys(&mut self, now: u64) {
        self.keys.forget(now);
    }

    /// True if so many events wait that they should be put into a batch soon.
    pub(crate) fn is_half_full(&self) -> bool {
        !self.clicks.is_empty() && self.clicks.is_half_full()
    }

    /// Takes a click as an event. It is only counted if its visitor has opted out, or there is no room.
    pub(crate) fn click(
        &mut self,
        client: &impl Clients,
        click: &Answered<'_, impl Headers>,
    ) -> Counting {
        let noted = self.noted.take();
        let picked = self.wanted.pick(click.headers);
        if picked.is_opt_out && noted.is_none_or(|noted| noted.id.is_none()) {
            return Counting::Plain;
        }
        if self.push(client, click, noted.unwrap_or_default(), &picked) {
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
        let picked = self.wanted.pick(headers);
        let orphan = Answered {
            key: &key,
            headers,
            path,
            now,
            kind: Kind::Orphan(kind),
        };
        self.push(client, &orphan, Noted::default(), &picked);
        self.orphan = key;
    }

    /// Adds an event. Returns `false` if there was no room.
    fn push(
        &mut self,
        client: &impl Clients,
        answered: &Answered<'_, impl Headers>,
        noted: Noted,
        picked: &Picked<'_>,
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
        let wanted = &self.wanted;
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
        if let Some(secret) = self.keys.at(answered.now)
            && let Some(address) = client.client_address()
        {
            event.visitor = Some(visitor_token(secret, address, picked.user_agent));
        }
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
