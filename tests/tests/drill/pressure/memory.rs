//! The memory that uploads and bulk requests take of a control plane.

use edgelink_tests::stack::{ControlPlane, until};
use reqwest::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// The goal for each row.
const MOST_BYTES: u64 = 128 << 20;

/// How long each file and body is: a little less than what is taken.
const BYTES: usize = 31 << 20;

const BOUNDARY: &str = "--of-this-drill";

/// `make pressure`: what one client with the weakest key that writes can make a process hold.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn memory() {
    let mut control_plane = ControlPlane::start().await;
    let mut keys = Vec::new();
    for role in ["creator", "editor"] {
        let key = json!({ "name": role, "role": role });
        let made = control_plane.api("POST", "/keys", &key).await;
        keys.push(made.text("key").to_owned());
    }
    let weak = Weak::log_in(&control_plane, keys).await;
    // What a process takes for its first request of a kind.
    weak.import("edgelink", "https://example.com/\n").await;
    weak.bulk(
        "POST",
        "/links/bulk",
        &json!([{ "longUrl": "https://example.com/" }]).to_string(),
    )
    .await;
    let memory = Memory(control_plane.process().id());
    println!(
        "\n{:<44} {:>8} {:>8} {:>8}   (goal: at most {} MiB more)",
        "",
        "before",
        "peak",
        "more",
        MOST_BYTES >> 20
    );
    let mut missed = Vec::new();
    for (what, format, file) in files() {
        let more = memory.of(what, weak.import(format, &file)).await;
        missed.extend((more > MOST_BYTES).then_some(what));
    }
    let what = "the first of them, four times at once";
    let (_, format, file) = &files()[0];
    let four = async {
        tokio::join!(
            weak.import(format, file),
            weak.import(format, file),
            weak.import(format, file),
            weak.import(format, file)
        );
    };
    let more = memory.of(what, four).await;
    missed.extend((more > MOST_BYTES).then_some(what));
    for (what, method, path, body) in bodies() {
        let more = memory.of(what, weak.bulk(method, path, &body)).await;
        missed.extend((more > MOST_BYTES).then_some(what));
    }
    assert!(missed.is_empty(), "more than the goal: {missed:?}");
}

/// A unit, again and again.
fn filled(begin: &str, unit: &str, end: &str) -> String {
    [begin, unit.repeat(BYTES / unit.len()).as_str(), end].concat()
}

/// Files that have little in them, but for the last ones.
fn files() -> Vec<(&'static str, &'static str, String)> {
    vec![
        ("kutt, numbers in a list", "kutt", filled("[", "0,", "0]")),
        (
            "kutt, numbers in a link",
            "kutt",
            filled("[{\"a\":[", "0,", "0]}]"),
        ),
        (
            "yourls, commas in a row",
            "yourls",
            filled("INSERT INTO yourls_url VALUES (", ",", ")"),
        ),
        (
            "csv, commas in a row",
            "csv",
            filled("longUrl,slug\n", ",", "\n"),
        ),
        ("lines without an end", "edgelink", filled("", "x", "")),
        (
            "kutt, links",
            "kutt",
            filled(
                "[",
                "{\"target\":\"https://example.com/\",\"address\":\"a\"},",
                "{}]",
            ),
        ),
        (
            "csv, rows that are refused",
            "csv",
            filled("longUrl,slug\n", "x,y\n", ""),
        ),
    ]
}

fn bodies() -> Vec<(&'static str, &'static str, &'static str, String)> {
    let fields: Vec<String> = (0..6_500)
        .map(|number| format!("\"{number:04}\":1"))
        .collect();
    let wrong = format!("{{{}}},", fields.join(","));
    let wrong = filled("[", &wrong, "{}]");
    let notes = "n".repeat(4_000);
    let large = format!("{{\"longUrl\":\"https://example.com/\",\"notes\":\"{notes}\"}},");
    let large = filled("[", &large, "{\"longUrl\":\"https://example.com/\"}]");
    vec![
        ("POST, unknown fields", "POST", "/links/bulk", wrong.clone()),
        (
            "PATCH, unknown fields",
            "PATCH",
            "/links/bulk",
            wrong.clone(),
        ),
        ("import, unknown fields", "POST", "/import", wrong),
        ("POST, long notes", "POST", "/links/bulk", large.clone()),
        ("import, long notes", "POST", "/import", large.clone()),
        (
            "import, long notes, tried out",
            "POST",
            "/import?dryRun=true",
            large,
        ),
    ]
}

/// The memory of a process.
struct Memory(u32);

