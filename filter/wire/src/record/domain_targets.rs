//! Targets of a domain, for requests without a link that redirects: a part of the record of a domain.

use crate::error::RecordError;
use crate::target::is_target;
use crate::varint;

/// The longest target of a domain, in bytes.
pub const MAX_DOMAIN_TARGET_LENGTH: usize = 2048;

/// Targets of a domain, for requests without a link that redirects. `T` is a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DomainTargets<T> {
    /// Target for `/`; `None` if the domain has nothing there.
    pub root: Option<T>,
    /// Target for links that do not exist or are not valid yet; `None` for 404.
    pub not_found: Option<T>,
    /// Target for links that are disabled or expired; `None` for 410.
    pub expired: Option<T>,
}

impl<T> DomainTargets<T> {
    /// Converts each target with `form`.
    pub fn map<'t, U>(&'t self, form: impl Fn(&'t T) -> U) -> DomainTargets<U> {
        DomainTargets {
            root: self.root.as_ref().map(&form),
            not_found: self.not_found.as_ref().map(&form),
            expired: self.expired.as_ref().map(&form),
        }
    }
}

impl<'a> DomainTargets<&'a str> {
    /// The encoding: each target behind its length, which is 0 if there is none.
    #[must_use]
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        for target in [self.root, self.not_found, self.expired] {
            varint::write_bytes(target.unwrap_or_default().as_bytes(), &mut out);
        }
        out
    }

    /// Reads targets that take up all of `bytes`.
    ///
    /// # Errors
    /// The [`RecordError`] that says what is wrong.
    pub(crate) fn decode(mut bytes: &'a [u8]) -> Result<Self, RecordError> {
        let input = &mut bytes;
        let targets = Self {
            root: target(input)?,
            not_found: target(input)?,
            expired: target(input)?,
        };
        varint::expect_end(input)?;
        Ok(targets)
    }
}

fn target<'a>(input: &mut &'a [u8]) -> Result<Option<&'a str>, RecordError> {
    let text = varint::read_text(input, "target")?;
    match text {
        "" => Ok(None),
        text if text.len() <= MAX_DOMAIN_TARGET_LENGTH && is_target(text.as_bytes()) => {
            Ok(Some(text))
        }
        _ => Err(RecordError::Url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: DomainTargets<&str> = DomainTargets {
        root: Some("https://brand.example/"),
        not_found: None,
        expired: Some("https://brand.example/over"),
    };

    #[test]
    fn domain_targets_when_malformed_are_refused() {
        let bytes = TARGETS.to_bytes();
        assert_eq!(DomainTargets::decode(&bytes), Ok(TARGETS));
        for end in 0..bytes.len() {
            assert!(DomainTargets::decode(&bytes[..end]).is_err(), "{end}");
        }
        let long = "x".repeat(MAX_DOMAIN_TARGET_LENGTH + 1);
        for root in [long.as_str(), "a b"] {
            let targets = DomainTargets {
                root: Some(root),
                ..TARGETS
            };
            assert!(DomainTargets::decode(&targets.to_bytes()).is_err());
        }
        assert!(DomainTargets::decode(&[&bytes[..], b"x"].concat()).is_err());
    }
}
