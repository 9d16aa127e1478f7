//! A MariaDB with any number of links, generated from numbers by the server itself.

use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::MariaDb;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Links per statement: one transaction for all would keep a large undo log.
const CHUNK: u64 = 250_000;

/// Issuer of the links' numbers. Control planes that create links lease other issuers, which have drawn fewer numbers.
pub(crate) const ISSUER: u64 = 999;

/// Fills the tables for searches with the tags of links and the words of their titles.
const TERMS: &str = "SET unique_checks = 0; \
     INSERT INTO link_tags (tenant_id, tag, created_at, link_id) \
     SELECT 1, t.tag, l.created_at, l.id FROM links l JOIN JSON_TABLE(l.tags, '$[*]' COLUMNS (tag VARCHAR(64) PATH '$')) t; \
     INSERT INTO link_words (tenant_id, word, link_id) SELECT tenant_id, tag, link_id FROM link_tags; \
     INSERT INTO link_words (tenant_id, word, link_id) SELECT 1, 'title', id FROM links WHERE title IS NOT NULL; \
     INSERT INTO link_words (tenant_id, word, link_id) SELECT 1, SUBSTR(title, 7), id FROM links WHERE title IS NOT NULL; \
     ANALYZE TABLE links, link_tags, link_words";

/// A database server with memory as in production, and with the durability of production while that is measured.
pub(crate) struct Database {
    server: MariaDb,
    name: &'static str,
    rows: u64,
}

impl Database {
    pub(crate) fn start() -> Self {
        let server = MariaDb::start_with(&[
            "--innodb-buffer-pool-size=3G",
            "--innodb-log-file-size=1G",
            // Suitable for solid-state disks; the default is for spinning disks.
            "--innodb-io-capacity-max=20000",
            "--innodb-io-capacity=10000",
        ]);
        server.execute("CREATE DATABASE bench");
        Self {
            server,
            name: "bench",
            rows: 0,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url(self.name)
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.server.process_id()
    }

    /// The folder of the files of its tables.
    pub(crate) fn folder(&self) -> PathBuf {
        self.server.data().join(self.name)
    }

    /// Adds links up to that number, and returns the seconds it took. The schema must exist, and no control plane may
    /// run.
    pub(crate) fn grow_to(&mut self, rows: u64) -> f64 {
        self.grow_with(rows, &PLAIN)
    }

    /// Adds links with other content.
    pub(crate) fn grow_with(&mut self, rows: u64, content: &Content) -> f64 {
        let start = Instant::now();
        self.execute(&format!(
            "SET GLOBAL innodb_flush_log_at_trx_commit = 2; \
             INSERT IGNORE INTO domains (name) VALUES ('{DOMAIN}')"
        ));
        while self.rows < rows {
            let last = rows.min(self.rows + CHUNK);
            self.execute(&insert(self.rows + 1, last, content));
            self.rows = last;
        }
        let next = rows + 1;
        let bound = (next + 1_000_000) * 1_000;
        self.execute(&format!(
            "UPDATE issuers SET next = {next} WHERE issuer = {ISSUER}; \
             INSERT IGNORE INTO bounds (bound, published_at) VALUES ({bound}, 0); \
             SET GLOBAL innodb_flush_log_at_trx_commit = 1; ANALYZE TABLE links"
        ));
        self.write_back();
        start.elapsed().as_secs_f64()
    }

    /// Adds the tags of the links, and the words of their titles, to the tables for searches.
    pub(crate) fn add_terms(&self) {
        self.execute(TERMS);
    }

    /// Has dirty pages written, so that no later measurement waits for them.
    fn write_back(&self) {
        const LIMIT: Duration = Duration::from_secs(120);
        self.execute("SET GLOBAL innodb_max_dirty_pages_pct = 0");
        let start = Instant::now();
        while self.dirty_pages() > 500 && start.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(200));
        }
        self.execute("SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT");
    }

    fn dirty_pages(&self) -> u64 {
        let status = self.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'");
        let pages = status.split_whitespace().last();
        pages.and_then(|pages| pages.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn execute(&self, sql: &str) -> String {
        self.server.execute(&format!("USE {}; {sql}", self.name))
    }
}

/// Content of links, as SQL expressions of their position `seq`.
pub(crate) struct Content {
    pub(crate) url: &'static str,
    pub(crate) title: &'static str,
    pub(crate) tags: &'static str,
}

/// A distinct target and nothing else.
const PLAIN: Content = Content {
    url: "CONCAT('https://example.com/some/where/far/away?link=', seq)",
    title: "NULL",
    tags: "'[]'",
};

/// Number of the link at a position, counted from 1.
pub(crate) fn number(place: u64) -> u64 {
    place * 1_000 + ISSUER
}

/// Inserts links without a code key, so that a code is its number in Base62.
fn insert(first: u64, last: u64, content: &Content) -> String {
    let Content { url, title, tags } = content;
    let hash = "CAST(CONV(SUBSTR(MD5(seq), 1, 15), 16, 10) AS SIGNED)";
    let digits: Vec<String> = (0..7_u32)
        .rev()
        .map(|digit| {
            let divisor = 62_u64.pow(digit);
            format!("SUBSTR(@digits, n DIV {divisor} MOD 62 + 1, 1)")
        })
        .collect();
    let code = digits.join(", ");
    format!(
        "SET @digits = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'; \
         SET @domain = (SELECT id FROM domains WHERE name = '{DOMAIN}'); \
         SET unique_checks = 0, foreign_key_checks = 0; \
         INSERT INTO links (id, domain_id, code, url, url_hash, content_hash, redirect, disabled, forward_query, title, tags, created_at, \
         updated_at, rev) \
         SELECT n, @domain, CONCAT({code}), {url}, \
         {hash}, {hash}, 302, 0, 1, {title}, {tags}, 1700000000000 + seq, \
         1700000000000 + seq, 1 \
         FROM (SELECT seq, seq * 1000 + {ISSUER} AS n FROM seq_{first}_to_{last}) AS numbers"
    )
}
