//! Reports of abuse, and the look of pages for visitors.

use super::browser::{Browser, problem_at, start};
use crate::helpers::{Running, send};
use reqwest::Method;

async fn report(server: &Running, code: &str, text: &str) {
    let link = server.link(code).to("https://example.com/bad");
    link.create().await;
    let form = [("code", code), ("reason", "phishing"), ("text", text)];
    let form = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(form)
        .finish();
    let sent = server.plain(Method::POST, "/+/report").body(form);
    assert_eq!(send(sent).await.status, 303);
}

#[tokio::test]
async fn report_when_acted_on_is_closed_opened_or_disables_its_link() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    report(&server, "a", "<script>alert(1)</script>").await;
    report(&server, "b", "").await;
    let page = browser.page("/console/reports").await;
    assert!(
        page.contains("&#60;script&#62;alert(1)&#60;/script&#62;"),
        "{page}"
    );
    assert!(page.contains("Phishing") && page.contains("https://example.com/bad"));
    assert_eq!(page.matches("Disable the link</button>").count(), 2);
    let to = browser
        .submit("/console/reports/1", &[("action", "disable")])
        .await;
    let page = browser.page(&to).await;
    assert!(page.contains("The link is disabled"), "{page}");
    assert!(!page.contains("go.example:8080/a<"), "{page}");
    assert_eq!(server.follow("/a").await.status, 410);
    browser
        .submit("/console/reports/2", &[("action", "close")])
        .await;
    let page = browser.page("/console/reports").await;
    assert!(page.contains("There are no such reports."), "{page}");
    for state in ["closed", "all"] {
        let page = browser
            .page(&format!("/console/reports?state={state}"))
            .await;
        assert_eq!(page.matches("Open again</button>").count(), 2, "{state}");
    }
    browser
        .submit("/console/reports/2", &[("action", "open")])
        .await;
    let page = browser.page("/console/reports").await;
    assert_eq!(page.matches("Disable the link</button>").count(), 1);
    server.delete("/links/b").await;
    let answer = browser
        .post("/console/reports/2", &[("action", "disable")])
        .await;
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("There is no such link"));
    let answer = browser
        .post("/console/reports/9", &[("action", "close")])
        .await;
    assert_eq!(answer.status, 404);
    assert_eq!(browser.get("/console/reports?state=x").await.status, 422);
}

#[tokio::test]
async fn brand_when_set_on_the_domain_page_is_saved() {
    let server = start().await;
    let mut browser = Browser::admin(&server).await;
    let path = "/console/domains/other.example";
    let look = [
        ("brandName", "ACME"),
        ("brandLogo", "https://cdn.example/logo.svg"),
        ("brandColor", "#aabbcc"),
    ];
    let to = browser.submit(path, &look).await;
    let page = browser.page(&to).await;
    for (name, value) in look {
        let input = format!("name=\"{name}\" value=\"{value}\"");
        assert!(page.contains(&input), "{input}: {page}");
    }
    let wrong = [("brandLogo", "javascript:alert(1)"), ("brandColor", "red")];
    let answer = browser.post(path, &wrong).await;
    assert_eq!(answer.status, 422);
    for field in ["brandLogo", "brandColor"] {
        assert!(!problem_at(answer.text(), field).is_empty(), "{field}");
    }
    browser.submit(path, &[("brandName", "")]).await;
    let domain = server.get("/domains/other.example").await.expect(200);
    assert!(domain["brandName"].is_null() && domain["brandColor"].is_null());
}
