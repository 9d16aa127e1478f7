//! Bots, programs and link previews, by lists of expressions.

use regex::{RegexSet, RegexSetBuilder};

/// Most bytes that the compiled expressions may take: more than they need.
const MAX_COMPILED: usize = 64 << 20;

/// Expressions that match the user agents of bots.
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

    /// True if the user agent is a bot's.
    pub(super) fn has(&self, user_agent: &str) -> bool {
        self.0.is_match(user_agent)
    }
}
