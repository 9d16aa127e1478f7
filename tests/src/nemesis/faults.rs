//! The faults, and the schedule that a seed makes of them.

mod inflict;
mod pressure;

use super::deployment::{CONTROL_PLANES, DisturbedDeployment, ENVOYS, Listener, Shape, Side};
use super::proxy::Direction;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

pub(super) use inflict::{Nemesis, copy};
pub(super) use pressure::{CROWDED, is_pressure, plan_pressure};

/// Two faults at a time.
const LANES: usize = 2;
/// Seed of the one-minute run in `make test`: its one storm is short and has the faults that found the most bugs.
pub const SHORT_SEED: u64 = 294_152;
const PAUSE_MS: RangeInclusive<u64> = 200..=4000;
/// Resource shared by the faults of certificates and tokens.
const SECRETS: &str = "secrets";
const STORM_SECONDS: RangeInclusive<u64> = 20..=35;

/// A fault, and the part it affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// `kill -9`; started again afterwards.
    Kill(String),
    /// SIGSTOP, and SIGCONT afterwards.
    Stop(String),
    /// A connection carries no data, in one direction or in both; the bytes wait, or connections are broken.
    Cut(String, Vec<Direction>),
    /// A connection is broken, and new ones are refused.
    Refuse(String),
    /// All data is delayed by a number of milliseconds.
    Delay(String, Direction, u64),
    /// A part reaches no other part.
    Isolate(String),
    /// Redis refuses writes for want of replicas.
    NoReplicas,
    /// Redis refuses writes because it is a replica itself.
    ReadOnly,
    /// A replica that lacks the last writes takes over.
    Failover(usize),
    /// Redis restarts with the data of a while ago.
    OlderRedis(usize),
    /// Redis is emptied.
    EmptyRedis,
    /// Redis has run out of memory.
    FullRedis,
    /// The database is restored from an earlier copy.
    RestoreDatabase(usize),
    /// The tombstones of links deleted a while ago are purged.
    Purge,
    /// All caches drop everything, by `edgelink flush`.
    Flush,
    /// The control planes are stopped and started in turn.
    Rolling,
    /// A control plane without Redis is started on the same database, while the others are restarted.
    Stray,
    /// The listener of an Envoy changes, each time for a number of milliseconds.
    Reconfigure(usize, Vec<(Listener, u64)>),
    /// The wall clock of a part is moved by a number of seconds.
    MovableClock(String, i64),
    /// The certificates of a side, and their authority, are replaced as the manual says.
    RotateCertificates(Side),
    /// The token of Envoys is replaced likewise.
    RotateToken,
    /// A part presents a certificate from an authority that the others do not trust.
    WrongCertificate(String),
    /// Clients keep changing one link at the same time.
    CrowdedRow,
    /// Clients do so while another session keeps its row locked.
    LockedRow,
    /// A part receives requests whose body never arrives.
    SilentBodies(String),
    /// A transaction that reads a snapshot of the database is left open.
    OpenSnapshot,
    /// An Envoy is distant from all other parts.
    FarEdge(usize),
    /// Many links with a limit of one visit are followed at a distant Envoy, and then once more at another one.
    LimitedCrowd(usize),
}

