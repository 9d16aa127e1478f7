//! Importing links with passwords, and how many passwords a request may set.

use crate::helpers::{Running, send};
use edgelink_settings::config::StoreConfig;
use edgelink_store::connect;
use edgelink_transfer::{
    ApiClient, Format, ImportMemory, ImportOptions, ImportSummary, Mapping, import,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// What a request may set.
const MOST: usize = 100;
const PASSWORD: &str = "open sesame";

fn options(folder: &Path, batch: usize) -> ImportOptions {
    ImportOptions {
        file: folder.join("links"),
        mapping: Mapping::default(),
        report: folder.join("report"),
        checkpoint: folder.join("checkpoint"),
        batch,
        memory: ImportMemory::default(),
        is_dry_run: false,
    }
}

async fn run(server: &Running, options: &ImportOptions) -> (ImportSummary, Vec<Value>) {
    let client = ApiClient::new(&server.url(""), &server.admin_key).unwrap();
    let summary = import(&client, options).await.unwrap();
    let report = fs::read_to_string(&options.report).unwrap();
    let entries = report
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (summary, entries.collect())
}

fn locked(slug: &str) -> Value {
    json!({ "longUrl": "https://example.com/", "customSlug": slug, "password": PASSWORD })
}

async fn post(server: &Running, path: &str, items: &Value) -> Value {
    send(server.api(Method::POST, path).json(items))
        .await
        .expect(200)
}

/// The fields of the problem of an item.
fn reason(item: &Value) -> &str {
    item["error"]["errors"][0]["reason"]
        .as_str()
        .unwrap_or_default()
}

/// Fails unless all of these items are done and the last is refused because of its password.
#[track_caller]
fn assert_only_the_last_is_too_many(answer: &Value) {
    let results = answer["results"].as_array().unwrap();
    let (last, others) = results.split_last().unwrap();
    for item in others {
        assert!(item["error"].is_null(), "{item}");
    }
    assert_eq!(last["status"], 422, "{last}");
    assert_eq!(last["error"]["invalidElements"], json!(["password"]));
    assert_eq!(reason(last), "may be set by at most 100 items of a request");
}

#[tokio::test]
async fn bulk_item_when_too_many_set_a_password_is_refused() {
    let server = Running::start().await;
    let items = |path: &str| {
        let items = (0..=MOST).map(|number| locked(&format!("{path}{number}")));
        Value::Array(items.collect())
    };
    assert_only_the_last_is_too_many(&post(&server, "/links/bulk", &items("a")).await);
    assert_only_the_last_is_too_many(&post(&server, "/import?dryRun=true", &items("b")).await);
    assert_only_the_last_is_too_many(&post(&server, "/import", &items("b")).await);
    let patches = (0..MOST)
        .map(|number| format!("a{number}"))
        .chain(["b0".to_owned()]);
    let patch = |slug| json!({ "shortCode": slug, "password": "other" });
    let patches: Vec<Value> = patches.map(patch).collect();
    let changed = server.api(Method::PATCH, "/links/bulk").json(&patches);
    assert_only_the_last_is_too_many(&send(changed).await.expect(200));
}

#[tokio::test]
async fn file_when_passwords_exceed_one_request_is_imported() {
    const LINKS: usize = 250;
    let server = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), 1_000);
    let line = |number: usize| match number % 2 {
        0 => locked(&format!("a{number}")),
        _ => {
            json!({ "longUrl": "https://example.com/", "customSlug": format!("a{number}"), "password": null })
        }
    };
    let lines: Vec<String> = (0..2 * LINKS)
        .map(|number| line(number).to_string())
        .collect();
    fs::write(&options.file, lines.join("\n")).unwrap();
    let dry = ImportOptions {
        is_dry_run: true,
        ..options.clone()
    };
    let (foreseen, report) = run(&server, &dry).await;
    assert_eq!((foreseen.created, report.len()), (2 * LINKS as u64, 0));
    let (summary, report) = run(&server, &options).await;
    assert_eq!((summary, report.len()), (foreseen, 0));
    let links = server.all_links().await;
    let with_password = links.iter().filter(|link| link["hasPassword"] == true);
    assert_eq!(with_password.count(), LINKS);
}

