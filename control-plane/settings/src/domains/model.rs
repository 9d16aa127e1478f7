//! A domain in the store.

use edgelink_model::links::checked::CheckedTarget;
use edgelink_wire::{Domain, DomainTargets, Record, RedirectStatus};
use serde::{Deserialize, Serialize};

/// Properties of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DomainDetails {
    /// Target of `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_url: Option<String>,
    /// Target of codes without a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_found_url: Option<String>,
    /// Target of links that are disabled or expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired_url: Option<String>,
    /// The status of redirects of new links that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_status: Option<u16>,
    /// See [`Brand::name`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brand_name: Option<String>,
    /// See [`Brand::logo`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brand_logo: Option<String>,
    /// See [`Brand::color`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brand_color: Option<String>,
}

/// Look of a domain's pages for visitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brand<'d> {
    /// Name of the owner.
    pub name: Option<&'d str>,
    /// A picture: a URL of https, or a data URL.
    pub logo: Option<&'d str>,
    /// Accent colour, `#rrggbb` in lower case.
    pub color: Option<&'d str>,
}

impl DomainDetails {
    /// Look of its pages for visitors.
    #[must_use]
    pub fn brand(&self) -> Brand<'_> {
        Brand {
            name: self.brand_name.as_deref(),
            logo: self.brand_logo.as_deref(),
            color: self.brand_color.as_deref(),
        }
    }

    /// Targets of requests that no link answers.
    #[must_use]
    pub fn targets(&self) -> DomainTargets<&str> {
        DomainTargets {
            root: self.root_url.as_deref(),
            not_found: self.not_found_url.as_deref(),
            expired: self.expired_url.as_deref(),
        }
    }

    /// The status of redirects of new links that name none; `None` if the domain has no default.
    #[must_use]
    pub fn default_status(&self) -> Option<RedirectStatus> {
        self.default_status.and_then(RedirectStatus::from_code)
    }
}

/// A domain that the API has created or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainRow {
    /// Its key.
    pub id: u32,
    /// Its name.
    pub domain: Domain,
    /// Its tenant; the first one for a configured domain.
    pub tenant_id: u32,
    /// Its properties.
    pub details: DomainDetails,
    /// Token that a TXT record must contain before the domain counts as verified; `None` for a configured domain.
    pub token: Option<String>,
    /// Time of verification, unix time in milliseconds; `None` if it is not verified.
    pub verified_at: Option<u64>,
    /// Time of creation, unix time in milliseconds; `None` for a configured domain.
    pub created_at: Option<u64>,
    /// Its revision.
    pub rev: u64,
}

impl DomainRow {
    /// True if the API has created it.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.created_at.is_some()
    }

    /// True if its links are served: the API has created it, and it is verified.
    #[must_use]
    pub fn is_in_effect(&self) -> bool {
        self.is_made() && self.verified_at.is_some()
    }

    /// The record for edges: absent while its links are not served. Edges have configured domains anyway.
    #[must_use]
    pub fn record(&self) -> Record<String> {
        if self.is_in_effect() || !self.is_made() {
            self.details.targets().record(&self.domain, self.rev)
        } else {
            Record::Absent { rev: self.rev }
        }
    }
}

/// Changes of a domain: `Some(None)` clears a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainPatch {
    /// The new `rootUrl`.
    pub root_url: Option<Option<CheckedTarget>>,
    /// The new `notFoundUrl`.
    pub not_found_url: Option<Option<CheckedTarget>>,
    /// The new `expiredUrl`.
    pub expired_url: Option<Option<CheckedTarget>>,
    /// The new `defaultStatus`.
    pub default_status: Option<Option<u16>>,
    /// The new `brandName`.
    pub brand_name: Option<Option<String>>,
    /// The new `brandLogo`.
    pub brand_logo: Option<Option<String>>,
    /// The new `brandColor`.
    pub brand_color: Option<Option<String>>,
    /// The new verification state.
    pub verified: Option<bool>,
}

impl DomainPatch {
    /// The details after the change.
    #[must_use]
    pub fn apply(&self, old: &DomainDetails) -> DomainDetails {
        let text = |new: &Option<Option<String>>, old: &Option<String>| {
            new.clone().unwrap_or_else(|| old.clone())
        };
        let target = |new: &Option<Option<CheckedTarget>>, old: &Option<String>| match new {
            Some(new) => new.as_ref().map(|target| target.as_str().to_owned()),
            None => old.clone(),
        };
        DomainDetails {
            root_url: target(&self.root_url, &old.root_url),
            not_found_url: target(&self.not_found_url, &old.not_found_url),
            expired_url: target(&self.expired_url, &old.expired_url),
            default_status: self.default_status.unwrap_or(old.default_status),
            brand_name: text(&self.brand_name, &old.brand_name),
            brand_logo: text(&self.brand_logo, &old.brand_logo),
            brand_color: text(&self.brand_color, &old.brand_color),
        }
    }
}
