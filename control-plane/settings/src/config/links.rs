//! Settings of links: domains, codes, short URLs, and the number source.

use super::value::{FileText, Header, Secret};
use super::zookeeper::ZookeeperAuth;
use edgelink_wire::settings::Problems;
use edgelink_wire::target::HostPattern;
use edgelink_wire::{Code, CodeLength, CodeSpace, Domain, LinkPrefix, PermutationKey};
use std::collections::HashSet;
use std::time::Duration;

/// The only code length that holds the numbers of the source `snowflake`.
pub const SNOWFLAKE_CODE_LENGTH: u8 = 10;

edgelink_wire::settings! {
    snake_case;

    /// Domains and codes.
    pub struct LinksConfig {
        /// Hosts of short URLs, at least one, with their port where it is not the default; the first is the default domain. No
        /// link may point to any of them. The ports 80 and 443 and a trailing dot in a request make no difference.
        pub domains: Vec<Domain> = "127.0.0.1:8080".parse().into_iter().collect();
        /// What visitors of other hosts get: the links of the default domain, or 404.
        pub unknown_hosts: UnknownHosts = UnknownHosts::Default;
        /// Hosts that no link may go to: `evil.example` is this one, `*.evil.example` all below it. Links that exist stay.
        pub blocked_hosts: Vec<HostPattern> = Vec::new();
        /// Words, in any case, that no new link may have as its alias, also where it is imported or moved: the first segments of
        /// paths that belong to other services on the same hosts, which an alias would take from them (with 307 or 308 what is
        /// posted there, too). Links that exist stay.
        pub reserved: Vec<Code> = Vec::new();
        /// What `shortUrl` starts with.
        pub short_url_scheme: Scheme = Scheme::Https;
        /// What stands in front of codes in the paths of short URLs, as `/s/`, where other services have the same hosts. Edges have
        /// a setting of the same name; redirects of this process follow it as well, and the root of a domain (`rootUrl`, the home
        /// page) is this path then.
        pub prefix: LinkPrefix = LinkPrefix::default();
        /// Whether redirects of this process take `/code/` for `/code`, also for links with `forwardPath`. Edges have a setting of
        /// their own.
        pub trailing_slash: bool = false;
        /// Characters of generated codes; codes of another length that exist stay.
        pub code_length: u8 = CodeLength::DEFAULT.get(), 6..=10;
        /// The permutation key, 32 hexadecimal digits (`openssl rand -hex 16`). Without it codes are plain counters that can be
        /// guessed. It must stay the same for as long as the links live.
        pub code_key: Option<Secret> = None, "00000000000000000000000000000000";
        /// A file with the key, instead of `code_key`.
        pub code_key_file: Option<FileText> = None, "/etc/edgelink/code-key";
        /// How often a creation is retried when its code is taken; from the second time on free numbers are looked up, up to 512
        /// at once. Then 503.
        pub max_code_tries: u8 = 16, 1..=100;
        /// For rules of links: the header that says the country of a visitor, two letters of ISO 3166-1. It is believed: what
        /// stands in front must set it, or remove that of clients. Without it no visitor has a country.
        pub country_header: Option<Header> = None, "cf-ipcountry";
        /// For rules of links: the header that says the city of a visitor by its name, believed as that of the country.
        pub city_header: Option<Header> = None, "cf-ipcity";
        /// Whether redirects carry `X-Robots-Tag: noindex`, except of links that search engines may list. Edges have a setting of their own.
        pub noindex: bool = false;
        /// For how long shared caches in front, such as nginx, may keep a redirect of this process, and then once more as long while
        /// they ask again, and for 5 minutes where asking fails. It holds for links that lead every visitor to the same target. What such a cache answers is no click, and
        /// changes reach it late. 0: they keep none.
        pub shared_cache_seconds: Duration = Duration::ZERO, 0..=3_600;
    }

    /// Sources of numbers.
    pub struct NumbersConfig {
        /// Source that all control planes of a database draw from; see "Sources of numbers". `snowflake` needs
        /// `links.code_length = 10`; `counter` takes no `links.code_key`.
        pub source: NumberSourceKind = NumberSourceKind::Segment;
        /// Numbers drawn at once: by `counter` always, by `segment` at first and at least. More means fewer round trips, and
        /// more numbers lost when the process is killed.
        pub step: u32 = 1_000, 1..=1_000_000;
        /// To how many a draw of `segment` grows while one lasts for less than 15 minutes; at least `step`. A killed process
        /// loses up to twice as many.
        pub max_step: u32 = 100_000, 1..=100_000_000;
        /// The issuer lease (`segment`); renewed three times as often.
        pub lease_seconds: Duration = Duration::from_mins(1), 3..=3_600;
        /// `host:port,host:port/chroot`; needed for `zookeeper`.
        pub zookeeper_servers: Option<String> = None, "127.0.0.1:2181";
        /// The znode with the next number; made where it is missing and there are no links yet.
        pub zookeeper_path: String = "/edgelink/next".to_owned();
        /// Scheme and credentials; znodes made then belong to this identity. Without it every client of that ZooKeeper may change
        /// them.
        pub zookeeper_auth: Option<Secret> = None, "digest:user:password";
        /// Numbers drawn from ZooKeeper at once.
        pub zookeeper_range: u32 = 100_000, 1..=100_000_000;
    }
}

