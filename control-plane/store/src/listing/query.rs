//! Queries for lists: filters, order, and cursor.

use edgelink_model::links::model::Link;
use edgelink_model::links::words::SearchTerm;
use edgelink_model::tenancy::Scope;
use edgelink_wire::{Code, Domain};
use std::cmp::Ordering;

/// Query for links that meet every condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// The links visible to the caller.
    pub scope: Scope,
    /// Only links on this domain.
    pub domain: Option<Domain>,
    /// Only links with these tags; empty for all.
    pub tags: Vec<String>,
    /// Any or all of `tags`.
    pub tags_mode: TagsMode,
    /// Only links without these tags; empty for all.
    pub exclude_tags: Vec<String>,
    /// Any or all of `exclude_tags` to leave a link out.
    pub exclude_mode: TagsMode,
    /// Only links without tags.
    pub without_tags: bool,
    /// Only links in this state.
    pub state: Option<ListedState>,
    /// Only links that have not expired.
    pub hides_expired: bool,
    /// Only links that have uses left, or no limit of them.
    pub hides_used_up: bool,
    /// Only links created at this time or later, in unix milliseconds.
    pub created_from: Option<u64>,
    /// Only links created before this time, in unix milliseconds.
    pub created_before: Option<u64>,
    /// Only the link with this id in another system.
    pub external_id: Option<String>,
    /// Only links found by a search.
    pub search: Option<SearchTerm>,
    /// The order.
    pub order: ListOrder,
    /// Only links after this cursor.
    pub after: Option<ListCursor>,
    /// Most links returned.
    pub limit: u32,
}

impl ListQuery {
    /// The newest links that the caller may see.
    #[must_use]
    pub fn newest(scope: Scope, limit: u32) -> Self {
        Self {
            scope,
            domain: None,
            tags: Vec::new(),
            tags_mode: TagsMode::default(),
            exclude_tags: Vec::new(),
            exclude_mode: TagsMode::default(),
            without_tags: false,
            state: None,
            hides_expired: false,
            hides_used_up: false,
            created_from: None,
            created_before: None,
            external_id: None,
            search: None,
            order: ListOrder::default(),
            after: None,
            limit,
        }
    }
}

/// Number of the tags that a link must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagsMode {
    /// At least one.
    #[default]
    Any,
    /// All of them.
    All,
}

/// State of a link for visitors, or archived. A disabled link is neither expired nor scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedState {
    /// It redirects.
    Active,
    /// It is switched off.
    Disabled,
    /// Its validity has ended.
    Expired,
    /// Its validity has not begun.
    Scheduled,
    /// It is archived, whatever its state for visitors.
    Archived,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The newest first.
    #[default]
    NewestFirst,
    /// The oldest first.
    OldestFirst,
    /// By the bytes of codes. Needs a domain.
    Code,
    /// By the bytes of codes, the last first. Needs a domain.
    CodeDescending,
}

/// A position in a list, given by a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListCursor {
    /// Position in lists by creation.
    Created {
        /// [`Link::created_at`].
        created_at: u64,
        /// [`Link::id`].
        id: u64,
    },
    /// Position in lists by code.
    Code(Code),
}

impl ListOrder {
    /// The cursor of a link.
    #[must_use]
    pub fn place(self, link: &Link) -> ListCursor {
        match self {
            Self::NewestFirst | Self::OldestFirst => ListCursor::Created {
                created_at: link.created_at,
                id: link.id,
            },
            Self::Code | Self::CodeDescending => ListCursor::Code(link.code.clone()),
        }
    }

    /// Compares two cursors of this order: the one that comes first is less.
    pub(super) fn compare(self, one: &ListCursor, other: &ListCursor) -> Ordering {
        let ascending = match (one, other) {
            (
                ListCursor::Created { created_at, id },
                ListCursor::Created {
                    created_at: other_at,
                    id: other_id,
                },
            ) => (created_at, id).cmp(&(other_at, other_id)),
            (ListCursor::Code(code), ListCursor::Code(other)) => code.as_str().cmp(other.as_str()),
            _ => Ordering::Equal,
        };
        match self {
            Self::OldestFirst | Self::Code => ascending,
            Self::NewestFirst | Self::CodeDescending => ascending.reverse(),
        }
    }

    /// The direction in which an index is read, as in ORDER BY.
    pub(super) fn direction(self) -> &'static str {
        match self {
            Self::OldestFirst | Self::Code => "ASC",
            Self::NewestFirst | Self::CodeDescending => "DESC",
        }
    }
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkPage {
    /// The links. There may be fewer than requested, or none, even if another page follows.
    pub links: Vec<Link>,
    /// Cursor of the next page; `None` if this is the last one.
    pub next: Option<ListCursor>,
}
