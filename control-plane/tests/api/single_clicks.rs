//! Single clicks and orphan visits: lists, files, and their deletion.

use crate::analytics::{BOT, click, counted, report, report_with, with_clicks};
use crate::helpers::{Running, on_every_engine, send, until};
use crate::scopes::tenant;
use edgelink_wire::clicks::events::{Event, Kind, OrphanKind};
use reqwest::Method;
use serde_json::{Value, json};

on_every_engine!(
    single_clicks_when_paged_have_all_but_the_token,
    click_field_when_unknown_is_null,
    clicks_when_exported_come_as_csv_or_ndjson,
    clicks_when_removed_are_noted_in_the_history,
    orphan_clicks_when_reported_are_counted_listed_and_removed,
    clicks_when_asked_for_as_shlink_visits_are_equal,
);

async fn single_clicks_when_paged_have_all_but_the_token(server: Running) {
    let server = with_clicks(server).await;
    let (mut clicks, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server
            .get(&format!("/links/a/clicks?limit=2{cursor}"))
            .await
            .expect(200);
        clicks.extend(page["clicks"].as_array().unwrap().clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(clicks.len(), 3);
    let people = server
        .get("/links/a/clicks?bots=excluded")
        .await
        .expect(200);
    assert_eq!(people["clicks"].as_array().unwrap().len(), 2);
    let bots = server.get("/links/a/clicks?bots=only").await.expect(200);
    let bot = &bots["clicks"][0];
    assert_eq!(
        (&bot["bot"], &bot["userAgent"]),
        (&json!(true), &json!(BOT))
    );
    assert_eq!(bot["country"], Value::Null);
    let german = clicks
        .iter()
        .find(|click| click["country"] == "DE")
        .unwrap();
    for (name, value) in [
        ("status", json!(302)),
        ("rule", Value::Null),
        ("city", json!("Berlin")),
        ("device", json!("mobile")),
        ("os", json!("iOS")),
        ("bot", json!(false)),
        ("referrer", json!("news.example")),
        ("language", json!("de-de")),
        ("utmSource", json!("newsletter")),
        ("conversions", json!([])),
    ] {
        assert_eq!(german[name], value, "{name}");
    }
    let early = server
        .get("/links/a/clicks?to=2020-01-01T00:00:00Z")
        .await
        .expect(200);
    assert_eq!(early["clicks"], json!([]));
}

async fn click_field_when_unknown_is_null(server: Running) {
    server.link("a").create().await;
    report_with(&server, 1, &[], &[("go.example:8080/a", 1)]).await;
    counted(&server, 1).await;
    let page = server.get("/links/a/clicks").await.expect(200);
    let file = |format: &str| format!("/links/a/clicks?format={format}");
    let line = server.get(&file("ndjson")).await;
    for click in [page["clicks"][0].clone(), line.json()] {
        let mut members = click.as_object().unwrap().clone();
        members.retain(|name, _| !["id", "at", "conversions"].contains(&name.as_str()));
        assert!(members.values().all(Value::is_null), "{click}");
        assert!(members.contains_key("status") && members.contains_key("bot"));
    }
    let table = server.get(&file("csv")).await;
    let row = table.text().lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split(',').skip(2).collect();
    assert!(cells[..17].iter().all(|cell| cell.is_empty()), "{row}");
}

async fn clicks_when_exported_come_as_csv_or_ndjson(server: Running) {
    server.link("a").create().await;
    let mut evil = click("go.example:8080/a");
    evil.attributes.referrer = "=cmd|' /C calc'!A0";
    evil.attributes.city = "A \"B\", C";
    report(&server, 1, &vec![evil; 2_500]).await;
    counted(&server, 2_500).await;
    let ask = async |accept: &str, query: &str| {
        let request = server.api(Method::GET, &format!("/links/a/clicks{query}"));
        send(request.header("accept", accept)).await
    };
    let table = ask("text/csv", "").await;
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8");
    assert!(
        table
            .header("content-disposition")
            .starts_with("attachment")
    );
    let mut lines = table.text().split_terminator("\r\n");
    let heads = "id,at,status,rule,country,city,device,browser,os,bot,referrer,language,utmSource,utmMedium,utmCampaign,\
        utmTerm,utmContent,userAgent,clickId,conversions";
    assert_eq!(lines.next(), Some(heads));
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), 2_500);
    for row in &rows {
        assert!(row.contains(",'=cmd|' /c calc'!a0,"), "{row}");
        assert!(row.contains(",\"A \"\"B\"\", C\","), "{row}");
    }
    let lines = ask("*/*", "?format=ndjson&limit=1200").await;
    assert_eq!(lines.header("content-type"), "application/x-ndjson");
    let clicks: Vec<Value> = lines
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(clicks.len(), 1_200);
    let last = clicks[1_199]["id"].as_str().unwrap();
    let rest = ask("application/x-ndjson", &format!("?cursor={last}")).await;
    let rest: Vec<&str> = rest.text().lines().collect();
    assert_eq!(rest.len(), 1_300);
    assert_eq!(
        ask("text/csv", "?limit=100001")
            .await
            .problem(422, "validation"),
        ["limit"]
    );
}

