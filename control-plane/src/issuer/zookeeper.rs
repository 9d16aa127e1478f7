//! Ranges of numbers out of one znode of ZooKeeper, moved on by compare-and-set.
//!
//! The znode holds the first number that nobody has drawn, in decimal digits. Who writes a greater one over it, with the
//! version that it has read, owns the numbers in between. Nothing depends on the session: a process that was stopped for
//! an hour goes on with the range that it has, for nobody else ever gets it.

use super::ranges::{RangeIssuer, RangeSource};
use super::{IssueError, NumberSource};
use async_trait::async_trait;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, Error};

const NAME: &str = "zookeeper";

/// How often a draw is tried when others draw at the same time.
const MAX_TRIES: usize = 16;

/// How ZooKeeper is reached and used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZookeeperOptions {
    /// The servers as ZooKeeper's own clients take them: `host:port,host:port/chroot`.
    pub servers: String,
    /// The znode. It is made when it is missing and `first` is given.
    pub path: String,
    /// How many numbers one range has. Default 100,000.
    pub range: u32,
    /// The number that a znode which is missing starts with. With none, a missing znode is an error: numbers were issued
    /// before, and only people know how far.
    pub first: Option<u64>,
    /// Who we are to ZooKeeper. The znodes that we make belong to that identity alone, with none to every client.
    pub auth: Option<ZookeeperAuth>,
    /// How long one draw may take, with connecting. Default 1.4 s: below what a creation may wait for a number.
    pub timeout: Duration,
}

/// An identity by one of ZooKeeper's schemes (ZooKeeper Programmer's Guide, "Builtin ACL Schemes").
#[derive(Clone, PartialEq, Eq)]
pub struct ZookeeperAuth {
    scheme: String,
    credentials: String,
}

impl ZookeeperAuth {
    /// Takes `scheme:credentials`, for example `digest:user:password`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, credentials) = text.split_once(':')?;
        let is_scheme =
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (is_scheme && !credentials.is_empty()).then(|| Self {
            scheme: scheme.to_owned(),
            credentials: credentials.to_owned(),
        })
    }
}

impl fmt::Debug for ZookeeperAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZookeeperAuth({})", self.scheme)
    }
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

/// Starts to issue numbers out of ZooKeeper; it is reached when the first number is asked for.
#[must_use]
pub fn zookeeper(options: ZookeeperOptions) -> Arc<dyn NumberSource> {
    let znode = Znode {
        options,
        client: Mutex::new(None),
    };
    Arc::new(RangeIssuer::new(NAME, znode))
}

struct Znode {
    options: ZookeeperOptions,
    client: Mutex<Option<Client>>,
}

/// Why a try had no effect, or none that is known.
enum Miss {
    /// Somebody else was faster.
    Raced,
    /// ZooKeeper failed.
    Failed(Error),
    /// The znode holds no number that we could go on from.
    Content(String),
}

impl From<Error> for Miss {
    fn from(error: Error) -> Self {
        match error {
            Error::BadVersion | Error::NodeExists => Self::Raced,
            error => Self::Failed(error),
        }
    }
}

impl Znode {
    /// Runs `attempt` with a connected client until it is not raced, within the time that a draw may take.
    async fn with_client<T, F>(&self, attempt: impl Fn(Client) -> F) -> Result<T, IssueError>
    where
        F: Future<Output = Result<T, Miss>>,
    {
        let work = async {
            for _ in 0..MAX_TRIES {
                let client = self.connected().await.map_err(|error| failed(&error))?;
                match attempt(client.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(Miss::Raced) => self.catch_up(&client).await,
                    Err(Miss::Failed(error)) => {
                        self.forget_dead(&client).await;
                        return Err(failed(&error));
                    }
                    Err(Miss::Content(reason)) => return Err(unusable(reason)),
                }
            }
            Err(transient(format!("others were faster {MAX_TRIES} times")))
        };
        let timeout = self.options.timeout;
        tokio::time::timeout(timeout, work)
            .await
            .unwrap_or_else(|_| {
                Err(transient(format!(
                    "no answer within {} ms",
                    timeout.as_millis()
                )))
            })
    }

