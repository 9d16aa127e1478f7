//! From queued reports to clicks: decodes them, finds their links, and parses user agents.

use super::agents;
use super::engine::Chunk;
use super::links::{FoundLinks, LinkResolver};
use super::model::{Agent, Click, Described, Orphan};
use crate::clicks::BatchTimes;
use crate::clock;
use crate::store::{ClickedDomain, QueuedReport, StoreError};
use crate::tenancy::FIRST_TENANT;
use edgelink_wire::RecordError;
use edgelink_wire::clicks::events::{Event, Events, Kind, MAX_TEXT};
use edgelink_wire::clicks::{ClickBatch, decode};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The status that an orphan visit is answered with.
const NOT_FOUND: u16 = 404;

type Map<K, V> = HashMap<K, V, RandomState>;

/// Reports as clicks.
pub(super) struct Read {
    /// The clicks, and the rows that they are of.
    pub(super) chunk: Chunk,
    /// Reports that make no sense.
    pub(super) malformed: Vec<(u64, RecordError)>,
    /// How many reports were read.
    pub(super) reports: usize,
}

/// Reads the first reports, until they have `most` clicks, orphan visits included: those of a single report or insert may be more.
///
/// # Errors
/// The links cannot be looked up.
pub(super) async fn read(
    reports: &[QueuedReport],
    resolver: &LinkResolver,
    most: usize,
) -> Result<Read, StoreError> {
    let mut malformed = Vec::new();
    let mut reading = Reading::default();
    let mut count = 0;
    for report in reports {
        match decode(&report.body) {
            Ok(batches) => {
                // Those of an insert are written together again, and no others with them.
                let is_full = match report.insert_id {
                    None => reading.len() + events(&batches) > most,
                    Some(_) => false,
                };
                let is_other = report.insert_id != reading.insert_id;
                if (is_full || is_other) && !reading.rows.is_empty() {
                    break;
                }
                reading.add(report, &batches);
            }
            Err(error) => malformed.push((report.id, error)),
        }
        count += 1;
    }
    Ok(Read {
        chunk: reading.finish(resolver).await?,
        malformed,
        reports: count,
    })
}

/// Reads a report that has just come in, for those who listen.
///
/// # Errors
/// The links cannot be looked up.
pub(crate) async fn read_live(
    report: &[u8],
    resolver: &LinkResolver,
) -> Result<Vec<Click>, StoreError> {
    let report = QueuedReport {
        id: 0,
        received_at: clock::unix_millis(),
        body: report.to_vec(),
        insert_id: None,
    };
    let Read { chunk, .. } = read(&[report], resolver, usize::MAX).await?;
    Ok(chunk.clicks)
}

/// About how many clicks and orphan visits there are.
fn events(batches: &[ClickBatch<'_>]) -> usize {
    let of = |batch: &ClickBatch<'_>| {
        let events = usize::try_from(batch.events.clicks).unwrap_or(usize::MAX);
        batch.clicks.len().saturating_add(events)
    };
    batches.iter().map(of).fold(0, usize::saturating_add)
}

/// The beginning of a text, in whole characters.
pub(super) fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// The host of `{host}/{path}`.
pub(super) fn host(url: &str) -> &str {
    url.split_once('/').map_or(url, |(host, _)| host)
}

fn unknown_hosts<'a>(keys: &'a [Arc<str>], links: &FoundLinks) -> impl Iterator<Item = &'a str> {
    let unknown = keys.iter().filter(|key| !links.contains_key(*key));
    unknown.map(|key| host(key))
}

/// Clicks whose links are not known yet. Texts that are the same share their memory.
#[derive(Default)]
struct Reading {
    rows: Vec<u64>,
    insert_id: Option<u64>,
    clicks: Vec<Click>,
    orphans: Vec<Orphan>,
    texts: HashSet<Arc<str>, RandomState>,
    keys: HashSet<Arc<str>, RandomState>,
    /// By the address of the text.
    agents: Map<usize, Arc<Agent>>,
    none: Arc<str>,
    no_tags: Arc<[String]>,
}

/// The texts of a batch, by their addresses.
type Texts = Map<usize, Arc<str>>;

impl Reading {
    fn len(&self) -> usize {
        self.clicks.len() + self.orphans.len()
    }

    /// The clicks with their links.
    async fn finish(mut self, resolver: &LinkResolver) -> Result<Chunk, StoreError> {
        let keys: Vec<Arc<str>> = self.keys.iter().cloned().collect();
        let links = resolver.links(&keys).await?;
        let hosts = self.orphans.iter().map(|orphan| host(&orphan.url));
        let hosts: HashSet<&str> = hosts.chain(unknown_hosts(&keys, &links)).collect();
        let hosts: Vec<&str> = hosts.into_iter().collect();
        let domains = resolver.domains(&hosts).await?;
        self.find(&links, &domains);
        Ok(Chunk {
            rows: self.rows,
            clicks: self.clicks,
            orphans: self.orphans,
            insert_id: self.insert_id,
        })
    }

