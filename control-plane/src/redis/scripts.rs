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

/// Appends entries to the stream, each with the id of the one before it, unless this publisher is not to.
///
/// `KEYS`: the stream, the state of the feed. `ARGV`: the fence (token, owner, installation), the generation, the last entry
/// that is known to be published, whether this begins the generation, the number and the nodes of a beat (empty if there is
/// none), about how many entries and how many bytes to keep, with which generation numbers were skipped last (noted if this begins
/// the generation); then for each entry how many arguments follow, and these.
///
/// Answers a word and what it is about:
///
/// - `foreign`: another installation writes here.
/// - `fenced`: a publisher with a newer token does; the token.
/// - `gone back`: what is here is not what was written here last; what shows it.
/// - `appended`: the id of the last entry.
///
/// The bytes of the stream are those that Redis reckons from a few samples. It is trimmed before it grows, because a full
/// Redis refuses to.
const APPEND: &str = r"
local function above(a, b) return #a > #b or (#a == #b and a > b) end
local feed, key = KEYS[1], KEYS[2]
local token, owner, installation, generation, after = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local state = redis.call('HMGET', key, 'token', 'owner', 'installation', 'generation')
if state[3] and state[3] ~= installation then return {'foreign', state[3]} end
if state[1] and (above(state[1], token) or (state[1] == token and state[2] ~= owner)) then
  return {'fenced', state[1]}
end
if ARGV[6] ~= '1' then
  if not state[4] then return {'gone back', 'state'} end
  if state[4] ~= generation then return {'gone back', 'generation'} end
  if after ~= '0-0' and #redis.call('XRANGE', feed, after, after) == 0 then return {'gone back', 'position'} end
end
local bytes = redis.call('MEMORY', 'USAGE', feed)
local most = tonumber(ARGV[10])
if bytes and bytes > most then
  local keep = math.floor(redis.call('XLEN', feed) * most / bytes * 0.9)
  redis.call('XTRIM', feed, 'MAXLEN', math.max(keep, 1))
end
local last = redis.call('XREVRANGE', feed, '+', '-', 'COUNT', 1)[1]
local prev = last and last[1] or '0-0'
local at = 12
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  local add = {'XADD', feed, 'MAXLEN', '~', ARGV[9], '*', 'prev', prev}
  for i = at + 1, at + count do add[#add + 1] = ARGV[i] end
  prev = redis.call(unpack(add))
  at = at + count + 1
end
local set = {'HSET', key, 'token', token, 'owner', owner, 'installation', installation, 'generation', generation}
if ARGV[7] ~= '' then
  for _, item in ipairs({'number', ARGV[7], 'nodes', ARGV[8]}) do set[#set + 1] = item end
end
if ARGV[6] == '1' then
  set[#set + 1] = 'skipped_in'
  set[#set + 1] = ARGV[11]
end
redis.call(unpack(set))
return {'appended', prev}
";

/// Takes away what is cached of a link, and the lock of those who are looking it up. `KEYS`: the link's hash, its lock.
const FORGET: &str = r"
return redis.call('DEL', KEYS[1], KEYS[2])
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
    pub(super) forget: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            write: Script::new(WRITE),
            unlock: Script::new(UNLOCK),
            append: Script::new(APPEND),
            forget: Script::new(FORGET),
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
