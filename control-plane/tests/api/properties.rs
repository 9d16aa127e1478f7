//! Properties of a link beside its target: external ids, campaign parameters, the archive.

use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn campaign_parameters_are_written_into_the_target_and_read_from_it() {
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
async fn campaign_parameters_that_make_the_target_too_long_are_refused() {
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
async fn an_archived_link_redirects_as_before() {
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
async fn an_external_id_is_that_of_one_link() {
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
