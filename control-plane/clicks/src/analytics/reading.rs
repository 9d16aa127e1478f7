//! Decodes queued reports into clicks, finds their links, and parses user agents.

use super::chunk::{Chunk, FollowedLink, NewClick, TEXTS, UTMS};
use super::links::LinkResolver;
use super::model::{Click, Described, Orphan};
use crate::BatchTimes;
use edgelink_click_store::QueuedReport;
use edgelink_model::clock;
use edgelink_model::runtime::aside;
use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_store::{ClickedDomain, StoreError};
use edgelink_wire::RecordError;
use edgelink_wire::clicks::attributes::EMPTY;
use edgelink_wire::clicks::events::{Event, Events, Kind, MAX_TEXT, OrphanKind};
use edgelink_wire::clicks::{ClickBatch, decode_frames};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Status of the response to an orphan visit.
const NOT_FOUND: u16 = 404;

/// Number not assigned yet.
const UNSET: u32 = u32::MAX;

/// Decoded reports.
pub(super) struct Read {
    /// The clicks and the rows that they come from.
    pub(super) chunk: Chunk,
    /// Reports that do not decode.
    pub(super) malformed: Vec<(u64, RecordError)>,
    /// Number of reports read.
    pub(super) reports: usize,
}

/// Reads the first reports until they have `most` clicks, orphan visits included; a single report or insert may have more.
///
/// # Errors
/// The links cannot be looked up.
pub(super) async fn read(
    reports: &[QueuedReport],
    resolver: &LinkResolver,
    most: usize,
) -> Result<Read, StoreError> {
    let mut read = aside(|| decode(reports, most));
    find(&mut read.chunk, resolver).await?;
    Ok(read)
}

/// Reads a report that has just arrived, for live subscribers.
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
    Ok(chunk.clicks())
}

fn decode(reports: &[QueuedReport], most: usize) -> Read {
    let mut reading = UnresolvedClicks::new();
    let mut malformed = Vec::new();
    let mut count = 0;
    for report in reports {
        match open(&report.body) {
            Ok(batches) => {
                // The reports of an insert are written together again, and no others with them.
                let is_full = match report.insert_id {
                    None => {
                        reading.len() + batches.iter().map(OpenBatch::len).sum::<usize>() > most
                    }
                    Some(_) => false,
                };
                let is_other = report.insert_id != reading.chunk.insert_id;
                if (is_full || is_other) && !reading.chunk.rows.is_empty() {
                    break;
                }
                if let Err(error) = reading.add(report, batches) {
                    malformed.push((report.id, error));
                }
            }
            Err(error) => malformed.push((report.id, error)),
        }
        count += 1;
    }
    Read {
        chunk: reading.chunk,
        malformed,
        reports: count,
    }
}

/// A batch whose events are not decoded yet.
struct OpenBatch<'a> {
    frame: ClickBatch<'a>,
    events: Events<'a>,
}

impl<'a> OpenBatch<'a> {
    fn new(frame: ClickBatch<'a>) -> Result<Self, RecordError> {
        let events = Events::decode(frame.events.bytes)?;
        Ok(Self { frame, events })
    }

    /// Number of its rows.
    fn len(&self) -> usize {
        self.frame.clicks.len() + self.events.left()
    }
}

fn open(body: &[u8]) -> Result<Vec<OpenBatch<'_>>, RecordError> {
    let frames = decode_frames(body)?.into_iter();
    frames.map(OpenBatch::new).collect()
}

/// Truncates a text at a character boundary.
pub(super) fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// The host of `{host}/{path}`.
pub(super) fn host(url: &str) -> &str {
    url.split_once('/').map_or(url, |(host, _)| host)
}

/// Clicks whose links are not resolved yet.
struct UnresolvedClicks {
    chunk: Chunk,
    /// Index of the link, by the text of its key.
    links: HashMap<u32, u32, RandomState>,
    /// Index of the user agent, by its text.
    agents: HashMap<u32, u32, RandomState>,
}

/// A text of a batch, and its numbers in the chunk, which are looked up on first use.
#[derive(Clone, Copy)]
struct BatchText<'a> {
    text: &'a str,
    plain: u32,
    upper: u32,
    lower: u32,
    link: u32,
    agent: u32,
}

