//! `POST /links`, and what `GET /links/{code}` shows then.

use crate::helpers::{Answer, Running, send};
use futures_util::future::{join, join_all};
use metrics_exporter_prometheus::PrometheusBuilder;
use reqwest::Method;
use serde_json::{Value, json};
use std::ops::Range;
use std::time::{Duration, Instant};

#[tokio::test]
async fn link_when_only_its_target_is_given_has_defaults() {
    let server = Running::start().await;
    let answer = server
        .post(&json!({ "longUrl": "https://example.com/a?b=1" }))
        .await;
    let link = answer.expect(201);
    let created_at = link["createdAt"].as_str().unwrap();
    assert_eq!(
        link,
        json!({
            "shortCode": "0000000",
            "shortUrl": "https://go.example:8080/0000000",
            "longUrl": "https://example.com/a?b=1",
            "domain": "go.example:8080",
            "validSince": null,
            "validUntil": null,
            "redirectStatus": 302,
            "forwardQuery": true,
            "maxVisits": null,
            "state": "active",
            "title": null,
            "tags": [],
            "notes": null,
            "externalId": null,
            "archived": false,
            "expiredUrl": null,
            "forwardPath": false,
            "crawlable": false,
            "trackConversions": false,
            "hideReferrer": false,
            "botsUseVisits": true,
            "hasPassword": false,
            "utmSource": null,
            "utmMedium": null,
            "utmCampaign": null,
            "utmTerm": null,
            "utmContent": null,
            "importedVisits": 0,
            "createdAt": created_at,
            "updatedAt": created_at,
        })
    );
    assert!(created_at.ends_with('Z') && created_at.len() == "2026-01-01T00:00:00.000Z".len());
    assert_eq!(answer.header("location"), "/api/v1/links/0000000");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(server.get("/links/0000000").await.expect(200), link);
}

#[tokio::test]
async fn link_when_every_field_is_given_returns_them() {
    let server = Running::start().await;
    let answer = server
        .post(&json!({
            "longUrl": "  https://Example.com/a b ",
            "customSlug": "Launch_2026-q1",
            "domain": "OTHER.example",
            "validSince": "2026-01-01T01:00:00.9+01:00",
            "validUntil": "2030-01-01T00:00:00Z",
            "redirectStatus": 308,
            "forwardQuery": false,
            "state": "disabled",
            "title": "Grüße 🚀",
            "tags": ["b", "a", "b"],
            "notes": "1\n2",
            "externalId": "order 17",
            "archived": true,
        }))
        .await;
    let link = answer.expect(201);
    for (field, value) in [
        ("shortCode", json!("Launch_2026-q1")),
        ("shortUrl", json!("https://other.example/Launch_2026-q1")),
        ("longUrl", json!("https://Example.com/a%20b")),
        ("domain", json!("other.example")),
        ("validSince", json!("2026-01-01T00:00:00Z")),
        ("validUntil", json!("2030-01-01T00:00:00Z")),
        ("redirectStatus", json!(308)),
        ("forwardQuery", json!(false)),
        ("state", json!("disabled")),
        ("title", json!("Grüße 🚀")),
        ("tags", json!(["a", "b"])),
        ("notes", json!("1\n2")),
        ("externalId", json!("order 17")),
        ("archived", json!(true)),
    ] {
        assert_eq!(link[field], value, "{field}");
    }
    let location = answer.header("location");
    assert_eq!(
        location,
        "/api/v1/links/Launch_2026-q1?domain=other%2Eexample"
    );
    let path = location.strip_prefix("/api/v1").unwrap();
    assert_eq!(server.get(path).await.expect(200), link);
    server
        .get("/links/Launch_2026-q1")
        .await
        .problem(404, "link-not-found");
}

#[tokio::test]
async fn field_when_null_counts_as_missing() {
    let server = Running::start().await;
    let body = json!({
        "longUrl": "https://example.com/", "customSlug": null, "domain": null, "validSince": null, "validUntil": null,
        "redirectStatus": null, "forwardQuery": null, "state": null, "title": null, "tags": null, "notes": null, "externalId": null, "archived": null,
        "utmSource": null,
    });
    let link = server.post(&body).await.expect(201);
    assert_eq!(link["redirectStatus"], 302);
    assert_eq!(link["forwardQuery"], true);
}

