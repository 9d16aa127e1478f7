//! User-agent classification: class of the device, families of browser and operating system, bots.
//!
//! Families are those of [uap-core](https://github.com/ua-parser/uap-core), whose expressions are compiled with the first call: about
//! 0.2 s of CPU and 25 MB, and up to 70 MB more while ever different user agents arrive (caches of the expressions). An uncached
//! user agent takes some 20 µs, the worst ones 0.5 ms: the expressions take linear time, and the text is short.

mod bots;
mod device;

use super::model::Agent;
use bots::BotList;
use edgelink_wire::clicks::events::MAX_TEXT;
use edgelink_wire::rules::is_bot;
use moka::sync::Cache;
use std::sync::{Arc, LazyLock};

/// Most user agents that are cached: some 15 MB if they are as long as allowed.
const MAX_KNOWN: u64 = 20_000;

/// The longest name of a family in bytes; longer ones are cut off.
const MAX_FAMILY: usize = 64;

/// The name that uap-core gives to unknown families.
const OTHER_FAMILY: &str = "Other";

/// The name that uap-core gives to the device of a bot.
const SPIDER: &str = "Spider";

static KNOWN: LazyLock<Known> = LazyLock::new(|| remembering(MAX_KNOWN));

static PARSER: LazyLock<Option<Parser>> = LazyLock::new(Parser::compile);

/// Classifies a user agent. Only its first [`MAX_TEXT`] bytes count.
///
/// A cached one takes 0.1 µs. The first call compiles all expressions unless [`warm_up`] did so before.
#[must_use]
pub fn parse(user_agent: &str) -> Arc<Agent> {
    let user_agent = beginning(user_agent, MAX_TEXT);
    if let Some(agent) = KNOWN.get(user_agent) {
        return agent;
    }
    let parser = PARSER.as_ref();
    let agent = Arc::new(parser.map_or_else(Agent::default, |parser| parser.parse(user_agent)));
    KNOWN.insert(user_agent.into(), Arc::clone(&agent));
    agent
}

/// Compiles the expressions if they are not yet, which blocks the thread for a while.
pub fn warm_up() {
    LazyLock::force(&PARSER);
}

/// Cache of classified user agents.
type Known = Cache<Box<str>, Arc<Agent>>;

fn remembering(most: u64) -> Known {
    Cache::new(most)
}

/// The expressions, compiled.
struct Parser {
    uap: ua_parser::Extractor<'static>,
    bots: BotList,
}

impl Parser {
    /// `None` if the embedded expressions are invalid, which a test excludes.
    fn compile() -> Option<Self> {
        let regexes = include_str!("../../data/user-agents/regexes.json");
        let regexes: ua_parser::Regexes<'static> = serde_json::from_str(regexes).ok()?;
        Some(Self {
            uap: regexes.try_into().ok()?,
            bots: BotList::compile()?,
        })
    }

    fn parse(&self, user_agent: &str) -> Agent {
        if user_agent.is_empty() {
            return Agent::default();
        }
        let (browser, os, device) = self.uap.extract(user_agent);
        let os = os.as_ref().map_or("", |os| &os.os);
        let device = device.as_ref();
        let is_spider = device.is_some_and(|device| device.device == SPIDER);
        Agent {
            device: device::class(os, device, user_agent),
            browser: family(browser.as_ref().map_or("", |browser| &browser.family)),
            os: family(os),
            is_bot: is_spider || self.bots.has(user_agent) || is_bot(user_agent.as_bytes()),
        }
    }
}

fn family(name: &str) -> Arc<str> {
    match beginning(name, MAX_FAMILY) {
        OTHER_FAMILY => "".into(),
        name => name.into(),
    }
}

/// The first bytes of a text, as many characters as fit.
fn beginning(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
