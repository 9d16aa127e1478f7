//! The plugin configuration: strict JSON. Errors stop the start and name the field. Each setting is declared once, in
//! [`written`]; here are the checks across fields and the derived settings.

mod control_plane;
mod redis;
mod route;
mod strict;
mod tls;
mod written;

pub use control_plane::{ControlPlane, ControlPlaneServers};
pub use edgelink_wire::clicks::attributes::Attribute;
pub use redis::{RedisSettings, Servers};
pub use route::Route;
pub use tls::Tls;
pub use written::{
    ClicksSection, Described, LimitSection, ServerAddress, SnapshotSection, UnknownCodes,
    UnknownHosts,
};

use crate::freshness::Lifetimes;
use crate::resp::client::Mode;
use edgelink_wire::clicks::{self, events};
use edgelink_wire::password::Notice;
use edgelink_wire::settings::{InvalidField, Problems, SettingValue};
use edgelink_wire::{Domain, DomainSet, LinkPaths};
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::sync::Arc;
use written::{GeoSection, HeaderText, Html, PagesSection, Written};

/// Minimum size of the LRU with a feed, in bytes: it has to hold the changes of the last seconds.
const FEED_LRU_BYTES: usize = 1 << 20;

const MAX_DOMAINS: usize = 1_000;

/// Maximum number of forms of a worker, for [`Settings::max_forms`]. A further form replaces the oldest one without its body,
/// or gets 503 if all have theirs.
pub(crate) const MAX_FORMS: usize = 256;

/// Checked settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The domains that short links live on; at least one.
    pub domains: DomainSet,
    /// Handling of requests for any other host.
    pub unknown_hosts: UnknownHosts,
    /// Paths of links; `None` if they are codes right below the root.
    pub paths: Option<LinkPaths>,
    /// Handling of requests for codes without a link.
    pub unknown_codes: UnknownCodes,
    /// True if domains created through the API are served as well.
    pub api_domains: bool,
    /// The name of this edge; `None` if the host knows it.
    pub edge_name: Option<String>,
    /// Access to the control plane.
    pub control_plane: ControlPlane,
    /// Access to Redis; `None` without Redis.
    pub redis: Option<RedisSettings>,
    /// Background callouts to the control plane.
    pub background: BackgroundSettings,
    /// Counting and reporting of clicks; `None` if clicks are not counted.
    pub clicks: Option<ClicksSection>,
    /// Maximum number of limited links of which a worker holds visits.
    pub max_limited_links: usize,
    /// Maximum number of forms with passwords that a worker holds.
    pub max_forms: usize,
    /// The limit of requests by address; `None` if there is none.
    pub limit: Option<LimitSection>,
    /// The bound of the LRU in bytes; 0 for none.
    pub lru_max_bytes: usize,
    /// The number of slots in shared data; 0 for none.
    pub slots: u32,
    /// Maximum size of a value in a slot, in bytes.
    pub max_value_bytes: usize,
    /// Lifetimes of cached records.
    pub lifetimes: Lifetimes,
    /// Period for which a failure is remembered, in milliseconds.
    pub retry_after_millis: u64,
    /// `retry_after_millis` in seconds, as the value of the header `retry-after`.
    pub retry_after: String,
    /// Attributes of a request for access logs and traces.
    pub describe: Vec<Described>,
    /// The path of readiness probes; `None` if none are answered.
    pub ready_path: Option<String>,
    /// True if answers carry `x-edgelink-tier`.
    pub tier_header: bool,
    /// The period of the tick, in milliseconds.
    pub tick_millis: u32,
    /// The pages for people.
    pub pages: Pages,
    /// Headers with the location of a visitor.
    pub geo: GeoHeaders,
    /// True if paths that continue behind a code belong to links.
    pub forward_paths: bool,
    /// True if redirects ask search engines not to list links, unless they may.
    pub noindex: bool,
}

