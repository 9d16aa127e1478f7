//! Orphan visits grouped by an attribute. Only single ones are kept, so the newest are counted.

use super::engine::{Engine, EngineError, RawClick, RawQuery};
use super::question::{Summary, of_word, word_of};
use edgelink_wire::clicks::events::OrphanKind;
use std::collections::{HashMap, HashSet};

/// Most orphan visits that are read.
pub const MAX_ORPHANS: u32 = 10_000;

/// Grouping of orphan visits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrphanGroup {
    /// The path, from its slash on.
    #[default]
    Path,
    /// The kind of request.
    Kind,
    /// The domain.
    Domain,
}

impl OrphanGroup {
    /// All of them, each with its word.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Path, "paths"),
        (Self::Kind, "types"),
        (Self::Domain, "domains"),
    ];

    /// The grouping named by a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        of_word(&Self::ALL, word)
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::ALL, self)
    }

    fn of(self, visit: &RawClick) -> &str {
        let slash = visit.key.find('/').unwrap_or(visit.key.len());
        let (domain, path) = visit.key.split_at(slash);
        match self {
            Self::Path => path,
            Self::Kind => visit.orphan.map_or("", word),
            Self::Domain => domain,
        }
    }
}

/// Shlink's word for the kind of an orphan visit.
#[must_use]
pub const fn word(kind: OrphanKind) -> &'static str {
    match kind {
        OrphanKind::BaseUrl => "base_url",
        OrphanKind::InvalidShortUrl => "invalid_short_url",
        OrphanKind::Regular404 => "regular_404",
    }
}

/// Groups the newest orphan visits that `query` finds by their most frequent values; the bool is true if there are more than were read.
///
/// # Errors
/// The failure of the engine.
pub async fn orphans(
    engine: &dyn Engine,
    query: RawQuery,
    by: OrphanGroup,
    limit: usize,
) -> Result<(Summary, bool), EngineError> {
    let query = RawQuery {
        orphans: true,
        limit: MAX_ORPHANS + 1,
        ..query
    };
    let mut visits = engine.raw(&query).await?;
    let is_cut_off = visits.len() > MAX_ORPHANS as usize;
    visits.truncate(MAX_ORPHANS as usize);
    Ok((group(&visits, by, limit), is_cut_off))
}

fn group(visits: &[RawClick], by: OrphanGroup, limit: usize) -> Summary {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    let mut visitors = HashSet::new();
    for visit in visits {
        *counts.entry(by.of(visit)).or_default() += 1;
        let is_bot = visit.described.agent.is_bot;
        visitors.extend(visit.described.visitor.filter(|_| !is_bot));
    }
    let mut values: Vec<(&str, u64)> = counts.into_iter().collect();
    values.sort_unstable_by_key(|(value, count)| (std::cmp::Reverse(*count), *value));
    let left_out = values.split_off(limit.min(values.len()));
    let values = values.into_iter();
    Summary {
        clicks: visits.len() as u64,
        visitors: Some(visitors.len() as u64),
        values: values
            .map(|(value, count)| (value.to_owned(), count))
            .collect(),
        other: left_out.iter().map(|(_, count)| count).sum(),
        ..Summary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytics::{Described, RawPlace};

    fn visit(key: &str, kind: OrphanKind, visitor: u64) -> RawClick {
        RawClick {
            place: RawPlace { at: 1, number: 1 },
            link_id: 0,
            key: key.to_owned(),
            orphan: Some(kind),
            described: Described {
                visitor: Some(visitor),
                ..Described::default()
            },
        }
    }

    #[test]
    fn orphan_visits_when_grouped_count_by_path_kind_and_domain() {
        let visits = [
            visit("a.example/x/y", OrphanKind::Regular404, 1),
            visit("b.example:80/x/y", OrphanKind::Regular404, 2),
            visit("a.example/", OrphanKind::BaseUrl, 1),
            visit("a.example/q", OrphanKind::InvalidShortUrl, 1),
        ];
        let of = |by, limit| {
            let answer = group(&visits, by, limit);
            assert_eq!((answer.clicks, answer.visitors), (4, Some(2)));
            (answer.values, answer.other)
        };
        let values = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
            pairs
                .iter()
                .map(|(value, count)| ((*value).to_owned(), *count))
                .collect()
        };
        assert_eq!(
            of(OrphanGroup::Path, 2),
            (values(&[("/x/y", 2), ("/", 1)]), 1)
        );
        assert_eq!(
            of(OrphanGroup::Domain, 9),
            (values(&[("a.example", 3), ("b.example:80", 1)]), 0)
        );
        assert_eq!(of(OrphanGroup::Kind, 1), (values(&[("regular_404", 2)]), 2));
    }
}
