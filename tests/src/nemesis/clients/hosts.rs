//! Domains created by the API for links: in the history a link on one has the code `{domain}/{alias}`.

use super::link::request;
use super::{Client, ClientContext};
use serde_json::json;
use std::collections::HashSet;
use std::time::Duration;

const DOMAINS: usize = 16;
const LINKS_OF_EACH: usize = 2;
/// Time until the next code is used, and so until the next domain is created.
pub(super) const PAUSE: Duration = Duration::from_secs(3);

/// Codes of all links, grouped by domain.
pub(super) fn codes() -> impl Iterator<Item = String> {
    (0..DOMAINS).flat_map(|domain| {
        let code = move |link| format!("h{domain}.nemesis.example/hosted-{domain}-{link}");
        (0..LINKS_OF_EACH).map(code)
    })
}

/// Splits a code into its domain, `None` for the default one, and the code there.
pub(super) fn split(code: &str) -> (Option<&str>, &str) {
    match code.split_once('/') {
        Some((domain, code)) => (Some(domain), code),
        None => (None, code),
    }
}

/// Domains known to exist.
#[derive(Debug, Default)]
pub(super) struct Hosts(HashSet<String>);

impl Hosts {
    /// Creates the domain of a code, unless it is known to exist.
    pub(super) async fn make(&mut self, shared: &ClientContext, client: &mut Client, code: &str) {
        let (Some(domain), _) = split(code) else {
            return;
        };
        if self.0.contains(domain) {
            return;
        }
        let body = json!({ "name": domain }).to_string();
        let request = request(shared, "POST", "/domains");
        let answer = client.ask(shared, &request, body.as_bytes()).await;
        if answer.is_ok_and(|answer| matches!(answer.status, 201 | 409)) {
            self.0.insert(domain.to_owned());
        }
    }

    /// Forgets the domain of a code, which a restored database may have lost.
    pub(super) fn doubt(&mut self, code: &str) {
        if let (Some(domain), _) = split(code) {
            self.0.remove(domain);
        }
    }
}
