//! The hooks, called by a fake of Envoy.

mod batches;
mod fake;
mod panics;
mod side_by_side;

use super::*;
use crate::main_thread::process_named;
use edgelink_process::process::Process;
use edgelink_process::testing::{self, SentCallout, tick};
use edgelink_wire::record::Extension;
use edgelink_wire::{
    FeedBatch, FeedBatchHead, FeedPosition, LinkAnswer, LinkRecord, Record, VisitsAnswer,
    VisitsRequest, link_batch,
};
use fake::{Answer, LOG, Plugin, Request, SCHEDULERS};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs tests one at a time, because they share global state.
static TURN: Mutex<()> = Mutex::new(());

const PLUGIN: &str = r#"{"domains":["go.example"],"controlPlane":{"servers":["http://control-plane.test:80"]},"tierHeader":true,
    "describe":["outcome","tier","key"],"absentFreshSeconds":5}"#;

/// The module with a configuration.
struct Module {
    plugin: Box<Plugin>,
    config: *const c_void,
}

impl Module {
    fn try_new(name: &str, json: &str) -> Option<Self> {
        testing::hold_callouts();
        envoy_dynamic_module_on_program_init();
        let plugin = Box::<Plugin>::default();
        let (name, json) = (Buffer::of(name.as_bytes()), Buffer::of(json.as_bytes()));
        let envoy = (&raw const *plugin).cast_mut().cast();
        let config = envoy_dynamic_module_on_http_filter_config_new(envoy, name, json);
        (!config.is_null()).then(|| Self { plugin, config })
    }

    fn new(name: &str) -> Self {
        Self::try_new(name, PLUGIN).expect("it is right")
    }

    fn envoy(&self) -> Object {
        (&raw const *self.plugin).cast_mut().cast()
    }

    fn process(&self) -> &'static Process<Scheduler> {
        // SAFETY: it has not ended.
        unsafe { &*self.config.cast::<Config>() }.process
    }

    /// The callouts ordered since the last call.
    fn callouts(&self) -> Vec<SentCallout> {
        testing::take_callouts(self.process())
    }

    fn end_callout(&self, id: u64, headers: &[(&str, &str)], body: &[u8]) {
        testing::end_callout(self.process(), id, headers, body);
    }

    /// The control plane answers a lookup with a link.
    fn answer(&self, callout: &SentCallout, url: &str) {
        let key = callout.headers[":path"]
            .strip_prefix("/edge/v1/links/")
            .unwrap();
        let answer = link_answer(key, url);
        let headers = [(":status", "200"), ("content-type", LinkAnswer::MEDIA_TYPE)];
        self.end_callout(callout.id, &headers, &answer);
    }

    fn begin(&self, headers: &[(&str, &str)]) -> Visit {
        let mut request = Box::<Request>::default();
        let usual = [
            (":authority", "go.example"),
            (":path", "/abc"),
            (":method", "GET"),
        ];
        let is_said = |name: &str| headers.iter().any(|(said, _)| *said == name);
        let usual = usual.iter().filter(|(name, _)| !is_said(name));
        let all = usual.chain(headers);
        let owned = all.map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        request.headers = owned.collect();
        let request = Box::into_raw(request);
        let stream = envoy_dynamic_module_on_http_filter_new(self.config, request.cast());
        // SAFETY: it has just been made.
        unsafe { (*request).stream = Some(stream as usize) };
        Visit {
            request,
            stream,
            flow: u32::MAX,
        }
    }

    fn visit_with(&self, headers: &[(&str, &str)]) -> Visit {
        let mut visit = self.begin(headers);
        visit.send_headers();
        visit
    }

    fn visit(&self, path: &str) -> Visit {
        self.visit_with(&[(":path", path)])
    }

    /// Follows a link that is looked up at the control plane.
    fn fetch(&self, path: &str) -> Answer {
        let visit = self.visit(path);
        let [callout] = &self.callouts()[..] else {
            panic!("one lookup");
        };
        self.answer(callout, "https://example.com/");
        visit.resume();
        visit.answer()
    }

    fn count(&self, name: &str) -> i64 {
        envoy_dynamic_module_on_http_filter_config_scheduled(self.envoy(), self.config, 0);
        let metrics = self.plugin.metrics.lock().unwrap();
        metrics.get(name).copied().unwrap_or_default()
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if !self.config.is_null() {
            envoy_dynamic_module_on_http_filter_config_destroy(self.config);
        }
    }
}

