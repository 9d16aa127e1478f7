//! Users of the tenant: their list, new ones, and their role, password and access.

use super::api::{Console, next_page, parameters};
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_service::accounts::users::{NewUser, UserPatch, UserView};
use edgelink_service::page;
use edgelink_service::problem::Problem;
use serde_json::{Map, Value};

#[derive(Template)]
#[template(path = "console/users.html")]
struct UsersPage {
    layout: Layout,
    users: Vec<UserView>,
    next: Option<String>,
    fields: Fields,
}

#[derive(Template)]
#[template(path = "console/user.html")]
struct UserPage {
    layout: Layout,
    user: UserView,
    fields: Fields,
}

/// `GET /console/users`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let mut page = UsersPage::of(&console, &me, asked.get("cursor")).await?;
    page.layout = page.layout.with_notice(&asked);
    layout::ok(&page)
}

impl UsersPage {
    async fn of(console: &Console, me: &SignedIn, cursor: &str) -> Result<Self, Problem> {
        let of_page = parameters([("cursor", cursor), ("limit", "50")]);
        let (limit, after) = page::parameters(Some(&of_page))?;
        let accounts = &console.app.accounts;
        let page = accounts.list_users(me.caller(), limit, after).await?;
        let next = next_page("/console/users", [], &page.next);
        let users = page.items.into_iter().map(UserView::new).collect();
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Users), t::USERS),
            users,
            next,
            fields: Fields::new(fields(None)),
        })
    }
}

fn fields(user: Option<&UserView>) -> Vec<Field> {
    let hint = if user.is_some_and(|user| user.has_password) {
        t::PASSWORD_IS_SET
    } else {
        t::PASSWORD_HINT
    };
    vec![
        Field::new("name", t::NAME)
            .value(user.map_or("", |user| &*user.name))
            .required(),
        Field::choice("role", t::ROLE, &t::ROLES).value(user.map_or("editor", |user| user.role)),
        Field::new("password", t::PASSWORD)
            .hint(hint)
            .input(Input::Password("new-password")),
    ]
}

fn body(form: &Form) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("name".to_owned(), form.get("name").trim().into());
    body.insert("role".to_owned(), form.get("role").into());
    let password = form.get("password");
    if !password.is_empty() {
        body.insert("password".to_owned(), password.into());
    }
    body
}

/// `POST /console/users`.
pub(super) async fn create(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    let accounts = &console.app.accounts;
    let created = async {
        let request = NewUser::read(body(&form))?;
        accounts.create_user(me.caller(), request).await
    };
    match created.await {
        Ok(_) => Ok(Redirect::to("/console/users?done=created").into_response()),
        Err(problem) if stays(&problem) => {
            let mut page = UsersPage::of(&console, &me, "").await?;
            page.fields = page.fields.filled(&form).with(&problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}

/// `GET /console/users/{id}`.
pub(super) async fn one(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    layout::ok(&UserPage::of(&console, &me, &id).await?)
}

impl UserPage {
    async fn of(console: &Console, me: &SignedIn, id: &str) -> Result<Self, Problem> {
        let id = page::number(id)?;
        let user = console.app.accounts.user(me.caller(), id).await?;
        let user = UserView::new(user);
        let mut fields = fields(Some(&user));
        if user.has_password {
            fields.push(Field::tick("removePassword", t::REMOVE_PASSWORD, false));
        }
        if user.has_identity {
            fields.push(Field::tick("forgetIdentity", t::FORGET_IDENTITY, false));
        } else if console.app.oidc.is_some() {
            let awaits = Field::tick("awaitsIdentity", t::AWAITS_IDENTITY, user.awaits_identity);
            fields.push(awaits.hint(t::AWAITS_IDENTITY_HINT));
        }
        fields.push(Field::tick("disabled", t::USER_DISABLED, user.disabled));
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Users), &*user.name),
            fields: Fields::new(fields),
            user,
        })
    }
}

/// `POST /console/users/{id}`.
pub(super) async fn change(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let mut body = body(&form);
    body.insert("disabled".to_owned(), form.is_on("disabled").into());
    if form.is_on("removePassword") {
        body.insert("password".to_owned(), Value::Null);
    }
    if form.is_on("forgetIdentity") {
        body.insert("hasIdentity".to_owned(), false.into());
    }
    if console.app.oidc.is_some() {
        body.insert(
            "awaitsIdentity".to_owned(),
            form.is_on("awaitsIdentity").into(),
        );
    }
    let accounts = &console.app.accounts;
    let changed = async {
        let patch = UserPatch::read(body)?;
        accounts
            .change_user(me.caller(), page::number(&id)?, patch)
            .await
    };
    match changed.await {
        Ok(_) => Ok(Redirect::to("/console/users?done=changed").into_response()),
        Err(problem) if stays(&problem) => {
            let mut page = UserPage::of(&console, &me, &id).await?;
            page.fields = page.fields.filled(&form).with(&problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}
