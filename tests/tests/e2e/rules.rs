//! Rules of links: edge, control plane and dry run send a visitor to the same place.

use edgelink_tests::abi::host::WasmtimeEdge;
use edgelink_tests::scenario::{
    CITY_HEADER, COUNTRY_HEADER, DOMAIN, Edge, Reply, Request, with_rules,
};
use edgelink_tests::stack::{Connection, ControlPlane, Deployment, Envoy, EnvoyOptions, until};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use std::time::Duration;

const LINKS: usize = 100;
const VISITORS: usize = 20;

/// Believes the last address of `x-forwarded-for`, and the headers of scenarios.
const CONTROL_PLANE: &[(&str, &str)] = &[
    ("EDGELINK_LINKS_DOMAINS", DOMAIN),
    ("EDGELINK_LINKS_COUNTRY_HEADER", COUNTRY_HEADER),
    ("EDGELINK_LINKS_CITY_HEADER", CITY_HEADER),
    ("EDGELINK_SERVER_TRUSTED_PROXIES", "127.0.0.1"),
];

fn behind_a_proxy() -> EnvoyOptions {
    EnvoyOptions {
        trusted_hops: 1,
        geo_headers: [COUNTRY_HEADER, CITY_HEADER],
        ..EnvoyOptions::default()
    }
}

fn one_of<'a>(rng: &mut StdRng, of: &[&'a str]) -> &'a str {
    of[rng.random_range(0..of.len())]
}

const USER_AGENTS: [&str; 7] = [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) Version/17.5 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 14) Chrome/126.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) Version/17.5 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) Chrome/126.0.0.0 Safari/537.36 OPR/82.0",
    "curl/8.8.0",
];

fn condition(rng: &mut StdRng) -> Value {
    let devices = [
        "android", "ios", "mobile", "windows", "macos", "linux", "chromeos", "desktop",
    ];
    let browsers = [
        "chrome",
        "firefox",
        "edge",
        "safari",
        "opera",
        "android_browser",
    ];
    let share = rng.random_range(1..100).to_string();
    let (kind, key, value) = match rng.random_range(0..12) {
        0 => ("device", None, one_of(rng, &devices)),
        1 => ("browser", None, one_of(rng, &browsers)),
        2 => (
            "language",
            None,
            one_of(rng, &["en", "de", "en-GB", "fr_CA"]),
        ),
        3 => ("query-param", Some("a"), one_of(rng, &["1", "x y"])),
        4 => ("any-value-query-param", Some("b"), ""),
        5 => ("valueless-query-param", Some("c"), ""),
        6 => (
            "ip-address",
            None,
            one_of(
                rng,
                &["192.0.2.0/28", "192.0.*.3", "2001:db8::/32", "192.0.2.1"],
            ),
        ),
        7 => ("geolocation-country-code", None, one_of(rng, &["ES", "de"])),
        8 => (
            "geolocation-city-name",
            None,
            one_of(rng, &["Bonn", "Zaragoza"]),
        ),
        9 => (
            "before-date",
            None,
            one_of(rng, &["2020-01-01T00:00:00Z", "2999-01-01T00:00:00+01:00"]),
        ),
        10 => (
            "after-date",
            None,
            one_of(rng, &["2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"]),
        ),
        _ => ("weight", None, share.as_str()),
    };
    json!({ "type": kind, "matchKey": key, "matchValue": value })
}

fn rules(rng: &mut StdRng) -> Value {
    let rules = (0..rng.random_range(1..=4)).map(|index| {
        let conditions = (0..rng.random_range(1..=2)).map(|_| condition(rng));
        let conditions: Vec<_> = conditions.collect();
        json!({ "longUrl": format!("https://example.com/rule{index}"), "conditions": conditions })
    });
    rules.collect()
}

/// What is said of a visitor; each may be left out.
struct Visitor(Vec<(&'static str, &'static str, String)>);

impl Visitor {
    /// The field of the dry run, the header, and the value of each.
    fn random(rng: &mut StdRng) -> Self {
        let address = match rng.random_range(0..3) {
            0 => "2001:db8::7".to_owned(),
            _ => format!("192.0.2.{}", rng.random_range(0..40)),
        };
        let languages = ["en", "de-AT,en;q=0.9", "fr-CA", "en-GB;q=0.8,de", "*"];
        let mut said = vec![
            (
                "userAgent",
                "user-agent",
                one_of(rng, &USER_AGENTS).to_owned(),
            ),
            (
                "acceptLanguage",
                "accept-language",
                one_of(rng, &languages).to_owned(),
            ),
            (
                "country",
                COUNTRY_HEADER,
                one_of(rng, &["ES", "DE", "FR"]).to_owned(),
            ),
            (
                "city",
                CITY_HEADER,
                one_of(rng, &["Bonn", "zaragoza"]).to_owned(),
            ),
        ];
        said.retain(|_| rng.random_range(0..5) > 0);
        // Without one, everyone sees the address of the connection, which the dry run does not know.
        said.push(("ip", "x-forwarded-for", address));
        Self(said)
    }

    fn request(&self, path: &str) -> Request {
        let headers = self.0.iter();
        headers.fold(Request::get(path), |request, (_, name, value)| {
            request.header(name, value.as_bytes())
        })
    }

