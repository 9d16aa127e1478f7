//! Creating links: one with all its fields, or many, a line each.

use super::api::Console;
use super::edit;
use super::errors::describe;
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::links::domain_field;
use super::shown_link::ShownLink;
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_service::answer_room::AnswerRoom;
use edgelink_service::caller::Right;
use edgelink_service::create_link::{CreateLink, Created};
use edgelink_service::problem::Problem;
use edgelink_service::sessions::Token;
use http::StatusCode;
use serde_json::{Map, Value};

#[derive(Template)]
#[template(path = "console/create.html")]
struct CreatePage {
    layout: Layout,
    fields: Fields,
    /// See [`Console::settings`].
    settings: String,
    /// See [`Form::once`].
    once: String,
}

/// The page after a creation, for users who may not read links.
#[derive(Template)]
#[template(path = "console/created.html")]
struct CreatedPage {
    layout: Layout,
    link: ShownLink,
}

#[derive(Template)]
#[template(path = "console/many.html")]
struct ManyPage {
    layout: Layout,
    fields: Fields,
    results: Vec<Line>,
}

/// The outcome of a line.
struct Line {
    text: String,
    link: Option<ShownLink>,
    problem: String,
}

/// `GET /console/create`. Parameters fill the form in.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Query(query): Query,
) -> Result<Response, Problem> {
    me.check(Right::CreateLinks)?;
    let mut fields = fields(&console, &me).await?;
    for field in &mut fields.all {
        let value = query.get(field.name);
        if !value.is_empty() && !matches!(field.input, Input::Password(_)) {
            value.clone_into(&mut field.value);
        }
    }
    show(&console, &me, StatusCode::OK, fields)
}

fn show(
    console: &Console,
    me: &SignedIn,
    status: StatusCode,
    fields: Fields,
) -> Result<Response, Problem> {
    let page = CreatePage {
        layout: Layout::new(me, Some(Tab::Create), t::CREATE),
        fields,
        settings: console.settings(me.caller()),
        once: Token::generate()?.expose(),
    };
    Ok(layout::send(status, &page))
}

async fn fields(console: &Console, me: &SignedIn) -> Result<Fields, Problem> {
    let mut fields = vec![
        Field::new("longUrl", t::TARGET)
            .hint(t::TARGET_HINT)
            .input(Input::Line("url"))
            .required(),
        Field::new("customSlug", t::SLUG).hint(t::SLUG_HINT),
        domain_field(console, me, t::DEFAULT_DOMAIN).await?,
    ];
    fields.extend(edit::properties(None));
    fields.push(Field::tick("findIfExists", t::FIND_IF_EXISTS, false));
    Ok(Fields::new(fields))
}

/// `POST /console/create`.
pub(super) async fn one(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    let mut body = edit::body(&form);
    for name in ["longUrl", "customSlug", "domain"] {
        body.insert(name.to_owned(), form.text(name));
    }
    body.insert("findIfExists".to_owned(), form.is_on("findIfExists").into());
    // Missing fields have their defaults.
    body.retain(|_, value| !value.is_null());
    let links = &console.app.links;
    let made = async {
        let once = form.once(me.caller())?;
        let receipt = once.map(|id| id.receipt(0, &body));
        let of_tenant = links.of_tenant(me.caller());
        let request = CreateLink::read(body, &of_tenant, me.caller())?.with_receipt(receipt);
        links.create(me.caller(), request).await
    };
    let made = match made.await {
        Ok(made) => made,
        Err(problem) if stays(&problem) => {
            let fields = fields(&console, &me).await?.filled(&form).with(&problem);
            return show(&console, &me, problem.status(), fields);
        }
        Err(problem) => return Err(problem),
    };
    let link = ShownLink::new(made.value.link.clone(), None, &console.app.config.links);
    let page = if Tab::Links.is_for(&me) {
        let href = link.href();
        let and = if href.contains('?') { '&' } else { '?' };
        Redirect::to(&format!("{href}{and}done=created")).into_response()
    } else {
        let layout = Layout::new(&me, Some(Tab::Create), t::CREATED);
        layout::ok(&CreatedPage { layout, link })?
    };
    Ok(made.answer(|_| page))
}

/// `GET /console/create-many`.
pub(super) async fn many_page(
    State(console): State<Console>,
    me: SignedIn,
) -> Result<Response, Problem> {
    me.check(Right::CreateLinks)?;
    let fields = many_fields(&console, &me).await?;
    show_many(&me, StatusCode::OK, fields, Vec::new())
}

async fn many_fields(console: &Console, me: &SignedIn) -> Result<Fields, Problem> {
    Ok(Fields::new(vec![
        Field::new("lines", t::LINES)
            .hint(t::LINES_HINT)
            .input(Input::Lines)
            .required(),
        domain_field(console, me, t::DEFAULT_DOMAIN).await?,
        Field::new("tags", t::TAGS).hint(t::TAGS_HINT),
    ]))
}

fn show_many(
    me: &SignedIn,
    status: StatusCode,
    fields: Fields,
    results: Vec<Line>,
) -> Result<Response, Problem> {
    let page = ManyPage {
        layout: Layout::new(me, Some(Tab::Create), t::CREATE_MANY),
        fields,
        results,
    };
    Ok(layout::send(status, &page))
}

/// `POST /console/create-many`: each line is a target, and after a space an alias.
pub(super) async fn many(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    me.check(Right::CreateLinks)?;
    let lines = form.get("lines").lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let fields = many_fields(&console, &me).await?.filled(&form);
    if lines.is_empty() {
        let problem = Problem::of_field("lines", t::IS_REQUIRED);
        return show_many(&me, problem.status(), fields.with(&problem), Vec::new());
    }
    let links = &console.app.links;
    let of_tenant = links.of_tenant(me.caller());
    let mut room = AnswerRoom::of(&console.app.config.server);
    let requests = lines.iter().map(|line| {
        let request = CreateLink::read(item(line, &form), &of_tenant, me.caller());
        room.admit(request, CreateLink::content)
    });
    let requests = requests.collect();
    let _permit = console.bulk_permit(me.caller()).await?;
    let made = match links.create_many(me.caller(), requests).await {
        Ok(made) => made,
        Err(problem) if stays(&problem) => {
            return show_many(&me, problem.status(), fields.with(&problem), Vec::new());
        }
        Err(problem) => return Err(problem),
    };
    let shown = |made: &Created| ShownLink::new(made.link.clone(), None, &console.app.config.links);
    let results = lines.iter().zip(&made.value).map(|(line, made)| Line {
        text: (*line).to_owned(),
        link: made.as_ref().ok().map(shown),
        problem: made.as_ref().err().map(describe).unwrap_or_default(),
    });
    let page = show_many(&me, StatusCode::OK, fields, results.collect())?;
    Ok(made.answer(|_| page))
}

fn item(line: &str, form: &Form) -> Map<String, Value> {
    let (target, alias) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut item = Map::new();
    item.insert("longUrl".to_owned(), target.into());
    let alias = match alias.trim() {
        "" => Value::Null,
        alias => alias.into(),
    };
    for (name, value) in [
        ("customSlug", alias),
        ("domain", form.text("domain")),
        ("tags", form.list("tags")),
    ] {
        if !value.is_null() {
            item.insert(name.to_owned(), value);
        }
    }
    item
}
