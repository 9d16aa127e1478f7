//! The API as pages use it: its own routes, in this process.

use super::jobs::Imports;
use super::signed_in::SignedIn;
use crate::admission::Permit;
use crate::http::api::routes_of_callers;
use crate::http::app::App;
use crate::http::auth::{Caller, check_again};
use crate::problem::Problem;
use crate::transfer::Here;
use axum::Router;
use axum::body::Body;
use edgelink_wire::Domain;
use edgelink_wire::settings::SettingValue;
use http::HeaderMap;
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::Instant;
use tower::ServiceExt;

/// The state of all pages.
#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) app: Arc<App>,
    pub(super) imports: Arc<Imports>,
    api: Router,
}

impl Console {
    pub(crate) fn new(app: &Arc<App>) -> Self {
        Self {
            api: routes_of_callers().with_state(app.clone()),
            app: app.clone(),
            imports: Arc::default(),
        }
    }

    /// The API for work that goes on behind pages.
    pub(super) fn local(&self, caller: &Caller) -> Here {
        let (api, caller) = (self.api.clone(), caller.clone());
        Arc::new(move |request| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(caller.clone());
            let api = api.clone();
            Box::pin(async move {
                let Ok(response) = api.oneshot(request).await;
                let (head, body) = response.into_parts();
                // Where the body ends early, it is no JSON, and refused as such.
                let body = body.collect().await;
                let bytes = body.map(http_body_util::Collected::to_bytes);
                (head.status, bytes.unwrap_or_default())
            })
        })
    }

    /// The permit to work on many links, which is held until that is done. Who waits for it may have been signed out meanwhile.
    pub(super) async fn bulk_permit(&self, me: &SignedIn) -> Result<Permit, Problem> {
        let deadline = Instant::now() + self.app.config.server.request_timeout_ms;
        let permit = self.app.bounded.bulk.take(me.caller().claim(), deadline);
        let permit = permit.await?;
        check_again(&self.app.keys, &HeaderMap::new(), me.caller()).await?;
        Ok(permit)
    }

    /// What of the installation decides whether a link is valid, as JSON for the checks of the script.
    pub(super) fn settings(&self, caller: &Caller) -> String {
        let (table, tenant_id) = (self.app.domains.current(), caller.tenant_id());
        let made = table.made_by(tenant_id);
        let made = made.filter(|domain| table.check(domain, tenant_id).is_ok());
        let hosts = self.app.config.links.blocked_hosts.iter();
        let hosts: Vec<Value> = hosts.filter_map(|host| host.written("")).collect();
        let links = self.app.links.of_tenant(caller);
        let default = caller.default_domain(links.default_domain());
        let mut configured: Vec<&Domain> = table.configured().iter().collect();
        // The script takes the first one for the default.
        configured.sort_by_key(|domain| *domain != default);
        let names = |domains: Vec<&Domain>| -> Vec<String> {
            domains
                .into_iter()
                .map(|domain| domain.as_str().to_owned())
                .collect()
        };
        let settings = json!({
            "domains": names(configured), "madeDomains": names(made.collect()),
            "blockedHosts": hosts,
        });
        settings.to_string()
    }
}

/// A text as a part of a path, or as a value of a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The address of the next page of a list with these filters, if there is one.
pub(super) fn next_page<'a>(
    page: &str,
    filters: impl IntoIterator<Item = (&'a str, &'a str)>,
    cursor: &'a Option<String>,
) -> Option<String> {
    let cursor = ("cursor", cursor.as_deref()?);
    Some(format!(
        "{page}{}",
        query(filters.into_iter().chain([cursor]))
    ))
}

/// The parameters that are not empty, as a list of the service reads them.
pub(super) fn parameters<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs = pairs.map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// A query of the parameters that are not empty, with its question mark.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let parameters = parameters(pairs);
    if parameters.is_empty() {
        parameters
    } else {
        format!("?{parameters}")
    }
}
