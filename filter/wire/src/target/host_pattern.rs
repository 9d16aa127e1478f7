//! Hosts that no link may go to, and patterns of hosts.

use super::url::{is_host_name, is_same_host};
use crate::settings::{Problems, SettingValue, Value, ValueKind};
use ::url::Host;

/// A host, or all hosts below a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This host.
    One(Host),
    /// All hosts with this suffix: a dot and a domain in lower case, in Punycode, without a trailing dot.
    Below(String),
}

impl HostPattern {
    /// Parses `evil.example` (this host) or `*.evil.example` (its subdomains at any depth, but not the host itself); `None` if it
    /// is neither. Case and Punycode make no difference.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_host = |host: &Host| match host {
            Host::Domain(name) => is_host_name(name),
            Host::Ipv4(_) | Host::Ipv6(_) => true,
        };
        let Some(domain) = text.strip_prefix("*.") else {
            return Host::parse(text).ok().filter(is_host).map(Self::One);
        };
        match Host::parse(domain).ok().filter(is_host)? {
            Host::Domain(name) => Some(Self::Below(format!(".{}", name.trim_end_matches('.')))),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        }
    }

    /// True if the host matches the pattern.
    #[must_use]
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::One(one), host) => is_same_host(one, host),
            (Self::Below(end), Host::Domain(domain)) => {
                domain.trim_end_matches('.').ends_with(end.as_str())
            }
            (Self::Below(_), _) => false,
        }
    }
}

impl SettingValue for HostPattern {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = String::read(value, path, problems)?;
        let host = Self::parse(&text);
        if host.is_none() {
            let must = "must be a host such as 'evil.example', or '*.evil.example'";
            problems.refuse(path, format!("is '{text}', {must}"));
        }
        host
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(match self {
            Self::One(host) => host.to_string().into(),
            Self::Below(end) => format!("*{end}").into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TargetError, TargetRules};
    use super::*;

    fn matches(pattern: &str, target: &str) -> bool {
        let rules = TargetRules {
            own_domains: &[],
            is_made: &|_| false,
            blocked_hosts: &[HostPattern::parse(pattern).unwrap()],
        };
        let checked = rules.check(target);
        assert!(matches!(checked, Ok(_) | Err(TargetError::BlockedHost)));
        checked.is_err()
    }

    #[test]
    fn blocked_host_when_spelled_otherwise_is_matched() {
        for target in [
            "https://evil.example/",
            "http://EVIL.example:8080/x?y",
            "https://evil.example./",
        ] {
            assert!(matches("evil.example", target), "{target}");
            assert!(matches("Evil.Example.", target), "{target}");
        }
        for target in [
            "https://a.evil.example/",
            "https://example/evil.example",
            "https://evil.example.org/",
        ] {
            assert!(!matches("evil.example", target), "{target}");
        }
        assert!(matches(
            "xn--bcher-kva.example",
            "https://b\u{fc}cher.example/"
        ));
        assert!(matches(
            "b\u{fc}cher.example",
            "https://xn--bcher-kva.example/"
        ));
        assert!(matches("192.0.2.1", "http://192.0.2.1/"));
        assert!(matches("192.0.2.1", "http://[::ffff:192.0.2.1]/"));
        assert!(matches("[2001:db8::1]", "http://[2001:DB8:0::1]/"));
    }

    #[test]
    fn wildcard_when_target_is_a_subdomain_blocks_it() {
        for (target, is_blocked) in [
            ("https://a.evil.example/", true),
            ("https://a.b.EVIL.example./", true),
            ("https://evil.example/", false),
            ("https://notevil.example/", false),
        ] {
            assert_eq!(matches("*.evil.example", target), is_blocked, "{target}");
        }
    }

    #[test]
    fn host_pattern_when_malformed_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a b",
            "https://evil.example",
            "evil.example/x",
            "*.192.0.2.1",
        ] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
    }

    #[test]
    fn host_pattern_when_read_and_written_is_equal() {
        for text in ["evil.example", "*.evil.example"] {
            let host = HostPattern::parse(text).unwrap();
            assert_eq!(host.written(""), Some(Value::from(text)));
        }
    }
}
