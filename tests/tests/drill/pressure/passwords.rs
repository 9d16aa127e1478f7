//! Many people behind one address who have the password of a link.

use edgelink_tests::scenario::Request;
use edgelink_tests::stack::{Connection, Deployment, EnvoyOptions};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinSet;

const PEOPLE: usize = 200;
/// Those who send at the same time.
const AT_ONCE: usize = 20;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn right_passwords() {
    let product = Deployment::start(&EnvoyOptions::default()).await;
    product.link("locked").password("right").create().await;
    let ways = [
        ("through the edge", product.envoy.edge()),
        ("at the control plane", product.control_plane.address()),
    ];
    println!();
    let mut is_met = true;
    for (way, address) in ways {
        let opened = give(address, "right", PEOPLE).await;
        println!("{way}: {opened} of {PEOPLE} right passwords open the link (goal: all)");
        is_met &= opened == PEOPLE;
    }
    // Wrong ones are counted, for both ways together.
    for (_, address) in ways {
        assert_eq!(give(address, "wrong", 30).await, 0);
    }
    assert!(is_met);
}

/// Gives the password so many times, a few at once; how many opened the link.
async fn give(address: SocketAddr, password: &'static str, times: usize) -> usize {
    let left = Arc::new(std::sync::Mutex::new(times));
    let mut people = JoinSet::new();
    for _ in 0..AT_ONCE {
        let left = left.clone();
        people.spawn(async move {
            let mut opened = 0;
            loop {
                {
                    let mut left = left.lock().expect("no panic");
                    if *left == 0 {
                        return opened;
                    }
                    *left -= 1;
                }
                let request = Request::new("POST", b"/locked")
                    .header("content-type", b"application/x-www-form-urlencoded");
                let mut connection = Connection::open(address).await.expect("a connection");
                let body = format!("password={password}");
                let answer = connection.exchange(&request, body.as_bytes()).await;
                opened += usize::from(answer.expect("an answer").status == 303);
            }
        });
    }
    people.join_all().await.into_iter().sum()
}
