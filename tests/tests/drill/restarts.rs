//! How many numbers are skipped when a control plane restarts.

use crate::clients::{client, code};
use crate::replica::Replica;
use edgelink_tests::servers::MariaDb;
use serde_json::{Value, json};
use tempfile::TempDir;

const RESTARTS: u64 = 10;
const LINKS: u64 = 200;

/// `make skipped-numbers`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a while: make skipped-numbers"]
async fn skipped() {
    let database = MariaDb::start();
    println!("\nnumbers skipped in {RESTARTS} restarts with {LINKS} links before each");
    for (name, is_clean) in [("clean", true), ("kill -9", false)] {
        let folder = TempDir::new().expect("a temporary folder");
        let url = database.database();
        let schema = url.rsplit('/').next().expect("a name").to_owned();
        let variables = [("EDGELINK_STORE_URL", url.as_str())];
        let mut replica = Replica::start("restarted", folder.path(), &variables).await;
        for _ in 0..RESTARTS {
            create(&replica).await;
            if is_clean {
                replica.restart().await;
            } else {
                replica.crash_and_start().await;
            }
        }
        replica.restart().await;
        let drawn = number(
            &database,
            &format!("SELECT SUM(next) FROM {schema}.issuers"),
        );
        let links = number(&database, &format!("SELECT COUNT(*) FROM {schema}.links"));
        assert_eq!(links, RESTARTS * LINKS);
        let skipped = drawn - links;
        println!(
            "{name:<8} {skipped:>8} skipped, {:>6} a restart",
            skipped / RESTARTS
        );
        if is_clean {
            assert_eq!(skipped, 0);
        }
    }
}

async fn create(replica: &Replica) {
    let http = client();
    let key = replica.key();
    for n in 0..LINKS {
        let request = http.post(format!("{}/api/v1/links", replica.url()));
        let body = json!({ "longUrl": format!("https://example.com/{n}") });
        let answer = request.header("x-api-key", &key).json(&body).send().await;
        let link: Value = answer.expect("an answer").json().await.expect("a link");
        code(&link);
    }
}

fn number(database: &MariaDb, sql: &str) -> u64 {
    database.execute(sql).trim().parse().expect("a number")
}
