//! Parts shared by all pages: navigation, the head, and sending.

use super::form::{FORM_TOKEN, Form};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use edgelink_http::ui::assets;
use edgelink_service::caller::Right;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::sessions::Token;
use http::StatusCode;

/// A part of the console in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Overview,
    Links,
    Create,
    Tags,
    Domains,
    Keys,
    Users,
    Reports,
    Imports,
    Audit,
    Settings,
}

impl Tab {
    const ALL: [(Self, &'static str, &'static str); 11] = [
        (Self::Overview, "/console", t::OVERVIEW),
        (Self::Links, "/console/links", t::LINKS),
        (Self::Create, "/console/create", t::CREATE),
        (Self::Tags, "/console/tags", t::TAGS),
        (Self::Domains, "/console/domains", t::DOMAINS),
        (Self::Keys, "/console/keys", t::KEYS),
        (Self::Users, "/console/users", t::USERS),
        (Self::Reports, "/console/reports", t::REPORTS),
        (Self::Imports, "/console/imports", t::IMPORTS),
        (Self::Audit, "/console/audit", t::AUDIT),
        (Self::Settings, "/console/settings", t::SETTINGS),
    ];

    /// True if the user may open it.
    pub(super) fn is_for(self, signed_in: &SignedIn) -> bool {
        match self {
            Self::Overview | Self::Links | Self::Domains => signed_in.has(Right::ReadLinks),
            Self::Create | Self::Imports => signed_in.has(Right::CreateLinks),
            Self::Tags => signed_in.has(Right::ReadTenant),
            Self::Keys | Self::Users | Self::Reports | Self::Audit => {
                signed_in.has(Right::Administer)
            }
            Self::Settings => true,
        }
    }
}

/// A link of the navigation.
#[derive(Debug)]
pub(super) struct NavItem {
    pub(super) href: &'static str,
    pub(super) label: &'static str,
    pub(super) is_current: bool,
}

/// The frame around the content of a page.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) title: String,
    pub(super) items: Vec<NavItem>,
    /// Name of the user who has logged in.
    pub(super) user: Option<String>,
    /// See [`FORM_TOKEN`].
    pub(super) form_token: String,
    /// Notice of the action that was just done.
    pub(super) notice: Option<&'static str>,
}

impl Layout {
    /// The layout of a page that needs a login.
    pub(super) fn new(signed_in: &SignedIn, tab: Option<Tab>, title: impl Into<String>) -> Self {
        let tabs = Tab::ALL
            .into_iter()
            .filter(|(tab, ..)| tab.is_for(signed_in));
        let items = tabs.map(|(each, href, label)| NavItem {
            href,
            label,
            is_current: Some(each) == tab,
        });
        Self {
            title: title.into(),
            items: items.collect(),
            user: Some(signed_in.session.user.name.clone()),
            form_token: signed_in.token.form_token(),
            notice: None,
        }
    }

    /// The layout of a public page.
    pub(super) fn public(title: &str, token: Option<&Token>) -> Self {
        Self {
            title: title.to_owned(),
            items: Vec::new(),
            user: None,
            form_token: token.map(Token::form_token).unwrap_or_default(),
            notice: None,
        }
    }

    /// With the notice of the action in the query.
    pub(super) fn with_notice(mut self, query: &Form) -> Self {
        self.notice = t::notice(query.get("done"));
        self
    }

    pub(super) fn css(&self) -> String {
        assets::url("console.css")
    }

    pub(super) fn script(&self) -> Option<String> {
        assets::script()
    }

    /// The name of the field with the form token.
    pub(super) fn form_field(&self) -> &'static str {
        FORM_TOKEN
    }
}

/// Sends a page.
pub(super) fn send(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) if status.is_client_error() => {
            // Screen readers read the title first.
            let html = html.replacen("<title>", t::TITLE_OF_ERROR, 1);
            (status, Html(html)).into_response()
        }
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "failed to render a page; answering 500");
            Problem::new(Kind::Internal).into_response()
        }
    }
}

/// Sends a page with status 200.
pub(super) fn ok(page: &impl Template) -> Result<Response, Problem> {
    Ok(send(StatusCode::OK, page))
}
