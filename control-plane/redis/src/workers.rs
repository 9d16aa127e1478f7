//! Reports of workers between replicas, and the replicas that are alive.

use super::connect::{MessageReceiver, WORKERS};
use super::error::RedisError;
use super::scripts::{SHARE, ScriptCall};
use super::{Redis, measured};
use bytes::Bytes;
use std::time::Duration;

/// The key of the sorted set of replicas, by the time of their last report.
const REPLICAS: &str = "edgelink:replicas";

impl Redis {
    /// Publishes a report to all replicas, notes that the replica is alive for that long, and returns the names of all
    /// that are. Names of another form are left out.
    pub async fn share(
        &self,
        name: &[u8; 16],
        lease: Duration,
        report: Vec<u8>,
    ) -> Result<Vec<[u8; 16]>, RedisError> {
        let lease = lease.as_millis().to_string();
        self.report(name, lease, report).await
    }

    /// Publishes the last report of a replica that ends, which is listed no longer.
    pub async fn leave(&self, name: &[u8; 16], report: Vec<u8>) -> Result<(), RedisError> {
        self.report(name, String::new(), report).await.map(drop)
    }

    async fn report(
        &self,
        name: &[u8; 16],
        lease: String,
        report: Vec<u8>,
    ) -> Result<Vec<[u8; 16]>, RedisError> {
        let run = ScriptCall {
            keys: vec![REPLICAS.to_owned()],
            arguments: vec![
                Bytes::copy_from_slice(name).into(),
                lease.into(),
                WORKERS.into(),
                Bytes::from(report).into(),
            ],
        };
        let client = self.for_reports();
        let names = measured("share", SHARE.run(&client, &run)).await?;
        let names: Vec<Bytes> = names
            .convert()
            .map_err(|_| RedisError::Malformed("the list of replicas"))?;
        let names = names.iter().filter_map(|name| name[..].try_into().ok());
        Ok(names.collect())
    }

    /// The reports of all replicas from now on.
    #[must_use]
    pub fn shared(&self) -> MessageReceiver {
        self.messages(WORKERS)
    }
}
