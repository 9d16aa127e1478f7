//! Which processes Redis consists of: another one may lack what the last one had.

use super::{Redis, RedisError, measured};
use edgelink_wire::redis::FEED_STREAM;
use fred::interfaces::{ClientLike, ClusterInterface};
use fred::types::config::Server;
use fred::types::{CustomCommand, Value};
use fred::util::redis_keyslot;
use std::collections::BTreeSet;

const MALFORMED: RedisError = RedisError::Malformed("which nodes there are");

impl Redis {
    /// A text that changes whenever one of the masters is replaced by another process, or starts again, and with it may have
    /// lost writes that it had acknowledged.
    ///
    /// # Errors
    /// If a master does not answer, or is none any more.
    pub async fn nodes(&self) -> Result<String, RedisError> {
        if !self.commands.is_clustered() {
            let options = self.in_background();
            return self.process(&self.commands.with_options(&options)).await;
        }
        let members = self.members().await?;
        let cached = self.commands.cached_cluster_state();
        let servers = cached.map_or_else(Vec::new, |state| state.unique_primary_nodes());
        if servers.len() != members.len() {
            measured("sync_cluster", self.commands.sync_cluster()).await?;
            return Err(MALFORMED);
        }
        let mut names = members;
        for server in servers {
            names.insert(self.process_of(server).await?);
        }
        Ok(names.into_iter().collect::<Vec<_>>().join(" "))
    }

    /// The names of the masters by the master that has the feed, which hears of a failover from a majority of them.
    async fn members(&self) -> Result<BTreeSet<String>, RedisError> {
        let slot = redis_keyslot(FEED_STREAM.as_bytes());
        let command = CustomCommand::new_static("CLUSTER", Some(slot), false);
        let client = self.commands.with_options(&self.in_background());
        let call = client.custom::<Value, _>(command, vec!["SLOTS"]);
        let Value::Array(ranges) = measured("members", call).await? else {
            return Err(MALFORMED);
        };
        ranges.into_iter().map(master).collect()
    }

    async fn process_of(&self, server: Server) -> Result<String, RedisError> {
        let mut options = self.in_background();
        options.cluster_node = Some(server);
        self.process(&self.commands.with_options(&options)).await
    }

    /// The process of a master: its `run_id` is new with every start, and its `master_replid` with every promotion.
    async fn process<C: ClientLike>(&self, client: &C) -> Result<String, RedisError> {
        let command = CustomCommand::new_static("INFO", None::<u16>, false);
        let call = client.custom::<String, Value>(command, Vec::new());
        let info = measured("info", call).await?;
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name));
            value.map(str::trim_end)
        };
        match (field("role:"), field("run_id:"), field("master_replid:")) {
            (Some("master"), Some(run), Some(promotion)) => Ok(format!("{run}:{promotion}")),
            _ => Err(MALFORMED),
        }
    }
}

/// The name of the master of a range of slots: `[first, last, [address, port, name, ...], replicas...]`.
fn master(range: Value) -> Result<String, RedisError> {
    let Value::Array(parts) = range else {
        return Err(MALFORMED);
    };
    let Some(Value::Array(node)) = parts.into_iter().nth(2) else {
        return Err(MALFORMED);
    };
    let name = node.into_iter().nth(2).and_then(|name| name.into_string());
    name.ok_or(MALFORMED)
}
