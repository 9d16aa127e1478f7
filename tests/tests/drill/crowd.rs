//! Visitors of nginx beside a crowd of clients that are idle, slow, or take their requests back.

use crate::seconds;
use crate::visitors::{Journey, Pace, Seen, Visitors};
use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::stack::{
    Connection, ControlPlane, Deployment, Envoy, EnvoyOptions, Http2Connection, Nginx, until,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::interval_at;

const IDLE: u32 = 10_000;
const SLOW: u32 = 1_000;
const RESETTING: u32 = 4;
/// Requests that each of them takes back a second. More would need the processors that nginx has.
const RESETS_EACH: u32 = 5_000;
/// When nginx gives up a request whose head has not come (`client_header_timeout`).
const CUT_OFF: Duration = Duration::from_secs(10);
const TARGET: &str = "https://example.com/";
const PACE: Pace = Pace {
    connections: 20,
    rate: Some(400),
};

/// One link that is followed again and again.
struct One(String);

impl Journey for One {
    fn path(&self, _n: u64) -> String {
        self.0.clone()
    }

    fn is_right(&self, _path: &str, answer: &Answer, _sent: Instant) -> bool {
        answer.location() == Some(TARGET)
    }
}

/// `make front-crowd`: what others notice of each crowd.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make front-crowd"]
async fn crowd() {
    let options = EnvoyOptions {
        workers: 2,
        trusted_hops: 1,
        ..EnvoyOptions::default()
    };
    let control_plane = ControlPlane::start().await;
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    let edgelink = Deployment {
        envoy,
        control_plane,
    };
    let journey = Arc::new(One(edgelink.link("").to(TARGET).create().await.path()));
    let planes = [edgelink.control_plane.address()];
    let as_ever = [
        ("EDGELINK_FRONT_WORKERS", "2"),
        ("EDGELINK_FRONT_RATE_PER_SECOND", "500"),
        ("EDGELINK_FRONT_RATE_BURST", "2000"),
    ];
    let nginx = Arc::new(Nginx::start(&[edgelink.envoy.edge()], &planes, &as_ever).await);

    println!();
    follow(&nginx, &journey, "quiet").await;
    let idle = open_idle(&nginx).await;
    follow(
        &nginx,
        &journey,
        &format!("{} idle connections", idle.len()),
    )
    .await;
    drop(idle);
    let harmful = machine_of_their_own();
    let sent = Arc::new(AtomicU64::new(0));
    let slow = send_slowly(&harmful, &nginx, &sent);
    await_count(&sent, 2 * u64::from(SLOW)).await;
    let what = format!("{SLOW} clients that send a byte a second");
    let load = Load::begin(&sent);
    follow(&nginx, &journey, &what).await;
    load.end("bytes were sent slowly", SLOW.into());
    drop(slow);
    let resets = Arc::new(AtomicU64::new(0));
    let resetting = send_and_reset(&harmful, &nginx, &resets);
    await_count(&resets, 40_000).await;
    let what = format!("{RESETTING} clients that take back all requests of HTTP/2");
    let before = connections(&edgelink.envoy).await;
    let load = Load::begin(&resets);
    follow(&nginx, &journey, &what).await;
    let resets = load.end("requests were taken back", (RESETS_EACH * RESETTING).into());
    let made = connections(&edgelink.envoy).await - before;
    drop(resetting);
    println!("meanwhile nginx connected to Envoy {made} times");
    assert!(made < resets / 100, "they cost Envoy something");
    harmful.shutdown_background();
    edgelink.envoy.assert_unharmed().await;
}

/// Runs clients that do harm only while servers and visitors leave a processor idle: they would have another machine, and this one
/// has few processors.
fn machine_of_their_own() -> Runtime {
    let yields = || {
        let thread = rustix::thread::gettid().to_string();
        let mut command = std::process::Command::new("chrt");
        let done = command.args(["--idle", "--pid", "0", &thread]).status();
        assert!(done.expect("chrt").success(), "chrt of {thread}");
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.on_thread_start(yields).enable_all().build();
    runtime.expect("threads")
}

/// What a crowd does while visitors follow their link.
struct Load<'a> {
    done: &'a AtomicU64,
    before: u64,
    begin: Instant,
}

impl<'a> Load<'a> {
    fn begin(done: &'a AtomicU64) -> Self {
        Self {
            done,
            before: done.load(Ordering::Relaxed),
            begin: Instant::now(),
        }
    }

    /// How much it has done, which has to be four fifths at least of what it is to do a second.
    fn end(self, what: &str, each_second: u64) -> u64 {
        let done = self.done.load(Ordering::Relaxed) - self.before;
        let seconds = self.begin.elapsed().as_secs_f64();
        println!(
            "{:.0} {what} a second, of {each_second}",
            done as f64 / seconds
        );
        let wanted = each_second as f64 * seconds * 0.8;
        assert!(done as f64 >= wanted, "the crowd had no processor");
        done
    }
}

/// How many connections nginx has made to Envoy.
async fn connections(envoy: &Envoy) -> u64 {
    let stats = envoy.stats("^http.edge.downstream_cx_total$").await;
    stats.get("http.edge.downstream_cx_total")
}

/// What visitors see for a while, all of whom are answered.
async fn follow(nginx: &Arc<Nginx>, journey: &Arc<One>, what: &str) {
    let time = seconds("EDGELINK_TEST_DRILL_SECONDS", 15);
    let visitors = Visitors::start(&[Arc::clone(nginx)], PACE, journey);
    let rate = PACE.rate.unwrap_or_default();
    visitors.await_sent(time.as_secs() * u64::from(rate)).await;
    let mut seen: Seen = visitors.finish().await;
    seen.print(what);
    assert_eq!(seen.wrong + seen.unanswered, 0, "{what}");
}

/// Returns when a crowd has done so much, so that all of it is there.
async fn await_count(done: &AtomicU64, wanted: u64) {
    until("a crowd", Duration::from_secs(60), async || {
        (done.load(Ordering::Relaxed) >= wanted).then_some(())
    })
    .await;
}

/// An address of this machine, so that no limit by address is reached.
fn address(client: u32) -> [u8; 4] {
    let [.., a, b] = client.to_be_bytes();
    [127, 1, a, b.max(1)]
}

/// Connections that have had their answer.
async fn open_idle(nginx: &Arc<Nginx>) -> Vec<impl Sized + use<>> {
    let mut opening = JoinSet::new();
    for part in 0..8 {
        let nginx = Arc::clone(nginx);
        opening.spawn(async move {
            let mut open = Vec::new();
            for client in (part..IDLE).step_by(8) {
                let stream = nginx.connect_from(address(client), "http/1.1").await;
                let mut connection = Connection::over(stream.expect("TLS"));
                let answer = connection
                    .exchange(&Request::get("/health/live"), b"")
                    .await;
                assert_eq!(answer.expect("an answer").status, 200);
                open.push(connection);
            }
            open
        });
    }
    opening.join_all().await.into_iter().flatten().collect()
}

/// Clients whose request never ends; nginx cuts them off, and they come again. They begin one after another, so that they do not all
/// come again at once.
fn send_slowly(from: &Runtime, nginx: &Arc<Nginx>, sent: &Arc<AtomicU64>) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for client in 0..SLOW {
        let (nginx, sent) = (Arc::clone(nginx), Arc::clone(sent));
        let first = Instant::now() + CUT_OFF * client / SLOW;
        let client = async move {
            let mut ticks = interval_at(first.into(), Duration::from_secs(1));
            loop {
                ticks.tick().await;
                let stream = nginx.connect_from(address(client), "http/1.1").await;
                let mut connection = Connection::over(stream.expect("TLS"));
                while connection.send(b"G").await.is_ok() {
                    sent.fetch_add(1, Ordering::Relaxed);
                    ticks.tick().await;
                }
            }
        };
        clients.spawn_on(client, from.handle());
    }
    clients
}