    async fn connected(&self) -> Result<Client, Error> {
        let mut client = self.client.lock().await;
        if let Some(client) = client
            .as_ref()
            .filter(|client| !client.state().is_terminated())
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

    /// A session that has ended never comes back; the next draw opens another.
    async fn forget_dead(&self, dead: &Client) {
        if dead.state().is_terminated() {
            *self.client.lock().await = None;
        }
    }

    /// A server may lag behind the one that has refused us; without this, the same old value could be read again.
    async fn catch_up(&self, client: &Client) {
        let _ = client.sync(&self.options.path).await; // a failure shows at the next try
    }

    async fn read(&self, client: &Client) -> Result<(u64, i32), Miss> {
        match client.get_data(&self.options.path).await {
            Ok((data, stat)) => Ok((parse(&data).map_err(Miss::Content)?, stat.version)),
            Err(Error::NoNode) => Ok((self.create(client).await?, 0)),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, client: &Client) -> Result<u64, Miss> {
        let path = &self.options.path;
        let first = self.options.first.ok_or_else(|| {
            Miss::Content(format!(
                "the znode {path} is missing although numbers were issued before: create it with a number above all of them"
            ))
        })?;
        let acls = match &self.options.auth {
            Some(_) => Acls::creator_all(),
            None => Acls::anyone_all(),
        };
        let options = CreateMode::Persistent.with_acls(acls);
        if let Some((parent, _)) = path
            .rsplit_once('/')
            .filter(|(parent, _)| !parent.is_empty())
        {
            client.mkdir(parent, &options).await?;
        }
        client
            .create(path, first.to_string().as_bytes(), &options)
            .await?;
        Ok(first)
    }

    async fn try_draw(&self, client: Client) -> Result<Range<u64>, Miss> {
        let (start, version) = self.read(&client).await?;
        let end = start
            .checked_add(u64::from(self.options.range))
            .ok_or_else(|| Miss::Content("the znode is at the end of all numbers".to_owned()))?;
        self.set(&client, end, version).await?;
        Ok(start..end)
    }

    async fn try_give_back(&self, client: Client, rest: Range<u64>) -> Result<bool, Miss> {
        let (next, version) = self.read(&client).await?;
        if next != rest.end {
            return Ok(false);
        }
        self.set(&client, rest.start, version).await?;
        Ok(true)
    }

    async fn set(&self, client: &Client, next: u64, version: i32) -> Result<(), Miss> {
        let data = next.to_string();
        client
            .set_data(&self.options.path, data.as_bytes(), Some(version))
            .await?;
        Ok(())
    }
}

#[async_trait]
impl RangeSource for Znode {
    async fn draw(&self) -> Result<Range<u64>, IssueError> {
        self.with_client(|client| self.try_draw(client)).await
    }

    async fn give_back(&self, rest: Range<u64>) -> Result<bool, IssueError> {
        self.with_client(|client| self.try_give_back(client, rest.clone()))
            .await
    }
}

fn parse(data: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(data).ok().map(str::trim);
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("the znode holds no number but '{}'", data.escape_ascii()))
}

fn failed(error: &Error) -> IssueError {
    match error {
        Error::NoAuth | Error::AuthFailed | Error::BadArguments(_) | Error::QuotaExceeded => {
            unusable(error.to_string())
        }
        error => transient(error.to_string()),
    }
}

fn transient(reason: String) -> IssueError {
    IssueError::Source {
        name: NAME,
        reason,
        transient: true,
    }
}

fn unusable(reason: String) -> IssueError {
    IssueError::Source {
        name: NAME,
        reason,
        transient: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_a_scheme_and_credentials_and_does_not_show_them() {
        let auth = ZookeeperAuth::parse("digest:me:a:b").unwrap();
        assert_eq!((&*auth.scheme, &*auth.credentials), ("digest", "me:a:b"));
        assert_eq!(format!("{auth:?}"), "ZookeeperAuth(digest)");
        for text in ["", "digest", "digest:", ":me:password", "a b:c"] {
            assert_eq!(ZookeeperAuth::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_decimal_digits_are_a_number() {
        assert_eq!(parse(b"0"), Ok(0));
        assert_eq!(parse(b"18446744073709551615\n"), Ok(u64::MAX));
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
