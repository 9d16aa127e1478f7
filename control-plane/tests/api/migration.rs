//! Coming from other systems: `POST /import`, and the command with their files.

use crate::helpers::{Running, send};
use edgelink_transfer::{
    ApiClient, Format, ImportMemory, ImportOptions, ImportSummary, Mapping, import,
};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// What an import has done, and its report.
struct Imported {
    summary: ImportSummary,
    report: Vec<Value>,
}

impl Imported {
    /// Line, outcome and reason of each entry of the report.
    fn entries(&self) -> Vec<(u64, &str, &str)> {
        self.report
            .iter()
            .map(|entry| {
                (
                    entry["line"].as_u64().unwrap(),
                    entry["outcome"].as_str().unwrap(),
                    entry["reason"].as_str().unwrap(),
                )
            })
            .collect()
    }
}

fn mapping(format: Format) -> Mapping {
    Mapping {
        format: Some(format),
        domains: [("s.test".to_owned(), "go.example:8080".to_owned())].into(),
        ..Mapping::default()
    }
}

/// Imports a text in a folder of its own, so that no progress of another import counts.
async fn run(server: &Running, mapping: Mapping, text: &[u8], is_dry_run: bool) -> Imported {
    let folder = TempDir::new().unwrap();
    let options = options(folder.path(), mapping, is_dry_run);
    fs::write(&options.file, text).unwrap();
    let client = ApiClient::new(&server.url(""), &server.admin_key).unwrap();
    let summary = import(&client, &options).await.unwrap();
    assert_eq!(options.checkpoint.exists(), !is_dry_run);
    let report = fs::read_to_string(&options.report).unwrap();
    let report = report
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    Imported { summary, report }
}

fn options(folder: &Path, mapping: Mapping, is_dry_run: bool) -> ImportOptions {
    ImportOptions {
        file: folder.join("links"),
        mapping,
        report: folder.join("report"),
        checkpoint: folder.join("checkpoint"),
        batch: 3,
        memory: ImportMemory::default(),
        is_dry_run,
    }
}

/// Imports a text as a dry run, for real, and again: a dry run foretells what is done and does nothing, and a repetition
/// changes nothing.
async fn thrice(server: &Running, format: Format, text: &[u8]) -> Imported {
    let foretold = run(server, mapping(format), text, true).await;
    assert!(server.all_links().await.is_empty());
    let done = run(server, mapping(format), text, false).await;
    assert_eq!(foretold.summary, done.summary);
    let outcomes = |imported: &Imported| -> Vec<_> {
        let entries = imported.entries().into_iter();
        let entries = entries.map(|(line, outcome, _)| (line, outcome.to_owned()));
        entries.collect()
    };
    assert_eq!(outcomes(&foretold), outcomes(&done));
    let links = server.all_links().await;
    let again = run(server, mapping(format), text, false).await;
    assert_eq!((again.summary.created, again.summary.visits), (0, 0));
    let there = done.summary.created + done.summary.existing;
    assert_eq!(again.summary.existing, there);
    assert_eq!(again.summary.failed(), done.summary.failed());
    assert_eq!(server.all_links().await, links);
    done
}

/// The fields of a link that imports set.
async fn link(server: &Running, code: &str) -> Value {
    let link = server.get(&format!("/links/{code}")).await.expect(200);
    json!([
        link["longUrl"],
        link["createdAt"],
        link["importedVisits"],
        link["title"],
        link["tags"],
        link["forwardQuery"],
    ])
}

