//! Sources of the links of a list: ranges of indexes that have them in its order.

use super::query::{ListCursor, ListOrder, ListQuery, ListedState, TagsMode};
use edgelink_database::columns::numbers;
use edgelink_database::dialect::Dialect;
use edgelink_database::error::Fault;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Value, lookups, sql};
use edgelink_model::links::words::{SearchTerm, SearchWord, TextRange};
use edgelink_wire::{Code, Domain};
use std::collections::BTreeSet;

/// The most links found by a search that are sorted. With more, the list is read in its own order until enough links
/// match.
pub(super) const MAX_FOUND: usize = 1000;

/// The most ranges of codes read by one search.
const MAX_CODE_RANGES: usize = 64;

/// The most codes read by a search in these ranges.
const MAX_CODES: usize = 4096;

/// A link that may belong to the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: u64,
    pub(super) place: ListCursor,
}

/// Source of the links.
#[derive(Debug)]
pub(super) enum LinkSource<'q> {
    /// All links of the tenant.
    Tenant,
    /// Links of an owner.
    Owner(u64),
    /// Links on a domain, by creation.
    Created(&'q Domain),
    /// Links on a domain, by code.
    Codes(&'q Domain),
    /// Links with one of the tags.
    Tags(Vec<&'q str>),
    /// These links, in the order of the list.
    Found(Vec<Candidate>),
}

impl<'q> LinkSource<'q> {
    /// Chooses the source with the fewest links, as far as known without counting.
    pub(super) async fn choose(session: &mut Session, query: &'q ListQuery) -> Result<Self, Fault> {
        if let Some(found) = find(session, query).await? {
            let candidates = places(session, query.order, &found).await?;
            return Ok(Self::Found(candidates));
        }
        if matches!(query.order, ListOrder::Code | ListOrder::CodeDescending) {
            let domain = query.domain.as_ref();
            let domain = domain
                .ok_or_else(|| Fault::Refused("ordering by code requires a domain".to_owned()))?;
            return Ok(Self::Codes(domain));
        }
        if let Some(tags) = driving_tags(session, query).await? {
            return Ok(Self::Tags(tags));
        }
        Ok(match (query.scope.owner_id, &query.domain) {
            (Some(owner_id), _) => Self::Owner(owner_id),
            (None, Some(domain)) => Self::Created(domain),
            (None, None) => Self::Tenant,
        })
    }

    /// Up to `limit` links after a cursor.
    pub(super) async fn after(
        &self,
        session: &mut Session,
        query: &'q ListQuery,
        place: Option<&ListCursor>,
        limit: usize,
    ) -> Result<Vec<Candidate>, Fault> {
        let order = query.order;
        if let Self::Found(found) = self {
            let is_after = |candidate: &&Candidate| {
                place.is_none_or(|place| order.compare(place, &candidate.place).is_lt())
            };
            return Ok(found.iter().filter(is_after).take(limit).cloned().collect());
        }
        let mut candidates = if let Self::Codes(domain) = self {
            by_code(session, domain, order, place, limit).await?
        } else {
            let parts = self.parts(session.dialect(), query);
            by_creation(session, &parts, &ranges(query, place), order, limit).await?
        };
        // Each part is in order, but their union is not.
        candidates.sort_unstable_by(|one, other| order.compare(&one.place, &other.place));
        candidates.dedup();
        candidates.truncate(limit);
        Ok(candidates)
    }

    /// The parts read by creation.
    fn parts(&self, dialect: &Dialect, query: &'q ListQuery) -> Vec<IndexPart<'q>> {
        let of_links = |index: &str, column: &str, value: Value<'q>| IndexPart {
            id: "l.id",
            created_at: "l.created_at",
            from: format!("links l{}", dialect.force_index(index)),
            condition: format!("l.{column} AND l.deleted_at IS NULL"),
            values: vec![value],
        };
        let tenant_id = Value::from(query.scope.tenant_id);
        match self {
            Self::Owner(owner_id) => {
                vec![of_links(
                    "links_of_owner",
                    "owner_id = ?",
                    (*owner_id).into(),
                )]
            }
            Self::Created(domain) => {
                let of_domain = "domain_id = (SELECT id FROM domains WHERE name = ?)";
                vec![of_links(
                    "links_live_on_domain",
                    of_domain,
                    (*domain).into(),
                )]
            }
            Self::Tags(tags) => {
                let with = |tag: &&'q str| IndexPart {
                    id: "t.link_id",
                    created_at: "t.created_at",
                    from: format!("link_tags t{}", dialect.force_index("PRIMARY")),
                    condition: "t.tenant_id = ? AND t.tag = ?".to_owned(),
                    values: vec![tenant_id, (*tag).into()],
                };
                tags.iter().map(with).collect()
            }
            Self::Tenant | Self::Codes(_) | Self::Found(_) => {
                vec![of_links("links_of_tenant", "tenant_id = ?", tenant_id)]
            }
        }
    }
}

/// A part read by creation: links that share a prefix of an index.
struct IndexPart<'q> {
    id: &'static str,
    created_at: &'static str,
    from: String,
    condition: String,
    values: Vec<Value<'q>>,
}

