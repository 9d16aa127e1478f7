//! Clicks that are written together, in columns: each text is stored once, and rows hold its number.

use super::agents;
use super::model::{Agent, Click, Described, Orphan};
use edgelink_model::counts::rollup::Tally;
use edgelink_store::{ClickedDomain, ClickedLink};
use edgelink_wire::click_id::ClickId;
use edgelink_wire::clicks::events::UTM;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::Instant;

/// Number of text columns: country, city, referrer, language, UTM parameters.
pub(super) const TEXTS: usize = 4 + UTM;

/// The column of the first UTM parameter.
pub(super) const UTMS: usize = 4;

type Map<K, V> = HashMap<K, V, RandomState>;

/// Rows of the click queue that are written together: all of them or none, and once.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// The rows of the queue, ascending. Writing removes them in its transaction.
    pub rows: Vec<u64>,
    /// Id of the external insert with which the rows are marked; `None` if they are not.
    pub insert_id: Option<u64>,
    /// Deadline for sending it to an external engine; `None` for no limit. A writer that was paused beyond its lease would otherwise send
    /// clicks that its successor has written long before.
    pub send_until: Option<Instant>,
    /// The clicks in them.
    pub(super) clicks: Columns,
    /// The clicked links.
    pub(super) links: Vec<FollowedLink>,
    /// The user agents; the first one is empty.
    pub(super) agents: Vec<UserAgent>,
    pub(super) texts: Texts,
    /// The orphan visits in them.
    pub(super) orphans: Vec<Orphan>,
}

/// Texts by their numbers; the empty text is 0.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    all: Vec<Arc<str>>,
    numbers: Map<Arc<str>, u32>,
}

/// A clicked link, or a key without a link.
#[derive(Clone, Debug)]
pub(super) struct FollowedLink {
    /// The text of its key, `{domain}/{code}`.
    pub(super) key: u32,
    /// The number of the link; 0 if there is none.
    pub(super) link_id: u64,
    /// Its tenant; 0 if there is no link.
    pub(super) tenant_id: u32,
    /// The domain; 0 if it is unknown.
    pub(super) domain_id: u32,
    pub(super) tags: Arc<[String]>,
    /// UTM parameters of its target, then of its rules' targets; empty if there are none.
    campaigns: Vec<[u32; UTM]>,
}

/// A user agent and the texts of its classification.
#[derive(Clone, Debug, Default)]
pub(super) struct UserAgent {
    pub(super) text: u32,
    pub(super) agent: Arc<Agent>,
    pub(super) device: u32,
    pub(super) browser: u32,
    pub(super) os: u32,
}

/// Rows of one click with attributes, or of several clicks of a link without; all columns are equally long.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    /// Unix seconds.
    pub(super) at: Vec<u64>,
    /// Number of clicks; 1 for a click with attributes.
    pub(super) count: Vec<u64>,
    /// Index of the link.
    pub(super) link: Vec<u32>,
    /// Index of the user agent; 0 for none.
    pub(super) agent: Vec<u32>,
    /// 0 for clicks without attributes.
    pub(super) status: Vec<u16>,
    pub(super) rule: Vec<u8>,
    pub(super) is_described: Vec<bool>,
    pub(super) texts: [Vec<u32>; TEXTS],
    /// 0 unless [`Columns::has_visitor`] is set.
    pub(super) visitor: Vec<u64>,
    pub(super) has_visitor: Vec<bool>,
    /// Ids with their rows, ascending.
    pub(super) ids: Vec<(usize, ClickId)>,
}

/// A row of [`Columns`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NewClick {
    pub(super) at: u64,
    pub(super) count: u64,
    pub(super) link: u32,
    pub(super) agent: u32,
    pub(super) status: u16,
    pub(super) rule: u8,
    pub(super) is_described: bool,
    pub(super) texts: [u32; TEXTS],
    pub(super) visitor: Option<u64>,
    pub(super) id: Option<ClickId>,
}

impl Default for Texts {
    fn default() -> Self {
        let none = Arc::<str>::default();
        Self {
            all: vec![Arc::clone(&none)],
            numbers: Map::from_iter([(none, 0)]),
        }
    }
}

impl Texts {
    /// The number of a text, which is added if it is missing.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        match self.numbers.get(text) {
            Some(number) => *number,
            None => self.add(text.into()),
        }
    }

    fn number_of(&mut self, text: &Arc<str>) -> u32 {
        match self.numbers.get(text) {
            Some(number) => *number,
            None => self.add(Arc::clone(text)),
        }
    }

    fn add(&mut self, text: Arc<str>) -> u32 {
        // A chunk has fewer bytes than that.
        let number = u32::try_from(self.all.len()).unwrap_or(0);
        self.all.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    /// The number of a text; `None` if it is missing.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    /// The text of a number.
    pub(super) fn get(&self, number: u32) -> &str {
        self.all.get(number as usize).map_or("", |text| text)
    }

    /// Shares the text of a number.
    pub(super) fn shared(&self, number: u32) -> Arc<str> {
        self.all.get(number as usize).cloned().unwrap_or_default()
    }

    /// All of them, by their numbers.
    pub(super) fn all(&self) -> &[Arc<str>] {
        &self.all
    }
}

