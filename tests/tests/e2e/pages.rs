//! Pages for visitors that come from the control plane through an edge.

use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::stack::{ControlPlane, Deployment, Envoy, EnvoyOptions};

const TARGET: &str = "https://example.com/target";

async fn with_pages() -> Deployment {
    let options = EnvoyOptions {
        public_pages: true,
        ..EnvoyOptions::default()
    };
    let edgelink = Deployment::start(&options).await;
    edgelink.link("known").to(TARGET).create().await;
    edgelink
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[tokio::test]
async fn preview_when_asked_for_at_an_edge_is_shown() {
    let edgelink = with_pages().await;
    for path in ["/known+", "/known+?x=y", "/known%2B"] {
        let answer = edgelink.envoy.follow(path).await;
        assert_eq!((answer.status, answer.location()), (200, None), "{path}");
        let page = text(&answer);
        assert!(page.contains(TARGET), "{path}: {page}");
        for style in page.split("rel=\"stylesheet\" href=\"").skip(1) {
            let style = style.split('"').next().expect("an address");
            let answer = edgelink.envoy.follow(style).await;
            assert_eq!(answer.status, 200, "{style}");
        }
    }
    let locked = edgelink.link("locked").to(TARGET).password("open sesame");
    locked.create().await;
    let answer = edgelink.envoy.follow("/locked+").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!text(&answer).contains(TARGET));
    let answer = edgelink.envoy.follow("/absent+").await;
    assert_eq!(answer.status, 404, "{answer:?}");
    let answer = edgelink.envoy.follow("/robots.txt").await;
    assert!(text(&answer).starts_with("User-agent: *"), "{answer:?}");
    let answer = edgelink.envoy.follow("/known").await;
    assert_eq!(answer.location(), Some(TARGET), "{answer:?}");
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test]
async fn path_when_not_a_public_page_is_404_at_the_edge() {
    let edgelink = with_pages().await;
    for path in [
        "/api/v1/links",
        "/edge/v1/snapshot",
        "/metrics",
        "/console",
        "/console/login",
        "/openapi.json",
        "/+/../metrics",
        "/+/../api/v1/links",
        "/+/./metrics.css",
        "/+",
        "/+/",
        "/known++",
        "/known+/x",
        "//known+",
    ] {
        let answer = edgelink.envoy.visit(&Request::get(path)).await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert_eq!(answer.body, b"Not found.\n", "{path}");
    }
    edgelink.envoy.assert_unharmed().await;
}

#[tokio::test]
async fn pages_when_links_have_a_prefix_are_behind_it_too() {
    let control_plane = ControlPlane::with_variables(&[
        ("EDGELINK_LINKS_PREFIX", "/s/"),
        ("EDGELINK_HOME_PAGE", "true"),
    ])
    .await;
    control_plane.link("known").to(TARGET).create().await;
    let options = EnvoyOptions {
        public_pages: true,
        variables: vec![("EDGELINK_PREFIX", "/s/".to_owned())],
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    let preview = envoy.follow("/s/known+").await;
    assert!(text(&preview).contains("href=\"/s/known\""), "{preview:?}");
    assert_eq!(envoy.follow("/s/").await.status, 200, "the home page");
    for path in ["/", "/known+", "/robots.txt"] {
        let answer = envoy.follow(path).await;
        assert_eq!(answer.body, b"Not found.\n", "{path}");
    }
    envoy.assert_unharmed().await;
}
