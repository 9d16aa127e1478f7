//! Certificates in PEM files.

use crate::config::FileText;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The certificates of a file, at least one.
///
/// # Errors
/// A message if the file is invalid.
pub fn certificates(file: &FileText) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(file.text().as_bytes()).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err("has no certificate in PEM".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("has no certificate in PEM: {error}")),
    }
}

/// The certificates of a file as trusted authorities.
///
/// # Errors
/// A message if the file is invalid.
pub fn roots(file: &FileText) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("has a certificate of no authority: {error}"))?;
    }
    Ok(roots)
}
