//! The state that pages share, and addresses of pages.

use super::jobs::Imports;
use edgelink_http::app::App;
pub(crate) use edgelink_http::auth::{Caller, check_again};
use edgelink_service::problem::Problem;
use edgelink_settings::admission::Permit;
use edgelink_wire::Domain;
use edgelink_wire::settings::SettingValue;
use http::HeaderMap;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::Instant;

/// The state of all pages.
#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) app: Arc<App>,
    pub(super) imports: Arc<Imports>,
}

impl Console {
    pub(crate) fn new(app: &Arc<App>) -> Self {
        Self {
            app: app.clone(),
            imports: Arc::default(),
        }
    }

    /// The permit to work on many links, held until the work is done. The session may end during the wait, so it is checked again.
    pub(super) async fn bulk_permit(&self, caller: &Caller) -> Result<Permit, Problem> {
        let deadline = Instant::now() + self.app.config.server.request_timeout_ms;
        let permit = self.app.bounded.bulk.take(caller.claim(), deadline);
        let permit = permit.await?;
        check_again(&self.app.keys, &HeaderMap::new(), caller).await?;
        Ok(permit)
    }

    /// The settings on which the validity of a link depends, as JSON for the checks of the script.
    pub(super) fn settings(&self, caller: &Caller) -> String {
        let (table, tenant_id) = (self.app.domains.current(), caller.tenant_id());
        let made = table.made_by(tenant_id);
        let made = made.filter(|domain| table.check(domain, tenant_id).is_ok());
        let hosts = self.app.config.links.blocked_hosts.iter();
        let hosts: Vec<Value> = hosts.filter_map(|host| host.written("")).collect();
        let links = self.app.links.of_tenant(caller);
        let default = caller.default_domain(links.default_domain());
        let mut configured: Vec<&Domain> = table.configured().iter().collect();
        // The script takes the first one as the default.
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

/// A text encoded as a segment of a path, or as a value of a query.
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
