//! What to list, in which order, and where a page begins.

use crate::links::model::Link;
use crate::links::words::SearchTerm;
use crate::tenancy::Scope;
use edgelink_wire::{Code, Domain};
use std::cmp::Ordering;

/// Which links to list: those that meet every condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Which links the caller may see.
    pub scope: Scope,
    /// Only those on this domain.
    pub domain: Option<Domain>,
    /// Only those with these tags; empty for all.
    pub tags: Vec<String>,
    /// Whether one of the tags is enough.
    pub tags_mode: TagsMode,
    /// None with these tags; empty for all.
    pub exclude_tags: Vec<String>,
    /// Whether one of those tags is enough to leave a link out.
    pub exclude_mode: TagsMode,
    /// Only those without tags.
    pub without_tags: bool,
    /// Only those in this state.
    pub state: Option<ListedState>,
    /// Only those whose validity has not ended.
    pub hides_expired: bool,
    /// Only those that have visits left, or no limit of them.
    pub hides_used_up: bool,
    /// Only those created then or later, unix milliseconds.
    pub created_from: Option<u64>,
    /// Only those created before then, unix milliseconds.
    pub created_before: Option<u64>,
    /// Only the one with this id in another system.
    pub external_id: Option<String>,
    /// Only those that a search finds.
    pub search: Option<SearchTerm>,
    /// The order.
    pub order: ListOrder,
    /// Only those after this place of the order.
    pub after: Option<ListCursor>,
    /// How many at most.
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

/// How many of the tags a link must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagsMode {
    /// At least one.
    #[default]
    Any,
    /// All of them.
    All,
}

/// What a visitor of a link gets, or that it is put away. A disabled link is neither expired nor scheduled.
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
    /// It is put away, whatever visitors get.
    Archived,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The last created first.
    #[default]
    NewestFirst,
    /// The first created first.
    OldestFirst,
    /// By the bytes of codes. Needs a domain.
    Code,
    /// By the bytes of codes, the last first. Needs a domain.
    CodeDescending,
}

/// A place in a list: that of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListCursor {
    /// In lists by creation.
    Created {
        /// [`Link::created_at`].
        created_at: u64,
        /// [`Link::id`].
        id: u64,
    },
    /// In lists by code.
    Code(Code),
}

impl ListOrder {
    /// The place of a link.
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

    /// Compares two places of this order: the one that comes first is less.
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
    /// The links. There may be fewer than asked for, or none, though another page follows.
    pub links: Vec<Link>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<ListCursor>,
}
