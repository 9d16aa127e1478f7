//! Links into Redis, as fast as it takes them: the commands that a control plane sends one by one, many at once.

use edgelink_load::link;
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::servers::RedisServer;
use edgelink_wire::redis::{link_key, record_to_fields};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};

/// The generation of a feed that nobody publishes.
const GENERATION: u64 = 1;

/// Commands that are sent before their answers are read.
const BATCH: usize = 1_000;

/// A connection to Redis for commands whose answers are one line, none of them an error.
pub(crate) struct Pipe {
    stream: BufReader<TcpStream>,
    commands: Vec<u8>,
    count: usize,
}

impl Pipe {
    pub(crate) fn open(redis: &RedisServer) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port()));
        Self {
            stream: BufReader::new(stream.expect("a connection")),
            commands: Vec::new(),
            count: 0,
        }
    }

    /// A link as the control plane writes it.
    pub(crate) fn link(&mut self, code: &str, url: &str) {
        let key = link_key(GENERATION, &format!("{DOMAIN}/{code}"));
        let fields = record_to_fields(&link(url));
        let mut command = vec!["HSET", &key];
        for (name, value) in &fields {
            command.extend([*name, value.as_str()]);
        }
        self.send(&command);
    }

    /// A link as a plain value, for others.
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

    /// Sends what is left.
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
