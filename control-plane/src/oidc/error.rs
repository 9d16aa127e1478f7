//! Why a login by the provider fails.

/// Why a login by the provider does not come about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OidcError {
    /// The provider does not answer, or not as one.
    #[error("the provider (oidc.issuer) cannot be used: {0}")]
    Unavailable(String),
    /// The provider does not take the code.
    #[error("the provider refuses the code: {0}")]
    Refused(String),
    /// What the provider has answered does not prove who has logged in.
    #[error("the answer of the provider is not valid: {0}")]
    Invalid(String),
}
