//! Lua scripts. Each touches the keys of one slot only, so that they work in a cluster, and is sent in full where Redis does
//! not know it any more.

use super::error::is_unknown_script;
use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::Options;
use fred::types::{CustomCommand, Value};
use fred::util::{redis_keyslot, sha1_hash};

/// Writes a record by its revision.
///
/// `KEYS`: the link's hash, its lock. `ARGV`: what for, the token of the lock, TTL in milliseconds, rev, and the fields.
///
/// - `fill`: somebody looked the record up under the lock. Written, and the lock released, only while the lock is theirs:
///   a change that was published meanwhile has taken it away, and what they read may be from before.
/// - `repair`: the same over a hash that nobody can read, whatever its rev.
/// - `publish`: the record is news. Locks are taken away, and the hash is written only where there is one: nothing is cached
///   before anybody asks for it.
///
/// Revisions are compared as decimal digits, because Lua's numbers are exact up to 2^53 only.
const WRITE: &str = r"
local link, lock = KEYS[1], KEYS[2]
local what, rev = ARGV[1], ARGV[4]
if what == 'publish' then
  redis.call('DEL', lock)
  if redis.call('EXISTS', link) == 0 then return 0 end
else
  if redis.call('GET', lock) ~= ARGV[2] then return 0 end
  redis.call('DEL', lock)
end
if what ~= 'repair' and redis.call('TYPE', link).ok == 'hash' then
  local old = redis.call('HGET', link, 'rev')
  if old and string.match(old, '^%d+$') and (#old > #rev or (#old == #rev and old >= rev)) then return 0 end
end
redis.call('DEL', link)
redis.call('HSET', link, unpack(ARGV, 5))
redis.call('PEXPIRE', link, ARGV[3])
return 1
";

/// Releases a lock that is still ours. `KEYS`: the lock. `ARGV`: its token.
const UNLOCK: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
";

/// Appends entries to the stream, each with the id of the one before it. `KEYS`: the stream. `ARGV`: about how many entries
/// to keep, then for each entry how many arguments follow, and these. Answers the id of the last one.
const APPEND: &str = r"
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local prev = last and last[1] or '0-0'
local at = 2
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  local add = {'XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'prev', prev}
  for i = at + 1, at + count do add[#add + 1] = ARGV[i] end
  prev = redis.call(unpack(add))
  at = at + count + 1
end
return prev
";

/// A script and the name that Redis knows it by.
pub(super) struct Script {
    text: &'static str,
    hash: String,
}

/// All scripts.
pub(super) struct Scripts {
    pub(super) write: Script,
    pub(super) unlock: Script,
    pub(super) append: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            write: Script::new(WRITE),
            unlock: Script::new(UNLOCK),
            append: Script::new(APPEND),
        }
    }
}

/// Keys and arguments of one run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) keys: Vec<String>,
    pub(super) arguments: Vec<Value>,
}

impl Run {
    /// `EVAL` or `EVALSHA`, for the node that has the keys.
    fn command(&self, name: &'static str) -> CustomCommand {
        let slot = self.keys.first().map(|key| redis_keyslot(key.as_bytes()));
        CustomCommand::new_static(name, slot, false)
    }

    /// The arguments of `EVAL` or `EVALSHA`.
    fn into_arguments(self, script: &str) -> Vec<Value> {
        let count = self.keys.len().to_string();
        let keys = self.keys.into_iter().map(Value::from);
        [Value::from(script), Value::from(count)]
            .into_iter()
            .chain(keys)
            .chain(self.arguments)
            .collect()
    }
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            hash: sha1_hash(text),
        }
    }

    /// Runs the script.
    pub(super) async fn run(
        &self,
        client: &Client,
        options: &Options,
        run: Run,
    ) -> Result<Value, Error> {
        match by_hash(&client.with_options(options), self, run.clone()).await {
            Err(error) if is_unknown_script(&error) => {
                let command = run.command("EVAL");
                let arguments = run.into_arguments(self.text);
                client
                    .with_options(options)
                    .custom(command, arguments)
                    .await
            }
            result => result,
        }
    }

    /// Runs the script for each of `runs`, all of them under way at once. The first error of any is the answer.
    pub(super) async fn run_all(
        &self,
        client: &Client,
        options: &Options,
        runs: Vec<Run>,
    ) -> Result<(), Error> {
        let pipeline = client.pipeline().with_options(options);
        for run in runs.clone() {
            by_hash(&pipeline, self, run).await?;
        }
        let results = pipeline.try_all::<Value>().await;
        if results.len() != runs.len() {
            // The pipeline as a whole was not sent or not answered.
            let error = results.into_iter().find_map(Result::err);
            return Err(
                error.unwrap_or_else(|| Error::new(ErrorKind::Protocol, "answers are missing"))
            );
        }
        for (result, run) in results.into_iter().zip(runs) {
            match result {
                Err(error) if is_unknown_script(&error) => {
                    self.run(client, options, run).await?;
                }
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

async fn by_hash<C: ClientLike>(client: &C, script: &Script, run: Run) -> Result<Value, Error> {
    let command = run.command("EVALSHA");
    let arguments = run.into_arguments(&script.hash);
    client.custom(command, arguments).await
}
