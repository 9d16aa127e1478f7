//! Verification of domain ownership by a TXT record in the DNS, which only the owner can write. The domain's own web server is not
//! asked.

use crate::config::DomainsConfig;
use edgelink_wire::Domain;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use tokio::sync::OnceCell;

/// Attempts before a DNS server counts as silent.
const ATTEMPTS: usize = 2;

/// The name of the TXT record of a domain.
pub fn record_name(domain: &Domain) -> String {
    format!("_edgelink.{domain}")
}

/// The value that the TXT record of a domain must have.
pub fn record_value(token: &str) -> String {
    format!("edgelink-verification={token}")
}

/// Outcome of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The record exists.
    Verified,
    /// There is no TXT record of that name and value.
    NotFound,
    /// No DNS server has answered in time.
    NoAnswer,
}

/// Asks the DNS.
pub struct Verifier {
    config: DomainsConfig,
    /// Created on first use.
    resolver: OnceCell<TokioResolver>,
}

impl Verifier {
    /// Creates a verifier. It reaches no DNS server before it verifies.
    pub fn new(config: &DomainsConfig) -> Self {
        Self {
            config: config.clone(),
            resolver: OnceCell::new(),
        }
    }

    /// Checks that the TXT record of a domain has its token.
    pub async fn verify(&self, domain: &Domain, token: &str) -> Verification {
        let asking = self.texts(domain);
        let texts = match tokio::time::timeout(self.config.timeout_ms, asking).await {
            Ok(Ok(texts)) => texts,
            Ok(Err(error)) if error.is_no_records_found() => return Verification::NotFound,
            Ok(Err(error)) => {
                tracing::warn!(%domain, %error, "looking up the TXT record of a domain failed");
                return Verification::NoAnswer;
            }
            Err(_) => return Verification::NoAnswer,
        };
        let expected = record_value(token);
        if texts.iter().any(|text| text == expected.as_bytes()) {
            Verification::Verified
        } else {
            Verification::NotFound
        }
    }

    /// The TXT records of a domain.
    async fn texts(&self, domain: &Domain) -> Result<Vec<Vec<u8>>, NetError> {
        let name = format!("{}.", record_name(domain));
        let resolver = self.resolver.get_or_try_init(async || self.resolver());
        let answer = resolver.await?.lookup(name, RecordType::TXT).await?;
        let text = |record: &Record| match &record.data {
            // A long text arrives in pieces.
            RData::TXT(text) => Some(text.txt_data.concat()),
            _ => None,
        };
        Ok(answer.answers().iter().filter_map(text).collect())
    }

    /// Creates a resolver that asks the configured DNS server, or else the system's current ones.
    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let mut builder = match self.config.resolver {
            Some(address) => {
                let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
                let connections = connections.map(|mut connection| {
                    connection.port = address.port();
                    connection
                });
                let server = NameServerConfig::new(address.ip(), true, connections.into());
                let servers = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
                TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default())
            }
            None => TokioResolver::builder_tokio()?,
        };
        let options = builder.options_mut();
        options.timeout = self.config.timeout_ms;
        options.attempts = ATTEMPTS;
        // A missing record must be found as soon as its server has it.
        options.cache_size = 0;
        builder.build()
    }
}
