//! Rules as they are written, and their bounds.

use super::words::ConditionType;
use serde::{Deserialize, Serialize};

/// The most rules of a link.
pub const MAX_RULES: usize = 32;

/// The most conditions of a rule.
pub const MAX_CONDITIONS: usize = 8;

/// The longest `matchKey` or `matchValue`, in bytes.
pub const MAX_TEXT_LENGTH: usize = 255;

/// The most bytes of all rules of a link, encoded: about those of the targets, and a few more for each condition.
pub const MAX_ENCODED_LENGTH: usize = 16_000;

/// So many bytes of a header are looked at, from its beginning: a visitor may send more than is reasonable.
pub const MAX_HEADER_BYTES: usize = 1_024;

/// So many bytes of a query are looked at, from its beginning.
pub const MAX_QUERY_BYTES: usize = 4_096;

/// A conditional target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Where the rule leads: visible ASCII.
    #[serde(rename = "longUrl")]
    pub target: String,
    /// All of them must hold.
    pub conditions: Vec<Condition>,
}

/// A condition as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it looks at.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// The name of the parameter, of conditions about the query; `None` for all others.
    pub match_key: Option<String>,
    /// What it has to be; `None` where any value will do, or none.
    pub match_value: Option<String>,
}
