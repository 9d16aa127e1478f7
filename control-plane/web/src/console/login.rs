//! Logging in, by user name and password or by an API key, and logging out.

use super::api::{Console, query};
use super::fields::{Field, Fields, Input};
use super::form::{Form, Query};
use super::guard;
use super::layout::{self, Layout};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use edgelink_http::client_address::PeerIp;
use edgelink_http::limits;
use edgelink_model::tenancy::{AccountName, FIRST_TENANT};
use edgelink_service::failed_logins::LoginFailure;
use edgelink_service::logins::{FailedAccount, Logins, UserRow};
use edgelink_service::oidc::BEGIN;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::sessions::Token;
use edgelink_settings::admission::Claim;
use edgelink_settings::telemetry::prometheus::CONSOLE_LOGINS;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use metrics::counter;
use std::net::IpAddr;
use tokio::time::Instant;
use url::Url;

/// Hash with which a password is compared if there is no user, so that the time does not reveal that. No password has this hash.
const NO_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

#[derive(Template)]
#[template(path = "console/login.html")]
struct LoginPage {
    layout: Layout,
    /// The page after the login.
    to: String,
    by_password: Fields,
    by_key: Fields,
    provider: Option<ProviderLink>,
}

/// The link to the login by a provider of OpenID Connect.
struct ProviderLink {
    href: String,
    label: String,
}

/// `GET /console/login`.
pub(super) async fn page(
    State(console): State<Console>,
    headers: HeaderMap,
    Query(query): Query,
) -> Result<Response, Problem> {
    // A token without a session yet, for the form.
    let (token, cookie) = match guard::token(&headers) {
        Some(token) => (token, HeaderMap::new()),
        None => {
            let token = Token::generate()?;
            let cookie = guard::cookie(Some(&token), &headers);
            (token, cookie)
        }
    };
    let page = show(&console, StatusCode::OK, &token, &query, "");
    Ok((cookie, page).into_response())
}

