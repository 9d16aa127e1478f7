//! The identity to ZooKeeper.

use std::fmt;

/// An identity by one of ZooKeeper's schemes (ZooKeeper Programmer's Guide, "Builtin ACL Schemes").
#[derive(Clone, PartialEq, Eq)]
pub struct ZookeeperAuth {
    /// Name of the scheme, such as `digest`.
    pub scheme: String,
    /// Credentials in the form of the scheme, such as `user:password`.
    pub credentials: String,
}

impl ZookeeperAuth {
    /// Takes `scheme:credentials`, for example `digest:user:password`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, credentials) = text.split_once(':')?;
        let is_scheme =
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (is_scheme && !credentials.is_empty()).then(|| Self {
            scheme: scheme.to_owned(),
            credentials: credentials.to_owned(),
        })
    }
}

impl fmt::Debug for ZookeeperAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZookeeperAuth({})", self.scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zookeeper_auth_when_shown_hides_its_credentials() {
        let auth = ZookeeperAuth::parse("digest:me:a:b").unwrap();
        assert_eq!((&*auth.scheme, &*auth.credentials), ("digest", "me:a:b"));
        assert_eq!(format!("{auth:?}"), "ZookeeperAuth(digest)");
        for text in ["", "digest", "digest:", ":me:password", "a b:c"] {
            assert_eq!(ZookeeperAuth::parse(text), None, "{text}");
        }
    }
}