const WEB_CLIENT: &str = "\u{feff}createdAt,domain,shortCode,shortUrl,longUrl,title,tags,visits\r\n\
2016-08-21T20:34:16+02:00,s.test,12C18,https://s.test/12C18,https://store.steampowered.com/?a=b,\"He said \"\"hi\"\",\r\nthere\",games|tech,328\r\n\
2016-08-21T20:34:16+02:00,s.test,12c18,https://s.test/12c18,https://example.com/\u{fc},=HYPERLINK(1),,0\r\n\
2016-08-21T20:34:16+02:00,other.example,12C18,https://other.example/12C18,https://example.com/other,,,7\r\n\
2016-08-21T20:34:16+02:00,s.test,a/b,https://s.test/a/b,https://example.com/,,,1\r\n\
2016-08-21T20:34:16+02:00,s.test,caf\u{e9},https://s.test/caf%C3%A9,https://example.com/,,,1\r\n\
yesterday,s.test,bad-date,https://s.test/bad-date,https://example.com/,,,1\r\n\
2016-08-21T20:34:16+02:00,unknown.test,x1,https://unknown.test/x1,https://example.com/,,,1\r\n\
2016-08-21T20:34:16+02:00,s.test,api,https://s.test/api,https://example.com/,,,1\r\n\
2016-08-21T20:34:16+02:00,s.test,12C18,https://s.test/12C18,https://example.com/else,,,1\r\n\
2016-08-21T20:34:16+02:00,s.test,12C18,https://s.test/12C18,https://store.steampowered.com/?a=b,,,1\r\n\
,,,,,,,\r\n\
2016-08-21T20:34:16+02:00,s.test,nothing,https://s.test/nothing,,,,1\r\n\
one,two,three,four,five,six,seven,eight,nine\r\n\
2016-08-21T20:34:16+02:00,s.test,js,https://s.test/js,javascript:alert(1),,,1\r\n\
2016-08-21T20:34:16+02:00,s.test,visits,https://s.test/visits,https://example.com/,,,many\r\n";

#[tokio::test]
async fn shlink_csv_when_of_the_web_client_keeps_its_fields() {
    let server = Running::start().await;
    let done = thrice(&server, Format::ShlinkCsv, WEB_CLIENT.as_bytes()).await;
    let summary = &done.summary;
    assert_eq!(
        (summary.records, summary.created, summary.visits),
        (15, 5, 336)
    );
    assert_eq!(
        (summary.existing, summary.conflicts, summary.refused),
        (1, 1, 7)
    );
    let reasons: Vec<(u64, &str, &str)> = done.entries();
    let expected = [
        (6, "refused", "customSlug may have only"),
        (7, "refused", "customSlug may have only"),
        (8, "created", "createdAt is not kept: yesterday"),
        (9, "refused", "domain is not a domain of this shortener"),
        (10, "refused", "customSlug is a reserved word"),
        (11, "conflict", "customSlug is taken on this domain"),
        (14, "refused", "has no long URL"),
        (15, "refused", "has 9 fields, and there are 8 columns"),
        (16, "refused", "longUrl must start with http"),
        (17, "created", "visits is not kept: many"),
    ];
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for (found, wanted) in reasons.iter().zip(expected) {
        assert_eq!((found.0, found.1), (wanted.0, wanted.1), "{found:?}");
        assert!(found.2.contains(wanted.2), "{found:?} {wanted:?}");
    }
    assert_eq!(
        link(&server, "12C18").await,
        json!([
            "https://store.steampowered.com/?a=b",
            "2016-08-21T18:34:16.000Z",
            328,
            "He said \"hi\", there",
            ["games", "tech"],
            true
        ])
    );
    assert_eq!(link(&server, "12c18").await[3], "=HYPERLINK(1)");
    assert_eq!(link(&server, "12C18?domain=other.example").await[2], 7);
    server
        .follow("/12C18")
        .await
        .redirects(302, "https://store.steampowered.com/?a=b");
}

#[tokio::test]
async fn shlink_csv_when_of_command_line_or_importer_is_read() {
    let server = Running::start().await;
    let text = "Short Code;Title;Short URL;Long URL;Date created;Visits count;Tags\n\
        abc;T;https://s.test/abc;https://example.com/;2024-01-31T09:15:01+00:00;5;one, two\n";
    thrice(&server, Format::ShlinkCsv, text.as_bytes()).await;
    let expected = json!([
        "https://example.com/",
        "2024-01-31T09:15:01.000Z",
        5,
        "T",
        ["one", "two"],
        true
    ]);
    assert_eq!(link(&server, "abc").await, expected);

    let text = "Long URL,Short code,Domain,Title,Tags\nhttps://example.com/2,def,,,a|b\n";
    let done = run(&server, mapping(Format::ShlinkCsv), text.as_bytes(), false).await;
    assert_eq!(done.summary.created, 1);
    assert_eq!(link(&server, "def").await[4], json!(["a", "b"]));
}

