//! The properties of a link as a form, and their change.

use super::api::{Console, query};
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::revision::Revision;
use super::shown_link::{ShownLink, link_page};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_model::links::model::LinkContent;
use edgelink_model::timestamp::Time;
use edgelink_service::caller::Right;
use edgelink_service::link_patch::LinkPatch;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::{revisions, values};
use edgelink_wire::{Code, LinkKey};
use http::StatusCode;
use serde_json::{Map, Value};

/// Properties that are texts.
const TEXTS: [&str; 10] = [
    "title",
    "notes",
    "externalId",
    "expiredUrl",
    "utmSource",
    "utmMedium",
    "utmCampaign",
    "utmTerm",
    "utmContent",
    "state",
];

/// A property that is true or false: its name, its label, and its value in a link and by default.
type Flag = (&'static str, &'static str, fn(&LinkContent) -> bool, bool);

const FLAGS: [Flag; 6] = [
    (
        "forwardQuery",
        t::FORWARD_QUERY,
        |link| link.forward_query,
        true,
    ),
    (
        "forwardPath",
        t::FORWARD_PATH,
        |link| link.details.forward_path,
        false,
    ),
    (
        "crawlable",
        t::CRAWLABLE,
        |link| link.details.crawlable,
        false,
    ),
    (
        "trackConversions",
        t::TRACK_CONVERSIONS,
        |link| link.details.track_conversions,
        false,
    ),
    (
        "hideReferrer",
        t::HIDE_REFERRER,
        |link| link.details.hide_referrer,
        false,
    ),
    ("archived", t::ARCHIVED, |link| link.archived, false),
];

#[derive(Template)]
#[template(path = "console/edit.html")]
struct EditPage {
    layout: Layout,
    link: ShownLink,
    fields: Fields,
    /// See [`Console::settings`].
    settings: String,
    revision: Revision,
}

/// The properties as fields, with the values of a link.
pub(super) fn properties(link: Option<&ShownLink>) -> Vec<Field> {
    let mut fields = described(link);
    fields.extend(validity(link));
    fields.extend(redirecting(link));
    // In an existing link they are part of the target.
    if link.is_none() {
        let utm = t::UTM.iter().map(|(name, label)| Field::new(name, label));
        fields.extend(utm);
    }
    fields
}

fn text_of(link: Option<&ShownLink>, text: fn(&ShownLink) -> Option<&str>) -> &str {
    link.and_then(text).unwrap_or_default()
}

/// The fields by which people recognize a link.
fn described(link: Option<&ShownLink>) -> Vec<Field> {
    vec![
        Field::new("title", t::TITLE).value(text_of(link, |link| link.content.title.as_deref())),
        tags(link),
        Field::new("externalId", t::EXTERNAL_ID)
            .hint(t::EXTERNAL_ID_HINT)
            .value(text_of(link, |link| link.content.external_id.as_deref())),
        Field::new("notes", t::NOTES)
            .input(Input::Lines)
            .value(text_of(link, |link| link.content.details.notes.as_deref())),
    ]
}

/// The tags of a link, one per line, because a tag may contain a comma.
fn tags(link: Option<&ShownLink>) -> Field {
    let field = Field::new("tags", t::TAGS);
    match link {
        None => field.hint(t::TAGS_HINT),
        Some(link) => field
            .hint(t::TAG_LINES_HINT)
            .input(Input::Lines)
            .value(link.content.tags.join("\n")),
    }
}

