//! Crowds without a key: bodies that do not come, and connections that send nothing.

use super::{Tally, be_silent, connect_from};
use edgelink_tests::scenario::{DOMAIN, Request};
use edgelink_tests::stack::{
    Connection, Deployment, EDGE_TOKEN, EnvoyOptions, descriptor_count, until,
};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// As many as the review of this had, which were more than the permits for requests.
const SILENT: usize = 600;
/// As many as a listener has connections.
const IDLE: usize = 4_096;
const TIMES: usize = 30;

/// The target of a cold link, which no worker has.
const TARGET: &str = "https://example.com/";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn silent_bodies() {
    let mut product = Deployment::start(&EnvoyOptions::default()).await;
    let process = product.control_plane.process().id();
    let locked = product.link("locked").to(TARGET).password("p");
    locked.create().await;
    let mut is_met = true;
    for path in ["/locked", "/nothing", "/console/login"] {
        let before = descriptor_count(process);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {DOMAIN}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: 64\r\n\r\np"
        );
        let mut crowd = JoinSet::new();
        for _ in 0..SILENT {
            let to = product.control_plane.address();
            crowd.spawn(be_silent([127, 0, 0, 2], to, head.clone()));
        }
        // Those of no link are answered at once, and come again.
        if path != "/nothing" {
            await_crowd(process, before, SILENT).await;
        }
        println!("\n{SILENT} bodies that do not come, {path}");
        is_met &= ask_others(&product).await;
        crowd.shutdown().await;
    }
    assert!(is_met);
    product.envoy.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn idle_connections() {
    let mut product = Deployment::start(&EnvoyOptions::default()).await;
    let process = product.control_plane.process().id();
    let before = descriptor_count(process);
    let mut idle: Vec<TcpStream> = Vec::new();
    for number in 0..IDLE {
        let last = 2 + u8::try_from(number % 4).unwrap_or_default();
        let stream = connect_from([127, 0, 0, last], product.control_plane.address()).await;
        idle.push(stream.expect("a connection"));
    }
    await_crowd(process, before, IDLE).await;
    println!("\n{} idle connections", idle.len());
    assert!(ask_others(&product).await);
    drop(idle);
    product.envoy.assert_unharmed().await;
}

/// Returns when the process has accepted so many of the crowd.
async fn await_crowd(process: u32, before: u64, most: usize) {
    let enough = before + u64::try_from(most / 2).unwrap_or_default();
    until("the crowd is there", Duration::from_secs(30), async || {
        (descriptor_count(process) >= enough).then_some(())
    })
    .await;
}

/// Asks as others do, and prints what they get. Whether nothing was 503.
async fn ask_others(product: &Deployment) -> bool {
    let plane = product.control_plane.address();
    let mut api = Tally::of("API");
    let mut console = Tally::of("console");
    let mut edge = Tally::of("edge API");
    let mut cold = Tally::of("cold links at the edge");
    let mut made = Tally::of("creation");
    let key = product.control_plane.admin_key().to_owned();
    let token = format!("Bearer {EDGE_TOKEN}");
    for number in 0..TIMES {
        let ask = async |request: Request| {
            let mut connection = Connection::open(plane).await.expect("a connection");
            let answer = connection.exchange(&request, b"").await;
            answer.expect("an answer")
        };
        let request = Request::new("GET", b"/api/v1/links").header("x-api-key", key.as_bytes());
        api.note(&ask(request).await, 200);
        console.note(&ask(Request::new("GET", b"/console/login")).await, 200);
        let path = format!("/edge/v1/links/{DOMAIN}/none{number}");
        let request = Request::new("GET", path.as_bytes());
        let request = request.header("authorization", token.as_bytes());
        edge.note(&ask(request).await, 404);
        let answer = product.link("").to(TARGET).answer().await;
        made.add(answer.status, 201);
        if answer.status == 201 {
            let url = answer.text("shortUrl").to_owned();
            let path = url.rsplit('/').next().unwrap_or_default();
            cold.note(&product.envoy.follow(&format!("/{path}")).await, 302);
        }
    }
    let tallies = [api, console, edge, made, cold];
    tallies.iter().for_each(Tally::show);
    tallies.iter().all(Tally::is_met)
}
