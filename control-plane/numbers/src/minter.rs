//! Numbers and their codes.

use super::source::{IssueError, NumberSource, Subject};
use edgelink_wire::code::MintError;
use edgelink_wire::{Code, CodeSpace};
use std::sync::Arc;

/// A number that was issued, and its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The number, which becomes the link's primary key.
    pub number: u64,
    /// The code of the number.
    pub code: Code,
}

/// Turns the numbers of a source into codes.
#[derive(Clone)]
pub struct Minter {
    source: Arc<dyn NumberSource>,
    space: CodeSpace,
}

impl Minter {
    /// Mints the codes of `space` from the numbers of `source`.
    #[must_use]
    pub fn new(source: Arc<dyn NumberSource>, space: CodeSpace) -> Self {
        Self { source, space }
    }

    /// The next number and its code, for this link. Numbers whose code is a reserved word are skipped.
    ///
    /// # Errors
    /// An [`IssueError`] if the source has no number, or the number no code.
    pub async fn mint(&self, subject: &Subject<'_>) -> Result<Minted, IssueError> {
        let mut subject = *subject;
        loop {
            let number = self.source.number_for(&subject).await?;
            subject.attempt += 1;
            match self.space.mint(number) {
                Ok(code) => return Ok(Minted { number, code }),
                Err(MintError::Reserved(_)) => {}
                Err(MintError::Exhausted { length, .. }) => {
                    return Err(IssueError::Exhausted { length });
                }
            }
        }
    }

    /// The number of a code; `None` if it does not have the form of a generated one.
    #[must_use]
    pub fn number_of(&self, code: &Code) -> Option<u64> {
        self.space.number(code.as_str().as_bytes())
    }

    /// Stops the source; unused numbers are kept for others.
    pub async fn shutdown(&self) {
        self.source.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use edgelink_wire::CodeLength;
    use edgelink_wire::target::TargetUrl;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct From(AtomicU64);

    #[async_trait]
    impl NumberSource for From {
        async fn next_number(&self) -> Result<u64, IssueError> {
            Ok(self.0.fetch_add(1, Ordering::Relaxed))
        }

        async fn shutdown(&self) {}
    }

    async fn mint(minter: &Minter) -> Result<Minted, IssueError> {
        let subject = Subject {
            domain: &"a.example".parse().unwrap(),
            target: &TargetUrl::from_store("https://example.com/"),
            owner: "",
            attempt: 0,
        };
        minter.mint(&subject).await
    }

    fn minter(first: u64) -> Minter {
        let space = CodeSpace::new(CodeLength::DEFAULT, None);
        Minter::new(Arc::new(From(AtomicU64::new(first))), space)
    }

    #[tokio::test]
    async fn number_when_its_code_is_reserved_is_skipped() {
        let space = CodeSpace::new(CodeLength::DEFAULT, None);
        let reserved = space.number(b"metrics").unwrap();
        let minted = mint(&minter(reserved)).await.unwrap();
        assert_eq!(minted.number, reserved + 1);
        assert_eq!(minted.code.as_str(), "metrict");
    }

    #[tokio::test]
    async fn minter_when_codes_are_exhausted_names_the_length() {
        let minter = minter(CodeLength::DEFAULT.count());
        let error = mint(&minter).await.unwrap_err();
        assert!(matches!(error, IssueError::Exhausted { length: 7 }));
        assert!(!error.is_transient());
    }
}
