//! What only the module of nginx has: its directives, reloads, the memory of its zone, and requests that leave in each way.

mod panics;

use edgelink_tests::scenario::{Answer, DOMAIN, Reply, Request, link};
use edgelink_tests::stack::{
    Behaviour, Connection, Deployment, EDGE_TOKEN, Envoy, EnvoyOptions, Filter, Http2Answer,
    Http2Connection, ScriptedControlPlane, Signal, Stats, built_nginx_module, descriptor_count,
    free_port, http2_request, request_bytes, until,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(30);
const TARGET: &str = "https://example.com/";

/// True where the module is not built, which the tests below are skipped for.
fn is_missing() -> bool {
    let is_missing = built_nginx_module().is_none();
    if is_missing {
        println!("skipped: the module of nginx is not built, `make nginx-module` builds it");
    }
    is_missing
}

fn options() -> EnvoyOptions {
    EnvoyOptions {
        filter: Filter::Nginx,
        ..EnvoyOptions::default()
    }
}

/// nginx in front of a control plane that tests script.
async fn edge(options: &EnvoyOptions) -> (Envoy, ScriptedControlPlane) {
    let control_plane = ScriptedControlPlane::start().await;
    control_plane.script("a", Behaviour::Reply(Reply::Link(link(TARGET))));
    control_plane.script("silent", Behaviour::BytesThenSilence(Vec::new()));
    let nginx = Envoy::start(options, &[control_plane.address()]).await;
    (nginx, control_plane)
}

/// A valid file of settings.
fn settings() -> Value {
    json!({"domains": [DOMAIN], "controlPlane": {"servers": ["http://127.0.0.1:9"], "token": "x"}})
}

/// Waits until so many requests wait.
async fn await_waiting(nginx: &Envoy, count: u64) {
    until("requests wait", LIMIT, async || {
        let waiting = nginx.figures().await.get("edgelink.waiting_requests");
        (waiting == count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_when_wrong_is_named_by_nginx() {
    if is_missing() {
        return;
    }
    let (nginx, _control_plane) = edge(&options()).await;
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("wrong.json");
    let path = file.to_str().expect("a path").to_owned();
    let with = |field: &str, value: Value| {
        let mut settings = settings();
        settings[field] = value;
        settings.to_string()
    };
    let planes = |servers: Value| with("controlPlane", servers);
    for (text, named) in [
        ("{", "line 1"),
        (&with("colour", json!(1)), "field 'colour'"),
        (&with("freshSeconds", json!("5")), "field 'freshSeconds'"),
        (
            &planes(json!({"token": "x"})),
            "field 'controlPlane.servers'",
        ),
        (
            &planes(json!({"servers": ["https://127.0.0.1:9"], "caFile": "/nowhere"})),
            "field 'controlPlane.caFile'",
        ),
        (
            &planes(json!({"servers": ["http://127.0.0.1:9"], "tokenFile": "/nowhere"})),
            "field 'controlPlane.tokenFile'",
        ),
        (
            &with("redis", json!({"mode": "direct", "cluster": "redis"})),
            "field 'redis.servers'",
        ),
    ] {
        fs::write(&file, text).expect("a file");
        let output = nginx.check(&[("EDGELINK_NGINX_SETTINGS", path.clone())]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{text}");
        assert!(message.contains(named), "{named}: {message}");
        assert!(message.contains(&path), "{message}");
    }
    fs::write(&file, settings().to_string()).expect("a file");
    let right = ("EDGELINK_NGINX_SETTINGS", path.clone());
    let output = nginx.check(std::slice::from_ref(&right));
    assert!(output.status.success(), "{output:?}");
    for (size, named) in [("1k", "must be at least 1m"), ("many", "must have a size")] {
        let output = nginx.check(&[right.clone(), ("EDGELINK_NGINX_ZONE", size.to_owned())]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && message.contains(named),
            "{message}"
        );
    }
    for (directives, named) in [
        ("edgelink_zone 32m;", "is duplicate"),
        (&format!("edgelink {path};"), "is duplicate"),
        ("edgelink;", "invalid number of arguments"),
        ("edgelink_metrics;", "is not allowed here"),
        (
            "server { location / { edgelink off; edgelink_metrics; } }",
            "must stand in a location of its own",
        ),
        ("server { edgelink /nowhere.json; }", "/nowhere.json"),
    ] {
        let output = nginx.check(&[
            right.clone(),
            ("EDGELINK_NGINX_HTTP", directives.to_owned()),
        ]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{directives}");
        assert!(message.contains(named), "{named}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_when_its_settings_are_wrong_changes_nothing() {
    if is_missing() {
        return;
    }
    let (nginx, _control_plane) = edge(&options()).await;
    assert_eq!(nginx.follow("/a").await.status, 302);
    let before = nginx.workers();
    let output = nginx.reload(&[("EDGELINK_NGINX_SETTINGS", "/nowhere.json".to_owned())]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && message.contains("/nowhere.json"),
        "{message}"
    );
    assert_eq!(nginx.workers(), before);
    let answer = nginx.follow("/a").await;
    assert_eq!((answer.status, answer.tier()), (302, Some("lru")));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_when_reloaded_are_those_of_the_file() {
    if is_missing() {
        return;
    }
    let (nginx, _control_plane) = edge(&options()).await;
    let answer = nginx.follow("/a").await;
    assert_eq!(answer.tier(), Some("control-plane"));
    let before = nginx.workers();
    let output = nginx.reload(&[("EDGELINK_TIER_HEADER", "false".to_owned())]);
    assert!(output.status.success(), "{output:?}");
    nginx.await_other_workers(&before).await;
    let answer = nginx.follow("/a").await;
    assert_eq!((answer.status, answer.tier()), (302, None));
}

/// Requests that wait among them: each worker that ends has them answered first.
#[tokio::test(flavor = "multi_thread")]
async fn requests_when_nginx_reloads_are_all_answered() {
    if is_missing() {
        return;
    }
    let options = EnvoyOptions {
        workers: 2,
        lru_bytes: 0,
        ..options()
    };
    let (nginx, control_plane) = edge(&options).await;
    let nginx = Arc::new(nginx);
    for code in 0..50 {
        let behaviour = Behaviour::Reply(Reply::Link(link(TARGET)));
        control_plane.script(&format!("c{code}"), behaviour);
    }
    let (is_over, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut visitors = JoinSet::new();
    for visitor in 0..4 {
        let (nginx, is_over, answered) = (nginx.clone(), is_over.clone(), answered.clone());
        visitors.spawn(async move {
            for number in visitor.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let answer = nginx.follow(&format!("/c{}", number % 50)).await;
                assert_eq!(answer.status, 302, "{answer:?}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for _ in 0..8 {
        let before = answered.load(Ordering::Relaxed);
        nginx.reload_to_new_workers().await;
        until("visitors are answered", LIMIT, async || {
            (answered.load(Ordering::Relaxed) > before + 20).then_some(())
        })
        .await;
    }
    is_over.store(true, Ordering::Relaxed);
    while let Some(visitor) = visitors.join_next().await {
        visitor.expect("a visitor whose requests were all answered");
    }
    nginx.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn module_when_of_another_nginx_is_refused() {
    if is_missing() {
        return;
    }
    let (nginx, _control_plane) = edge(&options()).await;
    let module = fs::read(built_nginx_module().expect("a module")).expect("a module");
    let folder = TempDir::new().expect("a folder");
    let other = folder.path().join("other.so");
    // The version stands in front of a pointer to the signature, which the loader fills in.
    let [own, of_another] = [1_022_001u64, 1_028_003].map(u64::to_le_bytes);
    let places = module.windows(8).enumerate();
    let places = places
        .filter(|(_, bytes)| *bytes == own)
        .map(|(place, _)| place);
    let mut changed = module.clone();
    for place in places {
        changed[place..place + 8].copy_from_slice(&of_another);
    }
    assert_ne!(changed, module, "this test knows nginx 1.22.1 only");
    fs::write(&other, changed).expect("a file");
    let other = other.to_str().expect("a path").to_owned();
    let output = nginx.reload(&[("EDGELINK_NGINX_MODULE", other)]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("version 1028003 instead of"), "{message}");
    assert_eq!(nginx.follow("/a").await.status, 302);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_when_they_leave_while_they_wait_leave_nothing() {
    if is_missing() {
        return;
    }
    let options = EnvoyOptions {
        callout_timeout_ms: 60_000,
        ..options()
    };
    let (nginx, _control_plane) = edge(&options).await;
    assert_eq!(nginx.follow("/a").await.status, 302);
    let worker = nginx.workers()[0];
    let before = descriptor_count(worker);
    for round in 0..5 {
        let mut connections = Vec::new();
        for number in 0..40 {
            let mut connection = nginx.connect().await;
            let request = Request::get(&format!("/silent?{round}-{number}"));
            let sent = connection.send(&request_bytes(&request, b"")).await;
            sent.expect("a connection");
            connections.push(connection);
        }
        await_waiting(&nginx, 40).await;
        drop(connections);
        await_waiting(&nginx, 0).await;
    }
    until("connections are closed", LIMIT, async || {
        (descriptor_count(worker) <= before).then_some(())
    })
    .await;
    assert_eq!(nginx.follow("/a").await.tier(), Some("lru"));
    nginx.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_when_cut_off_leave_nothing() {
    if is_missing() {
        return;
    }
    let edgelink = Deployment::start(&options()).await;
    let nginx = &edgelink.envoy;
    let locked = edgelink.link("locked").to(TARGET).password("open sesame");
    locked.create().await;
    let head = format!(
        "POST /locked HTTP/1.1\r\nhost: {DOMAIN}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: 20\r\n\r\npass"
    );
    let mut forms = Vec::new();
    for _ in 0..20 {
        let mut form = nginx.connect().await;
        form.send(head.as_bytes()).await.expect("a connection");
        forms.push(form);
    }
    await_waiting(nginx, 20).await;
    let mut last = forms.pop().expect("a form");
    drop(forms);
    await_waiting(nginx, 1).await;
    last.send(b"word=open+sesame").await.expect("a connection");
    let answer = last.receive("POST").await.expect("an answer");
    assert_eq!(answer.status, 303, "{answer:?}");
    await_waiting(nginx, 0).await;
    nginx.assert_unharmed().await;
}

/// What comes of a body after its answer is no request.
#[tokio::test(flavor = "multi_thread")]
async fn form_when_answered_before_its_body_ends_its_connection() {
    if is_missing() {
        return;
    }
    let edgelink = Deployment::start(&options()).await;
    let locked = edgelink.link("locked").to(TARGET).password("open sesame");
    locked.create().await;
    let head = format!(
        "POST /locked HTTP/1.1\r\nhost: {DOMAIN}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: 100\r\n\r\n"
    );
    let mut form = edgelink.envoy.connect().await;
    form.send(head.as_bytes()).await.expect("a connection");
    let answer = form.receive("POST").await.expect("an answer");
    assert_eq!(answer.status, 503, "{answer:?}");
    let body = format!("GET /absent HTTP/1.1\r\nhost: {DOMAIN}\r\n\r\n");
    // nginx may have closed it by then.
    let _ = form.send(body.as_bytes()).await;
    let rest = form.receive_rest().await.expect("its end");
    assert_eq!(String::from_utf8_lossy(&rest), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn form_when_its_body_is_in_a_file_opens_its_link() {
    if is_missing() {
        return;
    }
    let mut options = options();
    let in_file = "client_body_in_file_only clean;".to_owned();
    options.variables = vec![("EDGELINK_NGINX_SERVER", in_file)];
    let edgelink = Deployment::start(&options).await;
    let locked = edgelink.link("locked").to(TARGET).password("open sesame");
    locked.create().await;
    for (body, status) in [("password=wrong", 403), ("password=open+sesame", 303)] {
        let request = Request::new("POST", b"/locked")
            .header("content-type", b"application/x-www-form-urlencoded");
        let mut connection = edgelink.envoy.connect().await;
        let answer = connection.exchange(&request, body.as_bytes()).await;
        assert_eq!(answer.expect("an answer").status, status, "{body}");
    }
    edgelink.envoy.assert_unharmed().await;
}

/// It is no form then; what is left of it must not be read as a request.
#[tokio::test(flavor = "multi_thread")]
async fn body_when_too_long_for_a_form_is_thrown_away() {
    if is_missing() {
        return;
    }
    let (nginx, _control_plane) = edge(&options()).await;
    for length in [1_025, 40_000] {
        let mut connection = nginx.connect().await;
        let request = Request::new("POST", b"/a")
            .header("content-type", b"application/x-www-form-urlencoded");
        let body = "a".repeat(length);
        let answer = connection.exchange(&request, body.as_bytes()).await;
        assert_eq!(answer.expect("an answer").status, 405, "{length}");
        let answer = connection.exchange(&Request::get("/a"), b"").await;
        assert_eq!(answer.expect("an answer").status, 302, "{length}");
    }
}

fn fields(path: &str) -> Vec<(&str, &[u8])> {
    vec![
        (":method", b"GET"),
        (":scheme", b"http"),
        (":authority", DOMAIN.as_bytes()),
        (":path", path.as_bytes()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_streams_when_answered_and_when_reset_leave_nothing() {
    if is_missing() {
        return;
    }
    let options = EnvoyOptions {
        callout_timeout_ms: 60_000,
        ..options()
    };
    let (nginx, _control_plane) = edge(&options).await;
    for _ in 0..2 {
        let answer = http2_request(nginx.http2(), &fields("/a")).await;
        assert_eq!(answer.expect("an answer"), Http2Answer::Status(302));
    }
    for _ in 0..4 {
        let stream = TcpStream::connect(nginx.http2()).await.expect("a stream");
        let mut connection = Http2Connection::over(stream);
        let sent = connection.send_and_reset(&fields("/silent"), 100).await;
        sent.expect("a connection");
    }
    await_waiting(&nginx, 0).await;
    let answer = http2_request(nginx.http2(), &fields("/a")).await;
    assert_eq!(answer.expect("an answer"), Http2Answer::Status(302));
    nginx.assert_unharmed().await;
}

/// Their heads wait for room in the socket, and their bodies for the heads.
#[tokio::test(flavor = "multi_thread")]
async fn pages_when_read_slowly_are_whole() {
    const PAGES: usize = 2_000;
    if is_missing() {
        return;
    }
    let mut options = options();
    let listen = "reuseport sndbuf=4k".to_owned();
    options.variables = vec![("EDGELINK_NGINX_LISTEN", listen)];
    let (nginx, _control_plane) = edge(&options).await;
    let page = nginx.follow("/none").await.body;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .set_recv_buffer_size(4 << 10)
        .expect("a small buffer");
    let connection = socket.connect(nginx.edge()).await.expect("a connection");
    let (mut reads, mut writes) = connection.into_split();
    let requests = request_bytes(&Request::get("/none"), b"").repeat(PAGES);
    let sent = tokio::spawn(async move {
        writes.write_all(&requests).await.expect("a connection");
        writes
    });
    let (mut received, mut answered) = (Vec::new(), 0);
    while answered < PAGES {
        let mut part = [0; 1 << 10];
        let length = reads.read(&mut part).await.expect("a connection");
        assert!(length > 0, "{answered} pages");
        received.extend_from_slice(&part[..length]);
        while let Some(start) = received.windows(page.len()).position(|part| part == page) {
            let head = received[..start].to_vec();
            assert!(head.starts_with(b"HTTP/1.1 404"), "{}", head.escape_ascii());
            assert!(head.ends_with(b"\r\n\r\n"), "{}", head.escape_ascii());
            received.drain(..start + page.len());
            answered += 1;
        }
    }
    sent.await.expect("all requests");
    nginx.assert_unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_when_logged_says_what_happened_to_its_link() {
    if is_missing() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let log = folder.path().join("access.log");
    let mut options = options();
    let path = log.to_str().expect("a path").to_owned();
    options.variables = vec![("EDGELINK_ACCESS_LOG", path)];
    let (nginx, _control_plane) = edge(&options).await;
    for path in ["/a", "/a", "/none", "/a.b"] {
        nginx.follow(path).await;
    }
    let lines = until("all requests are logged", LIMIT, async || {
        let text = fs::read_to_string(&log).ok()?;
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let is_ours = |line: &Value| line["path"] != "/health/live";
        let lines: Vec<Value> = lines.filter(is_ours).collect();
        (lines.len() == 4).then_some(lines)
    })
    .await;
    let said = |line: &Value| {
        ["outcome", "tier", "link"].map(|name| line[name].as_str().expect("a text").to_owned())
    };
    let said: Vec<_> = lines.iter().map(said).collect();
    let (key, none) = (format!("{DOMAIN}/a"), format!("{DOMAIN}/none"));
    assert_eq!(said[0], ["redirect", "control-plane", &key]);
    assert_eq!(said[1], ["redirect", "lru", &key]);
    assert_eq!(said[2], ["not_found", "control-plane", &none]);
    assert_eq!(said[3], ["", "", ""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_when_workers_change_go_on() {
    if is_missing() {
        return;
    }
    let options = EnvoyOptions {
        workers: 2,
        ..options()
    };
    let (nginx, _control_plane) = edge(&options).await;
    for _ in 0..10 {
        assert_eq!(nginx.follow("/a").await.status, 302);
    }
    let redirects = |stats: &Stats| stats.sum_matching(".redirect");
    nginx.await_figures(|stats| redirects(stats) == 10).await;
    nginx.reload_to_new_workers().await;
    let stats = nginx.figures().await;
    assert_eq!(redirects(&stats), 10);
    assert_eq!(stats.get("edgelink.workers"), 2);
    assert_eq!(nginx.follow("/a").await.status, 302);
    nginx
        .await_figures(|stats| redirects(stats) == 11 && stats.get("edgelink.lru_entries") == 1)
        .await;
    // One that is killed takes its share of the gauges with it, and nginx starts another.
    let before: BTreeSet<_> = nginx.workers().into_iter().collect();
    for worker in &before {
        let pid = rustix::process::Pid::from_raw(i32::try_from(*worker).expect("a process"));
        let killed = rustix::process::kill_process(pid.expect("a process"), Signal::KILL);
        killed.expect("a worker");
    }
    until("there are other workers", LIMIT, async || {
        let workers = nginx.workers();
        let are_new = workers.len() == 2 && !workers.iter().any(|it| before.contains(it));
        are_new.then_some(())
    })
    .await;
    nginx
        .await_figures(|stats| {
            let levels = ["edgelink.workers", "edgelink.lru_entries"].map(|name| stats.get(name));
            levels == [2, 0] && redirects(stats) == 11
        })
        .await;
}

/// What one worker has fetched is there for the next ones, though no control plane answers any more.
#[tokio::test(flavor = "multi_thread")]
async fn records_when_workers_change_are_in_the_zone() {
    if is_missing() {
        return;
    }
    let options = EnvoyOptions {
        fresh_seconds: 3_600,
        ..options()
    };
    let (nginx, control_plane) = edge(&options).await;
    let long = format!("{TARGET}{}", "a".repeat(600));
    control_plane.script("long", Behaviour::Reply(Reply::Link(link(&long))));
    for path in ["/a", "/long"] {
        assert_eq!(nginx.follow(path).await.tier(), Some("control-plane"));
    }
    nginx.reload_to_new_workers().await;
    drop(control_plane);
    let answers = [nginx.follow("/a").await, nginx.follow("/a").await];
    let said = |answer: &Answer| (answer.status, answer.tier().map(str::to_owned));
    assert_eq!(said(&answers[0]), (302, Some("shared-data".to_owned())));
    assert_eq!(said(&answers[1]), (302, Some("lru".to_owned())));
    assert_eq!(answers[0].location(), Some(TARGET));
    // Too long for a slot.
    assert_eq!(nginx.follow("/long").await.status, 503);
}

/// What was fetched before a worker began counts once it has read the feed from where earlier workers were.
#[tokio::test(flavor = "multi_thread")]
async fn records_when_workers_change_are_covered_by_the_feed() {
    if is_missing() {
        return;
    }
    let options = EnvoyOptions {
        feed: "poll",
        fresh_seconds: 3_600,
        ..options()
    };
    let edgelink = Deployment::start(&options).await;
    let nginx = &edgelink.envoy;
    let [kept, changed] = ["kept", "changed"].map(|code| edgelink.link(code).to(TARGET).create());
    let paths = [kept.await.path(), changed.await.path()];
    nginx
        .await_figures(|stats| stats.get("edgelink.poll.ok") > 1)
        .await;
    for path in &paths {
        assert_eq!(nginx.follow(path).await.tier(), Some("control-plane"));
    }
    for reload in ["first", "second"] {
        nginx.reload_to_new_workers().await;
        let read = nginx.figures().await.get("edgelink.poll.ok");
        nginx
            .await_figures(|stats| stats.get("edgelink.poll.ok") > read + 1)
            .await;
        let answer = nginx.follow(&paths[0]).await;
        assert_eq!(answer.tier(), Some("shared-data"), "{reload}");
        let other = format!("https://{reload}.example/");
        let change = json!({ "longUrl": other });
        let control_plane = &edgelink.control_plane;
        let answer = control_plane.api("PATCH", "/links/changed", &change).await;
        assert_eq!(answer.status, 200);
        let location = nginx.follow(&paths[1]).await;
        assert_eq!(location.location(), Some(&*other));
    }
    assert_eq!(nginx.figures().await.get("edgelink.feed.gap"), 0);
}

/// A worker that ends has its clicks reported first, although a minute stands between two reports.
#[tokio::test(flavor = "multi_thread")]
async fn clicks_when_workers_change_are_all_counted() {
    if is_missing() {
        return;
    }
    let options = EnvoyOptions {
        clicks: "true",
        ..options()
    };
    let edgelink = Deployment::start(&options).await;
    let path = edgelink.link("").to(TARGET).create().await.path();
    let nginx = &edgelink.envoy;
    let mut expected = 0;
    for _ in 0..3 {
        for _ in 0..20 {
            assert_eq!(nginx.follow(&path).await.status, 302);
            expected += 1;
        }
        nginx.reload_to_new_workers().await;
    }
    let stats = nginx.figures().await;
    assert_eq!(stats.get("edgelink.clicks.acknowledged"), expected);
    assert_eq!(stats.get("edgelink.clicks.dropped"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn visits_when_workers_change_are_given_back() {
    if is_missing() {
        return;
    }
    let edgelink = Deployment::start(&options()).await;
    let nginx = &edgelink.envoy;
    let link = edgelink.link("limited").max_visits(100);
    link.create().await;
    for used in [5, 10] {
        for _ in 0..5 {
            assert_eq!(nginx.follow("/limited").await.status, 302);
        }
        nginx.reload_to_new_workers().await;
        let control_plane = &edgelink.control_plane;
        let link = control_plane.api("GET", "/links/limited", &Value::Null);
        let visits = link.await.body["visits"].clone();
        assert_eq!(
            (&visits["used"], &visits["leased"]),
            (&json!(used), &json!(0))
        );
    }
}

/// A request that one file of settings lets pass is decided by that of the location that it is redirected to, and may wait there.
#[tokio::test(flavor = "multi_thread")]
async fn request_when_redirected_to_other_settings_is_answered_by_them() {
    if is_missing() {
        return;
    }
    let control_plane = ScriptedControlPlane::start().await;
    control_plane.script("a", Behaviour::Reply(Reply::Link(link(TARGET))));
    let folder = TempDir::new().expect("a folder");
    let mut settings = settings();
    settings["controlPlane"]["servers"] = json!([format!("http://{}", control_plane.address())]);
    settings["controlPlane"]["token"] = json!(EDGE_TOKEN);
    settings["tierHeader"] = json!(true);
    let file = |name: &str, settings: &Value| {
        let file = folder.path().join(name);
        fs::write(&file, settings.to_string()).expect("a file");
        file.display().to_string()
    };
    let second = file("second.json", &settings);
    settings["prefix"] = json!("/s/");
    let first = file("first.json", &settings);
    let port = free_port();
    let mut options = options();
    options.variables = vec![(
        "EDGELINK_NGINX_HTTP",
        format!(
            "server {{ listen 127.0.0.1:{port};
               location / {{ edgelink {first}; try_files /-/none @second; }}
               location @second {{ edgelink {second}; try_files /-/none =404; }} }}"
        ),
    )];
    let nginx = Envoy::start(&options, &[control_plane.address()]).await;
    let address = (std::net::Ipv4Addr::LOCALHOST, port).into();
    let mut connection = Connection::open(address).await.expect("a connection");
    for (path, tier) in [
        ("/a", "control-plane"),
        ("/s/a", "control-plane"),
        ("/a", "lru"),
    ] {
        let answer = connection.exchange(&Request::get(path), b"").await;
        let answer = answer.expect("an answer");
        assert_eq!((answer.status, answer.tier()), (302, Some(tier)), "{path}");
    }
    nginx.assert_unharmed().await;
}

/// A visitor's connection outlives a request that it has given up.
#[tokio::test(flavor = "multi_thread")]
async fn connection_when_its_request_has_waited_takes_the_next_one() {
    if is_missing() {
        return;
    }
    let (nginx, _control_plane) = edge(&options()).await;
    let mut connection: Connection = nginx.connect().await;
    for (path, status) in [("/a", 302), ("/silent", 503), ("/a", 302), ("/", 404)] {
        let request = Request::get(path);
        let answer = connection.exchange(&request, b"").await;
        assert_eq!(answer.expect("an answer").status, status, "{path}");
    }
}