/// The texts of a batch, by their numbers.
struct BatchTexts<'a>(Vec<BatchText<'a>>);

impl<'a> BatchTexts<'a> {
    fn new(texts: &[&'a str]) -> Self {
        let text = |text| BatchText {
            text,
            plain: UNSET,
            upper: UNSET,
            lower: UNSET,
            link: UNSET,
            agent: UNSET,
        };
        Self(
            std::iter::once("")
                .chain(texts.iter().copied())
                .map(text)
                .collect(),
        )
    }

    fn get(&mut self, number: u32) -> Option<&mut BatchText<'a>> {
        self.0.get_mut(number as usize)
    }
}

impl UnresolvedClicks {
    fn new() -> Self {
        Self {
            chunk: Chunk::empty(),
            links: HashMap::default(),
            agents: HashMap::from_iter([(0, 0)]),
        }
    }

    fn len(&self) -> usize {
        self.chunk.clicks.len() + self.chunk.orphans.len()
    }

    /// Adds all of a report, or nothing.
    fn add(
        &mut self,
        report: &QueuedReport,
        batches: Vec<OpenBatch<'_>>,
    ) -> Result<(), RecordError> {
        let before = (self.chunk.clicks.len(), self.chunk.orphans.len());
        for OpenBatch { frame, events } in batches {
            let times = BatchTimes::new(frame.at, report.received_at / 1000);
            for (key, count) in &frame.clicks {
                self.count(key, times.at, *count);
            }
            if let Err(error) = self.add_events(events, times) {
                self.chunk.clicks.truncate(before.0);
                self.chunk.orphans.truncate(before.1);
                return Err(error);
            }
        }
        self.chunk.rows.push(report.id);
        self.chunk.insert_id = report.insert_id;
        Ok(())
    }

    fn add_events(&mut self, mut events: Events<'_>, times: BatchTimes) -> Result<(), RecordError> {
        let mut texts = BatchTexts::new(events.texts());
        while let Some(event) = events.next_numbered() {
            let event = event?;
            let at = times.of(event.at);
            let click = self.described(&event, &mut texts, at);
            match event.kind {
                Kind::Redirect(_) => {
                    let link = self.link_of(event.key, &mut texts);
                    self.chunk.clicks.push(&NewClick { link, ..click });
                }
                Kind::Orphan(kind) => {
                    let url = self.plain(event.key, &mut texts);
                    self.add_orphan(kind, url, &click);
                }
            }
        }
        Ok(())
    }

    /// Adds clicks of a link without attributes.
    fn count(&mut self, key: &str, at: u64, count: u64) {
        if count > 0 {
            let key = self.text(key);
            let link = self.link(key);
            self.chunk.clicks.push(&NewClick {
                at,
                count,
                link,
                ..NewClick::default()
            });
        }
    }

    fn described(&mut self, event: &Event<u32>, texts: &mut BatchTexts<'_>, at: u64) -> NewClick {
        let attributes = &event.attributes;
        let mut columns = [0; TEXTS];
        columns[0] = self.upper(attributes.country, texts);
        columns[1] = self.plain(attributes.city, texts);
        columns[2] = self.lower(attributes.referrer, texts);
        columns[3] = self.lower(attributes.language, texts);
        for (column, text) in columns[UTMS..].iter_mut().zip(attributes.utm) {
            *column = self.plain(text, texts);
        }
        NewClick {
            at,
            count: 1,
            link: 0,
            agent: self.agent_of(attributes.user_agent, texts),
            status: match event.kind {
                Kind::Redirect(status) => status.code(),
                Kind::Orphan(_) => NOT_FOUND,
            },
            rule: event.rule,
            is_described: true,
            texts: columns,
            visitor: event.visitor,
            id: event.id,
        }
    }

    fn add_orphan(&mut self, kind: OrphanKind, url: u32, click: &NewClick) {
        let texts = &self.chunk.texts;
        let [country, city, referrer, language, utm @ ..] =
            click.texts.map(|text| texts.shared(text));
        let utm = utm.map(|text| {
            if *text == *EMPTY {
                Arc::default()
            } else {
                text
            }
        });
        let user_agent = &self.chunk.agents[click.agent as usize];
        let described = Described {
            status: click.status,
            rule: click.rule,
            country,
            city,
            user_agent: texts.shared(user_agent.text),
            agent: Arc::clone(&user_agent.agent),
            referrer,
            language,
            utm,
            visitor: click.visitor,
            id: click.id,
        };
        self.chunk.orphans.push(Orphan {
            at: click.at,
            kind,
            tenant_id: FIRST_TENANT,
            domain_id: 0,
            url: texts.shared(url),
            described: Box::new(described),
        });
    }

