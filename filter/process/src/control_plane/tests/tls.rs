//! Connections by TLS.

use super::peer::{Behaviour, Peer};
use super::*;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::process::Command;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// A folder with a certificate of `localhost`, `cert.pem`, that is its own authority, and `key.pem`.
fn identity() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost".split(' '))
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    folder
}

fn acceptor(identity: &TempDir, protocols: &[&[u8]]) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(identity.path().join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(identity.path().join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth();
    let mut config = config.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// A client of a server with TLS that trusts the certificate in this folder.
fn client_by_tls(
    peer: &Peer,
    trusted: &TempDir,
    name: &str,
) -> (ControlPlanes, mpsc::Receiver<String>) {
    let authority = trusted.path().join("cert.pem");
    let json = format!(
        r#"{{"domains":["go.example"],"controlPlane":{{"servers":["https://{name}:1"],"caFile":"{}"}}}}"#,
        authority.display()
    );
    let address = peer.address;
    client_with(&json, move || vec![address])
}

#[tokio::test]
async fn server_when_its_certificate_is_trusted_is_asked_by_tls() {
    let identity = identity();
    let peer = Peer::with(Behaviour::OK, Some(acceptor(&identity, &[b"h2"]))).await;
    let (client, _lines) = client_by_tls(&peer, &identity, "localhost");
    assert_eq!(status(&client.call(lookup()).await), "200");
    let uri = peer.seen()[0].0.uri.clone();
    assert_eq!(uri, format!("https://control-plane{LOOKUP}").as_str());
}

#[tokio::test]
async fn server_when_it_cannot_be_trusted_is_not_asked() {
    let (identity, another) = (identity(), self::identity());
    let peer = Peer::with(Behaviour::OK, Some(acceptor(&identity, &[b"h2"]))).await;
    for (trusted, name, why) in [
        (&another, "localhost", "invalid peer certificate"),
        (&identity, "other.example", "not valid for name"),
    ] {
        let (client, lines) = client_by_tls(&peer, trusted, name);
        assert_eq!(status(&client.call(lookup()).await), "");
        let line = lines.try_recv().unwrap();
        assert!(
            line.contains("cannot connect: ") && line.contains(why),
            "{line}"
        );
    }
    assert_eq!(peer.count(), 0);
}

#[tokio::test]
async fn server_when_it_offers_no_http2_is_not_asked() {
    let identity = identity();
    let peer = Peer::with(Behaviour::OK, Some(acceptor(&identity, &[]))).await;
    let (client, lines) = client_by_tls(&peer, &identity, "localhost");
    assert_eq!(status(&client.call(lookup()).await), "");
    let line = lines.try_recv().unwrap();
    assert!(line.contains("does not offer HTTP/2"), "{line}");
}

#[test]
fn file_when_it_cannot_be_used_is_named() {
    let identity = identity();
    let path = |name: &str| identity.path().join(name).display().to_string();
    let (certificate, key, missing) = (path("cert.pem"), path("key.pem"), path("missing.pem"));
    for (authority, own, field) in [
        (&missing, [&certificate, &key], "caFile"),
        (&key, [&certificate, &key], "caFile"),
        (&certificate, [&missing, &key], "certificateFile"),
        (&certificate, [&certificate, &missing], "keyFile"),
    ] {
        let json = format!(
            r#"{{"domains":["go.example"],"controlPlane":{{"servers":["https://a:1"],"caFile":"{authority}","certificateFile":"{}","keyFile":"{}"}}}}"#,
            own[0], own[1]
        );
        let settings = Settings::parse(json.as_bytes()).unwrap();
        let error = ControlPlanes::new(&settings.control_plane, Arc::new(|_: &str| {}))
            .err()
            .unwrap();
        assert_eq!(error.field, format!("controlPlane.{field}"), "{error:?}");
    }
}
