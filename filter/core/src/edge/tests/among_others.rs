//! Links among other paths, and requests with methods other than GET and HEAD.

use super::*;
use crate::forms::FormStep;
use edgelink_wire::record::Extension;
use edgelink_wire::{LinkState, RedirectStatus};

const KEY: &str = "go.example/a";

fn with_status(status: RedirectStatus, extension: &[u8]) -> Record<&str> {
    let Record::Link(link) = link("https://a/", 1) else {
        panic!("it is a link");
    };
    Record::Link(edgelink_wire::LinkRecord {
        redirect: status,
        extension,
        ..link
    })
}

impl World {
    fn by(&mut self, method: &str, path: &str) -> Became {
        self.last_stream += 1;
        let stream = self.last_stream;
        let head = Head {
            method: method.as_bytes(),
            ..get(path)
        };
        if let Some(became) = self.hit(stream, &head) {
            return became;
        }
        let (became, callout) = match self.request(stream, &head) {
            Step::Pass => (Passed, None),
            Step::Answer(answer, callout) => (Answered(seen(&answer)), callout),
            Step::Wait(callout) => (Waiting(stream), callout),
            Step::Hold(..) => panic!("it is no form"),
        };
        callout.iter().for_each(|callout| {
            self.send(callout);
        });
        became
    }

    /// A visitor of that path causes a lookup of that key.
    fn put(&mut self, path: &str, key: &str, record: Record<&str>) {
        let token = self.ask(path);
        self.resume(token, key, record);
    }

    /// The statuses of all waiters; `None` for each that passes.
    fn statuses(&mut self, resumed: &Resumed, path: &str) -> Vec<Option<u16>> {
        let waiters = resumed.waiters.clone();
        let answer = |waiter| {
            let answer = self.edge.answer(&self.host, waiter, resumed, &get(path));
            answer.map(|answer| answer.status)
        };
        waiters.into_iter().map(answer).collect()
    }
}

fn status(became: Became) -> Option<u16> {
    match became {
        Passed => None,
        Answered(seen) => Some(seen.status),
        Waiting(stream) => panic!("{stream} waits"),
    }
}