async fn clicks_when_removed_are_noted_in_the_history(server: Running) {
    let server = with_clicks(server).await;
    assert_eq!(
        server.delete("/links/a/clicks").await.expect(200),
        json!({ "deleted": 3 })
    );
    assert_eq!(
        server.delete("/links/a/clicks").await.expect(200),
        json!({ "deleted": 0 })
    );
    assert_eq!(
        server.get("/links/a/clicks").await.expect(200)["clicks"],
        json!([])
    );
    let totals = server.get("/analytics?shortCode=a").await.expect(200);
    assert_eq!(totals["totals"]["clicks"], 0);
    let history = server.get("/links/a/history").await.expect(200);
    let entry = &history["entries"][0];
    assert_eq!(
        (&entry["action"], &entry["detail"]["clicks"]),
        (&json!("clicks.delete"), &json!(3))
    );
}

async fn orphan_clicks_when_reported_are_counted_listed_and_removed(server: Running) {
    server.link("a").on("other.example").create().await;
    let orphan = |key, kind| Event {
        kind: Kind::Orphan(kind),
        ..click(key)
    };
    let visits = [
        orphan("go.example:8080/", OrphanKind::BaseUrl),
        orphan("go.example:8080/absent", OrphanKind::InvalidShortUrl),
        orphan("go.example:8080/wp/login.php", OrphanKind::Regular404),
        orphan("other.example/wp/login.php", OrphanKind::Regular404),
    ];
    report(&server, 1, &visits).await;
    until("orphan visits are counted", async || {
        server.get("/analytics/orphans").await.expect(200)["totals"]["clicks"] == 4
    })
    .await;
    let by = async |query: &str| {
        server
            .get(&format!("/analytics/orphans?{query}"))
            .await
            .expect(200)
    };
    assert_eq!(
        by("limit=1").await["data"],
        json!([{ "value": "/wp/login.php", "clicks": 2 }])
    );
    assert_eq!(by("limit=1").await["other"], 2);
    let types = by("groupBy=types").await;
    assert_eq!(
        types["data"][0],
        json!({ "value": "regular_404", "clicks": 2 })
    );
    let domains = by("groupBy=domains&domain=other.example").await;
    assert_eq!(
        domains["data"],
        json!([{ "value": "other.example", "clicks": 1 }])
    );
    let list = server
        .get("/analytics/orphans/visits?domain=other.example")
        .await
        .expect(200);
    let visit = &list["clicks"][0];
    assert_eq!(
        (&visit["type"], &visit["url"]),
        (&json!("regular_404"), &json!("other.example/wp/login.php"))
    );
    assert_eq!(visit["status"], 404);
    assert_eq!(
        server.get("/analytics").await.expect(200)["totals"]["clicks"],
        0
    );
    let stranger = tenant(&server, "other").await;
    let none = stranger.get("/analytics/orphans").await.expect(200);
    assert_eq!(none["totals"]["clicks"], 0);
    assert_eq!(
        server.delete("/analytics/orphans").await.expect(200),
        json!({ "deleted": 4 })
    );
    assert_eq!(by("").await["totals"]["clicks"], 0);
}

async fn clicks_when_asked_for_as_shlink_visits_are_equal(server: Running) {
    let server = with_clicks(server).await;
    let orphan = Event {
        kind: Kind::Orphan(OrphanKind::BaseUrl),
        ..click("go.example:8080/")
    };
    report(&server, 2, &[orphan]).await;
    let visits = async |path: &str| {
        let request = server.plain(Method::GET, &format!("/rest/v3{path}"));
        let answer = send(request.header("x-api-key", &server.admin_key)).await;
        answer.expect(200)["visits"].clone()
    };
    until("the orphan visit is written", async || {
        visits("/visits/orphan").await["pagination"]["totalItems"] == 1
    })
    .await;
    for (path, total) in [
        ("/short-urls/a/visits", 3),
        ("/short-urls/a/visits?excludeBots=true", 2),
        ("/tags/x/visits", 3),
        ("/domains/DEFAULT/visits", 4),
        ("/visits/non-orphan", 4),
        ("/visits/orphan?type=base_url", 1),
    ] {
        let found = visits(path).await;
        assert_eq!(found["pagination"]["totalItems"], total, "{path}");
        assert_eq!(found["data"].as_array().unwrap().len(), total, "{path}");
    }
    let visit = &visits("/short-urls/b/visits").await["data"][0];
    assert_eq!(
        (&visit["referer"], &visit["visitLocation"]["cityName"]),
        (&json!("news.example"), &json!("Berlin"))
    );
    let all = visits("/visits").await;
    assert_eq!(all["nonOrphanVisits"]["total"], 4, "{all}");
}
