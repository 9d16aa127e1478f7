//! Errors of logins with the provider.

/// The error of a login with the provider.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The provider does not answer, or not according to the protocol.
    #[error("the provider (oidc.issuer) cannot be used: {0}")]
    Unavailable(String),
    /// The provider refuses the code.
    #[error("the provider refuses the code: {0}")]
    Refused(String),
    /// The provider's answer does not prove the identity.
    #[error("the answer of the provider is not valid: {0}")]
    Invalid(String),
}
