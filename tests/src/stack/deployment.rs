//! The whole product: a control plane, and an Envoy in front of it.

use super::{ApiAnswer, ControlPlane, Envoy, EnvoyOptions};
use crate::scenario::DOMAIN;
use serde_json::{Value, json};

/// One control plane and one Envoy.
#[derive(Debug)]
pub struct Deployment {
    /// The Envoy.
    pub envoy: Envoy,
    /// The control plane.
    pub control_plane: ControlPlane,
}

impl Deployment {
    /// Starts both, with the domains of `options`.
    pub async fn start(options: &EnvoyOptions) -> Self {
        let domains: Vec<&str> = options.domains.iter().map(String::as_str).collect();
        let control_plane = ControlPlane::with_domains(&domains).await;
        let envoy = Envoy::start(options, &[control_plane.address()]).await;
        Self {
            envoy,
            control_plane,
        }
    }

    /// Creates a link on the default domain and returns the path of its short URL.
    ///
    /// # Panics
    /// Panics if the API refuses it, or its short URL is not on that domain.
    pub async fn create(&self, link: &Value) -> String {
        path_of(&self.control_plane.create(link).await)
    }

    /// Creates a link to `url`, like [`Self::create`].
    pub async fn create_to(&self, url: &str) -> String {
        self.create(&json!({ "longUrl": url })).await
    }

    /// Creates a link to `url` under the path `/{alias}`, like [`Self::create`].
    pub async fn create_alias(&self, alias: &str, url: &str) -> String {
        self.create(&json!({ "longUrl": url, "customSlug": alias }))
            .await
    }
}

/// Path of a link, such as `/abc` for the short URL `http://go.example/abc`.
fn path_of(link: &ApiAnswer) -> String {
    let url = link.text("shortUrl");
    let path = url
        .strip_prefix("http://")
        .and_then(|url| url.strip_prefix(DOMAIN));
    path.unwrap_or_else(|| panic!("{url} is not on {DOMAIN}"))
        .to_owned()
}