    fn for_dry_run(&self, query: &str) -> Value {
        let mut visitor = json!({ "query": query });
        for (field, _, value) in &self.0 {
            visitor[*field] = json!(value);
        }
        visitor
    }
}

/// Each of those who answer visitors.
struct Answering {
    control_plane: ControlPlane,
    api: Connection,
    visitors: Connection,
    envoy: Envoy,
    to_envoy: Connection,
    wasmtime: WasmtimeEdge,
}

impl Answering {
    async fn start() -> Self {
        let control_plane = ControlPlane::with_variables(CONTROL_PLANE).await;
        let envoy = Envoy::start(&behind_a_proxy(), &[control_plane.address()]).await;
        Self {
            api: control_plane.connect().await,
            visitors: control_plane.connect().await,
            control_plane,
            to_envoy: envoy.connect().await,
            envoy,
            wasmtime: WasmtimeEdge::start(),
        }
    }

    async fn api(&mut self, path: &str, body: &Value) -> Value {
        let answer = self
            .control_plane
            .api_over(&mut self.api, "POST", path, body)
            .await;
        let answer = answer.expect("an answer");
        assert!(
            (200..300).contains(&answer.status),
            "{path} {body}: {answer:?}"
        );
        answer.body
    }

    async fn give(&mut self, code: &str, rules: &Value) {
        let own = "https://example.com/own";
        let link = json!({ "longUrl": own, "customSlug": code });
        self.api("/links", &link).await;
        let body = json!({ "redirectRules": rules });
        self.api(&format!("/links/{code}/rules"), &body).await;
        let link = with_rules(own, &rules.to_string());
        self.wasmtime.script(code, Reply::Link(link)).await;
    }
}

async fn location(connection: &mut Connection, request: &Request) -> String {
    let answer = connection.exchange(request, b"").await.expect("an answer");
    answer
        .location()
        .unwrap_or_else(|| panic!("{request:?}: {answer:?}"))
        .to_owned()
}

#[tokio::test]
async fn rules_when_applied_agree_at_edge_control_plane_and_dry_run() {
    let mut rng = StdRng::seed_from_u64(12);
    let mut all = Answering::start().await;
    let mut ruled = 0;
    for link in 0..LINKS {
        let (code, rules) = (format!("r{link}"), rules(&mut rng));
        all.give(&code, &rules).await;
        for _ in 0..VISITORS {
            let visitor = Visitor::random(&mut rng);
            let query = one_of(
                &mut rng,
                &["", "a=1", "b&a=x+y", "c", "b=2&c=&a=%31", "c&c=1"],
            );
            let mark = if query.is_empty() { "" } else { "?" };
            let request = visitor.request(&format!("/{code}{mark}{query}"));

            let path = format!("/links/{code}/resolve");
            let dry = all.api(&path, &visitor.for_dry_run(query)).await;
            let expected = dry["location"].as_str().expect("a location");
            let about = || format!("{rules}\n{request:?}\n{dry}");
            assert_eq!(
                location(&mut all.visitors, &request).await,
                expected,
                "control plane: {}",
                about()
            );
            let wasmtime = all.wasmtime.visit(request.clone()).await;
            assert_eq!(wasmtime.location(), Some(expected), "wasmtime: {}", about());
            let envoy = location(&mut all.to_envoy, &request).await;
            assert_eq!(envoy, expected, "Envoy: {}", about());
            ruled += usize::from(!dry["matchedRule"].is_null());
        }
    }
    let visits = LINKS * VISITORS;
    assert!(
        (visits / 5..visits * 4 / 5).contains(&ruled),
        "{ruled} of {visits} met a rule"
    );
    all.envoy.assert_unharmed().await;
}

#[tokio::test]
async fn rules_when_changed_reach_the_edge_by_the_feed() {
    let options = EnvoyOptions {
        feed: "poll",
        ..EnvoyOptions::default()
    };
    let edgelink = Deployment::start(&options).await;
    let link = edgelink.link("ruled").to("https://example.com/own");
    link.create().await;
    let iphone = Request::get("/ruled").header("user-agent", USER_AGENTS[0].as_bytes());
    let mut connection = edgelink.envoy.connect().await;
    assert_eq!(
        location(&mut connection, &iphone).await,
        "https://example.com/own"
    );
    let condition = json!({ "type": "device", "matchKey": null, "matchValue": "ios" });
    for (rules, target) in [
        (
            json!([{ "longUrl": "https://example.com/1", "conditions": [condition] }]),
            "https://example.com/1",
        ),
        (
            json!([{ "longUrl": "https://example.com/2", "conditions": [condition] }]),
            "https://example.com/2",
        ),
        (json!([]), "https://example.com/own"),
    ] {
        let body = json!({ "redirectRules": rules });
        let answer = edgelink
            .control_plane
            .api("POST", "/links/ruled/rules", &body)
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        until(
            "the edge goes by the new rules",
            Duration::from_secs(5),
            async || {
                let mut connection = edgelink.envoy.connect().await;
                (location(&mut connection, &iphone).await == target).then_some(())
            },
        )
        .await;
    }
}
