//! Parsers of fields' values into types that are valid by construction.

use super::caller::Caller;
use super::fields::{Fields, Reason};
use super::passwords::NewPassword;
use super::tenant_links::TenantLinks;
use edgelink_model::links::checked::CheckedTarget;
use edgelink_model::tenancy::{AccountName, Role};
use edgelink_model::text::tidy;
use edgelink_model::timestamp;
use edgelink_settings::domains::NoDomain;
use edgelink_wire::domain_name;
use edgelink_wire::password::MAX_PASSWORD_LENGTH;
use edgelink_wire::{Code, Domain, LinkState, RedirectStatus};
use serde_json::Value;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The longest title in characters.
pub const MAX_TITLE_LENGTH: usize = 512;
/// The longest notes in characters.
pub const MAX_NOTES_LENGTH: usize = 4096;
/// The longest external id in bytes.
pub(crate) const MAX_EXTERNAL_ID_LENGTH: usize = 255;
/// The longest campaign parameter in characters.
pub(crate) const MAX_UTM_LENGTH: usize = 255;
/// Upper bound of `maxVisits`.
pub(crate) const MAX_MAX_VISITS: u64 = 1_000_000_000_000;
/// Limit on the number of tags of a link.
pub(crate) const MAX_TAGS: usize = 32;
/// The longest tag in characters.
pub const MAX_TAG_LENGTH: usize = 64;

/// Returns the text of a JSON string; refuses any other value.
pub fn text(value: &Value) -> Result<&str, Reason> {
    value.as_str().ok_or(Reason::Borrowed("must be a string"))
}

fn reason(error: impl Display) -> Reason {
    Reason::Owned(error.to_string())
}

pub(crate) fn target(value: &Value, links: &TenantLinks<'_>) -> Result<CheckedTarget, Reason> {
    links.check_target(text(value)?).map_err(reason)
}

pub(crate) fn slug(value: &Value) -> Result<Code, Reason> {
    Code::parse(text(value)?).map_err(reason)
}

/// The alias of a new link, or of one that moves.
pub(crate) fn alias(value: &Value, links: &TenantLinks<'_>) -> Result<Code, Reason> {
    let alias = slug(value)?;
    if links.reserves(&alias) {
        Err("is reserved here for other services (links.reserved)".into())
    } else {
        Ok(alias)
    }
}

/// A domain that the tenant knows.
pub fn domain(value: &Value, links: &TenantLinks<'_>) -> Result<Domain, Reason> {
    let domain = domain_name::parse(text(value)?).map_err(reason)?;
    if links.knows(&domain) {
        Ok(domain)
    } else {
        Err(reason(NoDomain::Unknown))
    }
}

/// The name of a domain, known or not.
pub(crate) fn domain_name(value: &Value) -> Result<Domain, Reason> {
    domain_name::parse(text(value)?).map_err(reason)
}

/// The domain of a new link, or of one that moves: the requested one, or else `otherwise`. It is refused where the tenant, or the
/// key, may not have new links; `otherwise` stands in for it then.
pub(crate) fn place(
    fields: &mut Fields,
    asked_for: Option<Domain>,
    otherwise: &Domain,
    caller: &Caller,
    links: &TenantLinks<'_>,
) -> Domain {
    let domain = asked_for.unwrap_or_else(|| otherwise.clone());
    let check = || -> Result<(), Reason> {
        links.check(&domain).map_err(reason)?;
        Ok(caller.check_domain(&domain)?)
    };
    match check() {
        Ok(()) => domain,
        Err(reason) => {
            fields.refuse("domain", reason);
            otherwise.clone()
        }
    }
}

/// A time in unix seconds.
pub fn time(value: &Value) -> Result<u64, Reason> {
    timestamp::parse(text(value)?).map_err(reason)
}

/// Parses the status of a redirect: 301, 302, 307 or 308.
pub fn redirect(value: &Value) -> Result<RedirectStatus, Reason> {
    value
        .as_u64()
        .and_then(|code| u16::try_from(code).ok())
        .and_then(RedirectStatus::from_code)
        .ok_or(Reason::Borrowed("must be 301, 302, 307 or 308"))
}

pub(crate) fn state(value: &Value) -> Result<LinkState, Reason> {
    text(value)?.parse().map_err(reason)
}

pub(crate) fn flag(value: &Value) -> Result<bool, Reason> {
    value
        .as_bool()
        .ok_or(Reason::Borrowed("must be true or false"))
}

/// A limit of visits.
pub(crate) fn max_visits(value: &Value) -> Result<u64, Reason> {
    let limit = value
        .as_u64()
        .filter(|limit| (1..=MAX_MAX_VISITS).contains(limit));
    limit.ok_or(Reason::Borrowed(
        "must be a whole number from 1 to 1000000000000, or null",
    ))
}

/// A flag in a query, where all values are texts.
pub fn query_flag(value: &Value) -> Result<bool, Reason> {
    match text(value)? {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false".into()),
    }
}

pub(crate) fn title(value: &Value) -> Result<String, Reason> {
    let title = text(value)?;
    if is_line(title, MAX_TITLE_LENGTH) {
        Ok(title.to_owned())
    } else {
        Err("must be 1 to 512 characters without control characters, or null".into())
    }
}

/// The id of a link in another system.
pub(crate) fn external_id(value: &Value) -> Result<String, Reason> {
    let id = text(value)?;
    if is_line(id, MAX_EXTERNAL_ID_LENGTH) && id.len() <= MAX_EXTERNAL_ID_LENGTH {
        Ok(id.to_owned())
    } else {
        Err("must be 1 to 255 bytes without control characters, or null".into())
    }
}

