//! Clicks and orphan visits as rows of ClickHouse.

use super::super::engine::{RawClick, RawPlace};
use super::super::model::{Agent, Described, Device, Orphan};
use super::native::NativeBlock;
use super::schema::NUMBERS_OF_INSERT;
use clickhouse::Row;
use edgelink_wire::clicks::events::OrphanKind;
use serde::Deserialize;
use std::sync::Arc;

/// Number of columns of the raw tables.
pub(super) const COLUMNS: usize = 29;

/// A row of `clicks` or `orphans`.
#[derive(Clone, Debug, Row, Deserialize)]
pub(super) struct ClickHouseRow<'a> {
    pub(super) tenant_id: u32,
    /// 0 of an orphan visit.
    pub(super) link_id: u64,
    /// Unix seconds.
    pub(super) at: u32,
    /// The first of as many numbers as there are clicks.
    pub(super) number: u64,
    pub(super) clicks: u64,
    /// Number of them by bots: all, or none.
    pub(super) bots: u64,
    pub(super) domain_id: u32,
    /// The link key, or domain and path.
    pub(super) key: &'a str,
    /// Kind of the orphan visit; 0 for a click.
    pub(super) kind: u8,
    #[serde(borrow)]
    pub(super) tags: Vec<&'a str>,
    /// 16 bytes, or none.
    #[serde(borrow)]
    pub(super) id: &'a [u8],
    pub(super) status: u16,
    pub(super) rule: u8,
    pub(super) country: &'a str,
    pub(super) city: &'a str,
    pub(super) user_agent: &'a str,
    pub(super) device: &'a str,
    pub(super) browser: &'a str,
    pub(super) os: &'a str,
    pub(super) is_bot: u8,
    pub(super) referrer: &'a str,
    pub(super) language: &'a str,
    pub(super) utm_source: &'a str,
    pub(super) utm_medium: &'a str,
    pub(super) utm_campaign: &'a str,
    pub(super) utm_term: &'a str,
    pub(super) utm_content: &'a str,
    /// 0 for none.
    pub(super) visitor: u64,
    /// 1 if it counts as a visitor: the token is known, and it is no bot.
    pub(super) is_visitor: u8,
}