    fn add(&mut self, report: &QueuedReport, batches: &[ClickBatch<'_>]) {
        self.rows.push(report.id);
        self.insert_id = report.insert_id;
        for batch in batches {
            let times = BatchTimes::new(batch.at, report.received_at / 1000);
            for (key, count) in &batch.clicks {
                let key = self.key(key);
                self.click(key, times.at, *count, None);
            }
            // It was read as a whole when the report came in, and when it was decoded.
            let Ok(events) = Events::decode(batch.events.bytes) else {
                continue;
            };
            let texts = events.texts().iter();
            let texts: Texts = texts
                .map(|text| (text.as_ptr() as usize, self.text(text)))
                .collect();
            for event in events.flatten() {
                self.event(&event, &texts, times.of(event.at));
            }
        }
    }

    fn event(&mut self, event: &Event<&str>, texts: &Texts, at: u64) {
        let described = Box::new(self.described(event, texts));
        let key = self.of(event.key, texts);
        match event.kind {
            Kind::Redirect(_) => {
                self.keys.insert(Arc::clone(&key));
                self.click(key, at, 1, Some(described));
            }
            Kind::Orphan(kind) => self.orphans.push(Orphan {
                at,
                kind,
                tenant_id: FIRST_TENANT,
                domain_id: 0,
                url: key,
                described,
            }),
        }
    }

    fn click(&mut self, key: Arc<str>, at: u64, count: u64, described: Option<Box<Described>>) {
        if count > 0 {
            self.clicks.push(Click {
                at,
                count,
                link_id: 0,
                tenant_id: 0,
                domain_id: 0,
                key,
                tags: Arc::clone(&self.no_tags),
                described,
            });
        }
    }

    fn described(&mut self, event: &Event<&str>, texts: &Texts) -> Described {
        let attributes = &event.attributes;
        let country = self.of(attributes.country, texts);
        let referrer = self.of(attributes.referrer, texts);
        let language = self.of(attributes.language, texts);
        let user_agent = self.of(attributes.user_agent, texts);
        Described {
            status: match event.kind {
                Kind::Redirect(status) => status.code(),
                Kind::Orphan(_) => NOT_FOUND,
            },
            rule: event.rule,
            country: self.changed(country, u8::is_ascii_lowercase, str::to_ascii_uppercase),
            city: self.of(attributes.city, texts),
            agent: self.agent(&user_agent),
            user_agent,
            referrer: self.changed(referrer, u8::is_ascii_uppercase, str::to_ascii_lowercase),
            language: self.changed(language, u8::is_ascii_uppercase, str::to_ascii_lowercase),
            utm: attributes.utm.map(|text| self.of(text, texts)),
            visitor: event.visitor,
            id: event.id,
        }
    }

    /// The text, changed if it has such bytes.
    fn changed(
        &mut self,
        text: Arc<str>,
        is_wrong: impl Fn(&u8) -> bool,
        change: impl Fn(&str) -> String,
    ) -> Arc<str> {
        match text.bytes().any(|byte| is_wrong(&byte)) {
            true => self.text(&change(&text)),
            false => text,
        }
    }

    fn agent(&mut self, user_agent: &Arc<str>) -> Arc<Agent> {
        let address = user_agent.as_ptr() as usize;
        let agent = self.agents.entry(address);
        Arc::clone(agent.or_insert_with(|| agents::parse(user_agent)))
    }

    /// The text of an event.
    fn of(&self, text: &str, texts: &Texts) -> Arc<str> {
        let known = texts.get(&(text.as_ptr() as usize));
        let known = known.filter(|_| !text.is_empty());
        Arc::clone(known.unwrap_or(&self.none))
    }

    fn key(&mut self, key: &str) -> Arc<str> {
        let key = self.text(key);
        self.keys.insert(Arc::clone(&key));
        key
    }

    /// The text, with the memory of the same one before.
    fn text(&mut self, text: &str) -> Arc<str> {
        // No value begins with a zero byte.
        let text = cut(text.trim_start_matches('\0'), MAX_TEXT);
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new = Arc::<str>::from(text);
        self.texts.insert(Arc::clone(&new));
        new
    }

    /// Gives clicks and orphan visits their links, domains and tenants.
    fn find(&mut self, links: &FoundLinks, domains: &HashMap<Arc<str>, ClickedDomain>) {
        for click in &mut self.clicks {
            if let Some(link) = links.get(&click.key) {
                click.link_id = link.id;
                click.tenant_id = link.tenant_id;
                click.domain_id = link.domain_id;
                click.tags = Arc::clone(&link.tags);
            } else if let Some(domain) = domains.get(host(&click.key)) {
                click.domain_id = domain.id;
            }
        }
        for orphan in &mut self.orphans {
            if let Some(domain) = domains.get(host(&orphan.url)) {
                orphan.domain_id = domain.id;
                orphan.tenant_id = domain.tenant_id.unwrap_or(FIRST_TENANT);
            }
        }
    }
}