/// The body of the answer to a lookup.
fn link_answer(key: &str, url: &str) -> Vec<u8> {
    let record = Record::Link(LinkRecord::ordinary(url, 1));
    let answer = LinkAnswer {
        age_millis: 0,
        key: key.as_bytes(),
        record: &record.to_bytes(),
    };
    answer.to_bytes()
}

/// A request, which ends when it is answered or dropped.
struct Visit {
    request: *mut Request,
    stream: *const c_void,
    flow: u32,
}

impl Visit {
    #[expect(
        clippy::mut_from_ref,
        reason = "the module has the other reference, as Envoy's"
    )]
    fn request(&self) -> &mut Request {
        // SAFETY: it is dropped with this.
        unsafe { &mut *self.request }
    }

    /// Sends the headers alone: its worker has no further requests at hand.
    fn send_headers(&mut self) {
        self.come();
        self.end_turn();
    }

    fn come(&mut self) {
        let filter = self.request.cast();
        self.flow = envoy_dynamic_module_on_http_filter_request_headers(filter, self.stream, false);
    }

    /// Its worker has no further requests at hand.
    fn end_turn(&self) {
        self.call_back(&self.request().flushes, FLUSH);
    }

    fn call_back(&self, woken: &AtomicUsize, event: u64) {
        while woken.swap(0, Ordering::Relaxed) > 0 {
            if self.request().stream.is_some() {
                let filter = self.request.cast();
                envoy_dynamic_module_on_http_filter_scheduled(filter, self.stream, event);
            }
        }
    }

    fn send_body(&self, body: &str, is_all: bool) -> u32 {
        self.request().body[0] = body.as_bytes().to_vec();
        let filter = self.request.cast();
        let flow = envoy_dynamic_module_on_http_filter_request_body(filter, self.stream, is_all);
        let received = std::mem::take(&mut self.request().body[0]);
        self.request().body[1].extend(received);
        flow
    }

    fn send_trailers(&self) {
        let filter = self.request.cast();
        envoy_dynamic_module_on_http_filter_request_trailers(filter, self.stream);
    }

    /// Runs the scheduled hooks of its worker.
    fn resume(&self) {
        self.call_back(&self.request().woken, 0);
        self.end_turn();
    }

    fn answer(&self) -> Answer {
        let answer = self.request().answer.clone();
        answer.expect("an answer")
    }

    fn location(&self) -> String {
        self.answer().headers["location"].clone()
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(stream) = self.request().stream.take() {
            envoy_dynamic_module_on_http_filter_destroy(stream as *const c_void);
        }
        // SAFETY: it comes from a box, and the module has released it.
        drop(unsafe { Box::from_raw(self.request) });
    }
}

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

const PAUSES: u32 = 4;
const PASSES: u32 = 0;

#[test]
fn link_when_requested_by_many_is_looked_up_once() {
    let _turn = turn();
    let before = SCHEDULERS.load(Ordering::Relaxed);
    let module = Module::new("waiting");
    let visits: Vec<_> = (0..50).map(|_| module.visit("/abc?b=2")).collect();
    assert!(visits.iter().all(|visit| visit.flow == PAUSES));
    let callouts = module.callouts();
    assert_eq!(callouts.len(), 1);
    let headers = &callouts[0].headers;
    assert_eq!(headers[":path"], "/edge/v1/links/go.example/abc");
    assert_eq!(headers[":method"], "GET");
    assert!(callouts[0].body.is_empty());
    module.answer(&callouts[0], "https://example.com/?a=1");
    for visit in &visits {
        assert!(visit.request().answer.is_none(), "on its own thread");
        visit.resume();
        let answer = visit.answer();
        assert_eq!(answer.status, 302);
        assert_eq!(visit.location(), "https://example.com/?a=1&b=2");
        assert_eq!(answer.headers["x-edgelink-tier"], "control-plane");
        assert_eq!(answer.details, "edgelink.control-plane.redirect");
    }
    assert_eq!(SCHEDULERS.load(Ordering::Relaxed), before);
    let again = module.visit("/abc");
    assert_eq!(again.answer().headers["x-edgelink-tier"], "lru");
    let metadata = &again.request().metadata;
    assert_eq!(metadata["outcome"], "redirect");
    assert_eq!(metadata["tier"], "lru");
    assert_eq!(metadata["key"], "go.example/abc");
}

