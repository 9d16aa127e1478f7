//! Servers and connections that fail: each chunk counts once, and errors name what is wrong.

use crate::clickhouse::fixture::{chunk, engine, start};
use crate::engines::answers::{assert_answers, assert_breakdown};
use crate::engines::fixture::{CLICKHOUSE, about, in_clickhouse};
use crate::engines::model::Model;
use crate::engines::random::{Random, midnight};
use crate::store::clicking::{Clicking, batch, now, report};
use edgelink_click_store::ClickReport;
use edgelink_clicks::analytics::{Chunk, ClickHouse, Engine, MAX_VALUES, Turn, Visitors};
use edgelink_model::counts::{Attribute, ClickScope};
use edgelink_settings::config::{AnalyticsConfig, FileText};
use edgelink_tests::servers::ClickHouseServer;
use edgelink_tests::stack::{free_port, until};
use edgelink_wire::clicks::ClickBatch;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_secs(60);

/// Where a connection to ClickHouse is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Nowhere.
    None,
    /// Once so many bytes of an insert have come.
    After(usize),
    /// Once all of an insert was passed on, while the server works on it.
    Sent,
    /// When the answer to an insert comes, which is not passed on.
    BeforeAnswer,
}

/// A TCP proxy that cuts one insert.
struct Proxy {
    address: SocketAddr,
    cut: Mutex<Cut>,
    /// Tells that a connection was cut.
    was_cut: Notify,
}

