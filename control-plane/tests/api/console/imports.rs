//! Imports by the console: a file is tried out, and imported where that is asked for.

use super::browser::{Browser, check, problem_at, start};
use crate::helpers::{Answer, Running, send, until};
use reqwest::Method;

const BOUNDARY: &str = "--of-this-test";

/// Sends a form with a file.
async fn upload(browser: &mut Browser<'_>, fields: &[(&str, &str)], file: &str) -> Answer {
    let token = browser.form_token().await;
    let mut body = String::new();
    for (name, value) in [("csrf", token.as_str())].iter().chain(fields) {
        body += &format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
    }
    body += &format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"links\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n{file}\r\n--{BOUNDARY}--\r\n"
    );
    let request = browser.request(Method::POST, "/console/imports");
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let answer = send(request.header("content-type", kind).body(body)).await;
    check(&answer);
    answer
}

async fn started(browser: &mut Browser<'_>, fields: &[(&str, &str)], file: &str) -> String {
    let answer = upload(browser, fields, file).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.header("location").to_owned()
}

/// The page of an import once nothing goes on any more; until then it asks for itself.
async fn page_at_the_end(browser: &Browser<'_>, path: &str) -> String {
    let mut text = String::new();
    until("nothing goes on", async || {
        let answer = send(browser.request(Method::GET, path)).await;
        check(&answer);
        answer.text().clone_into(&mut text);
        answer.header("refresh").is_empty()
    })
    .await;
    text
}

fn figure(page: &str, label: &str) -> u64 {
    let (_, rest) = page
        .split_once(&format!("<dt>{label}</dt><dd>"))
        .unwrap_or_else(|| panic!("no {label}: {page}"));
    rest.split_once('<').unwrap().0.parse().unwrap()
}

async fn links(server: &Running) -> usize {
    server.all_links().await.len()
}

const LINES: &str = "{\"longUrl\":\"https://example.com/one\",\"customSlug\":\"one\"}\n\
    https://example.com/two\n\
    {\"longUrl\":\"<script>\",\"customSlug\":\"bad\"}\n\
    {\"longUrl\":\"https://example.com/other\",\"customSlug\":\"one\"}\n";

#[tokio::test]
async fn file_when_tried_out_creates_nothing_until_it_is_run() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let path = started(&mut browser, &[("format", "edgelink")], LINES).await;
    let page = page_at_the_end(&browser, &path).await;
    assert!(page.contains("The file was tried out"), "{page}");
    let count = |page: &str, created: &str| {
        ["Records", created, "Their code is taken", "Refused"].map(|label| figure(page, label))
    };
    assert_eq!(count(&page, "Would be created"), [4, 2, 1, 1]);
    assert!(
        page.contains("<th scope=\"row\" class=\"number\">3</th><td>refused</td>"),
        "{page}"
    );
    assert_eq!(links(&server).await, 0, "nothing was created");
    let report = send(browser.request(Method::GET, &format!("{path}/report"))).await;
    assert_eq!(report.status, 200);
    assert_eq!(report.header("content-type"), "application/x-ndjson");
    assert!(
        report
            .header("content-disposition")
            .starts_with("attachment;")
    );
    assert_eq!(report.text().lines().count(), 2);
    assert_eq!(browser.submit(&format!("{path}/run"), &[]).await, path);
    let page = page_at_the_end(&browser, &path).await;
    assert!(page.contains("The file is imported"), "{page}");
    assert_eq!(count(&page, "Created"), [4, 2, 1, 1]);
    assert_eq!(links(&server).await, 2);
    assert!(
        browser
            .page("/console/imports")
            .await
            .contains(&format!("href=\"{path}\""))
    );
    assert_eq!(
        browser.submit(&format!("{path}/delete"), &[]).await,
        "/console/imports?done=deleted"
    );
    assert_eq!(browser.get(&path).await.status, 404);
    assert_eq!(links(&server).await, 2);
}

