//! Logging in by a provider of OpenID Connect.
//!
//! A browser leaves with a cookie, and returns with it from the provider to [`callback`]. That cookie is `SameSite=Lax`, so that
//! browsers send it in a request from the provider's site, and all secrets of the login are derived from it. The session's own
//! cookie is `Strict`: a page of our own leads on, because browsers would not send it at the end of redirects from another site.

use super::api::Console;
use super::cookies::Cookie;
use super::form::{Form, Query};
use super::guard;
use super::layout::{self, Layout};
use super::login::{self, destination};
use super::strings as t;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edgelink_http::client_address::PeerIp;
use edgelink_http::limits;
use edgelink_service::failed_logins::LoginFailure;
use edgelink_service::logins::{Binding, IdentityError, NamedIdentity};
use edgelink_service::oidc::{Identity, Oidc, OidcError, OidcLogin};
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::sessions::Token;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::net::IpAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

const COOKIE: Cookie = Cookie {
    name: "edgelink_oidc",
    host_name: "__Host-edgelink_oidc",
    path: "/console/oidc",
    same_site: "Lax",
};

/// Seconds that a browser may stay at the provider.
const LIFETIME: u32 = 600;

/// The longest path to return to; longer ones would not fit into a cookie.
const MAX_DESTINATION: usize = 2_000;

/// The page between the provider and the console.
#[derive(Template)]
#[template(path = "console/oidc.html")]
struct OidcPage {
    layout: Layout,
    text: &'static str,
    href: String,
    link: &'static str,
}

/// A login that has begun in this browser.
struct Begun {
    token: Token,
    /// The page after the login.
    to: String,
}

impl Begun {
    fn of(headers: &HeaderMap) -> Option<Self> {
        COOKIE.values(headers).find_map(|value| {
            let (token, to) = value.split_once('.')?;
            let to = String::from_utf8(URL_SAFE_NO_PAD.decode(to).ok()?).ok()?;
            Some(Self {
                token: Token::parse(token)?,
                to,
            })
        })
    }

    fn cookie(&self) -> String {
        let to = match self.to.len() {
            0..=MAX_DESTINATION => &*self.to,
            _ => "",
        };
        format!("{}.{}", self.token.expose(), URL_SAFE_NO_PAD.encode(to))
    }

    fn login(&self) -> OidcLogin {
        OidcLogin {
            state: self.token.secret_for("oidc state"),
            nonce: self.token.secret_for("oidc nonce"),
            verifier: self.token.secret_for("oidc verifier"),
        }
    }
}