#[tokio::test]
async fn alias_when_taken_conflicts_on_its_domain_only() {
    let server = Running::start().await;
    server.link("sale").on("go.example:8080").create().await;
    let taken = server.link("sale").on("go.example:8080").answer().await;
    assert_eq!(taken.problem(409, "slug-taken"), ["customSlug"]);
    server.link("Sale").on("go.example:8080").create().await;
    server.link("sale").on("other.example").create().await;
}

#[tokio::test]
async fn generated_code_when_taken_by_an_alias_is_skipped() {
    let server = Running::start().await;
    // The code of number 2000, while the alias itself takes number 0.
    server.link("00000wg").create().await;
    for code in ["00000g8", "00000Mo"] {
        assert_eq!(server.link("").create().await.code(), code);
    }
}

#[tokio::test]
async fn creation_when_code_tries_are_used_up_answers_503() {
    let server = Running::with(&[("EDGELINK_LINKS_MAX_CODE_TRIES", "1")]).await;
    server.link("00000g8").create().await;
    let refused = server.link("").answer().await;
    refused.problem(503, "codes-taken");
    assert_eq!(server.link("").create().await.code(), "00000wg");
}

#[tokio::test]
async fn code_when_a_code_key_is_set_is_scattered() {
    let key = [
        (
            "EDGELINK_LINKS_CODE_KEY",
            "000102030405060708090a0b0c0d0e0f",
        ),
        ("EDGELINK_LINKS_CODE_LENGTH", "8"),
    ];
    let server = Running::with(&key).await;
    let link = server.link("").create().await;
    assert_eq!(link.code().len(), 8);
    assert_ne!(link.code(), "00000000");
}

#[tokio::test]
async fn codes_when_created_concurrently_differ() {
    let server = std::sync::Arc::new(Running::start().await);
    let create = |_| {
        let server = server.clone();
        tokio::spawn(async move { server.link("").create().await.code().to_owned() })
    };
    let tasks: Vec<_> = (0..50).map(create).collect();
    let mut codes = std::collections::HashSet::new();
    for task in tasks {
        assert!(codes.insert(task.await.unwrap()));
    }
}

#[tokio::test]
async fn alias_when_it_exists_already_is_answered_at_once() {
    let server = Running::with(&[("EDGELINK_FEED_ALIAS_WAIT_MS", "10000")]).await;
    let body =
        json!({ "longUrl": "https://example.com/", "customSlug": "sale7ab", "findIfExists": true });
    let post = || {
        let request = server.api(Method::POST, "/links").json(&body);
        send(request.header("idempotency-key", "k"))
    };
    let first = post().await.expect(201);
    let start = Instant::now();
    assert_eq!(post().await.expect(201), first, "replayed");
    assert_eq!(server.post(&body).await.expect(200), first, "found");
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
}

