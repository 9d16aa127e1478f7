//! Making links: one with all its fields, or many, a line each.

use super::api::Console;
use super::edit;
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::links::domain_field;
use super::signed_in::SignedIn;
use super::strings as t;
use super::views::{BulkView, LinkView};
use crate::http::auth::sessions::Token;
use crate::problem::Problem;
use crate::service::caller::Right;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::{Method, StatusCode};
use serde_json::{Value, json};

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

/// The page after a creation, of those who may not read links.
#[derive(Template)]
#[template(path = "console/created.html")]
struct CreatedPage {
    layout: Layout,
    link: LinkView,
}

#[derive(Template)]
#[template(path = "console/many.html")]
struct ManyPage {
    layout: Layout,
    fields: Fields,
    results: Vec<Line>,
}

/// What became of a line.
struct Line {
    text: String,
    link: Option<LinkView>,
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
        body[name] = form.text(name);
    }
    body["findIfExists"] = form.is_on("findIfExists").into();
    // What is missing has its default.
    if let Value::Object(body) = &mut body {
        body.retain(|_, value| !value.is_null());
    }
    let made = console.ask(
        me.caller(),
        Method::POST,
        "/links",
        Some(&body),
        form.once(),
    );
    let made = made.await;
    let answer = match made {
        Ok(answer) => answer,
        Err(problem) if stays(&problem) => {
            let fields = fields(&console, &me).await?.filled(&form).with(&problem);
            return show(&console, &me, problem.status(), fields);
        }
        Err(problem) => return Err(problem),
    };
    let link: LinkView = answer.as_type()?;
    let page = if Tab::Links.is_for(&me) {
        let href = link.href();
        let and = if href.contains('?') { '&' } else { '?' };
        Redirect::to(&format!("{href}{and}done=created")).into_response()
    } else {
        let layout = Layout::new(&me, Some(Tab::Create), t::CREATED);
        layout::ok(&CreatedPage { layout, link })?
    };
    Ok(answer.before(page))
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
    let made = if lines.is_empty() {
        Err(Problem::of_field("lines", t::IS_REQUIRED))
    } else {
        let items: Vec<Value> = lines.iter().map(|line| item(line, &form)).collect();
        let items = items.into();
        console
            .send(me.caller(), Method::POST, "/links/bulk", &items)
            .await
    };
    let answer = match made {
        Ok(answer) => answer,
        Err(problem) if stays(&problem) => {
            return show_many(&me, problem.status(), fields.with(&problem), Vec::new());
        }
        Err(problem) => return Err(problem),
    };
    let results: Result<BulkView, _> = serde_json::from_value(answer.body.clone());
    let results = results.map_or_else(|_| Vec::new(), |bulk| bulk.results);
    let results = lines.iter().zip(results).map(|(line, item)| Line {
        text: (*line).to_owned(),
        link: item.link,
        problem: item.error.map(|error| error.text()).unwrap_or_default(),
    });
    let page = show_many(&me, StatusCode::OK, fields, results.collect())?;
    Ok(answer.before(page))
}

fn item(line: &str, form: &Form) -> Value {
    let (target, alias) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut item = json!({ "longUrl": target });
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
            item[name] = value;
        }
    }
    item
}
