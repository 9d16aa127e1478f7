//! Changes of the properties of a link. A new link is a change of one that has only a target.

use super::caller::Caller;
use super::passwords::NewPassword;
use super::request::request;
use super::schemas::{State, Status, Tag};
use super::tenant_links::TenantLinks;
use super::values;
use edgelink_model::links::checked::{CheckedContent, CheckedTarget};
use edgelink_model::links::model::LinkContent;
use edgelink_store::ChangeError;
use edgelink_wire::{LinkState, RedirectStatus};

request! {
    /// The properties of a link that all requests for links have in common.
    pub(crate) struct LinkProperties(links: &TenantLinks<'_>) {
        /// Visitors get 404 before this time. It counts to the second.
        #[schema(format = "date-time")]
        "validSince" valid_since: nullable u64 as String = values::time;
        /// Visitors get 410 from this time on, which must be after `validSince`.
        #[schema(format = "date-time")]
        "validUntil" valid_until: nullable u64 as String = values::time;
        /// By default 302.
        "redirectStatus" redirect: nullable RedirectStatus as Status = values::redirect;
        /// Whether the visitor's query is merged into the target; by default true.
        "forwardQuery" forward_query: nullable bool as bool = values::flag;
        /// A title without control characters.
        #[schema(format = "line", min_length = 1, max_length = 512)]
        "title" title: nullable String as String = values::title;
        #[schema(max_items = 32)]
        "tags" tags: nullable Vec<String> as Vec<Tag> = values::tags;
        /// Notes for those who manage the link, of control characters with tabs and line ends only.
        #[schema(format = "notes", min_length = 1, max_length = 4096)]
        "notes" notes: nullable String as String = values::notes;
        /// By default `active`.
        "state" state: nullable LinkState as State = values::state;
        /// Whether the link is put away; by default false. It redirects as before.
        "archived" archived: nullable bool as bool = values::flag;
        /// How many visits the link has; then visitors get 410, or are sent to `expiredUrl`. By default there is no limit.
        #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)]
        "maxVisits" max_visits: nullable u64 as u64 = values::max_visits;
        /// False keeps bots from using visits of a link that has `maxVisits`; by default true. They get 503 of such a link then, and
        /// use none.
        "botsUseVisits" bots_use_visits: nullable bool as bool = values::flag;
        /// Where visitors are sent from `validUntil` on, or when no visits are left; by default they get 410. As `longUrl`.
        #[schema(format = "target-url", max_length = 8000)]
        "expiredUrl" expired_url: nullable CheckedTarget as String = |value| values::target(value, links);
        /// Whether what follows the code in the path is appended to that of the target; by default false.
        "forwardPath" forward_path: nullable bool as bool = values::flag;
        /// Whether search engines may list the link; by default false.
        "crawlable" crawlable: nullable bool as bool = values::flag;
        /// Whether the target gets the id of each click in the parameter `el_click`; by default false.
        "trackConversions" track_conversions: nullable bool as bool = values::flag;
        /// Whether browsers keep the page with the link from the target (`Referrer-Policy: no-referrer`); by default false.
        "hideReferrer" hide_referrer: nullable bool as bool = values::flag;
        /// What visitors have to give before they are redirected; by default nothing. Answers say `hasPassword` only. 1 to 255
        /// bytes.
        #[schema(format = "password", min_length = 1, max_length = 255)]
        "password" password: nullable NewPassword as String = values::password;
        /// A campaign parameter, which is a part of the target.
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "utmSource" utm_source: nullable String as String = values::utm;
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "utmMedium" utm_medium: nullable String as String = values::utm;
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "utmCampaign" utm_campaign: nullable String as String = values::utm;
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "utmTerm" utm_term: nullable String as String = values::utm;
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "utmContent" utm_content: nullable String as String = values::utm;
    }
}

request! {
    /// A JSON merge patch (RFC 7396) of a link: a field that is missing stays, null goes back to the default. Fields are those
    /// of `NewLink`.
    #[schema(example = json!({ "longUrl": "https://example.com/new", "title": null, "tags": ["summer", "autumn"] }))]
    pub struct LinkPatch(links: &TenantLinks<'_>) {
        /// Not null.
        #[schema(nullable = false, format = "target-url", max_length = 8000)]
        "longUrl" target: not_null CheckedTarget as String = |value| values::target(value, links);
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "externalId" external_id: nullable String as String = values::external_id;
        ..properties: LinkProperties(links);
    }
}

