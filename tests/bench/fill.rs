//! Bulk loading of links into Redis: the commands that a control plane sends one by one, in pipelined batches.

use crate::edges::{Feed, Tiers, first_requests};
use crate::links::{Targets, code, write_paths};
use crate::process::{others, pin};
use crate::targets::publishing_to;
use edgelink_simulation::link;
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{ControlPlane, until};
use edgelink_wire::redis::{STATE_FIELDS, STATE_KEY, link_key, record_to_fields};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Links with real targets, all of them in Redis alone. The servers run beside the one that is measured.
pub(crate) struct FilledRedis {
    pub(crate) targets: Targets,
    /// The file with the paths of the links.
    pub(crate) paths: PathBuf,
    redis: RedisServer,
    control_plane: ControlPlane,
    _folder: TempDir,
}

impl FilledRedis {
    /// Starts Redis with that many links, and a control plane that publishes to it.
    pub(crate) async fn start(links: usize) -> Self {
        let targets = Targets::load();
        let redis = RedisServer::start().await;
        let mut control_plane = publishing_to(&redis).await;
        let mut pipe = Pipe::open(&redis).await;
        for place in 0..links {
            pipe.link(&code(place), targets.of(place));
        }
        pipe.flush();
        let helpers = [redis.process_id(), control_plane.process().id()];
        pin(&helpers, &others());
        let folder = TempDir::new().expect("a temporary folder");
        Self {
            paths: write_paths(folder.path(), "links", (0..links).map(code)),
            targets,
            redis,
            control_plane,
            _folder: folder,
        }
    }

    /// Address of the control plane.
    pub(crate) fn control_plane(&self) -> SocketAddr {
        self.control_plane.address()
    }

    /// The usual tiers, with Redis, which is trusted.
    pub(crate) fn tiers(&self) -> Tiers {
        Tiers {
            feed: Feed::Changes,
            redis: Some(("direct", self.redis.port())),
            ..Tiers::USUAL
        }
    }
}

/// Commands sent before their replies are read.
const BATCH: usize = 1_000;

/// A connection to Redis for commands with one-line replies, none of them an error.
pub(crate) struct Pipe {
    stream: BufReader<TcpStream>,
    commands: Vec<u8>,
    count: usize,
    /// The generation that the publisher writes in.
    generation: u64,
}

const LIMIT: Duration = Duration::from_secs(30);

impl Pipe {
    /// Connects to a Redis that a control plane publishes to, and stores the links of the first requests in it.
    pub(crate) async fn open(redis: &RedisServer) -> Self {
        let [field, _] = STATE_FIELDS;
        let generation = until("the publisher has begun a generation", LIMIT, async || {
            redis.ask(&["HGET", STATE_KEY, field]).trim().parse().ok()
        });
        let generation = generation.await;
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port()));
        let mut pipe = Self {
            stream: BufReader::new(stream.expect("a connection")),
            commands: Vec::new(),
            count: 0,
            generation,
        };
        for code in first_requests() {
            pipe.link(&code, "https://example.com/");
        }
        pipe
    }

    /// Stores a link as the control plane writes it.
    pub(crate) fn link(&mut self, code: &str, url: &str) {
        let key = link_key(self.generation, &format!("{DOMAIN}/{code}"));
        let fields = record_to_fields(&link(url));
        let mut command = vec!["HSET", &key];
        for (name, value) in &fields {
            command.extend([
                *name,
                str::from_utf8(value).expect("fields of a plain link"),
            ]);
        }
        self.send(&command);
    }

    /// Stores a link as a plain value, for other servers.
    pub(crate) fn plain(&mut self, code: &str, url: &str) {
        self.send(&["SET", &format!("plain:/{code}"), url]);
    }

    fn send(&mut self, command: &[&str]) {
        write!(self.commands, "*{}\r\n", command.len()).expect("memory");
        for word in command {
            write!(self.commands, "${}\r\n{word}\r\n", word.len()).expect("memory");
        }
        self.count += 1;
        if self.count == BATCH {
            self.flush();
        }
    }

    /// Sends buffered commands.
    pub(crate) fn flush(&mut self) {
        let stream = self.stream.get_mut();
        stream.write_all(&self.commands).expect("Redis");
        self.commands.clear();
        for _ in 0..std::mem::take(&mut self.count) {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("Redis");
            assert!(line.starts_with([':', '+']), "{line}");
        }
    }
}