/// A range of creation times. The links after a cursor are two of them, because no database reads both as one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CreationRange {
    /// Links created at this time, with numbers before or after this one in the order of the list.
    At { created_at: u64, id: u64 },
    /// Links created from the first time on and before the second.
    Between(u64, u64),
}

/// The ranges after a cursor within the times of the query.
fn ranges(query: &ListQuery, place: Option<&ListCursor>) -> Vec<CreationRange> {
    // The limit of databases without unsigned numbers.
    let last = i64::MAX.cast_unsigned();
    let from = query.created_from.unwrap_or(0).min(last);
    let before = query.created_before.unwrap_or(last).min(last);
    let (at, rest) = match place {
        Some(&ListCursor::Created { created_at, id }) => {
            let created_at = created_at.min(last - 1);
            let is_within = (from..before).contains(&created_at);
            let at = is_within.then_some(CreationRange::At {
                created_at,
                id: id.min(last),
            });
            let rest = match query.order {
                ListOrder::OldestFirst => (from.max(created_at + 1), before),
                _ => (from, before.min(created_at)),
            };
            (at, rest)
        }
        _ => (None, (from, before)),
    };
    let rest = (rest.0 < rest.1).then_some(CreationRange::Between(rest.0, rest.1));
    at.into_iter().chain(rest).collect()
}

/// A link by creation.
#[derive(sqlx_macros::FromRow)]
struct CreatedRow {
    id: u64,
    created_at: u64,
}