impl Memory {
    /// How many bytes more the process holds at most during the work than before it.
    async fn of(&self, what: &str, work: impl Future<Output = ()>) -> u64 {
        self.settle().await;
        let before = self.bytes("VmRSS");
        // See proc_pid_clear_refs(5): the peak begins again.
        fs::write(format!("/proc/{}/clear_refs", self.0), "5").expect("a peak");
        work.await;
        let peak = self.bytes("VmHWM");
        let more = peak.saturating_sub(before);
        let mebibytes = |bytes: u64| bytes >> 20;
        println!(
            "{what:<44} {:>8} {:>8} {:>8}",
            mebibytes(before),
            mebibytes(peak),
            mebibytes(more)
        );
        more
    }

    /// Waits until what was freed is given back.
    async fn settle(&self) {
        let start = Instant::now();
        let mut last = self.bytes("VmRSS");
        while start.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.bytes("VmRSS");
            if now >= last {
                return;
            }
            last = now;
        }
    }

    fn bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).expect("a status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .expect("a field");
        let kibibytes = line.trim_start_matches(':').trim().trim_end_matches(" kB");
        kibibytes.parse::<u64>().expect("a number") << 10
    }
}

/// A client of the API and of the console with the weakest keys.
struct Weak {
    client: Client,
    base: String,
    /// Of one that may create links, and of one that may change them.
    keys: Vec<String>,
    cookie: String,
}

impl Weak {
    async fn log_in(control_plane: &ControlPlane, keys: Vec<String>) -> Self {
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build();
        let mut weak = Self {
            client: client.expect("a client"),
            base: format!("http://{}", control_plane.address()),
            keys,
            cookie: String::new(),
        };
        let page = answer(weak.get("/console/login")).await;
        weak.cookie = cookie(&page);
        let token = token(page).await;
        let form = format!("csrf={token}&key={}", weak.keys[0]);
        let post = weak.client.post(format!("{}/console/login", weak.base));
        let post = post.header(COOKIE, &weak.cookie);
        let post = post
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        let logged_in = answer(post).await;
        assert_eq!(logged_in.status(), 303);
        weak.cookie = cookie(&logged_in);
        weak
    }

    fn get(&self, path: &str) -> RequestBuilder {
        let get = self.client.get(format!("{}{path}", self.base));
        get.header(COOKIE, &self.cookie)
    }

    /// Sends a file, waits until it was tried out, and deletes it.
    async fn import(&self, format: &str, file: &str) {
        let token = token(answer(self.get("/console/login")).await).await;
        let mut body = String::new();
        for (name, value) in [("csrf", token.as_str()), ("format", format)] {
            body += &format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            );
        }
        body += &format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
        );
        body += file;
        body += &format!("\r\n--{BOUNDARY}--\r\n");
        let post = self.client.post(format!("{}/console/imports", self.base));
        let post = post.header(COOKIE, &self.cookie);
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let sent = answer(post.header(CONTENT_TYPE, kind).body(body)).await;
        assert_eq!(sent.status(), 303, "{}", sent.text().await.expect("a page"));
        let page = sent.headers()[LOCATION]
            .to_str()
            .expect("a path")
            .to_owned();
        until(
            "the file was tried out",
            Duration::from_secs(300),
            async || {
                let shown = answer(self.get(&page)).await;
                (!shown.headers().contains_key("refresh")).then_some(())
            },
        )
        .await;
        let delete = self.client.post(format!("{}{page}/delete", self.base));
        let delete = delete.header(COOKIE, &self.cookie);
        let delete = delete.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        assert_eq!(
            answer(delete.body(format!("csrf={token}"))).await.status(),
            303
        );
    }

    /// Sends a bulk request, and reads its answer.
    async fn bulk(&self, method: &str, path: &str, body: &str) {
        let key = &self.keys[usize::from(method == "PATCH")];
        let method = method.parse().expect("a method");
        let request = self
            .client
            .request(method, format!("{}/api/v1{path}", self.base));
        let request = request.header("x-api-key", key);
        let request = request.header(CONTENT_TYPE, "application/json");
        let sent = answer(request.body(body.to_owned())).await;
        assert_eq!(sent.status(), 200);
        let read: Value = sent.json().await.expect("an answer");
        assert!(!read["results"].as_array().expect("results").is_empty());
    }
}

async fn answer(request: RequestBuilder) -> Response {
    request.send().await.expect("an answer")
}

fn cookie(answer: &Response) -> String {
    let cookie = answer.headers()[SET_COOKIE].to_str().expect("a cookie");
    let (cookie, _) = cookie.split_once(';').expect("a cookie");
    cookie.to_owned()
}

/// The token of forms on a page.
async fn token(page: Response) -> String {
    let page = page.text().await.expect("a page");
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form");
    rest[..64].to_owned()
}
