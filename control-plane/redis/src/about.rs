//! Information from the Redis servers about themselves.

use super::error::RedisError;
use super::{Redis, measured};
use fred::clients::{Client, WithOptions};
use fred::interfaces::{ClientLike, ClusterInterface};
use fred::types::{CustomCommand, Value};
use std::time::Duration;
use tokio::time::timeout;

/// The answer of a server to `INFO`.
pub struct ServerInfo(String);

impl ServerInfo {
    /// A field, without the name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let values = self.0.lines().map(str::trim_end);
        let mut fields = values.filter_map(|line| line.split_once(':'));
        fields
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    }
}

impl Redis {
    /// Waits up to `limit` for the connection for commands. True if it is established.
    pub async fn await_connection(&self, limit: Duration) -> bool {
        matches!(
            timeout(limit, self.commands.wait_for_connect()).await,
            Ok(Ok(()))
        )
    }

    /// `INFO` of the server, or of each master of a cluster.
    pub async fn servers(&self) -> Result<Vec<ServerInfo>, RedisError> {
        let mut servers = Vec::new();
        for client in self.masters() {
            servers.push(info(&client).await?);
        }
        Ok(servers)
    }

    /// The clock of the server, or of each master of a cluster: unix time in microseconds.
    pub async fn clocks(&self) -> Result<Vec<u64>, RedisError> {
        let mut clocks = Vec::new();
        for client in self.masters() {
            let command = CustomCommand::new_static("TIME", None::<u16>, false);
            let call = client.custom::<(u64, u64), Value>(command, Vec::new());
            let (seconds, micros) = measured("time", call).await?;
            clocks.push(seconds * 1_000_000 + micros);
        }
        Ok(clocks)
    }

    /// A client of the server, or one for each known master of the cluster.
    pub(super) fn masters(&self) -> Vec<WithOptions<Client>> {
        if !self.is_clustered() {
            return vec![self.in_background()];
        }
        let cached = self.commands.cached_cluster_state();
        let servers = cached.map_or_else(Vec::new, |state| state.unique_primary_nodes());
        let client = |server| {
            let mut options = self.in_background().options().clone();
            options.cluster_node = Some(server);
            self.commands.with_options(&options)
        };
        servers.into_iter().map(client).collect()
    }
}

/// `INFO` of a server.
pub(super) async fn info(client: &WithOptions<Client>) -> Result<ServerInfo, RedisError> {
    let command = CustomCommand::new_static("INFO", None::<u16>, false);
    let call = client.custom::<String, Value>(command, Vec::new());
    measured("info", call).await.map(ServerInfo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_field_when_named_in_part_is_not_found() {
        let info = ServerInfo("# Server\r\nredis_version:7.0.15\r\nrole:master\r\n".to_owned());
        assert_eq!(info.field("redis_version"), Some("7.0.15"));
        assert_eq!(info.field("role"), Some("master"));
        assert_eq!(info.field("version"), None);
    }
}
