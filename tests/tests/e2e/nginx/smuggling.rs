//! Requests by which clients try to make nginx and Envoy see different requests on one connection. Whatever becomes of such a
//! request, the next one on its connection and on those of others gets its own answer, and the smuggled one gets none: the control
//! plane is never asked for it.

use super::downgrades::{DOWNGRADES, Frames};
use super::smuggled::{CHUNKS_AND_LINES, CODINGS, LENGTHS, Raw, SMUGGLED};
use edgelink_tests::scenario::{Reply, Request, link};
use edgelink_tests::stack::{
    Behaviour, Connection, Envoy, EnvoyOptions, Http2Answer, Http2Connection, Nginx,
    ScriptedControlPlane,
};
use edgelink_wire::{LinkRecord, RedirectStatus};
use std::collections::BTreeMap;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

const HERE: [u8; 4] = [127, 0, 0, 1];

struct Attacked {
    nginx: Nginx,
    envoy: Envoy,
    control_plane: ScriptedControlPlane,
    /// Another client, whose requests follow each attack.
    other: Connection<TlsStream<TcpStream>>,
    outcomes: BTreeMap<String, usize>,
}

/// A link whose status says which link was followed.
fn script(control_plane: &ScriptedControlPlane, code: &str, redirect: RedirectStatus) {
    let target = format!("https://example.com/{code}");
    let record = LinkRecord {
        redirect,
        ..link(&target)
    };
    control_plane.script(code, Behaviour::Reply(Reply::Link(record)));
}

impl Attacked {
    async fn start() -> Self {
        let control_plane = ScriptedControlPlane::start().await;
        script(&control_plane, "known", RedirectStatus::Found);
        script(&control_plane, "next", RedirectStatus::PermanentRedirect);
        script(&control_plane, "smuggled", RedirectStatus::MovedPermanently);
        let options = EnvoyOptions {
            trusted_hops: 1,
            ..EnvoyOptions::default()
        };
        let envoy = Envoy::start(&options, &[control_plane.address()]).await;
        let quick = [("EDGELINK_FRONT_CLIENT_SECONDS", "1")];
        let nginx = Nginx::start(&[envoy.edge()], &[control_plane.address()], &quick).await;
        let other = nginx.connect().await.expect("TLS");
        Self {
            nginx,
            envoy,
            control_plane,
            other,
            outcomes: BTreeMap::new(),
        }
    }

    /// A request of another client, which is answered as ever.
    async fn assert_others_are_answered(&mut self, name: &str) {
        for _ in 0..2 {
            let answer = self.other.exchange(&Request::get("/next"), b"").await;
            // nginx may have closed it, since nothing was sent for a second.
            let answer = match answer {
                Ok(answer) => answer,
                Err(_) => {
                    self.other = self.nginx.connect().await.expect("TLS");
                    let again = self.other.exchange(&Request::get("/next"), b"").await;
                    again.expect("an answer")
                }
            };
            let wanted = (308, Some("https://example.com/next"));
            assert_eq!(
                (answer.status, answer.location()),
                wanted,
                "{name}: {answer:?}"
            );
        }
        assert_eq!(self.control_plane.lookups("smuggled"), 0, "{name}");
    }

    async fn send_raw(&mut self, attack: &Raw) {
        let mut connection = self.nginx.connect().await.expect("TLS");
        let next = b"GET /next HTTP/1.1\r\nHost: go.example\r\nConnection: close\r\n\r\n";
        let bytes = [&attack.bytes(), &next[..]].concat();
        let _ = connection.send(&bytes).await; // refused before all is sent
        let answers = connection.receive_rest().await.expect("an end within 30 s");
        let answers = String::from_utf8_lossy(&answers).into_owned();
        let statuses = statuses(&answers);
        assert!(!statuses.contains(&"301"), "{}: {answers}", attack.name);
        let finals = statuses.iter().filter(|status| **status != "100").count();
        assert!(finals <= 2, "{}: {answers}", attack.name);
        *self.outcomes.entry(statuses.join(" ")).or_default() += 1;
        self.assert_others_are_answered(attack.name).await;
    }

