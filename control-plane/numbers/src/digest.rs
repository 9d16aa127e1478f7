//! Numbers that are digests of the link: without state and coordination, but with collisions that the store has to
//! detect.
//!
//! The number is MurmurHash3 (x64, 128 bit) over domain, target, owner and salt, modulo `62^length`. The first attempt
//! has the salt 0, so that the same request gets the same code on every instance; retries have random salts, because a
//! fixed sequence would bound how often a target can be shortened. Only the unique index of the store says whether a
//! number is free; a membership filter spares it most collisions.

use super::source::{IssueError, NumberSource, Subject};
use async_trait::async_trait;
use edgelink_wire::{CodeSpace, LinkKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Salts that are tried against the membership filter before the store decides.
const MAX_SALTS: u32 = 16;

/// A filter of links that probably exist.
pub trait Membership: Send + Sync + 'static {
    /// True if such a link probably exists. A wrong answer does no harm: the store decides.
    fn may_contain(&self, key: &LinkKey) -> bool;
}

/// Derives numbers from links.
pub(super) struct Digest {
    space: CodeSpace,
    membership: Option<Arc<dyn Membership>>,
    closed: AtomicBool,
}

impl Digest {
    /// Creates a source for the codes of `space`.
    pub(super) fn new(space: CodeSpace, membership: Option<Arc<dyn Membership>>) -> Self {
        Self {
            space,
            membership,
            closed: AtomicBool::new(false),
        }
    }

    fn number(&self, subject: &Subject<'_>, salt: u64) -> u64 {
        let text = format!(
            "{}\0{}\0{}\0",
            subject.domain,
            subject.target.as_str(),
            subject.owner
        );
        let bytes = [text.as_bytes(), &salt.to_le_bytes()].concat();
        // Reading from memory does not fail.
        let hash = murmur3::murmur3_x64_128(&mut bytes.as_slice(), 0).unwrap_or_default();
        let number = hash % u128::from(self.space.length().count());
        u64::try_from(number).unwrap_or_default()
    }

    fn may_be_taken(&self, subject: &Subject<'_>, number: u64) -> bool {
        let Some(membership) = &self.membership else {
            return false;
        };
        // The minter refuses a number without a code.
        self.space.mint(number).is_ok_and(|code| {
            let key = LinkKey::new(subject.domain.clone(), code);
            membership.may_contain(&key)
        })
    }
}

#[async_trait]
impl NumberSource for Digest {
    /// Without a link there is nothing to digest, so the number is random.
    async fn next_number(&self) -> Result<u64, IssueError> {
        Ok(salt()? % self.space.length().count())
    }

    async fn number_for(&self, subject: &Subject<'_>) -> Result<u64, IssueError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(IssueError::Closed);
        }
        let mut number = match subject.attempt {
            0 => self.number(subject, 0),
            _ => self.number(subject, salt()?),
        };
        for _ in 1..MAX_SALTS {
            if !self.may_be_taken(subject, number) {
                break;
            }
            number = self.number(subject, salt()?);
        }
        Ok(number)
    }

    async fn shutdown(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

fn salt() -> Result<u64, IssueError> {
    getrandom::u64().map_err(|error| {
        let reason = format!("the system has no random numbers: {error}");
        IssueError::transient("digest", reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::target::TargetUrl;
    use edgelink_wire::{CodeLength, Domain};
    use std::collections::HashSet;

    struct Known(HashSet<LinkKey>);

    impl Membership for Known {
        fn may_contain(&self, key: &LinkKey) -> bool {
            self.0.contains(key)
        }
    }

    struct Link {
        domain: Domain,
        target: TargetUrl,
        owner: &'static str,
    }

    impl Link {
        fn new(domain: &str, target: &str, owner: &'static str) -> Self {
            Self {
                domain: domain.parse().unwrap(),
                target: TargetUrl::from_store(target),
                owner,
            }
        }

        fn attempt(&self, attempt: u32) -> Subject<'_> {
            Subject {
                domain: &self.domain,
                target: &self.target,
                owner: self.owner,
                attempt,
            }
        }
    }

    fn space() -> CodeSpace {
        CodeSpace::new(CodeLength::DEFAULT, None)
    }

    async fn number(digest: &Digest, link: &Link, attempt: u32) -> u64 {
        digest.number_for(&link.attempt(attempt)).await.unwrap()
    }

    #[tokio::test]
    async fn digest_when_link_is_equal_yields_the_same_number() {
        let link = Link::new("a.example", "https://example.com/", "k1");
        let first = number(&Digest::new(space(), None), &link, 0).await;
        assert_eq!(first, number(&Digest::new(space(), None), &link, 0).await);
        for other in [
            Link::new("b.example", "https://example.com/", "k1"),
            Link::new("a.example", "https://example.com/x", "k1"),
            Link::new("a.example", "https://example.com/", "k2"),
        ] {
            assert_ne!(first, number(&Digest::new(space(), None), &other, 0).await);
        }
    }

    #[tokio::test]
    // As computed by another implementation, Python's mmh3.
    async fn digest_when_computed_elsewhere_yields_the_same_code() {
        let link = Link::new("a.example", "https://example.com/", "k1");
        let number = number(&Digest::new(space(), None), &link, 0).await;
        assert_eq!(space().mint(number).unwrap().as_str(), "SHMGWET");
    }

    #[tokio::test]
    async fn digest_when_retried_yields_another_number() {
        let link = Link::new("a.example", "https://example.com/", "k1");
        let digest = Digest::new(space(), None);
        let mut seen = HashSet::new();
        for attempt in [0, 1, 1, 1, 2, 2] {
            assert!(seen.insert(number(&digest, &link, attempt).await));
        }
    }

    #[tokio::test]
    async fn digest_when_filter_knows_the_code_passes_it_over() {
        let link = Link::new("a.example", "https://example.com/", "k1");
        let taken = number(&Digest::new(space(), None), &link, 0).await;
        let key = LinkKey::new(link.domain.clone(), space().mint(taken).unwrap());
        let known = Known(HashSet::from([key]));
        let digest = Digest::new(space(), Some(Arc::new(known)));
        assert_ne!(taken, number(&digest, &link, 0).await);
    }

    struct Everything;

    impl Membership for Everything {
        fn may_contain(&self, _: &LinkKey) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn digest_when_filter_knows_all_codes_still_issues() {
        let link = Link::new("a.example", "https://example.com/", "k1");
        let digest = Digest::new(space(), Some(Arc::new(Everything)));
        assert!(number(&digest, &link, 0).await < space().length().count());
    }

    #[tokio::test]
    async fn digest_when_shut_down_issues_no_number() {
        let link = Link::new("a.example", "https://example.com/", "k1");
        let digest = Digest::new(space(), None);
        digest.shutdown().await;
        let error = digest.number_for(&link.attempt(0)).await.unwrap_err();
        assert!(matches!(error, IssueError::Closed));
    }
}