/// Names of the headers with the location of a visitor, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeoHeaders {
    /// The header with the country; `None` if there is none.
    pub country: Option<String>,
    /// The header with the city; `None` if there is none.
    pub city: Option<String>,
}

/// Settings of the background callouts to the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackgroundSettings {
    /// Fetching of a snapshot; `None` if none is fetched.
    pub snapshot: Option<SnapshotSection>,
    /// Polling for the feed; `None` if the control plane is not polled.
    pub poll: Option<PollSettings>,
    /// Maximum silence of the feed while admission is in effect, in milliseconds; `None` without admission.
    pub admission_silence_millis: Option<u64>,
}

/// Settings of the polls for the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollSettings {
    /// Milliseconds for which the control plane holds a poll while there is no change.
    pub wait_millis: u32,
    /// Timeout of a poll in milliseconds.
    pub timeout_millis: u32,
    /// The longest pause between two attempts, in milliseconds.
    pub max_backoff_millis: u64,
}

/// The HTML of answers other than redirects.
#[derive(Clone, Debug)]
pub struct Pages {
    /// 404.
    pub not_found: Arc<str>,
    /// 410.
    pub gone: Arc<str>,
    /// 503.
    pub unavailable: Arc<str>,
    /// The page of a link with a password.
    pub password: Arc<str>,
}

/// The errors of a refused configuration: every invalid field.
#[derive(Debug)]
pub struct SettingsError(Vec<InvalidField>);

impl Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(index, problem)| {
            let gap = if index > 0 { "; " } else { "" };
            write!(f, "{gap}field '{}': {}", problem.field, problem.reason)
        })
    }
}

impl std::error::Error for SettingsError {}

/// Reads a self-contained section.
fn read<T: SettingValue + Default>(json: &[u8]) -> Result<T, SettingsError> {
    let mut problems = Problems::default();
    let section = match strict::parse(json) {
        Ok(value) => T::read(value, "", &mut problems),
        Err(error) => {
            problems.refuse(".", error.to_string());
            None
        }
    };
    problems.into_result().map_err(SettingsError)?;
    Ok(section.unwrap_or_default())
}

/// Refuses settings without a field that their host needs.
fn require(is_given: bool, field: &str, because: &str) -> Result<(), SettingsError> {
    let mut problems = Problems::default();
    if !is_given {
        problems.refuse(field, format!("must be given: {because}"));
    }
    problems.into_result().map_err(SettingsError)
}

impl Settings {
    /// Reads the plugin configuration.
    ///
    /// # Errors
    /// The [`SettingsError`] that names the invalid fields.
    pub fn parse(json: &[u8]) -> Result<Self, SettingsError> {
        let written: Written = read(json)?;
        let mut problems = Problems::default();
        written.check(&mut problems);
        problems.into_result().map_err(SettingsError)?;
        Ok(written.into())
    }

    /// The settings for a host that has an edge for each of its workers, and asks control planes by a cluster of the proxy.
    ///
    /// # Errors
    /// The [`SettingsError`] that names the field that such a host needs.
    pub fn for_worker(self) -> Result<Self, SettingsError> {
        let is_given = !self.control_plane.cluster.is_empty();
        require(
            is_given,
            "controlPlane.cluster",
            "the filter asks control planes by it",
        )?;
        Ok(self)
    }

