//! A minimal HTTP/2 client (RFC 9113, with prior knowledge) that can send arbitrary bytes in header fields.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(10);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const INITIAL_WINDOW_SIZE: u8 = 4;
const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const END_STREAM_AND_HEADERS: u8 = 0x5;

/// Reaction of a server to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Http2Answer {
    /// It answers with that status code.
    Status(u16),
    /// It resets the stream.
    Reset,
    /// It sends GOAWAY while that is awaited.
    GoAway,
    /// It closes the connection, or sends GOAWAY in place of an answer.
    Closed,
}

/// Sends a request with these fields, pseudo-header fields first, over a new connection.
///
/// # Errors
/// Fails with the connection's errors, and [`ErrorKind::TimedOut`] after 10 s.
pub async fn http2_request(
    address: SocketAddr,
    fields: &[(&str, &[u8])],
) -> io::Result<Http2Answer> {
    let mut connection = Http2Connection::over(TcpStream::connect(address).await?);
    connection.request(fields).await
}

/// Sends a request with these fields, a body and trailers, over a new connection.
///
/// # Errors
/// See [`http2_request`].
pub async fn http2_request_with_trailers(
    address: SocketAddr,
    fields: &[(&str, &[u8])],
    body: &[u8],
) -> io::Result<Http2Answer> {
    let mut connection = Http2Connection::over(TcpStream::connect(address).await?);
    let trailers = [("x-trailer", &b"1"[..])];
    connection.request_with(fields, body, &trailers).await
}