#[test]
fn callout_when_one_worker_is_busy_is_sent_by_another() {
    let _turn = turn();
    let module = Module::new("two-workers");
    let mut goes_on = module.begin(&[]);
    goes_on.come();
    let config = module.config as usize;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut module = Module {
                plugin: Box::default(),
                config: config as *const c_void,
            };
            let mut visit = module.begin(&[(":path", "/abd")]);
            visit.come();
            assert_eq!(visit.request().flushes.load(Ordering::Relaxed), 1);
            visit.end_turn();
            module.config = std::ptr::null();
        });
    });
    let callouts = module.callouts();
    assert_eq!(callouts[0].body, b"go.example/abc\ngo.example/abd");
}

#[test]
fn waiter_when_another_has_left_gets_its_answer() {
    let _turn = turn();
    let module = Module::new("leaving");
    let gone = module.visit("/abc");
    let stays = module.visit("/abc");
    let callouts = module.callouts();
    drop(gone);
    module.answer(&callouts[0], "https://example.com/");
    let woken_and_gone = module.visit("/abc?late");
    drop(woken_and_gone);
    stays.resume();
    assert_eq!(stays.location(), "https://example.com/");
}

#[test]
fn callout_when_failed_answers_503() {
    let _turn = turn();
    let module = Module::new("failing");
    let visit = module.visit("/abc");
    let callouts = module.callouts();
    module.end_callout(callouts[0].id, &[], b"");
    module.end_callout(4_711, &[], b"");
    visit.resume();
    assert_eq!(visit.answer().status, 503);
    assert_eq!(visit.answer().headers["retry-after"], "1");
}

#[test]
fn visit_return_when_it_fails_is_repeated() {
    const VISITS: &str = "/edge/v1/visits";
    let _turn = turn();
    let module = Module::new("returns");
    let process = process_named(b"returns");
    let visit = module.visit("/abc");
    let extension = Extension {
        max_visits: Some(9),
        ..Extension::default()
    }
    .to_bytes();
    let record = Record::Link(LinkRecord {
        extension: &extension[..],
        ..LinkRecord::ordinary("https://example.com/", 1)
    });
    let answer = LinkAnswer {
        age_millis: 0,
        key: b"go.example/abc",
        record: &record.to_bytes(),
    };
    let end = |callout: &SentCallout, media_type: &str, body: &[u8]| {
        let headers = [(":status", "200"), ("content-type", media_type)];
        module.end_callout(callout.id, &headers, body);
    };
    end(
        &module.callouts()[0],
        LinkAnswer::MEDIA_TYPE,
        &answer.to_bytes(),
    );
    let asked = module.callouts().remove(0);
    let answer = VisitsAnswer {
        number: VisitsRequest::decode(&asked.body).unwrap().number,
        visits: 1,
        millis: 5_000,
    };
    end(&asked, VisitsAnswer::MEDIA_TYPE, &answer.to_bytes());
    visit.resume();
    assert_eq!(visit.answer().status, 302);

    tick(process);
    let returned = module.callouts().remove(0);
    assert_eq!(returned.headers[":path"], VISITS);
    module.end_callout(returned.id, &[], b"");
    tick(process);
    let [again] = &module.callouts()[..] else {
        panic!("the visits are returned again");
    };
    assert_eq!(again.headers[":path"], VISITS);
    tick(process);
    assert_eq!(module.count("edgelink.visit_return|failed"), 1);
}

#[test]
fn request_when_for_no_link_passes() {
    let _turn = turn();
    let module = Module::new("passing");
    for headers in [
        &[(":path", "/a/b")][..],
        &[(":path", "/health/live")],
        &[(":method", "POST"), (":path", "/api/v1")],
    ] {
        let visit = module.visit_with(headers);
        assert_eq!((visit.flow, visit.request().goes_on), (PASSES, false));
        assert!(visit.request().answer.is_none());
    }
    assert!(module.callouts().is_empty());
}