/// The fields of [`utm::NAMES`](edgelink_model::links::utm::NAMES).
const UTM_FIELDS: [&str; 5] = [
    "utmSource",
    "utmMedium",
    "utmCampaign",
    "utmTerm",
    "utmContent",
];

impl LinkPatch {
    /// The new password, which has to be hashed before the patch is applied to a stored link.
    pub(crate) fn new_password(&self) -> Option<&NewPassword> {
        self.properties.password.as_ref()?.as_ref()
    }

    /// Applies the patch to the content. Conditions on several properties are checked on the result, because a change may name some
    /// of them only. If the caller's key is bound to tags, the link gets them.
    pub(crate) fn apply(
        &self,
        mut new: CheckedContent,
        caller: &Caller,
    ) -> Result<CheckedContent, ChangeError> {
        let named = &self.properties;
        if let Some(target) = &self.target {
            new.set_target(target.clone());
        }
        if let Some(target) = &named.expired_url {
            new.set_expired_url(target.clone());
        }
        let utm = [
            &named.utm_source,
            &named.utm_medium,
            &named.utm_campaign,
            &named.utm_term,
            &named.utm_content,
        ];
        new.set_campaign(&utm.map(Clone::clone)).map_err(|error| {
            let named = UTM_FIELDS.iter().zip(utm);
            let mut named = named.filter_map(|(field, value)| value.as_ref().map(|_| *field));
            ChangeError::invalid(named.next().unwrap_or("longUrl"), error.to_string())
        })?;
        new.change_others(|others| self.apply_others(others, caller))?;
        Ok(new)
    }

    /// Applies the properties that are not targets.
    fn apply_others(&self, new: &mut LinkContent, caller: &Caller) -> Result<(), ChangeError> {
        let named = &self.properties;
        set(&mut new.external_id, &self.external_id);
        set(&mut new.redirect, &named.redirect);
        set(&mut new.state, &named.state);
        set(&mut new.valid_since, &named.valid_since);
        set(&mut new.valid_until, &named.valid_until);
        set(&mut new.title, &named.title);
        set(&mut new.tags, &named.tags);
        set(&mut new.details.notes, &named.notes);
        set(&mut new.archived, &named.archived);
        set(&mut new.details.max_visits, &named.max_visits);
        set(&mut new.details.forward_path, &named.forward_path);
        set(&mut new.details.crawlable, &named.crawlable);
        set(&mut new.details.track_conversions, &named.track_conversions);
        set(&mut new.details.hide_referrer, &named.hide_referrer);
        if let Some(forward) = named.forward_query {
            new.forward_query = forward.unwrap_or(true);
        }
        if let Some(use_visits) = named.bots_use_visits {
            new.details.spares_bots = !use_visits.unwrap_or(true);
        }
        if let Some(password) = &named.password {
            let hash = password.as_ref().map(|password| password.hash().to_owned());
            new.details.password = hash;
        }
        new.tags = caller.tags(std::mem::take(&mut new.tags));
        values::check_tags(&new.tags).map_err(|reason| ChangeError::invalid("tags", reason))?;
        values::check_validity(new.valid_since, new.valid_until)
            .map_err(|reason| ChangeError::invalid("validUntil", reason))
    }
}

/// Sets a property that the patch names; null sets its default.
fn set<P: Property>(property: &mut P, named: &Option<Option<P::Value>>) {
    if let Some(value) = named {
        *property = P::of(value.clone());
    }
}

/// A property of a link as a merge patch sets it.
trait Property {
    /// The value in a request.
    type Value: Clone;

    /// The property with that value, or else with its default.
    fn of(value: Option<Self::Value>) -> Self;
}

impl<T: Clone> Property for Option<T> {
    type Value = T;

    fn of(value: Option<T>) -> Self {
        value
    }
}

macro_rules! properties {
    ($($type:ty)*) => {$(
        impl Property for $type {
            type Value = Self;

            fn of(value: Option<Self>) -> Self {
                value.unwrap_or_default()
            }
        }
    )*};
}

properties! { bool Vec<String> RedirectStatus LinkState }
