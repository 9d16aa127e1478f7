//! Clicks from a report to the answers about them: who sees which, and what is said of them.

use crate::helpers::{Answer, EDGE_TOKENS, Running, on_every_engine, send, until};
use crate::scopes::{client, tenant};
use edgelink_tests::servers::ClickHouseServer;
use edgelink_wire::RedirectStatus;
use edgelink_wire::click_id;
use edgelink_wire::clicks::events::{Attributes, Event, EventsBuilder, Kind};
use edgelink_wire::clicks::{BatchEvents, ClickBatch, encode};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::hash::RandomState;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

on_every_engine!(
    clicks_when_grouped_by_attribute_are_counted_by_value,
    analytics_when_filtered_counts_matching_clicks_only,
    time_series_when_compared_has_its_parts_and_previous_totals,
    click_when_it_names_no_campaign_takes_that_of_its_target,
);

pub(crate) const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 \
    (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1";
pub(crate) const BOT: &str =
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// A click of a link on the default domain.
pub(crate) fn click(key: &str) -> Event<&str> {
    Event {
        key,
        at: now(),
        kind: Kind::Redirect(RedirectStatus::Found),
        rule: 0,
        attributes: Attributes {
            country: "DE",
            city: "Berlin",
            user_agent: IPHONE,
            referrer: "news.example",
            language: "de-de",
            utm: ["newsletter", "", "", "", ""],
        },
        visitor: Some(1),
        id: None,
    }
}

/// Reports events as batch `seq` of a worker, and waits for nothing.
pub(crate) async fn report(server: &Running, seq: u64, events: &[Event<&str>]) {
    report_with(server, seq, events, &[]).await;
}

/// Reports events, and clicks of links without any attribute.
pub(crate) async fn report_with(
    server: &Running,
    seq: u64,
    events: &[Event<&str>],
    clicks: &[(&str, u64)],
) {
    let mut builder = EventsBuilder::new(RandomState::new(), 1 << 20);
    for event in events {
        assert!(builder.push(&event.map(str::as_bytes)));
    }
    let encoded = builder.take();
    let batch = ClickBatch {
        worker: [9; 16],
        seq,
        at: now(),
        clicks: clicks.to_vec(),
        events: BatchEvents {
            bytes: &encoded.bytes,
            clicks: encoded.clicks,
        },
        ..ClickBatch::default()
    };
    let (token, _) = EDGE_TOKENS.split_once(',').unwrap();
    let request = server
        .plain(Method::POST, "/edge/v1/clicks")
        .bearer_auth(token);
    let answer = send(request.body(encode(&[batch]))).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT, "{answer:?}");
}

/// Waits until so many clicks of the tenant are counted.
pub(crate) async fn counted(server: &Running, clicks: u64) {
    until("clicks are counted", async || {
        server.get("/analytics").await.expect(200)["totals"]["clicks"] == clicks
    })
    .await;
}

/// A server with the links `a` (tag `x`) and `b`, three clicks of `a`, one of which is that of a bot, and one of `b`.
pub(crate) async fn with_clicks(server: Running) -> Running {
    server.link("a").tags(&["x"]).create().await;
    server.link("b").create().await;
    let a = click("go.example:8080/a");
    let mut other = click("go.example:8080/a");
    other.attributes.country = "FR";
    other.visitor = Some(2);
    let mut bot = click("go.example:8080/a");
    bot.attributes.user_agent = BOT;
    bot.attributes.country = "";
    bot.visitor = Some(3);
    let mut b = click("go.example:8080/b");
    b.rule = 2;
    b.kind = Kind::Redirect(RedirectStatus::MovedPermanently);
    report(&server, 1, &[a, other, bot, b]).await;
    counted(&server, 4).await;
    server
}

