//! Outputs of the client and their timing.

mod batches;
mod bounds;

use super::*;
use crate::resp::encode;
use crate::resp::scan::{Limits, ProtocolError};
use edgelink_wire::backoff::Bounds;

/// An output of the client, in a form that can be kept and compared.
#[derive(Debug, PartialEq)]
enum Said {
    Open,
    Sent(String),
    Close,
    Answer(u32, Result<String, &'static str>),
    Refused(u32, String),
    Down(String),
    Recovered(u32),
    ErrorReplies(u64),
}

fn said(output: &Output<'_, u32>) -> Said {
    match *output {
        Output::OpenStream => Said::Open,
        Output::Send(bytes) => Said::Sent(bytes.escape_ascii().to_string()),
        Output::CloseStream => Said::Close,
        Output::Deliver(token, Ok(Reply::Bulk(bytes) | Reply::Simple(bytes))) => {
            Said::Answer(token, Ok(bytes.escape_ascii().to_string()))
        }
        Output::Deliver(token, Ok(other)) => Said::Answer(token, Ok(format!("{other:?}"))),
        Output::Deliver(token, Err(Failure::TimedOut)) => Said::Answer(token, Err("timed out")),
        Output::Deliver(token, Err(Failure::Disconnected)) => {
            Said::Answer(token, Err("disconnected"))
        }
        Output::Deliver(token, Err(Failure::Refused(message))) => {
            Said::Refused(token, message.escape_ascii().to_string())
        }
        Output::Event(Event::Down(reason)) => Said::Down(reason.to_string()),
        Output::Event(Event::Recovered { failures }) => Said::Recovered(failures),
        Output::Event(Event::ErrorReply { count, .. }) => Said::ErrorReplies(count),
    }
}

pub(super) fn settings() -> ClientSettings {
    ClientSettings {
        mode: Mode::Direct {
            auth: None,
            name: "edge".to_owned(),
            database: 0,
        },
        connect_timeout_millis: 1000,
        timeout_millis: 100,
        dead_after_millis: 500,
        max_waiting: 4,
        max_unanswered_bytes: 100,
        max_batch: 1,
        is_flushed: false,
        has_client: false,
        limits: Limits {
            bulk_bytes: 1000,
            array_elements: 10,
            reply_bytes: 2000,
        },
        backoff: Bounds {
            first_millis: 50,
            cap_millis: 2000,
        },
    }
}

struct Tested {
    client: Client<u32>,
    said: Vec<Said>,
}

impl Tested {
    fn new(settings: ClientSettings) -> Self {
        Self {
            client: Client::new(settings, 7),
            said: Vec::new(),
        }
    }

    /// A client that is ready at time 0.
    fn ready() -> Self {
        Self::ready_with(settings())
    }

    fn ready_with(settings: ClientSettings) -> Self {
        let mut tested = Self::new(settings);
        tested.tick(0);
        tested.data(0, b"+OK\r\n");
        assert!(tested.client.is_ready());
        tested.said.clear();
        tested
    }

    fn tick(&mut self, now_millis: u64) -> Vec<Said> {
        let log = &mut self.said;
        self.client
            .on_tick(now_millis, &mut |output| log.push(said(&output)));
        std::mem::take(log)
    }

    fn data(&mut self, now_millis: u64, bytes: &[u8]) -> Vec<Said> {
        let log = &mut self.said;
        self.client
            .on_data(now_millis, bytes, &mut |output| log.push(said(&output)));
        std::mem::take(log)
    }

    fn flush(&mut self) -> Vec<Said> {
        let log = &mut self.said;
        self.client.flush(&mut |output| log.push(said(&output)));
        std::mem::take(log)
    }

    fn closed(&mut self, now_millis: u64) -> Vec<Said> {
        let log = &mut self.said;
        self.client
            .on_closed(now_millis, &mut |output| log.push(said(&output)));
        std::mem::take(log)
    }

    fn request(&mut self, now_millis: u64, token: u32) -> Result<Vec<Said>, Rejection> {
        self.request_of(now_millis, token, b"PING")
    }

    fn request_of(
        &mut self,
        now_millis: u64,
        token: u32,
        word: &[u8],
    ) -> Result<Vec<Said>, Rejection> {
        let log = &mut self.said;
        let write = |out: &mut Vec<u8>| encode::words(&[word], out);
        let accepted = self
            .client
            .request(now_millis, token, write, &mut |output| {
                log.push(said(&output));
            });
        accepted.map(|()| std::mem::take(log)).map_err(|rejected| {
            assert_eq!(rejected.token, token);
            rejected.why
        })
    }

