//! The conditions of a list, as SQL on `links l` and `domains d`.

use super::query::{ListQuery, ListedState, TagsMode};
use crate::rows::LINK_COLUMNS;
use edgelink_database::dialect::Dialect;
use edgelink_database::sql::{Sql, Value, sql};
use edgelink_model::links::words::SearchWord;

/// The query for links with these numbers that meet all conditions.
pub(super) fn select<'q>(dialect: &Dialect, query: &'q ListQuery, ids: &[u64]) -> Sql<'q> {
    select_columns(LINK_COLUMNS, dialect, query, ids)
}

/// The query for the numbers of links among these that meet all conditions.
pub(super) fn select_ids<'q>(dialect: &Dialect, query: &'q ListQuery, ids: &[u64]) -> Sql<'q> {
    select_columns("l.id", dialect, query, ids)
}

fn select_columns<'q>(
    columns: &str,
    dialect: &Dialect,
    query: &'q ListQuery,
    ids: &[u64],
) -> Sql<'q> {
    let (index, join) = (dialect.force_index("PRIMARY"), dialect.join_in_order);
    let sql = sql(format!(
        "SELECT {columns} FROM links l{index} {join} domains d ON d.id = l.domain_id WHERE l.id IN "
    ));
    that_meet(sql.list(ids), dialect, query)
}

/// Adds all conditions to the existing one.
pub(super) fn that_meet<'q>(sql: Sql<'q>, dialect: &Dialect, query: &'q ListQuery) -> Sql<'q> {
    let sql = in_scope(sql.push(" AND l.deleted_at IS NULL"), dialect, query);
    let sql = with_tags(sql, dialect, query);
    let sql = of_time(sql, dialect, query);
    let words = query.search.iter().flat_map(|search| search.words());
    words.fold(sql, |sql, word| found_by(sql, dialect, word))
}

fn in_scope<'q>(sql: Sql<'q>, dialect: &Dialect, query: &'q ListQuery) -> Sql<'q> {
    let scope = &query.scope;
    let mut sql = sql.push(" AND l.tenant_id = ?").bind(scope.tenant_id);
    if let Some(owner_id) = scope.owner_id {
        sql = sql.push(" AND l.owner_id = ?").bind(owner_id);
    }
    if !scope.domains.is_empty() {
        let domains: Vec<_> = scope.domains.iter().collect();
        sql = sql.push(" AND d.name IN ").list(&domains);
    }
    if !scope.tags.is_empty() {
        sql = has_one(sql.push(" AND"), dialect, &scope.tags);
    }
    if let Some(domain) = &query.domain {
        sql = sql.push(" AND d.name = ?").bind(domain);
    }
    if let Some(external_id) = &query.external_id {
        sql = sql
            .push(" AND l.external_id = ?")
            .bind(external_id.as_str());
    }
    sql
}

fn with_tags<'q>(mut sql: Sql<'q>, dialect: &Dialect, query: &'q ListQuery) -> Sql<'q> {
    if !query.tags.is_empty() {
        sql = match query.tags_mode {
            TagsMode::Any => has_one(sql.push(" AND"), dialect, &query.tags),
            TagsMode::All => {
                let each = query.tags.chunks(1);
                each.fold(sql, |sql, tag| has_one(sql.push(" AND"), dialect, tag))
            }
        };
    }
    if !query.exclude_tags.is_empty() {
        sql = match query.exclude_mode {
            TagsMode::Any => has_one(sql.push(" AND NOT"), dialect, &query.exclude_tags),
            TagsMode::All => {
                let each = query.exclude_tags.chunks(1);
                let all = |sql: Sql<'q>, tag| has_one(sql, dialect, tag);
                sql.push(" AND NOT (").join(" AND", each, all).push(")")
            }
        };
    }
    if query.without_tags {
        sql = sql.push(" AND l.tags = '[]'");
    }
    sql
}

/// Adds the condition that the link has one of the tags.
fn has_one<'q>(sql: Sql<'q>, dialect: &Dialect, tags: &'q [String]) -> Sql<'q> {
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    // Without it, servers may read all links that have a tag.
    let index = dialect.force_index("link_tags_of_link");
    sql.push(&format!(
        " EXISTS (SELECT 1 FROM link_tags t{index} WHERE t.tenant_id = l.tenant_id AND t.tag IN "
    ))
    .list(&tags)
    .push(" AND t.created_at = l.created_at AND t.link_id = l.id)")
}

fn of_time<'q>(mut sql: Sql<'q>, dialect: &Dialect, query: &ListQuery) -> Sql<'q> {
    if let Some(from) = query.created_from {
        sql = sql.push(" AND l.created_at >= ?").bind(from);
    }
    if let Some(before) = query.created_before {
        sql = sql.push(" AND l.created_at < ?").bind(before);
    }
    let now = dialect.now_seconds;
    let is_expired = format!("COALESCE(l.valid_until <= {now}, FALSE)");
    let is_early = format!("COALESCE(l.valid_since > {now}, FALSE)");
    if query.hides_used_up {
        sql = sql.push(
            " AND NOT EXISTS (SELECT 1 FROM visits v WHERE v.link_id = l.id \
             AND v.used >= CAST(JSON_EXTRACT(l.details, '$.maxVisits') AS SIGNED))",
        );
    }
    if query.hides_expired {
        sql = sql.push(&format!(" AND NOT {is_expired}"));
    }
    let condition = match query.state {
        None => return sql,
        Some(ListedState::Active) => {
            format!("NOT l.disabled AND NOT {is_expired} AND NOT {is_early}")
        }
        Some(ListedState::Disabled) => "l.disabled".to_owned(),
        Some(ListedState::Expired) => format!("NOT l.disabled AND {is_expired}"),
        Some(ListedState::Scheduled) => {
            format!("NOT l.disabled AND {is_early} AND NOT {is_expired}")
        }
        Some(ListedState::Archived) => "l.archived".to_owned(),
    };
    sql.push(" AND ").push(&condition)
}

/// Adds the condition that the code, the host of the target, or a word of title or tags begins with the word.
fn found_by<'q>(sql: Sql<'q>, dialect: &Dialect, word: &'q SearchWord) -> Sql<'q> {
    let mut sql = sql.push(" AND (");
    if word.is_code() {
        sql = code_begins(sql, dialect, word).push(" OR ");
    }
    let [bare, www] = word.hosts();
    sql = sql
        .push("((l.host >= ? AND l.host < ? OR l.host >= ? AND l.host < ?)")
        .bind_all([&bare.from, &bare.to, &www.from, &www.to].map(|text| text.as_str()));
    if word.has_path() {
        let url = dialect.lower("l.url");
        sql = sql
            .push(&format!(" AND INSTR({url}, ?) > 0"))
            .bind(word.text());
    }
    let words = word.words();
    let index = dialect.force_index("link_words_of_link");
    sql.push(&format!(
        ") OR EXISTS (SELECT 1 FROM link_words w{index} WHERE w.link_id = l.id AND w.word >= ? AND w.word < ?))",
    ))
    .bind(words.from.as_str())
    .bind(words.to.as_str())
}

/// Adds the condition that the code begins with the word.
fn code_begins<'q>(sql: Sql<'q>, dialect: &Dialect, word: &'q SearchWord) -> Sql<'q> {
    let code = dialect.lower("SUBSTR(l.code, 1, ?)");
    sql.push(&format!("{code} = ?"))
        .bind(Value::Unsigned(word.text().len() as u64))
        .bind(word.text())
}
