//! Bulk loading of links into Redis: the commands that a control plane sends one by one, in pipelined batches.

use crate::edges::first_requests;
use edgelink_simulation::link;
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::until;
use edgelink_wire::redis::{STATE_FIELDS, STATE_KEY, link_key, record_to_fields};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

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
