//! A click from Envoy to the answers about it, and to those who listen.

use edgelink_tests::scenario::{CITY_HEADER, COUNTRY_HEADER, DOMAIN, Request};
use edgelink_tests::stack::{Deployment, EnvoyOptions, until};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

const AGENT: &[u8] = b"Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
    Version/17.4 Mobile/15E148 Safari/604.1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn click_when_at_envoy_is_streamed_and_counted() {
    let options = EnvoyOptions {
        domains: vec![DOMAIN.to_owned()],
        clicks: "true",
        click_attributes: "country,city,userAgent,referrer,language,utm,rule,visitor",
        geo_headers: [COUNTRY_HEADER, CITY_HEADER],
        ..EnvoyOptions::default()
    };
    let edgelink = Deployment::start(&options).await;
    let link = edgelink.link("a").tags(&["x"]);
    link.with("trackConversions", true).create().await;
    let mut stream = edgelink.control_plane.listen("?tags=x").await;
    let mut heard = String::new();

    let visit = Request::get("/a?utm_source=mail")
        .header("user-agent", AGENT)
        .header("referer", b"https://News.example/today")
        .header("accept-language", b"de-DE,de;q=0.5")
        .header(COUNTRY_HEADER, b"de")
        .header(CITY_HEADER, b"Bonn");
    let answer = edgelink.envoy.visit(&visit).await;
    assert_eq!(answer.status, 302);
    let location = answer.header("location").unwrap_or_default().to_owned();
    let (_, id) = location
        .split_once("el_click=")
        .expect("the id of the click");

    read_until(&mut stream, &mut heard, "event: click\ndata: ").await;
    read_until(&mut stream, &mut heard, "\"clickId\":").await;
    for part in [
        r#""shortCode":"a""#,
        r#""country":"DE""#,
        r#""device":"mobile""#,
        id,
    ] {
        assert!(heard.contains(part), "{part}: {heard}");
    }

    for (group, value) in [
        ("countries", "DE"),
        ("cities", "Bonn"),
        ("devices", "mobile"),
        ("os", "iOS"),
        ("referrers", "news.example"),
        ("languages", "de-de"),
        ("utm_sources", "mail"),
        ("tags", "x"),
        ("links", "go.example/a"),
    ] {
        let path = format!("/analytics?groupBy={group}&shortCode=a");
        let item = until("the click is counted", LIMIT, async || {
            let answer = ask(&edgelink, "GET", &path, &Value::Null).await;
            answer["data"].get(0).cloned()
        })
        .await;
        assert_eq!(
            (&item["value"], &item["clicks"]),
            (&json!(value), &json!(1)),
            "{group}"
        );
    }
    let conversion = json!({ "clickId": id, "eventName": "sale", "value": 100, "currency": "EUR" });
    let tracked = ask(&edgelink, "POST", "/track", &conversion).await;
    assert_eq!(tracked["eventName"], "sale", "{tracked}");
    let clicks = ask(&edgelink, "GET", "/links/a/clicks", &Value::Null).await;
    let click = &clicks["clicks"][0];
    assert_eq!(
        (&click["clickId"], &click["conversions"][0]["value"]),
        (&json!(id), &json!(100))
    );
    edgelink.envoy.assert_unharmed().await;
}

async fn ask(edgelink: &Deployment, method: &str, path: &str, body: &Value) -> Value {
    let answer = edgelink.control_plane.api(method, path, body).await;
    answer.body
}

/// Reads until the text has come.
async fn read_until(stream: &mut reqwest::Response, read: &mut String, text: &str) {
    let wait = async {
        while !read.contains(text) {
            let chunk = stream.chunk().await.unwrap().expect("more of the stream");
            *read += std::str::from_utf8(&chunk).unwrap();
        }
    };
    tokio::time::timeout(LIMIT, wait).await.expect(text);
}