    /// The settings for a host that has one edge for all its workers, and connects to Redis and to control planes by itself. The bounds on visitors,
    /// lookups, forms and clicks of a worker are multiplied by the number of workers.
    ///
    /// # Errors
    /// The [`SettingsError`] that names the field that such a host needs.
    pub fn for_process(self, workers: u32) -> Result<Self, SettingsError> {
        let servers = self.redis.as_ref().map(|redis| &redis.servers.addresses);
        let is_given = servers.is_none_or(|servers| !servers.is_empty());
        require(
            is_given,
            "redis.servers",
            "native modules connect to Redis by themselves",
        )?;
        let is_given = !self.control_plane.servers.addresses.is_empty();
        require(
            is_given,
            "controlPlane.servers",
            "native modules connect to control planes by themselves",
        )?;
        let workers = usize::try_from(workers).unwrap_or(usize::MAX).max(1);
        let of_all = |bound: usize| bound.saturating_mul(workers);
        let redis = self.redis.map(|mut redis| {
            let lookups = &mut redis.lookups;
            lookups.is_flushed = true;
            lookups.has_client = lookups.mode == Mode::Pooled || redis.servers.sentinel.is_some();
            lookups.max_waiting = of_all(lookups.max_waiting);
            lookups.max_unanswered_bytes = of_all(lookups.max_unanswered_bytes);
            redis
        });
        let control_plane = ControlPlane {
            max_pending: of_all(self.control_plane.max_pending),
            max_waiting: of_all(self.control_plane.max_waiting),
            ..self.control_plane
        };
        // The workers have one common cache, so that they need no slots to share records.
        Ok(Self {
            slots: 0,
            redis,
            control_plane,
            clicks: self.clicks.map(|clicks| clicks.of_all(of_all)),
            max_limited_links: of_all(self.max_limited_links),
            max_forms: of_all(self.max_forms),
            ..self
        })
    }

    /// True if a feed is followed.
    #[must_use]
    pub fn has_feed(&self) -> bool {
        self.background.poll.is_some()
    }

    /// The path as it would be if the host had only links. `None` if it does not belong to the links.
    pub(crate) fn plain_path<'p>(&self, path: &'p [u8]) -> Option<Cow<'p, [u8]>> {
        match &self.paths {
            Some(paths) => paths.plain(path),
            None => Some(Cow::Borrowed(path)),
        }
    }

    /// The prefix of codes in paths.
    pub(crate) fn prefix(&self) -> &str {
        self.paths
            .as_ref()
            .map_or("/", |paths| paths.prefix.as_str())
    }

    /// Cluster and servers of the control planes whose feed is followed; `None` without a feed.
    pub(crate) fn feed_source(&self) -> Option<(&str, &[ServerAddress])> {
        let control_plane = &self.control_plane;
        let source = (
            control_plane.cluster.as_str(),
            control_plane.servers.addresses.as_slice(),
        );
        self.background.poll.as_ref().map(|_| source)
    }
}

impl Written {
    /// Checks values against each other.
    fn check(&self, problems: &mut Problems) {
        self.check_domains(problems);
        let fresh = self.fresh_seconds;
        if self.stale_seconds < fresh.max(self.absent_fresh_seconds) {
            let must = "must be at least freshSeconds and absentFreshSeconds";
            problems.refuse("staleSeconds", must);
        }
        self.control_plane.check(problems);
        if let Some(redis) = &self.redis {
            redis.check(problems);
        }
        let edge_name = self.edge_name.as_ref();
        if edge_name.is_some_and(|name| clicks::edge_name(name.0.as_bytes()).is_none()) {
            problems.refuse("edgeName", "must be 1 to 64 visible ASCII characters");
        }
        self.check_poll(problems);
        self.check_admission(problems);
        self.check_api_domains(problems);
        if let Some(clicks) = &self.clicks
            && clicks.max_unsent_bytes < clicks.least_unsent_bytes()
        {
            let must = "must be at least clicks.maxBytes + 2 x clicks.maxEventBytes (attributes) \
                            + clicks.maxOrphanBytes (orphans)";
            problems.refuse("clicks.maxUnsentBytes", must);
        }
        self.check_attributes(problems);
        self.check_geo(problems);
    }

    fn check_domains(&self, problems: &mut Problems) {
        if self.domains.is_empty() || self.domains.len() > MAX_DOMAINS {
            problems.refuse("domains", "must be a list of 1 to 1000 hosts");
            return;
        }
        let mut sorted: Vec<&str> = self.domains.iter().map(Domain::as_str).collect();
        sorted.sort_unstable();
        let twice = sorted.windows(2).find_map(|pair| match pair {
            [one, other] if one == other => Some(*one),
            _ => None,
        });
        if let Some(twice) = twice {
            let reason = format!("must not have duplicates; '{twice}' is one");
            problems.refuse("domains", reason);
        }
    }

