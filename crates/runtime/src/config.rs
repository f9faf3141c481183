//! The job as `multigrain run` describes it in the environment; without it, a job of one node.

use core::ops::RangeInclusive;
use std::env;
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::time::Duration;

use multigrain_memory::{GuardChoice, TrackingKind};
use multigrain_transport::Address;
use multigrain_types::{Consistency, NodeId, Placement};
use rustix::process::Pid;

use crate::error::Error;
use crate::receiver::WaitMode;
use crate::receiver::slots::MAX_THREADS;

/// A node's place in its job.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node's rank.
    pub rank: NodeId,
    /// Threads each node is meant to run.
    pub threads: u32,
    /// Job id, shared by all nodes.
    pub job: u128,
    /// Secret of the job: a node of one has it, until it joins.
    pub secret: Option<[u8; 32]>,
    /// Every node's address by rank; one entry for a job of one node.
    pub peers: Vec<Address>,
    /// This node's listening sockets.
    pub listen_fds: Vec<RawFd>,
    /// The launcher's end of this node's life.
    pub control_fd: Option<RawFd>,
    /// The process with which this node ends: its parent, where a process manager has started it.
    pub parent: Option<Pid>,
    /// How long this node waits for its peers at start; `None` for what the size of the job suggests.
    pub boot: Option<Duration>,
    /// Guard to use.
    pub guard: GuardChoice,
    /// How what homes of lazily consistent pages write is found.
    pub tracking: TrackingKind,
    /// How threads wait.
    pub wait: WaitMode,
    /// Who manages minipages.
    pub placement: Placement,
    /// Largest sum of all allocations, bytes of address space.
    pub shared_bytes: u64,
    /// First chunking level.
    pub chunk: u32,
    /// Whether minipages fetched in every interval between barriers are fetched ahead.
    pub learn: bool,
    /// Consistency of allocations that ask for none.
    pub consistency: Consistency,
    /// Whether release-consistent memory is checked for races.
    pub check_races: bool,
    /// Whether the node counts which minipages are lost for the sake of other parts of them.
    pub sharing: bool,
}

/// How long a node waits for its peers at start, and so much longer for each link of two nodes of the job:
/// those of a host make them all with its processors.
const BOOT_DEADLINE: Duration = Duration::from_secs(30);
const BOOT_DEADLINE_FOR_EACH: Duration = Duration::from_micros(500);
/// More than any node waits; a year.
const MOST_BOOT_SECONDS: f64 = 31_536_000.0;
/// Shared size when nothing is said: address space, not memory.
const DEFAULT_SHARED_BYTES: u64 = 64 << 30;

/// The variables of a node, by their names without the prefix `MULTIGRAIN_`.
pub(crate) struct Variables<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Config {
    /// Most threads that a node may be meant to run: as many as there can be.
    #[expect(clippy::cast_possible_truncation, reason = "a few thousand")]
    pub const MOST_THREADS: u32 = MAX_THREADS as u32;
    /// Largest chunking level.
    pub const LARGEST_CHUNK: u32 = 1 << 16;
    /// Largest shared size, bytes.
    pub const MOST_SHARED_BYTES: u64 = multigrain_memory::MOST_OBJECT_BYTES;

    /// A job of one node.
    #[must_use]
    pub fn single() -> Self {
        Self {
            rank: NodeId(0),
            threads: 1,
            job: 0,
            secret: None,
            peers: Vec::new(),
            listen_fds: Vec::new(),
            control_fd: None,
            parent: None,
            boot: None,
            guard: GuardChoice::Auto,
            tracking: TrackingKind::Faults,
            wait: WaitMode::default(),
            placement: Placement::default(),
            shared_bytes: DEFAULT_SHARED_BYTES,
            chunk: 1,
            learn: true,
            consistency: Consistency::default(),
            check_races: false,
            sharing: false,
        }
    }

