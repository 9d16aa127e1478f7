//! Certificates for tests, made by `openssl`, and clients that trust them.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Configuration of `openssl req`: an authority, and the certificates it signs.
const CONFIG: &str = "[req]
prompt = no
distinguished_name = name
[name]
CN = edgelink-tests
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
";

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl Identity {
    /// Replaces it by another one, each file atomically.
    ///
    /// # Panics
    /// Panics if the files cannot be written.
    pub fn replace(&self, other: &Self) {
        for (own, other) in [
            (&self.certificate, &other.certificate),
            (&self.key, &other.key),
        ] {
            replace(own, &fs::read(other).expect("a file"));
        }
    }

    /// The certificate in DER, as sent in a handshake.
    ///
    /// # Panics
    /// Panics if there is none.
    #[must_use]
    pub fn shown(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).expect("a certificate")
    }
}

/// Writes a file by renaming, so that readers never see part of it.
///
/// # Panics
/// Panics if it cannot be written.
pub fn replace(file: &Path, bytes: &[u8]) {
    let next = file.with_extension("next");
    fs::write(&next, bytes).expect("a file");
    fs::rename(next, file).expect("a file");
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Panics
    /// Panics if `openssl` fails.
    #[must_use]
    pub fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let authority = Self { folder };
        let Identity { certificate, key } = authority.own();
        openssl("authority", &certificate, &key, None);
        authority
    }

    fn own(&self) -> Identity {
        self.named("authority")
    }

    fn named(&self, name: &str) -> Identity {
        let file = |end: &str| self.folder.path().join(format!("{name}{end}"));
        Identity {
            certificate: file(".pem"),
            key: file(".key"),
        }
    }

    /// Its certificate, as a PEM file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.own().certificate
    }

    /// Issues a new certificate for this machine, for servers and clients, in files of that name.
    ///
    /// # Panics
    /// Panics if `openssl` fails.
    #[must_use]
    pub fn issue(&self, name: &str) -> Identity {
        let identity = self.named(name);
        openssl(
            "leaf",
            &identity.certificate,
            &identity.key,
            Some(&self.own()),
        );
        identity
    }

    /// Opens a TLS connection to a server with a certificate of this authority, as `identity` if given.
    ///
    /// # Errors
    /// Errors of the connection and of the handshake. A server's refusal of the client shows only in the first read.
    ///
    /// # Panics
    /// Panics if a file is missing.
    pub async fn connect(
        &self,
        address: SocketAddr,
        protocol: &str,
        identity: Option<&Identity>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.own().shown()).expect("a certificate");
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match identity {
            Some(identity) => {
                let key = PrivateKeyDer::from_pem_file(&identity.key).expect("a key");
                let config = config.with_client_auth_cert(vec![identity.shown()], key);
                config.expect("a certificate and its key")
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::from(address.ip()), stream)
            .await
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

fn openssl(extensions: &str, certificate: &Path, key: &Path, signer: Option<&Identity>) {
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-config", "-"])
        .args(["-extensions", extensions, "-keyout"])
        .arg(key)
        .arg("-out")
        .arg(certificate)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(signer) = signer {
        command.arg("-CA").arg(&signer.certificate);
        command.arg("-CAkey").arg(&signer.key);
        // The subject's name must differ from the issuer's.
        command.args(["-subj", "/CN=edgelink"]);
    }
    let mut child = command.spawn().expect("openssl");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(CONFIG.as_bytes()).expect("a configuration");
    drop(input);
    let output = child.wait_with_output().expect("openssl");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl req: {errors}");
}
