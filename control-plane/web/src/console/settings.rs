//! Settings of the user who has logged in: the password.

use super::api::Console;
use super::fields::{Field, Fields, Input, stays};
use super::form::{Form, Query};
use super::guard;
use super::layout::{self, Layout, Tab};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
pub(super) use edgelink_http::auth::Caller;
use edgelink_http::client_address::PeerIp;
use edgelink_http::limits;
use edgelink_service::caller::Right;
use edgelink_service::failed_logins::LoginFailure;
use edgelink_service::logins::FailedAccount;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::sessions::LoginWay;
use edgelink_service::values::password_of_user;
use http::HeaderMap;
use std::net::IpAddr;

#[derive(Template)]
#[template(path = "console/settings.html")]
struct SettingsPage {
    layout: Layout,
    user: String,
    role: &'static str,
    login: &'static str,
    /// The key of the login: its role, and the domains and tags that it is bound to.
    key: Option<(&'static str, Vec<String>)>,
    /// The form for the password; `None` if only an admin may set the first one.
    password: Option<Fields>,
}

/// `GET /console/settings`.
pub(super) async fn page(me: SignedIn, Query(query): Query) -> Result<Response, Problem> {
    let mut page = SettingsPage::new(&me, None);
    page.layout = page.layout.with_notice(&query);
    layout::ok(&page)
}

impl SettingsPage {
    fn new(me: &SignedIn, problem: Option<&Problem>) -> Self {
        let session = &me.session;
        let mut fields = Vec::new();
        if session.password_hash.is_some() {
            fields.push(
                Field::new("current", t::CURRENT_PASSWORD)
                    .input(Input::Password("current-password"))
                    .required(),
            );
        }
        fields.push(
            Field::new("password", t::NEW_PASSWORD)
                .hint(t::PASSWORD_HINT)
                .input(Input::Password("new-password"))
                .required(),
        );
        let fields = Fields::new(fields);
        let fields = match problem {
            Some(problem) => fields.with(problem),
            None => fields,
        };
        Self {
            layout: Layout::new(me, Some(Tab::Settings), t::SETTINGS),
            user: session.user.name.clone(),
            role: session.user.role.word(),
            key: (session.way == LoginWay::Key).then(|| bounds(me.caller())),
            login: match session.way {
                LoginWay::Key => t::BY_KEY,
                LoginWay::Password => t::BY_PASSWORD,
                LoginWay::Provider => t::BY_PROVIDER,
            },
            password: may_set(me).then_some(fields),
        }
    }
}

fn bounds(caller: &Caller) -> (&'static str, Vec<String>) {
    let scope = caller.scope();
    let domains = scope.domains.iter();
    let bounds = domains.map(|domain| domain.as_str().to_owned());
    let bounds = bounds.chain(scope.tags.iter().cloned());
    (caller.key_role().word(), bounds.collect())
}

/// True if the user may set a password: with the present one, or as an admin. A login by a bound key must not gain the rights of
/// its user.
fn may_set(me: &SignedIn) -> bool {
    me.session.password_hash.is_some() || me.has(Right::Administer)
}

/// `POST /console/settings/password`. All sessions that began with the old password end, and a new one begins here.
pub(super) async fn change_password(
    State(console): State<Console>,
    peer: Option<Extension<PeerIp>>,
    me: SignedIn,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Problem> {
    if !may_set(&me) {
        return Err(Problem::new(Kind::Forbidden));
    }
    let address = limits::address_of(&console.app, peer.map(|peer| peer.0), &headers);
    match change(&console, &me, &form, address).await {
        Ok(hash) => {
            let mut cookie = HeaderMap::new();
            if me.session.way == LoginWay::Password {
                let keys = &console.app.keys;
                let user = &me.session.user;
                let token = keys.log_in_by_password(user, &hash, address).await?;
                keys.log_out(&me.token).await?;
                cookie = guard::cookie(Some(&token), &headers);
            }
            Ok((cookie, Redirect::to("/console/settings?done=password")).into_response())
        }
        Err(problem) if stays(&problem) => {
            let page = SettingsPage::new(&me, Some(&problem));
            Ok(layout::send(problem.status(), &page))
        }
        Err(problem) => Err(problem),
    }
}

/// Sets the password and returns its hash.
async fn change(
    console: &Console,
    me: &SignedIn,
    form: &Form,
    address: IpAddr,
) -> Result<String, Problem> {
    let app = &console.app;
    let user = &me.session.user;
    if let Some(hash) = &me.session.password_hash {
        let subject = format!("console/password:{}", me.session.user.id);
        // The session is known, so the address does not count.
        let taken = app.logins.take_of(Some(subject), None).await;
        let too_many = |_| Problem::new(Kind::RateLimited).with_detail(t::TOO_MANY_TRIES);
        let taken = taken.map_err(too_many)?;
        let current = form.get("current").as_bytes().to_vec();
        let giver = me.caller().claim();
        if !app.passwords.check(hash.clone(), current, giver).await? {
            let account = FailedAccount {
                tenant_id: user.tenant_id,
                user_id: Some(user.id),
            };
            app.failed_logins
                .note(account, LoginFailure::Wrong, address);
            return Err(Problem::of_field("current", t::WRONG_PASSWORD));
        }
        taken.give_back().await;
    }
    let password = password_of_user(&form.get("password").into());
    let password = password.map_err(|reason| Problem::of_field("password", reason))?;
    let user_id = me.session.user.id;
    let changed = app
        .accounts
        .change_own_password(me.caller(), user_id, &password);
    changed.await
}
