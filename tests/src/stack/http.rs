//! An HTTP/1.1 client that sends exactly the given bytes.

use crate::scenario::{Answer, DOMAIN, Request};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest time for an answer, connecting and reading included.
const LIMIT: Duration = Duration::from_secs(30);

/// A connection to a server, kept open between requests; over TCP or TLS.
#[derive(Debug)]
pub struct Connection<S = TcpStream> {
    stream: BufReader<S>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// See [`TcpStream::connect`].
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Wraps an open stream.
    pub fn over(stream: S) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// Fails with the connection's errors.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes).await
    }

    /// Reads the answer to a request with that method.
    ///
    /// # Errors
    /// Fails with the connection's errors, [`ErrorKind::TimedOut`] after 30 s, and [`ErrorKind::InvalidData`] if the
    /// answer is not HTTP.
    pub async fn receive(&mut self, method: &str) -> io::Result<Answer> {
        timeout(LIMIT, self.read_answer(method)).await?
    }

    /// Sends a request and reads the answer, which may arrive before the whole body is sent.
    ///
    /// # Errors
    /// See [`Self::receive`].
    pub async fn exchange(&mut self, request: &Request, body: &[u8]) -> io::Result<Answer> {
        let sent = self.send(&request_bytes(request, body)).await;
        match (sent, self.receive(&request.method).await) {
            (_, Ok(answer)) => Ok(answer),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Reads everything until the other side closes the connection.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::TimedOut`] after 30 s.
    pub async fn receive_rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // A reset connection has delivered everything it will.
        let _ = timeout(LIMIT, self.stream.read_to_end(&mut bytes)).await?;
        Ok(bytes)
    }

    async fn read_answer(&mut self, method: &str) -> io::Result<Answer> {
        let status_line = self.read_line().await?;
        let status = status_of(&status_line).ok_or_else(malformed)?;
        // Once an answer has begun, the connection was not closed while idle.
        let answer = self.read_further(method, status).await;
        answer.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    async fn read_further(&mut self, method: &str, status: u16) -> io::Result<Answer> {
        let mut answer = Answer {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = self.read_line().await?;
            if line.is_empty() {
                break;
            }
            answer.headers.push(header_of(&line).ok_or_else(malformed)?);
        }
        if method != "HEAD" && status != 204 && status != 304 {
            answer.body = self.read_body(&answer).await?;
        }
        Ok(answer)
    }

    async fn read_body(&mut self, answer: &Answer) -> io::Result<Vec<u8>> {
        if answer.header("transfer-encoding") == Some("chunked") {
            return self.read_chunks().await;
        }
        let mut body = Vec::new();
        match answer.header("content-length") {
            Some(length) => {
                body.resize(length.parse().map_err(|_| malformed())?, 0);
                self.stream.read_exact(&mut body).await?;
            }
            None => {
                self.stream.read_to_end(&mut body).await?;
            }
        }
        Ok(body)
    }

    async fn read_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line().await?;
            let digits = std::str::from_utf8(&line).map_err(|_| malformed())?;
            let length = usize::from_str_radix(digits, 16).map_err(|_| malformed())?;
            let start = body.len();
            body.resize(start + length, 0);
            self.stream.read_exact(&mut body[start..]).await?;
            self.read_line().await?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    /// Reads a line without its end.
    async fn read_line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        match line.strip_suffix(b"\r\n") {
            Some(text) => Ok(text.to_vec()),
            None if line.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            None => Err(malformed()),
        }
    }
}

fn malformed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the answer is not HTTP")
}

fn status_of(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.1 ")?;
    std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok()
}

fn header_of(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let name = std::str::from_utf8(&line[..colon]).ok()?;
    let value = line[colon + 1..].trim_ascii().to_vec();
    Some((name.to_ascii_lowercase(), value))
}

/// Serializes a request. Its host is [`DOMAIN`] unless it has a `host` header.
#[must_use]
pub fn request_bytes(request: &Request, body: &[u8]) -> Vec<u8> {
    let mut bytes = [
        request.method.as_bytes(),
        b" ",
        &request.path,
        b" HTTP/1.1\r\n",
    ]
    .concat();
    let mut add = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    };
    if !request.headers.iter().any(|(name, _)| name == "host") {
        add("host", DOMAIN.as_bytes());
    }
    for (name, value) in &request.headers {
        add(name, value);
    }
    if !body.is_empty() {
        add("content-length", body.len().to_string().as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}