    fn check_poll(&self, problems: &mut Problems) {
        let Some(poll) = &self.poll else {
            return;
        };
        if u64::from(poll.wait_millis) * 2 > self.fresh_seconds * 1_000 {
            problems.refuse("poll.waitMs", "must be at most half of freshSeconds");
        }
        if self.lru.max_bytes < FEED_LRU_BYTES {
            problems.refuse("lru.maxBytes", "must be at least 1048576 with poll");
        }
    }

    /// Checks that the sources of attributes are configured.
    fn check_attributes(&self, problems: &mut Problems) {
        let attributes = self.clicks.as_ref().map(|clicks| &clicks.attributes);
        for (attribute, header, name) in [
            (
                Attribute::Country,
                &self.geo.country_header,
                "geo.countryHeader",
            ),
            (Attribute::City, &self.geo.city_header, "geo.cityHeader"),
        ] {
            if header.is_none() && attributes.is_some_and(|all| all.contains(&attribute)) {
                let reason = format!("{} requires {name}", attribute.word());
                problems.refuse("clicks.attributes", reason);
            }
        }
    }

    /// Checks that no header is used twice: an event would have only one of the values.
    fn check_geo(&self, problems: &mut Problems) {
        const TAKEN: [&str; 5] = ["user-agent", "referer", "accept-language", "dnt", "sec-gpc"];
        let geo = &self.geo;
        let name = |header: &Option<HeaderText>| {
            header.as_ref().map(|header| header.0.to_ascii_lowercase())
        };
        let (country, city) = (name(&geo.country_header), name(&geo.city_header));
        for (place, header) in [("geo.countryHeader", &country), ("geo.cityHeader", &city)] {
            if header.as_deref().is_some_and(|name| TAKEN.contains(&name)) {
                problems.refuse(place, "must be a header that has no other use");
            }
        }
        if country.is_some() && country == city {
            problems.refuse("geo.cityHeader", "must not be geo.countryHeader");
        }
    }

    fn check_api_domains(&self, problems: &mut Problems) {
        if !self.api_domains {
            return;
        }
        if self.snapshot.is_none() || self.poll.is_none() {
            problems.refuse(
                "apiDomains",
                "must be left out, or given with snapshot and poll",
            );
        }
        if self.unknown_hosts == UnknownHosts::Pass {
            // A request that has waited can no longer pass.
            problems.refuse("unknownHosts", "must not be pass with apiDomains");
        }
    }

    /// Checks that admission tolerates a feed that is silent for the length of a poll.
    fn check_admission(&self, problems: &mut Problems) {
        let Some(admission) = &self.admission else {
            return;
        };
        let polled = self.poll.as_ref().map(|poll| u64::from(poll.wait_millis));
        match polled.filter(|_| self.snapshot.is_some()) {
            None => {
                let must = "must be left out, or given with snapshot and poll";
                problems.refuse("admission", must);
            }
            Some(period) if admission.max_silence_seconds * 1_000 < period * 2 => {
                let must = "must be at least twice poll.waitMs";
                problems.refuse("admission.maxSilenceSeconds", must);
            }
            Some(_) => {}
        }
    }
}

impl ClicksSection {
    /// Clicks that are in no batch yet come from all workers, so their bounds are multiplied, up to one batch of each kind. The
    /// number of unsent batches too, for each worker has its own. The bound of their bytes stays, unless it is below the minimum.
    fn of_all(self, of_all: impl Fn(usize) -> usize) -> Self {
        let of_batch = |bound| of_all(bound).min(events::MAX_BYTES);
        let mut clicks = Self {
            max_bytes: of_all(self.max_bytes),
            max_event_bytes: of_batch(self.max_event_bytes),
            max_orphan_bytes: of_batch(self.max_orphan_bytes),
            max_unsent: of_all(self.max_unsent),
            ..self
        };
        clicks.max_unsent_bytes = clicks.max_unsent_bytes.max(clicks.least_unsent_bytes());
        clicks
    }

