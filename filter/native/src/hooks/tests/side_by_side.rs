//! Workers on many threads, while changes come by the feed.

use super::*;
use edgelink_wire::clicks::decode;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::record::RecordBytes;
use std::sync::atomic::{AtomicBool, AtomicU64};

const READERS: u64 = 16;
const LINKS: u64 = 8;
const CHANGES: u64 = 300;
const CLICKS: &str = "/edge/v1/clicks";
const FEED: &str = "/edge/v1/feed";

const WITH_FEED: &str =
    r#""poll":{},"clicks":{"flushMs":100},"freshSeconds":60,"staleSeconds":60,"tierHeader""#;

/// A control plane that changes links, and counts clicks.
struct ControlPlane<'m> {
    module: &'m Module,
    position: FeedPosition,
    clicks: u64,
    polls: Vec<SentCallout>,
}

impl ControlPlane<'_> {
    /// Answers reports, and keeps polls. No request waits for lookups.
    fn serve(&mut self) {
        for callout in self.module.callouts() {
            let path = &callout.headers[":path"];
            if path.starts_with(FEED) {
                self.polls.push(callout);
            } else if path.starts_with(CLICKS) {
                let batches = decode(&callout.body).expect("batches");
                self.clicks += batches.iter().map(|batch| batch.sum()).sum::<u64>();
                (self.module).end_callout(callout.id, &[(":status", "204")], b"");
            }
        }
    }

    /// The next poll.
    fn poll(&mut self) -> SentCallout {
        loop {
            self.serve();
            if let Some(poll) = self.polls.pop() {
                return poll;
            }
            tick(self.module.process());
        }
    }

    /// Changes all links, and waits until that is acknowledged.
    fn change(&mut self, number: u64) {
        let url = format!("https://example.com/{number}");
        let record = Record::Link(LinkRecord::ordinary(url.as_str(), number));
        let record = RecordBytes::of(&record);
        let keys: Vec<_> = (0..LINKS).map(|n| format!("go.example/link{n}")).collect();
        let puts = keys.iter().map(|key| FeedMessage::Put {
            key,
            record: record.as_deref(),
            hot: false,
        });
        self.send(&puts.collect::<Vec<_>>());
    }

    /// Sends these messages, and waits for the poll that acknowledges them.
    fn send(&mut self, messages: &[FeedMessage<'_>]) {
        let poll = self.poll();
        self.position.millis += 1;
        let head = FeedBatchHead {
            generation: 7,
            next: self.position,
            ..FeedBatchHead::default()
        };
        let batch = FeedBatch::encode(head, messages.iter());
        let headers = [(":status", "200"), ("content-type", FeedBatch::MEDIA_TYPE)];
        self.module.end_callout(poll.id, &headers, &batch);
        let next = self.poll();
        let after = format!("after={}&", self.position);
        assert!(next.headers[":path"].contains(&after), "{next:?}");
        self.polls.push(next);
    }
}

#[test]
fn link_when_its_change_is_acknowledged_is_new_on_every_thread_and_each_click_counts() {
    let _turn = turn();
    let json = PLUGIN.replace("\"tierHeader\"", WITH_FEED);
    let module = Module::try_new("side by side", &json).expect("it is right");
    let mut control_plane = ControlPlane {
        module: &module,
        position: FeedPosition::new(1, 0),
        clicks: 0,
        polls: Vec::new(),
    };
    drop(module.visit("/unknown"));
    let mut changes = 0;
    let mut change = |control_plane: &mut ControlPlane<'_>| {
        changes += 1;
        control_plane.change(changes);
        changes
    };
    let mut first = 0;
    // Records count from a millisecond after the feed has begun.
    while module.visit("/link0").request().answer.is_none() {
        first = change(&mut control_plane);
    }
    let [acknowledged, redirects] = [first, 1].map(AtomicU64::new);
    let (is_over, config) = (AtomicBool::new(false), module.config as usize);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut module = Module {
                    plugin: Box::default(),
                    config: config as *const c_void,
                };
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let before = acknowledged.load(Ordering::SeqCst);
                    let visit = module.visit(&format!("/link{}", count % LINKS));
                    let answer = visit.answer();
                    assert_eq!(answer.details, "edgelink.lru.redirect");
                    let number = answer.headers["location"].rsplit('/').next();
                    let number: u64 = number.and_then(|it| it.parse().ok()).expect("a number");
                    assert!(number >= before, "{number} after {before}");
                    count += 1;
                }
                redirects.fetch_add(count, Ordering::Relaxed);
                module.config = std::ptr::null();
            });
        }
        for _ in 0..CHANGES {
            let number = change(&mut control_plane);
            acknowledged.store(number, Ordering::SeqCst);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let redirects = redirects.into_inner();
    while control_plane.clicks < redirects {
        tick(module.process());
        control_plane.serve();
    }
    assert_eq!(control_plane.clicks, redirects);
    let answered = module.count("edgelink.requests|lru|redirect");
    assert_eq!(answered, redirects as i64);
}