impl FollowedLink {
    /// Creates the entry of a key whose link is unknown.
    pub(super) fn unknown(key: u32) -> Self {
        Self {
            key,
            link_id: 0,
            tenant_id: 0,
            domain_id: 0,
            tags: Arc::default(),
            campaigns: Vec::new(),
        }
    }

    /// True if a link or a tombstone has that key.
    pub(super) fn is_known(&self) -> bool {
        self.tenant_id > 0
    }

    pub(super) fn is(&mut self, link: &ClickedLink, texts: &mut Texts) {
        self.link_id = link.id;
        self.tenant_id = link.tenant_id;
        self.domain_id = link.domain_id;
        self.tags = Arc::clone(&link.tags);
        let mut campaign = |lines: &str| {
            let mut numbers = [0; UTM];
            for (number, value) in numbers.iter_mut().zip(lines.split('\n')) {
                *number = texts.number(value);
            }
            numbers
        };
        self.campaigns = link.campaigns.iter().map(|lines| campaign(lines)).collect();
    }

    pub(super) fn is_on(&mut self, domain: ClickedDomain) {
        self.domain_id = domain.id;
    }
}

impl Columns {
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    pub(super) fn push(&mut self, click: &NewClick) {
        if let Some(id) = click.id {
            self.ids.push((self.len(), id));
        }
        self.at.push(click.at);
        self.count.push(click.count);
        self.link.push(click.link);
        self.agent.push(click.agent);
        self.status.push(click.status);
        self.rule.push(click.rule);
        self.is_described.push(click.is_described);
        for (column, text) in self.texts.iter_mut().zip(click.texts) {
            column.push(text);
        }
        self.visitor.push(click.visitor.unwrap_or(0));
        self.has_visitor.push(click.visitor.is_some());
    }

    /// Keeps the first rows.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.at.truncate(rows);
        self.count.truncate(rows);
        self.link.truncate(rows);
        self.agent.truncate(rows);
        self.status.truncate(rows);
        self.rule.truncate(rows);
        self.is_described.truncate(rows);
        for column in &mut self.texts {
            column.truncate(rows);
        }
        self.visitor.truncate(rows);
        self.has_visitor.truncate(rows);
        self.ids.retain(|(row, _)| *row < rows);
    }

    /// Gives clicks with attributes the UTM parameters of their target where the visitor's query had none. `empty` is the number of
    /// the text that stands for a parameter without a value.
    pub(super) fn take_campaigns(&mut self, links: &[FollowedLink], empty: Option<u32>) {
        if empty.is_none() && links.iter().all(|link| link.campaigns.is_empty()) {
            return;
        }
        for row in (0..self.len()).filter(|row| self.is_described[*row]) {
            let campaigns = &links[self.link[row] as usize].campaigns;
            let campaign = campaigns.get(usize::from(self.rule[row]));
            let campaign = campaign.copied().unwrap_or_default();
            for (column, number) in self.texts[UTMS..].iter_mut().zip(campaign) {
                let found = &mut column[row];
                if *found == 0 {
                    *found = number;
                } else if Some(*found) == empty {
                    *found = 0;
                }
            }
        }
    }

    /// The id of a row.
    pub(super) fn id(&self, row: usize) -> Option<&ClickId> {
        let place = self.ids.binary_search_by_key(&row, |(row, _)| *row);
        self.ids.get(place.ok()?).map(|(_, id)| id)
    }
}

impl Chunk {
    /// Creates a chunk of clicks whose links are resolved.
    #[must_use]
    pub fn of(rows: Vec<u64>, clicks: &[Click], orphans: Vec<Orphan>) -> Self {
        let mut chunk = Self {
            rows,
            orphans,
            ..Self::empty()
        };
        let mut links: Map<(u64, &str), u32> = Map::default();
        let mut user_agents: Map<(u32, Agent), u32> = Map::default();
        for click in clicks.iter().filter(|click| click.count > 0) {
            let link = links.entry((click.link_id, &click.key));
            let link = *link.or_insert_with(|| chunk.add_link(click));
            let new = match click.described.as_deref() {
                Some(described) => {
                    let text = chunk.texts.number_of(&described.user_agent);
                    let agent = user_agents.entry((text, (*described.agent).clone()));
                    let agent = *agent.or_insert_with(|| chunk.add_agent(text, &described.agent));
                    chunk.described_click(described, agent)
                }
                None => NewClick::default(),
            };
            chunk.clicks.push(&NewClick {
                at: click.at,
                count: click.count,
                link,
                ..new
            });
        }
        chunk
    }