impl Fault {
    /// Resources that two concurrent faults may not share.
    fn resources(&self, names: &Names) -> Vec<String> {
        let all_redis = || {
            let parts = names.parts.iter().filter(|name| name.starts_with("redis-"));
            let links = names.links.iter().filter(|name| name.contains(">redis"));
            parts.chain(links).cloned().collect::<Vec<_>>()
        };
        match self {
            Self::Kill(name) | Self::Stop(name) | Self::MovableClock(name, _) => vec![name.clone()],
            Self::Cut(name, _) | Self::Refuse(name) | Self::Delay(name, ..) => vec![name.clone()],
            Self::Isolate(name) => names.links_of(name),
            Self::NoReplicas
            | Self::ReadOnly
            | Self::Failover(_)
            | Self::OlderRedis(_)
            | Self::EmptyRedis
            | Self::FullRedis => all_redis(),
            Self::RestoreDatabase(_) => {
                let mut resources = names.links_of("mariadb");
                resources.push("mariadb".to_owned());
                resources
            }
            Self::Purge => vec!["mariadb".to_owned()],
            Self::Flush => Vec::new(), // it must work amid other faults
            Self::Rolling | Self::Stray => (0..CONTROL_PLANES)
                .map(|number| format!("cp-{number}"))
                .chain(["stray".to_owned()])
                .collect(),
            Self::Reconfigure(number, _) => vec![format!("envoy-{number}")],
            Self::RotateCertificates(_) | Self::RotateToken => vec![SECRETS.to_owned()],
            Self::WrongCertificate(name) => {
                // Redis reloads it on command, and so must be running then; others may start with it.
                let told = name.starts_with("redis-").then_some(name.as_str());
                [SECRETS]
                    .into_iter()
                    .chain(told)
                    .map(str::to_owned)
                    .collect()
            }
            Self::CrowdedRow | Self::LockedRow => vec![CROWDED.to_owned()],
            Self::SilentBodies(_) | Self::OpenSnapshot => Vec::new(),
            Self::FarEdge(number) | Self::LimitedCrowd(number) => {
                names.links_of(&format!("envoy-{number}"))
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(name)
            | Self::Stop(name)
            | Self::Isolate(name)
            | Self::Refuse(name)
            | Self::SilentBodies(name)
            | Self::WrongCertificate(name) => f.write_str(name),
            Self::FarEdge(number) | Self::LimitedCrowd(number) => write!(f, "envoy-{number}"),
            Self::RotateCertificates(side) => write!(f, "{side:?}"),
            Self::Cut(name, directions) => write!(f, "{name} {directions:?}"),
            Self::Delay(name, direction, millis) => write!(f, "{name} {direction:?} {millis} ms"),
            Self::Reconfigure(number, steps) => write!(f, "envoy-{number} {steps:?}"),
            Self::MovableClock(name, seconds) => write!(f, "{name} {seconds:+} s"),
            _ => Ok(()),
        }
    }
}

/// Names of everything that can break.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) shape: Shape,
    pub(super) parts: Vec<String>,
    pub(super) links: Vec<String>,
    /// Kinds of faults to use; empty for all.
    pub(super) only: Vec<String>,
}

impl Names {
    pub(super) fn of(deployment: &DisturbedDeployment, only: &[String]) -> Self {
        let parts = deployment.parts().map(|part| part.name.clone());
        let links = deployment.proxies().map(|(name, _)| name.to_owned());
        Self {
            shape: deployment.shape(),
            parts: parts.filter(|name| name != "stray").collect(),
            links: links.filter(|name| !name.starts_with("stray")).collect(),
            only: only.to_owned(),
        }
    }

    /// Connections from and to a part.
    pub(super) fn links_of(&self, part: &str) -> Vec<String> {
        let is_its = |name: &&String| {
            name.split_once('>').is_some_and(|(from, to)| {
                from == part || to == part || part.starts_with("redis") && to == "redis"
            })
        };
        self.links.iter().filter(is_its).cloned().collect()
    }

    fn part(&self, rng: &mut StdRng) -> String {
        self.parts.choose(rng).expect("a part").clone()
    }

    /// Picks a part that presents a certificate: any but the database, and the nodes of a cluster.
    fn shower(&self, rng: &mut StdRng) -> String {
        let is_plain = |name: &String| {
            name == "mariadb" || self.shape == Shape::Cluster && name.starts_with("redis-")
        };
        let showers: Vec<&String> = self.parts.iter().filter(|name| !is_plain(name)).collect();
        (*showers.choose(rng).expect("a part")).clone()
    }

    fn link(&self, rng: &mut StdRng) -> String {
        self.links.choose(rng).expect("a link").clone()
    }
}

/// A kind of fault.
struct FaultKind {
    /// Name in reports and in `FAULTS`.
    name: &'static str,
    /// Weight in the random choice.
    weight: u32,
    /// Duration in seconds.
    seconds: RangeInclusive<u64>,
    make: fn(&mut StdRng, &Names) -> Fault,
}

const fn kind(
    name: &'static str,
    weight: u32,
    seconds: RangeInclusive<u64>,
    make: fn(&mut StdRng, &Names) -> Fault,
) -> FaultKind {
    FaultKind {
        name,
        weight,
        seconds,
        make,
    }
}