    /// Minimum for unsent batches: one full batch of each kind, and events that come while it is in flight. With less, no events
    /// would arrive even while the control plane answers.
    fn least_unsent_bytes(&self) -> usize {
        let events = if self.attributes.is_empty() {
            0
        } else {
            2 * self.max_event_bytes
        };
        let orphans = if self.orphans {
            self.max_orphan_bytes
        } else {
            0
        };
        self.max_bytes + events + orphans
    }
}

impl From<Written> for Settings {
    fn from(written: Written) -> Self {
        let control_plane = ControlPlane::from(written.control_plane);
        let background = BackgroundSettings {
            snapshot: written.snapshot,
            poll: written.poll.map(|poll| PollSettings {
                wait_millis: poll.wait_millis,
                timeout_millis: poll.wait_millis + control_plane.timeout_millis,
                max_backoff_millis: poll.max_backoff_millis,
            }),
            admission_silence_millis: written
                .admission
                .map(|admission| admission.max_silence_seconds * 1_000),
        };
        Self {
            domains: DomainSet::new(written.domains),
            unknown_hosts: written.unknown_hosts,
            paths: LinkPaths::unless_plain(written.prefix, written.trailing_slash),
            unknown_codes: written.unknown_codes,
            api_domains: written.api_domains,
            edge_name: written.edge_name.map(|name| name.0),
            control_plane,
            redis: written.redis.map(RedisSettings::from),
            background,
            clicks: written.clicks,
            max_limited_links: written.visits.max_links,
            max_forms: MAX_FORMS,
            limit: written.limit,
            lru_max_bytes: written.lru.max_bytes,
            slots: written.shared_data.slots,
            max_value_bytes: written.shared_data.max_value_bytes,
            lifetimes: Lifetimes {
                fresh_millis: written.fresh_seconds * 1_000,
                absent_fresh_millis: written.absent_fresh_seconds * 1_000,
                with_feed_millis: written.fresh_with_feed_seconds * 1_000,
                stale_millis: written.stale_seconds * 1_000,
            },
            retry_after_millis: u64::from(written.retry_after_seconds) * 1_000,
            retry_after: written.retry_after_seconds.to_string(),
            describe: written.describe,
            ready_path: written.ready_path.map(|path| path.0),
            tier_header: written.tier_header,
            tick_millis: written.tick_millis,
            pages: written.pages.into(),
            geo: written.geo.into(),
            forward_paths: written.forward_paths,
            noindex: written.noindex,
        }
    }
}

impl From<GeoSection> for GeoHeaders {
    fn from(section: GeoSection) -> Self {
        let name = |header: Option<HeaderText>| header.map(|name| name.0.to_ascii_lowercase());
        Self {
            country: name(section.country_header),
            city: name(section.city_header),
        }
    }
}

impl From<PagesSection> for Pages {
    fn from(section: PagesSection) -> Self {
        let page = |own: Option<Html>, built_in: &str| own.map_or(built_in.into(), |html| html.0);
        Self {
            not_found: page(section.not_found, NOT_FOUND),
            gone: page(section.gone, GONE),
            unavailable: page(section.unavailable, UNAVAILABLE),
            password: Notice::Locked.page().into(),
        }
    }
}

const NOT_FOUND: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Not found</title><h1>Not found</h1><p>There is no such short link.\n";
const GONE: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Gone</title><h1>Gone</h1><p>This short link is no longer valid.\n";
const UNAVAILABLE: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Unavailable</title><h1>Please try again</h1><p>The short link could not be looked up.\n";

#[cfg(test)]
mod tests;
