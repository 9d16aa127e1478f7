//! Speed of creating links, one per request.

use super::replica::Replica;
use crate::load::{requests, text_of, wrk};
use std::path::Path;
use std::time::Duration;

/// Makes every request different.
const SCRIPT: &str = r#"
local n = 0
local headers = { ["x-api-key"] = "KEY", ["content-type"] = "application/json" }
function request()
  n = n + 1
  local body = string.format('{"longUrl":"https://example.com/created/RUN/%d"}', n)
  return wrk.format("POST", "/api/v1/links", headers, body)
end
"#;

/// Results of creation.
pub(crate) struct Created {
    pub(crate) rate: f64,
    /// Latencies as printed by wrk.
    pub(crate) p50: String,
    pub(crate) p99: String,
}

/// Creates links for that time; all requests must succeed.
pub(crate) fn create(replica: &Replica, folder: &Path, key: &str, time: Duration) -> Created {
    let run = replica.address().port().to_string();
    let script = folder.join(format!("create-{run}.lua"));
    let text = SCRIPT.replace("KEY", key).replace("RUN", &run);
    std::fs::write(&script, text).expect("a script");
    let output = wrk(time)
        .args(["--timeout", "10s", "-s"])
        .arg(&script)
        .arg(format!("http://{}/", replica.address()))
        .output();
    let text = text_of(&output.expect("wrk"));
    let is_right = !text.contains("Non-2xx") && !text.contains("Socket errors");
    assert!(is_right, "{text}");
    Created {
        rate: requests(&text) as f64 / time.as_secs_f64(),
        p50: latency(&text, "50%"),
        p99: latency(&text, "99%"),
    }
}

/// Parses a line such as `     50%    1.23ms`.
fn latency(text: &str, share: &str) -> String {
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with(share));
    let value = line.and_then(|line| line.split_whitespace().nth(1));
    value.unwrap_or_default().to_owned()
}