/// The complete list of faults; those that only add load are in [`pressure`].
const KINDS: &[FaultKind] = &[
    kind("kill", 5, 0..=8, |rng, names| Fault::Kill(names.part(rng))),
    kind("stop", 5, 1..=20, |rng, names| Fault::Stop(names.part(rng))),
    kind("cut", 5, 1..=20, |rng, names| {
        Fault::Cut(names.link(rng), directions(rng))
    }),
    kind("refuse connections", 2, 1..=12, |rng, names| {
        Fault::Refuse(names.link(rng))
    }),
    kind("delay", 3, 1..=20, |rng, names| {
        let link = names.link(rng);
        let direction = *directions(rng).first().expect("one or two");
        Fault::Delay(link, direction, rng.random_range(20..=1500))
    }),
    kind("isolate", 3, 1..=15, |rng, names| {
        Fault::Isolate(names.part(rng))
    }),
    kind("redis refuses writes", 4, 8..=20, |_, _| Fault::NoReplicas),
    kind("redis is read-only", 2, 8..=20, |_, names| {
        match names.shape {
            Shape::Single => Fault::ReadOnly,
            Shape::Cluster => Fault::NoReplicas, // REPLICAOF is not allowed in a cluster
        }
    }),
    kind("redis failover", 3, 2..=8, |rng, _| {
        Fault::Failover(rng.random_range(0..3))
    }),
    kind("redis older", 3, 3..=15, |rng, _| {
        Fault::OlderRedis(rng.random_range(0..3))
    }),
    kind("redis empty", 2, 0..=3, |_, _| Fault::EmptyRedis),
    kind("redis full", 2, 3..=15, |_, _| Fault::FullRedis),
    kind("database restored", 3, 0..=2, |rng, _| {
        Fault::RestoreDatabase(rng.random_range(0..2))
    }),
    kind("tombstones purged", 5, 0..=1, |_, _| Fault::Purge),
    kind("flushed", 3, 0..=2, |_, _| Fault::Flush),
    kind("rolling restart", 3, 0..=2, |_, _| Fault::Rolling),
    kind("control plane without redis", 3, 6..=15, |_, _| {
        Fault::Stray
    }),
    kind("envoy reconfigured", 5, 20..=28, |rng, _| {
        Fault::Reconfigure(rng.random_range(0..ENVOYS), listeners(rng))
    }),
    kind("clock moved", 4, 1..=15, |rng, names| {
        let seconds = *[-90, -20, -2, 2, 20, 90].choose(rng).expect("a time");
        Fault::MovableClock(names.part(rng), seconds)
    }),
    kind("certificate rotated", 3, 6..=15, |rng, names| {
        let sides = [Side::ControlPlanes, Side::Edges, Side::Redis];
        let count = match names.shape {
            Shape::Single => 3,
            Shape::Cluster => 2,
        };
        Fault::RotateCertificates(sides[rng.random_range(0..count)])
    }),
    kind("token rotated", 3, 6..=15, |_, _| Fault::RotateToken),
    kind("certificate wrong", 3, 2..=15, |rng, names| {
        Fault::WrongCertificate(names.shower(rng))
    }),
];

/// Names of all kinds.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().chain(pressure::KINDS).map(|kind| kind.name)
}

fn directions(rng: &mut StdRng) -> Vec<Direction> {
    let ways = [
        vec![Direction::Requests],
        vec![Direction::Answers],
        vec![Direction::Requests, Direction::Answers],
    ];
    ways.choose(rng).expect("a way").clone()
}

/// A change and its reversal, or a refused one. The old listener drains for 20 s, and the next one follows sooner.
fn listeners(rng: &mut StdRng) -> Vec<(Listener, u64)> {
    let mut steps = vec![(Listener::Second, rng.random_range(800..4000))];
    if rng.random_bool(0.3) {
        steps.push((Listener::Refused, rng.random_range(500..2000)));
    }
    if rng.random_bool(0.3) {
        steps.push((Listener::First, rng.random_range(500..3000)));
        steps.push((Listener::Second, rng.random_range(500..3000)));
    }
    steps
}

/// A fault and its time, from the start of the storm on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) at: Duration,
    pub(super) lasts: Duration,
    pub(super) kind: &'static str,
    pub(super) fault: Fault,
    /// Resources that it needs exclusively, sorted.
    pub(super) resources: Vec<String>,
}