#[test]
fn configuration_when_wrong_names_fields_in_log() {
    let _turn = turn();
    for (json, field) in [
        (
            r#"{"domains":[],"controlPlane":{"servers":["http://c.test:80"]}}"#,
            "domains",
        ),
        (
            r#"{"domains":["a.b"],"controlPlane":{"servers":["http://c.test:80"]},"redis":{"mode":"direct"}}"#,
            "redis.servers",
        ),
        (
            r#"{"domains":["a.b"],"controlPlane":{"cluster":"c"}}"#,
            "controlPlane.servers",
        ),
        (
            r#"{"domains":["a.b"],"controlPlane":{"servers":["http://c:1"],"tokenFile":"/missing"}}"#,
            "controlPlane.tokenFile",
        ),
        ("{", "."),
    ] {
        LOG.lock().unwrap().clear();
        assert!(Module::try_new("wrong", json).is_none(), "{json}");
        let log = LOG.lock().unwrap().join("\n");
        assert!(log.contains(&format!("field '{field}'")), "{log}");
    }
}

#[test]
fn configuration_when_replaced_keeps_cache_and_waiters() {
    let _turn = turn();
    let before = Module::new("changing");
    assert_eq!(before.fetch("/known").status, 302);
    let waits = before.visit("/abc");
    let callouts = before.callouts();
    assert_eq!(callouts.len(), 1);
    let after = Module::new("changing");
    let known = after.visit("/known");
    assert_eq!(known.answer().headers["x-edgelink-tier"], "lru");
    let also_waits = after.visit("/abc");
    assert!(after.callouts().is_empty(), "the other one has asked");
    // Envoy ends a configuration when it has no requests left.
    let answered = before.visit("/known");
    assert_eq!(answered.answer().status, 302);
    drop(waits);
    drop(before);
    tick(process_named(b"changing"));
    assert!(after.callouts().is_empty(), "a callout outlives its root");
    after.answer(&callouts[0], "https://example.com/");
    also_waits.resume();
    assert_eq!(also_waits.location(), "https://example.com/");
}