/// Encodes rows of orphan visits in the column order of the table.
pub(super) fn block(rows: &[ClickHouseRow<'_>]) -> Vec<u8> {
    let mut block = NativeBlock::new(COLUMNS, rows.len());
    macro_rules! columns {
        ($($name:ident $(: $kind:literal)?,)+) => {
            $(columns!(@ $name $($kind)?);)+
        };
        (@ $name:ident $kind:literal) => {
            let values = rows.iter().map(|row| row.$name.to_le_bytes());
            block.numbers(stringify!($name), $kind, values);
        };
        (@ $name:ident) => {
            let values = rows.iter().map(|row| AsRef::<[u8]>::as_ref(row.$name));
            block.texts(stringify!($name), values);
        };
    }
    columns! {
        tenant_id: "UInt32",
        link_id: "UInt64",
        at: "DateTime('UTC')",
        number: "UInt64",
        clicks: "UInt64",
        bots: "UInt64",
        domain_id: "UInt32",
        key,
        kind: "UInt8",
    }
    block.lists("tags", rows.iter().map(|row| row.tags.as_slice()));
    columns! {
        id,
        status: "UInt16",
        rule: "UInt8",
        country,
        city,
        user_agent,
        device,
        browser,
        os,
        is_bot: "UInt8",
        referrer,
        language,
        utm_source,
        utm_medium,
        utm_campaign,
        utm_term,
        utm_content,
        visitor: "UInt64",
        is_visitor: "UInt8",
    }
    block.finish()
}

/// The first number of the clicks of an insert.
pub(super) fn first_number(insert_id: u64) -> u64 {
    (insert_id & IDS) * NUMBERS_OF_INSERT
}

/// Mask of an insert's id within numbers of clicks, which fit 63 bits.
const IDS: u64 = (1 << 35) - 1;

impl<'a> ClickHouseRow<'a> {
    /// The row of an orphan visit.
    pub(super) fn of_orphan(orphan: &'a Orphan, number: u64) -> Self {
        let row = Self::new(orphan.at, number, &orphan.url, Some(&orphan.described));
        Self {
            tenant_id: orphan.tenant_id,
            domain_id: orphan.domain_id,
            kind: byte_of(orphan.kind),
            bots: row.is_bot.into(),
            ..row
        }
    }

    fn new(at: u64, number: u64, key: &'a str, described: Option<&'a Described>) -> Self {
        let mut row = Self {
            at: u32::try_from(at).unwrap_or(u32::MAX),
            number,
            key,
            clicks: 1,
            ..Self::EMPTY
        };
        let Some(described) = described else {
            return row;
        };
        let agent = &*described.agent;
        let [source, medium, campaign, term, content] = &described.utm;
        row.id = described.id.as_ref().map_or(&[], |id| id.as_slice());
        row.status = described.status;
        row.rule = described.rule;
        row.country = &described.country;
        row.city = &described.city;
        row.user_agent = &described.user_agent;
        row.device = agent.device.as_str();
        row.browser = &agent.browser;
        row.os = &agent.os;
        row.is_bot = agent.is_bot.into();
        row.referrer = &described.referrer;
        row.language = &described.language;
        row.utm_source = source;
        row.utm_medium = medium;
        row.utm_campaign = campaign;
        row.utm_term = term;
        row.utm_content = content;
        row.visitor = described.visitor.unwrap_or(0);
        row.is_visitor = (row.visitor != 0 && !agent.is_bot).into();
        row
    }

    const EMPTY: Self = Self {
        tenant_id: 0,
        link_id: 0,
        at: 0,
        number: 0,
        clicks: 0,
        bots: 0,
        domain_id: 0,
        key: "",
        kind: 0,
        tags: Vec::new(),
        id: &[],
        status: 0,
        rule: 0,
        country: "",
        city: "",
        user_agent: "",
        device: "",
        browser: "",
        os: "",
        is_bot: 0,
        referrer: "",
        language: "",
        utm_source: "",
        utm_medium: "",
        utm_campaign: "",
        utm_term: "",
        utm_content: "",
        visitor: 0,
        is_visitor: 0,
    };

    /// The clicks of the row whose numbers are in a range, the last one first.
    pub(super) fn raw_clicks(&self, first: u64, before: u64) -> impl Iterator<Item = RawClick> {
        let described = self.described();
        let numbers = self.number.max(first)..(self.number + self.clicks).min(before);
        numbers.rev().map(move |number| RawClick {
            place: RawPlace {
                at: self.at.into(),
                number,
            },
            link_id: self.link_id,
            key: self.key.to_owned(),
            orphan: orphan_kind(self.kind),
            described: described.clone(),
        })
    }

    fn described(&self) -> Described {
        Described {
            status: self.status,
            rule: self.rule,
            country: self.country.into(),
            city: self.city.into(),
            user_agent: self.user_agent.into(),
            agent: Arc::new(Agent {
                device: device(self.device),
                browser: self.browser.into(),
                os: self.os.into(),
                is_bot: self.is_bot != 0,
            }),
            referrer: self.referrer.into(),
            language: self.language.into(),
            utm: [
                self.utm_source,
                self.utm_medium,
                self.utm_campaign,
                self.utm_term,
                self.utm_content,
            ]
            .map(Arc::from),
            visitor: (self.visitor != 0).then_some(self.visitor),
            id: self.id.try_into().ok(),
        }
    }
}

fn device(name: &str) -> Device {
    let all = [
        Device::Desktop,
        Device::Mobile,
        Device::Tablet,
        Device::Other,
    ];
    let found = all.into_iter().find(|device| device.as_str() == name);
    found.unwrap_or_default()
}

const fn byte_of(kind: OrphanKind) -> u8 {
    match kind {
        OrphanKind::BaseUrl => 1,
        OrphanKind::InvalidShortUrl => 2,
        OrphanKind::Regular404 => 3,
    }
}

const fn orphan_kind(byte: u8) -> Option<OrphanKind> {
    match byte {
        1 => Some(OrphanKind::BaseUrl),
        2 => Some(OrphanKind::InvalidShortUrl),
        3 => Some(OrphanKind::Regular404),
        _ => None,
    }
}
