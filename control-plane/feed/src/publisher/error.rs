//! Errors of publishing.

use edgelink_redis::RedisError;
use edgelink_store::StoreError;

/// The error of a round of the publisher.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Redis failed.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Another installation publishes to this Redis.
    #[error(
        "Redis is used by another installation ({0}): give each its own redis.url. If no other one uses it, and the database \
         was restored from before it had a name: DEL {{feed}}:state"
    )]
    Foreign(String),
    /// The database went back again within the pause after a repair.
    #[error(
        "the database went back a second time within 10 s: does a copy of it publish to this Redis? It is repaired after that"
    )]
    WentBackAgain,
    /// Not a failure: the generation or the publisher has changed, and the round is repeated.
    #[error("the generation or the publisher has changed")]
    Restart,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_when_redis_is_of_another_installation_has_advice() {
        let error = PublishError::Foreign("theirs".to_owned()).to_string();
        assert!(
            error.contains("(theirs)") && error.contains("DEL {feed}:state"),
            "{error}"
        );
    }
}
