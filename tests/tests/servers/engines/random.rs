//! Random clicks, as reports that are read have them.

use edgelink_clicks::analytics::{Click, Described, Orphan, agents};
use edgelink_wire::clicks::events::OrphanKind;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const HOUR: u64 = 3_600;
pub(crate) const DAY: u64 = 86_400;

/// A phone, a tablet, a computer, a television, bots, and none.
const USER_AGENTS: [&str; 7] = [
    "",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 \
     Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (iPad; CPU OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 \
     Safari/604.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (SMART-TV; Linux; Tizen 7.0) AppleWebKit/537.36 (KHTML, like Gecko) Version/7.0 TV Safari/537.36",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "curl/8.5.0",
];

const CITIES: [&str; 6] = [
    "",
    "Köln",
    "Saint-Denis",
    "L'Aquila\\'); DROP TABLE clicks --",
    "\u{1f600} \u{202e}\t\r\n\"\0\u{1}",
    "%00 ? {x:UInt8} \\N $1",
];

/// Texts that are equal to some collations, and to no engine.
const CONTENTS: [&str; 7] = ["", "x", "X", "x ", "\u{e9}", "e\u{301}", "E"];

/// Midnight two days ago (UTC), in unix seconds.
pub(crate) fn midnight() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    (now.expect("a clock after 1970").as_secs() / DAY - 2) * DAY
}

/// A click of a link, without time and attributes. Links 1 to 11 belong to two tenants and four domains in turn; there is no link 0.
pub(crate) fn link_clicks(link_id: u64, domains: [u32; 4]) -> Click {
    let tags: &[&str] = match link_id % 3 {
        0 => &[],
        1 => &["a tag"],
        _ => &["a tag", "it's \"another\" ?"],
    };
    let tenant_id = match link_id {
        0 => 0,
        _ => 1 + (link_id % 2) as u32,
    };
    Click {
        at: 0,
        count: 1,
        link_id,
        tenant_id,
        domain_id: domains[(link_id % 4) as usize],
        key: format!("d{}.example/code{link_id}", 1 + link_id % 4).into(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        described: None,
    }
}

/// Random clicks within three days.
pub(crate) struct Random {
    random: StdRng,
    /// The numbers of the links' domains.
    pub(crate) domains: [u32; 4],
    /// Gives visitors another token each day, as edges do.
    pub(crate) changes_visitors: bool,
}

impl Random {
    /// Prepares clicks of links on these domains.
    pub(crate) fn new(domains: [u32; 4], changes_visitors: bool) -> Self {
        Self {
            random: StdRng::seed_from_u64(7),
            domains,
            changes_visitors,
        }
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.random.random_range(0..limit)
    }

    pub(crate) fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.random_range(0..all.len())]
    }

    /// The domain of a URL.
    pub(crate) fn domain_of(&self, url: &str) -> u32 {
        let of_domain = |domain: &usize| url.starts_with(&format!("d{}.example/", domain + 1));
        let domain = (0..self.domains.len()).find(of_domain);
        domain.map_or(0, |domain| self.domains[domain])
    }

    fn text(&mut self, texts: &[&str]) -> Arc<str> {
        self.one(texts).into()
    }

    /// Clicks of the three days that begin at `from`.
    pub(crate) fn clicks(&mut self, count: usize, from: u64) -> Vec<Click> {
        (0..count).map(|_| self.click(from, 3 * DAY)).collect()
    }

    /// A click within so many seconds; or several of a link, without attributes.
    pub(crate) fn click(&mut self, from: u64, seconds: u64) -> Click {
        let at = from + self.below(seconds);
        let described = (self.below(4) > 0).then(|| Box::new(self.described(at)));
        let mut click = Click {
            at,
            count: match described {
                Some(_) => 1,
                None => 1 + self.below(5),
            },
            described,
            ..link_clicks(self.below(12), self.domains)
        };
        if !click.has_link() && self.below(2) == 0 {
            (click.domain_id, click.key) = (0, "d0.example/code0".into());
        }
        click
    }

    fn described(&mut self, at: u64) -> Described {
        let user_agent = self.text(&USER_AGENTS);
        // Few, so that they come back, on other days too.
        let visitor = 1 + self.below(200) * 0x9e37_79b9;
        let day = if self.changes_visitors { at / DAY } else { 0 };
        Described {
            status: self.one(&[301, 302, 307, 308]),
            rule: self.below(3) as u8,
            country: self.text(&["", "DE", "FR", "US"]),
            city: self.text(&CITIES),
            agent: agents::parse(&user_agent),
            user_agent,
            referrer: self.text(&["", "a.example", "b.example"]),
            language: self.text(&["", "de", "en-us"]),
            utm: [
                self.text(&["", "news", "\u{c4}rger"]),
                self.text(&["", "mail"]),
                self.text(&["", "autumn", "spring"]),
                self.text(&[""]),
                self.text(&CONTENTS),
            ],
            visitor: (self.below(4) > 0).then_some(visitor + (day << 40)),
            id: (self.below(3) == 0).then(|| self.random.random()),
        }
    }

    pub(crate) fn orphans(&mut self, count: usize, from: u64) -> Vec<Orphan> {
        (0..count).map(|_| self.orphan(from, 3 * DAY)).collect()
    }

    /// An orphan visit of one of two tenants within so many seconds.
    pub(crate) fn orphan(&mut self, from: u64, seconds: u64) -> Orphan {
        let kinds = [
            OrphanKind::BaseUrl,
            OrphanKind::InvalidShortUrl,
            OrphanKind::Regular404,
        ];
        let at = from + self.below(seconds);
        Orphan {
            at,
            kind: self.one(&kinds),
            tenant_id: 1 + self.below(2) as u32,
            domain_id: self.below(3) as u32,
            url: self.text(&["d1.example/", "d1.example/no where", "d2.example/%00'"]),
            described: Box::new(Described {
                status: 404,
                ..self.described(at)
            }),
        }
    }
}
