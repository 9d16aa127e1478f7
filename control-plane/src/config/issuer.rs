//! Where numbers come from.

use super::error::Checks;
use serde::Deserialize;

/// Where numbers come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IssuerConfig {
    /// How many numbers are drawn from the database at once, 1 to 1,000,000. Default 1,000. More means fewer round trips,
    /// and more numbers lost when the process is killed.
    pub step: u32,
}

impl Default for IssuerConfig {
    fn default() -> Self {
        Self { step: 1_000 }
    }
}

impl IssuerConfig {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range("issuer.step", self.step, &(1..=1_000_000));
    }
}