impl Proxy {
    async fn start(port: u16) -> Arc<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let listener = TcpListener::bind(address).await.unwrap();
        let proxy = Arc::new(Self {
            address,
            cut: Mutex::new(Cut::None),
            was_cut: Notify::new(),
        });
        let accepting = Arc::clone(&proxy);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let proxy = Arc::clone(&accepting);
                tokio::spawn(async move {
                    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
                    if let Ok(server) = server {
                        proxy.forward(client, server).await;
                    }
                });
            }
        });
        proxy
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn set(&self, cut: Cut) {
        *self.cut.lock().unwrap() = cut;
    }

    /// Passes bytes on, and returns, by which both connections end, where the cut is.
    async fn forward(&self, mut client: TcpStream, mut server: TcpStream) {
        let (mut request, mut answer) = (vec![0; 4096], vec![0; 4096]);
        let (mut of_insert, mut end) = (0, Vec::new());
        loop {
            tokio::select! {
                read = client.read(&mut request) => {
                    let Ok(count @ 1..) = read else { return };
                    let is_insert = of_insert > 0 || contains(&request[..count], b"INSERT");
                    of_insert += if is_insert { count } else { 0 };
                    let sent = self.sent(of_insert, count);
                    if server.write_all(&request[..sent]).await.is_err() || sent < count {
                        return;
                    }
                    end.extend_from_slice(&request[..count]);
                    end.drain(..end.len().saturating_sub(LAST_CHUNK.len()));
                    let has_ended = of_insert > 0 && end == LAST_CHUNK;
                    if has_ended && self.takes(Cut::Sent) {
                        return;
                    }
                }
                read = server.read(&mut answer) => {
                    let Ok(count @ 1..) = read else { return };
                    if of_insert > 0 && self.takes(Cut::BeforeAnswer) {
                        return;
                    }
                    of_insert = 0;
                    if client.write_all(&answer[..count]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// How many of the last `count` bytes are passed on, of so many of an insert.
    fn sent(&self, of_insert: usize, count: usize) -> usize {
        let cut = *self.cut.lock().unwrap();
        match cut {
            Cut::After(limit) if of_insert > limit && self.takes(cut) => {
                count - (of_insert - limit).min(count)
            }
            _ => count,
        }
    }

    fn takes(&self, cut: Cut) -> bool {
        let mut current = self.cut.lock().unwrap();
        let takes = *current == cut;
        if takes {
            *current = Cut::None;
            self.was_cut.notify_one();
        }
        takes
    }
}

/// The end of the body of an insert.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

/// Repeats an insert until it succeeds.
async fn insert_at_last(engine: &ClickHouse, insert_id: u64, whole: &Chunk) {
    until("it is written", PATIENCE, async || {
        engine.insert(insert_id, whole).await.ok()
    })
    .await;
}

/// Clicks of links that need not be there.
fn random() -> Random {
    Random::new([1, 2, 3, 4], false)
}

/// Asserts that everything is there once.
async fn assert_once(engine: &ClickHouse, model: &Model) {
    let links = ClickScope::Links((0..20).collect());
    let scopes = [ClickScope::Tenant(1), ClickScope::Tenant(2), links];
    let days = (midnight(), &[0..72, 0..48, 24..72][..]);
    assert_answers((engine, model), &mut random(), &scopes, days).await;
    for scope in scopes {
        let query = about(scope, midnight(), 0..72);
        for by in [Attribute::Country, Attribute::Tag, Attribute::Link] {
            assert_breakdown(engine, model, &query, by, MAX_VALUES).await;
        }
    }
    let orphans = engine.delete_orphans(1).await.unwrap();
    assert_eq!(orphans, model.orphans_of(1));
}

/// Where the inserts of a test are cut. An insert of a day has 15 kB.
fn cuts() -> impl Iterator<Item = Cut> {
    let cuts = [0, 700, 9_000].map(Cut::After);
    let later = [Cut::Sent, Cut::BeforeAnswer].repeat(3);
    cuts.into_iter().chain(later)
}

#[tokio::test]
async fn chunk_when_written_again_after_a_cut_counts_once() {
    let server = ClickHouseServer::start();
    let proxy = Proxy::start(server.port()).await;
    let engine = engine(&in_clickhouse(&proxy.url())).await;
    let mut random = random();
    let mut model = Model::new(&CLICKHOUSE);
    for (insert_id, cut) in (1 << 40..).zip(cuts().chain([Cut::None])) {
        let clicks = random.clicks(500, midnight());
        let orphans = random.orphans(20, midnight());
        let whole = chunk(&clicks, orphans.clone());
        model.clicks.extend(clicks);
        model.orphans.extend(orphans);
        // The tables are there.
        engine.totals(&[1]).await.unwrap();
        proxy.set(cut);
        let first = engine.insert(insert_id, &whole).await;
        assert_eq!(first.is_err(), cut != Cut::None, "{cut:?}: {first:?}");
        insert_at_last(&engine, insert_id, &whole).await;
        engine.insert(insert_id, &whole).await.unwrap();
    }
    assert_once(&engine, &model).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chunk_when_the_server_is_killed_meanwhile_counts_once() {
    let mut server = ClickHouseServer::start();
    let proxy = Proxy::start(server.port()).await;
    let engine = engine(&in_clickhouse(&proxy.url())).await;
    let mut random = random();
    let mut model = Model::new(&CLICKHOUSE);
    engine.totals(&[1]).await.unwrap();
    for (insert_id, cut) in (5..).zip(cuts()) {
        let clicks = random.clicks(500, midnight());
        model.clicks.extend(clicks.clone());
        let whole = Arc::new(chunk(&clicks, Vec::new()));
        proxy.set(cut);
        let (writing, written) = (Arc::clone(&engine.engine), Arc::clone(&whole));
        let first = tokio::spawn(async move { writing.insert(insert_id, &written).await });
        let cut_off = tokio::time::timeout(PATIENCE, proxy.was_cut.notified()).await;
        cut_off.unwrap_or_else(|_| panic!("{cut:?} is never reached"));
        server.kill();
        assert!(first.await.unwrap().is_err());
        server.restart();
        insert_at_last(&engine, insert_id, &whole).await;
    }
    assert_once(&engine, &model).await;
}

#[tokio::test]
async fn views_when_missed_by_an_insert_are_filled_by_its_repetition() {
    // Rollups of clicks, and of their rollups.
    const MISSED: [&str; 2] = ["domain_hours_view", "link_totals_view"];
    let (mut server, engine) = start().await;
    let mut random = random();
    let mut model = Model::new(&CLICKHOUSE);
    for insert_id in 1..4 {
        let clicks = random.clicks(400, midnight());
        model.clicks.extend(clicks.clone());
        let whole = chunk(&clicks, Vec::new());
        if insert_id == 2 {
            for view in MISSED {
                let _ = server.ask(&format!("DETACH TABLE edgelink.{view}"));
            }
            engine.insert(insert_id, &whole).await.unwrap();
            let links: Vec<u64> = (0..20).collect();
            assert_ne!(engine.totals(&links).await.unwrap(), model.sums());
            for view in MISSED {
                let _ = server.ask(&format!("ATTACH TABLE edgelink.{view}"));
            }
            for table in ["link_hours", "domain_hours"] {
                let _ = server.ask(&format!("OPTIMIZE TABLE edgelink.{table} FINAL"));
            }
        }
        engine.insert(insert_id, &whole).await.unwrap();
        if insert_id == 2 {
            // Tokens of merged rows are remembered, by the next process too.
            server.kill();
            server.restart();
        }
        insert_at_last(&engine, insert_id, &whole).await;
    }
    assert_once(&engine, &model).await;
}

#[tokio::test]
async fn server_when_it_does_not_answer_is_skipped_for_a_moment() {
    let server = ClickHouseServer::start();
    let engine = engine(&AnalyticsConfig {
        clickhouse_timeout_ms: Duration::from_millis(300),
        ..in_clickhouse(&server.url())
    })
    .await;
    until("it answers", PATIENCE, async || {
        engine.totals(&[1]).await.ok()
    })
    .await;
    server.stop();
    let late = until("it is late", PATIENCE, async || {
        engine.totals(&[1]).await.err()
    })
    .await;
    let late = late.to_string();
    assert!(late.contains("timeout"), "{late}");
    let skipped = engine.totals(&[1]).await.unwrap_err().to_string();
    assert!(skipped.contains("did not answer a moment ago"), "{skipped}");
    server.cont();
    until("it answers again", PATIENCE, async || {
        engine.totals(&[1]).await.ok()
    })
    .await;
}

#[tokio::test]
async fn tables_when_gone_are_made_again() {
    let (server, engine) = start().await;
    let query = about(ClickScope::Tenant(1), midnight(), 0..72);
    let mut model = Model::new(&CLICKHOUSE);
    model.clicks = random().clicks(300, midnight());
    let whole = chunk(&model.clicks, Vec::new());
    engine.insert(1, &whole).await.unwrap();
    let _ = server.ask("DROP DATABASE edgelink");
    assert!(engine.count(&query, Visitors::Counted).await.is_err());
    assert_eq!(
        engine
            .count(&query, Visitors::Counted)
            .await
            .unwrap()
            .clicks,
        0
    );
    let _ = server.ask("DROP DATABASE edgelink");
    assert!(engine.insert(2, &whole).await.is_err());
    engine.insert(2, &whole).await.unwrap();
    let found = engine.count(&query, Visitors::Counted).await;
    let expected = model.count(&query, Visitors::Counted).await;
    assert_eq!(found.unwrap(), expected.unwrap());
}

#[tokio::test]
async fn errors_when_a_server_cannot_be_used_name_what_is_wrong() {
    let server = ClickHouseServer::with_password("right");
    let wrong = in_clickhouse(&server.url());
    let error = engine(&wrong)
        .await
        .totals(&[1])
        .await
        .unwrap_err()
        .to_string();
    assert!(error.to_lowercase().contains("password"), "{error}");
    let right = AnalyticsConfig {
        clickhouse_password_file: Some(FileText::new("right\n")),
        ..wrong
    };
    engine(&right).await.totals(&[1]).await.unwrap();

    let other = AnalyticsConfig {
        clickhouse_database: "other".to_owned(),
        ..right.clone()
    };
    let _ = server.ask("CREATE DATABASE other");
    let _ = server.ask("CREATE TABLE other.link_hours (link_id UInt64) ENGINE = Log");
    let error = engine(&other)
        .await
        .totals(&[1])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("link_hours") && error.contains("is not as it must be"),
        "{error}"
    );

    let old = in_clickhouse(&start_of_version("24.7.9.1").await);
    let error = engine(&old).await.totals(&[1]).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("24.7.9.1") && error.contains("24.8"),
        "{error}"
    );

    let gone = in_clickhouse(&format!("http://127.0.0.1:{}", free_port()));
    let error = engine(&gone)
        .await
        .totals(&[1])
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("refused"), "{error}");
}

/// Starts a server that answers everything with its version, in the format `RowBinary`; returns its URL.
async fn start_of_version(version: &'static str) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let length = u8::try_from(version.len()).unwrap();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}{version}",
        1 + length,
        char::from(length)
    );
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = client.read(&mut request).await;
            let _ = client.write_all(answer.as_bytes()).await;
            // The client closes the connection, once it has sent all.
            while let Ok(1..) = client.read(&mut request).await {}
        }
    });
    url
}

