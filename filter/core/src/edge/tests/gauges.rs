//! Gauges after the end of workers, in order or not.

use super::*;

/// A proxy with its statistics, which runs one worker after the other.
fn with_host_of(mut world: World, other: &mut World) -> World {
    std::mem::swap(&mut world.host, &mut other.host);
    world
}

fn level(world: &World) -> Option<i64> {
    world.host.stats.get("edgelink.lru_entries").copied()
}

fn named(seed: u64) -> World {
    let mut world = World::new();
    let wall = WallClock::new(Moment::from_millis(START), UNIX_START);
    world.edge = Edge::new(Arc::new(settings()), [7; 16], seed, wall);
    world
}

#[test]
fn level_when_its_worker_trapped_is_taken_out() {
    let mut trapped = named(1);
    trapped.know("a", link("https://e/", 1));
    trapped.pass(100);
    assert_eq!(level(&trapped), Some(1));
    let mut world = with_host_of(named(2), &mut trapped);
    world.pass(9_000);
    assert_eq!(level(&world), Some(1), "it may be slow");
    for _ in 0..40 {
        world.pass(100);
    }
    assert_eq!(level(&world), Some(0));
    world.know("b", link("https://e/", 1));
    world.pass(100);
    assert_eq!(level(&world), Some(1));
}

#[test]
fn worker_when_taken_for_gone_writes_its_level_again() {
    let mut frozen = named(1);
    frozen.know("a", link("https://e/", 1));
    frozen.pass(100);
    let mut world = with_host_of(named(2), &mut frozen);
    world.pass(20_000);
    assert_eq!(level(&world), Some(0));
    let mut frozen = with_host_of(frozen, &mut world);
    frozen.pass(20_000);
    assert_eq!(level(&frozen), Some(1));
    frozen.edge.on_end(&mut frozen.host);
    assert_eq!(level(&frozen), Some(0));
}

#[test]
fn level_slot_when_its_worker_ended_is_used_again() {
    let mut last = named(1);
    for seed in 2..20 {
        last.pass(100);
        last.edge.on_end(&mut last.host);
        last = with_host_of(named(seed), &mut last);
    }
    last.pass(100);
    assert!(last.host.store.value("levels/0").is_some());
    assert!(last.host.store.value("levels/1").is_none());
}
