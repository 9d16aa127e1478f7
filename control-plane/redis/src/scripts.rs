//! Lua scripts. Each touches the keys of one slot only, so that they work in a cluster, and is sent in full if Redis no longer
//! knows it.

use fred::clients::{Client, WithOptions};
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::{CustomCommand, Value};
use fred::util::{redis_keyslot, sha1_hash};
use std::sync::OnceLock;

/// Writes a record by its revision.
///
/// `KEYS`: the link's hash, its lock. `ARGV`: the purpose, the token of the lock, TTL in milliseconds, rev, and the fields.
///
/// - `fill`: a replica looked the record up under the lock. Written, and the lock released, only while it holds the lock: a
///   change published meanwhile has removed the lock, and the replica may have read an older record.
/// - `repair`: like `fill`, over an unreadable hash, whatever its rev.
/// - `publish`: the record has changed. The lock is removed, and the hash is written only if there is one: nothing is cached
///   before a lookup asks for it.
///
/// Revisions are compared as decimal digits, because Lua's numbers are exact up to 2^53 only.
pub(super) static WRITE: Script = Script::new(
    r"
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
",
);

/// Releases a lock that is still ours. `KEYS`: the lock. `ARGV`: its token.
pub(super) static UNLOCK: Script = Script::new(
    r"
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
",
);

