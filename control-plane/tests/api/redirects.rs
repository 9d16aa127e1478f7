//! `GET /{code}`.

use crate::helpers::{Running, in_seconds, send, until};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn link_when_followed_redirects_by_its_status_byte_for_byte() {
    let server = Running::start().await;
    let target = "HTTPS://Example.com:443/A/../%7e?a=1&&b=%zz|\"<>\\^`{}#f";
    for status in [301, 302, 307, 308] {
        let slug = format!("s{status}");
        let link = server.link(&slug).to(target).redirect_status(status);
        link.create().await;
        server
            .follow(&format!("/{slug}"))
            .await
            .redirects(status, target);
        send(server.plain(Method::HEAD, &format!("/{slug}")))
            .await
            .redirects(status, target);
    }
}

#[tokio::test]
async fn query_when_link_forwards_it_joins_the_target() {
    let server = Running::start().await;
    let target = "https://example.com/?a=1&b=2#f";
    server.link("yes").to(target).create().await;
    let link = server.link("no").to(target).with("forwardQuery", false);
    link.create().await;
    server
        .follow("/yes?b=3&c=%20")
        .await
        .redirects(302, "https://example.com/?a=1&b=3&c=%20#f");
    server.follow("/yes?").await.redirects(302, target);
    server.follow("/no?b=3").await.redirects(302, target);
}

#[tokio::test]
async fn host_when_unknown_takes_the_default_domain() {
    let server = Running::start().await;
    let link = server.link("x").to("https://example.com/default");
    link.create().await;
    let link = server.link("x").to("https://example.com/other");
    link.on("other.example").create().await;
    for (host, target) in [
        (&b"go.example:8080"[..], "default"),
        (b"other.example", "other"),
        (b"OTHER.EXAMPLE", "other"),
        (b"other.example:443", "other"),
        (b"Other.Example.:80", "other"),
        (b"other.example.", "other"),
        (b"other.example:8443", "default"),
        (b"unknown.example", "default"),
        (b"\xff\x80", "default"),
    ] {
        let request = server.plain(Method::GET, "/x").header("host", host);
        send(request)
            .await
            .redirects(302, &format!("https://example.com/{target}"));
    }
}

#[tokio::test]
async fn host_when_unknown_hosts_are_refused_has_no_links() {
    let server = Running::with(&[("EDGELINK_LINKS_UNKNOWN_HOSTS", "not_found")]).await;
    server.link("x").create().await;
    let follow = |host: &'static [u8]| send(server.plain(Method::GET, "/x").header("host", host));
    follow(b"go.example:8080")
        .await
        .redirects(302, "https://example.com/");
    for host in [&b"unknown.example"[..], b"go.example", b"\xff"] {
        follow(host).await.page(404, "not found");
    }
}

#[tokio::test]
async fn redirect_when_equal_for_all_visitors_may_be_cached() {
    let server = Running::with(&[("EDGELINK_LINKS_SHARED_CACHE_SECONDS", "600")]).await;
    let kept = "max-age=0, s-maxage=600, stale-while-revalidate=600, stale-if-error=300";
    let private = "private, max-age=0";
    let link = |code: &str| server.link(code);
    for (link, wanted) in [
        (link("plain"), kept),
        (link("below").with("forwardPath", true), private),
        (link("limited").max_visits(5), private),
        (link("locked").password("open sesame"), "no-store"),
        (link("over").with("state", "disabled"), private),
    ] {
        let slug = link.create().await.code().to_owned();
        let answer = server.follow(&format!("/{slug}")).await;
        assert_eq!(answer.header("cache-control"), wanted, "{slug}");
    }
    link("ruled").create().await;
    let rules = json!({ "redirectRules": [{ "longUrl": "https://example.com/b",
        "conditions": [{ "type": "device", "matchKey": null, "matchValue": "android" }] }] });
    let request = server.api(Method::POST, "/links/ruled/rules").json(&rules);
    send(request).await.expect(200);
    for path in ["/ruled", "/unknown", "/plain/below"] {
        let answer = server.follow(path).await;
        assert_eq!(answer.header("cache-control"), private, "{path}");
    }
    link("soon").valid_until(&in_seconds(900)).create().await;
    let answer = server.follow("/soon").await;
    let late = answer
        .header("cache-control")
        .strip_prefix("max-age=0, s-maxage=600, stale-while-revalidate=")
        .and_then(|late| late.split_once(", stale-if-error="));
    let late = late.map(|(late, failed)| [late, failed].map(str::parse::<u64>));
    let Some([Ok(late), Ok(failed)]) = late else {
        panic!("{late:?}");
    };
    assert!(
        (200..=300).contains(&late) && failed == late,
        "{late} {failed}"
    );
}

