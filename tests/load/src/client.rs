//! An HTTP client that keeps to a rate.
//!
//! Requests are due at equal intervals, and latency counts from when a request was due, not from when it could be sent:
//! what a slow answer holds up is measured too ("coordinated omission" is what leaving that out is called).

use crate::connection::Connection;
use crate::{Pick, Traffic};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// For how long answers are waited for at the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked for, how fast and for how long.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskSpec {
    /// The server.
    pub address: SocketAddr,
    /// The `Host` header.
    pub host: String,
    /// A file of paths, one a line.
    pub paths: PathBuf,
    /// Which of them comes next.
    pub pick: Pick,
    /// What `pick` is random by.
    pub seed: u64,
    /// Requests a second; 0 for as fast as they are answered.
    pub rate: f64,
    /// Requests in all.
    pub requests: u64,
    /// Connections.
    pub connections: usize,
    /// What every answer has to be.
    pub status: u16,
}

/// What became of the requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AskReport {
    /// Answers as they should be.
    pub answers: u64,
    /// Answers with another status.
    pub wrong: u64,
    /// Requests that were not answered.
    pub unanswered: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Microseconds that half of all answers took at most.
    pub p50: u32,
    /// The same of 99 per cent.
    pub p99: u32,
    /// The longest.
    pub max: u32,
}

/// Asks.
///
/// # Errors
/// Those of the file, and of connecting.
pub fn ask(spec: &AskSpec) -> io::Result<AskReport> {
    // By default the kernel may wake a sleeper 50 microseconds late, which would count as latency.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let text = std::fs::read_to_string(&spec.paths)?;
    let open = |_| Connection::open(spec.address);
    let start = Instant::now();
    let mut client = Client {
        spec,
        paths: text.lines().collect(),
        traffic: Traffic::new(spec.pick, text.lines().count(), spec.seed),
        connections: (0..spec.connections).map(open).collect::<io::Result<_>>()?,
        sent: 0,
        start,
        latencies: Vec::new(),
        report: AskReport::default(),
    };
    client.start = Instant::now();
    client.run()?;
    Ok(client.finish())
}

struct Client<'a> {
    spec: &'a AskSpec,
    paths: Vec<&'a str>,
    traffic: Traffic,
    connections: Vec<Connection>,
    sent: u64,
    start: Instant,
    latencies: Vec<u32>,
    report: AskReport,
}

impl Client<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut last = Instant::now();
        loop {
            self.send_due()?;
            let pending = self.connections.iter().any(|each| each.due.is_some());
            if self.sent >= self.spec.requests && (!pending || last.elapsed() > PATIENCE) {
                return Ok(());
            }
            if self.receive()? {
                last = Instant::now();
            }
        }
    }

    /// When the next request is to be sent.
    fn due(&self) -> Instant {
        if self.spec.rate == 0.0 {
            return Instant::now();
        }
        self.start + Duration::from_secs_f64(self.sent as f64 / self.spec.rate)
    }

    fn send_due(&mut self) -> io::Result<()> {
        for index in 0..self.connections.len() {
            let due = self.due();
            if self.sent >= self.spec.requests || due > Instant::now() {
                return Ok(());
            }
            if self.connections[index].due.is_some() {
                continue;
            }
            let path = self.traffic.next().map_or("/", |place| self.paths[place]);
            let host = &self.spec.host;
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            self.connections[index].send(request.as_bytes(), due)?;
            self.sent += 1;
        }
        Ok(())
    }

    /// Waits for answers until the next request is due. Whether any came.
    fn receive(&mut self) -> io::Result<bool> {
        let ready = self.await_ready()?;
        for index in &ready {
            let connection = &mut self.connections[*index];
            let Some(status) = connection.receive()? else {
                continue;
            };
            let Some(due) = connection.due.take() else {
                return Err(io::Error::other("an answer that nobody asked for"));
            };
            let latency = u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX);
            self.latencies.push(latency);
            if status == self.spec.status {
                self.report.answers += 1;
            } else {
                self.report.wrong += 1;
            }
        }
        Ok(!ready.is_empty())
    }

    /// The connections that have something to read.
    fn await_ready(&self) -> io::Result<Vec<usize>> {
        let waiting = |connection: &&Connection| connection.due.is_some();
        let is_all_busy = self.connections.iter().all(|each| each.due.is_some());
        let pause = if is_all_busy || self.sent >= self.spec.requests {
            Duration::from_millis(100)
        } else {
            self.due().saturating_duration_since(Instant::now())
        };
        let timeout = Timespec {
            tv_sec: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(pause.subsec_nanos()),
        };
        let places = self.connections.iter().enumerate();
        let places: Vec<usize> = places
            .filter(|(_, each)| waiting(each))
            .map(|(place, _)| place)
            .collect();
        let streams = places.iter().map(|place| &self.connections[*place].stream);
        let mut fds: Vec<PollFd<'_>> = streams
            .map(|stream| PollFd::new(stream, PollFlags::IN))
            .collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let ready = places.iter().zip(ready).filter(|(_, ready)| *ready);
        Ok(ready.map(|(place, _)| *place).collect())
    }

    fn finish(mut self) -> AskReport {
        self.latencies.sort_unstable();
        let count = self.latencies.len();
        let at = |share: f64| {
            let place = ((count as f64 * share) as usize).min(count.saturating_sub(1));
            self.latencies.get(place).copied().unwrap_or(0)
        };
        AskReport {
            unanswered: self.sent - count as u64,
            seconds: self.start.elapsed().as_secs_f64(),
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
            ..self.report
        }
    }
}
