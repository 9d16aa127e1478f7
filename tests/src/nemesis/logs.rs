//! Log lines about changes on their way to the edges, added to the history: when each was published, read and
//! acknowledged, and the events that delayed it.

use super::deployment::{CONTROL_PLANES, DisturbedDeployment, ENVOYS};
use super::history::{History, Step, What};
use std::fs;
use std::time::Duration;

/// Reads the logs of control planes and Envoys.
pub(super) fn read(deployment: &DisturbedDeployment, history: &History) {
    let control_planes = (0..CONTROL_PLANES).map(|number| format!("cp-{number}"));
    let envoys = (0..ENVOYS).map(|number| format!("envoy-{number}"));
    for part in control_planes.chain(envoys) {
        let log = fs::read(deployment.folder().join(format!("{part}.log"))).unwrap_or_default();
        for line in String::from_utf8_lossy(&log).lines() {
            let time = time_of_day(line).and_then(|time| history.at_time_of_day(time));
            if let (Some(at), Some(step)) = (time, step(line)) {
                let part = part.clone();
                history.add(What::Logged { at, part, step });
            }
        }
    }
}

/// Time at the beginning of a line: `2026-11-26T13:40:44.123456Z`, or `[2026-11-26 13:40:44.123]`.
fn time_of_day(line: &str) -> Option<Duration> {
    let (_, time) = line.split_at_checked(11)?;
    let time = time.strip_prefix(['T', ' ']).unwrap_or(time);
    let end = time.find(|char: char| !char.is_ascii_digit() && char != ':' && char != '.')?;
    let mut units = time[..end].split(':');
    let (hours, minutes) = (units.next()?.parse::<u32>(), units.next()?.parse::<u32>());
    let seconds: f64 = units.next()?.parse().ok()?;
    let whole = hours.ok()? * 3600 + minutes.ok()? * 60;
    Some(Duration::from_secs(whole.into()) + Duration::try_from_secs_f64(seconds).ok()?)
}

/// Step described by a line, if it is a relevant one.
fn step(line: &str) -> Option<Step> {
    let says = |text: &str| line.contains(text);
    let field = |name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}="))?;
        rest.split([' ', '\u{1b}']).next().map(str::to_owned)
    };
    if says("a change is published") {
        return Some(Step::Published {
            key: field("key")?,
            woken: field("woken")?,
            store_millis: field("store_ms")?.parse().ok()?,
            redis_millis: field("redis_ms")?.parse().ok()?,
        });
    }
    if says("a change is read") {
        return Some(Step::Read { key: field("key")? });
    }
    if says("the wait for a change has ended") {
        let (key, wait) = (field("key")?, field("outcome")?);
        return Some(Step::Acknowledged { key, wait });
    }
    if says("lease changed hands") || says("giving the lease to other control planes") {
        return Some(Step::LeaseChanged);
    }
    if says("the feed in Redis") {
        return Some(Step::RedisChanged);
    }
    if says("a poll is refused") {
        let (_, why) = line.split_once("error=")?;
        return Some(Step::PollRefused {
            why: why.to_owned(),
        });
    }
    if let Some((_, why)) = line.split_once("poll: failed, ") {
        return Some(Step::PollFailed {
            why: why.to_owned(),
        });
    }
    says("poll: works again").then_some(Step::PollWorks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_line_when_of_control_plane_or_envoy_is_read() {
        let line = "2026-11-26T01:02:03.250000Z DEBUG edgelink_feed::publisher::round: a change is published \
                    key=go.example/x woken=poll store_ms=12 redis_ms=3";
        let time = Duration::from_millis(((60 + 2) * 60 + 3) * 1000 + 250);
        let published = Step::Published {
            key: "go.example/x".to_owned(),
            woken: "poll".to_owned(),
            store_millis: 12,
            redis_millis: 3,
        };
        assert_eq!(
            (time_of_day(line), step(line)),
            (Some(time), Some(published))
        );
        let line = "[2026-11-26 01:02:03.250][17][warning][wasm] [source/x.cc:1] wasm log: poll: failed, status 503; retrying";
        let failed = Step::PollFailed {
            why: "status 503; retrying".to_owned(),
        };
        assert_eq!((time_of_day(line), step(line)), (Some(time), Some(failed)));
        assert_eq!(time_of_day("no time"), None);
        assert_eq!(
            step("2026-11-26T01:02:03.250000Z  INFO edgelink: listening"),
            None
        );
    }
}
