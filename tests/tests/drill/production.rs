//! The production shape for drills, and links in it.

use crate::visitors::Journey;
use edgelink_tests::scenario::Answer;
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::{ControlPlane, Envoy, Production};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// How many links are created by one request.
const BULK: usize = 1000;

pub(crate) fn edges(production: &Production) -> Vec<SocketAddr> {
    production.envoys.iter().map(Envoy::edge).collect()
}

/// Creates links with the aliases `PREFIX-0`, `PREFIX-1`, ..., to `https://example.com/ALIAS`.
pub(crate) async fn create(control_plane: &ControlPlane, prefix: &str, count: usize) {
    for start in (0..count).step_by(BULK) {
        let links: Vec<_> = (start..count.min(start + BULK))
            .map(
                |n| json!({ "longUrl": target(&alias(prefix, n)), "customSlug": alias(prefix, n) }),
            )
            .collect();
        let answer = control_plane
            .api("POST", "/links/bulk", &json!(links))
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body["created"], links.len(), "{answer:?}");
    }
}

pub(crate) fn alias(prefix: &str, n: usize) -> String {
    format!("{prefix}-{n}")
}

pub(crate) fn target(alias: &str) -> String {
    format!("https://example.com/{alias}")
}

/// All links of a prefix, again and again.
pub(crate) struct Tour {
    prefix: &'static str,
    links: usize,
}

impl Tour {
    pub(crate) fn of(prefix: &'static str, links: usize) -> Arc<Self> {
        Arc::new(Self { prefix, links })
    }
}

impl Journey for Tour {
    fn path(&self, n: u64) -> String {
        let n = usize::try_from(n).expect("a number") % self.links;
        format!("/{}", alias(self.prefix, n))
    }

    fn is_right(&self, path: &str, answer: &Answer, _sent: Instant) -> bool {
        answer.location() == Some(target(&path[1..]).as_str())
    }
}

/// Has MariaDB log queries from now on, in its general log.
pub(crate) fn log_queries(database: &MariaDb) {
    database.execute("SET GLOBAL log_output = 'TABLE'");
    database.execute("TRUNCATE TABLE mysql.general_log");
    database.execute("SET GLOBAL general_log = 1");
}

/// How many lookups of links had `text` in them since: they read `rev_floor`, which those that find the links of clicks do not.
pub(crate) fn queries_of_links(database: &MariaDb, text: &str) -> u64 {
    let count = database.execute(&format!(
        "SELECT COUNT(*) FROM mysql.general_log WHERE command_type IN ('Execute', 'Query') \
         AND argument LIKE '%rev_floor%' AND argument NOT LIKE '%general_log%' AND argument LIKE '%{text}%'"
    ));
    count.trim().parse().expect("a number")
}
