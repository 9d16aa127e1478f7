//! Lets a client run over a real socket: does what it says, and gives it bytes and time.

use edgelink_filter_core::resp::{Client, Failure, Output, Reply, encode};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// After so long without what a test waits for, it has failed.
const PATIENCE: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(10);

/// The socket that outputs go to.
pub(crate) struct Socket {
    path: PathBuf,
    stream: Option<UnixStream>,
    /// Whether the client has still to see the end of the stream.
    is_closed: bool,
    pub(crate) opened: usize,
    started: Instant,
}

impl Socket {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            stream: None,
            is_closed: false,
            opened: 0,
            started: Instant::now(),
        }
    }

    pub(crate) fn now_millis(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap()
    }

    fn open(&mut self) {
        self.opened += 1;
        self.stream = UnixStream::connect(&self.path).ok();
        if let Some(stream) = &self.stream {
            stream.set_read_timeout(Some(TICK)).unwrap();
        }
        self.is_closed = self.stream.is_none();
    }

    fn send(&mut self, bytes: &[u8]) {
        let sent = self.stream.as_mut().map(|stream| stream.write_all(bytes));
        self.is_closed |= matches!(sent, Some(Err(_)));
    }

    fn close(&mut self) {
        self.stream = None;
        self.is_closed = false;
    }

    /// What arrives within a tick.
    fn read(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 16];
        let Some(stream) = &mut self.stream else {
            std::thread::park_timeout(TICK);
            return Vec::new();
        };
        match stream.read(&mut buffer) {
            Ok(0) => self.is_closed = true,
            Ok(read) => {
                buffer.truncate(read);
                return buffer;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.is_closed = true,
        }
        Vec::new()
    }

    fn take_closed(&mut self) -> bool {
        let is_closed = std::mem::take(&mut self.is_closed);
        if is_closed {
            self.stream = None;
        }
        is_closed
    }
}

/// A client and its socket; what it says beyond the socket is kept as text.
pub(crate) struct ClientDriver {
    pub(crate) client: Client<u32>,
    pub(crate) socket: Socket,
    pub(crate) said: Vec<String>,
}

impl ClientDriver {
    pub(crate) fn request(&mut self, token: u32, words: &[&[u8]]) -> bool {
        self.request_written(token, |out| encode::words(words, out))
    }

    pub(crate) fn request_written(&mut self, token: u32, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let (socket, said) = (&mut self.socket, &mut self.said);
        let now_millis = socket.now_millis();
        let emit = &mut |output: Output<'_, u32>| on_output(&output, socket, said);
        self.client.request(now_millis, token, write, emit).is_ok()
    }

    /// Runs until `is_enough` of what was said, and returns it.
    pub(crate) fn run_until(
        &mut self,
        is_enough: impl Fn(&Client<u32>, &[String]) -> bool,
    ) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        while !is_enough(&self.client, &self.said) {
            assert!(Instant::now() < deadline, "waited in vain: {:?}", self.said);
            self.turn();
        }
        std::mem::take(&mut self.said)
    }

    pub(crate) fn run_until_ready(&mut self) {
        self.run_until(|client, _| client.is_ready());
    }

    /// Lets one tick pass.
    pub(crate) fn turn(&mut self) {
        let (socket, said) = (&mut self.socket, &mut self.said);
        let bytes = socket.read();
        let now_millis = socket.now_millis();
        self.client.on_data(now_millis, &bytes, &mut |output| {
            on_output(&output, socket, said);
        });
        if socket.take_closed() {
            self.client
                .on_closed(now_millis, &mut |output| on_output(&output, socket, said));
        }
        self.client
            .on_tick(now_millis, &mut |output| on_output(&output, socket, said));
    }
}

fn on_output(output: &Output<'_, u32>, socket: &mut Socket, said: &mut Vec<String>) {
    match output {
        Output::OpenStream => socket.open(),
        Output::Send(bytes) => socket.send(bytes),
        Output::CloseStream => socket.close(),
        Output::Deliver(token, Ok(reply)) => said.push(format!("{token}: {}", shown(*reply))),
        Output::Deliver(token, Err(Failure::Refused(message))) => {
            said.push(format!("{token}: refused {}", message.escape_ascii()));
        }
        Output::Deliver(token, Err(failure)) => said.push(format!("{token}: {failure:?}")),
        Output::Event(event) => said.push(format!("{event:?}")),
    }
}

fn shown(reply: Reply<'_>) -> String {
    match reply {
        Reply::Bulk(bytes) | Reply::Simple(bytes) => bytes.escape_ascii().to_string(),
        Reply::Array(array) => format!("{:?}", array.map(shown).collect::<Vec<_>>()),
        other => format!("{other:?}"),
    }
}
