//! Realistic clicks: few links have most of them, and so have few values of an attribute.

use edgelink_clicks::analytics::{Agent, Click, Described, Device, Orphan};
use edgelink_wire::clicks::events::OrphanKind;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

const DAY: u64 = 86_400;

/// Texts, the first of which are the most frequent.
struct Texts {
    texts: Vec<Arc<str>>,
    /// Percentage of clicks that have one.
    share: u32,
}

impl Texts {
    fn new(share: u32, count: u64, text: impl Fn(u64) -> String) -> Self {
        let texts = (0..count).map(|each| text(each).into());
        Self {
            texts: texts.collect(),
            share,
        }
    }

    fn one(&self, random: &mut StdRng) -> Arc<str> {
        if random.random_range(0..100) >= self.share {
            return Arc::default();
        }
        self.texts[rank(random, self.texts.len() as u64) as usize].clone()
    }
}

/// A rank below `count`, by Zipf's law: the logarithm is uniform.
fn rank(random: &mut StdRng, count: u64) -> u64 {
    let logarithm = random.random_range(0.0..1.0) * (count as f64 + 1.0).ln();
    (logarithm.exp() as u64 - 1).min(count - 1)
}

/// A link that receives clicks.
pub(crate) struct Link {
    pub(crate) id: u64,
    pub(crate) key: Arc<str>,
    pub(crate) tags: Arc<[String]>,
}

/// Generates clicks.
pub(crate) struct Random {
    random: StdRng,
    domain_id: u32,
    /// By popularity.
    links: Vec<Link>,
    agents: Vec<(Arc<str>, Arc<Agent>)>,
    countries: Texts,
    cities: Texts,
    referrers: Texts,
    languages: Texts,
    utm: [Texts; 5],
}

impl Random {
    /// Prepares clicks of these links, the most popular one first.
    pub(crate) fn new(domain_id: u32, links: Vec<Link>) -> Self {
        let letter = |number: u64| char::from(b'A' + (number % 26) as u8);
        Self {
            random: StdRng::seed_from_u64(13),
            domain_id,
            links,
            agents: agents(),
            countries: Texts::new(98, 120, |n| format!("{}{}", letter(n / 5), letter(n * 7))),
            cities: Texts::new(90, 3_000, |n| format!("City of {n}")),
            referrers: Texts::new(60, 800, |n| format!("www.site{n}.example")),
            languages: Texts::new(97, 40, |n| {
                format!("{}{}", letter(n), letter(n * 3)).to_lowercase()
            }),
            utm: [
                Texts::new(40, 30, |n| format!("source-{n}")),
                Texts::new(40, 10, |n| format!("medium-{n}")),
                Texts::new(35, 300, |n| format!("campaign-{n}")),
                Texts::new(10, 500, |n| format!("term {n}")),
                Texts::new(10, 200, |n| format!("content-{n}")),
            ],
        }
    }

    /// Clicks of the hour that begins at `from`, none after `now`.
    pub(crate) fn clicks(&mut self, count: u64, from: u64, now: u64) -> Vec<Click> {
        (0..count).map(|_| self.click(from, now)).collect()
    }

    fn click(&mut self, from: u64, now: u64) -> Click {
        let rank = rank(&mut self.random, self.links.len() as u64);
        let at = (from + self.random.random_range(0..3_600)).min(now);
        let described = Box::new(self.described(at));
        let link = &self.links[rank as usize];
        Click {
            at,
            count: 1,
            link_id: link.id,
            tenant_id: 1,
            domain_id: self.domain_id,
            key: link.key.clone(),
            tags: link.tags.clone(),
            described: Some(described),
        }
    }

    fn described(&mut self, at: u64) -> Described {
        let random = &mut self.random;
        let (user_agent, agent) =
            self.agents[rank(random, self.agents.len() as u64) as usize].clone();
        // Most people come once a day.
        let visitor = (at / DAY) << 32 | random.random_range(0..100_000);
        Described {
            status: 302,
            rule: u8::from(random.random_range(0..10) == 0),
            country: self.countries.one(random),
            city: self.cities.one(random),
            user_agent,
            agent,
            referrer: self.referrers.one(random),
            language: self.languages.one(random),
            utm: self.utm.each_ref().map(|texts| texts.one(random)),
            visitor: Some(visitor),
            id: None,
        }
    }

    /// Orphan visits of the day until `now`.
    pub(crate) fn orphans(&mut self, count: u64, now: u64) -> Vec<Orphan> {
        let key = self.links[0].key.clone();
        let (domain, _) = key.split_once('/').expect("a link key");
        let orphans = (0..count).map(|_| {
            let at = now - self.random.random_range(0..now % DAY + 1);
            let path = rank(&mut self.random, 5_000);
            Orphan {
                at,
                kind: OrphanKind::InvalidShortUrl,
                tenant_id: 1,
                domain_id: self.domain_id,
                url: format!("{domain}/absent-{path}").into(),
                described: Box::new(self.described(at)),
            }
        });
        orphans.collect()
    }
}

/// Programs, every twelfth of which is a bot.
fn agents() -> Vec<(Arc<str>, Arc<Agent>)> {
    const DEVICES: [Device; 4] = [
        Device::Mobile,
        Device::Desktop,
        Device::Tablet,
        Device::Other,
    ];
    const BROWSERS: [&str; 7] = [
        "Chrome Mobile",
        "Safari",
        "Chrome",
        "Firefox",
        "Edge",
        "Samsung Internet",
        "Opera",
    ];
    const SYSTEMS: [&str; 5] = ["Android", "iOS", "Windows", "Mac OS X", "Linux"];
    let agents = (0..600_usize).map(|each| {
        let agent = Agent {
            device: DEVICES[each % 4],
            browser: BROWSERS[each % 7].into(),
            os: SYSTEMS[each % 5].into(),
            is_bot: each % 12 == 5,
        };
        let text = format!(
            "Mozilla/5.0 (made up {each}) {} {}",
            BROWSERS[each % 7],
            SYSTEMS[each % 5]
        );
        (text.into(), Arc::new(agent))
    });
    agents.collect()
}
