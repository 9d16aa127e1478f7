//! Root contexts that begin and end with the proxy's configurations.

use super::*;

const FIRST: RootId = 1;
const SECOND: RootId = 2;

impl World {
    /// A worker with a root context.
    fn with_root() -> Self {
        let mut world = Self::new();
        world.start(FIRST, "");
        world
    }

    fn start(&mut self, root: RootId, more: &str) {
        let settings = Arc::new(settings_with(more));
        self.edge.on_root(&mut self.host, root, settings);
    }

    fn end_root(&mut self, root: RootId) {
        self.edge.on_root_end(&mut self.host, root);
    }

    /// A request through a root.
    fn visit_through(&mut self, root: RootId, path: &str) -> Became {
        self.edge.on_stream(self.last_stream + 1, root);
        self.visit(path)
    }
}

#[test]
fn home_when_the_first_root_ends_is_the_last_configured() {
    let mut world = World::with_root();
    for root in [SECOND, 3, 4] {
        world.start(root, "");
    }
    world.start(SECOND, "");
    assert_eq!(world.edge.home(), Some(FIRST));
    world.end_root(4);
    assert_eq!(world.edge.home(), Some(FIRST));
    world.end_root(FIRST);
    assert_eq!(world.edge.home(), Some(SECOND));
    world.end_root(77);
    world.end_root(SECOND);
    assert_eq!(world.edge.home(), Some(3));
    world.end_root(3);
    assert_eq!(world.edge.home(), None);
    world.start(5, "");
    assert_eq!(world.edge.home(), Some(5));
}

#[test]
fn settings_when_a_root_ends_are_of_the_last_that_lives() {
    let mut world = World::with_root();
    let slots = |world: &World| world.edge.settings().slots;
    world.start(SECOND, r#","sharedData":{"slots":2}"#);
    world.start(3, r#","sharedData":{"slots":3}"#);
    assert_eq!(slots(&world), 3);
    world.end_root(SECOND);
    assert_eq!(slots(&world), 3);
    world.end_root(3);
    assert_eq!(slots(&world), 65_536);
}

#[test]
fn record_when_requested_is_fresh_as_its_root_says() {
    let mut world = World::with_root();
    world.start(SECOND, r#","freshSeconds":50,"staleSeconds":60"#);
    world.know("a", link("https://e/", 1));
    world.pass(10_000);
    let seen = world.visit_through(SECOND, "/a");
    assert_eq!(seen, Answered(redirect("https://e/", "lru")));
    assert!(matches!(world.visit_through(FIRST, "/a"), Waiting(_)));
}

#[test]
fn stream_when_its_root_is_not_named_belongs_to_the_first() {
    let mut world = World::with_root();
    world.start(SECOND, r#","freshSeconds":50,"staleSeconds":60"#);
    world.know("a", link("https://e/", 1));
    world.pass(10_000);
    assert!(matches!(world.visit("/a"), Waiting(_)));
}

#[test]
fn stream_when_it_or_its_root_ends_is_forgotten() {
    let mut world = World::with_root();
    world.start(SECOND, "");
    for stream in 0..100 {
        world.edge.on_stream(stream, SECOND);
        world.edge.on_stream(stream + 100, FIRST);
    }
    assert_eq!(world.edge.roots.others(), 100);
    for stream in 0..50 {
        world.edge.on_stream_end(stream);
    }
    assert_eq!(world.edge.roots.others(), 50);
    world.end_root(SECOND);
    assert_eq!(world.edge.roots.others(), 0);
}

#[test]
fn lookup_when_its_callout_ends_with_its_root_is_repeated() {
    let mut world = World::with_root();
    world.start(SECOND, "");
    let lost = world.ask("/a");
    world.end_root(FIRST);
    assert_eq!(world.counted("callouts.failed"), 1);
    let again = world.last_token;
    assert_ne!(again, lost);
    assert_eq!(
        world.end_with(lost, "go.example/a", link("https://e/", 1)),
        []
    );
    let answers = world.end_with(again, "go.example/a", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
}

#[test]
fn lookup_when_it_loses_its_callout_twice_is_sent_again_once() {
    let mut world = World::with_root();
    world.start(SECOND, "");
    world.ask("/a");
    world.end_root(FIRST);
    world.end_root(SECOND);
    world.start(3, "");
    let before = world.last_token;
    world.pass(100);
    assert_eq!(world.last_token, before + 1);
}
