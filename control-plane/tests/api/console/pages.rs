//! Pages that are read: the overview, lists, and those that say what went wrong.

use super::browser::{Browser, problem_at, start};
use crate::accounting::{batch, health, report, say};
use crate::helpers::{Running, until};
use serde_json::json;
use sqlx::{Connection, Executor};

#[tokio::test]
async fn page_when_it_has_no_entries_says_so() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    for (path, text) in [
        ("/console", "No clicks yet."),
        ("/console/links", "There are no links yet."),
        ("/console/links?searchTerm=x", "No link matches."),
        ("/console/tags", "No link has a tag."),
        ("/console/reports", "There are no such reports."),
        ("/console/audit?action=none", "There are no entries."),
    ] {
        assert!(browser.page(path).await.contains(text), "{path}");
    }
    assert!(
        browser
            .page("/console")
            .await
            .contains("What became of clicks")
    );
}

#[tokio::test]
async fn links_when_searched_are_filtered_and_paged() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    for number in 0..60 {
        let domain = if number % 2 == 0 {
            "go.example:8080"
        } else {
            "other.example"
        };
        let link = json!({
            "longUrl": format!("https://example.com/{number}"), "customSlug": format!("n{number:02}"), "domain": domain,
            "tags": [format!("t{}", number % 3)], "state": if number == 7 { "disabled" } else { "active" },
        });
        server.post(&link).await.expect(201);
    }
    let count = |page: &str| page.matches("type=\"checkbox\" name=\"link\"").count();
    let first = browser.page("/console/links").await;
    assert_eq!(count(&first), 50);
    let (_, next) = first.split_once("<a rel=\"next\" href=\"").unwrap();
    let next = next.split_once('"').unwrap().0.replace("&#38;", "&");
    let second = browser.page(&next).await;
    assert_eq!(count(&second), 10);
    assert!(second.contains("First page") && !second.contains("Next page"));
    for (query, expected) in [
        ("searchTerm=n07", 1),
        ("tags=t1", 20),
        ("domain=other.example", 30),
        ("state=disabled", 1),
        ("domain=other.example&tags=t1", 10),
        ("domain=other.example&orderBy=shortCode-asc&searchTerm=", 30),
    ] {
        let page = browser.page(&format!("/console/links?{query}")).await;
        assert_eq!(count(&page), expected, "{query}");
    }
    let answer = browser.get("/console/links?orderBy=shortCode-asc").await;
    assert_eq!(answer.status, 422);
    assert_eq!(
        problem_at(answer.text(), "orderBy"),
        "by shortCode needs a domain"
    );
}

#[tokio::test]
async fn clicks_when_counted_are_shown_as_charts() {
    let server = Running::with(&[("EDGELINK_AUTH_KEY_CACHE_MS", "0")]).await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").create().await;
    for _ in 0..3 {
        server
            .follow("/abc")
            .await
            .redirects(302, "https://example.com/");
    }
    crate::helpers::until("the clicks are counted", async || {
        browser
            .page("/console")
            .await
            .contains("Clicks of the last 30 days: 3")
    })
    .await;
    let page = browser.page("/console").await;
    assert!(
        page.contains("<figure data-chart=\"series\" data-points=\"[[&#34;20"),
        "{page}"
    );
    assert!(page.contains(
        "<a href=\"/console/links/abc?domain=go%2Eexample%3A8080\">go.example:8080/abc</a>"
    ));
    let page = browser.page("/console/links/abc").await;
    assert!(page.contains("Clicks of the last 30 days: 3") && page.contains("Countries"));
    assert!(page.contains("data-qr=\"https://go.example:8080/abc\""));
}

