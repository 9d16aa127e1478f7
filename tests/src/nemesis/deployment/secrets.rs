//! Credentials by which control planes, Envoys and the Redis of [`super::Shape::Single`] authenticate each other:
//! certificates from an authority for each side, and a token. All are files, which are replaced while the processes run.

use super::redis::SERVERS;
use super::{CONTROL_PLANES, DisturbedDeployment, ENVOYS, Shape};
use crate::certificates::{Authority, Identity, replace};
use crate::stack::EDGE_TOKEN;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// File with the tokens that control planes accept; Envoys take the first one.
pub(super) const TOKENS: &str = "tokens";
/// Interval at which control planes reload the files.
const RELOAD_MS: &str = "200";

/// An environment variable, whose value is usually a file.
type Variable = (&'static str, PathBuf);

/// The side that presents a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nemesis) enum Side {
    /// The control planes, to Envoys.
    ControlPlanes,
    /// The Envoys, to control planes.
    Edges,
    /// Redis, to all.
    Redis,
}

impl Side {
    fn parts(self) -> impl Iterator<Item = String> {
        let (prefix, count) = match self {
            Self::ControlPlanes => ("cp", CONTROL_PLANES),
            Self::Edges => ("envoy", ENVOYS),
            Self::Redis => ("redis", SERVERS),
        };
        (0..count).map(move |number| format!("{prefix}-{number}"))
    }

    fn of(part: &str) -> Self {
        match part.split_once('-') {
            Some(("cp", _)) => Self::ControlPlanes,
            Some(("redis", _)) => Self::Redis,
            _ => Self::Edges,
        }
    }
}

/// The files, and the authorities in effect.
#[derive(Debug)]
pub(super) struct Secrets {
    folder: PathBuf,
    /// By [`Side`].
    current: Mutex<[Arc<Authority>; 3]>,
    token: AtomicU64,
}

impl Secrets {
    /// Creates the files.
    pub(super) fn make(folder: &Path) -> Self {
        let secrets = Self {
            folder: folder.to_owned(),
            current: Mutex::default(),
            token: AtomicU64::new(0),
        };
        for side in [Side::ControlPlanes, Side::Edges, Side::Redis] {
            let authority = secrets.authority(side);
            secrets.trust(side, &[&authority]);
            for part in side.parts() {
                secrets.show(&part, &authority);
            }
        }
        secrets.accept(&[token(0)]);
        secrets
    }

    /// Environment of a control plane that serves the edge API over TLS, to Envoys only.
    pub(super) fn of_control_plane(&self, part: &str, shape: Shape) -> Vec<Variable> {
        let Identity { certificate, key } = self.identity(part);
        let edges = self.authorities(Side::Edges);
        let mut variables = vec![
            ("EDGELINK_TLS_LISTENERS", "edge".into()),
            ("EDGELINK_TLS_CERTIFICATE_FILE", certificate),
            ("EDGELINK_TLS_KEY_FILE", key),
            ("EDGELINK_TLS_EDGE_CLIENT_CA_FILE", edges),
            ("EDGELINK_SERVER_RELOAD_MS", RELOAD_MS.into()),
        ];
        variables.extend(self.of_redis("EDGELINK_REDIS_CA_FILE", shape));
        variables
    }

    /// Environment of an Envoy that connects to it.
    pub(super) fn of_envoy(&self, part: &str, shape: Shape) -> Vec<Variable> {
        let Identity { certificate, key } = self.identity(part);
        let control_planes = self.authorities(Side::ControlPlanes);
        let mut variables = vec![
            ("EDGELINK_EDGE_TOKEN_FILE", self.folder.join(TOKENS)),
            ("EDGELINK_CONTROL_PLANE_CA", control_planes),
            ("EDGELINK_CLIENT_CERTIFICATE", certificate),
            ("EDGELINK_CLIENT_KEY", key),
        ];
        variables.extend(self.of_redis("EDGELINK_REDIS_CA", shape));
        variables
    }

