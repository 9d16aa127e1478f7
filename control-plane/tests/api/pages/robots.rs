//! `/robots.txt`.

use super::visit;
use crate::helpers::Running;

#[tokio::test]
async fn robots_may_visit_links_and_no_pages() {
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
async fn the_file_of_the_configuration_is_sent_instead() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("robots.txt");
    std::fs::write(&file, "User-agent: *\nDisallow: /\n").unwrap();
    let file = file.display().to_string();
    let server = Running::with(&[("EDGELINK_PAGES_ROBOTS", &file)]).await;
    let answer = server.follow("/robots.txt").await;
    assert_eq!(answer.text(), "User-agent: *\nDisallow: /\n");
}