#[tokio::test]
async fn text_when_pasted_is_imported() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let text = "keyword,url,title\nyo,https://example.com/yourls,Old\n";
    let fields = [
        ("format", "yourls"),
        ("text", text),
        ("domain", "other.example"),
    ];
    let path = started(&mut browser, &fields, "").await;
    let page = page_at_the_end(&browser, &path).await;
    assert_eq!(figure(&page, "Would be created"), 1, "{page}");
    browser.submit(&format!("{path}/run"), &[]).await;
    page_at_the_end(&browser, &path).await;
    let link = server
        .get("/links/yo?domain=other.example")
        .await
        .expect(200);
    assert_eq!(link["title"], "Old");
}

#[tokio::test]
async fn column_and_domain_when_mapped_on_the_page_are_imported() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let text = "slug,url,domain,colour\nmapped,https://example.com/,old.test,red\n";
    let path = started(&mut browser, &[], text).await;
    let unknown = "colour is not understood, and not kept, of 1 links";
    let page = page_at_the_end(&browser, &path).await;
    assert!(page.contains(unknown), "{page}");
    assert_eq!(figure(&page, "Refused"), 1);
    let mapping = [
        ("column", "colour=tags"),
        ("domain", "old.test=other.example"),
    ];
    let map = format!("{path}/mapping");
    assert_eq!(browser.submit(&map, &mapping).await, path);
    let page = page_at_the_end(&browser, &path).await;
    assert!(!page.contains(unknown), "{page}");
    assert_eq!(figure(&page, "Would be created"), 1);
    assert_eq!(browser.submit(&format!("{path}/run"), &[]).await, path);
    page_at_the_end(&browser, &path).await;
    let link = server.get("/links/mapped?domain=other.example").await;
    assert_eq!(link.expect(200)["tags"], serde_json::json!(["red"]));
    // What was imported stays what it is.
    assert_eq!(browser.submit(&map, &mapping).await, path);
    let page = page_at_the_end(&browser, &path).await;
    assert!(page.contains("The file is imported"), "{page}");
}

#[tokio::test]
async fn upload_when_of_no_known_format_says_so() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    for (fields, text, reason) in [
        (&[][..], "a,b\n1,2\n", "the format is not recognised"),
        (
            &[("format", "kutt")],
            "keyword,url\na,https://e.example/\n",
            "it looks like yourls",
        ),
        (
            &[],
            "url,name_of_it\nhttps://e.example/,a\n",
            "Map it to customSlug",
        ),
        (&[], "\n", "the format is not recognised"),
    ] {
        let path = started(&mut browser, fields, text).await;
        let page = page_at_the_end(&browser, &path).await;
        assert!(page.contains(reason), "{reason}: {page}");
    }
}

#[tokio::test]
async fn upload_when_not_a_file_is_refused() {
    let server = Running::with(&[
        ("EDGELINK_AUTH_KEY_CACHE_MS", "0"),
        ("EDGELINK_SERVER_MAX_BULK_BODY_BYTES", "100000"),
    ])
    .await;
    let mut browser = Browser::admin(&server).await;
    let answer = upload(&mut browser, &[("format", "edgelink")], "").await;
    assert_eq!(answer.status, 422);
    assert!(!problem_at(answer.text(), "file").is_empty());
    let answer = upload(&mut browser, &[("format", "other")], "x").await;
    assert!(!problem_at(answer.text(), "format").is_empty());
    let answer = upload(
        &mut browser,
        &[("format", "edgelink")],
        &"x".repeat(100_000),
    )
    .await;
    assert_eq!(answer.status, 413, "{}", answer.text());
    // More than other forms may have is taken.
    let many = "https://example.com/\n".repeat(4_000);
    started(&mut browser, &[("format", "edgelink")], &many).await;
    let broken = Browser {
        server: &server,
        cookie: browser.cookie.clone(),
    };
    let request = broken.request(Method::POST, "/console/imports");
    let request = request.header("content-type", "multipart/form-data; boundary=x");
    assert_eq!(send(request.body("no parts")).await.status, 400);
    let answer = upload(
        &mut Browser::new(&server).await,
        &[("format", "edgelink")],
        "x",
    )
    .await;
    assert_eq!(answer.status, 303, "who has not logged in is led there");
    assert!(answer.header("location").starts_with("/console/login"));
}

