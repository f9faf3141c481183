//! The job as `multigrain run` describes it in the environment; without that, a job of one node.

mod launch;
mod limits;
mod misspelt;
mod variables;

use core::num::NonZeroUsize;
use std::env;
use std::ffi::OsString;
use std::time::Duration;

use multigrain_memory::{AccessPath, Config as MemoryConfig, GuardChoice, TrackingKind};
use multigrain_transport::{Emulation, Transport};
use multigrain_types::limits::MAX_THREADS;
use multigrain_types::{Consistency, NodeId, Placement};

use crate::error::Error;
use crate::receiver::{ServiceLevel, WaitMode};
pub use launch::Launch;
use limits::{DEFAULT_SHARED_BYTES, MOST_BOOT_SECONDS};
pub(crate) use misspelt::{misspelt, nodes_of_nobody};
pub(crate) use variables::{Variables, choose};
use variables::{number, wrong};

/// A node's place in its job.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node's rank.
    pub rank: NodeId,
    /// Threads each node is meant to run.
    pub threads: u32,
    /// How it finds the others.
    pub launch: Launch,
    /// Its shared memory: the largest sum of all allocations, their policy, its guard.
    pub memory: MemoryConfig,
    /// How threads wait.
    pub wait: WaitMode,
    /// Who receives while they do.
    pub service: ServiceLevel,
    /// Whether minipages fetched in every interval between barriers are fetched ahead.
    pub learn: bool,
    /// Whether release-consistent memory is checked for races.
    pub check_races: bool,
    /// Whether the node counts which minipages are lost for the sake of other parts of them.
    pub sharing: bool,
}

impl Config {
    /// A job of one node.
    #[must_use]
    pub fn single() -> Self {
        Self {
            rank: NodeId(0),
            threads: 1,
            launch: Launch::default(),
            memory: MemoryConfig::new(DEFAULT_SHARED_BYTES, GuardChoice::Auto),
            wait: WaitMode::default(),
            service: ServiceLevel::default(),
            learn: true,
            check_races: false,
            sharing: false,
        }
    }

    /// Reads the environment that `multigrain run` sets.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the variable that makes no sense.
    pub fn from_environment() -> Result<Self, Error> {
        let get = |name: &str| env::var_os(name);
        let mut config = Self::of_job(&get)?;
        let variables = Variables::new(&get);
        if let Some(rank) = variables.get("RANK")? {
            config.rank = NodeId(number("RANK", &rank, 0..=u16::MAX - 1)?);
            config.launch.read(config.rank, &variables)?;
        }
        Ok(config)
    }

