//! Queries about the clicks of an interval, and their answers.

use super::engine::{AnalyticsQuery, Breakdown, Engine, EngineError, Slot, Visitors};
use super::interval::Interval;
use edgelink_model::counts::ClickScope;
use edgelink_model::counts::{Attribute, Bots, OTHER};

/// The most values of an answer.
pub const MAX_VALUES: usize = 1_000;

/// Grouping of clicks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// Nothing.
    #[default]
    Count,
    /// The slots of the interval.
    Timeseries,
    /// The values of an attribute.
    Values(Attribute),
    /// Bots and people.
    Bots,
    /// The conversions that they led to.
    Conversions,
}

impl GroupBy {
    /// All of them, each with its word.
    pub const ALL: [(Self, &'static str); 21] = [
        (Self::Count, "count"),
        (Self::Timeseries, "timeseries"),
        (Self::Values(Attribute::Country), "countries"),
        (Self::Values(Attribute::City), "cities"),
        (Self::Values(Attribute::Device), "devices"),
        (Self::Values(Attribute::Browser), "browsers"),
        (Self::Values(Attribute::Os), "os"),
        (Self::Values(Attribute::Referrer), "referrers"),
        (Self::Values(Attribute::Language), "languages"),
        (Self::Values(Attribute::UtmSource), "utm_sources"),
        (Self::Values(Attribute::UtmMedium), "utm_mediums"),
        (Self::Values(Attribute::UtmCampaign), "utm_campaigns"),
        (Self::Values(Attribute::UtmTerm), "utm_terms"),
        (Self::Values(Attribute::UtmContent), "utm_contents"),
        (Self::Values(Attribute::Rule), "rules"),
        (Self::Values(Attribute::Status), "statuses"),
        (Self::Values(Attribute::Link), "links"),
        (Self::Values(Attribute::Tag), "tags"),
        (Self::Values(Attribute::Domain), "domains"),
        (Self::Bots, "bots"),
        (Self::Conversions, "conversions"),
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
}

/// Looks up a value by its word.
pub(super) fn of_word<T: Copy>(all: &[(T, &'static str)], word: &str) -> Option<T> {
    let found = all.iter().find(|(_, of)| *of == word);
    found.map(|(value, _)| *value)
}

/// Looks up the word of a value.
pub(super) fn word_of<T: Copy + PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    let found = all.iter().find(|(each, _)| *each == value);
    found.map_or("", |(_, word)| word)
}

/// A query, independent of the interval.
#[derive(Clone, Debug)]
pub struct Question {
    /// The links or domain whose clicks are read.
    pub scope: ClickScope,
    /// The filter for bots.
    pub bots: Bots,
    /// The grouping.
    pub group_by: GroupBy,
    /// Most values.
    pub limit: usize,
}

/// The answer about one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// All clicks.
    pub clicks: u64,
    /// Visitors, as in [`super::Numbers`]; `None` if clicks are grouped by values, because counting visitors would take longer than that.
    pub visitors: Option<u64>,
    /// The slots, for [`GroupBy::Timeseries`] only.
    pub slots: Vec<Slot>,
    /// Clicks by value, most clicks first.
    pub values: Breakdown,
    /// Clicks of the omitted values.
    pub other: u64,
}

impl Question {
    /// Asks an engine. `slots` are the beginnings of the slots of a series.
    ///
    /// # Errors
    /// The failure of the engine.
    pub async fn ask(
        &self,
        engine: &dyn Engine,
        interval: Interval,
        slots: &[u64],
    ) -> Result<Summary, EngineError> {
        let is_of_none = matches!(&self.scope, ClickScope::Links(links) if links.is_empty());
        if is_of_none || interval.from >= interval.to {
            return Ok(self.of_nothing(slots));
        }
        let query = AnalyticsQuery {
            scope: self.scope.clone(),
            from: interval.from,
            to: interval.to,
            bots: self.bots,
        };
        Ok(match self.group_by {
            // Conversions are in the store, whatever the engine.
            GroupBy::Count | GroupBy::Conversions => {
                let numbers = engine.count(&query, Visitors::Counted).await?;
                Summary {
                    clicks: numbers.clicks,
                    visitors: Some(numbers.visitors),
                    ..Summary::default()
                }
            }
            GroupBy::Timeseries => {
                let (numbers, slots) = engine.series(&query, slots).await?;
                Summary {
                    clicks: slots.iter().map(|slot| slot.numbers.clicks).sum(),
                    visitors: Some(numbers.visitors),
                    slots,
                    ..Summary::default()
                }
            }
            GroupBy::Bots => {
                let values = self.bots(engine, query).await?;
                Summary {
                    clicks: sum(&values),
                    values,
                    ..Summary::default()
                }
            }
            GroupBy::Values(attribute) => {
                let found = engine.breakdown(&query, attribute, self.limit).await?;
                let (clicks, found) = found;
                let (values, other) = without_other(found);
                Summary {
                    clicks,
                    values,
                    other,
                    ..Summary::default()
                }
            }
        })
    }

    fn of_nothing(&self, slots: &[u64]) -> Summary {
        let is_of_values = matches!(self.group_by, GroupBy::Values(_) | GroupBy::Bots);
        let mut answer = Summary {
            visitors: (!is_of_values).then_some(0),
            ..Summary::default()
        };
        if self.group_by == GroupBy::Timeseries {
            let slot = |from: &u64| Slot {
                from: *from,
                ..Slot::default()
            };
            answer.slots = slots.iter().map(slot).collect();
        }
        answer
    }

    /// Splits the counted clicks into people and bots.
    async fn bots(
        &self,
        engine: &dyn Engine,
        query: AnalyticsQuery,
    ) -> Result<Breakdown, EngineError> {
        let count = async |bots| {
            let query = AnalyticsQuery {
                bots,
                ..query.clone()
            };
            let numbers = engine.count(&query, Visitors::Ignored).await?;
            Ok::<u64, EngineError>(numbers.clicks)
        };
        let (mut people, mut bots) = (0, 0);
        if self.bots != Bots::Only {
            people = count(Bots::Excluded).await?;
        }
        if self.bots != Bots::Excluded {
            bots = count(Bots::Only).await?;
        }
        let mut values = vec![("human".to_owned(), people), ("bot".to_owned(), bots)];
        values.retain(|(_, clicks)| *clicks > 0);
        values.sort_by_key(|(_, clicks)| std::cmp::Reverse(*clicks));
        Ok(values)
    }
}

/// The clicks of all values.
fn sum(values: &Breakdown) -> u64 {
    values.iter().map(|(_, clicks)| clicks).sum()
}

/// Separates the values of a breakdown from the clicks of omitted ones.
fn without_other(mut values: Breakdown) -> (Breakdown, u64) {
    let other = values.iter().filter(|(value, _)| value == OTHER);
    let other = other.map(|(_, clicks)| clicks).sum();
    values.retain(|(value, _)| value != OTHER);
    (values, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_when_written_and_read_is_equal() {
        for (group, word) in GroupBy::ALL {
            assert_eq!(GroupBy::of_word(word), Some(group));
            assert_eq!(group.word(), word);
        }
        assert_eq!(GroupBy::of_word("moon"), None);
    }

    #[test]
    fn other_when_found_is_separated_from_the_values() {
        let found = vec![
            ("DE".to_owned(), 3),
            (OTHER.to_owned(), 2),
            (String::new(), 1),
        ];
        let expected = vec![("DE".to_owned(), 3), (String::new(), 1)];
        assert_eq!(without_other(found), (expected, 2));
    }
}