    /// An authority turns TLS on.
    fn of_redis(&self, name: &'static str, shape: Shape) -> Option<Variable> {
        (shape == Shape::Single).then(|| (name, self.authorities(Side::Redis)))
    }

    /// Certificate and key files of a part.
    pub(super) fn identity(&self, part: &str) -> Identity {
        let file = |end: &str| self.folder.join(format!("{part}{end}"));
        Identity {
            certificate: file(".pem"),
            key: file(".key"),
        }
    }

    /// File of the authorities of a side that the other side trusts.
    pub(super) fn authorities(&self, side: Side) -> PathBuf {
        self.folder.join(format!("{side:?}.pem"))
    }

    fn authority(&self, side: Side) -> Arc<Authority> {
        let current = self.current.lock();
        current.unwrap_or_else(PoisonError::into_inner)[side as usize].clone()
    }

    fn count_on(&self, side: Side, authority: Arc<Authority>) {
        let current = self.current.lock();
        current.unwrap_or_else(PoisonError::into_inner)[side as usize] = authority;
    }

    fn trust(&self, side: Side, authorities: &[&Authority]) {
        let read = |authority: &&Authority| fs::read(authority.file()).expect("a certificate");
        let all: Vec<Vec<u8>> = authorities.iter().map(read).collect();
        replace(&self.authorities(side), &all.concat());
    }

    fn show(&self, part: &str, authority: &Authority) {
        self.identity(part).replace(&authority.issue(part));
    }

    fn accept(&self, tokens: &[String]) {
        replace(&self.folder.join(TOKENS), tokens.join("\n").as_bytes());
    }
}

fn token(number: u64) -> String {
    format!("{EDGE_TOKEN}-{number}")
}

impl DisturbedDeployment {
    /// Replaces the authority of a side and all its certificates as the manual says: the new authority is trusted beside
    /// the old one, then its certificates take over, and finally the old one is no longer trusted. A pause follows each
    /// step.
    pub(in crate::nemesis) async fn rotate_certificates(&self, side: Side, pause: Duration) {
        let secrets = &self.secrets;
        let old = secrets.authority(side);
        let new = match side {
            Side::Redis => old.clone(), // control planes read this one when they start
            _ => Arc::default(),
        };
        secrets.trust(side, &[&old, &new]);
        sleep(pause).await;
        for part in side.parts() {
            self.show(&part, &new).await;
        }
        sleep(pause).await;
        secrets.trust(side, &[&new]);
        secrets.count_on(side, new);
        sleep(pause).await;
    }

    /// Replaces the token in the same way.
    pub(in crate::nemesis) async fn rotate_token(&self, pause: Duration) {
        let secrets = &self.secrets;
        let old = secrets.token.fetch_add(1, Ordering::Relaxed);
        let [old, new] = [old, old + 1].map(token);
        secrets.accept(&[old.clone(), new.clone()]);
        sleep(pause).await;
        secrets.accept(&[new.clone(), old]);
        for number in 0..ENVOYS {
            self.replace_token(number);
        }
        sleep(pause).await;
        secrets.accept(&[new]);
        sleep(pause).await;
    }

    /// Has a part present a certificate from an authority that the others do not trust.
    pub(in crate::nemesis) async fn show_wrong_certificate(&self, part: &str) {
        self.show(part, &Authority::new()).await;
    }

    /// Has a part present a certificate that the others trust.
    pub(in crate::nemesis) async fn show_right_certificate(&self, part: &str) {
        let authority = self.secrets.authority(Side::of(part));
        self.show(part, &authority).await;
    }

    async fn show(&self, part: &str, authority: &Authority) {
        self.secrets.show(part, authority);
        if let Some(number) = part.strip_prefix("redis-") {
            self.read_certificate(number.parse().expect("a number"))
                .await;
        }
    }
}
