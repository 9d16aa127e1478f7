//! The properties of a link as requests name them: for a new link, and for a change. A new link is a change of one that has
//! only a target.

use super::fields::Fields;
use super::values;
use crate::http::auth::Caller;
use crate::http::tenant_links::TenantLinks;
use crate::links::checked::{CheckedContent, CheckedTarget, OtherProperties};
use crate::service::passwords::NewPassword;
use crate::store::ChangeError;
use edgelink_wire::{LinkState, RedirectStatus};

/// The new values of the properties that a request names. The outer `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Properties {
    target: Option<CheckedTarget>,
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
    bots_use_visits: Option<bool>,
    expired_url: Option<Option<CheckedTarget>>,
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
            expired_url: fields.change("expiredUrl", |value| values::target(value, links)),
            forward_path: or_false(fields.change("forwardPath", values::flag)),
            crawlable: or_false(fields.change("crawlable", values::flag)),
            track_conversions: or_false(fields.change("trackConversions", values::flag)),
            max_visits: fields.change("maxVisits", values::max_visits),
            bots_use_visits: or_true(fields.change("botsUseVisits", values::flag)),
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
    pub(super) fn set_target(&mut self, target: CheckedTarget) {
        self.target = Some(target);
    }

    /// The new password, which is to be hashed before the properties are applied to a link that is kept.
    pub(super) fn new_password(&self) -> Option<&NewPassword> {
        self.password.as_ref()?.as_ref()
    }

    /// The same password alone.
    pub(super) fn into_new_password(self) -> Option<NewPassword> {
        self.password.flatten()
    }

    /// Makes the content what it is with them. What depends on several properties is checked on it, because a change may name some of
    /// them only.
    pub(super) fn apply(&self, mut new: CheckedContent) -> Result<CheckedContent, ChangeError> {
        if let Some(target) = &self.target {
            new.set_target(target.clone());
        }
        if let Some(target) = &self.expired_url {
            new.set_expired_url(target.clone());
        }
        new.set_campaign(&self.utm).map_err(|error| {
            let named = UTM_FIELDS.iter().zip(&self.utm);
            let mut named = named.filter_map(|(field, value)| value.as_ref().map(|_| *field));
            ChangeError::invalid(named.next().unwrap_or("longUrl"), error.to_string())
        })?;
        self.apply_others(&mut new.others())?;
        Ok(new)
    }

    /// The same of what is no target.
    fn apply_others(&self, new: &mut OtherProperties<'_>) -> Result<(), ChangeError> {
        set(new.redirect, self.redirect.as_ref());
        set(new.state, self.state.as_ref());
        set(new.valid_since, self.valid_since.as_ref());
        set(new.valid_until, self.valid_until.as_ref());
        set(new.forward_query, self.forward_query.as_ref());
        set(new.title, self.title.as_ref());
        set(new.tags, self.tags.as_ref());
        set(new.notes, self.notes.as_ref());
        set(new.external_id, self.external_id.as_ref());
        set(new.archived, self.archived.as_ref());
        set(new.max_visits, self.max_visits.as_ref());
        let spares_bots = self.bots_use_visits.map(|use_visits| !use_visits);
        set(new.spares_bots, spares_bots.as_ref());
        set(new.forward_path, self.forward_path.as_ref());
        set(new.crawlable, self.crawlable.as_ref());
        set(new.track_conversions, self.track_conversions.as_ref());
        if let Some(password) = &self.password {
            let hash = password.as_ref().map(|password| password.hash().to_owned());
            *new.password = hash;
        }
        if let Some(caller) = &self.caller {
            *new.tags = caller.tags(std::mem::take(new.tags));
            values::check_tags(new.tags).map_err(|reason| ChangeError::invalid("tags", reason))?;
        }
        values::check_validity(*new.valid_since, *new.valid_until)
            .map_err(|reason| ChangeError::invalid("validUntil", reason))
    }
}

fn set<T: Clone>(property: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        property.clone_from(value);
    }
}
