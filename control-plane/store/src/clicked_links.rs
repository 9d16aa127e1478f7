//! The links and domains that reports are about.

use crate::Store;
use crate::rows::{details_from_text, tags_from_text};
use edgelink_database::classes::Class;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, sql};
use edgelink_model::links::utm;
use edgelink_wire::clicks::events::MAX_TEXT;
use edgelink_wire::target::TargetUrl;
use edgelink_wire::{Code, Domain, LinkKey};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A link as clicks are counted for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickedLink {
    /// Its number.
    pub id: u64,
    /// Its tenant.
    pub tenant_id: u32,
    /// Its domain.
    pub domain_id: u32,
    /// Its tags.
    pub tags: Arc<[String]>,
    /// The campaign parameters of its target, then of the targets of its rules: source, medium, campaign, term and content, a line
    /// each. A target without any has no line; if none has any, the list is empty.
    pub campaigns: Arc<[Box<str>]>,
    /// True for a tombstone.
    pub is_deleted: bool,
}

/// A domain as clicks are counted for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClickedDomain {
    /// Its number.
    pub id: u32,
    /// The owner; `None` for a configured domain.
    pub tenant_id: Option<u32>,
}

impl Store {
    /// The links of these keys, tombstones included; keys without a row are left out.
    pub async fn clicked_links(
        &self,
        keys: &[LinkKey],
    ) -> Result<Vec<(LinkKey, ClickedLink)>, StoreError> {
        let mut by_domain: BTreeMap<&Domain, Vec<&Code>> = BTreeMap::new();
        for LinkKey { domain, code } in keys {
            by_domain.entry(domain).or_default().push(code);
        }
        let mut links = Vec::with_capacity(keys.len());
        for (domain, mut codes) in by_domain {
            codes.sort_unstable();
            codes.dedup();
            for codes in codes.chunks(LONGEST) {
                let call = self
                    .read("clicked_links", "finding clicked links")
                    .of(Class::Background);
                links.extend(run!(call, |session| {
                    clicked_links(session, domain, codes).await
                })?);
            }
        }
        Ok(links)
    }

    /// The domains of these names.
    pub async fn clicked_domains(
        &self,
        names: &[&str],
    ) -> Result<Vec<(String, ClickedDomain)>, StoreError> {
        let call = self
            .read("clicked_domains", "finding clicked domains")
            .of(Class::Background);
        run!(call, |session| {
            let mut domains = Vec::with_capacity(names.len());
            for names in names.chunks(LONGEST) {
                let query = sql("SELECT name, id, tenant_id FROM domains WHERE name IN ");
                let rows: Vec<(Vec<u8>, u32, Option<u32>)> =
                    session.fetch_all(query.list(names)).await?;
                for (text, id, tenant_id) in rows {
                    domains.push((name(&text)?, ClickedDomain { id, tenant_id }));
                }
            }
            Ok(domains)
        })
    }

    /// The keys and tags of links, tombstones included.
    pub async fn keys_and_tags(
        &self,
        links: &[u64],
    ) -> Result<Vec<(u64, String, Vec<String>)>, StoreError> {
        let call = self.read("keys_and_tags", "reading keys and tags of links");
        run!(call, |session| {
            let (index, join) = (
                session.dialect().force_index("PRIMARY"),
                session.dialect().join_in_order,
            );
            let select = format!(
                "SELECT l.id, d.name, l.code, l.tags FROM links l{index} {join} domains d ON d.id = l.domain_id WHERE l.id IN "
            );
            let mut found = Vec::with_capacity(links.len());
            for links in links.chunks(LONGEST) {
                let query = sql(select.clone()).list(links);
                let rows: Vec<(u64, Vec<u8>, Vec<u8>, String)> = session.fetch_all(query).await?;
                for (id, domain, code, tags) in rows {
                    let key = format!("{}/{}", name(&domain)?, name(&code)?);
                    let tags = tags_from_text(&tags)?;
                    found.push((id, key, tags));
                }
            }
            Ok(found)
        })
    }
}

async fn clicked_links(
    session: &mut Session,
    domain: &Domain,
    codes: &[&Code],
) -> Result<Vec<(LinkKey, ClickedLink)>, Fault> {
    type Row = (
        Vec<u8>,
        u64,
        u32,
        u32,
        String,
        Option<u64>,
        Vec<u8>,
        Option<String>,
    );
    let dialect = session.dialect();
    let (index, join) = (
        dialect.force_index("links_domain_code"),
        dialect.join_in_order,
    );
    let query = sql(format!(
        "SELECT l.code, l.id, l.tenant_id, l.domain_id, l.tags, l.deleted_at, l.url, l.details \
         FROM domains d \
         {join} links l{index} ON l.domain_id = d.id WHERE d.name = ? AND l.code IN "
    ));
    let rows: Vec<Row> = session.fetch_all(query.bind(domain).list(codes)).await?;
    let link = |(code, id, tenant_id, domain_id, tags, deleted_at, url, details): Row| {
        let code = Code::parse(&name(&code)?).map_err(|error| Fault::corrupt("code", &error))?;
        let link = ClickedLink {
            id,
            tenant_id,
            domain_id,
            // Losing the tags is better than being unable to write reports.
            tags: tags_from_text(&tags).unwrap_or_default().into(),
            campaigns: campaigns(&name(&url)?, details.as_deref()),
            is_deleted: deleted_at.is_some(),
        };
        Ok((LinkKey::new(domain.clone(), code), link))
    };
    rows.into_iter().map(link).collect()
}

fn campaigns(target: &str, details: Option<&str>) -> Arc<[Box<str>]> {
    // Unreadable details are ignored, like unreadable tags.
    let details = details_from_text(details).unwrap_or_default();
    let of_rules = details.rules.iter().map(|rule| &*rule.target);
    let of_targets = std::iter::once(target)
        .chain(of_rules)
        .map(|target| utm::lines(&TargetUrl::from_store(target), MAX_TEXT));
    let of_targets: Arc<[Box<str>]> = of_targets.collect();
    if of_targets.iter().all(|lines| lines.is_empty()) {
        Arc::default()
    } else {
        of_targets
    }
}