    /// The secret to join with: none of use in a job without peers.
    ///
    /// # Errors
    /// A process that has a node's environment but for the secret, which that node took out.
    pub(crate) fn secret_to_join(&self) -> Result<[u8; 32], Error> {
        match self.secret {
            Some(secret) => Ok(secret),
            None if self.peers.is_empty() => Ok([0; 32]),
            None => Err(started_by_node()),
        }
    }

    /// How long this node waits for its peers at start, of a job of so many nodes.
    pub(crate) fn boot_deadline(&self, nodes: usize) -> Duration {
        let links = nodes.saturating_mul(nodes) / 2;
        let links = u32::try_from(links).unwrap_or(u32::MAX);
        self.boot.unwrap_or(BOOT_DEADLINE + BOOT_DEADLINE_FOR_EACH * links)
    }

    /// Reads the environment that `multigrain run` sets.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the variable that makes no sense.
    pub fn from_environment() -> Result<Self, Error> {
        let get = |name: &str| env::var_os(name);
        let mut config = Self::of_job(&get)?;
        let variables = Variables(&get);
        if let Some(rank) = variables.get("RANK")? {
            config.rank = NodeId(number("RANK", &rank, 0..=u16::MAX - 1)?);
            config.join(&variables)?;
        }
        Ok(config)
    }

    /// Reads those of a node's variables that all nodes of a job have alike.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the variable that makes no sense.
    pub fn of_job(get: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let variables = Variables(get);
        let variable = |name| variables.get(name);
        let mut config = Self::single();
        if let Some(threads) = variable("THREADS")? {
            config.threads = number("THREADS", &threads, 1..=Self::MOST_THREADS)?;
        }
        if let Some(text) = variable("BOOT_SECONDS")? {
            let seconds = number("BOOT_SECONDS", &text, 0.0..=MOST_BOOT_SECONDS)?;
            config.boot = Some(Duration::from_secs_f64(seconds));
        }
        if let Some(text) = variable("SHARED")? {
            config.shared_bytes = number("SHARED", &text, 1..=Self::MOST_SHARED_BYTES)?;
        }
        if let Some(text) = variable("CHUNK")? {
            config.chunk = number("CHUNK", &text, 1..=Self::LARGEST_CHUNK)?;
        }
        if let Some(text) = variable("LEARN")? {
            config.learn = choose("LEARN", &text, &[("on", true), ("off", false)])?;
        }
        if let Some(text) = variable("CONSISTENCY")? {
            config.consistency = consistency(&text)?;
        }
        if let Some(text) = variable("CHECK_RACES")? {
            config.check_races = choose("CHECK_RACES", &text, &[("on", true), ("off", false)])?;
        }
        if let Some(text) = variable("SHARING")? {
            config.sharing = choose("SHARING", &text, &[("on", true), ("off", false)])?;
        }
        if let Some(text) = variable("GUARD")? {
            config.guard = choose(
                "GUARD",
                &text,
                &[
                    ("auto", GuardChoice::Auto),
                    ("uffd", GuardChoice::Uffd),
                    ("mprotect", GuardChoice::Mprotect),
                ],
            )?;
        }
        if let Some(text) = variable("TRACKING")? {
            let kinds = [("faults", TrackingKind::Faults), ("scans", TrackingKind::Scans)];
            config.tracking = choose("TRACKING", &text, &kinds)?;
        }
        if config.tracking == TrackingKind::Scans {
            config.scan()?;
        }
        if let Some(text) = variable("WAIT")? {
            config.wait = choose(
                "WAIT",
                &text,
                &[
                    ("spin", WaitMode::Spin),
                    ("yield", WaitMode::Yield),
                    ("block", WaitMode::Block),
                    ("adaptive", WaitMode::Adaptive),
                ],
            )?;
        }
        if let Some(text) = variable("MANAGER")? {
            config.placement = choose(
                "MANAGER",
                &text,
                &[
                    ("first", Placement::First),
                    ("spread", Placement::Spread),
                    ("allocator", Placement::Allocator),
                ],
            )?;
        }
        Ok(config)
    }