/// A new password; its text is in no message.
pub(crate) fn password(value: &Value) -> Result<NewPassword, Reason> {
    let password = text(value)?;
    if (1..=MAX_PASSWORD_LENGTH).contains(&password.len()) {
        Ok(NewPassword::new(password))
    } else {
        Err("must be 1 to 255 bytes, or null".into())
    }
}

/// The value of a campaign parameter.
pub(crate) fn utm(value: &Value) -> Result<String, Reason> {
    let value = text(value)?;
    if is_line(value, MAX_UTM_LENGTH) {
        Ok(value.to_owned())
    } else {
        Err("must be 1 to 255 characters without control characters, or null".into())
    }
}

/// Copies the text of a JSON string; refuses any other value.
pub fn string(value: &Value) -> Result<String, Reason> {
    text(value).map(str::to_owned)
}

pub(crate) fn notes(value: &Value) -> Result<String, Reason> {
    let notes = text(value)?;
    let is_text = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t');
    let length = notes.chars().count();
    if (1..=MAX_NOTES_LENGTH).contains(&length) && notes.chars().all(is_text) {
        Ok(notes.to_owned())
    } else {
        Err(
            "must be 1 to 4096 characters, of control characters only tabs and line ends, or null"
                .into(),
        )
    }
}

/// One tag. Tags that are typed alike are equal.
pub fn tag(value: &Value) -> Result<String, Reason> {
    tag_of(text(value)?)
        .ok_or_else(|| "must be 1 to 64 characters without control characters".into())
}

/// The tag that a text stands for.
fn tag_of(text: &str) -> Option<String> {
    // Checked before normalizing, whose cost grows with the length. No character is composed of more than a few.
    let is_short = text.len() <= 64 * MAX_TAG_LENGTH;
    let tag = is_short.then(|| tidy(text));
    tag.filter(|tag| is_line(tag, MAX_TAG_LENGTH))
}

/// The tags, sorted and without duplicates.
pub fn tags(value: &Value) -> Result<Vec<String>, Reason> {
    let refusal = || Reason::Borrowed("must be a list of strings");
    let items = value.as_array().ok_or_else(refusal)?;
    if items.len() > MAX_TAGS {
        return Err("must be at most 32 tags".into());
    }
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let tags = texts.ok_or_else(refusal)?.into_iter().map(tag_of);
    let refusal = "must hold tags of 1 to 64 characters without control characters";
    let mut tags = tags.collect::<Option<Vec<String>>>().ok_or(refusal)?;
    tags.sort_unstable();
    tags.dedup();
    Ok(tags)
}

pub(crate) fn is_line(text: &str, max_length: usize) -> bool {
    !text.is_empty() && text.chars().count() <= max_length && !text.chars().any(char::is_control)
}

/// Checks the number of tags of a link, including the tags that its creator's key adds.
pub(crate) fn check_tags(tags: &[String]) -> Result<(), &'static str> {
    if tags.len() <= MAX_TAGS {
        Ok(())
    } else {
        Err("must be at most 32 tags, with those to which the key is bound")
    }
}

/// Checks that a validity ends after its start.
pub(crate) fn check_validity(since: Option<u64>, until: Option<u64>) -> Result<(), &'static str> {
    match (since, until) {
        (Some(since), Some(until)) if until <= since => Err("must be after validSince"),
        _ => Ok(()),
    }
}

/// Permitted lengths of a user's password, in bytes.
const PASSWORD_LENGTHS: RangeInclusive<usize> = 8..=255;

/// The longest overlap of a rotation in seconds: a week.
const MAX_OVERLAP_SECONDS: u64 = 7 * 24 * 60 * 60;

/// The greatest integer that every JSON reader represents exactly: 2^53 - 1.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// The name of a tenant, user or key.
pub(crate) fn account_name(value: &Value) -> Result<AccountName, Reason> {
    let name = AccountName::parse(value.as_str().unwrap_or_default());
    name.map_err(|error| error.to_string().into())
}

/// The password of a user.
pub fn password_of_user(value: &Value) -> Result<NewPassword, Reason> {
    let is_password = |text: &&str| PASSWORD_LENGTHS.contains(&text.len());
    let password = value.as_str().filter(is_password).map(NewPassword::new);
    password.ok_or(Reason::Borrowed("must be 8 to 255 bytes"))
}

/// A role.
pub(crate) fn role(value: &Value) -> Result<Role, Reason> {
    let role = value.as_str().and_then(Role::of_word);
    role.ok_or(Reason::Borrowed("must be admin, editor, reader or creator"))
}

/// An integer that every JSON reader represents exactly.
pub(crate) fn number(value: &Value) -> Result<u64, Reason> {
    let number = value.as_u64().filter(|number| *number <= MAX_NUMBER);
    number.ok_or(Reason::Borrowed(
        "must be a whole number of 0 to 9007199254740991",
    ))
}

/// The seconds for which a secret works beside its replacement.
pub(crate) fn overlap(value: &Value) -> Result<u64, Reason> {
    let seconds = value.as_u64();
    let seconds = seconds.filter(|seconds| *seconds <= MAX_OVERLAP_SECONDS);
    seconds.ok_or(Reason::Borrowed(
        "must be a whole number of seconds, 0 to 604800",
    ))
}
