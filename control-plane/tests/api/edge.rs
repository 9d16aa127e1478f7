//! `GET /edge/v1/links/{domain}/{code}`, and `POST /edge/v1/links` for several.

use crate::helpers::{Running, send};
use edgelink_wire::{Entry, LinkAnswer, LinkRecord, LinkState, Record, RedirectStatus, link_batch};
use reqwest::Method;
use serde_json::json;

/// What an answer says of a link.
fn entry(answer: &[u8]) -> Entry<'_> {
    let LinkAnswer { key, record, .. } = LinkAnswer::split(answer).unwrap();
    let record = Record::decode(record).unwrap();
    Entry { key, record }
}

#[tokio::test]
async fn link_when_resolved_carries_its_key_and_age() {
    let server = Running::start().await;
    server
        .post(&json!({
            "longUrl": "https://example.com/", "customSlug": "aB", "redirectStatus": 307, "forwardQuery": false,
            "validSince": "2026-01-01T00:00:00Z", "validUntil": "2030-01-01T00:00:00Z",
        }))
        .await
        .expect(201);
    let answer = server.resolve("go.example:8080/aB").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        "application/vnd.edgelink.answer"
    );
    let LinkAnswer { age_millis, .. } = LinkAnswer::split(&answer.body).unwrap();
    assert!(age_millis < 4000, "{age_millis}");
    let rev = entry(&answer.body).record.rev();
    let record = LinkRecord {
        url: "https://example.com/",
        redirect: RedirectStatus::TemporaryRedirect,
        state: LinkState::Active,
        valid_since: Some(1_767_225_600),
        valid_until: Some(1_893_456_000),
        forward_query: false,
        rev,
        extension: &[][..],
    };
    let expected = Entry {
        key: b"go.example:8080/aB",
        record: Record::Link(record),
    };
    assert_eq!(entry(&answer.body), expected);
    // Another case is another code; the domain's case does not matter.
    assert_eq!(server.resolve("go.example:8080/ab").await.status, 404);
    let upper = server.resolve("GO.example:8080/aB").await.body;
    assert_eq!(entry(&upper), expected);
}

#[tokio::test]
async fn revision_when_link_is_deleted_and_created_grows() {
    let server = Running::start().await;
    let revision = async || {
        let answer = server.resolve("go.example:8080/x").await;
        let entry = entry(&answer.body);
        assert_eq!(answer.header("content-type"), LinkAnswer::MEDIA_TYPE);
        let is_link = matches!(entry.record, Record::Link(_));
        assert_eq!(answer.status.as_u16(), if is_link { 200 } else { 404 });
        (is_link, entry.record.rev())
    };
    let (is_link, mut last) = revision().await;
    assert!(!is_link);
    let mut grown = |(is_link, rev): (bool, u64)| {
        assert!(rev > last, "{rev} after {last}");
        last = rev;
        is_link
    };
    server.link("x").create().await;
    assert!(grown(revision().await));
    server
        .patch("/links/x", &json!({ "state": "disabled" }))
        .await
        .expect(200);
    assert!(grown(revision().await));
    assert_eq!(server.delete("/links/x").await.status, 204);
    assert!(!grown(revision().await));
    server.link("x").create().await;
    assert!(grown(revision().await));
}

#[tokio::test]
async fn link_when_json_is_accepted_comes_as_json() {
    let server = Running::start().await;
    server.link("x").create().await;
    let ask = |code: &str| {
        let request = server.plain(
            Method::GET,
            &format!("/edge/v1/links/go.example:8080/{code}"),
        );
        send(
            request
                .bearer_auth("second-token-of-the-edges")
                .header("accept", "application/json"),
        )
    };
    let link = ask("x").await.expect(200);
    assert_eq!(
        link,
        json!({
            "key": "go.example:8080/x", "state": "active", "rev": link["rev"], "url": "https://example.com/", "redirect": 302,
            "validSince": null, "validUntil": null, "forwardQuery": true,
        })
    );
    let absent = ask("y").await.expect(404);
    assert_eq!(
        absent,
        json!({ "key": "go.example:8080/y", "state": "absent", "rev": absent["rev"] })
    );
}

#[tokio::test]
async fn link_key_when_malformed_is_refused_and_not_absent() {
    let server = Running::start().await;
    for key in [
        "go.example/a%20b",
        "a%20b/x",
        "go.example/%ff",
        "go.example/api",
        "go.example:0/x",
    ] {
        server.resolve(key).await.problem(400, "invalid-key");
    }
    assert_eq!(server.resolve("%5B::1%5D:8080/x").await.status, 404);
    for path in ["x", "a/b/c", ""] {
        server.resolve(path).await.problem(404, "not-found");
    }
    let post = server.plain(Method::POST, "/edge/v1/links/go.example/x");
    send(post.bearer_auth("first-token-of-the-edges"))
        .await
        .problem(405, "method-not-allowed");
}

#[tokio::test]
async fn link_keys_when_resolved_together_are_answered_as_alone() {
    let server = Running::start().await;
    for code in ["a", "b"] {
        let url = format!("https://example.com/{code}");
        server.link(code).to(&url).create().await;
    }
    let lines = [
        "go.example:8080/b",
        "go.example:8080/none",
        "no key",
        "%5B::1%5D:8080/x",
        "GO.example:8080/a",
        "go.example:8080/b",
    ];
    let answer = server.resolve_lines(&lines.join("\n")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), link_batch::MEDIA_TYPE);
    let answers = link_batch::read(&answer.body, lines.len()).unwrap();
    let said: Vec<_> = answers
        .iter()
        .filter(|(_, body)| !body.is_empty())
        .map(|(status, body)| {
            let Entry { key, record } = entry(body);
            let key = std::str::from_utf8(key).unwrap();
            let url = match record {
                Record::Link(link) => Some(link.url),
                Record::Absent { .. } => None,
            };
            (*status, key, url)
        })
        .collect();
    assert_eq!(
        said,
        [
            (200, "go.example:8080/b", Some("https://example.com/b")),
            (404, "go.example:8080/none", None),
            (404, "[::1]:8080/x", None),
            (200, "go.example:8080/a", Some("https://example.com/a")),
            (200, "go.example:8080/b", Some("https://example.com/b")),
        ]
    );
    assert_eq!(answers[2], (400, &b""[..]));
}

#[tokio::test]
async fn request_when_link_keys_are_too_many_is_refused() {
    let server = Running::start().await;
    let lines = |count: usize| vec!["go.example:8080/a"; count].join("\n");
    let most = server.resolve_lines(&lines(link_batch::MAX_KEYS)).await;
    assert_eq!(most.status, 200);
    let answers = link_batch::read(&most.body, link_batch::MAX_KEYS).unwrap();
    assert!(answers.iter().all(|(status, _)| *status == 404));
    server
        .resolve_lines(&lines(link_batch::MAX_KEYS + 1))
        .await
        .problem(413, "body-too-large");
    let long = "a".repeat(link_batch::MAX_LENGTH + 1);
    server
        .resolve_lines(&long)
        .await
        .problem(413, "body-too-large");
    let stranger = server.plain(Method::POST, link_batch::PATH);
    assert_eq!(send(stranger.body("x")).await.status, 401);
}
