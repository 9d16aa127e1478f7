//! A link in the control plane: the record for edges, and fields for people.

use crate::tenancy::Scope;
use edgelink_wire::password::UnlockKey;
use edgelink_wire::record::Extension;
use edgelink_wire::rules::{self, Rule, Rules};
use edgelink_wire::target::TargetUrl;
use edgelink_wire::{Code, Domain, LinkKey, LinkRecord, LinkState, Record, RedirectStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A link in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number, the primary key.
    pub id: u64,
    /// Its host.
    pub domain: Domain,
    /// Its code or alias, unique on its domain.
    pub code: Code,
    /// Its tenant.
    pub tenant_id: u32,
    /// Its owner, a user; `None` of links from before users.
    pub owner_id: Option<u64>,
    /// The part that can be changed.
    pub content: LinkContent,
    /// Clicks from before the import.
    pub imported_visits: u64,
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
    /// The target.
    pub target: TargetUrl,
    /// The status code of the redirect.
    pub redirect: RedirectStatus,
    /// Switch for the redirect.
    pub state: LinkState,
    /// The first second (unix time) in which it redirects.
    pub valid_since: Option<u64>,
    /// The first second (unix time) in which it no longer redirects.
    pub valid_until: Option<u64>,
    /// Set to merge the visitor's query into the target's.
    pub forward_query: bool,
    /// For people; at most 512 characters.
    pub title: Option<String>,
    /// For people: sorted, without duplicates.
    pub tags: Vec<String>,
    /// Its id in another system, unique in the tenant; at most 255 bytes.
    pub external_id: Option<String>,
    /// Set for an archived link, which still redirects.
    pub archived: bool,
    /// Rarely used properties.
    pub details: LinkDetails,
}

/// Rarely used properties of a link: one JSON object in the store. Defaults are not written, so that the hash of a content
/// stays the same when properties are added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinkDetails {
    /// For people, with lines; at most 4,096 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Limit of uses; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_visits: Option<u64>,
    /// True if bots do not count towards that limit.
    #[serde(skip_serializing_if = "is_false")]
    pub spares_bots: bool,
    /// Conditional targets; the first one whose conditions hold applies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Target after expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired_url: Option<String>,
    /// Set to append the rest of the path after the code to the target's path.
    #[serde(skip_serializing_if = "is_false")]
    pub forward_path: bool,
    /// Set to let search engines index the link.
    #[serde(skip_serializing_if = "is_false")]
    pub crawlable: bool,
    /// Set to pass the id of each click to the target, for reporting conversions.
    #[serde(skip_serializing_if = "is_false")]
    pub track_conversions: bool,
    /// Set to keep the page with the link from the target.
    #[serde(skip_serializing_if = "is_false")]
    pub hide_referrer: bool,
    /// Hash of the password for visitors: a PHC string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Properties that a deleted link gets back when it is restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<TombstoneFields>,
    /// Properties stored by a later version. They stay, but their meaning is unknown: such a link is shown and can be deleted, but is
    /// neither followed nor changed here, because edges would get it without them.
    #[serde(flatten)]
    pub later: Map<String, Value>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl LinkDetails {
    /// Encodes the part for edges. The stored properties were valid when they were written, and bounds only grow.
    fn extension(&self, key: impl FnOnce() -> LinkKey) -> Vec<u8> {
        let rules = rules::encode(&self.rules).unwrap_or_default();
        let rules = Rules::of_encoded(&rules);
        let extension = Extension {
            rules,
            expired_url: self.expired_url.as_deref().map(str::as_bytes),
            forward_path: self.forward_path,
            crawlable: self.crawlable,
            track_conversions: self.track_conversions,
            hide_referrer: self.hide_referrer,
            max_visits: self.max_visits,
            // Not set where it makes no difference, so that older edges can read the record.
            spares_bots: self.spares_bots && self.max_visits.is_some(),
            unlock_key: self.password.as_ref().map(|hash| {
                let key = key().to_string();
                UnlockKey::new(hash, key.as_bytes())
            }),
            ..Extension::default()
        };
        extension.to_bytes()
    }
}

/// Properties that a tombstone stores separately, because their columns have an effect: a link with an end is purged, and an
/// external id is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TombstoneFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_until: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
}

/// History of an imported link at its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Time of creation, unix milliseconds; `None` for now.
    pub created_at: Option<u64>,
    /// Clicks so far.
    pub visits: u64,
}

impl LinkContent {
    /// Creates the content of this link's tombstone.
    pub fn into_tombstone(mut self) -> Self {
        let kept = TombstoneFields {
            valid_until: self.valid_until.take(),
            external_id: self.external_id.take(),
        };
        self.details.kept = (kept != TombstoneFields::default()).then_some(kept);
        self
    }

