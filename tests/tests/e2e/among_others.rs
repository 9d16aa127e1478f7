//! Links beside another service, behind the same listener: it gets all that is not theirs, as it was sent.

use axum::Router;
use axum::extract::Request as Received;
use edgelink_tests::scenario::{Answer, Reply, Request, link};
use edgelink_tests::stack::{Behaviour, Envoy, EnvoyOptions, Filter, ScriptedControlPlane};
use edgelink_wire::RedirectStatus;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

/// A service that answers with what it was sent, and ends with the test.
async fn other_service() -> SocketAddr {
    async fn echo(request: Received) -> String {
        let (head, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await;
        let length = body.expect("a body").len();
        format!("{} {} {length}", head.method, head.uri)
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let app = Router::new().fallback(echo);
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// The bootstrap with that service behind the filter, and `route` in front of its own.
fn bootstrap(service: SocketAddr, route: &str) -> String {
    const NOT_FOUND: &str = "              - match: { prefix: / }
                direct_response: { status: 404, body: { inline_string: \"Not found.\\n\" } }";
    const CLUSTERS: &str = "  clusters:${METRICS_CLUSTER}${OTLP_CLUSTER}";
    let template = Envoy::bootstrap_template();
    assert!(template.contains(NOT_FOUND) && template.contains(CLUSTERS));
    let routes = format!(
        "{route}              - match: {{ prefix: / }}\n                route: {{ cluster: other }}"
    );
    let cluster = format!(
        "{CLUSTERS}\n  - name: other\n    type: STATIC\n    connect_timeout: 1s\n    load_assignment:\n      cluster_name: other\n      \
         endpoints:\n      - lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {} }} }} }} }}]",
        service.port()
    );
    template
        .replacen(NOT_FOUND, &routes, 1)
        .replacen(CLUSTERS, &cluster, 1)
}

async fn start(
    route: &str,
    change: impl FnOnce(String) -> String,
    variables: &[(&'static str, &str)],
) -> (Envoy, ScriptedControlPlane) {
    let service = other_service().await;
    let control_plane = ScriptedControlPlane::start().await;
    let variables = variables.iter();
    let options = EnvoyOptions {
        bootstrap: Some(change(bootstrap(service, route))),
        variables: variables
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect(),
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    (envoy, control_plane)
}

fn script(control_plane: &ScriptedControlPlane, code: &str, redirect: RedirectStatus) {
    let mut record = link("https://example.com/");
    record.redirect = redirect;
    control_plane.script(code, Behaviour::Reply(Reply::Link(record)));
}

async fn send(envoy: &Envoy, method: &str, path: &str, body: &[u8]) -> Answer {
    let request = Request::new(method, path.as_bytes());
    let mut connection = envoy.connect().await;
    let answer = connection.exchange(&request, body).await;
    answer.expect("an answer")
}

async fn assert_passes(envoy: &Envoy, method: &str, path: &str, body: &[u8]) {
    let answer = send(envoy, method, path, body).await;
    assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
    let expected = format!("{method} {path} {}", body.len());
    assert_eq!(String::from_utf8_lossy(&answer.body), expected);
}

#[tokio::test]
async fn request_when_outside_the_prefix_passes() {
    if Filter::lacks("routes of a bootstrap") {
        return;
    }
    let variables = [
        ("EDGELINK_PREFIX", "/s/"),
        ("EDGELINK_TRAILING_SLASH", "true"),
    ];
    let (envoy, control_plane) = start("", |text| text, &variables).await;
    script(&control_plane, "abc", RedirectStatus::Found);

    for path in [
        "/", "/abc", "/abc/", "/s", "/sabc", "/S/abc", "/x/s/abc", "/s/", "/?s",
    ] {
        assert_passes(&envoy, "GET", path, b"").await;
        assert_passes(&envoy, "POST", path, b"some").await;
    }
    assert_eq!(control_plane.lookups("abc"), 0);
    for path in ["/s/abc", "/s/abc/", "/s/abc?a=1", "/s/abc/?a=1"] {
        let query = if path.contains('?') { "?a=1" } else { "" };
        let answer = envoy.follow(path).await;
        let target = format!("https://example.com/{query}");
        assert_eq!(answer.location(), Some(&*target), "{path}: {answer:?}");
    }
    assert_eq!(envoy.follow("/s/unknown").await.status, 404);
    envoy.assert_unharmed().await;
}

/// At once and after a lookup, and with a body that is longer than Envoy's buffers.
#[tokio::test]
async fn code_when_without_a_link_passes_with_its_body() {
    if Filter::lacks("routes of a bootstrap") {
        return;
    }
    let variables = [("EDGELINK_UNKNOWN_CODES", "pass")];
    let (envoy, control_plane) = start("", |text| text, &variables).await;
    script(&control_plane, "abc", RedirectStatus::Found);
    let long = vec![b'x'; 300_000];

    for (round, body) in [&b""[..], b"some", &long].into_iter().enumerate() {
        for method in ["GET", "POST"] {
            let path = format!("/unknown{round}{method}?a=1");
            assert_passes(&envoy, method, &path, body).await;
            assert_passes(&envoy, method, &path, body).await;
        }
    }
    assert_eq!(control_plane.lookups("unknown2POST"), 1);
    assert_eq!(envoy.follow("/abc").await.status, 302);
    control_plane.script("broken", Behaviour::Bytes(b"no HTTP\r\n\r\n".to_vec()));
    assert_eq!(
        envoy.follow("/broken").await.status,
        503,
        "a failure is no absence"
    );
    envoy.assert_unharmed().await;
}

/// A lookup that Envoy refuses to send ends before the request could wait for it.
#[tokio::test]
async fn request_when_envoy_refuses_its_lookup_is_503() {
    if Filter::lacks("routes of a bootstrap") {
        return;
    }
    let variables = [("EDGELINK_UNKNOWN_CODES", "pass")];
    if Filter::of_tests().connects_by_itself() {
        return;
    }
    let no_cluster = |text: String| text.replace("${CONTROL_PLANE_CLUSTER}", "");
    let no_pages = [variables[0], ("EDGELINK_PUBLIC_PAGES", "false")];
    let (envoy, _control_plane) = start("", no_cluster, &no_pages).await;
    for method in ["GET", "POST"] {
        let answer = send(&envoy, method, "/unknown", b"").await;
        assert_eq!(answer.status, 503, "{method}: {answer:?}");
    }
    assert_passes(&envoy, "GET", "/a.b", b"").await;
    envoy.assert_unharmed().await;
}

#[tokio::test]
async fn form_when_its_link_has_no_password_redirects_or_passes() {
    if Filter::lacks("routes of a bootstrap") {
        return;
    }
    let (envoy, control_plane) = start("", |text| text, &[]).await;
    script(&control_plane, "kept", RedirectStatus::TemporaryRedirect);
    script(&control_plane, "found", RedirectStatus::Found);
    let form = |code: &str| {
        Request::new("POST", format!("/{code}").as_bytes())
            .header("content-type", b"application/x-www-form-urlencoded")
    };
    for (code, status) in [("kept", 307), ("found", 405), ("absent", 200)] {
        for _ in 0..2 {
            let mut connection = envoy.connect().await;
            let answer = connection.exchange(&form(code), b"password=x").await;
            let answer = answer.expect("an answer");
            assert_eq!(answer.status, status, "{code}: {answer:?}");
            if status == 200 {
                assert_eq!(answer.body, b"POST /absent 10");
            }
        }
    }
    envoy.assert_unharmed().await;
}

/// `typed_per_filter_config`, with which Envoy leaves a filter out for a route.
const OFF: &str = "                typed_per_filter_config:
                  edgelink:
                    \"@type\": type.googleapis.com/envoy.config.route.v3.FilterConfig
                    disabled: true
";

#[tokio::test]
async fn filter_when_off_by_route_passes_requests() {
    if Filter::lacks("routes of a bootstrap") {
        return;
    }
    let route = format!(
        "              - match: {{ prefix: /off }}\n                route: {{ cluster: other }}\n{OFF}"
    );
    let (envoy, control_plane) = start(&route, |text| text, &[]).await;
    for code in ["offer", "on"] {
        script(&control_plane, code, RedirectStatus::Found);
    }
    assert_passes(&envoy, "GET", "/offer", b"").await;
    assert_passes(&envoy, "GET", "/off", b"").await;
    assert_eq!(control_plane.lookups("offer"), 0);
    assert_eq!(envoy.follow("/on").await.status, 302);
}

#[tokio::test]
async fn filter_when_on_by_route_redirects() {
    if Filter::lacks("routes of a bootstrap") {
        return;
    }
    const ON: &str = "                typed_per_filter_config:
                  edgelink:
                    \"@type\": type.googleapis.com/envoy.config.route.v3.FilterConfig
                    config: {}
";
    let route = format!(
        "              - match: {{ prefix: /on }}\n                route: {{ cluster: other }}\n{ON}"
    );
    let disable = |text: String| {
        let name = "          - name: edgelink\n";
        assert!(text.contains(name));
        text.replacen(name, &format!("{name}            disabled: true\n"), 1)
    };
    let (envoy, control_plane) = start(&route, disable, &[]).await;
    for code in ["once", "off"] {
        script(&control_plane, code, RedirectStatus::Found);
    }
    assert_passes(&envoy, "GET", "/off", b"").await;
    assert_eq!(control_plane.lookups("off"), 0);
    assert_eq!(envoy.follow("/once").await.status, 302);
}