/// The fields that restrict redirects: times, limits and the password.
fn validity(link: Option<&ShownLink>) -> Vec<Field> {
    let time = |name, label, time: fn(&ShownLink) -> Option<Time>| {
        let time = link.and_then(time).map_or(String::new(), |time| time.0);
        let field = Field::new(name, label).hint(t::UTC).value(local(&time));
        field.input(Input::Line("datetime-local"))
    };
    let max_visits = link.and_then(|link| link.content.details.max_visits);
    let has_password = link.is_some_and(ShownLink::has_password);
    let password = if has_password {
        t::PASSWORD_IS_SET
    } else {
        t::LINK_PASSWORD_HINT
    };
    let mut fields = vec![
        Field::choice("state", t::STATE, &t::STATES)
            .value(link.map_or("active", |link| link.content.state.as_str())),
        time("validSince", t::VALID_SINCE, ShownLink::valid_since),
        time("validUntil", t::VALID_UNTIL, ShownLink::valid_until),
        Field::new("maxVisits", t::MAX_VISITS)
            .hint(t::MAX_VISITS_HINT)
            .input(Input::Line("number"))
            .value(max_visits.map_or(String::new(), |max| max.to_string())),
        Field::new("expiredUrl", t::EXPIRED_URL)
            .hint(t::EXPIRED_URL_HINT)
            .input(Input::Line("url"))
            .value(text_of(link, |link| {
                link.content.details.expired_url.as_deref()
            })),
        Field::new("password", t::PASSWORD)
            .hint(password)
            .input(Input::Password("new-password")),
    ];
    if has_password {
        fields.push(Field::tick("removePassword", t::REMOVE_PASSWORD, false));
    }
    fields
}

/// The fields that define the redirect.
fn redirecting(link: Option<&ShownLink>) -> Vec<Field> {
    // An existing link has a status of its own.
    let statuses = &t::STATUSES[usize::from(link.is_some())..];
    let status = link.map(|link| link.content.redirect.code().to_string());
    let status = Field::choice("redirectStatus", t::REDIRECT_STATUS, statuses)
        .value(status.unwrap_or_default());
    let flags = FLAGS.map(|(name, label, flag, default)| {
        Field::tick(
            name,
            label,
            link.map_or(default, |link| flag(&link.content)),
        )
    });
    [status].into_iter().chain(flags).collect()
}

/// A time of the API in the format of the browser's field.
fn local(time: &str) -> &str {
    time.strip_suffix('Z').unwrap_or(time)
}

/// The properties that a form has sent, as a merge patch.
pub(super) fn body(form: &Form) -> Map<String, Value> {
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
    for name in TEXTS {
        set(name, form.text(name));
    }
    for (name, ..) in FLAGS {
        set(name, form.is_on(name).into());
    }
    for name in ["validSince", "validUntil"] {
        set(name, form.time(name));
    }
    for name in ["redirectStatus", "maxVisits"] {
        set(name, form.number(name));
    }
    set("tags", form.list("tags"));
    set("notes", lines(form.get("notes")));
    let password = form.get("password");
    if form.is_on("removePassword") {
        set("password", Value::Null);
    } else if !password.is_empty() {
        set("password", password.into());
    }
    body
}

/// Several lines as people write them: browsers send CRLF.
fn lines(text: &str) -> Value {
    match text.trim() {
        "" => Value::Null,
        text => text.replace("\r\n", "\n").into(),
    }
}

/// `GET /console/links/{code}/edit`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
) -> Result<Response, Problem> {
    me.check(Right::ChangeLinks)?;
    let (link, entity_tag) = find(&console, &me, &code, asked.get("domain")).await?;
    let fields = fields(&link);
    let settings = console.settings(me.caller());
    let revision = Revision::new(entity_tag);
    Ok(EditPage::new(&me, link, fields, (settings, revision)).send(StatusCode::OK))
}

/// The key of the link in a path, on that domain or the default one.
pub(super) fn key(
    console: &Console,
    me: &SignedIn,
    code: &str,
    domain: &str,
) -> Result<LinkKey, Problem> {
    let links = console.app.links.of_tenant(me.caller());
    let domain = match domain {
        "" => links.default_domain().clone(),
        domain => values::domain(&domain.into(), &links)
            .map_err(|reason| Problem::of_field("domain", reason))?,
    };
    let code = Code::parse(code).map_err(|_| Problem::new(Kind::LinkNotFound))?;
    Ok(LinkKey::new(domain, code))
}