#[tokio::test]
async fn clicks_when_page_is_open_come_live() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    server.link("abc").create().await;
    let page = browser.page("/console/links/abc").await;
    let (_, path) = page.split_once("data-live=\"").unwrap();
    let path = path.split_once('"').unwrap().0.replace("&#38;", "&");
    let request = browser.request(reqwest::Method::GET, &path);
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut events = String::new();
    let mut read = async |part: &str| {
        while !events.contains(part) {
            let bytes = stream.chunk().await.unwrap().expect("the stream goes on");
            events += std::str::from_utf8(&bytes).unwrap();
        }
    };
    read("listening").await;
    server
        .follow("/abc")
        .await
        .redirects(302, "https://example.com/");
    read("\"shortCode\":\"abc\"").await;
    let answer = browser.get("/console/live?shortCode=none").await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn page_when_nothing_is_there_answers_404() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    for path in [
        "/console/nothing",
        "/console/",
        "/console/links/none",
        "/console/users/99",
        "/console/users/x",
        "/console/domains/none.example",
        "/console/create/x",
    ] {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("There is nothing here"), "{path}");
    }
    let answer = browser.post("/console/audit", &[]).await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.header("allow"), "GET,HEAD");
    let styles = server.follow("/console/assets/0/console.css").await;
    assert_eq!(styles.status, 200);
    assert_eq!(styles.header("content-type"), "text/css; charset=utf-8");
    assert!(!styles.header("content-security-policy").is_empty());
}

#[tokio::test]
async fn console_when_body_times_out_answers_with_a_page() {
    let server = Running::with(&[
        ("EDGELINK_SERVER_REQUEST_TIMEOUT_MS", "100"),
        ("EDGELINK_SERVER_BODY_TIMEOUT_MS", "100"),
    ])
    .await;
    let mut stream = server.connect().await;
    use tokio::io::AsyncWriteExt;
    let head = "POST /console/login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = crate::helpers::read_all(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 408 ") || answer.starts_with("HTTP/1.1 503 "),
        "{answer}"
    );
    assert!(answer.contains("<!doctype html>"), "{answer}");
}

#[tokio::test]
async fn overview_when_edges_report_clicks_accounts_for_them() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let page = browser.page("/console").await;
    assert!(page.contains("No edge has reported clicks"), "{page}");
    assert!(
        page.contains("No edge has said in the last 24 hours"),
        "{page}"
    );
    report(&server, "<fra>", batch(1, 1, 4)).await;
    let page = browser.page("/console").await;
    // Of ten that were sent four are counted and one is dropped.
    let row = "<th scope=\"row\">&#60;fra&#62;</th><td class=\"number\">10</td><td class=\"number\">4</td>\
        <td class=\"number\">5</td><td class=\"number\">1</td><td class=\"number\">10.00 %</td><td class=\"number\">1</td>";
    assert!(page.contains(row), "{page}");
}

#[tokio::test]
async fn overview_when_edges_report_health_shows_it() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    say(&server, "<fra>", &health(1, Some(1_231)), &[]).await;
    say(&server, "ams", &health(2, None), &[]).await;
    let mut known = Browser::admin(&server).await;
    let both = async || {
        let page = known.page("/console").await;
        page.contains("&#60;fra&#62;") && page.contains("ams")
    };
    until("how both edges are doing is written", both).await;
    let mut row = async |name: &str| {
        let page = browser.page("/console").await;
        let section = page.split_once(r#"<section aria-labelledby="health">"#);
        let (_, section) = section.unwrap_or_else(|| panic!("{page}"));
        let rows = section.split("<tr>").filter(|row| row.contains(name));
        let (_, cells) = rows.last().unwrap().split_once("</time>").unwrap();
        cells.split("</tr>").next().unwrap().to_owned()
    };
    let cells = |cells: [&str; 5]| {
        let cells = cells.map(|cell| format!("<td class=\"number\">{cell}</td>"));
        format!("</td>{}", cells.concat())
    };
    assert_eq!(
        row("&#60;fra&#62;").await,
        cells(["1", "1.24 s", "93.80 %", "1", "7"])
    );
    let database = server.database();
    let mut database = sqlx::SqliteConnection::connect(&database).await.unwrap();
    let nothing =
        "UPDATE edge_health SET lru = 0, shared_data = 0, redis = 0, control_plane = 0, stale = 0";
    database.execute(nothing).await.unwrap();
    assert_eq!(
        row("ams").await,
        cells(["1", "a worker reads no feed", "no requests", "0", "7"])
    );
    let past = "UPDATE edge_health SET reported_at = reported_at - 60000";
    database.execute(past).await.unwrap();
    assert_eq!(row("ams").await, cells(["–"; 5]));
    assert_eq!(
        row("ams <span class=\"state disabled\">silent</span>").await,
        cells(["–"; 5])
    );
}
