//! The share of clients that the canary answers, by nginx's own word.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Connection, Deployment, Envoy, EnvoyOptions, Nginx, free_port, until};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

const CLIENTS: u32 = 100_000;
const LIMIT: Duration = Duration::from_secs(20);

/// nginx with a place that says who would answer a client, `/pool`, and who counts as one, `/client`.
async fn with_oracle(percent: &str) -> (Nginx, SocketAddr, tempfile::TempDir) {
    let oracle = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let folder = tempfile::TempDir::new().expect("a folder");
    let include = folder.path().join("oracle.conf");
    let server = format!(
        "server {{ listen {oracle}; access_log off; keepalive_requests 1000000; default_type text/plain;
           location = /pool {{ return 200 $pool; }} location = /client {{ return 200 $client; }} }}"
    );
    std::fs::write(&include, server).expect("a file");
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let variables = [
        ("EDGELINK_CANARIES", "127.0.0.1:10"),
        ("EDGELINK_CANARY_PERCENT", percent),
        ("EDGELINK_PROXIES", "127.0.0.1"),
        ("EDGELINK_FRONT_INCLUDE", include.to_str().expect("a path")),
    ];
    let nginx = Nginx::start(&[nowhere], &[nowhere], &variables).await;
    (nginx, oracle, folder)
}

fn client(number: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

/// What is said of each client, in order: many questions go over one connection at once.
async fn ask(oracle: SocketAddr, path: &str, clients: &[String]) -> io::Result<Vec<String>> {
    let mut connection = Connection::open(oracle).await?;
    let mut answers = Vec::new();
    for clients in clients.chunks(500) {
        let questions = clients.iter().map(|client| {
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-forwarded-for: {client}\r\n\r\n")
        });
        let questions: String = questions.collect();
        connection.send(questions.as_bytes()).await?;
        for _ in clients {
            let answer = connection.receive("GET").await?;
            answers.push(String::from_utf8(answer.body).expect("text"));
        }
    }
    Ok(answers)
}

fn canaries(pools: &[String]) -> usize {
    assert!(pools.iter().all(|pool| pool == "edge" || pool == "canary"));
    pools.iter().filter(|pool| *pool == "canary").count()
}

#[tokio::test]
async fn canary_when_set_to_a_tenth_gets_the_same_tenth_of_clients() {
    let (nginx, oracle, _folder) = with_oracle("10").await;
    let clients: Vec<String> = (0..CLIENTS).map(client).collect();
    let pools = ask(oracle, "/pool", &clients).await.expect("answers");
    let share = canaries(&pools) as f64 / f64::from(CLIENTS);
    println!("{:.2} % of {CLIENTS} clients", share * 100.0);
    assert!((0.095..=0.105).contains(&share), "{share}");

    let some = &clients[..10_000];
    let again = ask(oracle, "/pool", some).await.expect("answers");
    assert_eq!(again, pools[..10_000], "sticky");

    // A connection on which many questions wait is closed by a reload: then they are asked once more.
    let switched = nginx.set_canary("0");
    assert!(switched.status.success(), "{switched:?}");
    until("the canary is off", LIMIT, async || {
        let pools = ask(oracle, "/pool", some).await.ok()?;
        (canaries(&pools) == 0).then_some(())
    })
    .await;
    assert!(nginx.set_canary("10").status.success());
    until("the same clients go there again", LIMIT, async || {
        (ask(oracle, "/pool", some).await.ok()? == pools[..10_000]).then_some(())
    })
    .await;
    for wrong in ["-1", "101", "ten", "0.001", ""] {
        let refused = nginx.set_canary(wrong);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && errors.contains("percentage"),
            "{wrong}: {errors}"
        );
    }
}

#[tokio::test]
async fn client_when_of_ipv6_is_a_network_of_64_bits() {
    let (_nginx, oracle, _folder) = with_oracle("10").await;
    for (address, wanted) in [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:"),
        ("2001:db8:1:2::6", "2001:db8:1:2:"),
        ("2001:db8:1:2::", "2001:db8:1:2:"),
        ("2001:db8::6", "2001:db8::"),
        ("2001:db8::3:4:5:6", "2001:db8::"),
        ("2001::4:5:6:7:8", "2001::4"),
        ("::3:4:5:6:7:8", "::3:4"),
        ("::1", "::"),
    ] {
        let seen = ask(oracle, "/client", &[address.to_owned()]).await;
        assert_eq!(seen.expect("answers"), [wanted], "{address}");
    }
}

async fn redirects(envoy: &Envoy) -> u64 {
    let name = "http.edge.downstream_rq_3xx";
    envoy.stats(name).await.get(name)
}

/// By links, not by the oracle: the canary answers its clients, others are answered by the edge, and when the canary is gone, or
/// nginx is told to do without, all are answered by the edge.
#[tokio::test]
async fn canary_when_failed_or_switched_off_goes_unnoticed() {
    let options = EnvoyOptions {
        trusted_hops: 1,
        ..EnvoyOptions::default()
    };
    let edgelink = Deployment::start(&options).await;
    let planes = [edgelink.control_plane.address()];
    let mut canary = Envoy::start(&options, &planes).await;
    let address = canary.edge().to_string();
    let variables = [
        ("EDGELINK_CANARIES", address.as_str()),
        ("EDGELINK_CANARY_PERCENT", "50"),
        ("EDGELINK_PROXIES", "127.0.0.1"),
    ];
    let nginx = Nginx::start(&[edgelink.envoy.edge()], &planes, &variables).await;
    let path = edgelink.link("").create().await.path();
    let follow_as = async |number: u32| {
        let forwarded = client(number);
        let request = Request::get(&path).header("x-forwarded-for", forwarded.as_bytes());
        let answer = nginx.visit(&request).await.expect("an answer");
        assert_eq!(answer.status, 302, "{answer:?}");
    };
    for number in 0..40 {
        follow_as(number).await;
    }
    let by_canary = redirects(&canary).await;
    let by_edge = redirects(&edgelink.envoy).await;
    assert!(by_canary > 0 && by_edge > 0, "{by_canary} {by_edge}");
    assert_eq!(by_canary + by_edge, 40);

    canary.process().kill();
    for number in 0..40 {
        follow_as(number).await;
    }
    canary.restart().await;
    let (switched, ()) = tokio::join!(async { nginx.set_canary("0") }, async {
        for number in 0..200 {
            follow_as(number).await;
        }
    });
    assert!(switched.status.success(), "{switched:?}");
    until("the canary gets nothing", LIMIT, async || {
        let before = redirects(&canary).await;
        for number in 0..40 {
            follow_as(number).await;
        }
        (redirects(&canary).await == before).then_some(())
    })
    .await;
}
