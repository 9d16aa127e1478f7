//! What clients were promised, and whether the database keeps it.

use edgelink_tests::servers::MariaDb;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Answers of the API, from all clients.
pub(crate) struct Answers {
    start: Instant,
    inner: Mutex<Inner>,
}

/// Code, target, and when.
type Created = (String, String, Duration);

#[derive(Default)]
struct Inner {
    created: Vec<Created>,
    refused: u64,
    failed: u64,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            inner: Mutex::default(),
        }
    }

    /// Those of several clients, begun at about the same time.
    pub(crate) fn together(of: &[Arc<Self>]) -> Self {
        let all = Self::new();
        for answers in of {
            let (created, refused, failed) = answers.all();
            all.with(|inner| {
                inner.created.extend(created);
                inner.refused += refused;
                inner.failed += failed;
            });
        }
        all
    }

    pub(crate) fn created(&self, code: String, target: String) {
        let at = self.start.elapsed();
        self.with(|inner| inner.created.push((code, target, at)));
    }

    /// An answer that is no 201.
    pub(crate) fn refused(&self) {
        self.with(|inner| inner.refused += 1);
    }

    /// No answer.
    pub(crate) fn failed(&self) {
        self.with(|inner| inner.failed += 1);
    }

    pub(crate) fn count(&self) -> usize {
        self.with(|inner| inner.created.len())
    }

    /// The links that were created with the times, and how many answers were others, or none.
    fn all(&self) -> (Vec<Created>, u64, u64) {
        self.with(|inner| (inner.created.clone(), inner.refused, inner.failed))
    }

    /// The links that were created: their codes and targets.
    pub(crate) fn links(&self) -> Vec<(String, String)> {
        let link = |(code, target, _): &Created| (code.clone(), target.clone());
        self.with(|inner| inner.created.iter().map(link).collect())
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Times longer than `least` in which nothing was created: their number, the longest, their sum.
    pub(crate) fn pauses(&self, least: Duration) -> (usize, Duration, Duration) {
        let mut times: Vec<Duration> =
            self.with(|inner| inner.created.iter().map(|(.., at)| *at).collect());
        times.sort_unstable();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        let gaps: Vec<Duration> = gaps.filter(|gap| *gap > least).collect();
        let longest = gaps.iter().max().copied().unwrap_or_default();
        (gaps.len(), longest, gaps.iter().sum())
    }

    /// Compares the answers with the rows, prints the figures, and fails where a promise is broken.
    pub(crate) fn verify(&self, database: &MariaDb, name: &str) {
        let rows = rows(database, name);
        let (created, refused, failed) = self.all();
        let mut codes: HashMap<&str, &str> = HashMap::new();
        let (mut twice, mut missing, mut wrong) = (0, 0, 0);
        for (code, target, _) in &created {
            twice += usize::from(codes.insert(code, target).is_some());
            match rows.get(code) {
                None => missing += 1,
                Some(stored) if stored != target => wrong += 1,
                Some(_) => {}
            }
        }
        let (count, longest, sum) = self.pauses(Duration::from_millis(250));
        println!("201 answers                     {:>9}", created.len());
        println!("other answers                   {refused:>9}");
        println!("no answer                       {failed:>9}");
        println!("rows                            {:>9}", rows.len());
        println!(
            "rows without an acknowledgement {:>9}",
            rows.len() as i64 - (created.len() - twice) as i64 + missing as i64
        );
        println!("codes given out twice           {twice:>9}");
        println!("acknowledged and missing        {missing:>9}");
        println!("acknowledged and wrong          {wrong:>9}");
        println!("pauses over 250 ms: {count}, the longest {longest:.2?}, together {sum:.2?}");
        assert_eq!((twice, missing, wrong), (0, 0, 0));
    }
}

fn rows(database: &MariaDb, name: &str) -> HashMap<String, String> {
    let text = database.execute(&format!("SELECT code, url FROM {name}.links"));
    let row = |line: &str| {
        let (code, url) = line.split_once('\t').expect("two columns");
        (code.to_owned(), url.to_owned())
    };
    text.lines().map(row).collect()
}