    /// Creates one without clicks, with the empty user agent.
    pub(super) fn empty() -> Self {
        Self {
            agents: vec![UserAgent::default()],
            ..Self::default()
        }
    }

    fn add_link(&mut self, click: &Click) -> u32 {
        self.links.push(FollowedLink {
            key: self.texts.number_of(&click.key),
            link_id: click.link_id,
            tenant_id: click.tenant_id,
            domain_id: click.domain_id,
            tags: Arc::clone(&click.tags),
            campaigns: Vec::new(),
        });
        last_place(&self.links)
    }

    /// Adds a user agent and returns its index.
    pub(super) fn add_agent(&mut self, text: u32, agent: &Arc<Agent>) -> u32 {
        self.agents.push(UserAgent {
            text,
            device: self.texts.number(agent.device.as_str()),
            browser: self.texts.number_of(&agent.browser),
            os: self.texts.number_of(&agent.os),
            agent: Arc::clone(agent),
        });
        last_place(&self.agents)
    }

    /// Parses and adds a user agent, and returns its index.
    pub(super) fn parse_agent(&mut self, text: u32) -> u32 {
        match text {
            0 => 0,
            _ => self.add_agent(text, &agents::parse(self.texts.get(text))),
        }
    }

    fn described_click(&mut self, described: &Described, agent: u32) -> NewClick {
        let mut texts = [0; TEXTS];
        let all = [
            &described.country,
            &described.city,
            &described.referrer,
            &described.language,
        ];
        for (number, text) in texts.iter_mut().zip(all.into_iter().chain(&described.utm)) {
            *number = self.texts.number_of(text);
        }
        NewClick {
            agent,
            status: described.status,
            rule: described.rule,
            is_described: true,
            texts,
            visitor: described.visitor,
            id: described.id,
            ..NewClick::default()
        }
    }

    /// The clicks, one by one.
    #[must_use]
    pub fn clicks(&self) -> Vec<Click> {
        (0..self.clicks.len()).map(|row| self.click(row)).collect()
    }

    fn click(&self, row: usize) -> Click {
        let link = self.link(row);
        Click {
            at: self.clicks.at[row],
            count: self.clicks.count[row],
            link_id: link.link_id,
            tenant_id: link.tenant_id,
            domain_id: link.domain_id,
            key: self.texts.shared(link.key),
            tags: Arc::clone(&link.tags),
            described: self.described(row).map(Box::new),
        }
    }

    /// The attributes of a click; `None` if it has none.
    pub(super) fn described(&self, row: usize) -> Option<Described> {
        let clicks = &self.clicks;
        if !clicks.is_described[row] {
            return None;
        }
        let text = |column: usize| self.texts.shared(clicks.texts[column][row]);
        let user_agent = &self.agents[clicks.agent[row] as usize];
        Some(Described {
            status: clicks.status[row],
            rule: clicks.rule[row],
            country: text(0),
            city: text(1),
            user_agent: self.texts.shared(user_agent.text),
            agent: Arc::clone(&user_agent.agent),
            referrer: text(2),
            language: text(3),
            utm: std::array::from_fn(|utm| text(UTMS + utm)),
            visitor: clicks.has_visitor[row].then(|| clicks.visitor[row]),
            id: clicks.id(row).copied(),
        })
    }

    /// The link of a row.
    pub(super) fn link(&self, row: usize) -> &FollowedLink {
        &self.links[self.clicks.link[row] as usize]
    }

    /// For each row, true if a bot made it.
    pub(super) fn is_bot(&self) -> impl Iterator<Item = bool> {
        let agents = self.clicks.agent.iter();
        agents.map(|agent| self.agents[*agent as usize].agent.is_bot)
    }

    /// All clicks.
    pub(super) fn sum(&self) -> u64 {
        self.clicks
            .count
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Clicks by link, ordered by id, without clicks that have no link.
    pub(super) fn totals(&self) -> Vec<(u64, Tally)> {
        let mut sums = vec![Tally::default(); self.links.len()];
        let rows = self.clicks.link.iter().zip(&self.clicks.count);
        for ((link, count), is_bot) in rows.zip(self.is_bot()) {
            sums[*link as usize].add(Tally::of_clicks(*count, is_bot));
        }
        let known = self
            .links
            .iter()
            .zip(sums)
            .filter(|(link, _)| link.is_known());
        let mut totals: Vec<(u64, Tally)> = known.map(|(link, sum)| (link.link_id, sum)).collect();
        totals.sort_unstable_by_key(|(link_id, _)| *link_id);
        totals.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1.add(next.1);
            }
            is_same
        });
        totals
    }
}

fn last_place<T>(items: &[T]) -> u32 {
    // A chunk has fewer items than that.
    u32::try_from(items.len().saturating_sub(1)).unwrap_or(0)
}