    /// Scans leave only one guard.
    fn scan(&mut self) -> Result<(), Error> {
        if self.check_races {
            return Err(Error::Invalid(
                "races are found by faults: no --check-races with --tracking scans".to_owned(),
            ));
        }
        if self.guard == GuardChoice::Auto {
            self.guard = GuardChoice::Mprotect;
        }
        Ok(())
    }

    /// The variables that only a launched node has.
    fn join(&mut self, variables: &Variables<'_>) -> Result<(), Error> {
        if variables.get("NODES")?.is_none() && variables.get("SECRET")?.is_none() {
            // All that a node of a process manager leaves.
            return Err(started_by_node());
        }
        let nodes = number("NODES", &variables.required("NODES")?, 1..=usize::from(u16::MAX))?;
        let job = variables.required("JOB")?;
        self.job = u128::from_str_radix(&job, 16).map_err(|_| wrong("JOB", &job))?;
        if let Some(secret) = variables.get("SECRET")? {
            let secret = hex_secret(&secret);
            self.secret = Some(secret.ok_or_else(|| wrong("SECRET", "(not 64 hex digits)"))?);
        }
        let peers = variables.required("PEERS")?;
        self.peers = peers
            .split(',')
            .map(|peer| peer.parse::<Address>().map_err(|_| wrong("PEERS", peer)))
            .collect::<Result<_, _>>()?;
        if self.peers.len() != nodes || self.rank.index() >= nodes {
            return Err(wrong(
                "NODES",
                &format!("{nodes}, with {} peers and rank {}", self.peers.len(), self.rank.0),
            ));
        }
        if let Some(fds) = variables.get("LISTEN_FD")? {
            let fds = fds.split(',').map(|fd| descriptor("LISTEN_FD", fd));
            self.listen_fds = fds.collect::<Result<_, _>>()?;
        }
        if let Some(fd) = variables.get("CONTROL_FD")? {
            self.control_fd = Some(descriptor("CONTROL_FD", &fd)?);
        }
        Ok(())
    }
}

impl<'a> Variables<'a> {
    /// Those of an environment.
    pub(crate) fn new(environment: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Self(environment)
    }

    /// One that is set, and not empty.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it is no text.
    pub(crate) fn get(&self, name: &str) -> Result<Option<String>, Error> {
        match (self.0)(&format!("MULTIGRAIN_{name}")).map(OsString::into_string) {
            Some(Ok(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(Err(_)) => Err(wrong(name, "(not text)")),
            None => Ok(None),
        }
    }

    fn required(&self, name: &str) -> Result<String, Error> {
        self.get(name)?.ok_or_else(|| {
            Error::Invalid(format!(
                "MULTIGRAIN_RANK is set but MULTIGRAIN_{name} is not; start the program with `multigrain run`"
            ))
        })
    }
}

fn started_by_node() -> Error {
    Error::Invalid(
        "MULTIGRAIN_RANK is set but the job's secret is not: a node started this program, and only \
         `multigrain run` makes nodes; unset MULTIGRAIN_RANK to make it a job of its own"
            .into(),
    )
}

fn wrong(name: &str, text: &str) -> Error {
    Error::Invalid(format!("MULTIGRAIN_{name} cannot be {text}"))
}

fn number<T>(name: &str, text: &str, range: RangeInclusive<T>) -> Result<T, Error>
where
    T: core::str::FromStr + PartialOrd + core::fmt::Display,
{
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        wrong(name, &format!("{text}: it is a number from {least} to {most}"))
    })
}

fn descriptor(name: &str, text: &str) -> Result<RawFd, Error> {
    number(name, text, 0..=RawFd::MAX)
}

