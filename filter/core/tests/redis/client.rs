//! The RESP client.

use crate::driver::{ClientDriver, Socket};
use crate::server::{LIMITS, Server};
use edgelink_filter_core::resp::Client;
use edgelink_filter_core::resp::client::{Auth, ClientSettings, Mode, State};
use edgelink_filter_core::resp::lookup::LookupCommand;
use edgelink_wire::backoff::Bounds;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

fn settings() -> ClientSettings {
    ClientSettings {
        mode: direct(None),
        connect_timeout_millis: 500,
        timeout_millis: 100,
        dead_after_millis: 1000,
        max_waiting: 10_000,
        max_unanswered_bytes: 1 << 20,
        max_batch: 32,
        is_flushed: false,
        has_client: false,
        limits: LIMITS,
        backoff: Bounds {
            first_millis: 10,
            cap_millis: 50,
        },
    }
}

fn direct(auth: Option<Auth>) -> Mode {
    Mode::Direct {
        auth,
        name: "edgelink-test".to_owned(),
        database: 0,
    }
}

fn driver(socket: PathBuf, settings: ClientSettings) -> ClientDriver {
    ClientDriver {
        client: Client::new(settings, 1),
        socket: Socket::new(socket),
        said: Vec::new(),
    }
}

fn ready(server: &Server) -> ClientDriver {
    let mut driver = driver(server.socket(), settings());
    driver.run_until_ready();
    driver
}

/// Redis is stopped in some tests; requests must not run out of time there for another reason.
fn patient() -> ClientSettings {
    ClientSettings {
        timeout_millis: 10_000,
        dead_after_millis: 10_000,
        ..settings()
    }
}

#[test]
fn pipeline_when_sent_is_answered_in_order_on_one_connection() {
    let server = Server::start();
    let mut driver = driver(server.socket(), patient());
    driver.run_until_ready();
    for token in 0..2000 {
        assert!(driver.request(token, &[b"ECHO", token.to_string().as_bytes()]));
    }
    let said = driver.run_until(|client, _| client.waiting() == 0);
    let expected: Vec<_> = (0..2000).map(|token| format!("{token}: {token}")).collect();
    assert_eq!(said, expected);
    let clients = server.command(&["CLIENT", "LIST"]);
    let ours = clients
        .lines()
        .filter(|line| line.contains("name=edgelink-test"));
    assert_eq!(ours.count(), 1, "{clients}");
}

#[test]
fn value_when_of_300_kb_arrives_whole() {
    let server = Server::start();
    let mut driver = driver(server.socket(), patient());
    driver.run_until_ready();
    let value = "v".repeat(300_000);
    driver.request(1, &[b"SET", b"k", value.as_bytes()]);
    driver.request(2, &[b"GET", b"k"]);
    let said = driver.run_until(|client, _| client.waiting() == 0);
    assert_eq!(said, ["1: OK".to_owned(), format!("2: {value}")]);
}

#[test]
fn lookup_when_the_link_exists_brings_its_fields() {
    let server = Server::start();
    server.command(&["HSET", "link:0:a/b", "state", "absent", "rev", "7"]);
    let mut driver = ready(&server);
    driver.request_written(1, |out| LookupCommand::default().write(b"a/b", out));
    let said = driver.run_until(|client, _| client.waiting() == 0);
    let nil = "\"Null\"";
    assert_eq!(
        said,
        [format!(
            "1: [{nil}, {nil}, \"absent\", {nil}, {nil}, {nil}, \"7\", {nil}]"
        )]
    );
}

#[test]
fn error_reply_when_it_comes_fails_one_request_only() {
    let server = Server::start();
    server.command(&["SET", "link:0:a/b", "no hash"]);
    let mut driver = ready(&server);
    driver.request(1, &[b"HMGET", b"link:0:a/b", b"url"]);
    driver.request(2, &[b"NOSUCHCOMMAND"]);
    driver.request(3, &[b"ECHO", b"c"]);
    let said = driver.run_until(|client, _| client.waiting() == 0);
    let answers: Vec<_> = said
        .iter()
        .filter(|said| said.contains(": ") && !said.starts_with('E'))
        .collect();
    assert!(answers[0].starts_with("1: refused WRONGTYPE"), "{said:?}");
    assert!(
        answers[1].starts_with("2: refused ERR unknown command"),
        "{said:?}"
    );
    assert_eq!(answers[2], "3: c");
}

