use super::*;
use crate::fake::hasher;
use edgelink_wire::domain::Domain;
use edgelink_wire::{CodeFilter, CodeLength, Entry, FeedPosition};

const NOW: Moment = Moment::from_millis(100_000);

const LIFETIMES: Lifetimes = Lifetimes {
    fresh_millis: 5_000,
    absent_fresh_millis: 5_000,
    with_feed_millis: 5_000,
    stale_millis: 60_000,
};

fn place(millis: u64) -> FeedPlace {
    FeedPlace {
        generation: 7,
        position: FeedPosition::new(millis, 0),
    }
}

fn bytes(name: &str, root: &str, rev: u64) -> Vec<u8> {
    let targets = DomainTargets {
        root: Some(root),
        ..DomainTargets::default()
    };
    targets
        .record(&Domain::parse(name).unwrap(), rev)
        .to_bytes()
}

fn snapshot<'a>(at: FeedPlace, domains: &'a [(String, Vec<u8>)]) -> Snapshot<'a> {
    let entry = |(key, record): &'a (String, Vec<u8>)| Entry {
        key: key.as_bytes(),
        record: Record::decode(record).unwrap(),
    };
    Snapshot {
        generation: at.generation,
        position: at.position,
        bound: 0,
        length: CodeLength::DEFAULT,
        key: None,
        domains: Vec::new(),
        codes: CodeFilter::with_capacity(0).unwrap(),
        hot: domains.iter().map(entry).collect(),
    }
}

/// A table with a snapshot at 5 that has these domains.
fn complete(names: &[&str]) -> ApiDomains {
    let mut domains = ApiDomains::new(true, hasher());
    domains.begin(place(5));
    apply(&mut domains, 5, names);
    domains
}

/// Applies a snapshot with these domains, each with revision 10.
fn apply(domains: &mut ApiDomains, millis: u64, names: &[&str]) {
    let entries = names
        .iter()
        .map(|name| (format!("{name}/"), bytes(name, "https://s/", 10)));
    let entries: Vec<_> = entries.collect();
    domains.apply_snapshot(&snapshot(place(millis), &entries), NOW);
}

fn change(domains: &mut ApiDomains, name: &str, root: &str, rev: u64) {
    let bytes = bytes(name, root, rev);
    domains.on_change(name, &Record::decode(&bytes).unwrap());
}

fn root<'a>(domains: &'a ApiDomains, name: &str) -> Option<&'a str> {
    domains.targets(name.as_bytes())?.root.as_deref()
}

fn find<'a>(domains: &'a ApiDomains, host: &str) -> HostState<'a> {
    domains.find(host.as_bytes(), NOW, &LIFETIMES)
}

#[test]
fn host_when_case_or_default_port_differs_finds_its_domain() {
    let domains = complete(&["b.example", "a.example", "c.example"]);
    for host in ["a.example", "A.Example", "a.example:443", "a.example."] {
        assert_eq!(find(&domains, host), HostState::Domain("a.example"));
    }
    for host in ["", "aa.example", "a.example:81", "d.example"] {
        assert_eq!(find(&domains, host), HostState::Unknown, "{host}");
    }
    assert_eq!(root(&domains, "c.example"), Some("https://s/"));
    assert!(domains.targets_of_key(b"c.example/abc").is_some());
    assert!(domains.targets_of_key(b"d.example/abc").is_none());
}

#[test]
fn host_when_feed_is_behind_is_doubtful_then_awaited() {
    let mut domains = ApiDomains::new(true, hasher());
    assert_eq!(find(&domains, "x"), HostState::Awaited);
    domains.begin(place(5));
    apply(&mut domains, 5, &[]);
    assert_eq!(find(&domains, "x"), HostState::Unknown);
    let later = NOW.after(5_000);
    assert_eq!(domains.find(b"x", later, &LIFETIMES), HostState::Doubtful);
    domains.on_time(Some(later));
    assert_eq!(domains.find(b"x", later, &LIFETIMES), HostState::Unknown);
    domains.restart();
    assert_eq!(domains.find(b"x", later, &LIFETIMES), HostState::Doubtful);
    // A feed alone does not have the changes before it.
    domains.on_time(Some(later.after(50_000)));
    let far = later.after(60_000);
    assert_eq!(domains.find(b"x", far, &LIFETIMES), HostState::Awaited);
}

#[test]
fn record_when_older_than_known_is_ignored() {
    let mut domains = complete(&["a.example"]);
    change(&mut domains, "a.example", "https://old/", 9);
    assert_eq!(root(&domains, "a.example"), Some("https://s/"));
    change(&mut domains, "a.example", "https://new/", 11);
    assert_eq!(root(&domains, "a.example"), Some("https://new/"));
    domains.on_change("a.example", &Record::Absent { rev: 12 });
    change(&mut domains, "a.example", "https://late/", 11);
    assert_eq!(find(&domains, "a.example"), HostState::Unknown);
}

#[test]
fn snapshot_when_newer_removes_domains_and_keeps_fed_changes() {
    let mut domains = complete(&["gone.example", "stays.example"]);
    domains.restart();
    assert!(!domains.wants_snapshot());
    domains.begin(place(7));
    change(&mut domains, "new.example", "https://new/", 20);
    domains.on_change("removed.example", &Record::Absent { rev: 20 });
    assert!(domains.wants_snapshot());
    apply(&mut domains, 6, &[]);
    assert!(domains.wants_snapshot(), "it is older");
    assert_eq!(
        find(&domains, "gone.example"),
        HostState::Domain("gone.example")
    );
    apply(&mut domains, 7, &["stays.example", "removed.example"]);
    assert!(!domains.wants_snapshot());
    assert_eq!(find(&domains, "gone.example"), HostState::Unknown);
    assert_eq!(find(&domains, "removed.example"), HostState::Unknown);
    assert_eq!(root(&domains, "stays.example"), Some("https://s/"));
    assert_eq!(root(&domains, "new.example"), Some("https://new/"));
}

#[test]
fn waiter_when_host_is_known_or_time_is_up_is_released() {
    let waiter = |stream| Waiter {
        stream,
        has_more: false,
        is_below: false,
        is_click: true,
        is_counted: true,
        is_prefetch: false,
        is_other: false,
        is_form: false,
    };
    let mut domains = ApiDomains::new(true, hasher());
    assert!(domains.wait(waiter(1), NOW, 2));
    assert!(domains.wait(waiter(2), NOW.after(1_000), 2));
    assert!(!domains.wait(waiter(3), NOW, 2));
    assert!(domains.take_waiting(NOW.after(1_999)).is_empty());
    assert_eq!(domains.take_waiting(NOW.after(2_000)), [waiter(1)]);
    domains.leave(2);
    assert!(domains.wait(waiter(4), NOW, 2));
    domains.on_failure();
    assert_eq!(domains.take_waiting(NOW), [waiter(4)]);
    assert!(domains.wait(waiter(5), NOW, 2));
    domains.begin(place(5));
    apply(&mut domains, 5, &[]);
    assert_eq!(domains.take_waiting(NOW), [waiter(5)]);
}

#[test]
fn domains_when_removals_exceed_the_bound_become_doubtful() {
    let mut domains = complete(&[]);
    for number in 0..=MAX_KEPT {
        let name = format!("{number}.example");
        domains.on_change(&name, &Record::Absent { rev: 1 });
    }
    assert_eq!(domains.known.len(), 1);
    assert_eq!(find(&domains, "x"), HostState::Doubtful);
}