const SHLINK_API: &str = r#"{"shortUrls":{"data":[
  {"shortCode":"12C18","shortUrl":"https://s.test/12C18","longUrl":"https://store.steampowered.com","dateCreated":"2016-08-21T20:34:16+02:00",
   "visitsSummary":{"total":328,"nonBots":285,"bots":43},"visitsCount":328,"tags":["games","tech"],
   "meta":{"validSince":"2017-01-21T00:00:00+02:00","validUntil":null,"maxVisits":1000},"domain":null,"title":null,"crawlable":false,
   "forwardQuery":false,"hasRedirectRules":true,
   "redirectRules":[{"longUrl":"https://example.com/ios","priority":1,"conditions":[{"type":"device","matchKey":null,"matchValue":"ios"}]}]},
  {"shortCode":"x","shortUrl":"https://other.example/x","longUrl":"https://shlink.io","dateCreated":"2016-05-01T20:34:16+02:00",
   "visitsCount":3,"tags":[],"meta":{"validSince":null,"validUntil":null,"maxVisits":3},"domain":"other.example","title":"S","forwardQuery":true}],
  "pagination":{"currentPage":1,"pagesCount":1}}}"#;

#[tokio::test]
async fn shlink_api_page_when_read_keeps_rules_and_notes_losses() {
    let server = Running::start().await;
    let done = thrice(&server, Format::ShlinkApi, SHLINK_API.as_bytes()).await;
    assert_eq!((done.summary.created, done.summary.visits), (2, 331));
    let notes: Vec<&str> = done.entries().iter().map(|entry| entry.2).collect();
    let expected = [
        "672 of 1000 visits are left, which are its limit now",
        "its limit of 3 visits is used up, so it is disabled",
    ];
    assert_eq!(notes, expected);
    let link = server.get("/links/12C18").await.expect(200);
    assert_eq!(link["validSince"], "2017-01-20T22:00:00Z");
    assert_eq!(link["maxVisits"], 672);
    assert_eq!(link["forwardQuery"], false);
    let rules = server.get("/links/12C18/rules").await.expect(200);
    assert_eq!(
        rules["redirectRules"][0]["longUrl"],
        "https://example.com/ios"
    );
    server
        .get("/links/x?domain=other.example")
        .await
        .expect(200);
}

const YOURLS_SQL: &str = "-- MySQL dump 10.13\n\
CREATE TABLE `yourls_url` (`keyword` varchar(100) NOT NULL, `url` text, `title` text, `timestamp` timestamp, `ip` varchar(41), \
`clicks` int(10) unsigned NOT NULL, PRIMARY KEY (`keyword`));\n\
INSERT INTO `yourls_url` VALUES ('ozh','https://ozh.org/','ozh\\'s; \"page\"\\n','2014-03-08 00:35:07','127.0.0.1',12),\
('dotted.key','https://example.com/','x','2014-03-08 00:35:07','::1',1),\n\
('zero','https://example.com/zero',NULL,'0000-00-00 00:00:00','',0);\n\
INSERT INTO `yourls_log` VALUES (1,'2014-03-08 00:35:07','ozh','direct','','127.0.0.1','');\n";

#[tokio::test]
async fn yourls_dump_when_read_keeps_keywords_dates_and_clicks() {
    let server = Running::start().await;
    let done = thrice(&server, Format::Yourls, YOURLS_SQL.as_bytes()).await;
    assert_eq!(
        (
            done.summary.created,
            done.summary.visits,
            done.summary.refused
        ),
        (2, 12, 1)
    );
    assert_eq!(done.report[0]["source"]["keyword"], "dotted.key");
    let expected = json!([
        "https://ozh.org/",
        "2014-03-08T00:35:07.000Z",
        12,
        "ozh's; \"page\"",
        [],
        false
    ]);
    assert_eq!(link(&server, "ozh").await, expected);
}