#[test]
fn password_when_wrong_is_reported_once() {
    let server = Server::with_options(&["--requirepass", "secret"]);
    server_with_user(&server);
    for (user, password) in [(None, "secret"), (Some("edge"), "edge-secret")] {
        let auth = Auth {
            user: user.map(str::to_owned),
            password: password.to_owned(),
        };
        let mode = direct(Some(auth));
        driver(server.socket(), ClientSettings { mode, ..settings() }).run_until_ready();
    }
    let wrong = Auth {
        user: None,
        password: "wrong".to_owned(),
    };
    for (auth, refused) in [(Some(wrong), "AUTH"), (None, "SetName")] {
        let mode = direct(auth);
        let mut driver = driver(server.socket(), ClientSettings { mode, ..settings() });
        while driver.socket.opened < 5 {
            driver.turn();
        }
        assert_eq!(driver.said.len(), 1, "{:?}", driver.said);
        let is_named = driver.said[0]
            .to_lowercase()
            .contains(&refused.to_lowercase());
        assert!(is_named, "{:?}", driver.said);
    }
}

fn server_with_user(server: &Server) {
    let auth = Auth {
        user: None,
        password: "secret".to_owned(),
    };
    let mode = direct(Some(auth));
    let mut driver = driver(server.socket(), ClientSettings { mode, ..patient() });
    driver.run_until_ready();
    driver.request(
        1,
        &[
            b"ACL",
            b"SETUSER",
            b"edge",
            b"on",
            b">edge-secret",
            b"+@all",
            b"~*",
        ],
    );
    assert_eq!(
        driver.run_until(|client, _| client.waiting() == 0),
        ["1: OK"]
    );
}

#[test]
fn reply_when_too_late_is_dropped() {
    let server = Server::start();
    let mut driver = ready(&server);
    server.stop();
    driver.request(1, &[b"ECHO", b"late"]);
    let said = driver.run_until(|_, said| !said.is_empty());
    assert_eq!(said, ["1: TimedOut"]);
    driver.request(2, &[b"ECHO", b"b"]);
    server.go_on();
    assert_eq!(
        driver.run_until(|client, _| client.waiting() == 0),
        ["2: b"]
    );
    assert_eq!(driver.socket.opened, 1);
}

#[test]
fn server_when_it_hangs_is_given_up_and_found_again() {
    let server = Server::start();
    let mut driver = ready(&server);
    server.stop();
    driver.request(1, &[b"ECHO", b"a"]);
    let said = driver.run_until(|client, _| matches!(client.state(), State::Backoff { .. }));
    assert_eq!(said, ["1: TimedOut", "Down(NoAnswer)"]);
    let said = driver.run_until(|_, said| !said.is_empty());
    assert_eq!(said, ["Down(NoHandshake)"], "the kernel accepts for it");
    assert!(
        !driver.request(2, &[b"ECHO", b"b"]),
        "a server that hangs is given up"
    );
    server.go_on();
    driver.run_until_ready();
    driver.request(3, &[b"ECHO", b"c"]);
    let said = driver.run_until(|_, said| said.len() > 1);
    assert_eq!(said[0], "3: c");
    assert!(said[1].starts_with("Recovered"), "{said:?}");
}

#[test]
fn server_when_killed_fails_waiters_and_is_found_again() {
    let mut server = Server::start();
    let mut driver = driver(server.socket(), patient());
    driver.run_until_ready();
    server.stop();
    driver.request(1, &[b"ECHO", b"a"]);
    server.kill();
    let said = driver.run_until(|client, _| !client.is_ready());
    assert_eq!(said, ["Down(Closed)", "1: Disconnected"]);
    server.restart_empty();
    driver.run_until_ready();
}

/// Serves one connection after another, each with the next of `scripts`: what it writes before it closes.
fn scripted(scripts: Vec<Vec<u8>>) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fake.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for script in scripts {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&script).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    (directory, path)
}

#[test]
fn garbage_when_received_is_reported_once_and_does_no_harm() {
    let garbage = b"HTTP/1.1 400 Bad Request\r\n".to_vec();
    let half = b"+OK\r\n$100\r\nabc".to_vec();
    let scripts = [
        garbage.clone(),
        half.clone(),
        garbage,
        half,
        vec![],
        b"+OK\r\n".to_vec(),
    ];
    let (_directory, path) = scripted(scripts.to_vec());
    let settings = ClientSettings {
        backoff: Bounds {
            first_millis: 1,
            cap_millis: 10_000,
        },
        ..settings()
    };
    let mut driver = driver(path, settings);
    while driver.socket.opened < 6 {
        driver.turn();
    }
    let reported = ["Down(Protocol(Kind(72)))", "Down(Closed)"];
    let reported_unsolicited = [reported[0], "Down(Unsolicited)", reported[1]];
    let said: Vec<_> = driver.said.iter().map(String::as_str).collect();
    assert!(said == reported || said == reported_unsolicited, "{said:?}");
}