async fn values(server: &Running, query: &str) -> Value {
    let answer = server.get(&format!("/analytics?{query}")).await.expect(200);
    let sum: u64 = answer["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["clicks"].as_u64().unwrap())
        .sum();
    let is_of_tags = query.contains("groupBy=tags");
    assert!(
        is_of_tags || answer["totals"]["clicks"] == sum + answer["other"].as_u64().unwrap(),
        "{answer}"
    );
    answer["data"].clone()
}

async fn clicks_when_grouped_by_attribute_are_counted_by_value(server: Running) {
    let server = with_clicks(server).await;
    let one = |value: &str, clicks: u64| json!({ "value": value, "clicks": clicks });
    for (group, expected) in [
        (
            "countries",
            json!([one("DE", 2), { "value": null, "clicks": 1 }, one("FR", 1)]),
        ),
        ("cities", json!([one("Berlin", 4)])),
        ("referrers", json!([one("news.example", 4)])),
        ("languages", json!([one("de-de", 4)])),
        ("utm_sources", json!([one("newsletter", 4)])),
        ("utm_mediums", json!([{ "value": null, "clicks": 4 }])),
        (
            "rules",
            json!([{ "value": null, "clicks": 3 }, one("2", 1)]),
        ),
        ("statuses", json!([one("302", 3), one("301", 1)])),
        ("domains", json!([one("go.example:8080", 4)])),
        ("bots", json!([one("human", 3), one("bot", 1)])),
    ] {
        let found = values(&server, &format!("groupBy={group}")).await;
        assert_eq!(sorted(&found), sorted(&expected), "{group}");
    }
    let links = values(&server, "groupBy=links").await;
    let first = json!({
        "value": "go.example:8080/a", "clicks": 3, "shortCode": "a", "domain": "go.example:8080",
        "shortUrl": "https://go.example:8080/a",
    });
    assert_eq!(links[0], first);
    let tags = server.get("/analytics?groupBy=tags").await.expect(200);
    assert!(
        tags["data"].as_array().unwrap().contains(&one("x", 3)),
        "{tags}"
    );
    let devices = values(&server, "groupBy=devices&bots=excluded").await;
    assert_eq!(devices, json!([one("mobile", 3)]));
}

/// Items in an order that does not depend on that of equal ones.
fn sorted(items: &Value) -> Vec<String> {
    let mut texts: Vec<String> = items
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect();
    texts.sort_unstable();
    texts
}

async fn analytics_when_filtered_counts_matching_clicks_only(server: Running) {
    let server = with_clicks(server).await;
    for (query, clicks, visitors) in [
        ("", 4, 2),
        ("bots=excluded", 3, 2),
        ("bots=only", 1, 0),
        ("shortCode=a", 3, 2),
        ("shortCode=b", 1, 1),
        ("tags=x", 3, 2),
        ("tags=x&tags=y&tagsMode=all", 0, 0),
        ("domain=go.example:8080", 4, 2),
        ("domain=other.example", 0, 0),
        ("from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z", 0, 0),
    ] {
        let answer = server.get(&format!("/analytics?{query}")).await.expect(200);
        let expected = json!({ "clicks": clicks, "visitors": visitors });
        assert_eq!(answer["totals"], expected, "{query}");
        assert_eq!(answer["atLeast"], false);
    }
    server
        .get("/analytics?shortCode=absent")
        .await
        .problem(404, "link-not-found");
    server
        .get("/analytics?externalId=absent")
        .await
        .problem(404, "link-not-found");
}

async fn time_series_when_compared_has_its_parts_and_previous_totals(server: Running) {
    let server = with_clicks(server).await;
    let answer = server
        .get("/analytics?groupBy=timeseries&interval=7d&compare=previous&timezone=Europe/Berlin")
        .await
        .expect(200);
    assert_eq!(answer["interval"]["name"], "7d");
    assert_eq!(answer["interval"]["granularity"], "day");
    assert_eq!(answer["interval"]["timezone"], "Europe/Berlin");
    let parts = answer["data"].as_array().unwrap();
    assert_eq!(parts.len(), 7);
    let last = &parts[6];
    assert_eq!((&last["clicks"], &last["visitors"]), (&json!(4), &json!(2)));
    assert_eq!(
        answer["previous"]["interval"]["to"],
        answer["interval"]["from"]
    );
    assert_eq!(
        answer["previous"]["totals"],
        json!({ "clicks": 0, "visitors": 0 })
    );
    let hour = 3_600;
    let next = OffsetDateTime::now_utc().unix_timestamp() / hour * hour + hour;
    let next = [next, next + 3 * hour].map(|at| {
        let at = OffsetDateTime::from_unix_timestamp(at).unwrap();
        at.format(&Rfc3339).unwrap()
    });
    let [from, to] = &next;
    let query = format!("groupBy=countries&from={from}&to={to}&compare=previous");
    let answer = server.get(&format!("/analytics?{query}")).await.expect(200);
    assert_eq!(answer["data"], json!([]));
    assert_eq!(answer["previous"]["totals"]["clicks"], 4);
    assert_eq!(answer["previous"]["data"][0]["clicks"], 2, "{answer}");
    let hours = server
        .get("/analytics?groupBy=timeseries")
        .await
        .expect(200);
    assert_eq!(hours["data"].as_array().unwrap().len(), 24);
    assert_eq!(hours["data"][23]["clicks"], 4);
}

#[tokio::test]
async fn analytics_query_when_wrong_names_every_parameter() {
    let server = Running::start().await;
    let query = "groupBy=moon&interval=2d&timezone=Mars&bots=some&limit=0&compare=next&tagsMode=one&shortCode=a%20b&a=b";
    let mut fields = server
        .get(&format!("/analytics?{query}"))
        .await
        .problem(422, "validation");
    fields.sort_unstable();
    let expected = [
        "a",
        "bots",
        "compare",
        "groupBy",
        "interval",
        "limit",
        "shortCode",
        "tagsMode",
        "timezone",
    ];
    assert_eq!(fields, expected);
    let parts = "/analytics?groupBy=timeseries&interval=1y&granularity=hour";
    assert_eq!(
        server.get(parts).await.problem(422, "validation"),
        ["granularity"]
    );
    for query in [
        "analytics?groupBy=timeseries",
        "analytics?",
        "analytics/orphans?",
    ] {
        // ClickHouse only has minutes, and of series only.
        let minutes = format!(
            "/{query}&granularity=minute&from=2026-11-22T10:00:00Z&to=2026-11-22T11:00:00Z"
        );
        let fields = server.get(&minutes).await.problem(422, "validation");
        assert_eq!(fields, ["granularity"], "{query}");
    }
    let fields = server.get("/analytics?interval=all&compare=previous").await;
    assert_eq!(fields.problem(422, "validation"), ["compare"]);
    let answer = server
        .get("/links/absent/clicks?format=xml&limit=101&cursor=1")
        .await;
    assert_eq!(
        answer.problem(422, "validation"),
        ["format", "limit", "cursor"]
    );
}

#[tokio::test]
async fn analytics_when_asked_for_by_a_key_counts_its_links_only() {
    let server = with_clicks(Running::start().await).await;
    let editor = client(&server, "editor", &json!({})).await;
    editor.link("own").create().await;
    report(&server, 2, &[click("go.example:8080/own")]).await;
    counted(&server, 5).await;
    let total = async |answer: Answer| answer.expect(200)["totals"]["clicks"].clone();
    assert_eq!(total(editor.get("/analytics").await).await, 1);
    assert_eq!(total(editor.get("/analytics?shortCode=own").await).await, 1);
    editor
        .get("/analytics?shortCode=a")
        .await
        .problem(404, "link-not-found");
    editor
        .get("/links/a/clicks")
        .await
        .problem(404, "link-not-found");
    editor
        .get("/analytics/orphans")
        .await
        .problem(403, "forbidden");
    for (bounds, clicks) in [
        (json!({ "tags": ["x"] }), 3),
        (json!({ "domains": ["other.example"] }), 0),
        (json!({ "domains": ["go.example:8080"] }), 5),
        (
            json!({ "domains": ["go.example:8080", "other.example"] }),
            5,
        ),
    ] {
        let reader = client(&server, "reader", &bounds).await;
        assert_eq!(
            total(reader.get("/analytics").await).await,
            clicks,
            "{bounds}"
        );
        let asked = reader.get("/analytics?domain=other.example").await;
        assert_eq!(total(asked).await, 0);
    }
    let stranger = tenant(&server, "other").await;
    assert_eq!(total(stranger.get("/analytics").await).await, 0);
    let links = stranger.get("/analytics?groupBy=links").await.expect(200);
    assert_eq!(links["data"], json!([]));
    stranger
        .get("/links/a/clicks")
        .await
        .problem(404, "link-not-found");
}

async fn click_when_it_names_no_campaign_takes_that_of_its_target(server: Running) {
    let target = "https://shop.example/?utm_source=news&utm_medium=mail";
    server.link("a").to(target).create().await;
    let mut plain = click("go.example:8080/a");
    plain.attributes.utm = [""; 5];
    report(&server, 1, &[plain, click("go.example:8080/a")]).await;
    counted(&server, 2).await;
    let one = |value: &str, clicks: u64| json!({ "value": value, "clicks": clicks });
    let sources = values(&server, "groupBy=utm_sources&shortCode=a").await;
    assert_eq!(sources, json!([one("news", 1), one("newsletter", 1)]));
    let mediums = values(&server, "groupBy=utm_mediums").await;
    assert_eq!(mediums, json!([one("mail", 2)]));
    let clicks = server.get("/links/a/clicks").await.expect(200);
    for click in clicks["clicks"].as_array().unwrap() {
        assert_eq!(click["utmMedium"], "mail", "{click}");
    }
}

#[tokio::test]
async fn analytics_when_clickhouse_is_down_answers_503_and_loses_no_click() {
    let mut clickhouse = ClickHouseServer::start();
    let server = Running::with(&[
        ("EDGELINK_ANALYTICS_ENGINE", "clickhouse"),
        ("EDGELINK_ANALYTICS_CLICKHOUSE_URL", &clickhouse.url()),
    ])
    .await;
    server.link("a").create().await;
    let clicks = [click("go.example:8080/a")];
    report(&server, 1, &clicks).await;
    counted(&server, 1).await;
    clickhouse.kill();
    for path in [
        "/analytics",
        "/analytics?groupBy=countries",
        "/links/a/clicks",
        "/links/a/clicks?format=csv",
        "/analytics/orphans",
    ] {
        let answer = server.get(path).await;
        answer.problem(503, "analytics-unavailable");
    }
    let deletion = server.delete("/links/a/clicks").await;
    deletion.problem(503, "analytics-unavailable");
    report(&server, 2, &clicks).await;
    clickhouse.restart();
    until("both clicks are counted", async || {
        let answer = server.get("/analytics").await;
        answer.status == 200 && answer.json()["totals"]["clicks"] == 2
    })
    .await;
}

#[tokio::test]
async fn conversion_when_other_link_has_its_external_id_is_created() {
    let server = Running::start().await;
    let editors = [
        client(&server, "editor", &json!({})).await,
        client(&server, "editor", &json!({ "quota": 9 })).await,
    ];
    for (editor, code) in editors.iter().zip(["a", "b"]) {
        editor.link(code).create().await;
    }
    let mut clicks = [click("go.example:8080/a"), click("go.example:8080/b")];
    for (number, click) in (0_u8..).zip(&mut clicks) {
        click.id = Some([number; 16]);
    }
    report(&server, 1, &clicks).await;
    counted(&server, 2).await;
    for (number, editor) in (0_u8..).zip(&editors) {
        let id = click_id::to_text([number; 16]);
        let body = json!({ "clickId": id, "eventName": "sale", "externalId": "order-1" });
        let answer = editor.send(Method::POST, "/track", &body).await;
        assert_eq!(answer.expect(201)["clickId"], id);
        let foreign = click_id::to_text([1 - number; 16]);
        let body = json!({ "clickId": foreign, "eventName": "sale" });
        let refused = editor.send(Method::POST, "/track", &body).await;
        refused.problem(404, "click-not-found");
    }
}

#[tokio::test]
async fn conversion_when_sent_again_counts_once() {
    let server = Running::start().await;
    server.link("a").create().await;
    let mut identified = click("go.example:8080/a");
    identified.id = Some([0xab; 16]);
    report(&server, 1, &[identified]).await;
    let body = json!({
        "clickId": click_id::to_text([0xab; 16]), "eventName": "sale", "externalId": "order-1", "value": 4_999, "currency": "EUR",
    });
    let track = async |body: &Value| send(server.api(Method::POST, "/track").json(body)).await;
    until("the click is known", async || {
        track(&body).await.status != 404
    })
    .await;
    let again = track(&body).await.expect(200);
    assert_eq!(
        (&again["eventName"], &again["value"]),
        (&json!("sale"), &json!(4_999))
    );
    let mut second = body.clone();
    second["externalId"] = json!("order-2");
    second["value"] = json!(1);
    track(&second).await.expect(201);
    let lead = json!({ "clickId": click_id::to_text([0xab; 16]), "eventName": "lead" });
    track(&lead).await.expect(201);
    track(&lead).await.expect(200);
    let answer = server
        .get("/analytics?groupBy=conversions")
        .await
        .expect(200);
    let expected = json!([
        { "value": "sale", "conversions": 2, "amounts": [{ "currency": "EUR", "value": 5_000 }] },
        { "value": "lead", "conversions": 1, "amounts": [] },
    ]);
    assert_eq!(answer["data"], expected);
    let of_link = server
        .get("/analytics?groupBy=conversions&shortCode=a")
        .await
        .expect(200);
    assert_eq!(of_link["data"], expected);
    let clicks = server.get("/links/a/clicks").await.expect(200);
    assert_eq!(
        clicks["clicks"][0]["clickId"],
        click_id::to_text([0xab; 16])
    );
    assert_eq!(
        clicks["clicks"][0]["conversions"].as_array().unwrap().len(),
        3
    );

    let absent = json!({ "clickId": "0".repeat(22), "eventName": "sale" });
    track(&absent).await.problem(404, "click-not-found");
    let stranger = tenant(&server, "other").await;
    stranger
        .send(Method::POST, "/track", &body)
        .await
        .problem(404, "click-not-found");
    let editor = client(&server, "editor", &json!({})).await;
    editor
        .send(Method::POST, "/track", &body)
        .await
        .problem(404, "click-not-found");
    for number in 4..=100 {
        let more =
            json!({ "clickId": click_id::to_text([0xab; 16]), "eventName": format!("e{number}") });
        track(&more).await.expect(201);
    }
    let one_more = json!({ "clickId": click_id::to_text([0xab; 16]), "eventName": "e101" });
    track(&one_more).await.problem(409, "too-many-conversions");
    let first = server.get("/analytics?groupBy=conversions&limit=1").await;
    let first = first.expect(200);
    assert_eq!(
        (&first["data"][0]["value"], &first["other"]),
        (&json!("sale"), &json!(98))
    );
    server.delete("/links/a/clicks").await.expect(200);
    let none = server
        .get("/analytics?groupBy=conversions")
        .await
        .expect(200);
    assert_eq!(none["data"], json!([]));
}
