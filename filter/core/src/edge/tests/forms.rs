//! Links with a password: the page, the form and the cookie.

use super::rules::map;
use super::*;
use crate::control_plane::callout::UnlockCallout;
use crate::forms::{BODY_MILLIS, FORM_MILLIS, FormAnswer, FormStep};
use crate::request::HeaderMap;
use crate::settings::MAX_FORMS;
use edgelink_wire::password::{COOKIE_MEDIA_TYPE, UnlockKey, cookie_name};
use edgelink_wire::record::Extension;
use edgelink_wire::{LinkRecord, VisitsAnswer, VisitsRequest};

const KEY: &str = "go.example/a";
const BODY: &[u8] = b"password=secret";
const FORM: [(&str, &str); 2] = [
    (
        "content-type",
        "application/x-www-form-urlencoded; charset=utf-8",
    ),
    ("content-length", "15"),
];

fn unlock_key() -> UnlockKey {
    UnlockKey::new("hash", KEY.as_bytes())
}

fn extension(max_visits: Option<u64>) -> Vec<u8> {
    let extension = Extension {
        unlock_key: Some(unlock_key()),
        max_visits,
        ..Extension::default()
    };
    extension.to_bytes()
}

fn locked(extension: &[u8]) -> Record<&str> {
    match link("https://a/", 1) {
        Record::Link(link) => Record::Link(LinkRecord { extension, ..link }),
        absent => absent,
    }
}

/// The value of a cookie that counts for a minute.
fn cookie_value() -> String {
    unlock_key().cookie(KEY.as_bytes(), UNIX_START / 1_000 + 60)
}

fn cookie() -> String {
    format!("a=b; {}={}", cookie_name(KEY.as_bytes()), cookie_value())
}

fn post<'a>(path: &'a str, headers: &'a [u8]) -> Head<'a> {
    Head {
        method: b"POST",
        headers: HeaderMap::new(headers),
        ..get(path)
    }
}

fn header<'a>(answer: &'a FormAnswer, name: &str) -> &'a str {
    let mut headers = answer.headers.iter();
    let found = headers.find(|(each, _)| *each == name);
    found.map_or("", |(_, value)| std::str::from_utf8(value).unwrap())
}

impl World {
    /// The answer to a visitor with that `Cookie`: the page with the form, or another one.
    fn visit_with(&mut self, cookies: &str) -> (u16, Option<String>, bool) {
        self.last_stream += 1;
        let headers = map(&[("cookie", cookies)]);
        self.host.cookies = cookies.into();
        let head = Head {
            headers: HeaderMap::new(&headers),
            ..get("/a")
        };
        match self.request(self.last_stream, &head) {
            Step::Answer(answer, None) => {
                let no_store = ("cache-control", &b"no-store"[..]);
                let is_kept_secret = answer.headers().any(|header| header == no_store)
                    && answer.more().contains(&("referrer-policy", "no-referrer"));
                let seen = seen(&answer);
                (seen.status, seen.location, is_kept_secret)
            }
            other => panic!("{other:?}"),
        }
    }

    /// A form comes: its stream, and the lookup of its link that was sent.
    pub(super) fn form(&mut self, path: &str) -> (StreamId, Option<Token>) {
        self.last_stream += 1;
        let stream = self.last_stream;
        let headers = map(&FORM);
        let callout = match self.request(stream, &post(path, &headers)) {
            Step::Hold(callout, None) => callout,
            other => panic!("{other:?}"),
        };
        assert!(self.edge.holds_form(stream));
        (stream, callout.map(|callout| self.send(&callout)))
    }

    fn submit(&mut self, path: &str) -> UnlockCallout {
        let (stream, None) = self.form(path) else {
            panic!("the link is known");
        };
        asked(self.edge.on_form_body(stream, BODY))
    }

    /// The control plane gives that answer to a form.
    fn unlocks(
        &mut self,
        callout: &UnlockCallout,
        (status, body): (&str, &str),
        retry_after: &str,
    ) -> FormEnd {
        self.last_token += 1;
        let token = self.last_token;
        self.edge.forms.on_sent(callout.stream, token);
        assert!(self.edge.carries_form(token));
        let response = Response {
            status: status.as_bytes(),
            content_type: COOKIE_MEDIA_TYPE.as_bytes(),
            body: body.as_bytes(),
        };
        let end = self
            .edge
            .on_form_end(token, response, retry_after.as_bytes());
        assert!(!self.edge.carries_form(token));
        end.unwrap()
    }

