//! `/robots.txt`.

use super::visit;
use crate::helpers::Running;

#[tokio::test]
async fn robots_file_when_default_allows_links_and_no_pages() {
    let server = Running::start().await;
    for host in ["go.example:8080", "other.example"] {
        let answer = visit(&server, host, "/robots.txt").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
        let expected = "User-agent: *\nDisallow: /+/\nDisallow: /*+$\nAllow: /\n";
        assert_eq!(answer.text(), expected);
    }
}

#[tokio::test]
async fn robots_file_when_configured_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("robots.txt");
    std::fs::write(&file, "User-agent: *\nDisallow: /\n").unwrap();
    let file = file.display().to_string();
    let server = Running::with(&[("EDGELINK_PAGES_ROBOTS", &file)]).await;
    let answer = server.follow("/robots.txt").await;
    assert_eq!(answer.text(), "User-agent: *\nDisallow: /\n");
}
