//! Panics that tests ask for, by a header that only the module of tests has.

use super::*;

/// What comes behind the request that asks for a panic.
#[derive(Clone, Copy, Debug)]
enum Next {
    Nothing,
    Lookup,
    Form,
    ClientLeaves,
    Metrics,
}

/// The status of its answer, if it is a visitor that waits for one.
async fn come(nginx: &Envoy, next: Next) -> Option<u16> {
    let request = match next {
        Next::Nothing => Request::get("/a"),
        Next::Lookup => Request::get("/b"),
        Next::Form => {
            Request::new("POST", b"/b").header("content-type", b"application/x-www-form-urlencoded")
        }
        Next::ClientLeaves => {
            let mut connection = nginx.connect().await;
            let request = request_bytes(&Request::get("/silent"), b"");
            connection.send(&request).await.expect("a connection");
            await_waiting(nginx, 1).await;
            return None;
        }
        Next::Metrics => {
            nginx.admin("/metrics").await;
            return None;
        }
    };
    let body: &[u8] = match next {
        Next::Form => b"password=x",
        _ => b"",
    };
    let mut connection = nginx.connect().await;
    let answer = connection.exchange(&request, body).await;
    Some(answer.expect("an answer").status)
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_when_in_a_hook_costs_one_request() {
    if is_missing() {
        return;
    }
    // Which the request itself gets, and what comes next.
    for (hook, own, next, status) in [
        ("headers", Some(503), Next::Nothing, Some(302)),
        ("edge", Some(503), Next::Nothing, Some(302)),
        ("decide", None, Next::Nothing, Some(302)),
        ("tick", Some(302), Next::Nothing, Some(302)),
        ("take_metrics", Some(302), Next::Nothing, Some(302)),
        ("wake", Some(302), Next::Lookup, Some(503)),
        ("form", Some(302), Next::Form, Some(503)),
        ("end_stream", Some(302), Next::ClientLeaves, None),
        ("metrics", Some(302), Next::Metrics, None),
    ] {
        let (nginx, control_plane) = edge(&options()).await;
        control_plane.script("b", Behaviour::Reply(Reply::Link(link(TARGET))));
        let workers = nginx.workers();
        assert_eq!(nginx.follow("/a").await.status, 302);
        let mut connection = nginx.connect().await;
        let request = Request::get("/a").header("x-edgelink-panic", hook.as_bytes());
        let answer = connection.exchange(&request, b"").await.ok();
        assert_eq!(answer.map(|it| it.status), own, "{hook}");
        assert_eq!(come(&nginx, next).await, status, "{hook}: {next:?}");
        nginx
            .await_figures(|stats| {
                stats.crashes() == 1 && stats.get("edgelink.waiting_requests") == 0
            })
            .await;
        for path in ["/a", "/b", "/a"] {
            assert_eq!(nginx.follow(path).await.status, 302, "{hook}");
        }
        assert_eq!(nginx.workers(), workers, "{hook}");
    }
}
