//! Rules as in the API and the store, and their bounds.

use super::words::ConditionType;
use serde::{Deserialize, Serialize};

/// The most rules of a link.
pub const MAX_RULES: usize = 32;

/// The most conditions of a rule.
pub const MAX_CONDITIONS: usize = 8;

/// The longest `matchKey` or `matchValue`, in bytes.
pub const MAX_TEXT_LENGTH: usize = 255;

/// The most bytes of all encoded rules of a link: about the length of the targets, and a few bytes more per condition.
pub const MAX_ENCODED_LENGTH: usize = 16_000;

/// Number of leading bytes of a header that are examined: a client may send any amount.
pub const MAX_HEADER_BYTES: usize = 1_024;

/// Number of leading bytes of a query that are examined.
pub const MAX_QUERY_BYTES: usize = 4_096;

/// A conditional target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The target: visible ASCII.
    #[serde(rename = "longUrl")]
    pub target: String,
    /// All of them must hold.
    pub conditions: Vec<Condition>,
}

/// A condition as in the API and the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// The name of the parameter, of conditions about the query; `None` for all others.
    pub match_key: Option<String>,
    /// The required value; `None` for types without one.
    pub match_value: Option<String>,
}