/// A report of so many clicks.
fn of_clicks(seq: u64, clicks: u64) -> ClickReport {
    let batch = ClickBatch {
        clicks: vec![("a.example/code", clicks)],
        ..batch([7; 16], seq)
    };
    report(&[batch], now())
}

#[tokio::test]
async fn reports_when_their_insert_was_cut_off_are_written_again() {
    let server = ClickHouseServer::start();
    let proxy = Proxy::start(server.port()).await;
    let settings = in_clickhouse(&proxy.url());
    let engine = engine(&settings).await;
    engine.totals(&[1]).await.unwrap();
    let (store, clicks) = (&engine.store, engine.store.clicks());
    let first: Vec<ClickReport> = (1..4).map(|seq| of_clicks(seq, seq)).collect();
    clicks.count_clicks(&first).await.unwrap();
    proxy.set(Cut::BeforeAnswer);
    let clicking = |settings: &_| Clicking::over(engine.engine.clone(), store.clone(), settings);
    let mut interrupted = clicking(&settings);
    assert!(interrupted.writer.turn().await.is_err());
    let second: Vec<ClickReport> = (4..6).map(|seq| of_clicks(seq, 1000)).collect();
    clicks.count_clicks(&second).await.unwrap();
    // Chunks of a report each, but for those of the insert.
    let mut again = clicking(&AnalyticsConfig {
        chunk_clicks: 1,
        chunk_bytes: 1,
        ..settings
    });
    drop(interrupted);
    let idle = async || (again.writer.turn().await.ok()? == Turn::Idle).then_some(());
    until("all is written", PATIENCE, idle).await;
    let query = about(ClickScope::Tenant(0), midnight(), 0..96);
    let found = engine.count(&query, Visitors::Counted).await.unwrap();
    assert_eq!(found.clicks, 2006);
    assert_eq!(clicks.queued_bytes().await.unwrap(), 0);
}