    /// Reads those of a node's variables that all nodes of a job have alike.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the variable that makes no sense.
    pub fn of_job(get: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let variables = Variables::new(get);
        let variable = |name| variables.get(name);
        let mut config = Self::single();
        config.read_links(&variables)?;
        config.read_memory(&variables)?;
        if let Some(threads) = variable("THREADS")? {
            config.threads = number("THREADS", &threads, 1..=MAX_THREADS)?;
        }
        if let Some(text) = variable("LEARN")? {
            config.learn = choose("LEARN", &text, &[("on", true), ("off", false)])?;
        }
        if let Some(text) = variable("CHECK_RACES")? {
            config.check_races = choose(
                "CHECK_RACES",
                &text,
                &[("on", true), ("first", true), ("all", true), ("off", false)],
            )?;
        }
        if let Some(text) = variable("SHARING")? {
            config.sharing = choose("SHARING", &text, &[("on", true), ("off", false)])?;
        }
        if config.memory.tracking == TrackingKind::Scans {
            config.scan()?;
        }
        if let Some(text) = variable("SERVICE")? {
            let levels = ServiceLevel::ALL.map(|level| (level.name(), level));
            config.service = choose("SERVICE", &text, &levels)?;
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
        Ok(config)
    }

    /// What links are made, and how long that may take.
    fn read_links(&mut self, variables: &Variables<'_>) -> Result<(), Error> {
        if let Some(text) = variables.get("BOOT_SECONDS")? {
            let seconds =
                text.parse().ok().filter(|seconds| (0.0..=MOST_BOOT_SECONDS).contains(seconds));
            let boot = seconds.map(Duration::from_secs_f64).filter(|boot| !boot.is_zero());
            self.launch.boot = Some(boot.ok_or_else(|| {
                let range = format!("above 0, such as 30, and at most {MOST_BOOT_SECONDS}");
                wrong("BOOT_SECONDS", &format!("{text}: it is {range}"))
            })?);
        }
        if let Some(text) = variables.get("EMULATE")? {
            let network = text.parse::<Emulation>();
            self.launch.links.emulate =
                Some(network.map_err(|why| wrong("EMULATE", &format!("{text}: {why}")))?);
        }
        if let Some(text) = variables.get("HANDSHAKE")? {
            self.launch.links.handshake = match text.as_str() {
                "off" => None,
                text => NonZeroUsize::new(number("HANDSHAKE", text, Self::PARTS)?),
            };
        }
        if let Some(text) = variables.get("TRANSPORT")? {
            let transport = text.parse::<Transport>();
            self.launch.links.transport =
                transport.map_err(|why| wrong("TRANSPORT", &why.to_string()))?;
        }
        Ok(())
    }

    /// How much memory is shared, how, and how accesses are seen.
    fn read_memory(&mut self, variables: &Variables<'_>) -> Result<(), Error> {
        if let Some(text) = variables.get("SHARED")? {
            let bytes = Self::parse_shared_size(&text);
            self.memory.shared_bytes =
                bytes.map_err(|why| wrong("SHARED", &format!("{text}: {why}")))?;
        }
        if let Some(text) = variables.get("CHUNK")? {
            self.memory.policy.chunk = number("CHUNK", &text, 1..=Self::LARGEST_CHUNK)?;
        }
        if let Some(text) = variables.get("CONSISTENCY")? {
            self.memory.policy.consistency = consistency(&text)?;
        }
        if let Some(text) = variables.get("MANAGER")? {
            self.memory.policy.placement = choose(
                "MANAGER",
                &text,
                &[
                    ("auto", None),
                    ("first", Some(Placement::First)),
                    ("spread", Some(Placement::Spread)),
                    ("block", Some(Placement::Block)),
                    ("allocator", Some(Placement::Allocator)),
                ],
            )?;
        }
        if let Some(text) = variables.get("GUARD")? {
            self.memory.guard = choose(
                "GUARD",
                &text,
                &[
                    ("auto", GuardChoice::Auto),
                    ("uffd", GuardChoice::Uffd),
                    ("mprotect", GuardChoice::Mprotect),
                ],
            )?;
        }
        if let Some(text) = variables.get("PATH")? {
            let path = text.parse::<AccessPath>();
            self.memory.path = path.map_err(|why| wrong("PATH", &format!("{text}: {why}")))?;
        }
        if let Some(text) = variables.get("TRACKING")? {
            let kinds = [("faults", TrackingKind::Faults), ("scans", TrackingKind::Scans)];
            self.memory.tracking = choose("TRACKING", &text, &kinds)?;
        }
        Ok(())
    }

    /// Scans leave only one guard.
    fn scan(&mut self) -> Result<(), Error> {
        if self.check_races {
            return Err(Error::Invalid(
                "races are found by faults: no --check-races with --tracking scans".to_owned(),
            ));
        }
        if self.memory.guard == GuardChoice::Auto {
            self.memory.guard = GuardChoice::Mprotect;
        }
        Ok(())
    }
}

fn consistency(text: &str) -> Result<Consistency, Error> {
    text.parse().map_err(|why| Error::Invalid(format!("MULTIGRAIN_CONSISTENCY: {why}, not {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(of("MULTIGRAIN_CHUNK", "65536").unwrap().memory.policy.chunk, 65_536);
        assert_eq!(of("MULTIGRAIN_SHARED", "1048576").unwrap().memory.shared_bytes, 1 << 20);
        assert_eq!(of("MULTIGRAIN_SHARED", "1G").unwrap().memory.shared_bytes, 1 << 30);
        assert_eq!(of("MULTIGRAIN_TRANSPORT", "tcp").unwrap().launch.links.transport.name(), "tcp");
        for path in AccessPath::ALL {
            assert_eq!(of("MULTIGRAIN_PATH", path.name()).unwrap().memory.path, path);
        }
        let parts = of("MULTIGRAIN_HANDSHAKE", "1024").unwrap().launch.links.handshake;
        assert_eq!(parts.map(NonZeroUsize::get), Some(1024));
        assert_eq!(of("MULTIGRAIN_HANDSHAKE", "off").unwrap().launch.links.handshake, None);
        assert_eq!(of("MULTIGRAIN_SERVICE", "polling").unwrap().service, ServiceLevel::Polling);
        assert_eq!(of("MULTIGRAIN_RANK", "nonsense").unwrap().rank, NodeId(0));
        assert!(of("MULTIGRAIN_CHECK_RACES", "first").unwrap().check_races);
        for seconds in ["-1", "0"] {
            let error = of("MULTIGRAIN_BOOT_SECONDS", seconds).unwrap_err().to_string();
            assert!(error.ends_with("it is above 0, such as 30, and at most 31536000"), "{error}");
        }
        for (name, value) in [
            ("MULTIGRAIN_THREADS", "4097"),
            ("MULTIGRAIN_CHUNK", "65537"),
            ("MULTIGRAIN_SHARED", "1098412116148224"),
            ("MULTIGRAIN_SHARED", "12Q"),
            ("MULTIGRAIN_WAIT", "doze"),
            ("MULTIGRAIN_BOOT_SECONDS", "0"),
            ("MULTIGRAIN_BOOT_SECONDS", "1e-30"),
            ("MULTIGRAIN_EMULATE", "50"),
            ("MULTIGRAIN_HANDSHAKE", "0"),
            ("MULTIGRAIN_SERVICE", "always"),
            ("MULTIGRAIN_TRANSPORT", "pigeon"),
            ("MULTIGRAIN_PATH", "garden"),
        ] {
            let error = of(name, value).unwrap_err().to_string();
            assert!(error.contains(&format!("{name} cannot be {value}")), "{error}");
        }
    }
}