#[test]
fn path_when_outside_the_prefix_passes() {
    let mut world = World::with(settings_with(r#","prefix":"/s/","forwardPaths":true"#));
    for path in [
        "/", "/a", "/a/b", "/s", "/sa", "/S/a", "/x/s/a", "/?x", "/s/", "/s/api",
    ] {
        assert_eq!(world.visit(path), Passed, "{path}");
    }
    assert_eq!(world.lookups, 0);
    world.put("/s/a", KEY, link("https://a/", 1));
    assert_eq!(
        world.visit("/s/a?b=1"),
        Answered(redirect("https://a/?b=1", "lru"))
    );
    let Answered(below) = world.visit("/s/a/b") else {
        panic!("it is known");
    };
    assert_eq!(below.status, 404, "the link forwards no paths");
    assert_eq!(world.visit("/a"), Passed);
}

#[test]
fn request_when_it_has_waited_is_answered_without_its_prefix() {
    let mut world = World::with(settings_with(r#","prefix":"/s/","forwardPaths":true"#));
    let extension = Extension {
        forward_path: true,
        ..Extension::default()
    };
    let token = world.ask("/s/a/b?c=d");
    let resumed = world.resume(
        token,
        KEY,
        with_status(RedirectStatus::Found, &extension.to_bytes()),
    );
    let [waiter] = resumed.waiters[..] else {
        panic!("{resumed:?}");
    };
    let answer = world
        .edge
        .answer(&world.host, waiter, &resumed, &get("/s/a/b?c=d"));
    let location = seen(&answer.unwrap()).location;
    assert_eq!(location.as_deref(), Some("https://a/b?c=d"));
}

#[test]
fn path_when_it_has_a_trailing_slash_passes_unless_permitted() {
    let mut world = World::with(settings_with(r#","trailingSlash":true"#));
    world.know("a", link("https://a/", 1));
    for (path, location) in [
        ("/a/", "https://a/"),
        ("/a/?b=1", "https://a/?b=1"),
        ("/a?b=1", "https://a/?b=1"),
    ] {
        assert_eq!(world.visit(path), Answered(redirect(location, "lru")));
    }
    assert_eq!(world.visit("/a//"), Passed);
    let mut world = World::new();
    world.know("a", link("https://a/", 1));
    assert_eq!(world.visit("/a/"), Passed);
}

#[test]
fn code_when_without_a_link_passes_where_configured() {
    let mut world = World::with(settings_with(r#","unknownCodes":"pass""#));
    let token = world.ask("/a");
    let resumed = world.resume(token, KEY, Record::Absent { rev: 1 });
    assert_eq!(world.statuses(&resumed, "/a"), [None]);
    assert_eq!(world.visit("/a"), Passed, "it is known to be absent");
    world.know("b", link("https://b/", 1));
    assert_eq!(status(world.visit("/b")), Some(302));
    let Record::Link(mut later) = link("https://c/", 1) else {
        panic!("it is a link");
    };
    later.valid_since = Some(UNIX_START / 1_000 + 60);
    world.put("/c", "go.example/c", Record::Link(later));
    assert_eq!(world.visit("/c"), Passed, "it is not valid yet");
    later.valid_since = None;
    later.state = LinkState::Disabled;
    world.put("/d", "go.example/d", Record::Link(later));
    assert_eq!(status(world.visit("/d")), Some(410));
    let token = world.ask("/e");
    assert_eq!(world.end(token, Response::default()), [unavailable()]);
    for (tier, passed) in [("control_plane", 1), ("lru", 2)] {
        assert_eq!(world.counted(&format!("requests.{tier}.not_found")), 0);
        let name = format!("requests.{tier}.passed");
        assert_eq!(world.counted(&name), passed, "{tier}");
    }
}

#[test]
fn method_when_kept_by_the_redirect_status_is_redirected() {
    for (redirect, expected) in [
        (RedirectStatus::Found, Some(405)),
        (RedirectStatus::MovedPermanently, Some(405)),
        (RedirectStatus::TemporaryRedirect, Some(307)),
        (RedirectStatus::PermanentRedirect, Some(308)),
    ] {
        let mut world = World::new();
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "get", ""] {
            let Waiting(_) = world.by(method, "/a") else {
                panic!("{method}");
            };
        }
        let token = world.last_token;
        assert_eq!(world.lookups, 1, "they share it");
        let resumed = world.resume(token, KEY, with_status(redirect, b""));
        assert_eq!(world.statuses(&resumed, "/a"), [expected; 6]);
        for method in ["POST", "PATCH"] {
            assert_eq!(status(world.by(method, "/a")), expected, "{method}");
        }
        assert_eq!(status(world.by("HEAD", "/a")), Some(redirect.code()));
    }
}

#[test]
fn method_when_not_allowed_is_answered_with_allow() {
    let mut world = World::new();
    world.know("a", link("https://a/", 1));
    let head = Head {
        method: b"PUT",
        ..get("/a")
    };
    let Step::Answer(answer, None) = world.request(1, &head) else {
        panic!("it is answered");
    };
    assert_eq!(answer.more(), [("allow", "GET, HEAD")]);
    assert!(answer.page().is_none());
    assert_eq!(world.counted("requests.lru.not_allowed"), 1);
}

#[test]
fn method_when_there_is_no_link_passes() {
    let mut world = World::new();
    world.know("a", Record::Absent { rev: 1 });
    assert_eq!(world.by("POST", "/a"), Passed);
    assert_eq!(status(world.visit("/a")), Some(404));
}

#[test]
fn method_when_not_allowed_takes_no_use() {
    let limited = Extension {
        max_visits: Some(1),
        ..Extension::default()
    };
    let limited = limited.to_bytes();
    for (redirect, is_visit) in [
        (RedirectStatus::Found, false),
        (RedirectStatus::TemporaryRedirect, true),
    ] {
        let mut world = World::new();
        world.by("POST", "/a");
        let token = world.last_token;
        let body = aged(KEY, with_status(redirect, &limited), 0);
        let response = Response {
            status: b"200",
            content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
            body: &body,
        };
        let now = Moment::from_millis(world.now);
        let actions = world
            .edge
            .on_callout_end(&mut world.host, token, response, now);
        let asks = actions.iter().any(|it| matches!(it, Action::Send(_)));
        assert_eq!(asks, is_visit, "of a waiter");
        let became = world.by("POST", "/a");
        assert_eq!(matches!(became, Waiting(_)), is_visit, "of a known link");
    }
}

#[test]
fn request_when_options_trace_or_head_counts_no_use_or_click() {
    let limited = Extension {
        max_visits: Some(1),
        ..Extension::default()
    };
    let limited = limited.to_bytes();
    for (extension, is_limited) in [(&limited[..], true), (&b""[..], false)] {
        let mut world = World::with(settings_with(r#","clicks":{}"#));
        let record = with_status(RedirectStatus::TemporaryRedirect, extension);
        for method in ["OPTIONS", "TRACE", "HEAD"] {
            world.by(method, "/a");
        }
        let resumed = world.resume(world.last_token, KEY, record);
        assert_eq!(world.statuses(&resumed, "/a"), [Some(307); 3]);
        for method in ["OPTIONS", "TRACE", "HEAD"] {
            assert_eq!(status(world.by(method, "/a")), Some(307), "{method}");
        }
        world.stand_still(3_000);
        assert_eq!(world.counted("clicks.sent"), 0);
        let is_visit = matches!(world.by("POST", "/a"), Waiting(_));
        assert_eq!(is_visit, is_limited);
    }
}

#[test]
fn form_when_released_is_held_while_it_waits_for_a_use() {
    let limited = Extension {
        max_visits: Some(1),
        ..Extension::default()
    };
    let limited = limited.to_bytes();
    let record = with_status(RedirectStatus::TemporaryRedirect, &limited);
    for is_left in [true, false] {
        let mut world = World::new();
        let (stream, token) = world.form("/a");
        let resumed = world.resume(token.unwrap(), KEY, record);
        assert_eq!(world.on_form_link(&resumed), FormStep::Pass);
        let mut actions = world.edge.release_form(resumed.waiters[0], &resumed);
        let Some(Action::Send(Callout::Lookup(callout))) = actions.pop() else {
            panic!("{actions:?}");
        };
        let token = world.send(&callout);
        assert!(world.edge.holds_form(stream));
        assert_eq!(world.edge.on_form_body(stream, b"body"), FormStep::Hold);
        assert!(world.edge.on_form_too_long(stream).is_none());
        if is_left {
            world.edge.on_stream_end(stream);
        } else {
            assert_eq!(world.end(token, Response::default()), [unavailable()]);
        }
        assert!(!world.edge.holds_form(stream));
    }
}

#[test]
fn form_when_link_has_no_password_is_an_ordinary_request() {
    for (redirect, expected) in [
        (RedirectStatus::Found, Some(405)),
        (RedirectStatus::TemporaryRedirect, Some(307)),
    ] {
        let mut world = World::new();
        let (_, token) = world.form("/a");
        let resumed = world.resume(token.unwrap(), KEY, with_status(redirect, b""));
        assert_eq!(world.on_form_link(&resumed), FormStep::Pass);
        let actions = world.edge.release_form(resumed.waiters[0], &resumed);
        let [Action::Resume(released)] = &actions[..] else {
            panic!("{actions:?}");
        };
        assert_eq!(world.statuses(released, "/a"), [expected]);
    }
}
