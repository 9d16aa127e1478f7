//! One connection of a visitor: a request out, its answer in.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// A connection that is kept, with at most one request on it.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// When the request on it was due; nothing where none is on it.
    pub(crate) due: Option<Instant>,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            due: None,
            received: Vec::new(),
        })
    }

    /// Sends a request that was to be sent at `due`. It is far smaller than a socket's buffer, which is empty here.
    pub(crate) fn send(&mut self, request: &[u8], due: Instant) -> io::Result<()> {
        self.due = Some(due);
        self.stream.write_all(request)
    }

    /// Takes in what has come. The status, once the answer is complete.
    pub(crate) fn receive(&mut self) -> io::Result<Option<u16>> {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.received.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        let Some((status, length)) = parse(&self.received)? else {
            return Ok(None);
        };
        self.received.drain(..length);
        Ok(Some(status))
    }
}

/// Status and length of the answer at the beginning, if it is complete. All servers of the benchmarks send a
/// content-length, or nothing behind the headers.
fn parse(received: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return Ok(None);
    };
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let head = std::str::from_utf8(&received[..end]).map_err(|_| invalid())?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|status| status.parse().ok());
    let body = lines
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Ok(0), |(_, value)| value.parse::<usize>());
    let length = end + 4 + body.map_err(|_| invalid())?;
    let status = status.ok_or_else(invalid)?;
    Ok((received.len() >= length).then_some((status, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_body() {
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n";
        for end in 0..answer.len() {
            assert!(parse(&answer[..end]).unwrap().is_none(), "{end}");
        }
        assert_eq!(parse(answer).unwrap(), Some((404, answer.len())));
        let bare = b"HTTP/1.1 302 Found\r\nlocation: x\r\n\r\n";
        assert_eq!(parse(bare).unwrap(), Some((302, bare.len())));
        assert!(parse(b"nonsense\r\n\r\n").is_err());
    }
}
