//! The rules of targets, at each place where a request has one: by the OpenAPI document, so that none is forgotten.

use crate::helpers::{Answer, Running, send};
use reqwest::Method;
use serde_json::{Value, json};

/// What the document calls a target.
const FORMAT: &str = "target-url";

/// A step from the body of a request to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Item,
}

/// A target of a request.
#[derive(Clone, Debug)]
struct Place {
    method: Method,
    /// Behind `/api/v1`.
    path: String,
    way: Vec<Step>,
}

impl Place {
    /// The names of the fields on the way.
    fn fields(&self) -> Vec<&str> {
        let names = self.way.iter().filter_map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            Step::Item => None,
        });
        names.collect()
    }

    /// A body with that target.
    fn body(&self, target: &str) -> Value {
        let mut body = json!(target);
        for (place, step) in self.way.iter().enumerate().rev() {
            body = match step {
                Step::Item => json!([body]),
                Step::Field(name) => json!({ name.as_str(): body }),
            };
            // A rule has conditions.
            let is_rule = place > 1 && self.way[place - 1] == Step::Item && body.is_object();
            if is_rule {
                body["conditions"] =
                    json!([{ "type": "device", "matchKey": null, "matchValue": "ios" }]);
            }
        }
        body
    }

    /// Whether an error is about the target.
    fn is_named_by(&self, error: &Value) -> bool {
        let field = error["field"].as_str().unwrap();
        let fields = self.fields();
        field.starts_with(fields[0]) && field.ends_with(fields[fields.len() - 1])
    }
}

/// All targets of requests.
async fn places(server: &Running) -> Vec<Place> {
    let document = send(server.plain(Method::GET, "/openapi.json"))
        .await
        .expect(200);
    let mut places = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = operation["requestBody"]["content"]["application/json"]["schema"].clone();
            let mut ways = Vec::new();
            find(&document, &schema, &mut Vec::new(), &mut ways);
            let path = path.strip_prefix("/api/v1").unwrap_or(path);
            places.extend(ways.into_iter().map(|way| Place {
                method: method.to_uppercase().parse().unwrap(),
                path: path.to_owned(),
                way,
            }));
        }
    }
    places
}

fn find(document: &Value, schema: &Value, way: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document
            .pointer(reference.strip_prefix('#').unwrap())
            .unwrap();
        return find(document, schema, way, found);
    }
    if schema["format"] == FORMAT {
        found.push(way.clone());
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        way.push(Step::Field(name.clone()));
        find(document, schema, way, found);
        way.pop();
    }
    if schema["items"].is_object() {
        way.push(Step::Item);
        find(document, &schema["items"], way, found);
        way.pop();
    }
    for list in ["oneOf", "anyOf", "allOf"] {
        for schema in schema[list].as_array().into_iter().flatten() {
            find(document, schema, way, found);
        }
    }
}

/// The errors of an answer, or of the item of a bulk answer.
fn errors(answer: &Answer) -> Vec<Value> {
    let body: Value = serde_json::from_str(answer.text()).unwrap_or_default();
    let problem = if body["results"][0]["error"].is_object() {
        &body["results"][0]["error"]
    } else {
        &body
    };
    problem["errors"].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn target_when_refused_is_set_by_no_request() {
    let server = Running::with(&[("EDGELINK_LINKS_BLOCKED_HOSTS", "blocked.example")]).await;
    let made = server.link("x").answer().await;
    let made = made.expect(201);
    let domain = made["domain"].as_str().unwrap();
    let places = places(&server).await;
    assert!(places.len() >= 15, "{}", places.len());
    for place in &places {
        let path = place.path.replace("{code}", "x").replace("{name}", domain);
        for (target, reason) in [
            ("https://blocked.example/", "blocked host"),
            ("javascript:alert(1)", "http"),
            (&format!("https://{domain}/y"), "this shortener"),
        ] {
            let body = place.body(target);
            let answer = send(server.api(place.method.clone(), &path).json(&body)).await;
            let errors = errors(&answer);
            let is_it = |error: &&Value| place.is_named_by(error);
            let named = errors.iter().find(is_it);
            let named = named.unwrap_or_else(|| panic!("{place:?} {target}: {}", answer.text()));
            assert!(
                named["reason"].as_str().unwrap().contains(reason),
                "{place:?}: {named}"
            );
        }
    }
}

#[tokio::test]
async fn link_when_target_is_refused_by_now_stays_and_is_not_copied() {
    const LATER: &str = "https://later.example/";
    let server = Running::with(&[("EDGELINK_DOMAINS_REQUIRE_VERIFICATION", "false")]).await;
    let places = places(&server).await;
    let of_links = places.iter().filter(|place| place.path == "/import");
    let of_links: Vec<&Place> = of_links.collect();
    let fields: Vec<&str> = of_links.iter().map(|place| place.fields()[0]).collect();
    assert!(
        ["longUrl", "expiredUrl", "redirectRules"]
            .iter()
            .all(|field| fields.contains(field))
    );
    let item = |place: &Place, code: &str| {
        let mut item = place.body(LATER)[0].clone();
        item["customSlug"] = json!(code);
        let target = item.get("longUrl").cloned();
        item["longUrl"] = target.unwrap_or(json!("https://example.com/"));
        item
    };
    for (number, place) in of_links.iter().enumerate() {
        let body = json!([item(place, &format!("a{number}"))]);
        let made = send(server.api(Method::POST, "/import").json(&body))
            .await
            .expect(200);
        assert_eq!(made["created"], 1, "{made}");
    }
    let domain = json!({ "name": "later.example" });
    send(server.api(Method::POST, "/domains").json(&domain))
        .await
        .expect(201);
    for (number, place) in of_links.iter().enumerate() {
        let (code, moved) = (format!("a{number}"), format!("b{number}"));
        let at = |code: &str, action: &str| format!("/links/{code}{action}");
        let refused = |answer: Answer, what: &str| {
            assert_eq!(answer.status, 422, "{what} {place:?}: {}", answer.text());
            let errors = errors(&answer);
            assert_eq!(errors[0]["field"], place.fields()[0], "{what}");
        };
        let title = json!({ "title": "still there", "utmSource": "s" });
        send(server.api(Method::PATCH, &at(&code, "")).json(&title))
            .await
            .expect(200);
        let copy = json!({ "customSlug": "copy", "keepOld": true });
        let copied = send(server.api(Method::POST, &at(&code, "/move")).json(&copy)).await;
        refused(copied, "a copy");
        let to = json!({ "customSlug": moved });
        send(server.api(Method::POST, &at(&code, "/move")).json(&to))
            .await
            .expect(201);
        let deleted = send(server.api(Method::DELETE, &at(&moved, ""))).await;
        assert_eq!(deleted.status, 204);
        let restored = send(server.api(Method::POST, &at(&moved, "/restore"))).await;
        refused(restored, "a restored one");
        let body = json!([item(place, "new")]);
        let again = send(server.api(Method::POST, "/import").json(&body))
            .await
            .expect(200);
        assert_eq!(again["results"][0]["status"], 422, "{again}");
    }
}
