//! The faults, and what a job owes its user after each of them.

use clap::ValueEnum;
use multigrain_verify::sim::rng::Rng;
use rustix::net::Shutdown;
use rustix::process::Resource;
use std::fmt;
use std::time::Duration;

/// A sort of harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum FaultKind {
    /// SIGKILL of a node, of the launcher or of its watchdog.
    Kill,
    /// SIGSTOP of a node or of the launcher for 10 s, then SIGCONT.
    Stop,
    /// A connection loses one direction, or both (shutdown).
    Cut,
    /// A connection loses all that comes in, as if the other host were gone (a socket filter).
    Silence,
    /// Unauthenticated connections come to a node's listening socket and stay half open.
    Unauthenticated,
    /// /dev/shm is full.
    Shm,
    /// A limit of file size, which holds for memory objects too (RLIMIT_FSIZE).
    FileSize,
    /// A limit of address space: mappings end with ENOMEM (RLIMIT_AS).
    AddressSpace,
    /// A limit of private memory: heaps and stacks end with ENOMEM (RLIMIT_DATA).
    Data,
    /// A limit of file descriptors (RLIMIT_NOFILE).
    Descriptors,
}

/// From SIGSTOP to SIGCONT.
pub(super) const STOP: Duration = Duration::from_secs(10);
/// Until a host that has fallen silent is noticed.
const SILENCE: Duration = Duration::from_secs(30);

impl FaultKind {
    /// What its job takes at least.
    pub(super) fn least_time(self) -> Duration {
        if self == Self::Stop {
            STOP
        } else if self == Self::Silence {
            SILENCE
        } else {
            Duration::ZERO
        }
    }

    /// Whether several such jobs end within a minute.
    pub(super) fn is_quick(self) -> bool {
        self.least_time() < SILENCE
    }
}

/// Whom a fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A node, by rank.
    Node(u32),
    Launcher,
    Watchdog,
}

/// How a limit comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// From the start, with this value.
    Start(u64),
    /// At the moment, to what is in use then and so much more.
    Later(u64),
}

/// One fault in every detail, its moment apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Kill(Target),
    Stop(Target),
    Cut { node: u32, link: usize, how: Shutdown },
    Silence { node: u32, link: usize },
    Unauthenticated { node: u32 },
    Shm,
    Limit { kind: FaultKind, target: Target, limit: Limit },
}

impl FaultKind {
    /// One of this sort, for a job of so many nodes.
    pub(super) fn draw(self, random: &mut Rng, nodes: u32) -> Fault {
        let node = random.below32(nodes);
        let link = random.below32(nodes) as usize;
        match self {
            Self::Kill => match random.below32(6) {
                0 => Fault::Kill(Target::Launcher),
                1 => Fault::Kill(Target::Watchdog),
                _ => Fault::Kill(Target::Node(node)),
            },
            Self::Stop => match random.below32(5) {
                0 => Fault::Stop(Target::Launcher),
                _ => Fault::Stop(Target::Node(node)),
            },
            Self::Cut => {
                let how = random.pick(&[Shutdown::Read, Shutdown::Write, Shutdown::Both]);
                Fault::Cut { node, link, how }
            }
            Self::Silence => Fault::Silence { node, link },
            Self::Unauthenticated => Fault::Unauthenticated { node },
            Self::Shm => Fault::Shm,
            Self::FileSize | Self::AddressSpace | Self::Data | Self::Descriptors => {
                let target = match random.below32(4) {
                    0 => Target::Launcher,
                    _ => Target::Node(node),
                };
                Fault::Limit { kind: self, target, limit: self.draw_limit(random) }
            }
        }
    }

    /// Values that let a program start, and that hurt it.
    fn draw_limit(self, random: &mut Rng) -> Limit {
        let later = random.below32(2) == 0;
        let power =
            |random: &mut Rng, from: u32, to: u32| 1_u64 << (from + random.below32(to - from));
        match (self, later) {
            (Self::Descriptors, true) => Limit::Later(random.below32(4).into()),
            (Self::Descriptors, false) => Limit::Start(u64::from(4 + random.below32(36))),
            (_, true) => Limit::Later(u64::from(random.below32(128)) << 12),
            (Self::AddressSpace, false) => Limit::Start(power(random, 28, 38)),
            (Self::Data, false) => Limit::Start(power(random, 22, 28)),
            (_, false) => Limit::Start(power(random, 12, 36)),
        }
    }

    /// What the kernel calls the limit.
    pub(super) fn resource(self) -> Option<Resource> {
        match self {
            Self::FileSize => Some(Resource::Fsize),
            Self::AddressSpace => Some(Resource::As),
            Self::Data => Some(Resource::Data),
            Self::Descriptors => Some(Resource::Nofile),
            Self::Kill
            | Self::Stop
            | Self::Cut
            | Self::Silence
            | Self::Unauthenticated
            | Self::Shm => None,
        }
    }
}

impl Fault {
    /// Its sort.
    pub(super) fn kind(&self) -> FaultKind {
        match self {
            Self::Kill(_) => FaultKind::Kill,
            Self::Stop(_) => FaultKind::Stop,
            Self::Cut { .. } => FaultKind::Cut,
            Self::Silence { .. } => FaultKind::Silence,
            Self::Unauthenticated { .. } => FaultKind::Unauthenticated,
            Self::Shm => FaultKind::Shm,
            Self::Limit { kind, .. } => *kind,
        }
    }

    /// Whether the job has nothing to lose by it: the result must be there, and right.
    pub(super) fn is_harmless(&self) -> bool {
        matches!(
            self,
            Self::Stop(_) | Self::Unauthenticated { .. } | Self::Shm | Self::Kill(Target::Watchdog)
        )
    }

    /// Whether it hurts at the start only, when a program allocates and starts its threads.
    pub(super) fn hurts_early(&self) -> bool {
        matches!(self, Self::Limit { .. })
    }

    /// Whether there is a moment to wait for.
    pub(super) fn has_a_moment(&self) -> bool {
        !matches!(self, Self::Shm | Self::Limit { limit: Limit::Start(_), .. })
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value();
        out.write_str(name.as_ref().map_or("", |value| value.get_name()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(rank) => write!(out, "node {rank}"),
            Self::Launcher => write!(out, "the launcher"),
            Self::Watchdog => write!(out, "the watchdog"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(target) => write!(out, "SIGKILL to {target}"),
            Self::Stop(target) => write!(out, "SIGSTOP to {target}"),
            Self::Cut { node, how: Shutdown::Read, .. } => {
                write!(out, "a connection of node {node} cut for reading")
            }
            Self::Cut { node, how: Shutdown::Write, .. } => {
                write!(out, "a connection of node {node} cut for writing")
            }
            Self::Cut { node, how: Shutdown::Both, .. } => {
                write!(out, "a connection of node {node} cut")
            }
            Self::Silence { node, .. } => {
                write!(out, "a connection of node {node} receives nothing")
            }
            Self::Unauthenticated { node } => {
                write!(out, "half-open unauthenticated connections at node {node}")
            }
            Self::Shm => write!(out, "/dev/shm full"),
            Self::Limit { kind, target, limit: Limit::Start(value) } => {
                write!(out, "{kind} of {target} limited to {value}")
            }
            Self::Limit { kind, target, limit: Limit::Later(more) } => {
                write!(out, "{kind} of {target} lowered to use + {more}")
            }
        }
    }
}