#[tokio::test]
async fn link_when_out_of_service_has_a_page() {
    let server = Running::start().await;
    server.link("off").with("state", "disabled").create().await;
    let link = server.link("over").valid_until("2020-01-01T00:00:00Z");
    link.create().await;
    let link = server.link("early").valid_since("2999-01-01T00:00:00Z");
    link.create().await;
    let link = server.link("now").valid_since("2020-01-01T00:00:00Z");
    link.valid_until("2999-01-01T00:00:00Z").create().await;
    server.follow("/off").await.page(410, "no longer available");
    server
        .follow("/over")
        .await
        .page(410, "no longer available");
    server.follow("/early").await.page(404, "not found");
    server.follow("/absent").await.page(404, "not found");
    server
        .follow("/now")
        .await
        .redirects(302, "https://example.com/");
}

#[tokio::test]
async fn path_when_not_a_code_is_not_found() {
    let server = Running::start().await;
    server.link("x").create().await;
    let long = format!("/{}", "a".repeat(65));
    for path in [
        "/",
        "//",
        "/x/",
        "//x",
        "/%78",
        "/x%2Fy",
        "/%00",
        "/x%00",
        "/../x",
        "/favicon.ico",
        "/api",
        "/a/b",
        &long,
    ] {
        let answer = server
            .exchange(
                format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes(),
            )
            .await;
        assert!(
            answer.starts_with("HTTP/1.1 404 Not Found\r\n"),
            "{path}: {answer}"
        );
        assert!(answer.contains("text/html"), "{path}");
    }
}

#[tokio::test]
async fn request_when_bytes_are_not_ascii_is_answered() {
    let server = Running::start().await;
    server.link("x").create().await;
    for byte in 0x80..=0xff_u8 {
        let request = [
            b"GET /x",
            &[byte][..],
            b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        ]
        .concat();
        let answer = server.exchange(&request).await;
        assert!(
            answer.starts_with("HTTP/1.1 404 ") || answer.starts_with("HTTP/1.1 400 "),
            "{byte}: {answer}"
        );
        let request = [
            b"GET /x HTTP/1.1\r\nconnection: close\r\nhost: ",
            &[byte][..],
            b"\r\ncookie: ",
            &[byte],
            b"\r\nuser-agent: ",
            &[byte],
            b"\r\n\r\n",
        ]
        .concat();
        let answer = server.exchange(&request).await;
        assert!(answer.starts_with("HTTP/1.1 302 "), "{byte}: {answer}");
    }
}

#[tokio::test]
async fn method_when_not_get_or_head_is_refused() {
    let server = Running::start().await;
    server.link("x").create().await;
    for method in [Method::POST, Method::DELETE, Method::OPTIONS] {
        let answer = send(server.plain(method.clone(), "/x")).await;
        answer.problem(405, "method-not-allowed");
        assert_eq!(answer.header("allow"), "GET, HEAD");
        let absent = send(server.plain(method, "/absent")).await;
        assert_eq!(absent.status, 404);
    }
}

#[tokio::test]
async fn link_when_its_status_keeps_the_method_redirects_each() {
    let server = Running::start().await;
    for status in [307, 308] {
        let slug = format!("s{status}");
        let link = server.link(&slug).redirect_status(status);
        link.max_visits(3).create().await;
        let path = format!("/{slug}?a=1");
        for method in [Method::OPTIONS, Method::TRACE, Method::HEAD] {
            send(server.plain(method, &path))
                .await
                .redirects(status, "https://example.com/?a=1");
        }
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            send(server.plain(method, &path))
                .await
                .redirects(status, "https://example.com/?a=1");
        }
        for method in [Method::OPTIONS, Method::TRACE, Method::HEAD] {
            let answer = send(server.plain(method.clone(), &path)).await;
            assert_eq!(answer.status, 410, "{method} asks whether one is left");
        }
        let used_up = send(server.plain(Method::POST, &path)).await;
        assert_eq!(used_up.status, 410, "each was a visit");
    }
    server.link("limited").max_visits(1).create().await;
    assert_eq!(
        send(server.plain(Method::POST, "/limited")).await.status,
        405
    );
    server
        .follow("/limited")
        .await
        .redirects(302, "https://example.com/");
}

