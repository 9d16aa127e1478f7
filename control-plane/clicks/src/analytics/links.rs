//! Resolves the keys in reports to links, and hosts to domains.

use edgelink_store::{ClickedDomain, ClickedLink, Store, StoreError};
use edgelink_wire::LinkKey;
use moka::sync::Cache;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// TTL of cached links: changes of tags or targets apply to clicks after it at the latest.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Most domains that are cached.
const MAX_DOMAINS: u64 = 10_000;

/// Bytes of text that count as one link in the cache's weight.
const LINK_BYTES: usize = 512;

/// Weight of a cached link: one, and one more for each [`LINK_BYTES`] of its texts.
fn weight(key: &str, link: &ClickedLink) -> u32 {
    let tags = link.tags.iter().map(|tag| size_of::<String>() + tag.len());
    let campaigns = link.campaigns.iter();
    let campaigns = campaigns.map(|lines| size_of::<Box<str>>() + lines.len());
    let texts = key.len() + tags.chain(campaigns).sum::<usize>();
    u32::try_from(1 + texts / LINK_BYTES).unwrap_or(u32::MAX)
}

/// Finds links by their keys, many at once, and caches them for a while. Deleted and absent ones are looked up each time: their code
/// may be reused.
pub struct LinkResolver {
    store: Arc<Store>,
    links: Cache<Arc<str>, Arc<ClickedLink>>,
    domains: Cache<Arc<str>, ClickedDomain>,
}

/// Links by key.
pub type FoundLinks = HashMap<Arc<str>, Arc<ClickedLink>>;

impl LinkResolver {
    /// Creates a resolver that caches so many links.
    #[must_use]
    pub fn new(store: Arc<Store>, max_links: u64) -> Self {
        Self {
            store,
            links: Cache::builder()
                .max_capacity(max_links)
                .weigher(|key: &Arc<str>, link: &Arc<ClickedLink>| weight(key, link))
                .time_to_live(REMEMBERED)
                .build(),
            domains: Cache::builder()
                .max_capacity(MAX_DOMAINS)
                .time_to_live(REMEMBERED)
                .build(),
        }
    }

    /// Finds the links of these keys, omitting keys without one. A tombstone counts as its former link.
    ///
    /// # Errors
    /// The failure of the database.
    pub async fn links(&self, keys: &[Arc<str>]) -> Result<FoundLinks, StoreError> {
        let mut found = FoundLinks::with_capacity(keys.len());
        let mut missing = Vec::new();
        for key in keys {
            match self.links.get(key) {
                Some(link) => drop(found.insert(Arc::clone(key), link)),
                None => missing.extend(key.parse::<LinkKey>().ok()),
            }
        }
        for (key, link) in self.store.clicked_links(&missing).await? {
            let (key, link) = (Arc::<str>::from(key.to_string()), Arc::new(link));
            if !link.is_deleted {
                self.links.insert(Arc::clone(&key), Arc::clone(&link));
            }
            found.insert(key, link);
        }
        Ok(found)
    }

    /// Finds the domains of these names, omitting names without one.
    ///
    /// # Errors
    /// The failure of the database.
    pub async fn domains(
        &self,
        names: &[&str],
    ) -> Result<HashMap<Arc<str>, ClickedDomain>, StoreError> {
        let mut found = HashMap::with_capacity(names.len());
        let mut missing = Vec::new();
        for name in names {
            let name = Arc::<str>::from(*name);
            match self.domains.get(&name) {
                Some(domain) => drop(found.insert(name, domain)),
                None => missing.push(name),
            }
        }
        let names: Vec<&str> = missing.iter().map(AsRef::as_ref).collect();
        for (name, domain) in self.store.clicked_domains(&names).await? {
            let name = Arc::<str>::from(name);
            self.domains.insert(Arc::clone(&name), domain);
            found.insert(name, domain);
        }
        Ok(found)
    }

    /// Drops a changed link from the cache.
    pub fn invalidate(&self, key: &str) {
        self.links.invalidate(key);
    }

    /// Drops all links from the cache.
    pub fn invalidate_all(&self) {
        self.links.invalidate_all();
    }
}
