//! What a number is for.

use crate::target::TargetUrl;
use edgelink_wire::Domain;

/// The link that a number is for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Where the link will live.
    pub domain: &'a Domain,
    /// Where it will go.
    pub target: &'a TargetUrl,
    /// Who creates it: the id of an API key, or empty.
    pub owner: &'a str,
    /// How many numbers were refused for this link before: their codes were taken.
    pub attempt: u32,
}
