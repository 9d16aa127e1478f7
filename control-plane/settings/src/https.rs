//! The HTTPS client, which trusts the system's certificates.

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::builderstates::WantsSchemes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::io;
use std::sync::Arc;
use url::Url;

/// A client for HTTPS and HTTP that follows no redirects and uses no proxies.
pub type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Creates a client.
///
/// # Errors
/// The system's certificates cannot be read.
pub fn client() -> io::Result<HttpsClient> {
    let provider = rustls::crypto::ring::default_provider();
    Ok(with_tls(
        HttpsConnectorBuilder::new().with_provider_and_native_roots(provider)?,
    ))
}

/// Creates a client for one server. For plain `http` it trusts no certificate, and so needs none of the system's.
///
/// # Errors
/// The system's certificates cannot be read.
pub(crate) fn client_of(server: &Url) -> io::Result<HttpsClient> {
    if server.scheme() == "https" {
        return client();
    }
    let provider = rustls::crypto::ring::default_provider();
    let tls = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Ok(with_tls(HttpsConnectorBuilder::new().with_tls_config(tls)))
}

fn with_tls(https: HttpsConnectorBuilder<WantsSchemes>) -> HttpsClient {
    let https = https.https_or_http().enable_http1().build();
    Client::builder(TokioExecutor::new()).build(https)
}

/// The message of an error with all its causes, which the client library's message omits.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