/// A connection to a server that speaks HTTP/2, for one request at a time.
#[derive(Debug)]
pub struct Http2Connection<S> {
    stream: S,
    /// The preface, until it is sent with the first request.
    unsent: Vec<u8>,
    next: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Http2Connection<S> {
    /// Wraps an open stream.
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            unsent: [PREFACE, &frame(SETTINGS, 0, 0, b"")].concat(),
            next: 1,
        }
    }

    /// Wraps an open stream, accepting at most that many bytes of each answer.
    pub fn with_window(stream: S, bytes: u32) -> Self {
        let window = [&[0, INITIAL_WINDOW_SIZE], &bytes.to_be_bytes()[..]].concat();
        Self {
            unsent: [PREFACE, &frame(SETTINGS, 0, 0, &window)].concat(),
            ..Self::over(stream)
        }
    }

    /// Opens the connection without a request, and waits for the server's side of it.
    ///
    /// # Errors
    /// See [`http2_request`].
    pub async fn begin(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.unsent);
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await?;
        timeout(LIMIT, read_frame(&mut self.stream)).await??;
        Ok(())
    }

    /// Reads until the server resets a stream, sends GOAWAY, or closes the connection. Each ping is acknowledged.
    ///
    /// # Errors
    /// See [`http2_request`].
    pub async fn end(&mut self) -> io::Result<Http2Answer> {
        timeout(LIMIT, self.read_end()).await?
    }

    async fn read_end(&mut self) -> io::Result<Http2Answer> {
        loop {
            match read_frame(&mut self.stream).await {
                Ok((RST_STREAM, ..)) => return Ok(Http2Answer::Reset),
                Ok((GOAWAY, ..)) => return Ok(Http2Answer::GoAway),
                Ok((PING, _, payload)) => {
                    self.stream
                        .write_all(&frame(PING, ACK, 0, &payload))
                        .await?;
                    self.stream.flush().await?;
                }
                Ok(_) => {}
                Err(error) if is_end(&error) => return Ok(Http2Answer::Closed),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a request with these fields, pseudo-header fields first.
    ///
    /// # Errors
    /// See [`http2_request`].
    pub async fn request(&mut self, fields: &[(&str, &[u8])]) -> io::Result<Http2Answer> {
        let block = header_block(fields);
        let headers = frame(HEADERS, END_STREAM_AND_HEADERS, self.next, &block);
        timeout(LIMIT, self.exchange(&headers)).await?
    }

    /// Sends a request with these fields, and optionally a body and trailers.
    ///
    /// # Errors
    /// See [`http2_request`].
    pub async fn request_with(
        &mut self,
        fields: &[(&str, &[u8])],
        body: &[u8],
        trailers: &[(&str, &[u8])],
    ) -> io::Result<Http2Answer> {
        let flags = if trailers.is_empty() { END_STREAM } else { 0 };
        let mut frames = [
            frame(HEADERS, END_HEADERS, self.next, &header_block(fields)),
            frame(DATA, flags, self.next, body),
        ]
        .concat();
        if !trailers.is_empty() {
            let block = header_block(trailers);
            frames.extend(frame(HEADERS, END_STREAM_AND_HEADERS, self.next, &block));
        }
        timeout(LIMIT, self.exchange(&frames)).await?
    }

    /// Repeatedly sends a request with these fields and resets it at once, without reading anything.
    ///
    /// # Errors
    /// Fails with the connection's errors.
    pub async fn send_and_reset(&mut self, fields: &[(&str, &[u8])], times: u32) -> io::Result<()> {
        const CANCEL: [u8; 4] = [0, 0, 0, 8];
        let block = header_block(fields);
        let mut bytes = std::mem::take(&mut self.unsent);
        for _ in 0..times {
            bytes.extend(frame(HEADERS, END_STREAM_AND_HEADERS, self.next, &block));
            bytes.extend(frame(RST_STREAM, 0, self.next, &CANCEL));
            self.next += 2;
        }
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await
    }

    async fn exchange(&mut self, frames: &[u8]) -> io::Result<Http2Answer> {
        let stream = self.next;
        self.next += 2;
        let bytes = [&self.unsent, frames].concat();
        self.unsent.clear();
        match self.send_and_receive(&bytes, stream).await {
            Err(error) if is_end(&error) => Ok(Http2Answer::Closed),
            other => other,
        }
    }

    async fn send_and_receive(&mut self, bytes: &[u8], stream: u32) -> io::Result<Http2Answer> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        loop {
            let (kind, number, payload) = read_frame(&mut self.stream).await?;
            match kind {
                HEADERS if number == stream => {
                    let status = status_of(&payload).ok_or(ErrorKind::InvalidData)?;
                    return Ok(Http2Answer::Status(status));
                }
                RST_STREAM if number == stream => return Ok(Http2Answer::Reset),
                GOAWAY => return Ok(Http2Answer::Closed),
                _ => {}
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small frame");
    let head = [
        &length.to_be_bytes()[1..],
        &[kind, flags],
        &stream.to_be_bytes(),
    ]
    .concat();
    [&head, payload].concat()
}

/// Reads the next frame: its type, its stream and its payload.
async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let [a, b, c, kind, _, number @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload).await?;
    Ok((kind, u32::from_be_bytes(number), payload))
}

fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

/// Literal fields without indexing and with new names (RFC 7541, section 6.2.2), not Huffman-coded.
fn header_block(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name.as_bytes(), value] {
            let length = u8::try_from(text.len()).ok().filter(|&length| length < 127);
            block.push(length.expect("a short text"));
            block.extend_from_slice(text);
        }
    }
    block
}

/// Status, which is the first field of every response, after an update of the table's size: an index of the static table,
/// or the name from there with a literal value.
fn status_of(block: &[u8]) -> Option<u16> {
    const STATIC: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    match *block {
        [0x20..=0x3e, ref rest @ ..] => status_of(rest),
        [index @ 0x88..=0x8e, ..] => Some(STATIC[usize::from(index - 0x88)]),
        [0x48 | 0x08 | 0x18, length, ..] => {
            let end = 2 + usize::from(length & 0x7f);
            let value = block.get(2..end)?;
            if length & 0x80 == 0 {
                return std::str::from_utf8(value).ok()?.parse().ok();
            }
            huffman_digits(value)
        }
        _ => None,
    }
}

/// Decodes three digits in the Huffman code of RFC 7541, appendix B: 0 to 2 have five bits, 3 to 9 have six.
fn huffman_digits(bytes: &[u8]) -> Option<u16> {
    let mut bits = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)));
    let mut number = 0;
    for _ in 0..3 {
        let mut code = 0;
        for _ in 0..5 {
            code = code * 2 + bits.next()?;
        }
        let digit = if code < 3 {
            code
        } else {
            (code * 2 + bits.next()?).checked_sub(0x19)? + 3
        };
        number = number * 10 + digit;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_when_encoded_in_any_form_is_read() {
        for (block, status) in [
            (&b"\x88"[..], Some(200)),
            (b"\x8d", Some(404)),
            (b"\x48\x03302", Some(302)),
            // RFC 7541, appendix C.6.1
            (b"\x48\x82\x64\x02", Some(302)),
            (b"\x20\x48\x03302", Some(302)),
            (b"\x48\x82\x64", None),
            (b"", None),
        ] {
            assert_eq!(status_of(block), status, "{}", block.escape_ascii());
        }
    }
}
