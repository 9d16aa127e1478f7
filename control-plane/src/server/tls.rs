//! TLS of the listeners: certificates, and client authentication of edges.

use super::certificate;
use edgelink_settings::config::{FileText, ListenerKind, TlsConfig};
use edgelink_settings::pem;
use edgelink_settings::reloaded::Reloaded;
use edgelink_settings::telemetry::prometheus::CERTIFICATE_END;
use metrics::gauge;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::sync::Arc;

/// Protocols offered to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocols {
    /// HTTP/2, and HTTP/1.1.
    All,
    /// HTTP/1.1 only, in which a connection can be limited to one request.
    Http1,
}

/// TLS configurations from the current files.
pub(super) type Tls = Reloaded<Offers>;

/// TLS configurations of the listeners.
pub(super) struct Offers {
    others: TlsConfigs,
    edge: TlsConfigs,
}

/// TLS configurations of a listener, by protocols.
#[derive(Clone)]
struct TlsConfigs {
    all: Arc<ServerConfig>,
    http1: Arc<ServerConfig>,
}

impl Offers {
    pub(super) fn of(&self, kind: ListenerKind, protocols: Protocols) -> Arc<ServerConfig> {
        let offer = match kind {
            ListenerKind::Edge => &self.edge,
            _ => &self.others,
        };
        match protocols {
            Protocols::All => offer.all.clone(),
            Protocols::Http1 => offer.http1.clone(),
        }
    }
}

impl TlsConfigs {
    fn new(mut server: ServerConfig) -> Self {
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut all = server.clone();
        all.alpn_protocols.insert(0, b"h2".to_vec());
        Self {
            all: Arc::new(all),
            http1: Arc::new(server),
        }
    }
}

/// Reads the files of `config`; `None` if there is no TLS.
///
/// # Errors
/// A message with the setting of the invalid file.
pub(super) fn start(config: &TlsConfig) -> Result<Option<Arc<Tls>>, String> {
    let files = [
        &config.certificate_file,
        &config.key_file,
        &config.edge_client_ca_file,
    ];
    if files.iter().all(|file| file.is_none()) {
        return Ok(None);
    }
    let files = files.into_iter().flatten().cloned().collect();
    Reloaded::new("tls", files, offers).map(Some)
}

/// Reads the certificate and its key, and the authorities of edges, if any.
fn offers(files: &[FileText]) -> Result<Offers, String> {
    let [certificate, key, rest @ ..] = files else {
        return Err("tls.certificate_file and tls.key_file are missing".to_owned());
    };
    let chain = pem::certificates(certificate);
    let chain = chain.map_err(|error| format!("tls.certificate_file {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key.text().as_bytes())
        .map_err(|error| format!("tls.key_file has no private key in PEM: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let others = server(&provider, None, (&chain, &key))?;
    let edge = match rest.first() {
        Some(authorities) => {
            let named = |error: String| format!("tls.edge_client_ca_file {error}");
            let verifier = verifier(&provider, authorities).map_err(named)?;
            note_end("edge_client_ca", &pem::certificates(authorities)?)?;
            server(&provider, Some(verifier), (&chain, &key))?
        }
        None => others.clone(),
    };
    note_end("server", &chain[..1])?;
    Ok(Offers { others, edge })
}

fn verifier(
    provider: &Arc<CryptoProvider>,
    authorities: &FileText,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let roots = Arc::new(pem::roots(authorities)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    verifier.build().map_err(|error| error.to_string())
}

fn server(
    provider: &Arc<CryptoProvider>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    (chain, key): (&[CertificateDer<'static>], &PrivateKeyDer<'static>),
) -> Result<TlsConfigs, String> {
    let wrong = |error: rustls::Error| {
        format!("tls.certificate_file and tls.key_file cannot be used together: {error}")
    };
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(wrong)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let server = builder.with_single_cert(chain.to_vec(), key.clone_key());
    server.map(TlsConfigs::new).map_err(wrong)
}

/// Sets the metric to the earliest expiry of the certificates.
fn note_end(name: &'static str, certificates: &[CertificateDer<'static>]) -> Result<(), String> {
    let ends: Option<Vec<i64>> = certificates
        .iter()
        .map(|certificate| certificate::end(certificate))
        .collect();
    let ends =
        ends.ok_or_else(|| format!("a certificate of tls ({name}) says not when it ends"))?;
    if let Some(end) = ends.into_iter().min() {
        gauge!(CERTIFICATE_END, "certificate" => name).set(end as f64);
    }
    Ok(())
}
