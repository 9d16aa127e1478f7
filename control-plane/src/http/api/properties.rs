//! The properties of a link as requests name them: for a new link, and for a change. A new link is a change of one that has
//! only a target.

use super::fields::Fields;
use super::values;
use crate::http::auth::Caller;
use crate::http::tenant_links::TenantLinks;
use crate::links::model::LinkContent;
use crate::links::passwords::NewPassword;
use crate::links::utm;
use crate::store::ChangeError;
use edgelink_wire::target::TargetUrl;
use edgelink_wire::{LinkState, RedirectStatus};

/// The new values of the properties that a request names. The outer `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Properties {
    target: Option<TargetUrl>,
    redirect: Option<RedirectStatus>,
    state: Option<LinkState>,
    valid_since: Option<Option<u64>>,
    valid_until: Option<Option<u64>>,
    forward_query: Option<bool>,
    title: Option<Option<String>>,
    tags: Option<Vec<String>>,
    notes: Option<Option<String>>,
    external_id: Option<Option<String>>,
    archived: Option<bool>,
    max_visits: Option<Option<u64>>,
    expired_url: Option<Option<String>>,
    forward_path: Option<bool>,
    crawlable: Option<bool>,
    track_conversions: Option<bool>,
    password: Option<Option<NewPassword>>,
    utm: [Option<Option<String>>; 5],
    /// Who sets them.
    caller: Option<Caller>,
}

/// The fields of [`utm::NAMES`].
const UTM_FIELDS: [&str; 5] = [
    "utmSource",
    "utmMedium",
    "utmCampaign",
    "utmTerm",
    "utmContent",
];

impl Properties {
    /// Reads them as a JSON merge patch (RFC 7396): null sets the default, and is refused for the target.
    pub(super) fn read(fields: &mut Fields, links: &TenantLinks<'_>) -> Self {
        let target = fields.change("longUrl", |value| values::target(value, links));
        if target == Some(None) {
            fields.refuse("longUrl", "must not be null");
        }
        let or_true = |change: Option<Option<bool>>| change.map(|value| value.unwrap_or(true));
        let or_false = |change: Option<Option<bool>>| change.map(Option::unwrap_or_default);
        Self {
            target: target.flatten(),
            valid_since: fields.change("validSince", values::time),
            valid_until: fields.change("validUntil", values::time),
            redirect: fields
                .change("redirectStatus", values::redirect)
                .map(Option::unwrap_or_default),
            forward_query: or_true(fields.change("forwardQuery", values::flag)),
            title: fields.change("title", values::title),
            tags: fields
                .change("tags", values::tags)
                .map(Option::unwrap_or_default),
            state: fields
                .change("state", values::state)
                .map(Option::unwrap_or_default),
            notes: fields.change("notes", values::notes),
            external_id: fields.change("externalId", values::external_id),
            archived: or_false(fields.change("archived", values::flag)),
            expired_url: fields.change("expiredUrl", |value| {
                values::target(value, links).map(|target| target.as_str().to_owned())
            }),
            forward_path: or_false(fields.change("forwardPath", values::flag)),
            crawlable: or_false(fields.change("crawlable", values::flag)),
            track_conversions: or_false(fields.change("trackConversions", values::flag)),
            max_visits: fields.change("maxVisits", values::max_visits),
            password: fields.change("password", values::password),
            utm: UTM_FIELDS.map(|field| fields.change(field, values::utm)),
            caller: None,
        }
    }

    /// The same as `caller` may set them: a link of a key that is bound to tags has them.
    pub(super) fn by(self, caller: &Caller) -> Self {
        Self {
            caller: Some(caller.clone()),
            ..self
        }
    }

    /// Makes the target one of the named properties.
    pub(super) fn set_target(&mut self, target: TargetUrl) {
        self.target = Some(target);
    }

    /// The new password, which is to be hashed before the properties are applied to a link that is kept.
    pub(super) fn new_password(&self) -> Option<&NewPassword> {
        self.password.as_ref()?.as_ref()
    }

    /// The changed content. What depends on several properties is checked on it, because a change may name some of them only.
    pub(super) fn apply(&self, old: &LinkContent) -> Result<LinkContent, ChangeError> {
        let mut new = old.clone();
        set(&mut new.target, self.target.as_ref());
        set(&mut new.redirect, self.redirect.as_ref());
        set(&mut new.state, self.state.as_ref());
        set(&mut new.valid_since, self.valid_since.as_ref());
        set(&mut new.valid_until, self.valid_until.as_ref());
        set(&mut new.forward_query, self.forward_query.as_ref());
        set(&mut new.title, self.title.as_ref());
        set(&mut new.tags, self.tags.as_ref());
        set(&mut new.details.notes, self.notes.as_ref());
        set(&mut new.external_id, self.external_id.as_ref());
        set(&mut new.archived, self.archived.as_ref());
        set(&mut new.details.max_visits, self.max_visits.as_ref());
        set(&mut new.details.expired_url, self.expired_url.as_ref());
        set(&mut new.details.forward_path, self.forward_path.as_ref());
        set(&mut new.details.crawlable, self.crawlable.as_ref());
        let tracks = &mut new.details.track_conversions;
        set(tracks, self.track_conversions.as_ref());
        if let Some(password) = &self.password {
            let hash = password.as_ref().map(|password| password.hash().to_owned());
            new.details.password = hash;
        }
        new.target = utm::with(&new.target, &self.utm).map_err(|error| {
            let named = UTM_FIELDS.iter().zip(&self.utm);
            let mut named = named.filter_map(|(field, value)| value.as_ref().map(|_| *field));
            ChangeError::invalid(named.next().unwrap_or("longUrl"), error.to_string())
        })?;
        if let Some(caller) = &self.caller {
            new.tags = caller.tags(new.tags);
            values::check_tags(&new.tags).map_err(|reason| ChangeError::invalid("tags", reason))?;
        }
        values::check_validity(new.valid_since, new.valid_until)
            .map_err(|reason| ChangeError::invalid("validUntil", reason))?;
        Ok(new)
    }
}

fn set<T: Clone>(property: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        property.clone_from(value);
    }
}