    fn plain(&mut self, number: u32, texts: &mut BatchTexts<'_>) -> u32 {
        let Some(text) = texts.get(number).filter(|_| number > 0) else {
            return 0;
        };
        if text.plain == UNSET {
            text.plain = self.text(text.text);
        }
        text.plain
    }

    fn upper(&mut self, number: u32, texts: &mut BatchTexts<'_>) -> u32 {
        let Some(text) = texts.get(number).filter(|_| number > 0) else {
            return 0;
        };
        if text.upper == UNSET {
            text.upper = self.text(&text.text.to_ascii_uppercase());
        }
        text.upper
    }

    fn lower(&mut self, number: u32, texts: &mut BatchTexts<'_>) -> u32 {
        let Some(text) = texts.get(number).filter(|_| number > 0) else {
            return 0;
        };
        if text.lower == UNSET {
            text.lower = self.text(&text.text.to_ascii_lowercase());
        }
        text.lower
    }

    fn link_of(&mut self, number: u32, texts: &mut BatchTexts<'_>) -> u32 {
        let key = self.plain(number, texts);
        match texts.get(number) {
            Some(text) if text.link != UNSET => text.link,
            Some(text) => {
                text.link = self.link(key);
                text.link
            }
            None => self.link(key),
        }
    }

    fn agent_of(&mut self, number: u32, texts: &mut BatchTexts<'_>) -> u32 {
        let user_agent = self.plain(number, texts);
        match texts.get(number) {
            Some(text) if text.agent != UNSET => text.agent,
            Some(text) => {
                text.agent = self.agent(user_agent);
                text.agent
            }
            None => 0,
        }
    }

    fn link(&mut self, key: u32) -> u32 {
        let links = &mut self.chunk.links;
        *self.links.entry(key).or_insert_with(|| {
            let place = u32::try_from(links.len()).unwrap_or(0);
            links.push(FollowedLink::unknown(key));
            place
        })
    }

    fn agent(&mut self, text: u32) -> u32 {
        let chunk = &mut self.chunk;
        let place = self.agents.entry(text);
        *place.or_insert_with(|| chunk.parse_agent(text))
    }

    fn text(&mut self, text: &str) -> u32 {
        // No value begins with a zero byte.
        let text = cut(text.trim_start_matches('\0'), MAX_TEXT);
        self.chunk.texts.number(text)
    }
}

/// Resolves links, domains and tenants of clicks and orphan visits, and the campaigns of clicks' targets.
async fn find(chunk: &mut Chunk, resolver: &LinkResolver) -> Result<(), StoreError> {
    let Chunk {
        clicks,
        links,
        texts,
        orphans,
        ..
    } = chunk;
    let keys: Vec<Arc<str>> = links.iter().map(|link| texts.shared(link.key)).collect();
    let found = resolver.links(&keys).await?;
    let unknown = keys.iter().filter(|key| !found.contains_key(*key));
    let hosts = orphans.iter().map(|orphan| &*orphan.url);
    let hosts: HashSet<&str> = hosts.chain(unknown.map(|key| &**key)).map(host).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let domains: HashMap<Arc<str>, ClickedDomain> = resolver.domains(&hosts).await?;
    for (link, key) in links.iter_mut().zip(&keys) {
        match (found.get(key), domains.get(host(key))) {
            (Some(known), _) => link.is(known, texts),
            (None, Some(domain)) => link.is_on(*domain),
            (None, None) => {}
        }
    }
    clicks.take_campaigns(links, texts.find(EMPTY));
    for orphan in orphans {
        if let Some(domain) = domains.get(host(&orphan.url)) {
            orphan.domain_id = domain.id;
            orphan.tenant_id = domain.tenant_id.unwrap_or(FIRST_TENANT);
        }
    }
    Ok(())
}