/// `POST /console/login`.
pub(super) async fn log_in(
    State(console): State<Console>,
    peer: Option<Extension<PeerIp>>,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Problem> {
    let token = guard::token(&headers).ok_or_else(|| Problem::new(Kind::Forbidden))?;
    let address = limits::address_of(&console.app, peer.map(|peer| peer.0), &headers);
    let begun = match attempt(&console, &form, address).await? {
        LoginOutcome::Opened(begun) => begun,
        LoginOutcome::Wrong => {
            count("wrong");
            let status = StatusCode::FORBIDDEN;
            return Ok(show(&console, status, &token, &form, t::WRONG_LOGIN));
        }
        LoginOutcome::Limited(seconds) => {
            count("limited");
            let status = StatusCode::TOO_MANY_REQUESTS;
            let page = show(&console, status, &token, &form, t::TOO_MANY_TRIES);
            let retry_after = [(header::RETRY_AFTER, HeaderValue::from(seconds))];
            return Ok((retry_after, page).into_response());
        }
    };
    // The former session of the browser ends.
    console.app.keys.log_out(&token).await?;
    count("opened");
    let cookie = guard::cookie(Some(&begun), &headers);
    Ok((cookie, Redirect::to(destination(form.get("to")))).into_response())
}

pub(super) fn count(outcome: &'static str) {
    counter!(CONSOLE_LOGINS, "outcome" => outcome).increment(1);
}

/// The outcome of a login.
enum LoginOutcome {
    Opened(Token),
    Wrong,
    /// There were too many tries; the seconds until another one is allowed.
    Limited(u64),
}

/// The user named in a login.
struct NamedUser {
    /// Its tenant and its name; `None` if no account can have one of them.
    names: Option<(AccountName, AccountName)>,
    /// The user, and its means of login; `None` if there is none.
    found: Option<(UserRow, Logins)>,
}

impl NamedUser {
    async fn find(console: &Console, form: &Form) -> Result<Self, Problem> {
        let tenant = match form.get("tenant").trim() {
            "" => Ok(AccountName::of_first_tenant()),
            tenant => AccountName::parse(tenant),
        };
        let names = tenant.ok().zip(AccountName::parse(form.get("user")).ok());
        let found = match &names {
            Some((tenant, name)) => console.app.accounts.user_of_login(tenant, name).await?,
            None => None,
        };
        Ok(Self { names, found })
    }

    /// The subject by which tries are counted: the user, however its name was written. Unknown names are counted alike, so that
    /// nothing reveals which users exist.
    fn subject(&self) -> String {
        match (&self.found, &self.names) {
            (Some((user, _)), _) => format!("console/user:{}", user.id),
            (None, Some((tenant, name))) => format!("console/name:{tenant}/{name}"),
            (None, None) => "console/name".to_owned(),
        }
    }

    /// The account to which a failed login is attributed. Unknown names share one account of their tenant, or of the first tenant.
    async fn account(&self, console: &Console) -> Result<FailedAccount, Problem> {
        if let Some((user, _)) = &self.found {
            return Ok(FailedAccount {
                tenant_id: user.tenant_id,
                user_id: Some(user.id),
            });
        }
        let tenant = self.names.as_ref().map(|(tenant, _)| tenant);
        Ok(console.app.accounts.unknown_account(tenant).await?)
    }
}

/// Takes a try of the address, which is returned unless the login was wrong: a failure on our side costs the sender no try.
async fn attempt(console: &Console, form: &Form, address: IpAddr) -> Result<LoginOutcome, Problem> {
    let app = &console.app;
    // Few logins of an address run at once, so that users with the right password do not use up its tries.
    let giver = Claim::of_address(address);
    let deadline = Instant::now() + app.config.server.request_timeout_ms;
    let _permit = app.bounded.logins.take(giver, deadline).await?;
    // Taken before the user is looked up, which strangers could otherwise make us do without end.
    let taken = match app.logins.take_of(None::<&str>, Some(address)).await {
        Ok(taken) => taken,
        Err(seconds) => return Ok(LoginOutcome::Limited(seconds)),
    };
    let outcome = match form.get("key").trim() {
        "" => by_password(console, form, address).await,
        key => by_key(console, key, address).await,
    };
    if matches!(outcome, Ok(LoginOutcome::Opened(_)) | Err(_)) {
        taken.give_back().await;
    }
    outcome
}

async fn by_password(
    console: &Console,
    form: &Form,
    address: IpAddr,
) -> Result<LoginOutcome, Problem> {
    let app = &console.app;
    let named = NamedUser::find(console, form).await?;
    let taken = match app.logins.take_of(Some(named.subject()), None).await {
        Ok(taken) => taken,
        Err(seconds) => {
            let account = named.account(console).await?;
            app.failed_logins
                .note(account, LoginFailure::Refused, address);
            return Ok(LoginOutcome::Limited(seconds));
        }
    };
    let user = named.found.as_ref();
    let hash = user.and_then(|(_, logins)| logins.password_hash.as_deref());
    let password = form.get("password").as_bytes().to_vec();
    let checked = hash.unwrap_or(NO_HASH).to_owned();
    let giver = Claim::of_address(address);
    let is_right = app.passwords.check(checked, password, giver).await;
    let right = match (user, hash, is_right) {
        (Some((user, _)), Some(hash), Ok(true)) => Ok((user, hash)),
        (_, _, Ok(_)) => {
            let account = named.account(console).await?;
            app.failed_logins
                .note(account, LoginFailure::Wrong, address);
            return Ok(LoginOutcome::Wrong);
        }
        (_, _, Err(problem)) => Err(problem),
    };
    taken.give_back().await;
    let (user, hash) = right?;
    let begun = app.keys.log_in_by_password(user, hash, address).await?;
    Ok(LoginOutcome::Opened(begun))
}

/// A login by an API key. A key cannot be guessed, and strangers could lock its holder out: tries are counted by address only.
async fn by_key(console: &Console, key: &str, address: IpAddr) -> Result<LoginOutcome, Problem> {
    let app = &console.app;
    let Some(begun) = app.keys.log_in_by_key(key, address).await? else {
        let account = FailedAccount {
            tenant_id: FIRST_TENANT,
            user_id: None,
        };
        app.failed_logins
            .note(account, LoginFailure::Wrong, address);
        return Ok(LoginOutcome::Wrong);
    };
    Ok(LoginOutcome::Opened(begun))
}

/// The page of the console at an address, or the overview if it is another site's. Browsers resolve dots in it, also encoded ones.
pub(super) fn destination(to: &str) -> &str {
    let base = Url::parse("http://console/");
    let there = base.and_then(|base| base.join(to)).ok();
    let is_ours = to.starts_with("/console")
        && there.is_some_and(|there| {
            there.path() == "/console" || there.path().starts_with("/console/")
        });
    let is_text = to
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours && is_text { to } else { "/console" }
}

fn show(
    console: &Console,
    status: StatusCode,
    token: &Token,
    form: &Form,
    problem: &str,
) -> Response {
    let to = destination(form.get("to"));
    let provider = console.app.oidc.as_ref().map(|oidc| ProviderLink {
        href: format!("{}{}", BEGIN, query([("to", to)])),
        label: oidc.config().label.clone(),
    });
    let is_by_key = !form.get("key").is_empty();
    let problem_of = |is_this: bool| {
        if is_this {
            problem.to_owned()
        } else {
            String::new()
        }
    };
    let by_password = vec![
        Field::new("user", t::USER_NAME)
            .input(Input::Line("text"))
            .autocomplete("username")
            .value(form.get("user"))
            .required(),
        Field::new("password", t::PASSWORD)
            .input(Input::Password("current-password"))
            .required(),
        Field::new("tenant", t::TENANT)
            .hint(t::TENANT_HINT)
            .value(form.get("tenant")),
    ];
    let by_key = vec![
        Field::new("key", t::API_KEY)
            .input(Input::Password("off"))
            .required(),
    ];
    let page = LoginPage {
        layout: Layout::public(t::LOG_IN, Some(token)),
        to: to.to_owned(),
        provider,
        by_password: Fields {
            all: by_password,
            problem: problem_of(!is_by_key),
        },
        by_key: Fields {
            all: by_key,
            problem: problem_of(is_by_key),
        },
    };
    layout::send(status, &page)
}

/// `POST /console/logout`.
pub(super) async fn log_out(
    State(console): State<Console>,
    headers: HeaderMap,
    me: SignedIn,
) -> Result<Response, Problem> {
    console.app.keys.log_out(&me.token).await?;
    let cookie = guard::cookie(None, &headers);
    Ok((cookie, Redirect::to(guard::LOGIN)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_when_its_target_is_foreign_leads_to_the_console() {
        for to in ["/console", "/console/links?tags=a%20b", "/console?a"] {
            assert_eq!(destination(to), to);
        }
        for to in [
            "",
            "/",
            "//evil.example",
            "https://evil.example/console",
            "/consoles",
            "/console/\r\nx",
            "/console/\\x",
            "/console/..",
            "/console/../abc",
            "/console/%2e%2e/abc",
            "/console/.%2E/abc",
            "/console/links/../../abc",
        ] {
            assert_eq!(destination(to), "/console", "{to}");
        }
    }
}
