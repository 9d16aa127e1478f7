//! A link in the control plane: the record that edges get, and fields for people.

use crate::links::target::TargetUrl;
use edgelink_wire::{Code, Domain, LinkKey, LinkRecord, LinkState, Record, RedirectStatus};

/// A link as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number, the primary key.
    pub id: u64,
    /// Its host.
    pub domain: Domain,
    /// Its code or alias, unique on its domain.
    pub code: Code,
    /// The part that can be changed.
    pub content: LinkContent,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Unix time in milliseconds.
    pub updated_at: u64,
    /// Grows with every change, deletion and re-creation included.
    pub rev: u64,
}

/// The part of a link that its owner sets and may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkContent {
    /// Where the link goes.
    pub target: TargetUrl,
    /// The status code of the redirect.
    pub redirect: RedirectStatus,
    /// Whether it redirects at all.
    pub state: LinkState,
    /// The first second (unix time) in which it redirects.
    pub valid_since: Option<u64>,
    /// The first second (unix time) in which it no longer redirects.
    pub valid_until: Option<u64>,
    /// Whether the visitor's query is merged into the target's.
    pub forward_query: bool,
    /// For people; at most 512 characters.
    pub title: Option<String>,
    /// For people: sorted, without duplicates.
    pub tags: Vec<String>,
}

impl Link {
    /// The link key.
    #[must_use]
    pub fn key(&self) -> LinkKey {
        LinkKey::new(self.domain.clone(), self.code.clone())
    }

    /// The record that edges get.
    #[must_use]
    pub fn record(&self) -> Record<&str> {
        Record::Link(LinkRecord {
            url: self.content.target.as_str(),
            redirect: self.content.redirect,
            state: self.content.state,
            valid_since: self.content.valid_since,
            valid_until: self.content.valid_until,
            forward_query: self.content.forward_query,
            rev: self.rev,
        })
    }
}