/// The first links of each part in each range.
async fn by_creation(
    session: &mut Session,
    parts: &[IndexPart<'_>],
    ranges: &[CreationRange],
    order: ListOrder,
    limit: usize,
) -> Result<Vec<Candidate>, Fault> {
    let open = session.dialect().part;
    let direction = order.direction();
    let side = if order == ListOrder::OldestFirst {
        ">"
    } else {
        "<"
    };
    let pairs: Vec<_> = parts
        .iter()
        .flat_map(|part| ranges.iter().map(move |range| (part, range)))
        .collect();
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let query = sql("").join(" UNION ALL ", pairs, |sql, (part, range)| {
        let IndexPart {
            id,
            created_at,
            from,
            condition,
            values,
        } = part;
        let sql = sql
            .push(&format!(
                "{open}SELECT {id} AS id, {created_at} AS created_at FROM {from} WHERE {condition}"
            ))
            .bind_all(values.iter().copied());
        let sql = match *range {
            CreationRange::At {
                created_at: at,
                id: number,
            } => sql
                .push(&format!(" AND {created_at} = ? AND {id} {side} ?"))
                .bind_all([at, number]),
            CreationRange::Between(from, before) => sql
                .push(&format!(" AND {created_at} >= ? AND {created_at} < ?"))
                .bind_all([from, before]),
        };
        sql.push(&format!(
            " ORDER BY {created_at} {direction}, {id} {direction} LIMIT ?)"
        ))
        .bind(limit as u64)
    });
    let rows: Vec<CreatedRow> = session.fetch_all(query).await?;
    let candidate = |CreatedRow { id, created_at }| Candidate {
        id,
        place: ListCursor::Created { created_at, id },
    };
    Ok(rows.into_iter().map(candidate).collect())
}

/// A link by code.
#[derive(sqlx_macros::FromRow)]
struct CodeRow {
    id: u64,
    created_at: u64,
    code: Vec<u8>,
}

impl CodeRow {
    fn into_candidate(self, order: ListOrder) -> Result<Candidate, Fault> {
        let place = match order {
            ListOrder::NewestFirst | ListOrder::OldestFirst => ListCursor::Created {
                created_at: self.created_at,
                id: self.id,
            },
            ListOrder::Code | ListOrder::CodeDescending => {
                let text =
                    str::from_utf8(&self.code).map_err(|error| Fault::corrupt("code", &error))?;
                let code = Code::stored(text).map_err(|error| Fault::corrupt("code", &error))?;
                ListCursor::Code(code)
            }
        };
        Ok(Candidate { id: self.id, place })
    }
}

/// The links of a domain by code, including tombstones.
async fn by_code(
    session: &mut Session,
    domain: &Domain,
    order: ListOrder,
    place: Option<&ListCursor>,
    limit: usize,
) -> Result<Vec<Candidate>, Fault> {
    let index = session.dialect().force_index("links_domain_code");
    let direction = order.direction();
    let mut query = sql(format!(
        "SELECT l.id, l.created_at, l.code FROM links l{index} \
         WHERE l.domain_id = (SELECT id FROM domains WHERE name = ?)"
    ))
    .bind(domain);
    if let Some(ListCursor::Code(code)) = place {
        let side = if order == ListOrder::Code { ">" } else { "<" };
        query = query.push(&format!(" AND l.code {side} ?")).bind(code);
    }
    let query = query.push(&format!(" ORDER BY l.code {direction} LIMIT ?"));
    let rows: Vec<CodeRow> = session.fetch_all(query.bind(limit as u64)).await?;
    rows.into_iter()
        .map(|row| row.into_candidate(order))
        .collect()
}

/// The cursors of links, sorted in the order of the list.
async fn places(
    session: &mut Session,
    order: ListOrder,
    ids: &[u64],
) -> Result<Vec<Candidate>, Fault> {
    let mut candidates = Vec::with_capacity(ids.len());
    for ids in ids.chunks(LONGEST) {
        let query = sql("SELECT l.id, l.created_at, l.code FROM links l WHERE l.id IN ").list(ids);
        let rows: Vec<CodeRow> = session.fetch_all(query).await?;
        for row in rows {
            candidates.push(row.into_candidate(order)?);
        }
    }
    candidates.sort_unstable_by(|one, other| order.compare(&one.place, &other.place));
    Ok(candidates)
}

/// The tags by which links are read: only the rarest, if a link must have all of them.
async fn driving_tags<'q>(
    session: &mut Session,
    query: &'q ListQuery,
) -> Result<Option<Vec<&'q str>>, Fault> {
    let tags = if query.tags.is_empty() {
        &query.scope.tags
    } else {
        &query.tags
    };
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    if tags.is_empty() {
        return Ok(None);
    }
    if query.tags.len() < 2 || query.tags_mode == TagsMode::Any {
        return Ok(Some(tags));
    }
    let mut rarest = None;
    for tag in tags {
        let count = sql(
            "SELECT COUNT(*) AS links FROM (SELECT link_id FROM link_tags WHERE tenant_id = ? AND tag = ? \
             LIMIT ?) AS counted",
        );
        let count = count
            .bind(query.scope.tenant_id)
            .bind(tag)
            .bind(MAX_FOUND as u64);
        let (links,): (i64,) = session.fetch_one(count).await?;
        if rarest.is_none_or(|(least, _)| links < least) {
            rarest = Some((links, tag));
        }
    }
    Ok(rarest.map(|(_, tag)| vec![tag]))
}

