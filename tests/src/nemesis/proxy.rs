//! A TCP proxy between two parts, which cuts, delays and redirects connections.

use crate::stack::{free_port, local};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Most bytes forwarded at once.
const CHUNK: usize = 16 << 10;
/// Most delayed chunks of a direction at once.
const ON_THE_WAY: usize = 256;

/// Treatment of the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// They are forwarded at once.
    Open,
    /// They wait until the cut ends, as if packets were lost and retransmitted.
    Cut,
    /// They are forwarded after a delay.
    Delayed(Duration),
}

/// A direction, as seen by the connecting side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Bytes sent to the target.
    Requests,
    /// Bytes sent by the target.
    Answers,
}

#[derive(Clone, Copy, Debug)]
struct State {
    target: SocketAddr,
    requests: Flow,
    answers: Flow,
    is_refusing: bool,
    /// Connections of earlier generations are broken.
    generation: u64,
}

impl State {
    fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::Requests => self.requests,
            Direction::Answers => self.answers,
        }
    }
}

/// A proxy on its own port. It ends when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of `target`.
    ///
    /// # Panics
    /// Panics if no port is available.
    pub async fn start(target: SocketAddr) -> Self {
        let address = local(free_port());
        let listener = TcpListener::bind(address).await.expect("a free port");
        let (state, seen) = watch::channel(State {
            target,
            requests: Flow::Open,
            answers: Flow::Open,
            is_refusing: false,
            generation: 0,
        });
        let task = tokio::spawn(accept(listener, seen));
        Self {
            address,
            state,
            task,
        }
    }

    /// Listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts, delays or opens one direction.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.state.send_modify(|state| match direction {
            Direction::Requests => state.requests = flow,
            Direction::Answers => state.answers = flow,
        });
    }

    /// Breaks every connection and refuses new ones, or accepts them again.
    pub fn refuse(&self, is_refusing: bool) {
        self.state.send_modify(|state| {
            state.is_refusing = is_refusing;
            state.generation += 1;
        });
    }

    /// Sends new connections to another target and breaks existing ones.
    pub fn repoint(&self, target: SocketAddr) {
        self.state.send_modify(|state| {
            state.target = target;
            state.generation += 1;
        });
    }

    /// Forwards everything again.
    pub fn heal(&self) {
        self.state.send_modify(|state| {
            state.requests = Flow::Open;
            state.answers = Flow::Open;
            state.is_refusing = false;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: watch::Receiver<State>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        if !state.borrow().is_refusing {
            tokio::spawn(forward(client, state.clone()));
        }
    }
}

async fn forward(mut client: TcpStream, mut state: watch::Receiver<State>) {
    let State {
        target, generation, ..
    } = *state.borrow_and_update();
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true)); // fails if it is closed, which reading shows
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let requests = pump(from_client, to_server, state.clone(), Direction::Requests);
    let answers = pump(from_server, to_client, state.clone(), Direction::Answers);
    let both = async { tokio::try_join!(requests, answers) };
    tokio::select! {
        _ = both => {}
        _ = state.wait_for(|state| state.generation != generation) => {}
    }
}

/// Forwards one direction, including its end.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    state: watch::Receiver<State>,
    direction: Direction,
) -> io::Result<()> {
    let (line, delayed) = mpsc::channel(ON_THE_WAY);
    let reading = async {
        let mut bytes = vec![0; CHUNK];
        loop {
            let count = from.read(&mut bytes).await?;
            let delay = match state.borrow().flow(direction) {
                Flow::Delayed(time) => time,
                Flow::Open | Flow::Cut => Duration::ZERO,
            };
            let chunk = bytes.get(..count).unwrap_or_default().to_vec();
            let sent = line.send((Instant::now() + delay, chunk)).await;
            if count == 0 || sent.is_err() {
                return Ok(());
            }
        }
    };
    let writing = write_delayed(delayed, to, state.clone(), direction);
    tokio::try_join!(reading, writing).map(|_| ())
}

/// Writes each chunk when it is due, independently of the delay of the chunk before.
async fn write_delayed(
    mut delayed: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
    direction: Direction,
) -> io::Result<()> {
    while let Some((at, chunk)) = delayed.recv().await {
        sleep_until(at).await;
        let open = state.wait_for(|state| state.flow(direction) != Flow::Cut);
        open.await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        if chunk.is_empty() {
            return to.shutdown().await;
        }
        to.write_all(&chunk).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn exchange(stream: &mut TcpStream) -> io::Result<u8> {
        stream.write_all(b"x").await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn answer_when_cut_off_waits_until_healed() {
        for direction in [Direction::Requests, Direction::Answers] {
            let proxy = Proxy::start(echo().await).await;
            let mut stream = TcpStream::connect(proxy.address()).await.expect("it");
            assert_eq!(exchange(&mut stream).await.expect("an answer"), b'x');
            proxy.set(direction, Flow::Cut);
            let limit = Duration::from_millis(100);
            let cut = tokio::time::timeout(limit, exchange(&mut stream)).await;
            assert!(cut.is_err(), "{direction:?}");
            proxy.heal();
            assert_eq!(stream.read_u8().await.expect("the answer"), b'x');
        }
    }

    #[tokio::test]
    async fn connection_when_proxy_refuses_or_repoints_is_broken() {
        let proxy = Proxy::start(echo().await).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it");
        assert!(exchange(&mut stream).await.is_ok());
        proxy.repoint(echo().await);
        assert!(exchange(&mut stream).await.is_err());
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it");
        assert!(exchange(&mut stream).await.is_ok());
        proxy.refuse(true);
        assert!(exchange(&mut stream).await.is_err());
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it");
        assert!(exchange(&mut stream).await.is_err());
        proxy.heal();
        let mut stream = TcpStream::connect(proxy.address()).await.expect("it");
        assert!(exchange(&mut stream).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn chunk_when_another_is_delayed_does_not_wait() {
        const CHUNKS: usize = 20;
        let delay = Duration::from_millis(80);
        let (mut client, from) = tokio::io::duplex(CHUNK);
        let (to, mut server) = tokio::io::duplex(CHUNK);
        let (_state, seen) = watch::channel(State {
            target: local(1),
            requests: Flow::Delayed(delay),
            answers: Flow::Open,
            is_refusing: false,
            generation: 0,
        });
        tokio::spawn(pump(from, to, seen, Direction::Requests));
        let start = Instant::now();
        for _ in 0..CHUNKS {
            client.write_all(b"x").await.expect("a chunk");
            tokio::task::yield_now().await; // so that the next byte becomes a separate chunk
        }
        drop(client);
        let mut bytes = Vec::new();
        server.read_to_end(&mut bytes).await.expect("all of it");
        assert_eq!((bytes.len(), start.elapsed()), (CHUNKS, delay));
    }
}