#[tokio::test]
async fn import_when_of_another_user_is_not_found() {
    let server = start().await;
    let mut admin = Browser::admin(&server).await;
    let path = started(&mut admin, &[("format", "edgelink")], LINES).await;
    let mut editor = Browser::of_role(&server, "editor").await;
    for path in [path.clone(), format!("{path}/report")] {
        assert_eq!(editor.get(&path).await.status, 404);
    }
    for action in ["run", "stop", "delete"] {
        assert_eq!(
            editor.post(&format!("{path}/{action}"), &[]).await.status,
            404
        );
    }
    let own = started(&mut editor, &[("format", "edgelink")], LINES).await;
    page_at_the_end(&editor, &own).await;
    let mut reader = Browser::of_role(&server, "reader").await;
    assert_eq!(reader.get("/console/imports").await.status, 403);
    assert_eq!(
        upload(&mut reader, &[("format", "edgelink")], LINES)
            .await
            .status,
        403
    );
    assert!(!reader.page("/console").await.contains("/console/imports"));
}

#[tokio::test]
async fn imports_when_too_many_drop_the_oldest_of_their_user() {
    let server = Running::with(&[
        ("EDGELINK_AUTH_KEY_CACHE_MS", "0"),
        ("EDGELINK_CONSOLE_MAX_IMPORTS", "3"),
        ("EDGELINK_CONSOLE_MAX_OWN_IMPORTS", "2"),
    ])
    .await;
    let mut browser = Browser::admin(&server).await;
    let mut paths = Vec::new();
    for _ in 0..3 {
        let path = started(&mut browser, &[("format", "edgelink")], LINES).await;
        page_at_the_end(&browser, &path).await;
        paths.push(path);
    }
    let mut found = Vec::new();
    for path in &paths {
        found.push(browser.get(path).await.status);
    }
    assert_eq!(found, [404, 200, 200]);
    // Only of those of the same user.
    let mut editor = Browser::of_role(&server, "editor").await;
    let mut own = Vec::new();
    for _ in 0..2 {
        let path = started(&mut editor, &[("format", "edgelink")], LINES).await;
        page_at_the_end(&editor, &path).await;
        own.push(path);
    }
    assert_eq!(editor.get(&own[0]).await.status, 404);
    assert_eq!(editor.get(&own[1]).await.status, 200);
    assert_eq!(browser.get(&paths[1]).await.status, 200);
    let mut creator = Browser::of_role(&server, "creator").await;
    let answer = upload(&mut creator, &[("format", "edgelink")], LINES).await;
    assert_eq!(answer.status, 503);
}

#[tokio::test]
async fn trial_when_stopped_has_created_nothing() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let many = "https://example.com/\n".repeat(200_000);
    let path = started(&mut browser, &[("format", "edgelink")], &many).await;
    assert_eq!(browser.submit(&format!("{path}/stop"), &[]).await, path);
    let page = page_at_the_end(&browser, &path).await;
    assert!(page.contains("Nothing was imported"), "{page}");
    assert!(figure(&page, "Would be created") < 200_000);
    assert_eq!(links(&server).await, 0);
}

#[tokio::test]
async fn trial_when_its_report_reaches_the_bound_stops() {
    let server = Running::with(&[
        ("EDGELINK_AUTH_KEY_CACHE_MS", "0"),
        ("EDGELINK_SERVER_MAX_BULK_BODY_BYTES", "20000"),
    ])
    .await;
    let mut browser = Browser::admin(&server).await;
    for line in ["a:\n", "{\n"] {
        let path = started(&mut browser, &[("format", "edgelink")], &line.repeat(6_000)).await;
        let page = page_at_the_end(&browser, &path).await;
        assert!(page.contains("There is too much wrong with it"), "{page}");
        assert!(figure(&page, "Records") < 6_000);
    }
}

