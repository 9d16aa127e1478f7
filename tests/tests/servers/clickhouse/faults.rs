//! Servers and connections that fail: each chunk counts once, and errors name what is wrong.

use crate::clickhouse::fixture::{
    DAY, Random, TestEngine, chunk, engine, midnight, settings, start,
};
use crate::clickhouse::model::Model;
use edgelink_click_store::ClickReport;
use edgelink_clicks::analytics::{
    AnalyticsQuery, Chunk, ClickHouse, ClickWriter, Engine, LinkResolver, Turn, Visitors,
};
use edgelink_clicks::read_report;
use edgelink_model::counts::{Attribute, Bots, ClickScope};
use edgelink_settings::config::{AnalyticsConfig, ClicksConfig, FileText};
use edgelink_tests::servers::ClickHouseServer;
use edgelink_tests::stack::{free_port, until};
use edgelink_wire::clicks::{ClickBatch, encode};
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

/// Asserts that everything is there once.
async fn assert_once(engine: &ClickHouse, model: &Model) {
    let links: Vec<u64> = (0..20).collect();
    assert_eq!(engine.totals(&links).await.unwrap(), model.totals());
    for scope in [
        ClickScope::Tenant(1),
        ClickScope::Tenant(2),
        ClickScope::Links(links),
    ] {
        let from = midnight();
        let query = AnalyticsQuery {
            scope,
            from,
            to: from + 3 * DAY,
            bots: Bots::Included,
        };
        assert_eq!(
            engine.count(&query, Visitors::Counted).await.unwrap(),
            model.count(&query),
            "{query:?}"
        );
        for by in [Attribute::Country, Attribute::Tag, Attribute::Link] {
            let (_, breakdown) = engine.breakdown(&query, by, 100).await.unwrap();
            assert_eq!(
                breakdown,
                model.breakdown(&query, by, 100),
                "{query:?} by {by:?}"
            );
        }
        if query.scope == ClickScope::Tenant(1) {
            let expected = model
                .orphans
                .iter()
                .filter(|orphan| orphan.tenant_id == 1)
                .count();
            assert_eq!(engine.delete_orphans(1).await.unwrap(), expected as u64);
        }
    }
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
    let engine = engine(&settings(&proxy.url())).await;
    let mut random = Random::new(21);
    let mut model = Model::default();
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
    let engine = engine(&settings(&proxy.url())).await;
    let mut random = Random::new(22);
    let mut model = Model::default();
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
    let mut random = Random::new(23);
    let mut model = Model::default();
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
            assert_ne!(engine.totals(&links).await.unwrap(), model.totals());
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
        ..settings(&server.url())
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
    let query = AnalyticsQuery {
        scope: ClickScope::Tenant(1),
        from: midnight(),
        to: midnight() + 3 * DAY,
        bots: Bots::Included,
    };
    let model = Model {
        clicks: Random::new(25).clicks(300, midnight()),
        ..Model::default()
    };
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
    let clicks = engine.count(&query, Visitors::Counted).await.unwrap();
    assert_eq!(clicks, model.count(&query));
}

#[tokio::test]
async fn errors_when_a_server_cannot_be_used_name_what_is_wrong() {
    let server = ClickHouseServer::with_password("right");
    let wrong = settings(&server.url());
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

    let old = settings(&start_of_version("24.7.9.1").await);
    let error = engine(&old).await.totals(&[1]).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("24.7.9.1") && error.contains("24.8"),
        "{error}"
    );

    let gone = settings(&format!("http://127.0.0.1:{}", free_port()));
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
fn report(seq: u64, clicks: u64) -> ClickReport {
    let now = midnight() + 2 * DAY;
    let batch = ClickBatch {
        worker: [7; 16],
        seq,
        at: now,
        clicks: vec![("a.example/code", clicks)],
        total: 100,
        ..ClickBatch::default()
    };
    read_report(encode(&[batch]).into(), now * 1000, Some(now)).expect("a report")
}

/// Writes the queue of an engine.
fn writer(engine: &TestEngine, settings: &AnalyticsConfig) -> ClickWriter {
    let resolver = LinkResolver::new(engine.store.clone(), 100);
    ClickWriter::new(
        engine.store.clone(),
        engine.engine.clone(),
        Arc::new(resolver),
        (settings, &ClicksConfig::default()),
        Arc::new(Notify::new()),
    )
}

#[tokio::test]
async fn reports_when_their_insert_was_cut_off_are_written_again() {
    let server = ClickHouseServer::start();
    let proxy = Proxy::start(server.port()).await;
    let settings = settings(&proxy.url());
    let engine = engine(&settings).await;
    engine.totals(&[1]).await.unwrap();
    let first: Vec<ClickReport> = (1..4).map(|seq| report(seq, seq)).collect();
    engine.store.clicks().count_clicks(&first).await.unwrap();
    proxy.set(Cut::BeforeAnswer);
    let mut interrupted = writer(&engine, &settings);
    assert!(interrupted.turn().await.is_err());
    let second: Vec<ClickReport> = (4..6).map(|seq| report(seq, 1000)).collect();
    engine.store.clicks().count_clicks(&second).await.unwrap();
    // Chunks of a report each, but for those of the insert.
    let small = AnalyticsConfig {
        chunk_clicks: 1,
        chunk_bytes: 1,
        ..settings
    };
    let mut again = writer(&engine, &small);
    drop(interrupted);
    let idle = async || (again.turn().await.ok()? == Turn::Idle).then_some(());
    until("all is written", PATIENCE, idle).await;
    let from = midnight();
    let query = AnalyticsQuery {
        scope: ClickScope::Tenant(0),
        from,
        to: from + 4 * DAY,
        bots: Bots::Included,
    };
    assert_eq!(
        engine
            .count(&query, Visitors::Counted)
            .await
            .unwrap()
            .clicks,
        2006
    );
    assert_eq!(engine.store.clicks().queued_bytes().await.unwrap(), 0);
}