#[tokio::test]
async fn yourls_links_when_of_csv_plugin_or_api_are_read() {
    for (text, created_at, clicks) in [
        (
            "keyword,url,title,timestamp,ip,clicks\nabc,https://example.com/,T,2014-03-08 00:35:07,::1,4\n",
            Some("2014-03-08T00:35:07.000Z"),
            4,
        ),
        (
            "\"abc\",\"https://example.com/\",\"T\",\"2014-03-08 00:35:07\",\"::1\",\"4\"\r\n",
            Some("2014-03-08T00:35:07.000Z"),
            4,
        ),
        (
            "source,target,hits\r\n/abc/,https://example.com/,9\r\n",
            None,
            9,
        ),
        (
            r#"{"links":{"link_1":{"shorturl":"https://s.test/abc","url":"https://example.com/","title":"T",
                "timestamp":"2014-03-08 00:35:07","ip":"::1","clicks":"4"}},"stats":{},"statusCode":200}"#,
            Some("2014-03-08T00:35:07.000Z"),
            4,
        ),
    ] {
        let server = Running::start().await;
        thrice(&server, Format::Yourls, text.as_bytes()).await;
        let link = link(&server, "abc").await;
        assert_eq!(
            (&link[0], &link[2]),
            (&json!("https://example.com/"), &json!(clicks))
        );
        if let Some(created_at) = created_at {
            assert_eq!(link[1], created_at, "{text}");
        }
    }
}

const KUTT: &str = r#"{"total":3,"limit":50,"skip":0,"data":[
  {"id":"6f1b6f3e-0000","address":"kutt01","banned":false,"created_at":"2024-01-31T09:15:01.000Z","updated_at":"2024-01-31T09:15:01.000Z",
   "password":false,"description":"D","expire_in":null,"target":"https://example.com/k","visit_count":10,"domain":null,"link":"https://s.test/kutt01"},
  {"id":"6f1b6f3e-0001","address":"secret","banned":false,"created_at":"2024-01-31T09:15:01.000Z","password":true,
   "expire_in":"2999-01-01T00:00:00.000Z","target":"https://example.com/s","visit_count":1,"domain":"other.example","link":"https://other.example/secret"},
  {"id":"6f1b6f3e-0002","address":"banned","banned":true,"created_at":"2024-01-31T09:15:01.000Z","target":"https://example.com/b","visit_count":0}]}"#;

#[tokio::test]
async fn kutt_links_when_read_keep_their_fields() {
    let server = Running::start().await;
    let done = thrice(&server, Format::Kutt, KUTT.as_bytes()).await;
    assert_eq!((done.summary.created, done.summary.visits), (3, 11));
    let note = "its password is not kept, so it is disabled: set one, and enable it";
    assert_eq!(done.entries(), [(2, "created", note)]);
    let expected = json!([
        "https://example.com/k",
        "2024-01-31T09:15:01.000Z",
        10,
        "D",
        [],
        false
    ]);
    assert_eq!(link(&server, "kutt01").await, expected);
    let secret = server
        .get("/links/secret?domain=other.example")
        .await
        .expect(200);
    assert_eq!(secret["validUntil"], "2999-01-01T00:00:00Z");
    assert_eq!(secret["state"], "disabled", "it would be open to all");
    assert_eq!(
        server.get("/links/banned").await.expect(200)["state"],
        "disabled"
    );
}

const BITLY: &str = r#"{"links":[
  {"created_at":"2022-10-24T10:40:37+0000","id":"bit.ly/3SD8bAQ","link":"https://bit.ly/3SD8bAQ","custom_bitlinks":[],
   "long_url":"https://example.com/b","archived":false,"tags":["t"],"deeplinks":[],"title":"B"},
  {"created_at":"2022-10-24T10:40:37+0000","id":"bit.ly/4","link":"https://bit.ly/4","archived":true,"tags":[],
   "custom_bitlinks":["https://other.example/sale","https://s.test/Sale"],"long_url":"https://example.com/sale"}],
  "pagination":{"next":""}}"#;

