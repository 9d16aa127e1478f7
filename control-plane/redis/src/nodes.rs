//! Identity of the processes that make up Redis: a new one may lack writes of the old one.

use super::about::info;
use super::error::RedisError;
use super::{Redis, measured};
use edgelink_wire::redis::FEED_STREAM;
use fred::clients::{Client, WithOptions};
use fred::interfaces::{ClientLike, ClusterInterface};
use fred::types::{CustomCommand, Value};
use fred::util::redis_keyslot;
use std::collections::BTreeSet;

const MALFORMED: RedisError = RedisError::Malformed("which nodes there are");

impl Redis {
    /// A text that changes whenever a master is replaced or restarted, and so may have lost acknowledged writes.
    pub async fn nodes(&self) -> Result<String, RedisError> {
        if !self.commands.is_clustered() {
            return process(&self.in_background()).await;
        }
        let members = self.members().await?;
        let names = self.processes(members).await;
        if names.is_err() {
            // The client may still take a demoted replica for a master, which answers all the same and does not name its successor.
            measured("sync_cluster", self.commands.sync_cluster()).await?;
        }
        names
    }

    /// Combines the names of the members with the processes of the masters that the client knows.
    async fn processes(&self, members: BTreeSet<String>) -> Result<String, RedisError> {
        let masters = self.masters();
        if masters.len() != members.len() {
            return Err(MALFORMED);
        }
        let mut names = members;
        for master in masters {
            names.insert(process(&master).await?);
        }
        Ok(names.into_iter().collect::<Vec<_>>().join(" "))
    }

    /// The names of the masters, as known to the master of the feed: a majority of them announces a failover to it.
    async fn members(&self) -> Result<BTreeSet<String>, RedisError> {
        let slot = redis_keyslot(FEED_STREAM.as_bytes());
        let command = CustomCommand::new_static("CLUSTER", Some(slot), false);
        let client = self.in_background();
        let call = client.custom::<Value, _>(command, vec!["SLOTS"]);
        let Value::Array(ranges) = measured("members", call).await? else {
            return Err(MALFORMED);
        };
        ranges.into_iter().map(master).collect()
    }
}

/// The process of a master: its `run_id` is new with every start, and its `master_replid` with every promotion.
async fn process(client: &WithOptions<Client>) -> Result<String, RedisError> {
    let info = info(client).await?;
    let field = |name| info.field(name);
    match (field("role"), field("run_id"), field("master_replid")) {
        (Some("master"), Some(run), Some(promotion)) => Ok(format!("{run}:{promotion}")),
        _ => Err(MALFORMED),
    }
}

/// The name of the master of a range of slots: `[first, last, [address, port, name, ...], replicas...]`.
fn master(range: Value) -> Result<String, RedisError> {
    let third = |value: Value| match value {
        Value::Array(values) => values.into_iter().nth(2),
        _ => None,
    };
    let name = third(range).and_then(third);
    name.and_then(Value::into_string).ok_or(MALFORMED)
}