/// The numbers of all links that may match by id, state or search; `None` if none of these is given, or too many match.
async fn find(session: &mut Session, query: &ListQuery) -> Result<Option<Vec<u64>>, Fault> {
    let tenant_id = query.scope.tenant_id;
    if let Some(external_id) = &query.external_id {
        let find = sql("SELECT id FROM links WHERE tenant_id = ? AND external_id = ?");
        let find = find.bind(tenant_id).bind(external_id.as_str());
        return numbers(session, find).await.map(Some);
    }
    if query.state == Some(ListedState::Expired) {
        let expired = expired(session).await?;
        if expired.is_some() {
            return Ok(expired);
        }
    }
    for word in query.search.iter().flat_map(SearchTerm::longest_first) {
        let found = by_word(session, query, word).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The expired links of all tenants; `None` if there are too many.
async fn expired(session: &mut Session) -> Result<Option<Vec<u64>>, Fault> {
    let dialect = session.dialect();
    let (now, index) = (
        dialect.now_seconds,
        dialect.force_index("links_valid_until"),
    );
    let select = sql(format!(
        "SELECT id FROM links{index} WHERE valid_until <= {now} AND deleted_at IS NULL LIMIT ?"
    ));
    let ids = numbers(session, select.bind(MAX_FOUND as u64 + 1)).await?;
    Ok((ids.len() <= MAX_FOUND).then_some(ids))
}

/// The numbers of all links that may match one word of a search; `None` if there are too many.
async fn by_word(
    session: &mut Session,
    query: &ListQuery,
    word: &SearchWord,
) -> Result<Option<Vec<u64>>, Fault> {
    let Some(mut found) = by_text(session, query.scope.tenant_id, word).await? else {
        return Ok(None);
    };
    if word.is_code() {
        match by_code_beginning(session, query, word, MAX_FOUND - found.len()).await? {
            Some(ids) => found.extend(ids),
            None => return Ok(None),
        }
    }
    Ok(Some(found.into_iter().collect()))
}

/// Links by the host of their target, or a word of title or tags; `None` if there are too many.
async fn by_text(
    session: &mut Session,
    tenant_id: u32,
    word: &SearchWord,
) -> Result<Option<BTreeSet<u64>>, Fault> {
    let dialect = session.dialect();
    let (open, index) = (dialect.part, dialect.force_index("links_host"));
    let words = dialect.force_index("PRIMARY");
    let of_host = format!(
        "{open}SELECT id FROM links{index} WHERE tenant_id = ? AND host >= ? AND host < ? \
         AND deleted_at IS NULL LIMIT ?)"
    );
    let of_word = format!(
        "{open}SELECT link_id AS id FROM link_words{words} WHERE tenant_id = ? AND word >= ? AND word < ? LIMIT ?)"
    );
    let [bare, www] = word.hosts();
    let parts = [(&of_host, bare), (&of_host, www), (&of_word, word.words())];
    let query = sql("").join(" UNION ALL ", parts, |sql, (part, range)| {
        sql.push(part)
            .bind(tenant_id)
            .bind(range.from.as_str())
            .bind(range.to.as_str())
            .bind(MAX_FOUND as u64 + 1)
    });
    let ids: BTreeSet<u64> = numbers(session, query).await?.into_iter().collect();
    Ok((ids.len() <= MAX_FOUND).then_some(ids))
}

/// Links whose code begins with the word, ignoring case, including tombstones; `None` if there are more than `most`,
/// or too many domains or codes to search.
async fn by_code_beginning(
    session: &mut Session,
    query: &ListQuery,
    word: &SearchWord,
    most: usize,
) -> Result<Option<Vec<u64>>, Fault> {
    let domains = match &query.domain {
        Some(domain) => sql("SELECT id FROM domains WHERE name = ?").bind(domain),
        None => sql("SELECT id FROM domains LIMIT ?").bind(MAX_CODE_RANGES as u64 + 1),
    };
    let domains = numbers(session, domains).await?;
    if domains.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let spellings = word.spellings(MAX_CODE_RANGES / domains.len());
    if spellings.len() * domains.len() > MAX_CODE_RANGES {
        return Ok(None);
    }
    let ranges: Vec<(u64, TextRange)> = domains
        .iter()
        .flat_map(|domain| {
            let range = |spelling: &String| (*domain, TextRange::beginning(spelling));
            spellings.iter().map(range)
        })
        .collect();
    let dialect = session.dialect();
    let (open, index) = (dialect.part, dialect.force_index("links_domain_code"));
    let part = format!(
        "{open}SELECT l.id, l.code FROM links l{index} WHERE l.domain_id = ? AND l.code >= ? AND l.code < ? LIMIT ?)"
    );
    let mut codes: Vec<(u64, Vec<u8>)> = Vec::new();
    for ranges in lookups(&ranges) {
        // A prefix of the word may match far more codes than the word.
        let room = (MAX_CODES - codes.len()) as u64 + 1;
        let query = sql("").join(" UNION ALL ", ranges, |sql, (domain, range)| {
            let sql = sql.push(&part).bind(*domain);
            let sql = sql.bind(range.from.as_str()).bind(range.to.as_str());
            sql.bind(room)
        });
        let query = match ranges.len() {
            1 => query,
            _ => query.push(" LIMIT ?").bind(room),
        };
        let read: Vec<(u64, Vec<u8>)> = session.fetch_all(query).await?;
        codes.extend(read);
        if codes.len() > MAX_CODES {
            return Ok(None);
        }
    }
    let begins = |code: &[u8]| {
        let beginning = code.get(..word.text().len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(word.text().as_bytes()))
    };
    let found = codes.into_iter().filter(|(_, code)| begins(code));
    let found: Vec<u64> = found.map(|(id, _)| id).collect();
    Ok((found.len() <= most).then_some(found))
}