/// The answers of requests that are all sent at once.
async fn at_once(server: &Running, requests: Vec<(Option<String>, Value)>) -> Vec<Answer> {
    let post = |(key, body): (Option<String>, Value)| {
        let mut request = server.api(Method::POST, "/links").json(&body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        send(request)
    };
    join_all(requests.into_iter().map(post)).await
}

/// Three hundred requests at once: a link for itself, with a key, for what exists, by an alias, and many.
#[tokio::test]
async fn requests_when_sharing_commits_have_their_own_answers() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    // All of them at once, by one key.
    let server = Running::with(&[("EDGELINK_SERVER_MAX_REQUESTS", "1024")]).await;
    let to = |path: &str, n: usize| format!("https://example.com/{path}/{n}");
    let requests = (0..296).map(|n| match n {
        0..100 => (None, json!({ "longUrl": to("plain", n) })),
        100..180 => {
            let group = n % 20;
            let key = Some(format!("key-{group}"));
            (key, json!({ "longUrl": to("keyed", group) }))
        }
        180..240 => {
            let target = to("found", n % 15);
            (None, json!({ "longUrl": target, "findIfExists": true }))
        }
        _ => {
            let slug = format!("alias-{}", n % 28);
            (
                None,
                json!({ "longUrl": to("alias", n), "customSlug": slug }),
            )
        }
    });
    let bulk = (0..4).map(|request| {
        let item = |n: usize| json!({ "longUrl": to("bulk", 100 * request + n) });
        let items: Vec<Value> = (0..50).map(item).collect();
        send(server.api(Method::POST, "/links/bulk").json(&items))
    });
    let (answers, many) = join(at_once(&server, requests.collect()), join_all(bulk)).await;

    let mut links: Vec<Value> = answers[..100]
        .iter()
        .map(|answer| answer.expect(201))
        .collect();
    for group in 0..20 {
        let of_group = (100..180).filter(|n| n % 20 == group);
        let of_group: Vec<&Answer> = of_group.map(|n| &answers[n]).collect();
        let link = of_group[0].expect(201);
        assert!(of_group.iter().all(|answer| answer.expect(201) == link));
        let is_first = |answer: &&&Answer| answer.header("idempotency-replayed").is_empty();
        assert_eq!(of_group.iter().filter(is_first).count(), 1, "{link}");
        links.push(link);
    }
    let mut each_once = |range: Range<usize>, groups: usize, other: u16| {
        for group in 0..groups {
            let of_group = range.clone().filter(|n| n % groups == group);
            let (new, others): (Vec<_>, Vec<_>) = of_group
                .map(|n| &answers[n])
                .partition(|answer| answer.status == 201u16);
            assert_eq!(new.len(), 1, "{others:?}");
            let link = new[0].json();
            for answer in others {
                assert_eq!(answer.status, other, "{}", answer.text());
                assert!(other != 200 || answer.json() == link, "{}", answer.text());
            }
            links.push(link);
        }
    };
    each_once(180..240, 15, 200);
    each_once(240..296, 28, 409);
    for answer in many {
        let results = answer.expect(200);
        assert_eq!(results["created"], 50);
        let results = results["results"].as_array().unwrap();
        links.extend(results.iter().map(|result| result["link"].clone()));
    }
    let mut stored = server.all_links().await;
    assert_eq!(stored.len(), 100 + 20 + 15 + 28 + 200);
    for all in [&mut links, &mut stored] {
        all.sort_by_key(|link| link["shortUrl"].to_string());
    }
    assert_eq!(
        links, stored,
        "each answer is a link, and each link an answer"
    );

    let metrics = recorder.handle().render();
    let batches = metrics
        .lines()
        .find_map(|line| line.strip_prefix("edgelink_create_batches_total "))
        .unwrap();
    let batches: usize = batches.parse().unwrap();
    assert!(batches <= 60, "{batches} commits for 300 requests");
}

#[tokio::test]
async fn link_when_created_to_hide_the_referrer_redirects_so() {
    let server = Running::start().await;
    let made =
        json!({ "longUrl": "https://example.com/", "customSlug": "hidden", "hideReferrer": true });
    let shlink = server.plain(Method::POST, "/rest/v3/short-urls");
    let shlink = shlink.header("x-api-key", &server.admin_key).json(&made);
    send(shlink).await.expect(200);
    assert_eq!(
        server.get("/links/hidden").await.expect(200)["hideReferrer"],
        true
    );
    let policy = async || {
        let answer = server.follow("/hidden").await;
        answer.headers.get("referrer-policy").cloned()
    };
    assert_eq!(policy().await.unwrap(), "no-referrer");
    let shown = json!({ "hideReferrer": null });
    let changed = server.patch("/links/hidden", &shown).await;
    assert_eq!(changed.expect(200)["hideReferrer"], false);
    assert_eq!(policy().await, None);
    let wrong = json!({ "hideReferrer": 1 });
    let refused = server.patch("/links/hidden", &wrong).await;
    assert_eq!(refused.problem(422, "validation"), ["hideReferrer"]);
}