    async fn send_frames(&mut self, attack: &Frames) {
        let stream = self.nginx.connect_from(HERE, "h2").await.expect("TLS");
        let mut connection = Http2Connection::over(stream);
        let fields = fields_of(attack);
        let body = SMUGGLED.as_bytes();
        let first = connection
            .request_with(&fields, body, attack.trailers)
            .await;
        let first = first.unwrap_or_else(|error| panic!("{}: {error}", attack.name));
        assert_ne!(first, Http2Answer::Status(301), "{}", attack.name);
        let second = connection.request(&fields_of_next()).await;
        let second = second.unwrap_or_else(|error| panic!("{}: {error}", attack.name));
        let is_own = matches!(second, Http2Answer::Status(308) | Http2Answer::Closed);
        assert!(is_own, "{}: {first:?} {second:?}", attack.name);
        *self
            .outcomes
            .entry(format!("{first:?} {second:?}"))
            .or_default() += 1;
        self.assert_others_are_answered(attack.name).await;
    }

    /// What became of the attacks; no VM was harmed.
    async fn end(self, attacks: usize) {
        println!("{:?}", self.outcomes);
        assert_eq!(self.outcomes.values().sum::<usize>(), attacks);
        self.envoy.assert_unharmed().await;
    }
}

/// The statuses of answers, one behind the other.
fn statuses(answers: &str) -> Vec<&str> {
    let answers = answers.split("HTTP/1.1 ").skip(1);
    answers.filter_map(|answer| answer.get(..3)).collect()
}

fn fields_of(attack: &Frames) -> Vec<(&'static str, &'static [u8])> {
    let usual: [(&str, &[u8]); 4] = [
        (":method", b"POST"),
        (":scheme", b"https"),
        (":path", b"/known"),
        (":authority", b"go.example"),
    ];
    let is_replaced = |name: &str| attack.fields.iter().any(|(other, _)| *other == name);
    // What replaces a pseudo-header field stands where that stood, unless the attack is that it does not.
    let (pseudo, others): (Vec<_>, Vec<_>) = attack
        .fields
        .iter()
        .copied()
        .partition(|(name, _)| name.starts_with(':') && !attack.fields[0].0.eq("x"));
    let usual = usual
        .into_iter()
        .filter(|(name, _)| !is_replaced(name) || attack.fields[0].0 == "x");
    usual.chain(pseudo).chain(others).collect()
}

fn fields_of_next() -> [(&'static str, &'static [u8]); 4] {
    [
        (":method", b"GET"),
        (":scheme", b"https"),
        (":path", b"/next"),
        (":authority", b"go.example"),
    ]
}

async fn attack_by(attacks: &[Raw]) {
    let mut attacked = Attacked::start().await;
    attacked.assert_others_are_answered("before").await;
    for attack in attacks {
        attacked.send_raw(attack).await;
    }
    attacked.end(attacks.len()).await;
}

/// What the others must not show: a second request behind the first one, which its client may send.
#[tokio::test]
async fn request_when_behind_another_is_noticed() {
    let attacked = Attacked::start().await;
    let mut connection = attacked.nginx.connect().await.expect("TLS");
    let first = "GET /known HTTP/1.1\r\nHost: go.example\r\n\r\n";
    let bytes = [first, SMUGGLED, "x\r\nConnection: close\r\n\r\n"].concat();
    connection
        .send(bytes.as_bytes())
        .await
        .expect("a connection");
    let answers = connection.receive_rest().await.expect("an end");
    assert_eq!(statuses(&String::from_utf8_lossy(&answers)), ["302", "301"]);
    assert_eq!(attacked.control_plane.lookups("smuggled"), 1);
}

#[tokio::test]
async fn lengths_when_contradictory_smuggle_nothing() {
    attack_by(LENGTHS).await;
}

#[tokio::test]
async fn codings_when_disguised_smuggle_nothing() {
    attack_by(CODINGS).await;
}

#[tokio::test]
async fn chunks_and_lines_when_malformed_smuggle_nothing() {
    attack_by(CHUNKS_AND_LINES).await;
}

#[tokio::test]
async fn http2_requests_when_downgraded_smuggle_nothing() {
    let mut attacked = Attacked::start().await;
    attacked.assert_others_are_answered("before").await;
    for attack in DOWNGRADES {
        attacked.send_frames(attack).await;
    }
    attacked.end(DOWNGRADES.len()).await;
}