    /// Restores the content of a tombstone's link; `None` if it was removed.
    pub fn restored(&self) -> Option<Self> {
        let mut content = self.clone();
        let kept = content.details.kept.take().unwrap_or_default();
        content.valid_until = kept.valid_until;
        content.external_id = kept.external_id;
        (!self.target.as_str().is_empty()).then_some(content)
    }

    /// All targets, each with its field in the API's spelling. A purged link has none.
    pub fn targets(&self) -> impl Iterator<Item = (&'static str, &str)> {
        // Destructured, so that a new field must be classified here.
        let Self {
            target,
            redirect: _,
            state: _,
            valid_since: _,
            valid_until: _,
            forward_query: _,
            title: _,
            tags: _,
            external_id: _,
            archived: _,
            details:
                LinkDetails {
                    notes: _,
                    max_visits: _,
                    spares_bots: _,
                    rules,
                    expired_url,
                    forward_path: _,
                    crawlable: _,
                    track_conversions: _,
                    hide_referrer: _,
                    password: _,
                    kept: _,
                    later: _,
                },
        } = self;
        let target = [("longUrl", target.as_str())].into_iter();
        let expired = expired_url.iter().map(|url| ("expiredUrl", url.as_str()));
        let rules = rules
            .iter()
            .map(|rule| (rules::FIELD, rule.target.as_str()));
        let all = target.chain(expired).chain(rules);
        all.filter(|(_, target)| !target.is_empty())
    }

    /// Creates the content of a link to `target` without other properties.
    #[must_use]
    pub fn to(target: TargetUrl) -> Self {
        Self {
            target,
            redirect: RedirectStatus::default(),
            state: LinkState::default(),
            valid_since: None,
            valid_until: None,
            forward_query: true,
            title: None,
            tags: Vec::new(),
            external_id: None,
            archived: false,
            details: LinkDetails::default(),
        }
    }
}

impl Link {
    /// True if the link is in the scope: the rule that lists follow in SQL.
    #[must_use]
    pub fn is_in(&self, scope: &Scope) -> bool {
        let tags = &self.content.tags;
        scope.tenant_id == self.tenant_id
            && (scope.owner_id.is_none() || scope.owner_id == self.owner_id)
            && (scope.domains.is_empty() || scope.domains.contains(&self.domain))
            && (scope.tags.is_empty() || scope.tags.iter().any(|tag| tags.contains(tag)))
    }

    /// The link key.
    #[must_use]
    pub fn key(&self) -> LinkKey {
        LinkKey::new(self.domain.clone(), self.code.clone())
    }

    /// The record for edges.
    #[must_use]
    pub fn record(&self) -> Record<&str, Vec<u8>> {
        Record::Link(LinkRecord {
            url: self.content.target.as_str(),
            redirect: self.content.redirect,
            state: self.content.state,
            valid_since: self.content.valid_since,
            valid_until: self.content.valid_until,
            forward_query: self.content.forward_query,
            rev: self.rev,
            extension: self.content.details.extension(|| self.key()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_when_all_of_a_scope_is_met_is_in_it() {
        let mut content = LinkContent::to(TargetUrl::from_store("https://x.example/"));
        content.tags = vec!["a".to_owned(), "b".to_owned()];
        let link = Link {
            id: 1,
            domain: Domain::parse("a.example").unwrap(),
            code: "c".parse().unwrap(),
            tenant_id: 2,
            owner_id: Some(3),
            content,
            imported_visits: 0,
            created_at: 0,
            updated_at: 0,
            rev: 1,
        };
        let whole = Scope::tenant(2);
        let owner = |owner_id| Scope {
            owner_id,
            ..whole.clone()
        };
        let domains = |domains: &[&str]| Scope {
            domains: domains
                .iter()
                .map(|name| Domain::parse(name).unwrap())
                .collect(),
            ..whole.clone()
        };
        let tags = |tags: &[&str]| Scope {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..whole.clone()
        };
        for (scope, covers) in [
            (whole.clone(), true),
            (Scope::tenant(1), false),
            (owner(Some(3)), true),
            (owner(Some(4)), false),
            (domains(&["b.example", "a.example"]), true),
            (domains(&["b.example"]), false),
            (tags(&["x", "b"]), true),
            (tags(&["x"]), false),
        ] {
            assert_eq!(link.is_in(&scope), covers, "{scope:?}");
        }
        let of_none = Link {
            owner_id: None,
            ..link
        };
        assert!(of_none.is_in(&whole) && !of_none.is_in(&owner(Some(3))));
    }
}