edgelink_wire::choice! {
    /// The scheme of short URLs.
    pub enum Scheme {
        /// Without TLS.
        Http = "http",
        /// With TLS.
        Https = "https",
    }
}

edgelink_wire::choice! {
    /// Behaviour for visitors of an unknown host.
    pub enum UnknownHosts {
        /// The links of the default domain.
        Default = "default",
        /// 404.
        NotFound = "not_found",
    }
}

edgelink_wire::choice! {
    /// The number source.
    pub enum NumberSourceKind {
        /// Segments of 1,000 logical issuers in the database.
        Segment = "segment",
        /// One counter in the database: 0, 1, 2, ...
        Counter = "counter",
        /// Ranges out of a znode.
        Zookeeper = "zookeeper",
        /// Time, worker and sequence.
        Snowflake = "snowflake",
        /// MurmurHash3 over domain, target, owner and salt.
        Digest = "digest",
    }
}

impl LinksConfig {
    /// Checks domains and key, and reads the key from its file.
    pub(super) fn complete(&mut self, problems: &mut Problems) {
        if self.domains.is_empty() {
            problems.refuse("links.domains", "is empty, must name at least one domain");
        }
        let mut seen = HashSet::new();
        for domain in self.domains.iter().filter(|domain| !seen.insert(*domain)) {
            problems.refuse("links.domains", format!("holds '{domain}' twice"));
        }
        match (&self.code_key_file, &self.code_key) {
            (Some(_), Some(_)) => {
                let must = "must not be set together with links.code_key";
                return problems.refuse("links.code_key_file", must);
            }
            (Some(file), None) => self.code_key = Some(Secret::new(file.text().trim())),
            (None, _) => {}
        }
        if self.code_key.is_some() && self.permutation_key().is_none() {
            problems.refuse("links.code_key", "must be 32 hexadecimal digits");
        }
    }

    /// True if an alias is a reserved word.
    pub fn reserves(&self, alias: &Code) -> bool {
        let mut reserved = self.reserved.iter();
        reserved.any(|word| word.as_str().eq_ignore_ascii_case(alias.as_str()))
    }

    /// Key of the permutation; `None` if there is none, or it is not 32 hexadecimal digits.
    pub fn permutation_key(&self) -> Option<PermutationKey> {
        self.code_key.as_ref()?.expose().parse().ok()
    }

    /// Generated codes, by the configured length and key.
    pub fn code_space(&self) -> CodeSpace {
        let length = CodeLength::new(self.code_length).unwrap_or(CodeLength::DEFAULT);
        CodeSpace::new(length, self.permutation_key())
    }

    /// Short URL of a link: scheme, domain, prefix and code.
    pub fn short_url(&self, domain: &Domain, code: &Code) -> String {
        self.url(&format!("{domain}{}{code}", self.prefix))
    }

    /// The URL of a domain and a path.
    pub fn url(&self, place: &str) -> String {
        format!("{}://{place}", self.short_url_scheme.word())
    }

    /// The first of the domains. A loaded configuration has at least one.
    pub fn default_domain(&self) -> &Domain {
        &self.domains[0]
    }
}

impl NumbersConfig {
    pub(super) fn check(&self, links: &LinksConfig, problems: &mut Problems) {
        let (step, max_step, path) = (self.step, self.max_step, &self.zookeeper_path);
        if max_step < step {
            let reason = format!("is {max_step}, must be numbers.step ({step}) to 100000000");
            problems.refuse("numbers.max_step", reason);
        }
        if !path.starts_with('/') || path.ends_with('/') || path.contains("//") {
            let reason = format!("is '{path}', must be like '/edgelink/next'");
            problems.refuse("numbers.zookeeper_path", reason);
        }
        if self.zookeeper_auth.is_some() && self.zookeeper_auth().is_none() {
            let must = "must be a scheme and its credentials, for example digest:user:password";
            problems.refuse("numbers.zookeeper_auth", must);
        }
        if let Err(reason) = self.check_source(links) {
            problems.refuse("numbers.source", reason);
        }
    }

    /// The identity of this process for ZooKeeper.
    pub fn zookeeper_auth(&self) -> Option<ZookeeperAuth> {
        ZookeeperAuth::parse(self.zookeeper_auth.as_ref()?.expose())
    }

    fn check_source(&self, links: &LinksConfig) -> Result<(), String> {
        let (length, needed) = (links.code_length, SNOWFLAKE_CODE_LENGTH);
        match self.source {
            NumberSourceKind::Zookeeper if self.zookeeper_servers.is_none() => {
                Err("is 'zookeeper', which needs numbers.zookeeper_servers".to_owned())
            }
            NumberSourceKind::Snowflake if length != needed => Err(format!(
                "is 'snowflake', whose numbers need links.code_length = {needed} (it is {length})"
            )),
            NumberSourceKind::Counter if links.code_key.is_some() => Err(
                "is 'counter', whose codes are plain: remove links.code_key, or take 'segment'"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }
}
