//! Visits of which all is known, and what breakdowns of them must say.

use crate::production::{alias, target};
use crate::visitors::Journey;
use edgelink_tests::scenario::{Answer, CITY_HEADER, COUNTRY_HEADER, Request};
use std::collections::BTreeMap;
use std::time::Instant;

/// Different visitors: one address, with so many user agents of people.
pub(super) const PEOPLE: u64 = 3;

/// Clicks by value; those without a value are those of "".
pub(super) type Breakdown = BTreeMap<String, u64>;

/// A breakdown of the visits: its `groupBy`, and the values, which come in turns.
pub(super) struct Known {
    pub(super) group: &'static str,
    values: &'static [&'static str],
}

const COUNTRIES: &[&str] = &["DE", "FR", "JP", "US", "BR", "IN", "ZA"];
const CITIES: &[&str] = &["Berlin", "Paris", "Osaka"];
const REFERRERS: &[&str] = &[
    "a.example",
    "b.example",
    "c.example",
    "d.example",
    "e.example",
];
const LANGUAGES: &[&str] = &["de", "fr"];
const SOURCES: &[&str] = &[
    "mail", "ad", "print", "social", "partner", "tv", "radio", "web", "app", "fair", "shop",
];
const MEDIUMS: &[&str] = &[
    "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9", "m10", "m11", "m12", "m13",
];

/// With the user agents in that order.
const BROWSERS: &[&str] = &["Firefox", "Chrome Mobile", "Mobile Safari", "Googlebot"];
const SYSTEMS: &[&str] = &["Linux", "Android", "iOS", ""];
const DEVICES: &[&str] = &["desktop", "mobile", "mobile", ""];
const BOTS: &[&str] = &["human", "human", "human", "bot"];

const USER_AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];

/// All breakdowns by what visitors send. Of one by bots, clicks whose attributes are lost are those of people.
pub(super) const KNOWN: [Known; 10] = [
    Known {
        group: "countries",
        values: COUNTRIES,
    },
    Known {
        group: "cities",
        values: CITIES,
    },
    Known {
        group: "referrers",
        values: REFERRERS,
    },
    Known {
        group: "languages",
        values: LANGUAGES,
    },
    Known {
        group: "utm_sources",
        values: SOURCES,
    },
    Known {
        group: "utm_mediums",
        values: MEDIUMS,
    },
    Known {
        group: "browsers",
        values: BROWSERS,
    },
    Known {
        group: "os",
        values: SYSTEMS,
    },
    Known {
        group: "devices",
        values: DEVICES,
    },
    Known {
        group: "statuses",
        values: &["302"],
    },
];

/// The breakdown that is known of clicks without attributes, but for those of bots.
pub(super) const BY_BOTS: Known = Known {
    group: "bots",
    values: BOTS,
};

impl Known {
    /// The clicks that so many visits have made.
    pub(super) fn of(&self, visits: u64) -> Breakdown {
        in_turns(self.values.iter().map(|&value| value.to_owned()), visits)
    }
}

/// Visits by link, which take turns.
pub(super) fn by_link(links: u64, visits: u64) -> Breakdown {
    in_turns((0..links).map(code), visits)
}

/// Visits of all links in turns, with attributes in turns.
pub(super) struct Described {
    pub(super) links: u64,
}

fn in_turn<T: Copy>(values: &[T], n: u64) -> T {
    values[usize::try_from(n % values.len() as u64).expect("a number")]
}

impl Journey for Described {
    fn path(&self, n: u64) -> String {
        let (source, medium) = (in_turn(SOURCES, n), in_turn(MEDIUMS, n));
        format!(
            "/{}?utm_source={source}&utm_medium={medium}",
            code(n % self.links)
        )
    }

    fn request(&self, n: u64) -> Request {
        let referrer = format!("https://{}/page", in_turn(REFERRERS, n));
        let language = format!("{},en;q=0.5", in_turn(LANGUAGES, n));
        Request::get(&self.path(n))
            .header(COUNTRY_HEADER, in_turn(COUNTRIES, n).as_bytes())
            .header(CITY_HEADER, in_turn(CITIES, n).as_bytes())
            .header("referer", referrer.as_bytes())
            .header("accept-language", language.as_bytes())
            .header("user-agent", in_turn(&USER_AGENTS, n).as_bytes())
    }

    fn is_right(&self, path: &str, answer: &Answer, _sent: Instant) -> bool {
        let (code, query) = path[1..].split_once('?').expect("a query");
        answer.location() == Some(format!("{}?{query}", target(code)).as_str())
    }
}

pub(super) fn code(n: u64) -> String {
    alias("click", usize::try_from(n).expect("a number"))
}

/// How often each value came, if they came in turns.
fn in_turns(values: impl Iterator<Item = String> + Clone, visits: u64) -> Breakdown {
    let count = values.clone().count() as u64;
    let times = |place: u64| visits / count + u64::from(place < visits % count);
    let mut all = Breakdown::new();
    for (place, value) in (0..).zip(values) {
        *all.entry(value).or_default() += times(place);
    }
    all
}
