//! Properties of a link beside its target: external ids, campaign parameters, the archive.

use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn campaign_when_set_is_written_into_the_target() {
    let server = Running::start().await;
    let link = server
        .post(&json!({
            "longUrl": "https://example.com/?a=%7e&utm_medium=mail#f", "customSlug": "x",
            "utmSource": "news letter", "utmCampaign": "été",
        }))
        .await
        .expect(201);
    let target = "https://example.com/?a=%7e&utm_medium=mail&utm_source=news%20letter&utm_campaign=%C3%A9t%C3%A9#f";
    for (field, value) in [
        ("longUrl", json!(target)),
        ("utmSource", json!("news letter")),
        ("utmMedium", json!("mail")),
        ("utmCampaign", json!("été")),
        ("utmTerm", json!(null)),
    ] {
        assert_eq!(link[field], value, "{field}");
    }
    server.follow("/x").await.redirects(302, target);
    let changed = server
        .patch(
            "/links/x",
            &json!({ "utmSource": null, "utmMedium": "social" }),
        )
        .await
        .expect(200);
    let target = "https://example.com/?a=%7e&utm_campaign=%C3%A9t%C3%A9&utm_medium=social#f";
    assert_eq!(changed["longUrl"], target);
    assert_eq!(changed["utmSource"], json!(null));
    let body = json!({ "longUrl": "https://example.com/2", "utmTerm": "t" });
    let changed = server.patch("/links/x", &body).await.expect(200);
    assert_eq!(changed["longUrl"], "https://example.com/2?utm_term=t");
    assert_eq!(changed["utmMedium"], json!(null));
}

#[tokio::test]
async fn campaign_when_target_gets_too_long_is_refused() {
    let server = Running::start().await;
    let long = format!("https://example.com/{}", "a".repeat(7_970));
    let body = json!({ "longUrl": long, "customSlug": "x", "utmMedium": "mail" });
    let refused = server.post(&body).await;
    assert_eq!(refused.problem(422, "validation"), ["utmMedium"]);
    let body = json!({ "longUrl": long, "customSlug": "x" });
    let link = server.post(&body).await.expect(201);
    let body = json!({ "utmMedium": "mail" });
    let refused = server.patch("/links/x", &body).await;
    assert_eq!(refused.problem(422, "validation"), ["utmMedium"]);
    assert_eq!(server.get("/links/x").await.expect(200), link);
}

#[tokio::test]
async fn link_when_archived_still_redirects() {
    let server = Running::start().await;
    let link = |archived: Value| json!({ "longUrl": "https://example.com/", "customSlug": "x", "archived": archived });
    let created = server.post(&link(json!(true))).await.expect(201);
    assert_eq!(created["archived"], true);
    server
        .follow("/x")
        .await
        .redirects(302, "https://example.com/");
    let changed = server.patch("/links/x", &json!({ "archived": null })).await;
    assert_eq!(changed.expect(200)["archived"], false);
}

#[tokio::test]
async fn external_id_when_taken_is_refused() {
    let server = Running::start().await;
    let link = |slug: &str, id: &str| json!({ "longUrl": "https://example.com/", "customSlug": slug, "externalId": id });
    server.post(&link("a", "1")).await.expect(201);
    let other = server.post(&link("b", "2")).await.expect(201);
    let taken = server.post(&link("c", "1")).await;
    assert_eq!(taken.problem(409, "external-id-taken"), ["externalId"]);
    let taken = server
        .patch("/links/b", &json!({ "externalId": "1" }))
        .await;
    assert_eq!(taken.problem(409, "external-id-taken"), ["externalId"]);
    assert_eq!(server.get("/links/b").await.expect(200), other);
    let items = json!([link("d", "3"), link("e", "3"), link("f", "1"), { "longUrl": "https://example.com/" }]);
    let answer = send(server.api(Method::POST, "/links/bulk").json(&items)).await;
    let answer = answer.expect(200);
    let statuses: Vec<u64> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 409, 409, 201]);
    server.get("/links/f").await.problem(404, "link-not-found");

    // A deleted link leaves its id to others, and so does one that gets another.
    server.delete("/links/a").await;
    let body = json!({ "externalId": "1", "title": "t" });
    server.patch("/links/b", &body).await.expect(200);
    server.post(&link("g", "2")).await.expect(201);
}

#[tokio::test]
async fn link_when_expired_redirects_to_its_expired_url() {
    let server = Running::start().await;
    let over = "https://example.com/over";
    let link = json!({
        "longUrl": "https://example.com/", "customSlug": "x", "validUntil": "2020-01-01T00:00:00Z",
        "expiredUrl": over, "redirectStatus": 301,
    });
    let created = server.post(&link).await.expect(201);
    assert_eq!(created["expiredUrl"], over);
    server.follow("/x?a").await.redirects(302, over);
    let request = server.api(Method::POST, "/links/x/resolve");
    let run = send(request.json(&json!({}))).await.expect(200);
    assert_eq!(
        (&run["outcome"], &run["status"], &run["location"]),
        (&json!("expired"), &json!(302), &json!(over))
    );
    let disabled = json!({ "state": "disabled" });
    server.patch("/links/x", &disabled).await.expect(200);
    server.follow("/x").await.page(410, "no longer available");
    let without = json!({ "state": null, "expiredUrl": null });
    let changed = server.patch("/links/x", &without).await.expect(200);
    assert_eq!(changed["expiredUrl"], json!(null));
    server.follow("/x").await.page(410, "no longer available");
}

