//! Ranges of numbers from one znode of ZooKeeper, advanced by compare-and-set.
//!
//! The znode holds the first number that is not drawn, in decimal digits. The client that replaces it by a greater one,
//! under the version that it has read, owns the numbers in between. Nothing depends on the session: a process that was
//! stopped for an hour continues with its range, which no other process gets.

use super::ranges::{BACKOFF, MAX_WAIT, NumberRange, RangeIssuer, RangeSource};
use super::source::{IssueError, NumberSource};
use async_trait::async_trait;
use edgelink_settings::config::ZookeeperAuth;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, Error};

/// The source's name in the configuration.
const NAME: &str = "zookeeper";

/// The most attempts of a draw when others draw at the same time.
const MAX_TRIES: usize = 16;

/// Options for ZooKeeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZookeeperOptions {
    /// The servers as ZooKeeper's own clients take them: `host:port,host:port/chroot`.
    pub servers: String,
    /// The znode. It is created if it is missing and `first` is given.
    pub path: String,
    /// The numbers of a range. Default 100,000.
    pub range: u32,
    /// The first number of a new znode. If `None`, a missing znode is an error: numbers were issued before, and only
    /// operators know how far.
    pub first: Option<u64>,
    /// The identity to ZooKeeper. Znodes that we create belong to it alone, without one to every client.
    pub auth: Option<ZookeeperAuth>,
    /// Longest time of a draw, connecting included. Default 1.4 s: less than a creation waits for a number.
    pub timeout: Duration,
}

impl ZookeeperOptions {
    /// The defaults for these servers.
    #[must_use]
    pub fn new(servers: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            path: "/edgelink/next".to_owned(),
            range: 100_000,
            first: Some(0),
            auth: None,
            timeout: Duration::from_millis(1400),
        }
    }
}

/// Starts to issue numbers from ZooKeeper, which is connected on the first request.
#[must_use]
pub fn zookeeper(options: ZookeeperOptions) -> Arc<dyn NumberSource> {
    let client = Mutex::new(None);
    RangeIssuer::start(NAME, Znode { options, client }, MAX_WAIT, BACKOFF)
}

struct Znode {
    options: ZookeeperOptions,
    client: Mutex<Option<Client>>,
}

/// The outcome of an attempt to replace the number of the znode.
enum Swap {
    /// The number was replaced.
    Done { before: u64 },
    /// The caller refused to replace the current number.
    Refused,
    /// Another client was faster.
    Raced,
}

impl Znode {
    /// Replaces the number by `change` of it, within the timeout, and returns the one before; `None` if `change` is
    /// `None`.
    async fn swap(
        &self,
        change: impl Fn(u64) -> Option<u64> + Sync,
    ) -> Result<Option<u64>, IssueError> {
        let timeout = self.options.timeout;
        let swapped = tokio::time::timeout(timeout, self.swap_unbounded(change)).await;
        swapped.unwrap_or_else(|_| {
            let reason = format!("no answer within {} ms", timeout.as_millis());
            Err(IssueError::transient(NAME, reason))
        })
    }

    /// Does the work of [`Znode::swap`] without a timeout.
    async fn swap_unbounded(
        &self,
        change: impl Fn(u64) -> Option<u64> + Sync,
    ) -> Result<Option<u64>, IssueError> {
        for _ in 0..MAX_TRIES {
            let client = self.connected().await?;
            match self.try_swap(&client, &change).await? {
                Swap::Done { before } => return Ok(Some(before)),
                Swap::Refused => return Ok(None),
                // A server may lag behind the one that refused; without the sync, the old value could be read again. A failure
                // shows with the next attempt.
                Swap::Raced => drop(client.sync(&self.options.path).await),
            }
        }
        let reason = format!("others were faster {MAX_TRIES} times");
        Err(IssueError::transient(NAME, reason))
    }

    async fn try_swap(
        &self,
        client: &Client,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Result<Swap, IssueError> {
        let path = &self.options.path;
        let (data, stat) = match client.get_data(path).await {
            Err(Error::NoNode) => return self.create(client).await,
            read => read?,
        };
        let before = parse(&data)?;
        let Some(after) = change(before) else {
            return Ok(Swap::Refused);
        };
        let after = after.to_string();
        match client
            .set_data(path, after.as_bytes(), Some(stat.version))
            .await
        {
            Err(Error::BadVersion) => Ok(Swap::Raced),
            set => Ok(set.map(|_| Swap::Done { before })?),
        }
    }

    /// Creates the znode, so that the next attempt finds it.
    async fn create(&self, client: &Client) -> Result<Swap, IssueError> {
        let path = &self.options.path;
        let first = self.options.first.ok_or_else(|| {
            let reason = format!(
                "the znode {path} is missing although numbers were issued before: create it with a number above all of them"
            );
            IssueError::permanent(NAME, reason)
        })?;
        let acls = match &self.options.auth {
            Some(_) => Acls::creator_all(),
            None => Acls::anyone_all(),
        };
        let options = CreateMode::Persistent.with_acls(acls);
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if !parent.is_empty() {
            client.mkdir(parent, &options).await?;
        }
        let first = first.to_string();
        match client.create(path, first.as_bytes(), &options).await {
            Err(Error::NodeExists) => Ok(Swap::Raced),
            created => Ok(created.map(|_| Swap::Raced)?),
        }
    }

    /// A client with a session. An ended session never comes back, and another one is opened.
    async fn connected(&self) -> Result<Client, IssueError> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref()
            && !client.state().is_terminated()
        {
            return Ok(client.clone());
        }
        let mut connector = Client::connector().with_fail_eagerly();
        if let Some(auth) = &self.options.auth {
            connector = connector.with_auth(&auth.scheme, auth.credentials.as_bytes());
        }
        let new = connector.connect(&self.options.servers).await?;
        *client = Some(new.clone());
        Ok(new)
    }
}

#[async_trait]
impl RangeSource for Znode {
    async fn draw(&self) -> Result<NumberRange, IssueError> {
        let range = u64::from(self.options.range);
        let drawn = self.swap(|start| start.checked_add(range)).await?;
        let start = drawn
            .ok_or_else(|| IssueError::permanent(NAME, "the znode is at the end of all numbers"))?;
        Ok(NumberRange::consecutive(start, start + range))
    }

    async fn give_back(&self, rest: NumberRange) -> Result<bool, IssueError> {
        let to_start = |next| (next == rest.end).then_some(rest.start);
        Ok(self.swap(to_start).await?.is_some())
    }
}

impl From<Error> for IssueError {
    fn from(error: Error) -> Self {
        let reason = error.to_string();
        match error {
            Error::NoAuth | Error::AuthFailed | Error::BadArguments(_) | Error::QuotaExceeded => {
                Self::permanent(NAME, reason)
            }
            _ => Self::transient(NAME, reason),
        }
    }
}

fn parse(data: &[u8]) -> Result<u64, IssueError> {
    let text = std::str::from_utf8(data).ok().map(str::trim);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let reason = format!("the znode holds no number but '{}'", data.escape_ascii());
        IssueError::permanent(NAME, reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_when_not_all_decimal_digits_is_refused() {
        assert_eq!(parse(b"0").unwrap(), 0);
        assert_eq!(parse(b"18446744073709551615\n").unwrap(), u64::MAX);
        for data in [
            &b""[..],
            b"-1",
            b"1e3",
            b"0x10",
            b"18446744073709551616",
            b"\xff",
        ] {
            assert!(parse(data).is_err(), "{data:?}");
        }
    }
}
