//! A MariaDB with as many links as wanted, made of numbers by itself.

use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::MariaDb;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Links a statement: a transaction of all of them would keep as much to undo.
const CHUNK: u64 = 250_000;

/// The issuer whose numbers the links have. Control planes that create lease others, which have drawn less.
pub(crate) const ISSUER: u64 = 999;

/// The tags of links and the words of their titles, in the tables that searches read.
const TERMS: &str = "SET unique_checks = 0; \
     INSERT INTO link_tags (tenant_id, tag, created_at, link_id) \
     SELECT 1, t.tag, l.created_at, l.id FROM links l JOIN JSON_TABLE(l.tags, '$[*]' COLUMNS (tag VARCHAR(64) PATH '$')) t; \
     INSERT INTO link_words (tenant_id, word, link_id) SELECT tenant_id, tag, link_id FROM link_tags; \
     INSERT INTO link_words (tenant_id, word, link_id) SELECT 1, 'title', id FROM links WHERE title IS NOT NULL; \
     INSERT INTO link_words (tenant_id, word, link_id) SELECT 1, SUBSTR(title, 7), id FROM links WHERE title IS NOT NULL; \
     ANALYZE TABLE links, link_tags, link_words";

/// A database server that may use memory as in production, with the durability of production where that is measured.
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
            // What a solid-state disk takes; the default is for disks that turn.
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

    /// Adds links until there are that many, and gives the seconds that it took. The schema has to be there, and no
    /// control plane.
    pub(crate) fn grow_to(&mut self, rows: u64) -> f64 {
        self.grow_with(rows, &PLAIN)
    }

    /// The same with links of other kinds.
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

    /// Adds the tags of the links, and the words of their titles, to the tables that searches read.
    pub(crate) fn add_terms(&self) {
        self.execute(TERMS);
    }

    /// Has changed pages written, so that no later measurement waits for that.
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

/// What links have, as expressions of SQL of their place `seq`.
pub(crate) struct Content {
    pub(crate) url: &'static str,
    pub(crate) title: &'static str,
    pub(crate) tags: &'static str,
}

/// A target of their own and nothing else.
const PLAIN: Content = Content {
    url: "CONCAT('https://example.com/some/where/far/away?link=', seq)",
    title: "NULL",
    tags: "'[]'",
};

/// The number that the link at a place has, counted from 1.
pub(crate) fn number(place: u64) -> u64 {
    place * 1_000 + ISSUER
}

/// Links without a key of codes, where a code is its number in Base62.
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