#[tokio::test]
async fn alias_when_named_like_the_shlink_api_redirects() {
    let server = Running::start().await;
    let link = server.link("rest").with("forwardPath", true);
    link.redirect_status(307).create().await;
    for method in [Method::GET, Method::POST] {
        for path in ["/rest/", "/rest/more"] {
            let target = path.replace("/rest", "https://example.com");
            let answer = send(server.plain(method.clone(), path)).await;
            answer.redirects(307, &target);
        }
        let api = send(server.plain(method, "/rest/v3/more")).await;
        assert_eq!(api.status, 401, "it wants a key");
    }
    let server = Running::with(&[("EDGELINK_LINKS_PREFIX", "/rest/")]).await;
    server.link("a").create().await;
    let followed = server.follow("/rest/a").await;
    followed.redirects(302, "https://example.com/");
}

#[tokio::test]
async fn request_when_sent_to_no_link_is_no_orphan_click() {
    let server = Running::with(&[("EDGELINK_CLICKS_ORPHANS", "true")]).await;
    for method in [Method::POST, Method::PUT, Method::OPTIONS] {
        for path in ["/xmlrpc.php", "/wp/xmlrpc.php", "/absent"] {
            let answer = send(server.plain(method.clone(), path)).await;
            assert_eq!(answer.status, 404, "{method} {path}");
        }
        let answer = send(server.plain(method, "/xmlrpc.php")).await;
        answer.problem(404, "not-found");
    }
    server.follow("/xmlrpc.php").await.page(404, "not found");
    until("the visit is counted", async || {
        let orphans = server.get("/analytics/orphans").await.expect(200);
        orphans["totals"]["clicks"] != 0
    })
    .await;
    let orphans = server.get("/analytics/orphans").await.expect(200);
    let visited = json!([{ "value": "/xmlrpc.php", "clicks": 1 }]);
    assert_eq!(orphans["data"], visited);
}

#[tokio::test]
async fn link_when_behind_a_prefix_or_before_a_slash_redirects() {
    let server = Running::with(&[
        ("EDGELINK_LINKS_PREFIX", "/s/"),
        ("EDGELINK_LINKS_TRAILING_SLASH", "true"),
    ])
    .await;
    let made = server.link("a").password("secret").create().await;
    assert_eq!(made["shortUrl"], "https://go.example:8080/s/a");
    server.link("b").redirect_status(307).create().await;
    for path in ["/s/b", "/s/b/", "/s/b?x=1", "/s/b/?x=1"] {
        let query = path.split_once('?').map_or("", |(_, query)| query);
        let target = match query {
            "" => "https://example.com/".to_owned(),
            query => format!("https://example.com/?{query}"),
        };
        server.follow(path).await.redirects(307, &target);
        send(server.plain(Method::POST, path))
            .await
            .redirects(307, &target);
    }
    for path in ["/b", "/b/", "/s/b//", "/s", "/x/b"] {
        assert_eq!(server.follow(path).await.status, 404, "{path}");
        let sent = send(server.plain(Method::POST, path)).await;
        assert_eq!(sent.status, 404, "{path}");
    }
    let form = server
        .plain(Method::POST, "/s/a/")
        .header("content-type", "application/x-www-form-urlencoded")
        .body("password=secret");
    let opened = send(form).await;
    assert_eq!(opened.status, 303);
    assert_eq!(opened.header("location"), "/s/a/");
    let cookie = opened.header("set-cookie");
    assert!(cookie.contains("; Path=/s/a;"), "{cookie}");
    let preview = server.follow("/s/b+").await;
    preview.page(200, "href=\"/s/b\"");
}

