//! Bots, programs and link previews, by lists of expressions.

use regex::{RegexSet, RegexSetBuilder};

/// How much memory the compiled expressions may take, in bytes: more than these few need.
const MAX_COMPILED: usize = 64 << 20;

/// Expressions, one of which a bot's user agent matches.
pub(super) struct BotList(RegexSet);

impl BotList {
    /// `None` if an expression is wrong, which a test excludes.
    pub(super) fn compile() -> Option<Self> {
        let crawlers = include_str!("../../../data/user-agents/crawlers.txt").lines();
        let programs = include_str!("../../../data/user-agents/programs.txt").lines();
        let set = RegexSetBuilder::new(crawlers.chain(programs))
            .size_limit(MAX_COMPILED)
            .build();
        set.ok().map(Self)
    }

    /// Whether a user agent is that of a bot.
    pub(super) fn has(&self, user_agent: &str) -> bool {
        self.0.is_match(user_agent)
    }
}