/// Faults of one storm, by lane: faults of different lanes may overlap, and share no resources.
pub(super) fn plan(seed: u64, storm: u64, names: &Names) -> Vec<Vec<Planned>> {
    let seed = seed.wrapping_add(storm.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut rng = StdRng::seed_from_u64(seed);
    let end = Duration::from_secs(rng.random_range(STORM_SECONDS));
    let mut lanes = vec![Vec::new(); LANES];
    let mut free = [Duration::ZERO; LANES];
    loop {
        // The first free lane comes next, so that overlaps are known.
        let lane = usize::from(free[1] < free[0]);
        let at = free[lane] + Duration::from_millis(rng.random_range(PAUSE_MS));
        if at >= end {
            return lanes;
        }
        free[lane] = at;
        if let Some(planned) = choose(KINDS, &mut rng, names, (at, &lanes)) {
            free[lane] += planned.lasts;
            lanes[lane].push(planned);
        }
    }
}

/// Chooses a fault for that time; `None` if the drawn one needs resources that the other lane holds then.
fn choose(
    kinds: &[FaultKind],
    rng: &mut StdRng,
    names: &Names,
    (at, lanes): (Duration, &[Vec<Planned>]),
) -> Option<Planned> {
    let is_wanted = |kind: &&FaultKind| {
        names.only.is_empty() || names.only.iter().any(|name| name == kind.name)
    };
    let kinds: Vec<&FaultKind> = kinds.iter().filter(is_wanted).collect();
    let kind = kinds.choose_weighted(rng, |kind| kind.weight).ok()?;
    let lasts = rng.random_range(kind.seconds.start() * 1000..=kind.seconds.end() * 1000);
    let lasts = Duration::from_millis(lasts);
    let fault = (kind.make)(rng, names);
    let mut resources = fault.resources(names);
    resources.sort_unstable();
    let is_taken = lanes.iter().flatten().any(|other| {
        let overlaps = other.at < at + lasts && at < other.at + other.lasts;
        overlaps && other.resources.iter().any(|name| resources.contains(name))
    });
    (!is_taken).then_some(Planned {
        at,
        lasts,
        kind: kind.name,
        fault,
        resources,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn names() -> Names {
        let parts = "cp-0 cp-1 envoy-0 envoy-1 mariadb redis-0 redis-1";
        let links = "cp-0>mariadb cp-0>redis cp-1>mariadb cp-1>redis envoy-0>cp-0 envoy-0>cp-1 envoy-0>redis \
                     envoy-1>cp-0 envoy-1>cp-1 envoy-1>redis redis>redis";
        let own = |names: &str| names.split(' ').map(str::to_owned).collect();
        Names {
            shape: Shape::Single,
            parts: own(parts),
            links: own(links),
            only: Vec::new(),
        }
    }

    #[test]
    fn short_run_when_planned_has_most_telling_faults() {
        let faults: Vec<Planned> = plan(SHORT_SEED, 0, &names())
            .into_iter()
            .flatten()
            .collect();
        for kind in [
            "redis refuses writes",
            "tombstones purged",
            "control plane without redis",
            "envoy reconfigured",
            "database restored",
        ] {
            assert!(faults.iter().any(|planned| planned.kind == kind), "{kind}");
        }
        let last = faults
            .iter()
            .map(|planned| planned.at + planned.lasts)
            .max();
        assert!(last < Some(Duration::from_secs(32)), "{last:?}");
    }

    #[test]
    fn plan_when_faults_are_chosen_has_no_others() {
        let names = Names {
            only: vec!["redis full".to_owned(), "kill".to_owned()],
            ..names()
        };
        let faults: Vec<Planned> = (0..20)
            .flat_map(|storm| plan(7, storm, &names))
            .flatten()
            .collect();
        assert!(!faults.is_empty());
        for planned in faults {
            assert!(
                ["redis full", "kill"].contains(&planned.kind),
                "{planned:?}"
            );
        }
    }

    #[test]
    fn plan_when_seed_is_equal_repeats() {
        assert_eq!(plan(1, 2, &names()), plan(1, 2, &names()));
        assert_ne!(plan(1, 2, &names()), plan(2, 2, &names()));
        assert_ne!(plan(1, 2, &names()), plan(1, 3, &names()));
    }

    #[test]
    fn faults_when_they_overlap_share_no_resource() {
        for storm in 0..200 {
            let [one, other]: [Vec<Planned>; 2] =
                plan(7, storm, &names()).try_into().expect("two lanes");
            for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
                let overlap = a.at < b.at + b.lasts && b.at < a.at + a.lasts;
                let common = a.resources.iter().any(|name| b.resources.contains(name));
                assert!(!(overlap && common), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn fault_kinds_when_many_storms_are_planned_all_come() {
        let faults = (0..200)
            .flat_map(|storm| plan(7, storm, &names()))
            .flatten();
        let pressures = (0..200).flat_map(|storm| plan_pressure(7, storm, &names(), &[]));
        let comes: HashSet<&str> = faults.chain(pressures).map(|one| one.kind).collect();
        assert_eq!(comes, kinds().collect());
    }

    #[test]
    fn pressure_when_it_overlaps_a_fault_shares_no_resource() {
        for storm in 0..200 {
            let lanes = plan(7, storm, &names());
            let pressure = plan_pressure(7, storm, &names(), &lanes);
            for (a, b) in pressure
                .iter()
                .flat_map(|a| lanes.iter().flatten().map(move |b| (a, b)))
            {
                let overlap = a.at < b.at + b.lasts && b.at < a.at + a.lasts;
                let common = a.resources.iter().any(|name| b.resources.contains(name));
                assert!(!(overlap && common), "{a:?} and {b:?}");
            }
        }
    }
}
