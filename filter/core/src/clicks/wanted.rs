//! Headers of the configured attributes, and their values in a request.

use crate::request::{Headers, length_bit};
use crate::settings::{Attribute, Settings};
use edgelink_wire::clicks::attributes::is_opt_out;
use edgelink_wire::same::is_same;

/// The configured attributes, and the headers that carry them.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedHeaders {
    /// One bit for each [`Attribute`].
    attributes: u16,
    headers: Vec<(Box<[u8]>, Field)>,
    /// The lengths of their names, as [`Headers::each`] takes them.
    lengths: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Country,
    City,
    UserAgent,
    Referrer,
    Language,
}

/// The values of headers; empty if there is no such header, or it is not wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picked<'a> {
    pub(crate) country: &'a [u8],
    pub(crate) city: &'a [u8],
    /// Also read if only the visitor token is wanted.
    pub(crate) user_agent: &'a [u8],
    pub(crate) referrer: &'a [u8],
    pub(crate) language: &'a [u8],
    /// Set if the visitor has opted out of tracking.
    pub(crate) is_opt_out: bool,
}

impl WantedHeaders {
    /// The attributes in the settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        let clicks = settings.clicks.as_ref();
        let attributes = clicks.map_or(&[][..], |clicks| &clicks.attributes);
        let bits = attributes.iter().map(|each| bit(*each));
        let mut wanted = Self {
            attributes: bits.fold(0, |all, bit| all | bit),
            headers: Vec::new(),
            lengths: 0,
        };
        let geo = &settings.geo;
        let candidates = [
            (Attribute::Country, geo.country.as_deref(), Field::Country),
            (Attribute::City, geo.city.as_deref(), Field::City),
            (Attribute::Referrer, Some("referer"), Field::Referrer),
            (
                Attribute::Language,
                Some("accept-language"),
                Field::Language,
            ),
        ];
        for (attribute, name, field) in candidates {
            if let Some(name) = name.filter(|_| wanted.has(attribute)) {
                wanted.add(name, field);
            }
        }
        if wanted.has(Attribute::UserAgent) || wanted.has(Attribute::Visitor) {
            wanted.add("user-agent", Field::UserAgent);
        }
        for name in ["dnt", "sec-gpc"] {
            wanted.lengths |= length_bit(name.len());
        }
        wanted
    }

    fn add(&mut self, name: &str, field: Field) {
        self.lengths |= length_bit(name.len());
        self.headers.push((name.as_bytes().into(), field));
    }

    /// True if no attribute is wanted.
    pub(crate) fn is_empty(&self) -> bool {
        self.attributes == 0
    }

    /// True if the attribute is wanted.
    pub(crate) fn has(&self, attribute: Attribute) -> bool {
        self.attributes & bit(attribute) != 0
    }

    /// Finds the wanted headers in one pass. Of a repeated header the first one counts.
    pub(crate) fn pick<'a>(&self, headers: &'a impl Headers) -> Picked<'a> {
        let mut picked = Picked::default();
        headers.each(self.lengths, |name, value| {
            let known = self.headers.iter().find(|(known, _)| is_same(known, name));
            let Some((_, field)) = known else {
                picked.is_opt_out |= is_opt_out(name, value);
                return;
            };
            let place = match field {
                Field::Country => &mut picked.country,
                Field::City => &mut picked.city,
                Field::UserAgent => &mut picked.user_agent,
                Field::Referrer => &mut picked.referrer,
                Field::Language => &mut picked.language,
            };
            if place.is_empty() {
                *place = value;
            }
        });
        picked
    }
}

fn bit(attribute: Attribute) -> u16 {
    1 << attribute as u16
}