#[test]
fn route_when_configured_has_own_domains_and_prefix() {
    let _turn = turn();
    let module = Module::new("routes");
    let route = |json: &str| {
        let (name, json) = (Buffer::EMPTY, Buffer::of(json.as_bytes()));
        envoy_dynamic_module_on_http_filter_per_route_config_new(name, json)
    };
    let other = route(r#"{"domains":["other.example"],"prefix":"/s/"}"#);
    let off = route(r#"{"disabled":true}"#);
    let visit_at = |route: *const c_void, path: &str| {
        let mut visit = module.begin(&[(":path", path)]);
        visit.request().route = route as usize;
        visit.send_headers();
        visit
    };
    assert_eq!(visit_at(off, "/abc").flow, PASSES);
    assert_eq!(
        visit_at(other, "/abc").flow,
        PASSES,
        "not behind the prefix"
    );
    let on_route = visit_at(other, "/s/abc");
    assert_eq!(on_route.flow, PAUSES);
    let mut callouts = module.callouts();
    let plain = module.visit("/abc");
    callouts.extend(module.callouts());
    let paths: Vec<_> = callouts.iter().map(|it| &it.headers[":path"]).collect();
    assert_eq!(
        paths,
        [
            "/edge/v1/links/other.example/abc",
            "/edge/v1/links/go.example/abc"
        ]
    );
    for callout in &callouts {
        module.answer(callout, "https://example.com/");
    }
    for visit in [&on_route, &plain] {
        visit.resume();
        assert_eq!(visit.answer().status, 302);
    }
    LOG.lock().unwrap().clear();
    assert!(route(r#"{"prefix":"s"}"#).is_null());
    assert!(LOG.lock().unwrap().join("").contains("field 'prefix'"));
    for route in [other, off] {
        envoy_dynamic_module_on_http_filter_per_route_config_destroy(route);
    }
    assert_eq!(module.visit("/abc").answer().status, 302);
}

/// Another build of the module in the same Envoy creates configurations of its own, unknown to this one.
#[test]
fn route_configuration_when_of_another_module_is_ignored() {
    let _turn = turn();
    let module = Module::new("another module");
    // From now on, the module asks Envoy for configurations of routes.
    let (name, json) = (Buffer::EMPTY, Buffer::of(b"{}"));
    let own = envoy_dynamic_module_on_http_filter_per_route_config_new(name, json);
    let of_another = Box::new([0_u64; 64]);
    let visit_at = |route: *const c_void| {
        let mut visit = module.begin(&[(":path", "/abc")]);
        visit.request().route = route as usize;
        visit.send_headers();
        visit
    };
    LOG.lock().unwrap().clear();
    for _ in 0..2 {
        assert_eq!(visit_at((&raw const *of_another).cast()).flow, PASSES);
    }
    let log = LOG.lock().unwrap().join("\n");
    assert_eq!(log.matches("of another module").count(), 1, "{log}");
    assert_eq!(visit_at(own).flow, PAUSES);
    // Its address may be reused once it has ended.
    envoy_dynamic_module_on_http_filter_per_route_config_destroy(own);
    assert_eq!(visit_at(own).flow, PASSES);
}

#[test]
fn form_when_link_is_unknown_is_held() {
    let _turn = turn();
    let module = Module::new("forms");
    let form = module.visit_with(&[
        (":method", "POST"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-length", "10"),
    ]);
    const HOLDS: u32 = 1;
    assert_eq!(form.flow, HOLDS);
    assert_eq!(form.send_body("passw", false), HOLDS);
    let callouts = module.callouts();
    module.answer(&callouts[0], "https://example.com/");
    form.resume();
    // It is a request like any other then, and such a link is not for POST.
    assert_eq!(form.answer().status, 405);
    assert!(!form.request().goes_on);
}

#[test]
fn metrics_when_handed_over_have_labels() {
    let _turn = turn();
    let module = Module::new("metrics");
    module.fetch("/abc");
    drop(module.visit("/abc"));
    tick(process_named(b"metrics"));
    assert_eq!(module.count("edgelink.requests|lru|redirect"), 1);
    assert_eq!(module.count("edgelink.requests|control_plane|redirect"), 1);
    assert_eq!(module.count("edgelink.callouts|ok"), 1);
    assert_eq!(module.count("edgelink.lru_entries"), 1);
    assert_eq!(module.count("edgelink.record_age_milliseconds"), 1);
}

/// Envoy keeps the values of gauges when a configuration replaces another one.
#[test]
fn feed_lag_when_feed_is_removed_is_zero() {
    const FEED_LAG: &str = "edgelink.feed_lag_milliseconds";
    let _turn = turn();
    let json = PLUGIN.replace("\"tierHeader\"", "\"poll\":{},\"tierHeader\"");
    let with_feed = Module::try_new("feed lag", &json).expect("it is right");
    drop(with_feed.visit("/abc"));
    let process = process_named(b"feed lag");
    tick(process);
    let polls = with_feed.callouts();
    let poll = polls
        .iter()
        .find(|callout| callout.headers[":path"].starts_with("/edge/v1/feed"));
    let head = FeedBatchHead {
        generation: 1,
        next: FeedPosition::START,
        age_millis: 1_000,
        ..FeedBatchHead::default()
    };
    let batch = FeedBatch::encode(head, [].iter());
    let headers = [(":status", "200"), ("content-type", FeedBatch::MEDIA_TYPE)];
    with_feed.end_callout(poll.expect("a poll").id, &headers, &batch);
    tick(process);
    assert!(with_feed.count(FEED_LAG) >= 1_000);
    let _without = Module::new("feed lag");
    tick(process);
    assert_eq!(with_feed.count(FEED_LAG), 0);
}

#[test]
fn request_when_threads_ask_at_once_is_answered() {
    let _turn = turn();
    let module = Module::new("threads");
    module.fetch("/abc");
    let config = module.config as usize;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let mut module = Module {
                    plugin: Box::default(),
                    config: config as *const c_void,
                };
                for number in 0..2_000 {
                    let visit = module.visit(&format!("/abc?{number}"));
                    assert_eq!(visit.location(), format!("https://example.com/?{number}"));
                }
                // It ends once, on the thread that began it.
                module.config = std::ptr::null();
            });
        }
    });
}
