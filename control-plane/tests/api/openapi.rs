//! The OpenAPI document, as it is served and as it is true.

use crate::analytics::{click, counted, report};
use crate::helpers::{Answer, Running, send};
use edgelink_wire::click_id;
use edgelink_wire::clicks::events::{Kind, OrphanKind};
use reqwest::Method;
use serde_json::Value;

async fn document(server: &Running) -> Value {
    server.follow("/openapi.json").await.expect(200)
}

/// What a reference of the document leads to.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let Some(name) = schema["$ref"].as_str() else {
        return schema;
    };
    document
        .pointer(&name[1..])
        .unwrap_or_else(|| panic!("{name}"))
}

/// The example of an operation's body; `None` if it has no body.
fn example(document: &Value, operation: &Value) -> Option<Value> {
    let schema = operation.pointer("/requestBody/content/application~1json/schema")?;
    let of = |schema| resolve(document, schema)["example"].clone();
    let example = match schema.get("items") {
        Some(items) => Value::Array(vec![of(items)]),
        None => of(schema),
    };
    assert!(!example.is_null(), "{operation}");
    Some(example)
}

/// Checks that an operation answered as the document says: a status of success that it names, and a body that has what the schema
/// requires and nothing that it does not know.
fn assert_documented(document: &Value, operation: &Value, answer: &Answer) {
    let (id, status) = (&operation["operationId"], answer.status.as_str());
    let response = &operation["responses"][status];
    assert!(
        answer.status.is_success() && response.is_object(),
        "{id}: {answer:?}"
    );
    for name in response["headers"]
        .as_object()
        .into_iter()
        .flat_map(|headers| headers.keys())
    {
        assert!(
            !answer.header(&name.to_lowercase()).is_empty(),
            "{id}: {name}"
        );
    }
    let Some(schema) = response.pointer("/content/application~1json/schema") else {
        assert!(answer.body.is_empty(), "{id}: {answer:?}");
        return;
    };
    assert_matches(document, schema, &answer.json(), id);
}

fn assert_matches(document: &Value, schema: &Value, value: &Value, id: &Value) {
    let schema = resolve(document, schema);
    if let Some(items) = schema.get("items") {
        for item in value.as_array().into_iter().flatten() {
            assert_matches(document, items, item, id);
        }
    }
    let (Some(properties), Some(object)) = (schema["properties"].as_object(), value.as_object())
    else {
        return;
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(
            object.contains_key(name.as_str().unwrap()),
            "{id}: {name} is missing in {value}"
        );
    }
    for (name, value) in object {
        let property = properties.get(name);
        let property = property.unwrap_or_else(|| panic!("{id}: {name} is not documented"));
        assert_matches(document, property, value, id);
    }
}

#[tokio::test]
async fn document_when_served_is_the_committed_one() {
    let server = Running::start().await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let committed: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let served = document(&server).await;
    assert_eq!(served, committed);
    assert!(served["openapi"].as_str().unwrap().starts_with("3.1"));
}

#[tokio::test]
async fn document_page_when_opened_loads_nothing_external() {
    let server = Running::start().await;
    let page = server.follow("/api/docs").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'none'")
    );
    assert!(page.text().contains("fetch(\"/openapi.json\")"));
    for elsewhere in ["http:", "https:", "src=", "//cdn"] {
        assert!(!page.text().contains(elsewhere), "{elsewhere}");
    }
}

/// All operations, so that each finds what the ones before it made.
const ORDER: &[&str] = &[
    "createLink",
    "putLink",
    "listLinks",
    "getLink",
    "listTags",
    "renameTag",
    "changeLink",
    "deleteTag",
    "setRules",
    "getRules",
    "resolveLink",
    "listHistory",
    "trackConversion",
    "listClicks",
    "getAnalytics",
    "getOrphans",
    "listOrphans",
    "deleteClicks",
    "listReports",
    "changeReport",
    "deleteLink",
    "restoreLink",
    "changeLinks",
    "deleteLinks",
    "createLinks",
    "importLinks",
    "moveLink",
    "createKey",
    "listKeys",
    "getKey",
    "changeKey",
    "rotateKey",
    "revokeKey",
    "createUser",
    "listUsers",
    "getUser",
    "changeUser",
    "createWebhook",
    "listWebhooks",
    "getWebhook",
    "pingWebhook",
    "listDeliveries",
    "changeWebhook",
    "rotateWebhook",
    "deleteWebhook",
    "createTenant",
    "listTenants",
    "createDomain",
    "listDomains",
    "getDomain",
    "changeDomain",
    "verifyDomain",
    "deleteDomain",
    "listAudit",
    "getClickAccounting",
    "deleteOrphans",
    "streamEvents",
];

#[tokio::test]
async fn examples_when_sent_are_answered_as_documented() {
    let server = Running::with(&[("EDGELINK_WEBHOOKS_ALLOWED_HOSTS", "hooks.example")]).await;
    let document = document(&server).await;
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let place = ORDER.iter().position(|each| *each == id);
            operations.push((
                place.unwrap_or_else(|| panic!("{id}")),
                path,
                method,
                operation,
            ));
        }
    }
    operations.sort_by_key(|(place, ..)| *place);
    assert_eq!(operations.len(), ORDER.len());

    let mut made = String::new();
    for (_, path, method, operation) in operations {
        if operation["operationId"] == "changeReport" {
            // The first one.
            made = "1".to_owned();
        }
        let path = path.replace("{code}", "summer-sale");
        let path = path.replace("{name}", "brand.example");
        let path = path.replace("{tag}", "summer").replace("{id}", &made);
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let request = server
            .plain(method, &path)
            .header("x-api-key", &server.admin_key);
        if operation["operationId"] == "streamEvents" {
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["content-type"], "text/event-stream");
            continue;
        }
        let body = example(&document, operation);
        if operation["operationId"] == "trackConversion" {
            visit(&server, body.as_ref().unwrap()).await;
        }
        if operation["operationId"] == "listReports" {
            let form = "code=summer-sale&reason=spam";
            let report = server.plain(Method::POST, "/+/report").body(form);
            assert_eq!(send(report).await.status, 303);
        }
        let answer = match body {
            Some(body) => send(request.json(&body)).await,
            None => send(request).await,
        };
        assert_documented(&document, operation, &answer);
        if answer.status == 201 {
            let id = &answer.json()["id"];
            made = id.as_str().map_or(id.to_string(), str::to_owned);
        }
    }
}

/// A click of the link with the id of the conversion, another one, and an orphan visit.
async fn visit(server: &Running, conversion: &Value) {
    let mut tracked = click("go.example:8080/summer-sale");
    tracked.id = click_id::parse(conversion["clickId"].as_str().unwrap());
    assert!(tracked.id.is_some(), "{conversion}");
    let mut orphan = click("go.example:8080/absent");
    orphan.kind = Kind::Orphan(OrphanKind::InvalidShortUrl);
    let other = click("go.example:8080/summer-sale");
    report(server, 1, &[tracked, other, orphan]).await;
    counted(server, 2).await;
}
