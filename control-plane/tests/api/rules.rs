//! `/links/{code}/rules` and `/links/{code}/resolve`.

use crate::helpers::{Running, send};
use reqwest::Method;
use serde_json::{Value, json};

const IPHONE: &str =
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) Version/17.5 Safari/604.1";

/// A server with the link `a`.
async fn with_link() -> Running {
    let variables = [
        ("EDGELINK_LINKS_COUNTRY_HEADER", "X-Country"),
        ("EDGELINK_LINKS_CITY_HEADER", "x-city"),
    ];
    let server = Running::with(&variables).await;
    let link = server.link("a").to("https://example.com/own?x=1");
    link.create().await;
    server
}

async fn put_rules(server: &Running, rules: Value) -> Value {
    let body = json!({ "redirectRules": rules });
    let request = server.api(Method::POST, "/links/a/rules").json(&body);
    send(request).await.expect(200)
}

fn condition(kind: &str, key: Option<&str>, value: Option<&str>) -> Value {
    json!({ "type": kind, "matchKey": key, "matchValue": value })
}

fn rule(target: &str, conditions: &[Value]) -> Value {
    json!({ "longUrl": target, "conditions": conditions })
}

/// Where a visitor with those headers is sent.
async fn sent_to(server: &Running, path: &str, headers: &[(&str, &str)]) -> String {
    let mut request = server.plain(Method::GET, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = send(request).await;
    assert_eq!(answer.status, 302, "{path}");
    answer.header("location").to_owned()
}

#[tokio::test]
async fn rules_when_put_keep_their_order_and_replace_all() {
    let server = with_link().await;
    let none = server.get("/links/a/rules").await;
    assert_eq!(
        none.expect(200),
        json!({ "defaultLongUrl": "https://example.com/own?x=1", "redirectRules": [] })
    );
    let ios = [condition("device", None, Some("ios"))];
    let both = [
        condition("language", None, Some("de")),
        condition("any-value-query-param", Some("q"), None),
    ];
    let rules = json!([
        rule("https://example.com/ b", &both),
        rule("https://example.com/ios", &ios)
    ]);
    let answered = put_rules(&server, rules).await;
    let expected = json!({
        "defaultLongUrl": "https://example.com/own?x=1",
        "redirectRules": [
            { "longUrl": "https://example.com/%20b", "priority": 1, "conditions": both },
            { "longUrl": "https://example.com/ios", "priority": 2, "conditions": ios },
        ],
    });
    assert_eq!(answered, expected);
    let kept = server.get("/links/a/rules").await.expect(200);
    assert_eq!(kept, expected);
    // What was answered can be sent back.
    assert_eq!(
        put_rules(&server, kept["redirectRules"].clone()).await,
        expected
    );
    let link = json!({ "longUrl": "https://example.com/new" });
    server.patch("/links/a", &link).await.expect(200);
    let kept = server.get("/links/a/rules").await.expect(200);
    assert_eq!(kept["redirectRules"], expected["redirectRules"]);
    let removed = put_rules(&server, json!([])).await;
    assert_eq!(removed["redirectRules"], json!([]));
}

#[tokio::test]
async fn visitor_when_a_rule_matches_is_sent_to_its_target() {
    let server = with_link().await;
    for (condition, header) in [
        (
            condition("device", None, Some("ios")),
            ("user-agent", IPHONE),
        ),
        (
            condition("browser", None, Some("safari")),
            ("user-agent", IPHONE),
        ),
        (
            condition("language", None, Some("de")),
            ("accept-language", "de-AT,en;q=0.5"),
        ),
        (
            condition("geolocation-country-code", None, Some("ES")),
            ("x-country", "ES"),
        ),
        (
            condition("geolocation-city-name", None, Some("Bonn")),
            ("X-City", "bonn"),
        ),
    ] {
        put_rules(
            &server,
            json!([rule(
                "https://example.com/rule",
                std::slice::from_ref(&condition)
            )]),
        )
        .await;
        let ruled = sent_to(&server, "/a?y", &[header]).await;
        assert_eq!(ruled, "https://example.com/rule?y", "{condition}");
        let own = sent_to(&server, "/a?y", &[("x-other", "ES")]).await;
        assert_eq!(own, "https://example.com/own?x=1&y", "{condition}");
    }
    for (condition, path) in [
        (
            condition("query-param", Some("q"), Some("1 2")),
            "/a?q=1%202",
        ),
        (
            condition("any-value-query-param", Some("q"), None),
            "/a?q=3",
        ),
        (condition("valueless-query-param", Some("q"), None), "/a?q"),
    ] {
        put_rules(
            &server,
            json!([rule(
                "https://example.com/rule",
                std::slice::from_ref(&condition)
            )]),
        )
        .await;
        let ruled = sent_to(&server, path, &[]).await;
        assert!(
            ruled.starts_with("https://example.com/rule"),
            "{condition}: {ruled}"
        );
        let own = sent_to(&server, "/a?q=9&q=8", &[]).await;
        let holds = condition["type"] == "any-value-query-param";
        assert_eq!(ruled_by(&own), holds, "{condition}: {own}");
    }
    for (condition, holds) in [
        (condition("ip-address", None, Some("127.0.0.0/8")), true),
        (condition("ip-address", None, Some("10.*.*.*")), false),
        (
            condition("before-date", None, Some("2020-01-01T00:00:00Z")),
            false,
        ),
        (
            condition("after-date", None, Some("2020-01-01T00:00:00Z")),
            true,
        ),
    ] {
        put_rules(
            &server,
            json!([rule(
                "https://example.com/rule",
                std::slice::from_ref(&condition)
            )]),
        )
        .await;
        let target = sent_to(&server, "/a", &[]).await;
        assert_eq!(ruled_by(&target), holds, "{condition}");
    }
}

fn ruled_by(target: &str) -> bool {
    target.starts_with("https://example.com/rule")
}

#[tokio::test]
async fn dry_run_when_a_rule_matches_names_it_and_why() {
    let server = with_link().await;
    let rules = json!([
        rule(
            "https://example.com/1",
            &[
                condition("device", None, Some("ios")),
                condition("ip-address", None, Some("2001:db8::/32")),
            ]
        ),
        rule(
            "https://example.com/2",
            &[condition("after-date", None, Some("2030-01-01T00:00:00Z"))]
        ),
        rule(
            "https://example.com/3",
            &[condition("geolocation-country-code", None, Some("ES"))]
        ),
    ]);
    put_rules(&server, rules).await;
    let run = async |visitor: Value| {
        let request = server.api(Method::POST, "/links/a/resolve").json(&visitor);
        send(request).await.expect(200)
    };
    let at = "2030-01-01T00:00:00Z";
    let second =
        run(json!({ "userAgent": IPHONE, "ip": "192.0.2.7", "at": at, "query": "?y" })).await;
    assert_eq!(second["outcome"], "redirect");
    assert_eq!(second["status"], 302);
    assert_eq!(second["location"], "https://example.com/2?y");
    assert_eq!(second["matchedRule"], 2);
    assert_eq!(second["at"], at);
    let first = &second["rules"][0];
    assert_eq!(first["matches"], false);
    assert_eq!(first["conditions"][0]["matches"], true);
    assert_eq!(first["conditions"][0]["saw"], "ios");
    assert_eq!(first["conditions"][1]["matches"], false);
    assert_eq!(first["conditions"][1]["saw"], "192.0.2.7");
    assert_eq!(second["rules"][2]["conditions"][0]["saw"], Value::Null);
    let inside = run(json!({ "userAgent": IPHONE, "ip": "2001:db8::7" })).await;
    assert_eq!(inside["location"], "https://example.com/1");
    let nothing = run(json!({})).await;
    assert_eq!(nothing["location"], "https://example.com/own?x=1");
    assert_eq!(nothing["matchedRule"], Value::Null);
    server
        .patch("/links/a", &json!({ "state": "disabled" }))
        .await
        .expect(200);
    let gone = run(json!({})).await;
    assert_eq!(
        (&gone["outcome"], &gone["status"]),
        (&json!("gone"), &json!(410))
    );
    assert_eq!(gone["location"], Value::Null);
    let request = server.api(Method::POST, "/links/a/resolve");
    let visitor = json!({ "ip": "x", "at": 5, "query": [], "what": 1 });
    let refused = send(request.json(&visitor)).await;
    let refused = refused.problem(422, "validation");
    assert_eq!(refused, ["query", "ip", "at", "what"]);
    let request = server
        .api(Method::POST, "/links/none/resolve")
        .json(&json!({}));
    send(request).await.problem(404, "link-not-found");
}

#[tokio::test]
async fn rules_when_wrong_name_every_error() {
    let server = with_link().await;
    let send_rules = async |body: Value| {
        let request = server.api(Method::POST, "/links/a/rules").json(&body);
        send(request).await.problem(422, "validation")
    };
    let good = condition("device", None, Some("ios"));
    let body = json!({
        "redirectRules": [
            rule("https://example.com/", std::slice::from_ref(&good)),
            {
                "longUrl": "https://go.example:8080/x",
                "priority": 9,
                "conditions": [
                    condition("device", None, Some("tv")),
                    condition("colour", None, Some("red")),
                    { "type": "device", "matchValue": 5 },
                    { "type": "device", "matchValue": "ios", "more": 1 },
                    "x",
                ],
                "more": 1,
            },
            rule("ftp://example.com/", &[]),
            { "conditions": [condition("weight", Some("k"), Some("100"))] },
            5,
        ],
        "defaultLongUrl": "https://example.com/",
    });
    let mut found = send_rules(body).await;
    found.sort();
    let mut expected = [
        "defaultLongUrl",
        "redirectRules[1].longUrl",
        "redirectRules[1].more",
        "redirectRules[1].conditions[0].matchValue",
        "redirectRules[1].conditions[1].type",
        "redirectRules[1].conditions[2].matchValue",
        "redirectRules[1].conditions[3].more",
        "redirectRules[1].conditions[4]",
        "redirectRules[2].longUrl",
        "redirectRules[2].conditions",
        "redirectRules[3].longUrl",
        "redirectRules[3].conditions[0].matchKey",
        "redirectRules[3].conditions[0].matchValue",
        "redirectRules[4]",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    for body in [
        json!({}),
        json!({ "redirectRules": 5 }),
        json!({ "redirectRules": null }),
    ] {
        assert_eq!(send_rules(body).await, ["redirectRules"]);
    }
    let one = rule("https://example.com/", std::slice::from_ref(&good));
    let too_many = json!({ "redirectRules": vec![one.clone(); 33] });
    assert_eq!(send_rules(too_many).await, ["redirectRules"]);
    let too_many =
        json!({ "redirectRules": [rule("https://example.com/", &vec![good.clone(); 9])] });
    assert_eq!(send_rules(too_many).await, ["redirectRules[0].conditions"]);
    let long = format!("https://example.com/{}", "a".repeat(7_900));
    let too_long = json!({ "redirectRules": vec![rule(&long, &[good]); 3] });
    assert_eq!(send_rules(too_long).await, ["redirectRules"]);
    let unchanged = server.get("/links/a/rules").await.expect(200);
    assert_eq!(unchanged["redirectRules"], json!([]));
    put_rules(&server, json!(vec![one; 32])).await;
}

#[tokio::test]
async fn rules_when_etag_is_outdated_are_not_changed() {
    let server = with_link().await;
    let before = server.get("/links/a/rules").await;
    let tag = before.header("etag").to_owned();
    let replace = async |code: &str, tag: &str| {
        let request = server.api(Method::POST, &format!("/links/{code}/rules"));
        let body = json!({ "redirectRules": [] });
        send(request.header("if-match", tag).json(&body)).await
    };
    let changed = replace("a", &tag).await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), tag);
    assert_eq!(replace("a", &tag).await.status, 412);
    replace("none", "*").await.problem(404, "link-not-found");
    let none = server.get("/links/none/rules").await;
    none.problem(404, "link-not-found");
}