    /// Lets the wait pass, and returns how long it was.
    fn wait_for_reconnect(&mut self) -> u64 {
        let State::Backoff { until_millis } = self.client.state() else {
            panic!("{:?}", self.client.state());
        };
        assert_eq!(self.tick(until_millis - 1), []);
        assert_eq!(self.tick(until_millis).first(), Some(&Said::Open));
        until_millis
    }
}

fn ok(token: u32, answer: &str) -> Said {
    Said::Answer(token, Ok(answer.to_owned()))
}

fn failed(token: u32, why: &'static str) -> Said {
    Said::Answer(token, Err(why))
}

#[test]
fn client_when_the_handshake_is_unfinished_accepts_nothing() {
    let mode = Mode::Direct {
        auth: Some(Auth {
            user: Some("edge".to_owned()),
            password: "secret".to_owned(),
        }),
        name: "edgelink".to_owned(),
        database: 3,
    };
    let mut tested = Tested::new(ClientSettings { mode, ..settings() });
    assert_eq!(tested.request(0, 1), Err(Rejection::NotReady));
    let handshake = "*3\\r\\n$4\\r\\nAUTH\\r\\n$4\\r\\nedge\\r\\n$6\\r\\nsecret\\r\\n\
                     *3\\r\\n$6\\r\\nCLIENT\\r\\n$7\\r\\nSETNAME\\r\\n$8\\r\\nedgelink\\r\\n\
                     *2\\r\\n$6\\r\\nSELECT\\r\\n$1\\r\\n3\\r\\n";
    assert_eq!(
        tested.tick(0),
        [Said::Open, Said::Sent(handshake.to_owned())]
    );
    for reply in [&b"+OK\r\n"[..], b"+O", b"K\r\n"] {
        assert_eq!(tested.request(0, 1), Err(Rejection::NotReady));
        assert_eq!(tested.data(0, reply), []);
    }
    assert_eq!(tested.request(0, 1), Err(Rejection::NotReady));
    assert_eq!(tested.data(0, b"+OK\r\n"), []);
    assert!(tested.request(0, 1).is_ok());
}

#[test]
fn auth_when_there_is_no_user_has_only_the_password() {
    let mode = Mode::Direct {
        auth: Some(Auth {
            user: None,
            password: "secret".to_owned(),
        }),
        name: "n".to_owned(),
        database: 0,
    };
    let mut tested = Tested::new(ClientSettings { mode, ..settings() });
    let Some(Said::Sent(handshake)) = tested.tick(0).pop() else {
        panic!("no handshake");
    };
    assert!(handshake.starts_with("*2\\r\\n$4\\r\\nAUTH\\r\\n$6\\r\\nsecret\\r\\n"));
}

#[test]
fn pool_when_connected_is_only_pinged() {
    let mode = Mode::Pooled;
    let mut tested = Tested::new(ClientSettings { mode, ..settings() });
    let ping = Said::Sent("*1\\r\\n$4\\r\\nPING\\r\\n".to_owned());
    assert_eq!(tested.tick(0), [Said::Open, ping]);
    tested.data(0, b"+PONG\r\n");
    assert!(tested.client.is_ready());
}

#[test]
fn password_when_refused_is_reported_once_and_retried() {
    let mode = Mode::Direct {
        auth: Some(Auth {
            user: None,
            password: "wrong".to_owned(),
        }),
        name: "n".to_owned(),
        database: 0,
    };
    let mut tested = Tested::new(ClientSettings { mode, ..settings() });
    tested.tick(0);
    let refused = Said::Down("AUTH was refused: WRONGPASS no".to_owned());
    let reply = b"-WRONGPASS no\r\n-NOAUTH Authentication required.\r\n";
    assert_eq!(tested.data(0, reply), [Said::Close, refused]);
    for _ in 0..5 {
        let now_millis = tested.wait_for_reconnect();
        assert_eq!(tested.data(now_millis, reply), [Said::Close]);
    }
}

#[test]
fn password_when_debug_printed_is_hidden() {
    let auth = Auth {
        user: None,
        password: "secret".to_owned(),
    };
    let mode = Mode::Direct {
        auth: Some(auth.clone()),
        name: "n".to_owned(),
        database: 0,
    };
    assert!(!format!("{auth:?}{mode:?}").contains("secret"));
    let mut tested = Tested::new(ClientSettings { mode, ..settings() });
    tested.tick(0);
    assert!(!format!("{:?}", tested.client).contains("secret"));
}

#[test]
fn replies_when_they_come_go_to_requests_in_order() {
    let mut tested = Tested::ready();
    for token in 1..=3 {
        assert!(tested.request(0, token).is_ok());
    }
    assert_eq!(tested.data(1, b"+a\r\n$1\r\nb\r"), [ok(1, "a")]);
    assert_eq!(
        tested.data(1, b"\n-ERR c\r\n"),
        [
            ok(2, "b"),
            Said::ErrorReplies(1),
            Said::Refused(3, "ERR c".to_owned())
        ]
    );
    assert_eq!(tested.client.waiting(), 0);
}

#[test]
fn request_when_timed_out_keeps_its_position() {
    let mut tested = Tested::ready();
    tested.request(0, 1).unwrap();
    tested.request(60, 2).unwrap();
    assert_eq!(tested.tick(99), []);
    assert_eq!(tested.tick(100), [failed(1, "timed out")]);
    assert_eq!(tested.tick(110), []);
    assert_eq!(tested.data(120, b"+late\r\n+b\r\n"), [ok(2, "b")]);
    assert_eq!(tested.tick(10_000), []);
}

#[test]
fn connection_when_it_answers_nothing_is_given_up() {
    let mut tested = Tested::ready();
    tested.request(0, 1).unwrap();
    tested.tick(100);
    tested.request(450, 2).unwrap();
    assert_eq!(tested.tick(499), []);
    let down = Said::Down("requests are not answered any more".to_owned());
    assert_eq!(
        tested.tick(500),
        [Said::Close, down, failed(2, "disconnected")]
    );
    assert_eq!(tested.request(500, 3), Err(Rejection::NotReady));
    assert_eq!(
        tested.data(500, b"+late\r\n"),
        [],
        "what a closed stream says counts no more"
    );
}

#[test]
fn handshake_when_unanswered_is_given_up() {
    let mut tested = Tested::new(settings());
    tested.tick(5);
    assert_eq!(tested.tick(1004), []);
    let down = Said::Down("the handshake was not answered in time".to_owned());
    assert_eq!(tested.tick(1005), [Said::Close, down]);
}

#[test]
fn requests_when_the_stream_ends_fail() {
    let mut tested = Tested::ready();
    tested.request(0, 1).unwrap();
    tested.request(100, 2).unwrap();
    tested.tick(100);
    let down = Said::Down("the connection was closed or could not be opened".to_owned());
    assert_eq!(tested.closed(101), [down, failed(2, "disconnected")]);
    assert_eq!(tested.closed(102), []);
}

#[test]
fn reply_when_half_of_a_lost_connection_is_forgotten() {
    let mut tested = Tested::ready();
    tested.request(0, 1).unwrap();
    tested.data(0, b"$100\r\nabc");
    tested.closed(0);
    let now_millis = tested.wait_for_reconnect();
    tested.data(now_millis, b"+OK\r\n");
    tested.request(now_millis, 2).unwrap();
    assert_eq!(tested.data(now_millis, b"+b\r\n"), [ok(2, "b")]);
}

#[test]
fn connection_when_it_gets_garbage_ends() {
    let mut tested = Tested::ready();
    tested.request(0, 1).unwrap();
    let error = ProtocolError::Kind(b'H');
    let down = Said::Down(format!("not RESP2: {error}"));
    let garbage = b"HTTP/1.1 400 Bad Request\r\n";
    assert_eq!(
        tested.data(0, garbage),
        [Said::Close, down, failed(1, "disconnected")]
    );
}

#[test]
fn connection_when_a_reply_is_unsolicited_ends() {
    let mut tested = Tested::ready();
    let down = Said::Down("a reply came without a request".to_owned());
    assert_eq!(tested.data(0, b"+OK\r\n+OK\r\n"), [Said::Close, down]);
}

#[test]
fn connection_when_its_name_is_denied_is_ready() {
    for denial in [
        "-NOPERM this user has no permissions to run the 'client|setname' command\r\n",
        "-ERR unknown command 'CLIENT', with args beginning with: 'SETNAME' 'edge' \r\n",
    ] {
        let mut tested = Tested::new(settings());
        tested.tick(0);
        assert_eq!(tested.data(0, denial.as_bytes()), []);
        assert!(tested.client.is_ready(), "{denial}");
    }
    for refusal in [
        "-NOAUTH Authentication required.\r\n",
        "-LOADING\r\n",
        ":1\r\n",
    ] {
        let mut tested = Tested::new(settings());
        tested.tick(0);
        tested.data(0, refusal.as_bytes());
        assert!(!tested.client.is_ready(), "{refusal}");
    }
}
