//! The secrets of visitor tokens: shared while their day lasts, and nowhere after it.

use edgelink_tests::nemesis::clock::{self, MovableClock};
use edgelink_tests::scenario::Request;
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::{Connection, ControlPlane, EDGE_TOKEN, until};
use edgelink_wire::clicks::encode;
use edgelink_wire::clicks::visitor_keys::VisitorKeys;
use memchr::memmem;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

const DAY_MICROS: i64 = 86_400_000_000;

/// How much of a process's memory is read at once.
const CHUNK: usize = 1 << 20;

/// Starts a control plane that looks at this clock.
async fn start(clock: &MovableClock, store: &str) -> ControlPlane {
    let mut command = Command::new("true");
    clock.apply(&mut command);
    let variable = |(name, value): (&OsStr, Option<&OsStr>)| {
        let value = value.and_then(OsStr::to_str).unwrap_or_default();
        (name.to_string_lossy().into_owned(), value.to_owned())
    };
    let of_clock: Vec<(String, String)> = command.get_envs().map(variable).collect();
    let mut variables = vec![("EDGELINK_STORE_URL", store)];
    variables.extend(of_clock.iter().map(|(name, value)| (&**name, &**value)));
    ControlPlane::with_variables(&variables).await
}

/// The secrets that a worker gets which has none.
async fn first_keys(control_plane: &ControlPlane) -> VisitorKeys {
    keys(&mut control_plane.connect().await).await
}

/// Those of a later day, once the process is in it.
async fn keys_of_the_next_day(control_plane: &ControlPlane, until_when: u64) -> VisitorKeys {
    until("the next day's secret", LIMIT, async || {
        let keys = first_keys(control_plane).await;
        (keys.all()[0].from >= until_when).then_some(keys)
    })
    .await
}

/// How often the bytes are in the memory of a process.
fn copies(control_plane: &mut ControlPlane, bytes: &[u8]) -> usize {
    in_memory(control_plane.process().id(), bytes)
}

async fn keys(connection: &mut Connection) -> VisitorKeys {
    let token = format!("Bearer {EDGE_TOKEN}");
    let request = Request::new("POST", b"/edge/v1/clicks?visitorKeys=0")
        .header("authorization", token.as_bytes());
    let answer = connection.exchange(&request, &encode(&[])).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    VisitorKeys::decode(&answer.body).expect("secrets")
}

fn in_memory(process: u32, bytes: &[u8]) -> usize {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("the maps");
    let memory = File::open(format!("/proc/{process}/mem")).expect("the memory");
    let mut found = 0;
    for line in maps.lines() {
        let mut words = line.split(' ');
        let range = words.next().and_then(|range| range.split_once('-'));
        let (begin, end) = range.expect("a range");
        let [begin, end] = [begin, end].map(|at| u64::from_str_radix(at, 16).expect("an address"));
        if words.next().is_some_and(|rights| rights.starts_with("rw")) {
            found += in_range(&memory, begin, end, bytes);
        }
    }
    found
}

fn in_range(memory: &File, begin: u64, end: u64, bytes: &[u8]) -> usize {
    let overlap = bytes.len() - 1;
    let mut buffer = vec![0; CHUNK + overlap];
    let mut found = 0;
    let mut at = begin;
    while at < end {
        let length = usize::try_from(end - at)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        // What cannot be read, a guard for example, holds nothing.
        let Ok(read) = memory.read_at(&mut buffer[..length], at) else {
            return found;
        };
        found += memmem::find_iter(&buffer[..read], bytes).count();
        at += CHUNK as u64;
    }
    found
}

/// The files below a folder that hold the bytes.
fn in_files(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(in_files(&path, bytes));
        } else if fs::read(&path).is_ok_and(|file| memmem::find(&file, bytes).is_some()) {
            found.push(path);
        }
    }
    found
}

async fn gone_from_memory(control_plane: &mut ControlPlane, secret: &[u8]) {
    until("no copy in memory", LIMIT, async || {
        (copies(control_plane, secret) == 0).then_some(())
    })
    .await;
}

/// Hands the secret out often, over many connections, so that copies would be left behind.
async fn hand_out(control_plane: &ControlPlane) {
    for _ in 0..20 {
        let mut connection = control_plane.connect().await;
        for _ in 0..10 {
            keys(&mut connection).await;
        }
    }
}

#[tokio::test]
async fn secret_when_its_day_is_over_is_in_no_sqlite_file_or_memory() {
    let folder = TempDir::new().expect("a folder");
    clock::compile(folder.path());
    let clock = MovableClock::of(folder.path(), "one");
    let database = TempDir::new().expect("a folder");
    let url = format!("sqlite://{}", database.path().join("edgelink.db").display());
    let mut control_plane = start(&clock, &url).await;
    let today = first_keys(&control_plane).await;
    let key = &today.all()[0];
    hand_out(&control_plane).await;
    assert!(copies(&mut control_plane, &**key.secret) >= 1);
    assert_eq!(in_files(database.path(), &**key.secret).len(), 1);
    clock.move_by(DAY_MICROS);
    let next = keys_of_the_next_day(&control_plane, key.until).await;
    assert_ne!(next.all()[0].secret, key.secret);
    until("no file with the secret", LIMIT, async || {
        let files = in_files(database.path(), &**key.secret);
        files.is_empty().then_some(())
    })
    .await;
    gone_from_memory(&mut control_plane, &**key.secret).await;
    assert!(copies(&mut control_plane, &**next.all()[0].secret) >= 1);
}

#[tokio::test]
async fn secret_when_its_day_is_over_is_in_no_mariadb_table_or_memory() {
    let folder = TempDir::new().expect("a folder");
    clock::compile(folder.path());
    let clock = MovableClock::of(folder.path(), "both");
    let server = MariaDb::start();
    let one = start(&clock, &server.database()).await;
    let mut replicas = [one.replica().await, one];
    let today = first_keys(&replicas[0]).await;
    let key = &today.all()[0];
    for replica in &mut replicas {
        assert_eq!(first_keys(replica).await.all()[0].secret, key.secret);
        hand_out(replica).await;
        assert!(copies(replica, &**key.secret) >= 1);
    }
    // Its pages are written to the file, where the secret is.
    server.execute("FLUSH TABLES test_0.visitor_secrets FOR EXPORT");
    let tables = server.data().join("test_0");
    assert_eq!(in_files(&tables, &**key.secret).len(), 1);
    clock.move_by(DAY_MICROS);
    for replica in &mut replicas {
        let next = keys_of_the_next_day(replica, key.until).await;
        assert_ne!(next.all()[0].secret, key.secret);
        gone_from_memory(replica, &**key.secret).await;
    }
    until("no table with the secret", LIMIT, async || {
        in_files(&tables, &**key.secret).is_empty().then_some(())
    })
    .await;
    let rest = in_files(&server.data(), &**key.secret);
    println!("what the server still has of it: {rest:?}");
}
