//! Real URLs, created through the API and followed through Envoy: every twentieth line of the file, or with
//! `EDGELINK_EVERY_URL` (`make test-urls`) all of them.

use edgelink_tests::scenario::{DOMAIN, Request};
use edgelink_tests::stack::{Connection, Deployment, EnvoyOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::task::JoinSet;

const CLIENTS: usize = 16;
const STEP: usize = 20;

/// What became of one line.
enum Fate {
    /// Created, and followed to exactly the URL that the API answered.
    Followed { long_url: String },
    /// Refused by the API with this reason.
    Refused(String),
    /// Created, but followed to somewhere else.
    Wrong(String),
}

#[tokio::test(flavor = "multi_thread")]
async fn real_urls_when_followed_stay_the_same_byte_for_byte() {
    let edgelink = Arc::new(Deployment::start(&EnvoyOptions::default()).await);
    let lines = lines();
    let total = lines.len();
    let queue = Arc::new(Mutex::new(lines.into_iter()));
    let start = Instant::now();

    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(work_off(Arc::clone(&edgelink), Arc::clone(&queue)));
    }
    let fates: Vec<_> = clients.join_all().await.into_iter().flatten().collect();

    println!("{total} lines in {:.1?}", start.elapsed());
    report_and_check(&fates, total);
    edgelink.envoy.assert_unharmed().await;
}

/// The lines as an importer reads them: without the byte order mark and the line ends.
fn lines() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/urls-kasztp.txt");
    let text = std::fs::read_to_string(file).expect("the URLs");
    let step = if std::env::var_os("EDGELINK_EVERY_URL").is_some() {
        1
    } else {
        STEP
    };
    let lines = text.trim_start_matches('\u{feff}').lines();
    lines.step_by(step).map(str::to_owned).collect()
}

async fn work_off(
    edgelink: Arc<Deployment>,
    queue: Arc<Mutex<std::vec::IntoIter<String>>>,
) -> Vec<(String, Fate)> {
    let mut api = edgelink.control_plane.connect().await;
    let mut edge = edgelink.envoy.connect().await;
    let mut fates = Vec::new();
    loop {
        let Some(line) = queue.lock().expect("the queue").next() else {
            return fates;
        };
        let fate = fate_of(&edgelink, &mut api, &mut edge, &line).await;
        fates.push((line, fate));
    }
}

async fn fate_of(
    edgelink: &Deployment,
    api: &mut Connection,
    edge: &mut Connection,
    line: &str,
) -> Fate {
    let link = json!({ "longUrl": line });
    let created = edgelink
        .control_plane
        .api_over(api, "POST", "/links", &link)
        .await;
    let created = created.expect("an answer of the API");
    if created.status != 201 {
        return Fate::Refused(reason(created.status, &created.body));
    }
    let long_url = created.text("longUrl").to_owned();
    let prefix = format!("http://{DOMAIN}");
    let path = created
        .text("shortUrl")
        .strip_prefix(&prefix)
        .expect("our domain");
    let answer = edge
        .exchange(&Request::get(path), b"")
        .await
        .expect("an answer");
    if answer.status == 302 && answer.location() == Some(&long_url) {
        Fate::Followed { long_url }
    } else {
        Fate::Wrong(format!("{answer:?}"))
    }
}

fn reason(status: u16, body: &Value) -> String {
    let detail = body["errors"][0].as_object();
    detail.map_or_else(
        || format!("{status} {body}"),
        |error| format!("{status} {error:?}"),
    )
}

fn report_and_check(fates: &[(String, Fate)], total: usize) {
    let mut equal = 0;
    let mut rewritten = Vec::new();
    let mut refused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (line, fate) in fates {
        match fate {
            Fate::Followed { long_url } if long_url == line => equal += 1,
            Fate::Followed { long_url } => rewritten.push((line, long_url)),
            Fate::Refused(reason) => refused.entry(reason).or_default().push(line),
            Fate::Wrong(what) => wrong.push((line, what)),
        }
    }
    println!("followed, Location byte-equal to the line: {equal}");
    println!(
        "followed, Location byte-equal to the longUrl answered, which differs from the line: {}",
        rewritten.len()
    );
    for (line, long_url) in &rewritten {
        println!("  {line} -> {long_url}");
    }
    for (reason, lines) in &refused {
        println!("refused, {reason}: {}", lines.len());
        for line in lines {
            println!("  {line:?}");
        }
    }
    println!("followed to somewhere else: {}", wrong.len());

    assert_eq!(fates.len(), total);
    assert!(wrong.is_empty(), "{:?}", wrong.first());
    // Only what may not stand in a URL is rewritten, and only what has no host is refused.
    assert!(
        rewritten.iter().all(|(line, _)| line.contains(' ')),
        "{rewritten:?}"
    );
    let has_no_host = |line: &str| line == "https://" || line.starts_with("https://\"");
    assert!(
        refused.values().flatten().all(|line| has_no_host(line)),
        "{refused:?}"
    );
}