#[tokio::test]
async fn bitly_links_when_read_keep_all_their_keys() {
    let server = Running::start().await;
    let mut mapping = mapping(Format::Bitly);
    let done = run(&server, mapping.clone(), BITLY.as_bytes(), false).await;
    assert_eq!((done.summary.created, done.summary.refused), (2, 2));
    assert_eq!(
        done.entries()[0].2,
        "domain is not a domain of this shortener"
    );
    assert_eq!(
        server.get("/links/Sale").await.expect(200)["archived"],
        true
    );
    server
        .get("/links/sale?domain=other.example")
        .await
        .expect(200);
    mapping
        .domains
        .insert("bit.ly".to_owned(), "other.example".to_owned());
    let done = run(&server, mapping.clone(), BITLY.as_bytes(), false).await;
    assert_eq!((done.summary.created, done.summary.existing), (2, 2));
    let bitlink = link(&server, "3SD8bAQ?domain=other.example").await;
    assert_eq!(
        bitlink,
        json!([
            "https://example.com/b",
            "2022-10-24T10:40:37.000Z",
            0,
            "B",
            ["t"],
            false
        ])
    );

    let csv = "Link,Custom Link,Title,Destination URL,Created,Engagements\n\
        bit.ly/5,https://s.test/five,F,https://example.com/5,2022-10-24,17\n";
    let done = run(&server, mapping, csv.as_bytes(), false).await;
    assert_eq!((done.summary.created, done.summary.visits), (2, 17));
    assert_eq!(link(&server, "five").await[1], "2022-10-24T00:00:00.000Z");
}

#[tokio::test]
async fn csv_columns_when_in_any_order_are_found_by_name() {
    let server = Running::start().await;
    let long = "t".repeat(600);
    let text = format!(
        "Slug\tDestination\tTitle\tValid until\tNotes\n\
         one\thttps://example.com/1\t{long}\t2999-01-01\t\n\
         \thttps://example.com/2\tissued\t\tn\n"
    );
    let done = run(&server, mapping(Format::Csv), text.as_bytes(), false).await;
    assert_eq!((done.summary.created, done.summary.noted), (2, 1));
    let one = server.get("/links/one").await.expect(200);
    assert_eq!(one["title"].as_str().unwrap().len(), 512);
    assert_eq!(one["notes"], long);
    assert_eq!(one["validUntil"], "2999-01-01T00:00:00Z");
    assert_eq!(server.all_links().await.len(), 2);
}

#[tokio::test]
async fn import_when_without_history_needs_no_admin_key() {
    let server = Running::start().await;
    let key = json!({ "name": "editor", "role": "editor" });
    let key = send(server.api(Method::POST, "/keys").json(&key))
        .await
        .expect(201);
    let client = ApiClient::new(&server.url(""), key["key"].as_str().unwrap()).unwrap();
    for (is_without_history, created, refused) in [(false, 0, 2), (true, 2, 0)] {
        let folder = TempDir::new().unwrap();
        let mapping = Mapping {
            is_without_history,
            ..mapping(Format::Csv)
        };
        let options = options(folder.path(), mapping, false);
        let text = "slug,url,createdAt,visits\na,https://example.com/,2024-01-01,\nb,https://example.com/,,3\n";
        fs::write(&options.file, text).unwrap();
        let summary = import(&client, &options).await.unwrap();
        assert_eq!((summary.created, summary.refused), (created, refused));
    }
    assert_eq!(link(&server, "b").await[2], 0);
}

async fn post(server: &Running, path: &str, items: &Value) -> Value {
    send(server.api(Method::POST, path).json(items))
        .await
        .expect(200)
}

#[tokio::test]
async fn import_item_when_fields_are_wrong_names_them() {
    let server = Running::start().await;
    let items = json!([
        { "longUrl": "x", "createdAt": "2999-01-01T00:00:00Z", "importedVisits": -1, "redirectRules": [{}], "nonsense": 1 },
        { "longUrl": "https://example.com/", "createdAt": "1969-12-31T23:59:59Z" },
        { "longUrl": "https://example.com/", "importedVisits": 9_007_199_254_740_992_u64 },
        7,
        { "longUrl": "https://example.com/", "customSlug": "fits", "importedVisits": 9_007_199_254_740_991_u64 },
    ]);
    for path in ["/import?dryRun=true", "/import"] {
        let answer = post(&server, path, &items).await;
        assert_eq!(
            (&answer["created"], &answer["failed"]),
            (&json!(1), &json!(4)),
            "{answer}"
        );
        let named = answer["results"][0]["error"]["invalidElements"]
            .as_array()
            .unwrap();
        for field in [
            "longUrl",
            "createdAt",
            "importedVisits",
            "redirectRules[0].longUrl",
            "nonsense",
        ] {
            assert!(named.contains(&json!(field)), "{field}: {named:?}");
        }
        for (index, field) in [(1, "createdAt"), (2, "importedVisits")] {
            let error = &answer["results"][index]["error"];
            assert_eq!(error["invalidElements"], json!([field]));
        }
    }
    let answer = send(server.api(Method::POST, "/import?dryRun=1").json(&items)).await;
    assert_eq!(answer.problem(422, "validation"), ["dryRun"]);
    let link = server.get("/links/fits").await.expect(200);
    assert_eq!(link["importedVisits"], 9_007_199_254_740_991_u64);
}