#[tokio::test]
async fn link_when_uses_are_spent_redirects_to_its_expired_url() {
    let server = Running::start().await;
    let over = "https://example.com/over";
    let link = json!({
        "longUrl": "https://example.com/", "customSlug": "x", "maxVisits": 1, "expiredUrl": over, "forwardPath": true,
    });
    server.post(&link).await.expect(201);
    server.follow("/x/%2e%2e%2fa").await.page(404, "not found");
    server
        .follow("/x")
        .await
        .redirects(302, "https://example.com/");
    server.follow("/x").await.redirects(302, over);
    let request = server.api(Method::POST, "/links/x/resolve");
    let run = send(request.json(&json!({}))).await.expect(200);
    assert_eq!(
        (&run["outcome"], &run["location"]),
        (&json!("expired"), &json!(over))
    );
}

#[tokio::test]
async fn expired_url_when_invalid_is_refused() {
    let blocked = [("EDGELINK_LINKS_BLOCKED_HOSTS", "*.evil.example")];
    let server = Running::with(&blocked).await;
    for url in [
        json!("ftp://example.com/"),
        json!("https://go.example:8080/a"),
        json!("https://a.evil.example/"),
        json!(5),
    ] {
        let link = json!({ "longUrl": "https://example.com/", "expiredUrl": url });
        let refused = server.post(&link).await;
        assert_eq!(refused.problem(422, "validation"), ["expiredUrl"], "{url}");
    }
    let link = json!({ "longUrl": "https://example.com/", "expiredUrl": "https://example.com/ b" });
    let created = server.post(&link).await.expect(201);
    assert_eq!(created["expiredUrl"], "https://example.com/%20b");
}

#[tokio::test]
async fn path_when_link_forwards_it_joins_the_target() {
    let server = Running::start().await;
    let target = "https://example.com/docs?v=1";
    for (slug, forwards) in [("yes", true), ("no", false)] {
        let link = json!({ "longUrl": target, "customSlug": slug, "forwardPath": forwards });
        let created = server.post(&link).await.expect(201);
        assert_eq!(created["forwardPath"], forwards);
    }
    for (path, location) in [
        ("/yes", target),
        ("/yes/", "https://example.com/docs/?v=1"),
        ("/yes/a/b?w", "https://example.com/docs/a/b?v=1&w"),
        (
            "/yes//evil.example",
            "https://example.com/docs//evil.example?v=1",
        ),
    ] {
        server.follow(path).await.redirects(302, location);
    }
    for path in [
        "/no/",
        "/no/a",
        "/none/a",
        "/yes/%2e%2e/a",
        "/yes/a%2f..%2fb",
        "/api2/a",
    ] {
        server.follow(path).await.page(404, "not found");
    }
    let head = send(server.plain(Method::HEAD, "/yes/a")).await;
    head.redirects(302, "https://example.com/docs/a?v=1");
    let posted = send(server.plain(Method::POST, "/yes/a")).await;
    assert_eq!(posted.header("allow"), "GET, HEAD");
    posted.problem(405, "method-not-allowed");
    let run = async |path: &str| {
        let request = server.api(Method::POST, "/links/yes/resolve");
        send(request.json(&json!({ "path": path, "query": "w" }))).await
    };
    let joined = run("/a").await.expect(200);
    assert_eq!(joined["location"], "https://example.com/docs/a?v=1&w");
    let hostile = run("/..").await.expect(200);
    assert_eq!(
        (&hostile["outcome"], &hostile["status"]),
        (&json!("not_found"), &json!(404))
    );
    assert_eq!(run("a").await.problem(422, "validation"), ["path"]);
    let off = json!({ "forwardPath": null });
    let changed = server.patch("/links/yes", &off).await.expect(200);
    assert_eq!(changed["forwardPath"], false);
    server.follow("/yes/a").await.page(404, "not found");
}

#[tokio::test]
async fn link_when_it_tracks_conversions_says_so() {
    let server = Running::start().await;
    let link = json!({ "longUrl": "https://example.com/?a#b", "customSlug": "shop", "trackConversions": true });
    let created = server.post(&link).await.expect(201);
    assert_eq!(created["trackConversions"], true);
    let known = server.get("/links/shop").await.expect(200);
    assert_eq!(known["trackConversions"], true);
    let changed = server
        .patch("/links/shop", &json!({ "trackConversions": null }))
        .await;
    assert_eq!(changed.expect(200)["trackConversions"], false);
    let wrong = json!({ "trackConversions": "yes" });
    let refused = server.patch("/links/shop", &wrong).await;
    assert_eq!(refused.problem(422, "validation"), ["trackConversions"]);
}

#[tokio::test]
async fn redirect_when_noindex_is_configured_asks_for_it() {
    for is_configured in ["false", "true"] {
        let server = Running::with(&[("EDGELINK_LINKS_NOINDEX", is_configured)]).await;
        for (slug, crawlable) in [("yes", true), ("no", false)] {
            let link = json!({ "longUrl": "https://example.com/", "customSlug": slug, "crawlable": crawlable });
            let created = server.post(&link).await.expect(201);
            assert_eq!(created["crawlable"], crawlable);
        }
        let says = async |path: &str| {
            let answer = server.follow(path).await;
            answer
                .headers
                .get("x-robots-tag")
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let noindex = (is_configured == "true").then(|| "noindex".to_owned());
        assert_eq!(says("/no").await, noindex);
        assert_eq!(says("/yes").await, None);
        let changed = server
            .patch("/links/yes", &json!({ "crawlable": null }))
            .await;
        assert_eq!(changed.expect(200)["crawlable"], false);
        assert_eq!(says("/yes").await, noindex);
    }
}