/// Appends entries to the stream, each with the id of the one before it, unless the fence or a loss forbids it.
///
/// `KEYS`: the stream, the state of the feed. `ARGV`: the fence (token, owner, installation), the generation, the last entry
/// known to be published, a flag that this begins the generation, number and nodes of a beat (empty without one), the approximate
/// number of entries and of bytes to keep, the generation of the last flush of all caches (stored if this begins the generation),
/// the extent of drawn numbers (allocated, sum, counted, the bound in effect: each is only raised); then for each entry the number
/// of its arguments, and these.
///
/// Answers a word and its subject:
///
/// - `foreign`: another installation writes here; its name.
/// - `fenced`: a publisher with a newer token writes here; the token.
/// - `gone back`: the last write is missing; the evidence.
/// - `appended`: the id of the last entry.
///
/// The size of the stream is Redis's estimate from a few samples. It is trimmed before it grows, because a full Redis
/// refuses growth.
pub(super) static APPEND: Script = Script::new(
    r"
local function above(a, b) return #a > #b or (#a == #b and a > b) end
local feed, key = KEYS[1], KEYS[2]
local token, owner, installation, generation, after = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local drawn = {'allocated', 'sum', 'counted', 'counts'}
local state = redis.call('HMGET', key, 'token', 'owner', 'installation', 'generation', unpack(drawn))
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
local at = 16
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
for i, name in ipairs(drawn) do
  if above(ARGV[11 + i], state[4 + i] or '') then
    set[#set + 1] = name
    set[#set + 1] = ARGV[11 + i]
  end
end
redis.call(unpack(set))
return {'appended', prev}
",
);

/// Removes the record of a link and its lock. `KEYS`: the link's hash, its lock.
pub(super) static FORGET: Script = Script::new(
    r"
return redis.call('DEL', KEYS[1], KEYS[2])
",
);

/// Takes tokens from each bucket, or none if one of them has less. It follows the rule of [`edgelink_model::token_bucket`], by Redis's own clock.
///
/// `KEYS`: the buckets, all in one slot. `ARGV`: for each its capacity, what it gains a second, and what is taken, in tokens.
///
/// Answers the index, from 1, of the first bucket that has less, or 0, and the resulting level of each bucket in millionths of a
/// token. A bucket is a text of its level and the time of that in microseconds; it expires when it is full. An unreadable one is
/// full. One with a future time, because the clock was set back, gains from now on.
pub(super) static TAKE: Script = Script::new(
    r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local refused, levels = 0, {}
for i, key in ipairs(KEYS) do
  local full, rate, price = ARGV[3 * i - 2] * 1000000, tonumber(ARGV[3 * i - 1]), ARGV[3 * i] * 1000000
  local level, at = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
  levels[i] = level and math.min(full, level + math.max(0, now - at) * rate) or full
  if level and tonumber(at) > now then
    local left = math.max(1, math.ceil((full - levels[i]) / rate / 1000))
    redis.call('SET', key, string.format('%.0f %.0f', levels[i], now), 'PX', left)
  end
  if levels[i] < price and refused == 0 then refused = i end
end
if refused == 0 then
  for i, key in ipairs(KEYS) do
    levels[i] = levels[i] - ARGV[3 * i] * 1000000
    local missing = ARGV[3 * i - 2] * 1000000 - levels[i]
    local bucket = string.format('%.0f %.0f', levels[i], now)
    redis.call('SET', key, bucket, 'PX', math.ceil(missing / ARGV[3 * i - 1] / 1000))
  end
end
return {refused, unpack(levels)}
",
);

/// Returns to each bucket of the keys what a request has taken from it; the arguments are those of [`TAKE`]. A bucket that becomes
/// full is removed, and a missing one is full.
pub(super) static GIVE_BACK: Script = Script::new(
    r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i, key in ipairs(KEYS) do
  local full, rate, price = ARGV[3 * i - 2] * 1000000, tonumber(ARGV[3 * i - 1]), ARGV[3 * i] * 1000000
  local level, at = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
  if level then
    level = level + math.max(0, now - at) * rate + price
    if level < full then
      local bucket = string.format('%.0f %.0f', level, now)
      redis.call('SET', key, bucket, 'PX', math.ceil((full - level) / rate / 1000))
    else
      redis.call('DEL', key)
    end
  end
end
return 0
",
);

/// Publishes a report, and lists the replicas that are alive, by Redis's own clock. One that is listed with a future time, because the
/// clock was set back, is listed again with its next report.
///
/// `KEYS`: the sorted set of replicas. `ARGV`: the name of the replica that reports, the time in milliseconds for which it counts
/// (empty if it ends), the channel, the report.
pub(super) static SHARE: Script = Script::new(
    r"
redis.call('PUBLISH', ARGV[3], ARGV[4])
if ARGV[2] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return {}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + ARGV[2], '+inf')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
",
);

/// A script and the hash by which Redis knows it.
pub(super) struct Script {
    text: &'static str,
    hash: OnceLock<String>,
}

/// Keys and arguments of one run.
pub(super) struct ScriptCall {
    pub(super) keys: Vec<String>,
    pub(super) arguments: Vec<Value>,
}

impl ScriptCall {
    /// Sends `EVAL` or `EVALSHA` with the text of the script, or its hash, to the node that has the keys.
    async fn send<C: ClientLike>(
        &self,
        client: &C,
        name: &'static str,
        script: &str,
    ) -> Result<Value, Error> {
        let slot = self.keys.first().map(|key| redis_keyslot(key.as_bytes()));
        let count = self.keys.len().to_string();
        let keys = self.keys.iter().map(Value::from);
        let arguments = [Value::from(script), Value::from(count)]
            .into_iter()
            .chain(keys)
            .chain(self.arguments.iter().cloned())
            .collect();
        client
            .custom(CustomCommand::new_static(name, slot, false), arguments)
            .await
    }
}

impl Script {
    const fn new(text: &'static str) -> Self {
        Self {
            text,
            hash: OnceLock::new(),
        }
    }

    fn hash(&self) -> &str {
        self.hash.get_or_init(|| sha1_hash(self.text))
    }

    /// Runs the script.
    pub(super) async fn run(
        &self,
        client: &WithOptions<Client>,
        run: &ScriptCall,
    ) -> Result<Value, Error> {
        match run.send(client, "EVALSHA", self.hash()).await {
            Err(error) if is_unknown_script(&error) => run.send(client, "EVAL", self.text).await,
            result => result,
        }
    }

    /// Runs the script for each of `runs` in one pipeline, and returns the first error.
    pub(super) async fn run_all(
        &self,
        client: &WithOptions<Client>,
        runs: &[ScriptCall],
    ) -> Result<(), Error> {
        let pipeline = client.pipeline().with_options(client.options());
        for run in runs {
            run.send(&pipeline, "EVALSHA", self.hash()).await?;
        }
        let results = pipeline.try_all::<Value>().await;
        if results.len() != runs.len() {
            // The pipeline as a whole was not sent or not answered.
            let error = results.into_iter().find_map(Result::err);
            let missing = || Error::new(ErrorKind::Protocol, "answers are missing");
            return Err(error.unwrap_or_else(missing));
        }
        for (result, run) in results.into_iter().zip(runs) {
            match result {
                Err(error) if is_unknown_script(&error) => drop(self.run(client, run).await?),
                result => drop(result?),
            }
        }
        Ok(())
    }
}

/// True if Redis does not know a script: it was restarted, failed over, or flushed its scripts.
fn is_unknown_script(error: &Error) -> bool {
    error.details().starts_with("NOSCRIPT")
}
