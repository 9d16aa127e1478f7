//! A control plane that misbehaves on purpose: the edge's peer in tests of faults. A request for several keys is answered
//! once all of them can be, or like the first one whose script has no reply. It speaks HTTP/1.1, and HTTP/2 with clients that begin
//! with it: bytes that are no answer reset the stream there.

use super::place::{free_port, local};
use super::{EDGE_TOKEN, until};
use crate::scenario::{Reply, returns_of, script_of, settled};
use bytes::Bytes;
use edgelink_wire::link_batch;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Request, Response};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Treatment of a lookup.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Answers with a scenario's reply.
    Reply(Reply),
    /// Sends these bytes, HTTP or not, and closes the connection.
    Bytes(Vec<u8>),
    /// Sends these bytes, then nothing more until the edge closes the connection.
    BytesThenSilence(Vec<u8>),
}

/// Path of click reports, and the code of their script: with [`Behaviour::Bytes`] each report is answered with these
/// bytes, and the connection stays open.
pub const REPORTS: &str = "/edge/v1/clicks";

/// A server on a real socket that answers each code as scripted.
#[derive(Debug)]
pub struct ScriptedControlPlane {
    address: SocketAddr,
    shared: Arc<ScriptState>,
    server: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct ScriptState {
    scripts: Mutex<HashMap<String, Script>>,
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Script {
    behaviour: Option<Behaviour>,
    /// Behaviours used first, once each.
    first: VecDeque<Behaviour>,
    lookups: usize,
    bodies: Vec<Vec<u8>>,
    heads: Vec<String>,
}

impl ScriptedControlPlane {
    /// Starts a control plane whose answer to every code is absent.
    pub async fn start() -> Self {
        let address = local(free_port());
        let listener = TcpListener::bind(address).await.expect("a free port");
        let shared = Arc::new(ScriptState {
            scripts: Mutex::default(),
            changes: watch::Sender::new(()),
        });
        let server = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            address,
            shared,
            server,
        }
    }

    /// Listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the behaviour of lookups of `code` from now on, including the pending ones.
    pub fn script(&self, code: &str, behaviour: Behaviour) {
        let behaviour = Some(behaviour);
        self.shared
            .with(code, |script| script.behaviour = behaviour);
        self.shared.changes.send_replace(());
    }

    /// Sets the behaviour of the next lookup of `code` only.
    pub fn script_next(&self, code: &str, behaviour: Behaviour) {
        self.shared
            .with(code, |script| script.first.push_back(behaviour));
    }

    /// Number of lookups of `code`.
    #[must_use]
    pub fn lookups(&self, code: &str) -> usize {
        self.shared.with(code, |script| script.lookups)
    }

    /// Bodies of these requests.
    #[must_use]
    pub fn bodies(&self, code: &str) -> Vec<Vec<u8>> {
        self.shared.with(code, |script| script.bodies.clone())
    }

    /// Request line and headers of these requests, unchanged.
    #[must_use]
    pub fn lookup_heads(&self, code: &str) -> Vec<String> {
        self.shared.with(code, |script| script.heads.clone())
    }

    /// Request line and headers of the click reports.
    #[must_use]
    pub fn report_heads(&self) -> Vec<String> {
        self.shared.with(REPORTS, |script| script.heads.clone())
    }

    /// Waits until there were at least `count` lookups.
    pub async fn await_lookups(&self, code: &str, count: usize) {
        let what = format!("{count} lookups of {code}");
        until(&what, Duration::from_secs(10), async || {
            (self.lookups(code) >= count).then_some(())
        })
        .await;
    }
}

impl Drop for ScriptedControlPlane {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl ScriptState {
    fn with<T>(&self, code: &str, act: impl FnOnce(&mut Script) -> T) -> T {
        let mut scripts = self.scripts.lock().expect("the scripts");
        act(scripts.entry(code.to_owned()).or_default())
    }

