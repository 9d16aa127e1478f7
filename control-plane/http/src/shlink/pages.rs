//! Numbered pages.

use super::fields::number;
use edgelink_service::fields::Fields;
use serde::Serialize;

/// The greatest number of a page: no list is long enough for more.
const MAX_PAGE: usize = 1_000_000;

/// A requested page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestedPage {
    /// Counted from 1.
    number: usize,
    /// Limit on the number of its items.
    pub(super) size: usize,
}

impl RequestedPage {
    /// Reads the parameters `page` and `itemsPerPage`. A page has at most `max_size` items, and as many if -1 asks for all.
    pub(super) fn read(fields: &mut Fields, default_size: usize, max_size: usize) -> Self {
        let page = fields.optional("page", |value| number(value, MAX_PAGE));
        let size = fields.optional("itemsPerPage", |value| match value.as_str() {
            Some("-1") => Ok(max_size),
            _ => number(value, usize::MAX).map(|size| size.min(max_size)),
        });
        Self {
            number: page.unwrap_or(1),
            size: size.unwrap_or(default_size),
        }
    }

    /// Number of items before the page.
    pub(super) fn offset(self) -> usize {
        (self.number - 1).saturating_mul(self.size)
    }

    /// Describes the page, with `items` of `total`. `at_least` is set if there may be more than were counted.
    pub(super) fn describe(self, items: usize, total: u64, at_least: bool) -> Pagination {
        Pagination {
            current_page: self.number,
            pages_count: total.div_ceil(self.size as u64).max(1),
            items_per_page: self.size,
            items_in_current_page: items,
            total_items: total,
            at_least,
        }
    }
}

/// A page as Shlink describes it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pagination {
    current_page: usize,
    pages_count: u64,
    items_per_page: usize,
    items_in_current_page: usize,
    total_items: u64,
    /// An extension: set if there may be more than were counted.
    at_least: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_when_numbered_knows_its_offset() {
        let page = |number| RequestedPage { number, size: 10 };
        assert_eq!([page(1).offset(), page(3).offset()], [0, 20]);
        let pages = |total| page(1).describe(0, total, false).pages_count;
        assert_eq!([0, 1, 10, 11].map(pages), [1, 1, 1, 2]);
    }
}