#[tokio::test]
async fn root_when_links_have_a_prefix_is_the_prefix() {
    let server = Running::with(&[
        ("EDGELINK_LINKS_PREFIX", "/s/"),
        ("EDGELINK_CLICKS_ORPHANS", "true"),
        ("EDGELINK_HOME_PAGE", "true"),
        ("EDGELINK_DOMAINS_REQUIRE_VERIFICATION", "false"),
    ])
    .await;
    let domain = json!({ "name": "brand.example", "rootUrl": "https://example.com/root" });
    let made = server.plain(Method::POST, "/api/v1/domains");
    let made = made.header("x-api-key", &server.admin_key).json(&domain);
    send(made).await.expect(201);
    let visit = async |method: Method, host: &str, path: &str| {
        send(server.plain(method, path).header("host", host)).await
    };
    for path in ["/s/", "/s/?a=b"] {
        let answer = visit(Method::GET, "brand.example", path).await;
        answer.redirects(302, "https://example.com/root");
        let home = visit(Method::GET, "go.example:8080", path).await;
        assert_eq!(home.status, 200, "{path}");
    }
    for path in ["/", "/?a=b"] {
        for method in [Method::GET, Method::HEAD, Method::POST] {
            let answer = visit(method, "brand.example", path).await;
            assert_eq!(answer.status, 404, "{path} is of others");
        }
    }
    let post = visit(Method::POST, "brand.example", "/s/").await;
    assert_eq!(post.status, 405);
    until("the visits are counted", async || {
        let orphans = server.get("/analytics/orphans").await.expect(200);
        orphans["data"] == json!([{ "value": "/", "clicks": 4 }])
    })
    .await;
}

#[tokio::test]
async fn page_when_configured_replaces_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("404.html");
    std::fs::write(&page, "<p>Nothing here, dear visitor</p>").unwrap();
    let server = Running::with(&[("EDGELINK_PAGES_NOT_FOUND", page.to_str().unwrap())]).await;
    server.follow("/absent").await.page(404, "dear visitor");
}

/// Follows `/x`, or another path, with a header.
async fn visit(server: &Running, method: Method, path: &str, header: (&str, &str)) -> u16 {
    let request = server.plain(method, path).header(header.0, header.1);
    send(request).await.status.as_u16()
}

#[tokio::test]
async fn redirect_when_of_a_person_is_counted_even_at_a_stop() {
    let server = Running::with(&[
        ("EDGELINK_CLICKS_ATTRIBUTES", "userAgent,visitor,referrer"),
        ("EDGELINK_CLICKS_ORPHANS", "true"),
    ])
    .await;
    server.link("x").create().await;
    for (method, path, header, status) in [
        (Method::GET, "/x", ("user-agent", "curl"), 302),
        (Method::GET, "/x?a=b", ("dnt", "1"), 302),
        (Method::GET, "/x", ("sec-gpc", "1"), 302),
        (Method::GET, "/x", ("sec-purpose", "none"), 302),
        // These are no clicks.
        (
            Method::GET,
            "/x",
            ("sec-purpose", "prefetch;prerender"),
            302,
        ),
        (Method::GET, "/x", ("purpose", "prefetch"), 302),
        (Method::HEAD, "/x", ("user-agent", "curl"), 302),
        (Method::GET, "/none", ("user-agent", "curl"), 404),
        (Method::GET, "/", ("user-agent", "curl"), 404),
        (Method::GET, "/no/link.at-all", ("user-agent", "curl"), 404),
    ] {
        assert_eq!(visit(&server, method, path, header).await, status, "{path}");
    }
    let server = server.restart().await;
    let accounts = server.get("/clicks/accounting").await.expect(200);
    assert_eq!(accounts["sent"], 4, "{accounts}");
    assert_eq!(accounts["counted"], 4, "{accounts}");
    assert_eq!(accounts["dropped"], 0, "{accounts}");
}

#[tokio::test]
async fn target_when_link_tracks_conversions_gets_a_click_id() {
    let server = Running::start().await;
    let link = server.link("x").with("trackConversions", true);
    link.create().await;
    let ids: Vec<String> = [server.follow("/x").await, server.follow("/x").await]
        .iter()
        .map(|answer| answer.header("location").to_owned())
        .collect();
    assert!(
        ids[0].starts_with("https://example.com/?el_click="),
        "{ids:?}"
    );
    assert_eq!(ids[0].len(), "https://example.com/?el_click=".len() + 22);
    assert_ne!(ids[0], ids[1]);
    for header in [("dnt", "1"), ("sec-purpose", "prefetch")] {
        let request = server.plain(Method::GET, "/x").header(header.0, header.1);
        send(request).await.redirects(302, "https://example.com/");
    }
}
