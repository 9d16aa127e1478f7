//! API keys: their list, new ones, whose secret is shown once, and their revocation.

use super::api::{Console, encoded, next_page, parameters};
use super::confirm::Confirm;
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_service::accounts::keys::{self, KeyView, NewKey, Rotation};
use edgelink_service::problem::Problem;
use http::StatusCode;
use serde_json::{Map, Value};

#[derive(Template)]
#[template(path = "console/keys.html")]
struct KeysPage {
    layout: Layout,
    keys: Vec<KeyView>,
    next: Option<String>,
    fields: Fields,
    /// A new key with its secret.
    made: Option<KeyView>,
}

/// `GET /console/keys`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let mut page = KeysPage::of(&console, &me, asked.get("cursor")).await?;
    page.layout = page.layout.with_notice(&asked);
    layout::ok(&page)
}

impl KeysPage {
    async fn of(console: &Console, me: &SignedIn, cursor: &str) -> Result<Self, Problem> {
        let of_page = parameters([("cursor", cursor), ("limit", "50")]);
        let (limit, after) = keys::list_of(Some(&of_page))?;
        let accounts = &console.app.accounts;
        let page = accounts.list_keys(me.caller(), limit, after).await?;
        let next = next_page("/console/keys", [], &page.next);
        let keys = page.items.into_iter().map(KeyView::new).collect();
        Ok(Self {
            next,
            ..Self::with(me, keys)
        })
    }

    fn with(me: &SignedIn, keys: Vec<KeyView>) -> Self {
        let fields = vec![
            Field::new("name", t::NAME).required(),
            Field::choice("role", t::ROLE, &t::ROLES).value("editor"),
            Field::new("userId", t::USER_ID)
                .hint(t::USER_ID_HINT)
                .input(Input::Line("number")),
            Field::new("domains", t::ONLY_DOMAINS).hint(t::LIST_HINT),
            Field::new("tags", t::ONLY_TAGS).hint(t::LIST_HINT),
            Field::new("expiresAt", t::EXPIRES_AT)
                .hint(t::UTC)
                .input(Input::Line("datetime-local")),
            Field::new("quota", t::QUOTA)
                .hint(t::QUOTA_HINT)
                .input(Input::Line("number")),
        ];
        Self {
            layout: Layout::new(me, Some(Tab::Keys), t::KEYS),
            keys,
            next: None,
            fields: Fields::new(fields),
            made: None,
        }
    }
}

impl KeysPage {
    /// The page with a secret, which is shown even if the list cannot be read.
    async fn with_secret(console: &Console, me: &SignedIn, made: KeyView) -> Self {
        let page = Self::of(console, me, "").await;
        let page = page.unwrap_or_else(|_| Self::with(me, Vec::new()));
        Self {
            made: Some(made),
            ..page
        }
    }
}

/// `POST /console/keys`. Only this answer has the secret.
pub(super) async fn create(
    State(console): State<Console>,
    me: SignedIn,
    form: Form,
) -> Result<Response, Problem> {
    let mut body = Map::new();
    for (name, value) in [
        ("name", form.text("name")),
        ("role", form.text("role")),
        ("userId", form.number("userId")),
        ("domains", form.list("domains")),
        ("tags", form.list("tags")),
        ("expiresAt", form.time("expiresAt")),
        ("quota", form.number("quota")),
    ] {
        if value != Value::Null {
            body.insert(name.to_owned(), value);
        }
    }
    let app = &console.app;
    let made = async {
        let request = NewKey::read(body, &app.links.of_tenant(me.caller()))?;
        app.accounts.create_key(me.caller(), request).await
    };
    let problem = match made.await {
        Ok((row, key)) => {
            let made = KeyView::with_secret(row, &key);
            let page = KeysPage::with_secret(&console, &me, made).await;
            return Ok(layout::send(StatusCode::CREATED, &page));
        }
        Err(problem) if stays(&problem) => problem,
        Err(problem) => return Err(problem),
    };
    let mut page = KeysPage::of(&console, &me, "").await?;
    page.fields = page.fields.filled(&form).with(&problem);
    Ok(layout::send(problem.status(), &page))
}

/// `GET /console/keys/{id}/revoke`: the confirmation page.
pub(super) async fn ask_to_revoke(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let key = console.app.accounts.key(me.caller(), &id).await?;
    let key = KeyView::new(key);
    layout::ok(&Confirm {
        layout: Layout::new(&me, Some(Tab::Keys), t::REVOKE_KEY),
        name: format!("{} ({})", key.name, key.id),
        text: format!(
            "{} {}: {}",
            t::REVOKE_TEXT,
            t::LAST_USED,
            key.last_used_at
                .as_ref()
                .map_or(t::NEVER, |time| time.0.as_str())
        ),
        problem: String::new(),
        action: format!("/console/keys/{}/revoke", encoded(&id)),
        fields: Vec::new(),
        button: t::REVOKE,
        back: "/console/keys".to_owned(),
    })
}

#[derive(Template)]
#[template(path = "console/key.html")]
struct RotationPage {
    layout: Layout,
    key: KeyView,
    fields: Fields,
}

/// `GET /console/keys/{id}/rotate`.
pub(super) async fn rotation(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    layout::ok(&RotationPage::of(&console, &me, &id).await?)
}

impl RotationPage {
    async fn of(console: &Console, me: &SignedIn, id: &str) -> Result<Self, Problem> {
        let key = console.app.accounts.key(me.caller(), id).await?;
        let overlap = Field::choice("overlapSeconds", t::OLD_SECRET, &t::OVERLAPS);
        Ok(Self {
            layout: Layout::new(me, Some(Tab::Keys), t::ROTATE),
            key: KeyView::new(key),
            fields: Fields::new(vec![overlap.value("86400")]),
        })
    }
}

/// `POST /console/keys/{id}/rotate`. Only this answer has the new secret.
pub(super) async fn rotate(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, Problem> {
    let mut body = Map::new();
    let overlap = form.number("overlapSeconds");
    if overlap != Value::Null {
        body.insert("overlapSeconds".to_owned(), overlap);
    }
    let accounts = &console.app.accounts;
    let rotated = async {
        let rotation = Rotation::read(body)?;
        accounts.rotate_key(me.caller(), &id, rotation).await
    };
    match rotated.await {
        Ok((row, key)) => {
            let made = KeyView::with_secret(row, &key);
            layout::ok(&KeysPage::with_secret(&console, &me, made).await)
        }
        Err(problem) if stays(&problem) => {
            let mut page = RotationPage::of(&console, &me, &id).await?;
            page.fields = page.fields.filled(&form).with(&problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}

/// `POST /console/keys/{id}/revoke`.
pub(super) async fn revoke(
    State(console): State<Console>,
    me: SignedIn,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    match console.app.accounts.revoke_key(me.caller(), &id).await {
        Ok(()) => Ok(Redirect::to("/console/keys?done=revoked").into_response()),
        Err(problem) if stays(&problem) => {
            let mut page = KeysPage::of(&console, &me, "").await?;
            page.fields = page.fields.with(&problem);
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}