    fn note(&self, code: &str, head: &str, body: &[u8]) {
        self.with(code, |script| {
            script.lookups += 1;
            script.bodies.push(body.to_vec());
            script.heads.push(head.to_owned());
        });
    }

    /// Bytes of the response to a request; or a behaviour that ends the connection. A reply as error means no response.
    async fn answer(&self, head: &str, body: &[u8]) -> Result<Vec<u8>, Behaviour> {
        let path = path_of(head).unwrap_or_default();
        if path.starts_with(REPORTS) {
            self.note(REPORTS, head, body);
            return match self.with(REPORTS, |script| script.behaviour.clone()) {
                Some(Behaviour::Bytes(answer)) => Ok(answer),
                _ => Ok(http_bytes(204, None, b"")),
            };
        }
        if path == link_batch::PATH {
            return self.answer_lines(head, body).await;
        }
        if let Some(returns) = returns_of(path, body) {
            for (code, request) in &returns {
                self.note(code, head, &request.to_bytes());
            }
            let (status, content_type, body) = settled(returns.len());
            return Ok(http_bytes(status, content_type, &body));
        }
        let Some((code, key)) = script_of(path) else {
            return Ok(http_bytes(200, None, b""));
        };
        self.note(&code, head, body);
        let reply = self.reply(&code, head).await?;
        let answer = reply.to_request(&key, body).ok_or(Behaviour::Reply(reply));
        answer.map(|(status, content_type, body)| http_bytes(status, content_type, &body))
    }

    /// Response to a request for several keys.
    async fn answer_lines(&self, head: &str, body: &[u8]) -> Result<Vec<u8>, Behaviour> {
        let lines = std::str::from_utf8(body).expect("lines").lines();
        let requests = lines.map(|line| script_of(&format!("{}/{line}", link_batch::PATH)));
        let requests: Vec<_> = requests.map(|request| request.expect("a key")).collect();
        for (code, _) in &requests {
            self.note(code, head, b"");
        }
        let mut answers = Vec::new();
        for (code, key) in &requests {
            let reply = self.reply(code, head).await?;
            let answer = reply.to_request(key, b"").ok_or(Behaviour::Reply(reply));
            let (status, _, body) = answer?;
            link_batch::write(status, &body, &mut answers);
        }
        Ok(http_bytes(200, Some(link_batch::MEDIA_TYPE), &answers))
    }

    /// Reply for `code` to an authorized client, once it no longer hangs.
    async fn reply(&self, code: &str, head: &str) -> Result<Reply, Behaviour> {
        match self.behaviour(code).await {
            _ if !is_authorized(head) => Err(Behaviour::Bytes(http_bytes(401, None, b""))),
            Behaviour::Reply(reply) => Ok(reply),
            other => Err(other),
        }
    }

    /// Behaviour for `code`, once it no longer hangs.
    async fn behaviour(&self, code: &str) -> Behaviour {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let behaviour = self.with(code, |script| {
                let first = script.first.pop_front();
                first.or_else(|| script.behaviour.clone())
            });
            match behaviour.unwrap_or(Behaviour::Reply(Reply::Absent { rev: 0 })) {
                Behaviour::Reply(Reply::Hang) => {
                    let _ = changes.changed().await; // the sender lives as long as `self`
                }
                other => return other,
            }
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<ScriptState>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut first = [0; 3];
            let is_http2 = stream.peek(&mut first).await.is_ok() && &first == b"PRI";
            // An edge may close the connection.
            let _ = if is_http2 {
                serve_http2(stream, shared).await
            } else {
                serve(stream, &shared).await
            };
        });
    }
}

/// Answers requests until a behaviour closes the connection.
async fn serve(stream: TcpStream, shared: &ScriptState) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(head) = read_head(&mut stream).await? {
        let body = read_body(&mut stream, &head).await?;
        match shared.answer(&head, &body).await {
            Ok(answer) => stream.get_mut().write_all(&answer).await?,
            Err(Behaviour::Bytes(bytes)) => return stream.get_mut().write_all(&bytes).await,
            Err(Behaviour::BytesThenSilence(bytes)) => {
                stream.get_mut().write_all(&bytes).await?;
                return read_head(&mut stream).await.map(|_| ());
            }
            Err(Behaviour::Reply(_)) => break,
        }
    }
    Ok(())
}

