//! The peer of the probe's callouts when Envoy makes them: an HTTP/1 server whose behaviour depends on the path.

use crate::stack::{free_port, local};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Responses by path.
pub(super) const OK: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-peer: 1\r\nx-peer: 2\r\n\r\nhello";
const EMPTY: &[u8] = b"HTTP/1.1 204 No Content\r\nx-peer: 1\r\n\r\n";
const CUT: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\nx-peer: 1\r\n\r\nhello";
const GRPC: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-type: application/probe\r\nx-peer: 1\r\n\r\nhello";

/// A running server.
#[derive(Debug)]
pub(super) struct Peer {
    address: SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Peer {
    pub(super) async fn start() -> Self {
        let address = local(free_port());
        let listener = TcpListener::bind(address).await.expect("a free port");
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        Self { address, server }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers requests until one closes the connection.
async fn serve(stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(path) = read_path(&mut stream).await? {
        let (bytes, is_last): (&[u8], bool) = match path.as_str() {
            "/ok" => (OK, false),
            "/empty" => (EMPTY, false),
            "/grpc" => (GRPC, false),
            "/hang" => (b"", false),
            "/cut" => (CUT, true),
            _ => (b"", true),
        };
        stream.get_mut().write_all(bytes).await?;
        if is_last {
            break;
        }
    }
    Ok(())
}

async fn read_path(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut path = None;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            return Ok(path);
        }
        path = path.or_else(|| line.split(' ').nth(1).map(str::to_owned));
    }
}