/// The receipts of the batch are purged by then, and `findIfExists` finds no link with a password.
#[tokio::test]
async fn batch_when_sent_again_after_a_day_creates_no_second_link() {
    let server = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path(), 10);
    let line = |number: usize, with: Value| {
        let mut line =
            json!({ "longUrl": format!("https://example.com/{number}"), "password": PASSWORD });
        line.as_object_mut()
            .unwrap()
            .extend(with.as_object().unwrap().clone());
        line.to_string()
    };
    let lines = [
        line(1, json!({})),
        line(2, json!({ "customSlug": "two" })),
        line(3, json!({ "password": null })),
        line(4, json!({ "customSlug": null })),
    ];
    fs::write(&options.file, lines.join("\n")).unwrap();
    assert_eq!(run(&server, &options).await.0.created, 4);

    let store = connect(&StoreConfig::at(&server.database())).await.unwrap();
    while store.purge_receipts(0, 1_000).await.unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    let text = fs::read(&options.checkpoint).unwrap();
    let mut checkpoint: Value = serde_json::from_slice(&text).unwrap();
    checkpoint["offset"] = json!(0);
    checkpoint["summary"] = json!({});
    checkpoint["sent"] = json!({ "at": 1_700_000_000, "isLate": false });
    fs::write(&options.checkpoint, checkpoint.to_string()).unwrap();

    let (summary, report) = run(&server, &options).await;
    assert_eq!(
        (summary.created, summary.existing, summary.refused),
        (0, 2, 2)
    );
    assert_eq!(server.all_links().await.len(), 4);
    let lines: Vec<&Value> = report.iter().map(|entry| &entry["line"]).collect();
    assert_eq!(lines, [&json!(1), &json!(4)]);
    for entry in &report {
        assert!(
            entry["reason"].as_str().unwrap().starts_with("may exist"),
            "{entry}"
        );
    }
}

#[tokio::test]
async fn item_when_locked_and_its_link_is_open_conflicts() {
    let server = Running::start().await;
    let open = json!({ "longUrl": "https://example.com/", "customSlug": "a" });
    server.post(&open).await.expect(201);
    for path in ["/import?dryRun=true", "/import"] {
        // The second one has the code of an item before.
        let items = json!([locked("a"), { "longUrl": "https://example.com/", "customSlug": "b" }, locked("b")]);
        let answer = post(&server, path, &items).await;
        for index in [0, 2] {
            let item = &answer["results"][index];
            assert_eq!(item["status"], 409, "{path} {index}: {item}");
            let expected =
                "is taken on this domain, by a link to https://example.com/ without a password";
            assert_eq!(reason(item), expected, "{path}");
        }
    }
    // A link with a password is that of both kinds of items.
    server
        .patch("/links/a", &json!({ "password": "other" }))
        .await
        .expect(200);
    let answer = post(&server, "/import", &json!([locked("a"), open])).await;
    assert_eq!(answer["existing"], 2, "{answer}");
}

#[tokio::test]
async fn dry_run_when_earlier_batch_has_an_open_link_foresees_it() {
    let server = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = ImportOptions {
        is_dry_run: true,
        ..options(folder.path(), 1)
    };
    let open = json!({ "longUrl": "https://example.com/", "customSlug": "a" });
    fs::write(&options.file, format!("{open}\n{}\n{open}", locked("a"))).unwrap();
    let (foreseen, _) = run(&server, &options).await;
    let real = ImportOptions {
        is_dry_run: false,
        ..options.clone()
    };
    let (done, _) = run(&server, &real).await;
    assert_eq!((done.created, done.conflicts, done.existing), (1, 1, 1));
    assert_eq!(foreseen, done);
}

/// Fails if the report of these bytes has the password.
async fn reported(server: &Running, format: Format, text: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), 10);
    options.mapping.format = Some(format);
    fs::write(&options.file, text).unwrap();
    let (_, report) = run(server, &options).await;
    let written = fs::read_to_string(&options.report).unwrap();
    assert!(!written.contains(PASSWORD), "{written}");
    report
}

#[tokio::test]
async fn report_when_items_have_passwords_hides_them() {
    let server = Running::start().await;
    let lines = [
        json!({ "longUrl": "nonsense", "password": PASSWORD }).to_string(),
        json!({ "longUrl": "nonsense", "password": null }).to_string(),
        format!("{{\"longUrl\":\"https://example.com/\",\"password\":\"{PASSWORD}\""),
        "{broken".to_owned(),
    ];
    let report = reported(&server, Format::Edgelink, &lines.join("\n")).await;
    assert_eq!(report[0]["link"]["password"], true);
    assert_eq!(
        report[0]["source"],
        r#"{"longUrl":"nonsense","password":true}"#
    );
    assert_eq!(report[1]["link"]["password"], Value::Null);
    assert_eq!(report[2]["source"], "not shown, as it may hold a password");
    assert_eq!(report[3]["source"], "{broken");
    let csv = format!("code,target,Link password\nx,nonsense,{PASSWORD}\n");
    let report = reported(&server, Format::Csv, &csv).await;
    assert_eq!(report[0]["source"]["Link password"], true, "{report:?}");
}

#[tokio::test]
async fn link_when_locked_elsewhere_is_imported_disabled() {
    let server = Running::start().await;
    let csv = "code,target,password\na,https://example.com/,p\nb,https://example.com/,\nc,https://example.com/,false\n";
    let report = reported(&server, Format::Csv, csv).await;
    assert_eq!(report.len(), 1);
    assert_eq!(report[0]["link"]["state"], "disabled");
    server.follow("/a").await.page(410, "");
    for open in ["/b", "/c"] {
        server
            .follow(open)
            .await
            .redirects(302, "https://example.com/");
    }
}