#[tokio::test]
async fn upload_when_disk_quota_of_imports_is_used_up_is_refused() {
    let server = Running::with(&[
        ("EDGELINK_AUTH_KEY_CACHE_MS", "0"),
        ("EDGELINK_CONSOLE_MAX_IMPORT_BYTES", "1048576"),
    ])
    .await;
    let file = "https://example.com/\n".repeat(33_000);
    let mut admin = Browser::admin(&server).await;
    let first = started(&mut admin, &[("format", "edgelink")], &file).await;
    page_at_the_end(&admin, &first).await;
    let mut creator = Browser::of_role(&server, "creator").await;
    let answer = upload(&mut creator, &[("format", "edgelink")], &file).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("console.max_import_bytes"));
    // What was refused takes up nothing, and a smaller file fits beside the first one.
    started(&mut creator, &[("format", "edgelink")], LINES).await;
    assert_eq!(admin.get(&first).await.status, 200);
    // One's own gives way, as for want of places, also to a text that was pasted.
    let fields = [("format", "edgelink"), ("text", file.as_str())];
    let second = started(&mut admin, &fields, "").await;
    let page = page_at_the_end(&admin, &second).await;
    assert_eq!(figure(&page, "Would be created"), 33_000, "{page}");
    assert_eq!(admin.get(&first).await.status, 404);
}

#[tokio::test]
async fn trial_when_its_report_has_no_room_on_disk_stops() {
    let server = Running::with(&[
        ("EDGELINK_AUTH_KEY_CACHE_MS", "0"),
        ("EDGELINK_CONSOLE_MAX_IMPORT_BYTES", "1048576"),
    ])
    .await;
    let mut browser = Browser::admin(&server).await;
    let path = started(
        &mut browser,
        &[("format", "edgelink")],
        &"{\n".repeat(300_000),
    )
    .await;
    let page = page_at_the_end(&browser, &path).await;
    assert!(page.contains("the report has no room"), "{page}");
    assert!(figure(&page, "Records") < 300_000);
    let report = send(browser.request(Method::GET, &format!("{path}/report"))).await;
    assert!(report.text().len() > 65_536, "it comes in pieces");
    assert!(report.text().ends_with("}\n"));
}

#[tokio::test]
async fn upload_when_fields_beside_the_file_are_large_is_refused() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let long = "x".repeat(70_000);
    let answer = upload(&mut browser, &[("format", &long)], LINES).await;
    assert_eq!(answer.status, 413, "{}", answer.text());
    let name = "n".repeat(2 << 20);
    let answer = upload(&mut browser, &[(&name, "")], LINES).await;
    assert_eq!(answer.status, 413, "{}", answer.text());
    let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(upload(&mut browser, &many, LINES).await.status, 413);
}

#[tokio::test]
async fn import_when_of_another_key_of_its_user_is_not_found() {
    let server = start().await;
    let mut admin = Browser::admin(&server).await;
    let path = started(&mut admin, &[("format", "edgelink")], LINES).await;
    page_at_the_end(&admin, &path).await;
    let key = serde_json::json!({ "name": "bound", "role": "editor", "tags": ["t"] });
    let made = send(server.api(Method::POST, "/keys").json(&key)).await;
    let made = made.expect(201);
    let mut bound = Browser::by_key(&server, made["key"].as_str().unwrap()).await;
    assert_eq!(bound.get(&path).await.status, 404);
    assert_eq!(bound.get(&format!("{path}/report")).await.status, 404);
    assert_eq!(bound.post(&format!("{path}/run"), &[]).await.status, 404);
}