#[tokio::test]
async fn import_request_when_repeated_has_its_first_answer() {
    let server = Running::start().await;
    let items = json!([
        { "longUrl": "https://example.com/a", "customSlug": "a", "importedVisits": 3 },
        { "longUrl": "https://example.com/b" },
    ]);
    let send = async || {
        let request = server.api(Method::POST, "/import").json(&items);
        send(request.header("idempotency-key", "k"))
            .await
            .expect(200)
    };
    let first = send().await;
    assert_eq!(send().await, first);
    assert_eq!(server.all_links().await.len(), 2);
    // Its visits are those of the link that was created.
    let more = json!([{ "longUrl": "https://example.com/a", "customSlug": "a", "importedVisits": 9, "title": "new" }]);
    let answer = post(&server, "/import", &more).await;
    assert_eq!(
        (
            &answer["existing"],
            &answer["results"][0]["link"]["importedVisits"]
        ),
        (&json!(1), &json!(3))
    );
    assert_eq!(link(&server, "a").await[3], Value::Null);
}

/// A code that the permutation key can have generated gets its number, so that it is not issued.
#[tokio::test]
async fn generated_code_when_code_key_differs_becomes_an_alias() {
    let key = [(
        "EDGELINK_LINKS_CODE_KEY",
        "000102030405060708090a0b0c0d0e0f",
    )];
    let other = [(
        "EDGELINK_LINKS_CODE_KEY",
        "ffffffffffffffffffffffffffffffff",
    )];
    let first = Running::with(&key).await;
    let mut lines = String::new();
    for n in 0..5 {
        let link = first.link("").to(&format!("https://example.com/{n}"));
        let link = link.create().await;
        // Last first, so that numbers that are issued are others.
        lines = format!("{}\n{lines}", link.body);
    }
    let numbers = numbers(&first).await;
    for (variables, agrees) in [(&key, true), (&other, false)] {
        let second = Running::with(variables).await;
        let done = run(&second, mapping(Format::Edgelink), lines.as_bytes(), false).await;
        assert_eq!(done.summary.created, 5);
        assert_eq!(self::numbers(&second).await == numbers, agrees);
        for n in 0..5 {
            let link = second.link("").to(&format!("https://example.com/new/{n}"));
            let link = link.create().await;
            assert!(!lines.contains(link.code()));
        }
    }
}

/// The numbers of links, by their codes.
async fn numbers(server: &Running) -> Vec<(String, i64)> {
    let mut database = SqliteConnection::connect(&server.database()).await.unwrap();
    let query = sqlx::query_as("SELECT code, id FROM links ORDER BY code");
    query.fetch_all(&mut database).await.unwrap()
}

/// How many links come from each system: 100,000 with `EDGELINK_IMPORT_LINKS=100000`.
fn many() -> u64 {
    let many = std::env::var("EDGELINK_IMPORT_LINKS");
    many.map_or(2_000, |many| many.parse().unwrap())
}

/// Links, visits, tags of links, the sum of creation times in seconds, and the newest revision.
async fn counts(server: &Running) -> (i64, i64, i64, i64, i64) {
    let mut database = SqliteConnection::connect(&server.database()).await.unwrap();
    let query = sqlx::query_as(
        "SELECT COUNT(*), SUM(imported_visits), (SELECT COUNT(*) FROM link_tags), SUM(created_at / 1000), MAX(rev) \
         FROM links WHERE deleted_at IS NULL",
    );
    query.fetch_one(&mut database).await.unwrap()
}

