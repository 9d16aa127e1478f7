//! Group commit of reports: those that arrive during a commit are committed together.

use super::{IngestError, read_report};
use bytes::Bytes;
use edgelink_click_store::{ClickReport, ClickStore, TakenReports};
use edgelink_model::clock;
use edgelink_settings::telemetry::prometheus::{
    CLICK_BATCHES, CLICK_QUEUE_BYTES, CLICKS_COUNTED, CLICKS_DROPPED, CLICKS_UNDESCRIBED,
};
use edgelink_settings::telemetry::traces::{self, Trace};
use edgelink_store::StoreError;
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

/// The most reports that are committed together.
const MAX_REPORTS: usize = 64;

/// Most bytes of reports that are committed together, unless a single one has more.
const MAX_BYTES: usize = 8 << 20;

/// Interval between measurements of the queue while reports come in.
const MEASURING: Duration = Duration::from_secs(1);

/// Receives committed reports, without batches that were counted before.
pub type OnReport = Arc<dyn Fn(&Bytes) + Send + Sync>;

/// Puts reports into the queue.
#[derive(Clone)]
pub struct Reports {
    jobs: mpsc::Sender<ReportJob>,
}

/// A report that waits for its commit.
struct ReportJob {
    report: ClickReport,
    answer: oneshot::Sender<Result<(), IngestError>>,
    /// The trace of the request, if it is sampled. A commit that several share is in the trace of the first.
    trace: Option<Trace>,
}

/// The task that commits reports.
struct Committer {
    store: ClickStore,
    /// Wakes the writer of the queue.
    wake: Arc<Notify>,
    publish: OnReport,
    max_queued_bytes: u64,
    /// Bytes in the queue at the last measurement, plus those that this process has added since.
    queued_bytes: u64,
    measure_at: Instant,
}

impl Reports {
    /// Starts committing reports into `store` unless so many bytes wait there, and notifies `wake` after each commit. The task ends
    /// after its last commit when this is dropped.
    #[must_use]
    pub fn start(
        store: ClickStore,
        wake: Arc<Notify>,
        publish: OnReport,
        max_queued_bytes: u64,
    ) -> Self {
        let (jobs, waiting) = mpsc::channel(MAX_REPORTS);
        let committer = Committer {
            store,
            wake,
            publish,
            max_queued_bytes,
            queued_bytes: 0,
            measure_at: Instant::now(),
        };
        tokio::spawn(committer.run(waiting));
        Self { jobs }
    }

    /// Puts the report of the edge `name` into the queue. `sent_at` is its clock at sending (unix seconds). Each batch counts once,
    /// however often it is sent. The report is committed when this returns `Ok`.
    ///
    /// # Errors
    /// [`IngestError::Undecodable`] or [`IngestError::Malformed`] if a retry is of no use, [`IngestError::Full`], or the failure
    /// of the database.
    pub async fn count(
        &self,
        body: Bytes,
        edge: Arc<str>,
        sent_at: Option<u64>,
    ) -> Result<(), IngestError> {
        let report = read_report(body, clock::unix_millis(), sent_at)?;
        let report = ClickReport { edge, ..report };
        if report.heads.is_empty() {
            return Ok(());
        }
        let (answer, answered) = oneshot::channel();
        let job = ReportJob {
            report,
            answer,
            trace: Trace::current(),
        };
        self.jobs.send(job).await.map_err(|_| given_up())?;
        answered.await.map_err(|_| given_up())?
    }
}

fn given_up() -> IngestError {
    IngestError::Store(StoreError {
        context: "counting clicks",
        transient: true,
        source: "the commit was given up".into(),
    })
}

impl Committer {
    async fn run(mut self, mut waiting: mpsc::Receiver<ReportJob>) {
        let mut next = None;
        loop {
            let first = match next.take() {
                Some(job) => Some(job),
                None => waiting.recv().await,
            };
            let Some(first) = first else {
                return;
            };
            let mut bytes = first.report.body.len();
            let mut jobs = vec![first];
            while jobs.len() < MAX_REPORTS
                && let Ok(job) = waiting.try_recv()
            {
                bytes += job.report.body.len();
                if bytes > MAX_BYTES {
                    next = Some(job);
                    break;
                }
                jobs.push(job);
            }
            self.commit(jobs).await;
        }
    }

    async fn commit(&mut self, mut jobs: Vec<ReportJob>) {
        jobs.retain(|job| !job.answer.is_closed());
        if jobs.is_empty() {
            return;
        }
        self.measure().await;
        if self.queued_bytes >= self.max_queued_bytes {
            for job in jobs {
                drop(job.answer.send(Err(IngestError::Full)));
            }
            return;
        }
        let trace = jobs.iter().find_map(|job| job.trace.clone());
        let (reports, answers): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|job| (job.report, job.answer)).unzip();
        match traces::within(trace, self.store.count_clicks(&reports)).await {
            Ok(taken) => {
                self.note(&reports, &taken);
                for answer in answers {
                    drop(answer.send(Ok(())));
                }
            }
            Err(error) => {
                let (transient, source) = (error.transient, Arc::new(error));
                for answer in answers {
                    let error = StoreError {
                        context: source.context,
                        transient,
                        source: Box::new(Arc::clone(&source)),
                    };
                    drop(answer.send(Err(error.into())));
                }
            }
        }
    }

    fn note(&mut self, reports: &[ClickReport], taken: &TakenReports) {
        let batches: usize = reports.iter().map(|report| report.heads.len()).sum();
        let new: usize = taken.reports.iter().map(|report| report.batches).sum();
        counter!(CLICK_BATCHES, "outcome" => "new").increment(new as u64);
        counter!(CLICK_BATCHES, "outcome" => "repeated").increment((batches - new) as u64);
        counter!(CLICKS_COUNTED).increment(taken.accounts.counted);
        counter!(CLICKS_DROPPED).increment(taken.accounts.dropped);
        counter!(CLICKS_UNDESCRIBED).increment(taken.accounts.undescribed);
        for body in taken
            .reports
            .iter()
            .filter_map(|report| report.body.as_ref())
        {
            self.queued_bytes += body.len() as u64;
            (self.publish)(body);
        }
        if new > 0 {
            self.wake.notify_one();
        }
    }

    /// Measures the queue from time to time. If that fails, the last value is kept.
    async fn measure(&mut self) {
        if Instant::now() < self.measure_at {
            return;
        }
        self.measure_at = Instant::now() + MEASURING;
        match self.store.queued_bytes().await {
            Ok(bytes) => {
                self.queued_bytes = bytes;
                gauge!(CLICK_QUEUE_BYTES).set(bytes as f64);
            }
            Err(error) => tracing::warn!(%error, "measuring the click queue failed"),
        }
    }
}