    fn answer_form(&mut self, end: &FormEnd, path: &str, proto: &str) -> FormAnswer {
        let headers = map(&[("x-forwarded-proto", proto)]);
        self.edge.answer_form(end, &post(path, &headers))
    }

    /// The lookup of the link of a form completes.
    pub(super) fn on_form_link(&mut self, resumed: &Resumed) -> FormStep {
        let [form] = resumed.waiters[..] else {
            panic!("{resumed:?}");
        };
        assert!(form.is_form);
        self.edge.on_form_link(form, resumed)
    }
}

#[track_caller]
fn asked(step: FormStep) -> UnlockCallout {
    match step {
        FormStep::Ask(callout) => callout,
        other => panic!("{other:?}"),
    }
}

#[test]
fn link_when_locked_shows_the_page_until_there_is_a_cookie() {
    let mut world = World::with(settings_with(r#","clicks":{}"#));
    world.know("a", locked(&extension(None)));
    let redirect = (302, Some("https://a/".to_owned()), true);
    assert_eq!(world.visit_with(""), (200, None, true));
    assert_eq!(world.visit_with(&cookie()), redirect);
    assert_eq!(world.visit_with("a=b"), (200, None, true));
    world.stand_still(3_000);
    assert_eq!(world.counted("clicks.sent"), 1);
    let mut world = World::new();
    world.stand_still(59_999);
    world.know("a", locked(&extension(None)));
    assert_eq!(world.visit_with(&cookie()), redirect);
    world.stand_still(1);
    assert_eq!(world.visit_with(&cookie()), (200, None, true));
    assert_eq!(world.counted("requests.lru.locked"), 1);
    assert_eq!(world.counted("requests.lru.redirect"), 1);
}

#[test]
fn password_when_right_leads_back_with_a_cookie() {
    let mut world = World::new();
    world.know("a", locked(&extension(None)));
    world.host.client = Some([192, 0, 2, 7].into());
    let callout = world.submit("/a?x=1");
    assert_eq!(callout.path, "/edge/v1/unlock/go.example/a");
    assert_eq!(
        (callout.visitor.as_str(), &callout.body[..]),
        ("192.0.2.7", BODY)
    );
    let end = world.unlocks(&callout, ("200", &cookie_value()), "");
    for (proto, secure) in [("https", "; Secure"), ("http", "")] {
        let answer = world.answer_form(&end, "/a?x=1", proto);
        assert_eq!(
            (answer.status, header(&answer, "location")),
            (303, "/a?x=1")
        );
        assert_eq!(header(&answer, "cache-control"), "no-store");
        let name = cookie_name(KEY.as_bytes());
        let expected = format!(
            "{name}={}; Path=/a; Max-Age=3600; HttpOnly; SameSite=Lax{secure}",
            cookie_value()
        );
        assert_eq!(header(&answer, "set-cookie"), expected);
    }
    assert_eq!(world.counted("unlocks.opened"), 2);
}

#[test]
fn form_when_not_unlocked_is_answered_without_a_cookie() {
    let mut world = World::new();
    world.know("a", locked(&extension(None)));
    let long = "1".repeat(100);
    for ((status, body), retry_after, (answered, waits)) in [
        (("403", ""), "", (403, "")),
        (("429", ""), "17", (429, "17")),
        (("429", ""), "soon", (429, "1")),
        (("404", ""), "", (303, "")),
        (("200", ""), "", (503, "1")),
        (("200", "1.2; Path=/"), "", (503, "1")),
        (("200", &long), "", (503, "1")),
        (("503", ""), "9", (503, "1")),
        (("", ""), "", (503, "1")),
    ] {
        let callout = world.submit("/a");
        let end = world.unlocks(&callout, (status, body), retry_after);
        let answer = world.answer_form(&end, "/a", "https");
        assert_eq!(answer.status, answered, "{status}");
        assert_eq!(header(&answer, "retry-after"), waits, "{status}");
        assert_eq!(header(&answer, "set-cookie"), "", "{status}");
        assert_eq!(header(&answer, "cache-control"), "no-store");
        let is_form = answer.page.contains("<form");
        assert_eq!(is_form, matches!(answered, 403 | 429), "{status}");
        let policy = header(&answer, "content-security-policy");
        assert_eq!(policy.starts_with("default-src 'none'"), is_form);
    }
    for (outcome, count) in [
        ("not_locked", 1),
        ("wrong", 1),
        ("limited", 2),
        ("failed", 5),
    ] {
        assert_eq!(
            world.counted(&format!("unlocks.{outcome}")),
            count,
            "{outcome}"
        );
    }
}

#[test]
fn form_when_its_link_is_unknown_is_held_during_the_lookup() {
    let extension = extension(None);
    for is_body_first in [true, false] {
        let mut world = World::new();
        let (stream, token) = world.form("/a");
        if is_body_first {
            assert_eq!(world.edge.on_form_body(stream, BODY), FormStep::Hold);
        }
        let resumed = world.resume(token.unwrap(), KEY, locked(&extension));
        let mut step = world.on_form_link(&resumed);
        if !is_body_first {
            assert_eq!(step, FormStep::Hold);
            step = world.edge.on_form_body(stream, BODY);
        }
        assert_eq!(asked(step).body, BODY);
    }
    let mut world = World::new();
    for (code, record) in [
        ("a", link("https://a/", 1)),
        ("b", Record::Absent { rev: 1 }),
    ] {
        let (stream, token) = world.form(&format!("/{code}"));
        let resumed = world.resume(token.unwrap(), &format!("go.example/{code}"), record);
        assert_eq!(world.on_form_link(&resumed), FormStep::Pass);
        let held = |world: &World| world.edge.holds_form(stream);
        assert!(held(&world), "until it is answered or goes on");
        let actions = world.edge.release_form(resumed.waiters[0], &resumed);
        let [Action::Resume(released)] = &actions[..] else {
            panic!("{actions:?}");
        };
        let answer = world
            .edge
            .answer(&world.host, released.waiters[0], released, &get("/a"));
        assert_eq!(answer.is_none(), code == "b");
        assert!(!held(&world));
    }
}

#[test]
fn form_when_its_link_cannot_be_looked_up_is_503() {
    let mut world = World::new();
    let (_, token) = world.form("/a");
    let now = Moment::from_millis(world.now);
    let timeout = Response {
        status: b"504",
        ..Response::default()
    };
    let mut actions = world
        .edge
        .on_callout_end(&mut world.host, token.unwrap(), timeout, now);
    let Some(Action::Resume(resumed)) = actions.pop() else {
        panic!("{actions:?}");
    };
    let FormStep::End(end) = world.on_form_link(&resumed) else {
        panic!("a failure is no 404");
    };
    let answer = world.answer_form(&end, "/a", "https");
    assert_eq!((answer.status, header(&answer, "retry-after")), (503, "1"));
}

#[test]
fn request_when_not_a_form_for_a_locked_link_is_ordinary() {
    let mut world = World::new();
    world.know("a", locked(&extension(None)));
    world.know("open", link("https://a/", 1));
    let lookups = world.lookups;
    let [media_type, length] = FORM;
    let forms = [
        ("POST", "/open", vec![media_type, length], 405),
        ("POST", "/api", vec![media_type, length], 0),
        ("POST", "/a/x", vec![media_type, length], 0),
        ("POST", "/", vec![media_type, length], 0),
        ("PUT", "/a", vec![media_type, length], 405),
        ("POST", "/a", vec![length], 405),
        ("POST", "/a", vec![media_type], 405),
        ("POST", "/a", vec![media_type, ("content-length", "0")], 405),
        (
            "POST",
            "/a",
            vec![media_type, ("content-length", "1025")],
            405,
        ),
        (
            "POST",
            "/a",
            vec![media_type, ("content-length", "1x")],
            405,
        ),
        (
            "POST",
            "/a",
            vec![("content-type", "text/plain"), length],
            405,
        ),
    ];
    for (method, path, headers, status) in forms {
        let encoded = map(&headers);
        let head = Head {
            method: method.as_bytes(),
            ..post(path, &encoded)
        };
        world.last_stream += 1;
        let became = match world.request(world.last_stream, &head) {
            Step::Pass => 0,
            Step::Answer(answer, None) => answer.status,
            other => panic!("{method} {path} {headers:?}: {other:?}"),
        };
        assert_eq!(became, status, "{method} {path} {headers:?}");
    }
    assert_eq!(world.lookups, lookups);
}

#[test]
fn form_when_below_a_code_needs_a_link_that_forwards_paths() {
    let forwarding = Extension {
        unlock_key: Some(unlock_key()),
        forward_path: true,
        ..Extension::default()
    };
    for (extension, is_for_link) in [(extension(None), false), (forwarding.to_bytes(), true)] {
        let mut world = World::with(settings_with(r#","forwardPaths":true"#));
        let (stream, token) = world.form("/a/x");
        let resumed = world.resume(token.unwrap(), KEY, locked(&extension));
        let step = match world.on_form_link(&resumed) {
            FormStep::Hold => world.edge.on_form_body(stream, BODY),
            step => step,
        };
        assert_eq!(matches!(step, FormStep::Ask(_)), is_for_link, "{step:?}");
        assert_eq!(matches!(step, FormStep::Pass), !is_for_link, "{step:?}");
        let headers = map(&FORM);
        world.last_stream += 1;
        let step = world.request(world.last_stream, &post("/a/x", &headers));
        assert_eq!(matches!(step, Step::Hold(None, None)), is_for_link);
        assert_eq!(matches!(step, Step::Pass), !is_for_link);
    }
}

/// The streams of the forms that end with a tick.
fn ended(actions: Vec<Action>) -> Vec<StreamId> {
    let ends = actions.into_iter().filter_map(|action| match action {
        Action::EndForm(end) => Some(end.stream),
        _ => None,
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_unstable();
    ends
}

#[test]
fn forms_when_without_a_body_make_room_for_others() {
    let mut world = World::new();
    world.know("a", locked(&extension(None)));
    let streams: Vec<_> = (0..MAX_FORMS).map(|_| world.form("/a").0).collect();
    let headers = map(&FORM);
    let next = |world: &mut World, path| {
        world.last_stream += 1;
        match world.request(world.last_stream, &post(path, &headers)) {
            Step::Hold(_, ended) => Ok(ended.map(|ended| ended.stream)),
            Step::Answer(answer, None) => Err(answer.status),
            other => panic!("{other:?}"),
        }
    };
    asked(world.edge.on_form_body(streams[0], BODY));
    world.stand_still(1);
    assert_eq!(next(&mut world, "/a"), Ok(Some(streams[1])));
    let unknown = next(&mut world, "/unknown");
    assert_eq!(unknown, Ok(Some(streams[2])));
    for stream in &streams[1..=2] {
        assert!(!world.edge.holds_form(*stream));
        assert_eq!(world.edge.on_form_body(*stream, BODY), FormStep::Hold);
    }
    world.edge.on_stream_end(streams[3]);
    assert_eq!(next(&mut world, "/a"), Ok(None));
    for stream in 0..=world.last_stream {
        world.edge.on_form_body(stream, BODY);
    }
    assert_eq!(next(&mut world, "/a"), Err(503));
    assert_eq!(next(&mut world, "/other"), Err(503));
}

#[test]
fn forms_when_of_several_workers_have_the_room_of_each() {
    let settings = settings().for_process(3).unwrap();
    let mut world = World::with(settings.clone());
    world.know("a", locked(&extension(None)));
    // Forms that do not end another one are held.
    let oldest = world.form("/a").0;
    for _ in 1..3 * MAX_FORMS {
        world.form("/a");
    }
    let headers = map(&FORM);
    let next = |world: &mut World| {
        world.last_stream += 1;
        match world.request(world.last_stream, &post("/a", &headers)) {
            Step::Hold(None, ended) => ended.map(|ended| ended.stream),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(next(&mut world), Some(oldest));
    let settings = settings.for_process(2).unwrap();
    world.edge.configure(&mut world.host, Arc::new(settings));
    assert_eq!(next(&mut world), None);
}

#[test]
fn forms_when_their_time_is_up_are_ended() {
    let mut world = World::new();
    world.know("a", locked(&extension(None)));
    let (known, _) = world.form("/a");
    let (unknown, _) = world.form("/unknown");
    let (without_body, _) = world.form("/a");
    let callout = asked(world.edge.on_form_body(known, BODY));
    world.edge.forms.on_sent(callout.stream, 9_999);
    assert_eq!(world.edge.on_form_body(unknown, BODY), FormStep::Hold);
    let actions = world.tick(BODY_MILLIS - 1);
    assert!(ended(actions).is_empty());
    let actions = world.tick(1);
    assert_eq!(ended(actions), [without_body]);
    let actions = world.tick(FORM_MILLIS - BODY_MILLIS - 1);
    assert!(ended(actions).is_empty());
    let actions = world.tick(1);
    assert_eq!(ended(actions), [known, unknown]);
    let late = world.edge.on_form_end(9_999, Response::default(), b"");
    assert_eq!(late, None, "the visitor has his answer");
}

/// The visitor notices only the delay until the tick, not the end of a configuration.
#[test]
fn form_when_its_callout_ends_with_its_root_is_sent_again() {
    const ROOTS: [RootId; 2] = [1, 2];
    let mut world = World::new();
    for root in ROOTS {
        let settings = Arc::new(settings_with(""));
        world.edge.on_root(&mut world.host, root, settings);
    }
    world.know("a", locked(&extension(None)));
    let callout = world.submit("/a");
    world.edge.forms.on_sent(callout.stream, 9_999);
    let gone = world.submit("/a");
    world.edge.forms.on_sent(gone.stream, 9_998);
    let (without_body, _) = world.form("/a");
    world.edge.on_root_end(&mut world.host, ROOTS[0]);
    world.edge.on_stream_end(gone.stream);
    let again = world.tick(100);
    let again: Vec<_> = again
        .into_iter()
        .filter_map(|action| match action {
            Action::Send(Callout::Form(callout)) => Some(callout),
            _ => None,
        })
        .collect();
    assert_eq!(again, [callout]);
    let end = world.unlocks(&again[0], ("200", &cookie_value()), "");
    assert_eq!(world.answer_form(&end, "/a", "https").status, 303);
    assert!(world.edge.holds_form(without_body));
    assert!(world.tick(100).is_empty());
}

#[test]
fn visitor_when_without_the_password_takes_no_use() {
    let mut world = World::new();
    let extension = extension(Some(1_000));
    let token = world.ask("/a");
    let Waiting(_) = world.visit("/a") else {
        panic!("one lookup is under way");
    };
    let resumed = world.resume(token, KEY, locked(&extension));
    let [stranger, visitor] = resumed.waiters[..] else {
        panic!("{resumed:?}");
    };
    let admitted = world.edge.admit_unlocked(&world.host, stranger, &resumed);
    assert!(admitted.is_none(), "he gets the page");
    let page = seen(
        &world
            .edge
            .answer(&world.host, stranger, &resumed, &get("/a"))
            .unwrap(),
    );
    assert_eq!((page.status, page.location), (200, None));
    world.host.cookies = cookie().into();
    let admitted = world.edge.admit_unlocked(&world.host, visitor, &resumed);
    let mut actions = admitted.expect("a visit is asked for");
    let Some(Action::Send(Callout::Lookup(callout))) = actions.pop() else {
        panic!("{actions:?}");
    };
    let number = VisitsRequest::decode(&callout.body).unwrap().number;
    let token = world.send(&callout);
    let answer = VisitsAnswer {
        number,
        visits: 1,
        millis: 5_000,
    };
    let response = Response {
        status: b"200",
        content_type: VisitsAnswer::MEDIA_TYPE.as_bytes(),
        body: &answer.to_bytes(),
    };
    let now = Moment::from_millis(world.now);
    let mut actions = world
        .edge
        .on_callout_end(&mut world.host, token, response, now);
    let Some(Action::Resume(resumed)) = actions.pop() else {
        panic!("{actions:?}");
    };
    assert_eq!(resumed.waiters, [visitor]);
    let headers = map(&[("cookie", &cookie())]);
    let head = Head {
        headers: HeaderMap::new(&headers),
        ..get("/a")
    };
    let answer = world.edge.answer(&world.host, visitor, &resumed, &head);
    assert_eq!(
        seen(&answer.unwrap()).location.as_deref(),
        Some("https://a/")
    );
}