#[tokio::test]
async fn links_when_imported_by_thousands_are_all_there_once() {
    let many = many();
    // 2020-01-01T00:00:00Z, and a second more for each.
    let first = 1_577_836_800;
    let at = |n: u64| time::OffsetDateTime::from_unix_timestamp((first + n).cast_signed()).unwrap();
    let rfc3339 = &time::format_description::well_known::Rfc3339;
    let mut shlink = "createdAt,domain,shortCode,shortUrl,longUrl,title,tags,visits\n".to_owned();
    let mut yourls = "INSERT INTO `yourls_url` VALUES ".to_owned();
    let (mut visits, mut tags) = (0, 0);
    for n in 0..many {
        let created = at(n).format(rfc3339).unwrap();
        let list = ["", "a", "a|b"][n as usize % 3];
        tags += n % 3;
        visits += n % 7 + n % 5;
        shlink += &format!(
            "{created},s.test,Sh{n},https://s.test/Sh{n},https://example.com/{n}?x={n},Title {n},{list},{}\n",
            n % 7
        );
        let (comma, time) = (
            if n == 0 { "" } else { "," },
            created[..19].replace('T', " "),
        );
        yourls += &format!(
            "{comma}('yo{n}','https://example.com/{n}','It\\'s {n}','{time}','127.0.0.1',{})",
            n % 5
        );
    }
    yourls += ";\n";
    let server = Running::start().await;
    let mut last = None;
    for round in 0..2 {
        for (format, text) in [(Format::ShlinkCsv, &shlink), (Format::Yourls, &yourls)] {
            let folder = TempDir::new().unwrap();
            let options = ImportOptions {
                batch: 1000,
                ..options(folder.path(), mapping(format), false)
            };
            fs::write(&options.file, text).unwrap();
            let client = ApiClient::new(&server.url(""), &server.admin_key).unwrap();
            let start = std::time::Instant::now();
            let summary = import(&client, &options).await.unwrap();
            println!(
                "{format:?}, round {round}: {summary:?} in {:.1?}",
                start.elapsed()
            );
            let created = if round == 0 { many } else { 0 };
            assert_eq!((summary.records, summary.created), (many, created));
            assert_eq!((summary.existing, summary.failed()), (many - created, 0));
        }
        let counts = counts(&server).await;
        let created = 2 * (many * first + many * (many - 1) / 2);
        let expected = [2 * many, visits, tags, created].map(u64::cast_signed);
        assert_eq!([counts.0, counts.1, counts.2, counts.3], expected);
        assert_eq!(
            *last.get_or_insert(counts),
            counts,
            "a repetition changes nothing"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn import_command_when_links_are_left_out_exits_with_3() {
    let server = Running::start().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("links.csv");
    let text = "slug,url,domain,colour\na,https://example.com/,old.test,red\n";
    fs::write(&file, text).unwrap();
    let run = |more: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_edgelink"))
            .env_clear()
            .args(["import", "--api", &server.url("")])
            .arg(&file)
            .arg("--key-file")
            .arg(server.folder.path().join("admin-key"))
            .args(more)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let domain = "--domain=OLD.test=other.example";
    let column = "--column=Colour=tags";
    let unknown = "colour is not understood, and not kept, of 1 links";
    for more in [&["--dry-run"][..], &[domain], &[column]] {
        let (code, text) = run(more);
        assert_eq!(code, Some(3), "{text}");
        assert!(
            text.contains("csv, UTF-8, 1 links, 1 on old.test"),
            "{text}"
        );
        assert_eq!(text.contains(unknown), more != [column], "{text}");
        let is_dry = more == ["--dry-run"];
        assert_eq!(text.contains("nothing was imported"), !is_dry, "{text}");
        assert_eq!(text.contains("1 were not imported: see "), is_dry, "{text}");
    }
    let (code, text) = run(&["--dry-run", domain, column]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("1 records: 1 would be created"), "{text}");
    assert!(server.all_links().await.is_empty());
    let (code, text) = run(&[domain, "--yes"]);
    assert_eq!(code, Some(0), "{text}");
    let link = server.get("/links/a?domain=other.example").await;
    assert_eq!(link.expect(200)["tags"], json!([]));
    let (code, text) = run(&["--source-url", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(2), "{text}");
    let (code, text) = run(&["--column", "colour=paint"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("--column 'paint' is not a field: longUrl, customSlug"),
        "{text}"
    );
    fs::write(&file, "\n").unwrap();
    let (code, text) = run(&["--from", "csv"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("there is no link in it"), "{text}");
}
