//! Links followed through nginx.

use super::start;
use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Connection, EnvoyOptions, Http2Answer, Http2Connection};
use serde_json::json;

const TARGET: &str = "https://example.com/a?b=%20c";

#[tokio::test]
async fn link_when_behind_nginx_is_followed_over_https_and_http2() {
    let (nginx, edgelink) = start(EnvoyOptions::default(), &[]).await;
    let path = edgelink.link("").to(TARGET).create().await.path();

    let answer = nginx.follow(&path).await;
    assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
    for (name, value) in [
        ("strict-transport-security", "max-age=31536000"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("server", "nginx"),
        ("cache-control", "private, max-age=0"),
    ] {
        let values = answer.headers.iter().filter(|(header, _)| header == name);
        let values: Vec<&[u8]> = values.map(|(_, value)| value.as_slice()).collect();
        assert_eq!(values, [value.as_bytes()], "{name}: {answer:?}");
    }
    let stream = nginx.connect_from([127, 0, 0, 1], "h2").await;
    let mut http2 = Http2Connection::over(stream.expect("TLS"));
    let fields: [(&str, &[u8]); 4] = [
        (":method", b"GET"),
        (":scheme", b"https"),
        (":path", path.as_bytes()),
        (":authority", b"go.example"),
    ];
    for _ in 0..2 {
        let answer = http2.request(&fields).await.expect("an answer");
        assert_eq!(answer, Http2Answer::Status(302));
    }
    let mut http = Connection::open(nginx.http()).await.expect("HTTP");
    let request = Request::get(&format!("{path}?c=d"));
    let answer = http.exchange(&request, b"").await.expect("an answer");
    let port = nginx.https().port();
    let location = format!("https://go.example:{port}{path}?c=d");
    assert_eq!((answer.status, answer.location()), (308, Some(&*location)));
}

/// The path goes on byte for byte, and is spelt in one way only.
#[tokio::test]
async fn link_when_spelt_otherwise_is_not_found() {
    let (nginx, edgelink) = start(EnvoyOptions::default(), &[]).await;
    let path = edgelink.link("abc").to(TARGET).create().await.path();
    assert_eq!(nginx.follow(&path).await.status, 302);
    for other in [
        "//abc",
        "/x/../abc",
        "/%61bc",
        "/./abc",
        "/abc/.",
        "/abc%2f",
        "/ABC",
    ] {
        let status = nginx.follow(other).await.status;
        assert!(status == 404 || status == 400, "{other}: {status}");
    }
}

/// Rules of a link see the address that nginx sees: that of the connection, or what a named proxy says; and a form's cookie is for
/// HTTPS alone.
#[tokio::test]
async fn visitor_address_when_forwarded_is_as_nginx_says() {
    let proxies = [("EDGELINK_PROXIES", "127.0.0.2,127.0.0.3/32")];
    let (nginx, edgelink) = start(EnvoyOptions::default(), &proxies).await;
    let path = edgelink.link("").to(TARGET).create().await.path();
    let rules = json!({ "redirectRules": [{ "longUrl": "https://example.com/inside",
        "conditions": [{ "type": "ip-address", "matchKey": null, "matchValue": "203.0.113.7" }] }] });
    let rules_of = format!("/links{path}/rules");
    let answer = edgelink.control_plane.api("POST", &rules_of, &rules).await;
    assert_eq!(answer.status, 200, "{answer:?}");

    for (address, forwarded, is_inside) in [
        ([127, 0, 0, 1], "203.0.113.7", false),
        ([127, 0, 0, 2], "203.0.113.7", true),
        ([127, 0, 0, 2], "203.0.113.7, 198.51.100.1", false),
        ([127, 0, 0, 2], "198.51.100.1, 203.0.113.7", true),
        ([127, 0, 0, 3], "198.51.100.1, 203.0.113.7, 127.0.0.2", true),
    ] {
        let stream = nginx.connect_from(address, "http/1.1").await.expect("TLS");
        let request = Request::get(&path)
            .header("x-forwarded-for", forwarded.as_bytes())
            .header("x-real-ip", b"203.0.113.7")
            .header("forwarded", b"for=203.0.113.7")
            .header("x-envoy-external-address", b"203.0.113.7");
        let answer = Connection::over(stream).exchange(&request, b"").await;
        let target = answer.expect("an answer");
        let wanted = if is_inside {
            "https://example.com/inside"
        } else {
            TARGET
        };
        assert_eq!(target.location(), Some(wanted), "{address:?} {forwarded}");
    }
}

#[tokio::test]
async fn password_when_given_through_nginx_opens_by_a_secure_cookie() {
    let (nginx, edgelink) = start(EnvoyOptions::default(), &[]).await;
    let link = edgelink.link("").to(TARGET).password("open sesame");
    let path = link.create().await.path();
    let mut connection = nginx.connect().await.expect("TLS");
    let form = Request::new("POST", path.as_bytes())
        .header("content-type", b"application/x-www-form-urlencoded")
        .header("x-forwarded-proto", b"http");
    let answer = connection.exchange(&form, b"password=open+sesame").await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 303, "{answer:?}");
    let cookie = answer.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("Secure"), "{cookie}");
    let (cookie, _) = cookie.split_once(';').expect("its attributes");
    let request = Request::get(&path).header("cookie", cookie.as_bytes());
    let answer = nginx.visit(&request).await.expect("an answer");
    assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
}