/// Clients that send requests over HTTP/2 and take them back, [`RESETS_EACH`] a second. They take turns, as machines that know nothing
/// of each other would on average.
fn send_and_reset(from: &Runtime, nginx: &Arc<Nginx>, resets: &Arc<AtomicU64>) -> JoinSet<()> {
    /// A hundredth of a second.
    const TURN: Duration = Duration::from_millis(10);
    const AT_ONCE: u32 = RESETS_EACH / 100;
    /// nginx takes no more of one connection.
    const OF_CONNECTION: u32 = 1_000;
    let fields: [(&str, &[u8]); 4] = [
        (":method", b"GET"),
        (":scheme", b"https"),
        (":path", b"/no-such-link"),
        (":authority", b"go.example"),
    ];
    let (mut clients, start) = (JoinSet::new(), Instant::now());
    for client in 0..RESETTING {
        let (nginx, resets) = (Arc::clone(nginx), Arc::clone(resets));
        let first = start + TURN * client / RESETTING;
        let client = async move {
            let mut ticks = interval_at(first.into(), TURN);
            loop {
                let Ok(stream) = nginx.connect_from(address(client), "h2").await else {
                    continue;
                };
                let mut connection = Http2Connection::over(stream);
                for _ in 0..OF_CONNECTION / AT_ONCE {
                    ticks.tick().await;
                    if connection.send_and_reset(&fields, AT_ONCE).await.is_err() {
                        break;
                    }
                    resets.fetch_add(u64::from(AT_ONCE), Ordering::Relaxed);
                }
            }
        };
        clients.spawn_on(client, from.handle());
    }
    clients
}
