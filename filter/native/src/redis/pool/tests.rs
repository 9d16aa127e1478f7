//! A cluster of two nodes, one of which falls silent.

use super::*;
use edgelink_filter_core::settings::Settings;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const TIMEOUT: Duration = Duration::from_millis(1_000);
const LIMIT: Duration = Duration::from_secs(20);

/// Half of the slots of a cluster.
struct FakeNode {
    listener: TcpListener,
    name: &'static str,
    is_silent: Arc<AtomicBool>,
}

impl FakeNode {
    async fn new(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            listener,
            name,
            is_silent: Arc::default(),
        }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    fn serve(self, slots: Arc<str>, limits: edgelink_filter_core::resp::scan::Limits) {
        tokio::spawn(async move {
            loop {
                let (stream, _) = self.listener.accept().await.unwrap();
                let (name, is_silent) = (self.name, Arc::clone(&self.is_silent));
                let slots = Arc::clone(&slots);
                tokio::spawn(answer(stream, Decoder::new(limits), slots, name, is_silent));
            }
        });
    }
}

async fn answer(
    mut stream: TcpStream,
    mut decoder: Decoder,
    slots: Arc<str>,
    name: &'static str,
    is_silent: Arc<AtomicBool>,
) {
    let mut bytes = [0; 4_096];
    while let Ok(length @ 1..) = stream.read(&mut bytes).await {
        let mut rest = &bytes[..length];
        let mut out = Vec::new();
        while let Some(command) = decoder.next(&mut rest).unwrap() {
            let command = words(command);
            let mut words = command.iter().map(Vec::as_slice);
            match (words.next(), words.next()) {
                (Some(b"CLUSTER"), Some(b"SLOTS")) => out.extend_from_slice(slots.as_bytes()),
                (Some(b"CLUSTER"), _) => out.extend_from_slice(b"+cluster_state:ok\r\n"),
                (Some(b"HMGET"), _) => {
                    encode::command(1, &mut out);
                    encode::argument(name.as_bytes(), &mut out);
                }
                _ => out.extend_from_slice(b"+OK\r\n"),
            }
        }
        while is_silent.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if stream.write_all(&out).await.is_err() {
            return;
        }
    }
}

/// The answers to lookups, in order: the name of a node, or that there was an error.
struct Lookups {
    unsent: UnboundedSender<Vec<u8>>,
    told: UnboundedReceiver<Vec<u8>>,
    decoder: Decoder,
    unread: Vec<u8>,
}

impl Lookups {
    fn send(&self, key: &str) {
        let mut command = Vec::new();
        encode::command(3, &mut command);
        for word in ["HMGET", key, "field"] {
            encode::argument(word.as_bytes(), &mut command);
        }
        self.unsent.send(command).unwrap();
    }

    async fn receive(&mut self) -> Option<String> {
        loop {
            let mut rest = self.unread.as_slice();
            let answer = self
                .decoder
                .next(&mut rest)
                .unwrap()
                .map(|reply| match reply {
                    Reply::Array(_) => words(reply)
                        .pop()
                        .map(|name| String::from_utf8(name).unwrap()),
                    Reply::Error(_) => None,
                    other => panic!("{other:?}"),
                });
            self.unread = rest.to_vec();
            if let Some(answer) = answer {
                return answer;
            }
            let told = tokio::time::timeout(LIMIT, self.told.recv()).await;
            self.unread
                .extend(told.expect("an answer").expect("an answer"));
        }
    }

    async fn ask(&mut self, key: &str) -> Option<String> {
        self.send(key);
        self.receive().await
    }
}

fn settings(ports: [u16; 2]) -> RedisSettings {
    let json = format!(
        r#"{{"domains":["go.example"],"controlPlane":{{"cluster":"c"}},"poll":{{}},
            "redis":{{"mode":"pooled","servers":["127.0.0.1:{}","127.0.0.1:{}"],"timeoutMs":{},"deadAfterMs":60000}}}}"#,
        ports[0],
        ports[1],
        TIMEOUT.as_millis(),
    );
    let settings = Settings::parse(json.as_bytes()).unwrap();
    settings.for_process(1).unwrap().redis.unwrap()
}

/// A key in one of the halves.
fn key_of(is_second: bool) -> String {
    let mut keys = (0..).map(|n| format!("key-{n}"));
    let is_there = |key: &String| (fred::util::redis_keyslot(key.as_bytes()) > 8_191) == is_second;
    keys.find(is_there).unwrap()
}

#[test]
fn node_when_silent_delays_answers_of_others_once() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let nodes = [FakeNode::new("first").await, FakeNode::new("second").await];
        let settings = settings(nodes.each_ref().map(FakeNode::port));
        let range = |from: u16, to: u16, node: &FakeNode| {
            let (port, name) = (node.port(), node.name);
            format!(
                "*3\r\n:{from}\r\n:{to}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n${}\r\n{name}\r\n",
                name.len()
            )
        };
        let (low, high) = (range(0, 8_191, &nodes[0]), range(8_192, 16_383, &nodes[1]));
        let slots: Arc<str> = format!("*2\r\n{low}{high}").into();
        let is_silent = Arc::clone(&nodes[1].is_silent);
        for node in nodes {
            node.serve(Arc::clone(&slots), settings.lookups.limits);
        }
        let (unsent, taken) = unbounded_channel();
        let (tells, told) = unbounded_channel();
        let decoder = Decoder::new(settings.lookups.limits);
        tokio::spawn(async move {
            let ended = carry(&settings, taken, |bytes| tells.send(bytes.to_vec()).is_ok());
            panic!("{:?}", ended.await);
        });
        let mut lookups = Lookups {
            unsent,
            told,
            decoder,
            unread: Vec::new(),
        };
        let [first, second] = [false, true].map(key_of);
        assert_eq!(lookups.ask(&first).await.as_deref(), Some("first"));
        assert_eq!(lookups.ask(&second).await.as_deref(), Some("second"));

        is_silent.store(true, Ordering::Relaxed);
        let start = Instant::now();
        // Spaced out: if each waited for its own timeout, the last would be delayed by as much.
        for key in [&second, &first, &second, &second, &first] {
            lookups.send(key);
            tokio::time::sleep(TIMEOUT / 10).await;
        }
        for expected in [None, Some("first"), None, None, Some("first")] {
            assert_eq!(lookups.receive().await.as_deref(), expected);
        }
        let took = start.elapsed();
        assert!(took < TIMEOUT / 2 + TIMEOUT / 5, "{took:?}");
        let start = Instant::now();
        for _ in 0..20 {
            assert_eq!(lookups.ask(&second).await, None);
            assert_eq!(lookups.ask(&first).await.as_deref(), Some("first"));
        }
        // If each waited for its own timeout, that would be 20 halves.
        let took = start.elapsed();
        assert!(took < TIMEOUT * 5, "{took:?}");

        is_silent.store(false, Ordering::Relaxed);
        let start = Instant::now();
        while lookups.ask(&second).await.as_deref() != Some("second") {
            assert!(start.elapsed() < LIMIT);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
