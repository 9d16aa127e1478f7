//! Every route times every kind of caller: the server answers as the book says.

use crate::server::Server;
use edgelink_http::auth::permission::{AccessRule, RULES};
use edgelink_model::reference;
use edgelink_service::caller::Right;
use edgelink_settings::config::{Config, Environment};
use http::Method;
use reqwest::Response;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A kind of caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    NoKey,
    Wrong,
    Revoked,
    Expired,
    Reader,
    Creator,
    /// An editor; the link, if the route is about one, is its own.
    Editor,
    /// An editor; the link is another user's of its tenant.
    EditorOfOthers,
    /// An admin of a tenant other than the link's, key's or user's.
    OtherAdmin,
    /// An admin of the first tenant.
    Admin,
}

impl Who {
    const ALL: [(Self, &'static str); 10] = [
        (Self::NoKey, "no key"),
        (Self::Wrong, "wrong"),
        (Self::Revoked, "revoked"),
        (Self::Expired, "expired"),
        (Self::Reader, "reader"),
        (Self::Creator, "creator"),
        (Self::Editor, "editor, own link"),
        (Self::EditorOfOthers, "editor, another's"),
        (Self::OtherAdmin, "other tenant's admin"),
        (Self::Admin, "admin"),
    ];

    fn has(self, right: Right) -> bool {
        use Who::{Admin, Creator, Editor, EditorOfOthers, OtherAdmin, Reader};
        match right {
            Right::ReadLinks => {
                matches!(self, Reader | Editor | EditorOfOthers | OtherAdmin | Admin)
            }
            Right::ReadTenant => matches!(self, Reader | OtherAdmin | Admin),
            Right::CreateLinks => {
                matches!(self, Creator | Editor | EditorOfOthers | OtherAdmin | Admin)
            }
            Right::ChangeLinks => {
                matches!(self, Editor | EditorOfOthers | OtherAdmin | Admin)
            }
            Right::Administer => matches!(self, OtherAdmin | Admin),
            Right::Operate => self == Admin,
        }
    }

    /// True if the resource in the path exists for the caller.
    fn sees(self, path: &str) -> bool {
        match self {
            Self::OtherAdmin => !path.contains('{') || path.contains("{domain}"),
            Self::EditorOfOthers => !path.contains("{code}"),
            _ => true,
        }
    }
}

/// The status of the answer to a request that is correct otherwise.
fn expected(rule: &AccessRule, who: Who) -> u16 {
    match who {
        Who::NoKey | Who::Wrong | Who::Revoked | Who::Expired => 401,
        _ if !who.has(rule.right) => 403,
        _ if !who.sees(rule.path) => 404,
        // The domain is a configured one.
        Who::OtherAdmin if rule.path == "/rest/v3/domains/redirects" => 403,
        _ => sample(rule).1,
    }
}

/// The domain of the links.
const DOMAIN: &str = "go.example";

static NEXT: AtomicU32 = AtomicU32::new(0);

fn unique() -> String {
    format!("n{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A valid body, and the status of its answer.
fn sample(rule: &AccessRule) -> (Value, u16) {
    let link = json!({ "longUrl": "https://example.com/" });
    let name = json!({ "name": unique() });
    match (rule.method.as_str(), rule.path) {
        ("POST", "/links") => (link, 201),
        ("PUT", "/links") => {
            let link = json!({ "longUrl": "https://example.com/", "externalId": unique() });
            (link, 201)
        }
        ("POST", "/links/bulk" | "/import") => (json!([link]), 200),
        ("PATCH" | "DELETE", "/links/bulk") => (json!([{ "shortCode": "absent" }]), 200),
        ("POST", "/links/{code}/restore") => (Value::Null, 200),
        ("POST", "/links/{code}/move") => (json!({ "customSlug": unique() }), 201),
        ("POST", "/keys" | "/users" | "/tenants") => (name, 201),
        ("PATCH", "/keys/{id}" | "/users/{id}") => (name, 200),
        ("POST", "/domains") => (json!({ "name": unique() + ".example" }), 201),
        ("PATCH", "/domains/{name}") => (json!({}), 200),
        ("DELETE", "/domains/{name}") => (Value::Null, 204),
        // The domain is verified already.
        ("POST", "/domains/{name}/verify") => (Value::Null, 200),
        ("PATCH", "/tags/{tag}") => (json!({ "tag": unique() }), 200),
        ("DELETE", "/tags/{tag}") => (Value::Null, 200),
        ("PATCH", "/links/{code}") | ("POST", "/keys/{id}/rotate") => (json!({}), 200),
        ("POST", "/links/{code}/rules") => (json!({ "redirectRules": [] }), 200),
        ("POST", "/links/{code}/resolve") => (json!({}), 200),
        // No click has that id.
        ("POST", "/track") => {
            let click_id = "0".repeat(22);
            (json!({ "clickId": click_id, "eventName": "sale" }), 404)
        }
        ("DELETE", "/links/{code}/clicks" | "/analytics/orphans") => (Value::Null, 200),
        ("DELETE", "/links/{code}" | "/keys/{id}") => (Value::Null, 204),
        ("POST", "/rest/v3/short-urls") => (link, 200),
        ("PATCH", "/rest/v3/short-urls/{code}") => (json!({}), 200),
        ("POST", "/rest/v3/short-urls/{code}/redirect-rules") => {
            (json!({ "redirectRules": [] }), 200)
        }
        ("DELETE", "/rest/v3/short-urls/{code}") => (Value::Null, 204),
        ("DELETE", "/rest/v3/short-urls/{code}/visits" | "/rest/v3/visits/orphan") => {
            (Value::Null, 200)
        }
        ("PUT", "/rest/v3/tags") => {
            let same = unique();
            (json!({ "oldName": same, "newName": same }), 404)
        }
        ("DELETE", "/rest/v3/tags") => (Value::Null, 204),
        ("PATCH", "/rest/v3/domains/redirects") => (json!({ "domain": DOMAIN }), 200),
        ("GET", "/rest/v3/mercure-info") => (Value::Null, 501),
        ("POST", "/webhooks") => (webhook(), 201),
        ("PATCH", "/reports/{id}") => (json!({ "state": "closed", "disableLink": true }), 200),
        ("PATCH", "/webhooks/{id}") | ("POST", "/webhooks/{id}/rotate") => (json!({}), 200),
        ("POST", "/webhooks/{id}/ping") => (Value::Null, 202),
        ("DELETE", "/webhooks/{id}") => (Value::Null, 204),
        ("GET", _) => (Value::Null, 200),
        _ => panic!("{rule:?} has no sample: write one"),
    }
}

/// A webhook to a name that does not exist.
fn webhook() -> Value {
    json!({ "url": "https://hooks.invalid/" })
}

fn table() -> String {
    let heads = Who::ALL.map(|(_, name)| name).join(" | ");
    let mut table = format!(
        "| request | {heads} |\n|---|{}\n",
        "---|".repeat(Who::ALL.len())
    );
    for rule in RULES {
        let cells = Who::ALL.map(|(who, _)| expected(rule, who).to_string());
        table += &format!(
            "| `{} {}` | {} |\n",
            rule.method,
            rule.path,
            cells.join(" | ")
        );
    }
    table
}

#[test]
fn permission_reference_when_generated_equals_the_book() {
    reference::assert_generated("permissions", &table());
}

/// A server with a key of each kind of caller.
struct Fixture {
    address: SocketAddr,
    client: reqwest::Client,
    keys: Vec<(Who, String)>,
    _folder: TempDir,
}

impl Fixture {
    async fn start(stop: CancellationToken) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let database = format!("sqlite://{}", path("edgelink.db"));
        let variables = [
            ("EDGELINK_SERVER_LISTEN", "127.0.0.1:0".to_owned()),
            ("EDGELINK_STORE_URL", database),
            // Others may keep the disk busy.
            ("EDGELINK_STORE_TIMEOUT_MS", "10000".to_owned()),
            ("EDGELINK_LINKS_DOMAINS", DOMAIN.to_owned()),
            ("EDGELINK_AUTH_ADMIN_KEY_FILE", path("admin-key")),
            ("EDGELINK_AUTH_KEY_CACHE_MS", "0".to_owned()),
            (
                "EDGELINK_WEBHOOKS_ALLOWED_HOSTS",
                "hooks.invalid".to_owned(),
            ),
            ("EDGELINK_REPORTS_PER_HOUR", "1000".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        let environment: Environment = variables.into_iter().collect();
        let server = Server::start(Config::load(None, &environment).unwrap())
            .await
            .unwrap();
        let address = server.listeners().next().unwrap().address;
        tokio::spawn(server.run(stop.cancelled_owned()));
        let admin = std::fs::read_to_string(path("admin-key")).unwrap();
        let mut fixture = Self {
            address,
            client: reqwest::Client::new(),
            keys: vec![(Who::Admin, admin.trim().to_owned())],
            _folder: folder,
        };
        fixture.make_keys().await;
        fixture
    }

    async fn make_keys(&mut self) {
        let wrong = format!("edgelink_{}_{}", "0".repeat(16), "0".repeat(64));
        self.keys.push((Who::Wrong, wrong));
        for (who, role) in [
            (Who::Reader, "reader"),
            (Who::Creator, "creator"),
            (Who::Editor, "editor"),
            (Who::Revoked, "admin"),
            (Who::Expired, "admin"),
        ] {
            let user = json!({ "name": role.to_owned() + &unique(), "role": role });
            let user = self.admin(Method::POST, "/users", &user).await;
            let key = json!({ "name": role, "role": role, "userId": user["id"] });
            let key = self.admin(Method::POST, "/keys", &key).await;
            self.keys.push((who, text(&key["key"])));
            let path = format!("/keys/{}", text(&key["id"]));
            if who == Who::Revoked {
                self.admin(Method::DELETE, &path, &Value::Null).await;
            }
            if who == Who::Expired {
                self.expire(&path).await;
            }
        }
        let editor = self.key(Who::Editor).to_owned();
        self.keys.push((Who::EditorOfOthers, editor));
        let tenant = json!({ "name": "other" });
        let tenant = self.admin(Method::POST, "/tenants", &tenant).await;
        self.keys
            .push((Who::OtherAdmin, text(&tenant["adminKey"]["key"])));
    }

    /// Lets a key expire: the next whole second is the earliest time that the API takes.
    async fn expire(&self, path: &str) {
        let soon = edgelink_model::clock::unix_seconds() + 1;
        let body = json!({ "expiresAt": edgelink_model::timestamp::from_seconds(soon) });
        self.admin(Method::PATCH, path, &body).await;
        let key = self.key(Who::Expired).to_owned();
        while self
            .send(Some(&key), Method::GET, "/links", &Value::Null)
            .await
            .status()
            != 401
        {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    fn key(&self, who: Who) -> &str {
        let (_, key) = self.keys.iter().find(|(of, _)| *of == who).unwrap();
        key
    }

    async fn send(&self, key: Option<&str>, method: Method, path: &str, body: &Value) -> Response {
        let base = if path.starts_with("/rest/") {
            ""
        } else {
            "/api/v1"
        };
        let url = format!("http://{}{base}{path}", self.address);
        let mut request = self.client.request(method, url);
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        request.send().await.unwrap()
    }

    /// The answer to a request that succeeds.
    async fn by(&self, who: Who, method: Method, path: &str, body: &Value) -> Value {
        let answer = self.send(Some(self.key(who)), method, path, body).await;
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        let bytes = answer.bytes().await.unwrap();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    async fn admin(&self, method: Method, path: &str, body: &Value) -> Value {
        self.by(Who::Admin, method, path, body).await
    }

    /// The number of a report of a link of the first tenant.
    async fn report(&self) -> String {
        let link = json!({ "longUrl": "https://example.com/" });
        let link = self.admin(Method::POST, "/links", &link).await;
        let form = format!("code={}&reason=spam", text(&link["shortCode"]));
        let url = format!("http://{}/+/report", self.address);
        let request = self.client.post(url).header("host", DOMAIN).body(form);
        assert!(request.send().await.unwrap().status().is_success());
        let list = self.admin(Method::GET, "/reports", &Value::Null).await;
        list["reports"][0]["id"].to_string()
    }

    /// The path of a rule, about something that exists.
    async fn path(&self, rule: &AccessRule, who: Who) -> String {
        let name = json!({ "name": unique() });
        if rule.path.contains("{code}") {
            let owner = match who {
                Who::Editor => Who::Editor,
                _ => Who::Admin,
            };
            let link = json!({ "longUrl": "https://example.com/" });
            let link = self.by(owner, Method::POST, "/links", &link).await;
            let code = text(&link["shortCode"]);
            if rule.path.ends_with("/restore") {
                let path = format!("/links/{code}");
                self.by(owner, Method::DELETE, &path, &Value::Null).await;
            }
            return rule.path.replace("{code}", &code);
        }
        if rule.path.contains("{tag}") {
            let tag = unique();
            let link = json!({ "longUrl": "https://example.com/", "tags": [tag] });
            self.admin(Method::POST, "/links", &link).await;
            return rule.path.replace("{tag}", &tag);
        }
        if (&rule.method, rule.path) == (&Method::DELETE, "/rest/v3/tags") {
            return format!("{}?tags[]=absent", rule.path);
        }
        if rule.path.ends_with("/shorten") {
            return format!("{}?longUrl=https://example.com/", rule.path);
        }
        if rule.path.contains("{domain}") {
            return rule.path.replace("{domain}", DOMAIN);
        }
        if rule.path.contains("{name}") {
            let domain = unique() + ".example";
            let body = json!({ "name": domain });
            self.admin(Method::POST, "/domains", &body).await;
            let path = format!("/domains/{domain}");
            let verified = json!({ "verified": true });
            self.admin(Method::PATCH, &path, &verified).await;
            return rule.path.replace("{name}", &domain);
        }
        let collection = rule.path.split("/{id}").next().unwrap();
        if collection == rule.path {
            return rule.path.to_owned();
        }
        if collection == "/reports" {
            return rule.path.replace("{id}", &self.report().await);
        }
        let body = if collection == "/webhooks" {
            webhook()
        } else {
            name
        };
        let path = |id: &str| rule.path.replace("{id}", id.trim_matches('"'));
        // There are not many webhooks in a tenant.
        if collection == "/webhooks" && rule.method != Method::DELETE {
            let list = self.admin(Method::GET, collection, &Value::Null).await;
            if let Some(last) = list["webhooks"].as_array().unwrap().last() {
                return path(&last["id"].to_string());
            }
        }
        let made = self.admin(Method::POST, collection, &body).await;
        path(&made["id"].to_string())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn route_when_any_caller_asks_answers_as_documented() {
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let fixture = Fixture::start(stop).await;
    let mut wrong = Vec::new();
    for rule in RULES {
        for (who, name) in Who::ALL {
            let path = fixture.path(rule, who).await;
            let key = (who != Who::NoKey).then(|| fixture.key(who));
            let (body, _) = sample(rule);
            let answer = fixture.send(key, rule.method.clone(), &path, &body).await;
            let (status, expected) = (answer.status().as_u16(), expected(rule, who));
            if status != expected {
                wrong.push(format!(
                    "{} {path} ({name}): {status}, not {expected}",
                    rule.method
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
