//! The clicks of a chunk as blocks for ClickHouse.

use super::super::chunk::{Chunk, UTMS};
use super::super::gathering::domain_values;
use super::native::NativeBlock;
use super::rows::COLUMNS;

const UTM_COLUMNS: [&str; 5] = [
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_term",
    "utm_content",
];

const HOUR_SECONDS: u32 = 3600;

/// Encodes rows of clicks, each with the first of its numbers, in the column order of the table.
pub(super) fn clicks(chunk: &Chunk, rows: &[(usize, u64)]) -> Vec<u8> {
    let mut block = NativeBlock::new(COLUMNS, rows.len());
    let columns = &chunk.clicks;
    let each = || rows.iter().map(|(row, _)| *row);
    let links = || each().map(|row| chunk.link(row));
    let agents = || each().map(|row| &chunk.agents[columns.agent[row] as usize]);
    let text = |number| chunk.texts.get(number);
    let bots = || agents().map(|agent| agent.agent.is_bot);
    block.numbers(
        "tenant_id",
        "UInt32",
        links().map(|link| link.tenant_id.to_le_bytes()),
    );
    block.numbers(
        "link_id",
        "UInt64",
        links().map(|link| link.link_id.to_le_bytes()),
    );
    let seconds = each().map(|row| u32::try_from(columns.at[row]).unwrap_or(u32::MAX));
    block.numbers("at", "DateTime('UTC')", seconds.map(u32::to_le_bytes));
    block.numbers(
        "number",
        "UInt64",
        rows.iter().map(|(_, number)| number.to_le_bytes()),
    );
    let counts = || each().map(|row| columns.count[row]);
    block.numbers("clicks", "UInt64", counts().map(u64::to_le_bytes));
    let of_bots = counts()
        .zip(bots())
        .map(|(count, is_bot)| if is_bot { count } else { 0 });
    block.numbers("bots", "UInt64", of_bots.map(u64::to_le_bytes));
    block.numbers(
        "domain_id",
        "UInt32",
        links().map(|link| link.domain_id.to_le_bytes()),
    );
    block.words("key", links().map(|link| link.key), text);
    block.numbers("kind", "UInt8", each().map(|_| [0]));
    block.lists("tags", links().map(|link| &*link.tags));
    block.texts(
        "id",
        each().map(|row| columns.id(row).map_or(&[][..], |id| id)),
    );
    block.numbers(
        "status",
        "UInt16",
        each().map(|row| columns.status[row].to_le_bytes()),
    );
    block.numbers("rule", "UInt8", each().map(|row| [columns.rule[row]]));
    let word = |column: usize| each().map(move |row| columns.texts[column][row]);
    block.words("country", word(0), text);
    block.words("city", word(1), text);
    block.words("user_agent", agents().map(|agent| agent.text), text);
    block.words("device", agents().map(|agent| agent.device), text);
    block.words("browser", agents().map(|agent| agent.browser), text);
    block.words("os", agents().map(|agent| agent.os), text);
    block.numbers("is_bot", "UInt8", bots().map(|is_bot| [is_bot.into()]));
    block.words("referrer", word(2), text);
    block.words("language", word(3), text);
    for (utm, name) in UTM_COLUMNS.into_iter().enumerate() {
        block.words(name, word(UTMS + utm), text);
    }
    let visitors = || each().map(|row| columns.visitor[row]);
    block.numbers("visitor", "UInt64", visitors().map(u64::to_le_bytes));
    let is_visitor = visitors()
        .zip(bots())
        .map(|(visitor, is_bot)| visitor != 0 && !is_bot);
    block.numbers(
        "is_visitor",
        "UInt8",
        is_visitor.map(|is_visitor| [is_visitor.into()]),
    );
    block.finish()
}

/// Encodes clicks by domain and value, for the table `value_hours`; `None` if there are no clicks.
pub(super) fn values(chunk: &Chunk) -> Option<Vec<u8>> {
    let values = domain_values(chunk);
    if values.is_empty() {
        return None;
    }
    let mut block = NativeBlock::new(7, values.len());
    let each = || values.iter();
    block.numbers(
        "tenant_id",
        "UInt32",
        each().map(|it| it.tenant_id.to_le_bytes()),
    );
    block.numbers("attribute", "UInt8", each().map(|it| [it.by as u8]));
    block.numbers(
        "domain_id",
        "UInt32",
        each().map(|it| it.domain_id.to_le_bytes()),
    );
    block.texts("value", each().map(|it| it.value.as_bytes()));
    let hours = each().map(|it| it.hour.saturating_mul(HOUR_SECONDS));
    block.numbers("hour", "DateTime('UTC')", hours.map(u32::to_le_bytes));
    block.numbers(
        "clicks",
        "UInt64",
        each().map(|it| it.tally.clicks.to_le_bytes()),
    );
    block.numbers(
        "bots",
        "UInt64",
        each().map(|it| it.tally.bots.to_le_bytes()),
    );
    Some(block.finish())
}
