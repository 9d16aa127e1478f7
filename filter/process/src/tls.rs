//! TLS to Redis and to control planes.

use edgelink_filter_core::settings::Tls;
use edgelink_wire::settings::InvalidField;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::fmt::Display;
use std::sync::Arc;

/// The TLS configuration. Its files are read for every connection, so that they can be replaced.
///
/// # Errors
/// The field of the file that cannot be used, within its section.
pub(crate) fn client_config(tls: &Tls) -> Result<ClientConfig, InvalidField> {
    let wrong = |field: &str, file: &str, error: &dyn Display| InvalidField {
        field: field.to_owned(),
        reason: format!("{file}: {error}"),
    };
    let certificates = |field: &str, file: &str| {
        let read =
            CertificateDer::pem_file_iter(file).map_err(|error| wrong(field, file, &error))?;
        read.collect::<Result<Vec<_>, _>>()
            .map_err(|error| wrong(field, file, &error))
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates("caFile", &tls.ca_file)? {
        roots
            .add(certificate)
            .map_err(|error| wrong("caFile", &tls.ca_file, &error))?;
    }
    if roots.is_empty() {
        return Err(wrong("caFile", &tls.ca_file, &"has no certificate"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("caFile", &tls.ca_file, &error))?
        .with_root_certificates(roots);
    match &tls.own {
        None => Ok(config.with_no_client_auth()),
        Some([certificate, key]) => {
            let own = certificates("certificateFile", certificate)?;
            let read =
                PrivateKeyDer::from_pem_file(key).map_err(|error| wrong("keyFile", key, &error))?;
            config
                .with_client_auth_cert(own, read)
                .map_err(|error| wrong("certificateFile", certificate, &error))
        }
    }
}