/// Answers requests, each on a stream of its own.
async fn serve_http2(stream: TcpStream, shared: Arc<ScriptState>) -> io::Result<()> {
    let connection = h2::server::handshake(stream).await;
    let mut connection = connection.map_err(io::Error::other)?;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted.map_err(io::Error::other)?;
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { answer_stream(request, respond, &shared).await });
    }
    Ok(())
}

async fn answer_stream(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: &ScriptState,
) -> Result<(), h2::Error> {
    let (parts, mut incoming) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut head = format!("{} {path} HTTP/2\r\n", parts.method);
    for (name, value) in &parts.headers {
        head += &format!("{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    head += "\r\n";
    let mut body = Vec::new();
    while let Some(chunk) = incoming.data().await {
        let chunk = chunk?;
        body.extend_from_slice(&chunk);
        incoming.flow_control().release_capacity(chunk.len())?;
    }
    let (bytes, is_silent) = match shared.answer(&head, &body).await {
        Ok(bytes) | Err(Behaviour::Bytes(bytes)) => (bytes, false),
        Err(Behaviour::BytesThenSilence(bytes)) => (bytes, true),
        Err(Behaviour::Reply(_)) => (Vec::new(), false),
    };
    let mut sent = None;
    if let Some((response, length, body)) = response_of(&bytes) {
        let is_all = body.len() == length;
        let mut stream = respond.send_response(response, false)?;
        stream.send_data(Bytes::copy_from_slice(body), is_all)?;
        if is_all {
            return Ok(());
        }
        sent = Some(stream);
    }
    match &mut sent {
        Some(stream) if is_silent => poll_fn(|context| stream.poll_reset(context))
            .await
            .map(drop),
        None if is_silent => poll_fn(|context| respond.poll_reset(context))
            .await
            .map(drop),
        Some(stream) => {
            stream.send_reset(Reason::INTERNAL_ERROR);
            Ok(())
        }
        None => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            Ok(())
        }
    }
}

/// The head of a response of HTTP/1.1, the length that it names, and the bytes of its body; `None` if the head is none, or not complete.
fn response_of(bytes: &[u8]) -> Option<(Response<()>, usize, &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let mut response = Response::builder().status(status);
    let mut length = 0;
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        match name {
            "content-length" => length = value.parse().ok()?,
            _ => response = response.header(name, value),
        }
    }
    let response = response.header("content-length", length).body(()).ok()?;
    Some((response, length, &bytes[end + 4..]))
}

/// Reads request line and headers; `None` at the end of the connection.
async fn read_head(stream: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(head))
}

/// Reads the body of a request; empty without a length.
async fn read_body(stream: &mut BufReader<TcpStream>, head: &str) -> io::Result<Vec<u8>> {
    let lines = head.to_ascii_lowercase();
    let length = lines
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

fn path_of(head: &str) -> Option<&str> {
    head.split(' ').nth(1)
}

fn is_authorized(head: &str) -> bool {
    head.contains(&format!("authorization: Bearer {EDGE_TOKEN}\r\n"))
}

fn http_bytes(status: u16, content_type: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n",
        body.len()
    );
    if let Some(content_type) = content_type {
        head += &format!("content-type: {content_type}\r\n");
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::DOMAIN;

    #[test]
    fn lookup_path_when_read_gives_key() {
        let request_of = |head: &str| path_of(head).and_then(script_of);
        let head = format!("GET /edge/v1/links/{DOMAIN}/abc HTTP/1.1\r\n\r\n");
        let lookup = ("abc".to_owned(), format!("{DOMAIN}/abc"));
        assert_eq!(request_of(&head), Some(lookup));
        assert_eq!(request_of("GET /health/ready HTTP/1.1\r\n\r\n"), None);
    }
}
