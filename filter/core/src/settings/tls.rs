//! Settings of TLS with servers that a native host connects to by itself.

use super::written::HeaderText;
use edgelink_wire::settings::Problems;

/// Settings of TLS with servers. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The file with the authorities of the servers' certificates.
    pub ca_file: String,
    /// The name in the certificates; `None` for the name of the host.
    pub server_name: Option<String>,
    /// The files with the client certificate and its key; `None` if none is presented.
    pub own: Option<[String; 2]>,
}

/// The fields of a section that are about TLS.
pub(super) struct TlsFiles<'a> {
    pub(super) ca: Option<&'a HeaderText>,
    pub(super) server_name: Option<&'a HeaderText>,
    pub(super) certificate: Option<&'a HeaderText>,
    pub(super) key: Option<&'a HeaderText>,
}

impl TlsFiles<'_> {
    /// Checks the fields of this section against each other.
    pub(super) fn check(&self, section: &str, problems: &mut Problems) {
        let with_authorities = [
            ("serverName", self.server_name),
            ("certificateFile", self.certificate),
            ("keyFile", self.key),
        ];
        for (field, value) in with_authorities {
            if value.is_some() && self.ca.is_none() {
                let must = format!("must be given together with {section}.caFile");
                problems.refuse(format!("{section}.{field}"), must);
            }
        }
        if self.certificate.is_some() != self.key.is_some() {
            let must = format!("must be given together with {section}.certificateFile");
            problems.refuse(format!("{section}.keyFile"), must);
        }
    }

    /// The settings; `None` without TLS.
    pub(super) fn read(&self) -> Option<Tls> {
        let text = |text: Option<&HeaderText>| text.map(|text| text.0.clone());
        Some(Tls {
            ca_file: text(self.ca)?,
            server_name: text(self.server_name),
            own: text(self.certificate).zip(text(self.key)).map(Into::into),
        })
    }
}
