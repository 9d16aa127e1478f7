//! nginx in front, as started by `nginx/run.sh`, with a self-signed certificate.

use super::place::{free_port, local, root};
use super::{Connection, Process, Signal, until};
use crate::scenario::{Answer, Request};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const LIMIT: Duration = Duration::from_secs(20);

/// A running nginx.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    https: SocketAddr,
    http: SocketAddr,
    /// The current certificate, and its replacement.
    certificates: [CertificateDer<'static>; 2],
    /// The settings of `nginx/run.sh`.
    environment: Vec<(String, String)>,
    folder: TempDir,
}

/// Command `nginx/run.sh` with these settings.
fn script(environment: &[(String, String)], arguments: &[&str]) -> Command {
    let mut command = Command::new(root().join("nginx/run.sh"));
    command.args(arguments).envs(environment.iter().cloned());
    command
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path").to_owned()
}

impl Nginx {
    /// Starts nginx in front of these Envoys and control planes, with further environment variables, and returns when it
    /// answers. It has one worker, and limits that only a test of limits reaches.
    pub async fn start(
        edges: &[SocketAddr],
        control_planes: &[SocketAddr],
        variables: &[(&str, &str)],
    ) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let certificates = [
            make_certificate(folder.path()),
            make_certificate(&folder.path().join("next")),
        ];
        let (https, http, status) = (local(free_port()), local(free_port()), local(free_port()));
        let file = |name| text(&folder.path().join(name));
        let settings = [
            ("EDGELINK_STATE_DIR", text(folder.path())),
            ("EDGELINK_FRONT_USER", "root".to_owned()),
            ("EDGELINK_CERTIFICATE", file("certificate.pem")),
            ("EDGELINK_CERTIFICATE_KEY", file("key.pem")),
            ("EDGELINK_HTTPS_PORT", https.port().to_string()),
            ("EDGELINK_HTTP_PORT", http.port().to_string()),
            ("EDGELINK_FRONT_STATUS_PORT", status.port().to_string()),
            ("EDGELINK_EDGES", list(edges)),
            ("EDGELINK_CONTROL_PLANES", list(control_planes)),
            ("EDGELINK_FRONT_WORKERS", "1".to_owned()),
            ("EDGELINK_FRONT_RATE_PER_SECOND", "100000".to_owned()),
            ("EDGELINK_FRONT_RATE_BURST", "100000".to_owned()),
            ("EDGELINK_FRONT_SHUTDOWN_SECONDS", "1".to_owned()),
        ];
        let mut environment: Vec<(String, String)> = Vec::new();
        let given = variables
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        for (name, value) in settings.into_iter().chain(given) {
            environment.push((name.to_owned(), value));
        }
        let command = script(&environment, &[]);
        let mut process = Process::start("nginx", command, folder.path().join("nginx.log"));
        process
            .await_ready(async || Connection::open(status).await.is_ok())
            .await;
        Self {
            process,
            https,
            http,
            certificates,
            environment,
            folder,
        }
    }

    /// Runs `nginx/run.sh` again with these arguments, and with these variables overriding its own.
    pub fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = script(&self.environment, arguments);
        let command = command.envs(variables.iter().copied());
        command.output().expect("nginx/run.sh")
    }

    /// The main file of its configuration.
    #[must_use]
    pub fn configuration(&self) -> String {
        let file = self.folder.path().join("nginx/nginx.conf");
        fs::read_to_string(file).expect("the configuration")
    }

    /// Address of HTTPS.
    #[must_use]
    pub fn https(&self) -> SocketAddr {
        self.https
    }

    /// Address of plain HTTP, which redirects to HTTPS.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// Replaces its certificate, and waits until the new one is in use.
    pub async fn renew_certificate(&self) {
        for name in ["certificate.pem", "key.pem"] {
            let folder = self.folder.path();
            fs::rename(folder.join("next").join(name), folder.join(name)).expect("a file");
        }
        self.process.signal(Signal::HUP);
        until("the other certificate", LIMIT, async || {
            let stream = self.connect_from([127, 0, 0, 1], "http/1.1").await;
            let stream = stream.expect("TLS");
            let shown = stream.get_ref().1.peer_certificates()?;
            (shown == &self.certificates[1..]).then_some(())
        })
        .await;
    }

    /// Its certificate, as a file.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// Its error log.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Its log of requests that no Envoy answered, so far.
    #[must_use]
    pub fn events(&self) -> String {
        let file = self.folder.path().join("nginx/events.log");
        fs::read_to_string(file).expect("the log of events")
    }

    /// Sets the share of the canary by `nginx/canary.sh`.
    pub fn set_canary(&self, percent: &str) -> Output {
        let mut command = Command::new(root().join("nginx/canary.sh"));
        command
            .arg(percent)
            .env("EDGELINK_STATE_DIR", self.folder.path());
        command.output().expect("nginx/canary.sh")
    }

    /// Opens a TLS connection from that local address, for HTTP/1.1, or for the protocol `h2`.
    ///
    /// # Errors
    /// Fails with the connection's errors.
    pub async fn connect_from(
        &self,
        address: [u8; 4],
        protocol: &str,
    ) -> io::Result<TlsStream<TcpStream>> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::from(address), 0).into())?;
        let stream = socket.connect(self.https).await?;
        stream.set_nodelay(true)?;
        let mut roots = RootCertStore::empty();
        let certificates = self.certificates.iter().cloned();
        roots.add_parsable_certificates(certificates);
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::from(self.https.ip());
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    /// Opens a TLS connection for HTTP/1.1.
    ///
    /// # Errors
    /// Fails with the connection's errors.
    pub async fn connect(&self) -> io::Result<Connection<TlsStream<TcpStream>>> {
        let stream = self.connect_from([127, 0, 0, 1], "http/1.1").await?;
        Ok(Connection::over(stream))
    }

    /// Sends a request over a new connection.
    ///
    /// # Errors
    /// Fails with the connection's errors.
    pub async fn visit(&self, request: &Request) -> io::Result<Answer> {
        self.connect().await?.exchange(request, b"").await
    }

    /// Follows a path by GET, over a new connection.
    pub async fn follow(&self, path: &str) -> Answer {
        let answer = self.visit(&Request::get(path)).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

fn make_certificate(folder: &Path) -> CertificateDer<'static> {
    let script = root().join("nginx/certificate.sh");
    let output = Command::new(script).arg(folder).output();
    let output = output.expect("nginx/certificate.sh");
    assert!(output.status.success(), "{output:?}");
    CertificateDer::from_pem_file(folder.join("certificate.pem")).expect("a certificate")
}

fn list(addresses: &[SocketAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.join(",")
}