/// The refusal of a login: the status and the text of its page.
struct LoginRefusal(StatusCode, &'static str);

impl From<OidcError> for LoginRefusal {
    fn from(error: OidcError) -> Self {
        tracing::warn!(%error, "OpenID Connect login failed");
        match error {
            OidcError::Unavailable(_) => Self(StatusCode::SERVICE_UNAVAILABLE, t::OIDC_UNAVAILABLE),
            OidcError::Refused(_) => Self(StatusCode::FORBIDDEN, t::OIDC_REFUSED),
            OidcError::Invalid(_) => Self(StatusCode::FORBIDDEN, t::OIDC_INVALID),
        }
    }
}

fn client(console: &Console) -> Result<&Arc<Oidc>, Problem> {
    let oidc = console.app.oidc.as_ref();
    oidc.ok_or_else(|| Problem::new(Kind::NotFound))
}

/// `GET /console/oidc/login`: leads to the provider.
pub(super) async fn begin(
    State(console): State<Console>,
    headers: HeaderMap,
    Query(query): Query,
) -> Result<Response, Problem> {
    let oidc = client(&console)?;
    // The browser's session ends now, because its cookie is not sent from the provider's site; but other sites must not end it.
    let former = guard::token(&headers).filter(|_| guard::check_origin(&headers).is_ok());
    if let Some(former) = former {
        console.app.keys.log_out(&former).await?;
    }
    let begun = Begun {
        token: Token::generate()?,
        to: destination(query.get("to")).to_owned(),
    };
    match oidc.authorization_url(&begun.login()).await {
        Ok(url) => Ok((
            COOKIE.set(&begun.cookie(), Some(LIFETIME), &headers),
            Redirect::to(url.as_str()),
        )
            .into_response()),
        Err(error) => Ok(refused(&error.into(), "")),
    }
}

/// `GET /console/oidc/callback`: the browser returns from the provider.
pub(super) async fn callback(
    State(console): State<Console>,
    peer: Option<Extension<PeerIp>>,
    headers: HeaderMap,
    Query(answer): Query,
) -> Result<Response, Problem> {
    let oidc = client(&console)?;
    let begun = Begun::of(&headers).filter(|begun| is_answer_to(&begun.login(), &answer, oidc));
    // Other sites can lead browsers here as well: that takes no try, and ends no login in progress.
    let Some(begun) = begun else {
        login::count("wrong");
        let refusal = LoginRefusal(StatusCode::FORBIDDEN, t::OIDC_EXPIRED);
        return Ok(refused(&refusal, ""));
    };
    let to = destination(&begun.to).to_owned();
    let address = limits::address_of(&console.app, peer.map(|peer| peer.0), &headers);
    let tries = &console.app.provider_logins;
    let taken = match tries.take_of(None::<&str>, Some(address)).await {
        Ok(taken) => taken,
        Err(seconds) => {
            login::count("limited");
            let refusal = LoginRefusal(StatusCode::TOO_MANY_REQUESTS, t::TOO_MANY_TRIES);
            let page = refused(&refusal, &to);
            return Ok(([(header::RETRY_AFTER, HeaderValue::from(seconds))], page).into_response());
        }
    };
    let entered = match who(oidc, &begun.login(), &answer).await {
        Ok(identity) => enter(&console, oidc, &identity, address).await?,
        Err(refusal) => Err(refusal),
    };
    let mut response = match entered {
        Ok(token) => {
            taken.give_back().await;
            login::count("opened");
            welcome(&token, &headers, to)
        }
        Err(refusal) => {
            login::count("wrong");
            note_failure(&console, oidc, address).await?;
            refused(&refusal, &to)
        }
    };
    // In addition to the cookie of the session.
    for (name, value) in &COOKIE.set("", Some(0), &headers) {
        response.headers_mut().append(name, value.clone());
    }
    Ok(response)
}

/// Counts a failed login under an unknown name of the tenant, because the user is not known.
async fn note_failure(console: &Console, oidc: &Oidc, address: IpAddr) -> Result<(), Problem> {
    let app = &console.app;
    let tenant = Some(&oidc.config().tenant);
    let account = app.accounts.unknown_account(tenant).await?;
    let failures = &app.failed_logins;
    failures.note(account, LoginFailure::Wrong, address);
    Ok(())
}

/// True if the answer of the provider belongs to that login of this browser.
fn is_answer_to(login: &OidcLogin, answer: &Form, oidc: &Oidc) -> bool {
    let is_same = login.state.as_bytes().ct_eq(answer.get("state").as_bytes());
    let issuer = answer.get("iss");
    bool::from(is_same) && (issuer.is_empty() || oidc.is_issuer(issuer))
}

/// The identity in the answer of the provider.
async fn who(oidc: &Oidc, login: &OidcLogin, answer: &Form) -> Result<Identity, LoginRefusal> {
    match (answer.get("error"), answer.get("code")) {
        ("access_denied", _) => Err(LoginRefusal(StatusCode::FORBIDDEN, t::OIDC_CANCELLED)),
        ("", code) if !code.is_empty() => Ok(oidc.identity(login, code).await?),
        (error, _) => {
            let error: String = error.chars().take(100).collect();
            Err(OidcError::Refused(format!("{error:?} instead of a code")).into())
        }
    }
}

/// Begins a session of the user that the provider names.
async fn enter(
    console: &Console,
    oidc: &Oidc,
    identity: &Identity,
    address: IpAddr,
) -> Result<Result<Token, LoginRefusal>, Problem> {
    let app = &console.app;
    let config = oidc.config();
    let named = NamedIdentity {
        hash: identity.hash,
        name: identity.name.as_ref(),
        role: identity.role,
        new_role: config.create_users.then_some(config.new_role),
        binding: if config.binds_by_name() {
            Binding::ByName
        } else {
            Binding::Awaited
        },
    };
    if config.role_claim.is_some() && identity.role.is_none() {
        let ended = app
            .accounts
            .end_sessions_of_identity(&config.tenant, &named);
        ended.await?;
        return Ok(Err(LoginRefusal(StatusCode::FORBIDDEN, t::OIDC_NO_ROLE)));
    }
    let found = app.accounts.log_in_identity(&config.tenant, &named).await?;
    let text = match found {
        Ok(user) => {
            let keys = &app.keys;
            let begun = keys.log_in_by_identity(&user, &identity.hash, address);
            return Ok(Ok(begun.await?));
        }
        Err(IdentityError::NoTenant) => {
            tracing::error!(
                tenant = %config.tenant,
                "tenant in oidc.tenant does not exist; refusing the login"
            );
            t::OIDC_UNKNOWN
        }
        Err(IdentityError::Unknown) => t::OIDC_UNKNOWN,
        Err(IdentityError::NameTaken) => t::OIDC_NAME_TAKEN,
        Err(IdentityError::NotAwaited) => t::OIDC_NOT_AWAITED,
        Err(IdentityError::Disabled) => t::OIDC_DISABLED,
    };
    Ok(Err(LoginRefusal(StatusCode::FORBIDDEN, text)))
}

/// The page that leads on by itself.
fn welcome(token: &Token, headers: &HeaderMap, to: String) -> Response {
    let refresh = HeaderValue::try_from(format!("0; url={to}")).ok();
    let refresh: HeaderMap = refresh
        .map(|to| (header::REFRESH, to))
        .into_iter()
        .collect();
    let page = OidcPage {
        layout: Layout::public(t::OIDC_DONE, None),
        text: "",
        href: to,
        link: t::OIDC_GO_ON,
    };
    let page = layout::send(StatusCode::OK, &page);
    let mut response = (refresh, page).into_response();
    response
        .headers_mut()
        .extend(guard::cookie(Some(token), headers));
    response
}

fn refused(LoginRefusal(status, text): &LoginRefusal, to: &str) -> Response {
    let page = OidcPage {
        layout: Layout::public(t::OIDC_FAILED, None),
        text,
        href: format!("{}{}", guard::LOGIN, super::api::query([("to", to)])),
        link: t::LOG_IN_AGAIN,
    };
    layout::send(*status, &page)
}