/// A link and its revision.
pub(super) async fn find(
    console: &Console,
    me: &SignedIn,
    code: &str,
    domain: &str,
) -> Result<(ShownLink, String), Problem> {
    let key = key(console, me, code, domain)?;
    let links = &console.app.links;
    let (link, visits) = links.find_with_visits(me.caller(), &key).await?;
    let entity_tag = revisions::tag_of(link.rev);
    let link = ShownLink::new(link, visits, &console.app.config.links);
    Ok((link, entity_tag))
}

fn fields(link: &ShownLink) -> Fields {
    let target = Field::new("longUrl", t::TARGET)
        .hint(t::TARGET_HINT)
        .input(Input::Line("url"))
        .value(link.long_url())
        .required();
    let mut all = vec![target];
    all.extend(properties(Some(link)));
    Fields::new(all)
}

impl EditPage {
    fn new(
        me: &SignedIn,
        link: ShownLink,
        fields: Fields,
        (settings, revision): (String, Revision),
    ) -> Self {
        Self {
            layout: Layout::new(me, Some(Tab::Links), t::EDIT),
            link,
            fields,
            settings,
            revision,
        }
    }

    fn send(&self, status: StatusCode) -> Response {
        layout::send(status, self)
    }
}

/// `POST /console/links/{code}/edit`.
pub(super) async fn change(
    State(console): State<Console>,
    me: SignedIn,
    Path(code): Path<String>,
    Query(asked): Query,
    form: Form,
) -> Result<Response, Problem> {
    let domain = asked.get("domain");
    let mut patch = body(&form);
    patch.insert("longUrl".to_owned(), form.get("longUrl").trim().into());
    patch.insert("tags".to_owned(), form.lines("tags"));
    // The campaign is part of the edited target.
    patch.retain(|name, _| !name.starts_with("utm"));
    let links = &console.app.links;
    let changed = async {
        let key = key(&console, &me, &code, domain)?;
        let patch = LinkPatch::read(patch, &links.of_tenant(me.caller()))?;
        links
            .change(me.caller(), key, form.revisions(), patch)
            .await
    };
    match changed.await {
        Ok(changed) => Ok(changed.answer(|_| {
            let to = query([("domain", domain), ("done", "changed")]);
            Redirect::to(&link_page(&code, "", &to)).into_response()
        })),
        Err(problem) if stays(&problem) => {
            let (link, entity_tag) = find(&console, &me, &code, domain).await?;
            let stored = fields(&link);
            let revision = Revision::new(entity_tag).again(&form, &problem, &stored);
            let fields = stored.filled(&form).with(&problem);
            let settings = console.settings(me.caller());
            let page = EditPage::new(&me, link, fields, (settings, revision));
            Ok(page.send(problem.status()))
        }
        Err(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn form_when_submitted_becomes_a_merge_patch() {
        let form = Form::parse(
            b"title=+T+&tags=a,b&redirectStatus=301&validSince=2030-01-01T00:00&maxVisits=x&forwardQuery=on&notes=1%0D%0A2&state=disabled",
        );
        let patch = body(&form);
        assert_eq!(
            Value::Object(patch),
            json!({
                "title": "T", "tags": ["a", "b"], "redirectStatus": 301, "validSince": "2030-01-01T00:00:00Z",
                "validUntil": null, "maxVisits": "x", "forwardQuery": true, "forwardPath": false, "crawlable": false,
                "trackConversions": false, "hideReferrer": false, "archived": false, "notes": "1\n2", "state": "disabled", "externalId": null,
                "expiredUrl": null, "utmSource": null, "utmMedium": null, "utmCampaign": null, "utmTerm": null,
                "utmContent": null,
            })
        );
        assert_eq!(body(&Form::parse(b"password=p"))["password"], "p");
        assert_eq!(
            body(&Form::parse(b"password=p&removePassword=on"))["password"],
            Value::Null
        );
    }
}
