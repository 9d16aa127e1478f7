//! A cluster of two nodes, one of which falls silent.

use super::*;
use edgelink_filter_core::resp::decode::Decoder;
use edgelink_filter_core::resp::{Reply, encode};
use edgelink_filter_core::settings::Settings;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// The words of a command.
fn words(command: Reply<'_>) -> Vec<Vec<u8>> {
    let Reply::Array(words) = command else {
        panic!("{command:?}");
    };
    words
        .filter_map(|word| match word {
            Reply::Bulk(word) => Some(word.to_vec()),
            _ => None,
        })
        .collect()
}

/// Lookups of numbered keys, and their answers: the name of a node, or an error message.
struct Lookups {
    unsent: UnboundedSender<HashLookup>,
    answered: UnboundedReceiver<HashAnswer>,
    last: u32,
}

impl Lookups {
    fn send(&mut self, key: &str) -> u32 {
        self.last += 1;
        let lookup = HashLookup {
            number: self.last,
            key: key.as_bytes().to_vec(),
            fields: &["field"],
        };
        self.unsent.send(lookup).unwrap();
        self.last
    }

    async fn receive(&mut self) -> (u32, Result<String, String>) {
        let answer = tokio::time::timeout(LIMIT, self.answered.recv()).await;
        let (number, answer) = answer.expect("an answer").expect("an answer");
        let name = |values: HashValues| {
            let name = values.into_iter().next().flatten();
            String::from_utf8(name.unwrap()).unwrap()
        };
        (number, answer.map(name))
    }

    async fn ask(&mut self, key: &str) -> Result<String, String> {
        let sent = self.send(key);
        let (number, answer) = self.receive().await;
        assert_eq!(number, sent);
        answer
    }
}

fn settings(ports: [u16; 2]) -> RedisSettings {
    let json = format!(
        r#"{{"domains":["go.example"],"controlPlane":{{"servers":["http://c.test:80"]}},"poll":{{}},
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
fn node_when_silent_delays_no_other_and_fails_at_once() {
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
        let (answers, answered) = unbounded_channel();
        tokio::spawn(async move {
            let connected = connect(&settings).await.unwrap();
            let send = |answer: &HashAnswer| answers.send(answer.clone()).is_ok();
            let ended = carry(connected, taken, LIMIT, |answers| answers.iter().all(send));
            panic!("{:?}", ended.await);
        });
        let mut lookups = Lookups {
            unsent,
            answered,
            last: 0,
        };
        let [first, second] = [false, true].map(key_of);
        let (of_first, of_second) = (Ok("first".to_owned()), Ok("second".to_owned()));
        assert_eq!(lookups.ask(&first).await, of_first);
        assert_eq!(lookups.ask(&second).await, of_second);

        is_silent.store(true, Ordering::Relaxed);
        // More than end a connection without any success.
        let unanswered = [(); 100].map(|()| lookups.send(&second));
        assert_eq!(lookups.ask(&first).await, of_first, "before them");
        for _ in unanswered {
            let (number, answer) = lookups.receive().await;
            assert!(unanswered.contains(&number) && answer.is_err());
        }
        let silent = Err("a node is silent".to_owned());
        for _ in 0..20 {
            assert_eq!(lookups.ask(&second).await, silent);
            assert_eq!(lookups.ask(&first).await, of_first);
        }

        is_silent.store(false, Ordering::Relaxed);
        let start = Instant::now();
        while lookups.ask(&second).await != of_second {
            assert!(start.elapsed() < LIMIT);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