/// The one of these choices that a variable's text is.
///
/// # Errors
/// [`Error::Invalid`] with the choices.
pub(crate) fn choose<T: Copy>(name: &str, text: &str, choices: &[(&str, T)]) -> Result<T, Error> {
    let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    chosen.ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        wrong(name, &format!("{text}: it is {}", words.join(" or ")))
    })
}

fn consistency(text: &str) -> Result<Consistency, Error> {
    text.parse().map_err(|why| Error::Invalid(format!("MULTIGRAIN_CONSISTENCY: {why}, not {text}")))
}

fn hex_secret(text: &str) -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in secret.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_sixty_four_hex_digits_and_nothing_else() {
        assert_eq!(hex_secret(&"0f".repeat(32)), Some([15; 32]));
        assert_eq!(hex_secret(&"0f".repeat(31)), None);
        assert_eq!(hex_secret(&"0g".repeat(32)), None);
    }

    #[test]
    fn a_node_without_its_secret_is_told_why_and_a_job_of_one_needs_none() {
        let alone = Config::single();
        assert_eq!(alone.secret_to_join().unwrap(), [0; 32]);
        let peers = vec!["tcp:127.0.0.1:9".parse().unwrap()];
        let child = Config { peers: peers.clone(), ..Config::single() };
        let why = child.secret_to_join().unwrap_err().to_string();
        assert!(why.contains("a node started this program"), "{why}");
        let node = Config { peers, secret: Some([7; 32]), ..Config::single() };
        assert_eq!(node.secret_to_join().unwrap(), [7; 32]);
    }

    #[test]
    fn a_consistency_goes_by_its_name_and_an_unknown_one_gets_the_names() {
        for known in Consistency::ALL {
            assert_eq!(consistency(known.name()).unwrap(), known);
        }
        let error = consistency("lazy").unwrap_err().to_string();
        let names = "a consistency is sequential, eager-release, lazy-release or auto";
        assert_eq!(error, format!("invalid argument: MULTIGRAIN_CONSISTENCY: {names}, not lazy"));
    }

    #[test]
    fn what_all_nodes_have_alike_is_read_from_whatever_has_it() {
        let of = |name: &'static str, value: &'static str| {
            Config::of_job(&move |asked| (asked == name).then(|| value.into()))
        };
        assert_eq!(of("MULTIGRAIN_THREADS", "4096").unwrap().threads, 4096);
        assert_eq!(of("MULTIGRAIN_CHUNK", "65536").unwrap().chunk, 65_536);
        assert_eq!(of("MULTIGRAIN_RANK", "nonsense").unwrap().rank, NodeId(0));
        for (name, value) in [
            ("MULTIGRAIN_THREADS", "4097"),
            ("MULTIGRAIN_CHUNK", "65537"),
            ("MULTIGRAIN_SHARED", "1098412116148224"),
            ("MULTIGRAIN_WAIT", "doze"),
        ] {
            let error = of(name, value).unwrap_err().to_string();
            assert!(error.contains(&format!("{name} cannot be {value}")), "{error}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named_and_so_is_what_would() {
        let error = choose("WAIT", "doze", &[("spin", 1), ("block", 2)]).unwrap_err().to_string();
        assert_eq!(error, "invalid argument: MULTIGRAIN_WAIT cannot be doze: it is spin or block");
        let error = descriptor("LISTEN_FD", "-1").unwrap_err().to_string();
        let words = "MULTIGRAIN_LISTEN_FD cannot be -1: it is a number from 0 to 2147483647";
        assert_eq!(error, format!("invalid argument: {words}"));
        for (text, range) in [("1G", 1..=9), ("0", 1..=9), ("99999999999", 1..=9)] {
            let error = number::<u32>("CHUNK", text, range).unwrap_err().to_string();
            let words = format!("MULTIGRAIN_CHUNK cannot be {text}: it is a number from 1 to 9");
            assert_eq!(error, format!("invalid argument: {words}"));
        }
    }
}
