//! Importing and exporting through the API.

use crate::helpers::{Running, send};
use edgelink_settings::config::StoreConfig;
use edgelink_store::connect;
use edgelink_transfer::{
    ApiClient, ExportOptions, ImportMemory, ImportOptions, Mapping, TransferError, export, import,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn client(server: &Running) -> ApiClient {
    ApiClient::new(&server.url(""), &server.admin_key).unwrap()
}

fn import_of(folder: &Path) -> ImportOptions {
    ImportOptions {
        file: folder.join("links"),
        mapping: Mapping::default(),
        report: folder.join("links.report"),
        checkpoint: folder.join("links.checkpoint"),
        batch: 3,
        memory: ImportMemory::default(),
        is_dry_run: false,
    }
}

fn export_to(path: &Path) -> ExportOptions {
    ExportOptions {
        file: path.to_owned(),
        checkpoint: path.with_extension("checkpoint"),
        domain: None,
    }
}

async fn targets(server: &Running) -> Vec<String> {
    let links = server.all_links().await;
    let mut targets: Vec<String> = links
        .iter()
        .map(|link| link["longUrl"].as_str().unwrap().to_owned())
        .collect();
    targets.sort();
    targets
}

#[tokio::test]
async fn import_line_when_bad_is_reported_by_number() {
    let server = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = import_of(folder.path());
    let text = b"\xef\xbb\xbfhttps://example.com/1\r\n\
        \r\n\
        nonsense\n\
        {\"longUrl\":\"https://example.com/2\",\"customSlug\":\"two\"}\n\
        {\"longUrl\":\"https://example.com/3\",\"customSlug\":\"two\"}\n\
        {broken\n\
        \xff\xfe\n\
        javascript:alert(1)\n\
        https://example.com/4";
    fs::write(&options.file, text).unwrap();
    let summary = import(&client(&server), &options).await.unwrap();
    assert_eq!((summary.records, summary.created), (9, 3));
    assert_eq!((summary.conflicts, summary.refused), (1, 4));
    let expected: Vec<String> = [1, 2, 4].map(|n| format!("https://example.com/{n}")).into();
    assert_eq!(targets(&server).await, expected);
    let report = fs::read_to_string(&options.report).unwrap();
    let entries: Vec<Value> = report
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let numbers: Vec<u64> = entries
        .iter()
        .map(|entry| entry["line"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [3, 5, 6, 7, 8], "{report}");
    assert_eq!(entries[1]["outcome"], "conflict");
    assert_eq!(entries[1]["link"]["customSlug"], "two");
    for part in [
        "nonsense",
        "customSlug is taken on this domain, by a link to https://example.com/2",
        "not valid JSON",
        "UTF-8",
        "longUrl",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
}

#[tokio::test]
async fn import_when_done_already_creates_nothing() {
    let server = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = import_of(folder.path());
    fs::write(
        &options.file,
        "https://example.com/1\nhttps://example.com/2\n",
    )
    .unwrap();
    let first = import(&client(&server), &options).await.unwrap();
    let second = import(&client(&server), &options).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(targets(&server).await.len(), 2);
}

/// A crash between the answer and the checkpoint: the batch is sent again.
#[tokio::test]
async fn import_when_killed_before_its_note_creates_no_link_twice() {
    let server = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = import_of(folder.path());
    let lines: Vec<String> = (0..8).map(|n| format!("https://example.com/{n}")).collect();
    fs::write(&options.file, format!("{}\nnonsense", lines.join("\n"))).unwrap();
    let summary = import(&client(&server), &options).await.unwrap();

    let text = fs::read(&options.checkpoint).unwrap();
    let mut checkpoint: Value = serde_json::from_slice(&text).unwrap();
    let second_batch = lines[..3].iter().map(|line| line.len() + 1).sum::<usize>();
    checkpoint["offset"] = json!(second_batch);
    checkpoint["reportBytes"] = json!(0);
    checkpoint["summary"] = json!({ "records": 3, "created": 3 });
    fs::write(&options.checkpoint, checkpoint.to_string()).unwrap();

    assert_eq!(import(&client(&server), &options).await.unwrap(), summary);
    assert_eq!(targets(&server).await, lines);
    let report = fs::read_to_string(&options.report).unwrap();
    assert_eq!(report.lines().count(), 1, "{report}");
}

/// The receipts of the batch are purged by then.
#[tokio::test]
async fn import_when_continued_after_a_day_creates_no_link_twice() {
    let server = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = import_of(folder.path());
    let lines: Vec<String> = (0..8).map(|n| format!("https://example.com/{n}")).collect();
    fs::write(&options.file, lines.join("\n")).unwrap();
    let summary = import(&client(&server), &options).await.unwrap();
    assert_eq!(summary.created, 8);

    let store = connect(&StoreConfig::at(&server.database())).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    assert!(store.unwrap().purge_receipts(0, 1_000).await.unwrap() >= 8);
    let text = fs::read(&options.checkpoint).unwrap();
    let mut checkpoint: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        checkpoint["sent"],
        Value::Null,
        "nothing is under way at the end"
    );
    checkpoint["offset"] = json!(0);
    checkpoint["summary"] = json!({});
    checkpoint["sent"] = json!({ "at": 1_700_000_000, "isLate": false });
    fs::write(&options.checkpoint, checkpoint.to_string()).unwrap();

    let summary = import(&client(&server), &options).await.unwrap();
    assert_eq!(
        (summary.existing, summary.created),
        (3, 5),
        "one batch was under way"
    );
    assert_eq!(targets(&server).await.len(), 8 + 5);
}

#[tokio::test]
async fn checkpoint_when_of_another_file_is_refused() {
    let server = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = import_of(folder.path());
    fs::write(&options.file, "https://example.com/1\n").unwrap();
    import(&client(&server), &options).await.unwrap();
    fs::write(&options.file, "https://example.com/2\n").unwrap();
    let error = import(&client(&server), &options).await.unwrap_err();
    assert!(matches!(error, TransferError::Checkpoint { .. }), "{error}");
}

#[tokio::test]
async fn import_when_its_key_is_wrong_stops_at_once() {
    let server = Running::start().await;
    let folder = tempfile::tempdir().unwrap();
    let options = import_of(folder.path());
    fs::write(&options.file, "https://example.com/1\n").unwrap();
    let client = ApiClient::new(&server.url("/"), "wrong").unwrap();
    let error = import(&client, &options).await.unwrap_err();
    assert!(error.to_string().contains("401"), "{error}");
}

#[tokio::test]
async fn link_when_exported_and_imported_keeps_all_fields() {
    let server = Running::start().await;
    let link = json!({
        "longUrl": "https://example.com/a?utm_source=x",
        "customSlug": "all",
        "domain": "other.example",
        "validSince": "2020-01-01T00:00:00Z",
        "validUntil": "2020-01-02T00:00:00Z",
        "redirectStatus": 308,
        "forwardQuery": false,
        "title": "T",
        "tags": ["a", "b"],
        "notes": "two\nlines",
        "state": "disabled",
        "archived": true,
        "maxVisits": 7,
        "expiredUrl": "https://example.com/expired",
        "forwardPath": true,
        "crawlable": true,
        "trackConversions": true,
        "hideReferrer": true,
        "externalId": "id 1",
    });
    server.post(&link).await.expect(201);
    let rules = json!({ "redirectRules": [
        { "longUrl": "https://example.com/de", "conditions": [
            { "type": "language", "matchKey": null, "matchValue": "de" },
            { "type": "query-param", "matchKey": "a", "matchValue": "b" },
        ] },
        { "longUrl": "https://example.com/ios", "conditions": [
            { "type": "device", "matchKey": null, "matchValue": "ios" },
        ] },
    ] });
    let set = server.api(Method::POST, "/links/all/rules?domain=other.example");
    send(set.json(&rules)).await.expect(200);
    let plain = server.link("plain").to("https://example.com/plain");
    plain.create().await;

    let folder = tempfile::tempdir().unwrap();
    let options = import_of(folder.path());
    let exported = export(&client(&server), &export_to(&options.file)).await;
    assert_eq!(exported.unwrap(), 2);
    let other = Running::start().await;
    let summary = import(&client(&other), &options).await.unwrap();
    assert_eq!((summary.created, summary.failed()), (2, 0));
    let all = async |server: &Running| {
        let list = server.get("/links?withRules=true").await.expect(200);
        let mut links = list["links"].as_array().unwrap().clone();
        for link in &mut links {
            link.as_object_mut().unwrap().remove("updatedAt");
        }
        links
    };
    assert_eq!(all(&other).await, all(&server).await);
    assert_eq!(all(&other).await[1]["redirectRules"][1]["priority"], 2);
}

#[tokio::test]
async fn links_when_imported_elsewhere_are_as_before() {
    let server = Running::start().await;
    for n in 0..600 {
        let link = server.link("").to(&format!("https://example.com/{n}"));
        link.tags(&["x"]).title("T").create().await;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = import_of(folder.path());
    let links = export(&client(&server), &export_to(&options.file))
        .await
        .unwrap();
    assert_eq!(links, 600);
    assert!(!folder.path().join("links.checkpoint").exists());

    let other = Running::start().await;
    let options = ImportOptions {
        batch: 500,
        ..options
    };
    let summary = import(&client(&other), &options).await.unwrap();
    assert_eq!((summary.created, summary.failed()), (600, 0));
    let exported = fs::read_to_string(&options.file).unwrap();
    for line in exported.lines().take(20) {
        let link: Value = serde_json::from_str(line).unwrap();
        let code = link["shortCode"].as_str().unwrap();
        let copy = other.get(&format!("/links/{code}")).await.expect(200);
        for field in [
            "longUrl",
            "tags",
            "title",
            "domain",
            "redirectStatus",
            "createdAt",
        ] {
            assert_eq!(copy[field], link[field]);
        }
    }
}
