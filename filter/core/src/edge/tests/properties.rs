//! Links with rarely used properties: answered and passed requests.

use super::*;
use edgelink_wire::record::Extension;
use edgelink_wire::{LinkRecord, LinkState};

/// A link with an extension, expired from `valid_until` on.
fn extended(extension: &[u8], valid_until: Option<u64>) -> Record<&str> {
    let Record::Link(link) = link("https://own/a?b", 1) else {
        unreachable!()
    };
    Record::Link(LinkRecord {
        extension,
        valid_until,
        ..link
    })
}

fn forwarding() -> Vec<u8> {
    let extension = Extension {
        forward_path: true,
        ..Extension::default()
    };
    extension.to_bytes()
}

fn with_forwarded_paths() -> World {
    World::with(settings_with(r#","forwardPaths":true,"clicks":{}"#))
}

/// The value of a further header of the answer to a visitor of a known link.
fn header(world: &mut World, path: &str, name: &str) -> Option<String> {
    world.last_stream += 1;
    match world.request(world.last_stream, &get(path)) {
        Step::Answer(answer, _) => {
            let mut more = answer.more().iter();
            let found = more.find(|(each, _)| *each == name);
            found.map(|(_, value)| (*value).to_owned())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn path_when_below_a_code_passes_by_default() {
    let mut world = World::new();
    let extension = forwarding();
    world.know("a", extended(&extension, None));
    let lookups = world.lookups;
    for path in ["/a/", "/a/x", "/b/x?y"] {
        assert_eq!(world.visit(path), Passed, "{path}");
    }
    assert_eq!(world.lookups, lookups);
}

#[test]
fn path_when_below_a_code_is_looked_up_by_the_code() {
    let mut world = with_forwarded_paths();
    let extension = forwarding();
    let token = world.ask("/a/x?y");
    let Waiting(second) = world.visit("/a") else {
        panic!("one lookup is under way");
    };
    let answers = world.answer_waiters(
        token,
        "go.example/a",
        extended(&extension, None),
        |stream| {
            if stream == second { "/a" } else { "/a/x?y" }
        },
    );
    let sent_to = ["https://own/a/x?b&y", "https://own/a?b"];
    assert_eq!(answers, sent_to.map(|to| redirect(to, "control-plane")));
    for (path, to) in [
        ("/a/x/y", "https://own/a/x/y?b"),
        ("/a/", "https://own/a/?b"),
        ("/a/%2F?z", "https://own/a/%2F?b&z"),
    ] {
        assert_eq!(world.visit(path), Answered(redirect(to, "lru")), "{path}");
    }
    for path in ["/a/..", "/a/x/%2e%2e/y"] {
        assert_eq!(world.visit(path), Answered(page(404, "lru")), "{path}");
    }
    assert_eq!(world.lookups, 1);
    assert_eq!(world.counted("clicks.sent"), 5);
    for path in ["//a/x", "/a;b/x", "/api/x", "/edge/v1/links"] {
        assert_eq!(world.visit(path), Passed, "{path}");
    }
}

#[test]
fn path_when_the_link_does_not_forward_it_is_404() {
    let mut world = with_forwarded_paths();
    let token = world.ask("/a/x");
    let answers = world.answer_waiters(token, "go.example/a", link("https://a/", 1), |_| "/a/x");
    assert_eq!(answers, [page(404, "control-plane")]);
    assert_eq!(world.visit("/a/"), Answered(page(404, "lru")));
    assert_eq!(world.visit("/a"), Answered(redirect("https://a/", "lru")));
    let token = world.ask("/b/x");
    let absent = Record::Absent { rev: 0 };
    let answers = world.answer_waiters(token, "go.example/b", absent, |_| "/b/x");
    assert_eq!(answers, [page(404, "control-plane")]);
    let token = world.ask("/c/x");
    assert_eq!(
        world.time_out(token),
        [unavailable()],
        "a failure is no 404"
    );
}

#[test]
fn link_when_expired_redirects_to_its_url_without_a_click() {
    let mut world = with_forwarded_paths();
    let extension = Extension {
        expired_url: Some(b"https://own/over"),
        ..Extension::default()
    };
    let extension = extension.to_bytes();
    let until = UNIX_START / 1_000 + 2;
    world.know("a", extended(&extension, Some(until)));
    assert_eq!(
        world.visit("/a"),
        Answered(redirect("https://own/a?b", "lru"))
    );
    world.pass(2_000);
    let over = Answered(redirect("https://own/over", "lru"));
    assert_eq!(world.visit("/a"), over);
    assert_eq!(world.visit("/a?c"), over);
    assert_eq!(world.visit("/a/x"), Answered(page(404, "lru")));
    assert_eq!(world.counted("requests.lru.expired"), 2);
    assert_eq!(world.counted("clicks.sent"), 2, "those before");
    let Record::Link(link) = extended(&extension, None) else {
        unreachable!()
    };
    let state = LinkState::Disabled;
    world.know("b", Record::Link(LinkRecord { state, ..link }));
    assert_eq!(world.visit("/b"), Answered(page(410, "lru")));
}

#[test]
fn redirect_when_noindex_is_on_is_marked_unless_crawlable() {
    let extension = Extension {
        crawlable: true,
        ..Extension::default()
    };
    let extension = extension.to_bytes();
    let noindex = Some("noindex".to_owned());
    for (more, expected) in [("", None), (r#","noindex":true"#, noindex)] {
        let mut world = World::with(settings_with(more));
        world.know("a", link("https://a/", 1));
        world.know("b", extended(&extension, None));
        world.know("c", extended(&extension, Some(1)));
        assert_eq!(header(&mut world, "/a", "x-robots-tag"), expected);
        assert_eq!(header(&mut world, "/b", "x-robots-tag"), None);
        assert_eq!(header(&mut world, "/c", "x-robots-tag"), None);
    }
}
